"""Measure learners for fixed items, each figure a ratio or a limit.

Ratios are medians over repetitions in which both sides run one after the other, since machines are noisy.

    python benchmarks/fixed_items.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from clock import seconds as processor_seconds
from rich.console import Console
from rich.table import Table

from peekrank import CT15, DCG, Agent, RTop1F, simulate
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.runs import run
from peekrank.regret import best_values, default_checkpoints, regret
from peekrank.types import Floats, Rounds


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def numpy_rtop1f(relevance: Floats, horizon: int, seed: int) -> Floats:
    """Run a straightforward NumPy version of RTop-1F, and return its regret at checkpoints."""
    rng = np.random.default_rng(seed)
    m = relevance.shape[1]
    blocks = max(1, min(round(m ** (-1 / 3) * horizon ** (2 / 3)), horizon // m))
    width = np.sqrt(m * blocks)
    discount = 1 / np.log2(np.arange(2, m + 2))
    scores, values = np.zeros(m), np.empty(horizon)
    for b in range(blocks):
        low, high = b * horizon // blocks, (b + 1) * horizon // blocks
        item_at = np.full(high - low, -1)
        item_at[rng.choice(high - low, m, replace=False)] = np.arange(m)
        estimate = np.zeros(m)
        for t in range(low, high):
            ranking = np.argsort(-(scores + width * rng.random(m)))
            item = item_at[t - low]
            if item >= 0:
                ranking = np.concatenate(([item], ranking[ranking != item]))
                estimate[item] = relevance[t, item]
            values[t] = discount @ relevance[t, ranking]
        scores += estimate
    checkpoints = default_checkpoints(horizon) - 1
    best = -np.sort(-np.cumsum(relevance, axis=0)[checkpoints], axis=1) @ discount
    return np.asarray(best - np.cumsum(values)[checkpoints])


def peekrank_rtop1f(rounds: Rounds, horizon: int) -> Floats:
    trace = simulate(
        RTop1F(DCG(), horizon=horizon), rounds, k=1, measure=DCG(), checkpoints=default_checkpoints(horizon)
    )
    return regret(DCG(), trace, best_values(DCG(), rounds, trace.checkpoints))


def against_numpy(m: int, horizon: int, repetitions: int = 7) -> tuple[float, float, float]:
    """Return the CPU nanoseconds per round of both, and the median ratio."""
    rounds = CT15(m=m).rounds(horizon, np.random.default_rng(1))
    relevance = rounds.relevance.reshape(horizon, m).astype(np.float64)
    peekrank_rtop1f(rounds, horizon)
    pairs = np.array(
        [
            (
                processor_seconds(lambda: numpy_rtop1f(relevance, horizon, 0)),
                processor_seconds(lambda: peekrank_rtop1f(rounds, horizon)),
            )
            for _ in range(repetitions)
        ]
    )
    numpy_ns, our_ns = np.median(pairs, axis=0) / horizon * 1e9
    return float(numpy_ns), float(our_ns), float(np.median(pairs[:, 0] / pairs[:, 1]))


def nanoseconds(m: int) -> float:
    horizon = max(1000, 2_000_000 // m)
    rounds = CT15(m=m).rounds(horizon, np.random.default_rng(1))
    peekrank_rtop1f(rounds, horizon)
    return float(np.median([seconds(lambda: peekrank_rtop1f(rounds, horizon)) for _ in range(5)])) / horizon * 1e9


def threads() -> float:
    """Return the speed-up of ten runs by two threads."""
    experiment = Experiment(("rtop1f",), "ct15:m=100", "dcg", k=1, horizon=100_000, runs=10)

    def with_workers(workers: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return seconds(lambda: run(experiment, Path(folder), workers=workers))

    with_workers(1)
    return float(np.median([with_workers(1) / with_workers(2) for _ in range(9)]))


def agent_microseconds(rounds: int = 20_000) -> float:
    agent = Agent(RTop1F(DCG(), horizon=rounds), m=10, k=1)

    def loop() -> None:
        for t in range(rounds):
            agent.update(agent.rank(), (t & 1,))

    return seconds(loop) / rounds * 1e6


def main() -> None:
    table = Table("figure", "measured here", "wanted", title="RTop-1F over a fixed set of items, DCG, k = 1")
    for m, horizon, wanted in ((10, 20_000, 40), (100, 10_000, 8), (1000, 4_000, 2.5)):
        numpy_ns, our_ns, ratio = against_numpy(m, horizon)
        table.add_row(
            f"simulation with regret curve, m = {m}: a NumPy loop / peekrank",
            f"{numpy_ns:,.0f} / {our_ns:,.0f} ns a round = {ratio:.1f}x",
            f">= {wanted}x",
        )
    costs = {m: nanoseconds(m) for m in (10, 100, 1000, 10_000)}
    growth = costs[10_000] / costs[10]
    table.add_row(
        "cost a round, m = 10, 100, 1,000, 10,000",
        ", ".join(f"{ns:,.0f}" for ns in costs.values()) + f" ns; growth {growth:,.0f}x",
        f"<= {10_000 * np.log(10_000) / (10 * np.log(10)):,.0f}x (m log m)",
    )
    table.add_row("ten runs on two threads / on one", f"{threads():.2f}x", ">= 1.7x")
    ours = np.median([agent_microseconds() for _ in range(5)])
    table.add_row("Agent.rank + update, m = 10", f"{ours:.1f} us", "<= 15 us")
    rounds = CT15(m=100).rounds(10**6, np.random.default_rng(0))
    size = rounds.features.nbytes + rounds.relevance.nbytes + rounds.offsets.nbytes
    table.add_row("10^6 rounds of 100 items", f"{size / 1e6:,.0f} MB", "< 1,000 MB")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
