"""Measure learning with features, each figure a ratio or a limit.

The data has the shape of Yahoo LTRC set 1 (700 features, about 24 documents per query) with half of its queries,
0.66 GB, shown in random order. Both sides of a ratio run in turns; times are of the processor, the best of the
repetitions, since machines are shared.

    python benchmarks/features.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import sqrt

import numpy as np
from clock import in_turns, seconds
from rich.console import Console
from rich.table import Table

from peekrank import NDCG, Agent, simulate
from peekrank._jit import kernel
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.engine import simulate_all
from peekrank.kernels.vectors import dot
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.surrogates import KL, ListNet, RankSVM, SmoothDCG, Squared
from peekrank.types import Features, Floats, Ints, Rounds

T, PAPERS_T = 50_000, 250_000
REPETITIONS = 5
MEASURE = NDCG(10)
LEARNERS = {
    "default": (RTopKF(), 1),
    "squared, printed": (RTopKF.from_paper(Squared(), T), 1),
    "kl, printed": (RTopKF.from_paper(KL(), T), 1),
    "smoothdcg, printed": (RTopKF.from_paper(SmoothDCG(), T), 1),
    "ranksvm, printed": (RTopKF.from_paper(RankSVM(), T), 2),
    "listnet, full information": (RTopKF(ListNet(), T, step="theorem"), 1),
}
HARRIE_O_PDGD = 1540  # impressions a second, 20 documents of 46 features: the figure of its author


def numpy_loop(rounds: Rounds, sequence: Ints, seed: int) -> float:
    """Run a straightforward NumPy version of the default learner, and return mean NDCG@10."""
    rng = np.random.default_rng(seed)
    w = np.zeros(rounds.features.shape[1], dtype=np.float32)
    largest = squares = value = 0.0
    discount = 1 / np.log2(np.arange(2, 12))
    for t, n in enumerate(sequence, 1):
        rows = slice(rounds.offsets[n], rounds.offsets[n + 1])
        X, relevance = rounds.features[rows], rounds.relevance[rows]
        scores = X @ w
        order = np.argsort(-scores, kind="stable")
        gamma, m = min(0.5, t ** (-1 / 3)), len(X)
        spread = float(scores.max() - scores.min()) or 1.0
        propensities = np.exp((scores - scores.max()) / (0.05 * spread))
        propensities /= propensities.sum()
        explores, u = rng.random(2)
        top = min(m - 1, int(u * m if explores < gamma else np.searchsorted(propensities.cumsum(), u)))
        order = np.concatenate(([top], order[order != top]))
        propensity = gamma / m + (1 - gamma) * propensities[top]
        z = np.float32(2 * (scores[top] - relevance[top]) / propensity) * X[top]
        largest, squares = max(largest, float(X[top] @ X[top])), squares + float(z @ z)
        if squares > 0:
            w -= np.float32(1 / sqrt(largest * squares)) * z
        gains = np.exp2(relevance) - 1
        best = np.sort(gains)[::-1][:10] @ discount[:m]
        value += float(gains[order[:10]] @ discount[:m] / best) if best > 0 else 1
    return float(value / len(sequence))


@kernel
def scores_only(features: Features, offsets: Ints, sequence: Ints, w: Features, out: Floats) -> None:
    """Do the minimum of every learner: read the features of a list, and score it."""
    for n in sequence:
        for row in range(offsets[n], offsets[n + 1]):
            out[row - offsets[n]] = dot(features[row], w)


def yahoo(table: Table) -> None:
    rounds = make_dataset("yahoo", np.random.default_rng(0), scale=0.5).rounds()
    sequence = np.random.default_rng(1).integers(0, len(rounds.offsets) - 1, PAPERS_T)
    few, end = sequence[:T], np.array([T])
    w, out = np.ones(rounds.features.shape[1], np.float32), np.empty(np.diff(rounds.offsets).max())
    learners = [learner for learner, _ in LEARNERS.values()]

    def alone(learner: RTopKF, k: int) -> object:
        return simulate(learner, rounds, k=k, measure=MEASURE, sequence=few, checkpoints=end)

    def together(shown: Ints) -> object:
        checkpoints, seeds = np.array([len(shown)]), range(len(learners))
        return simulate_all(
            learners, rounds, k=2, measure=MEASURE, seeds=seeds, sequence=shown, checkpoints=checkpoints
        )

    actions: dict[str, Callable[[], object]] = {
        "scores": lambda: scores_only(rounds.features, rounds.offsets, few, w, out),
        "numpy": lambda: numpy_loop(rounds, few[: T // 10], 0),
        "one by one": lambda: [alone(learner, 2) for learner in learners],
        "together": lambda: together(few),
    }
    for name, (learner, k) in LEARNERS.items():
        actions[name] = partial(alone, learner, k)
    best = in_turns(actions, REPETITIONS)
    floor, loop = best["scores"], 10 * best["numpy"]
    for name in LEARNERS:
        limits = ">= 6x, <= 1.3x" if name == "default" else ""
        table.add_row(
            f"{name}: a NumPy loop of the default / it; it / a pass that computes the scores alone",
            f"{loop / T * 1e6:.1f} / {best[name] / T * 1e6:.1f} / {floor / T * 1e6:.1f} us a round: "
            f"{loop / best[name]:.1f}x, {best[name] / floor:.2f}x",
            limits,
        )
    table.add_row(
        "six learners over one stream / one after the other",
        f"{best['together'] / T * 1e6:.1f} / {best['one by one'] / T * 1e6:.1f} us a round: "
        f"{best['together'] / best['one by one']:.2f}x",
        "<= 0.6x",
    )
    begun = time.perf_counter()
    used = seconds(lambda: together(sequence))
    clock = time.perf_counter() - begun
    table.add_row(f"six learners, T = {PAPERS_T:,}", f"{used:.1f} s; by the clock {clock:.1f} s", "<= 10 s")


def step_by_step(table: Table) -> None:
    """Measure 20 documents of 46 features as in the figure of PDGD, with the relevance of the first revealed."""
    rounds = make_dataset(DatasetShape(2000, (20, 20), 46, (0.8, 0.13, 0.07)), np.random.default_rng(0)).rounds()
    lists, grades = rounds.features.reshape(2000, 20, 46), rounds.relevance.reshape(2000, 20)

    def ours() -> None:
        agent = Agent(RTopKF(), m=20, k=1, d=46)
        for X, relevance in zip(lists, grades, strict=True):
            decision = agent.rank(X)
            agent.update(decision, relevance[decision.ranking[:1]])

    ours_a_second = len(lists) / in_turns({"peekrank": ours}, REPETITIONS)["peekrank"]
    table.add_row(
        "Agent.rank + update, 20 documents, 46 features / PDGD's figure",
        f"{ours_a_second:,.0f} / {HARRIE_O_PDGD:,} impressions a second: {ours_a_second / HARRIE_O_PDGD:.0f}x",
        ">= 10x",
    )


def main() -> None:
    table = Table("figure", "measured here", "wanted", title="RTop-kF, float32 features")
    step_by_step(table)
    yahoo(table)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
