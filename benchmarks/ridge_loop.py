"""Measure a round of ridge against a NumPy loop of the same algorithm, sampling, and rtopkf.

20 documents a list, the first one is seen, lists come once each; relevance is linear in the features up to noise.
All run in turns; times are of the processor, one thread, the best of the repetitions, since machines are shared.
The loop keeps the inverse of the precision matrix, a rank-one update for each answer, as one would write it first;
its order ends up as good.

    python benchmarks/ridge_loop.py
"""

from __future__ import annotations

import os
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from clock import in_turns
from rich.console import Console
from rich.table import Table

from peekrank import NDCG, Agent, Ridge, RTopKF
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.engine import run_agents
from peekrank.types import Floats, Rounds

DOCUMENTS = 20
SIZES = {16: (2000, 15.0), 46: (2000, 15.0), 136: (2000, 5.0), 700: (500, 2.0)}  # features: rounds, wanted
TESTED = 200  # lists
REPETITIONS = 3
QUALITY = NDCG(10, no_relevant="skip")


class Loop:
    """Ridge with exploration by doubt in NumPy."""

    def __init__(self, d: int) -> None:
        self.V, self.b, self.w = np.zeros((d + 1, d + 1)), np.zeros(d + 1), np.zeros(d + 1)
        self.prior = np.zeros(d)
        self.items = self.rounds = 0
        self.left = self.weights = self.squared = 0.0
        self.sum, self.squares = np.zeros(d), np.zeros(d)

    def scale(self) -> Floats:
        """Return the variance of each column."""
        return self.squares / self.items - (self.sum / self.items) ** 2

    def rank(self, X: Floats, uniform: float) -> tuple[int, float]:
        """Return the item to show first, and the weight of its feedback."""
        n, d = X.shape
        self.items += n
        self.sum += X.sum(0)
        self.squares += (X * X).sum(0)
        if self.rounds == 0:
            self.prior = self.scale()
            self.V = np.diag(1 / np.append(self.prior, 1e-6))
        scores = X @ self.w[:d]
        order = np.argsort(-scores, kind="stable")
        centred = X - X.mean(0)
        errors = np.einsum("ij,ij->i", centred @ self.V[:d, :d], centred)
        errors *= self.left * self.squared / self.weights**2 if self.left > 0 else 1
        u = 2 * np.sqrt(np.log(np.e + self.rounds) * errors[order])
        b, weights = scores[order], 1 / np.log2(np.arange(2, n + 2))
        meets = (u[:, None] >= u) & (np.abs(b[:, None] - b) <= u[:, None] + u)
        doubts = weights[meets.argmax(1)] - weights[n - 1 - meets[:, ::-1].argmax(1)]
        pushed = np.append(0, np.cumsum(-np.diff(weights) * b[:-1]))
        price = np.maximum(pushed - (weights[0] - weights) * b, 0)
        propensities = np.minimum(1, 0.001 * doubts * u / np.maximum(price, 1e-300))
        noise = errors.sum() / (errors.sum() + np.square(scores - scores.mean()).sum())
        propensities = np.maximum(propensities, max(1.2 * noise, 0.1 * (1 + self.rounds / d) ** (-1 / 3)) / n)
        propensities[0] = 0
        propensities *= min(1, 0.5 / max(propensities.sum(), 1e-300))
        position = int(np.searchsorted(np.cumsum(propensities), uniform, side="right"))
        position = position if position < n else 0
        seen = propensities[position] if position else 1 - propensities.sum()
        return int(order[position]), float(min(max(1, self.rounds / d) ** 0.6, 1 / seen))

    def update(self, x: Floats, answer: float, weight: float) -> None:
        x, answer = np.append(x, 1) * np.sqrt(weight), answer * np.sqrt(weight)
        Vx = self.V @ x
        error, spread = answer - float(self.w @ x), 1 + float(x @ Vx)
        self.left += error**2 / spread
        self.V -= np.outer(Vx, Vx / spread)
        self.b += answer * x
        self.rounds += 1
        self.weights += weight
        self.squared += weight**2
        if self.rounds & (self.rounds - 1) == 0 and self.rounds <= 2048:
            scale = self.scale()
            self.V = np.linalg.inv(np.linalg.inv(self.V) + np.diag(np.append(scale - self.prior, 0)))
            self.prior = scale
        self.w = self.V @ self.b


def looped(rounds: Rounds, d: int) -> Floats:
    loop = Loop(d)
    lists = rounds.features.reshape(-1, DOCUMENTS, d).astype(np.float64)
    grades = rounds.relevance.reshape(-1, DOCUMENTS)
    uniforms = np.random.default_rng(0).random(len(lists))
    for X, relevance, uniform in zip(lists, grades, uniforms, strict=True):
        first, weight = loop.rank(X, uniform)
        loop.update(X[first], relevance[first], weight)
    return loop.w[:d]


def driven(learner: Ridge | RTopKF, rounds: Rounds, d: int) -> Floats:
    agent, end = Agent(learner, m=DOCUMENTS, k=1, d=d), np.array([len(rounds.offsets) - 1])
    run_agents([agent], rounds, measure=QUALITY, checkpoints=end)
    return np.asarray(learner.weights(agent.state), np.float64)


def quality(weights: Floats, rounds: Rounds) -> float:
    scores = (rounds.features @ weights).reshape(-1, DOCUMENTS)
    orders = np.argsort(-scores, axis=1, kind="stable")
    return float(np.nanmean(QUALITY.values(orders, rounds.relevance.reshape(-1, DOCUMENTS))))


def compare(table: Table, d: int, count: int, wanted: float) -> None:
    layout = DatasetShape(count + TESTED, (DOCUMENTS, DOCUMENTS), d, (0.8, 0.13, 0.07))
    rounds = make_dataset(layout, np.random.default_rng(0)).rounds()
    rows = count * DOCUMENTS
    found: dict[str, Floats] = {}
    learned = Rounds(rounds.features[:rows], rounds.relevance[:rows], rounds.offsets[: count + 1])
    tested = Rounds(rounds.features[rows:], rounds.relevance[rows:], rounds.offsets[count:] - rows)

    def play(learner: Ridge | RTopKF | None) -> None:
        found[str(learner)] = looped(learned, d) if learner is None else driven(learner, learned, d)

    who = (None, Ridge(), Ridge("sampling"), RTopKF())
    best = in_turns({str(one): partial(play, one) for one in who}, REPETITIONS)
    times = [took / count * 1e6 for took in best.values()]
    table.add_row(
        str(d),
        " / ".join(f"{took:.1f}" for took in times),
        f"{times[0] / times[1]:.1f}x",
        f">= {wanted:g}x",
        " / ".join(f"{quality(weights, tested):.3f}" for weights in found.values()),
    )


def main() -> None:
    heads = ("us a round: loop / ridge / sampling / rtopkf", "loop / ridge", "wanted", "NDCG@10 of the same")
    table = Table("features", *heads, title=f"lists of {DOCUMENTS} documents, the first one is seen")
    for d, (count, wanted) in SIZES.items():
        compare(table, d, count, wanted)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
