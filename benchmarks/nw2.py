"""Measure a round of NeighborhoodWatch2 against one dense solve, which the paper's version needs in each round.

Ratios are medians over repetitions in which both sides run one after the other, on one thread, in processor time,
since machines are noisy.

    python benchmarks/nw2.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import comb

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from peekrank import fixed_items, simulate
from peekrank.learners.nw2.learner import NW2
from peekrank.measures import Precision
from peekrank.types import Floats

_LONG = 10**9  # long enough for the bound to speak at all these sizes


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def dense(size: int, count: int) -> Callable[[], None]:
    """Solve p Q = p with sum 1 for a matrix Q of this size, repeatedly."""
    Q = np.random.default_rng(0).random((size, size))
    system = np.eye(size) - (Q / Q.sum(axis=1, keepdims=True)).T
    system[-1] = 1
    right = np.zeros(size)
    right[-1] = 1

    def solve() -> None:
        for _ in range(count):
            np.linalg.solve(system, right)

    return solve


def microseconds(m: int, n: int, rounds: int, horizon: int, repetitions: int = 9) -> tuple[Floats, Floats]:
    """Times of a round, of a solve with all actions and of one with all classes, and their ratios to the round."""
    rng = np.random.default_rng(1)
    stream = fixed_items((rng.random((rounds, m)) < np.linspace(0.8, 0.2, m)).astype(int))
    learner, measure, checkpoints = (
        NW2(Precision(n, mean=False), horizon),
        Precision(n, mean=False),
        np.array([rounds]),
    )
    count = max(3, 1_000_000 // (n * comb(m, n)) ** 2)
    actions, classes = dense(n * comb(m, n), count), dense(comb(m, n), count)

    def measured() -> list[float]:
        ours = seconds(lambda: simulate(learner, stream, k=1, measure=measure, checkpoints=checkpoints)) / rounds
        return [ours, seconds(actions) / count, seconds(classes) / count]

    measured()
    times = np.array([measured() for _ in range(repetitions)])
    return np.median(times, axis=0) * 1e6, np.median(times[:, 1:] / times[:, :1], axis=0)


def main() -> None:
    table = Table(
        "P@n",
        "rounds of horizon",
        "classes",
        "actions",
        "a round",
        "solve, all actions",
        "solve, all classes",
        title="NeighborhoodWatch2",
    )
    for m, n, rounds, horizon in (
        (6, 2, 20_000, _LONG),
        (10, 2, 20_000, _LONG),
        (10, 2, 100_000, 100_000),  # at the end one class has most of the shares
        (15, 2, 5_000, _LONG),
        (10, 3, 5_000, _LONG),
        (10, 5, 2_000, _LONG),
    ):
        (ours, actions, classes), ratios = microseconds(m, n, rounds, horizon)
        table.add_row(
            f"m = {m}, n = {n}",
            f"{rounds:,} of {horizon:,}",
            f"{comb(m, n)}",
            f"{n * comb(m, n)}",
            f"{ours:,.1f} us",
            f"{actions:,.0f} us = {ratios[0]:,.1f}x",
            f"{classes:,.0f} us = {ratios[1]:,.1f}x",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
