"""Streams that are hard for learners of fixed items, and the mean regret on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from peekrank import CT15, Rounds, fixed_items, simulate
from peekrank.regret import best_values, regret
from peekrank.types import Ints


def switching(horizon: int, m: int, top: int, seed: int) -> Rounds:
    """The best items of the first third are the worst of the rest."""
    rng = np.random.default_rng(seed)
    means = np.tile(np.linspace(0.9, 0.1, m), (horizon, 1))
    means[horizon // 3 :] = means[horizon // 3 :, ::-1]
    return fixed_items((rng.random((horizon, m)) < means).astype(np.uint8) * np.uint8(top))


def fair(horizon: int, m: int, top: int, seed: int) -> Rounds:
    """Nothing to be learned: what is lost is lost to the best ranking in hindsight."""
    return fixed_items(np.random.default_rng(seed).integers(0, 2, (horizon, m)).astype(np.uint8) * np.uint8(top))


def noisy(horizon: int, m: int, top: int, seed: int) -> Rounds:
    rounds = CT15(m=m, noise=0.25).rounds(horizon, np.random.default_rng(seed))
    return rounds._replace(relevance=rounds.relevance * np.uint8(top))


def bernoulli(horizon: int, m: int, seed: int) -> Ints:
    """Relevance of independent items, means from 0.9 to 0.1."""
    rng = np.random.default_rng([7, seed])
    return (rng.random((horizon, m)) < rng.permutation(np.linspace(0.9, 0.1, m))).astype(np.int64)


def cyclic(horizon: int, m: int, seed: int = 0) -> Ints:
    """Item t mod m alone is relevant: the leader has always just been overtaken."""
    return np.eye(m, dtype=np.int64)[(np.arange(horizon) + seed) % m]


def swapping(horizon: int, m: int, seed: int = 0) -> Ints:
    """After two fifths of the rounds the relevant and the irrelevant items change positions."""
    late = np.arange(horizon)[:, None] < 2 * horizon // 5
    return (((np.arange(m) + seed) % m < m // 2) ^ late).astype(np.int64)


def mean_regret(learner: Any, rounds: list[Rounds], k: int) -> float:
    of, lost = learner.measure, 0.0
    for seed, these in enumerate(rounds):
        end = np.array([len(these.offsets) - 1])
        trace = simulate(learner, these, k=k, measure=of, seed=seed, checkpoints=end)
        lost += float(regret(of, trace, best_values(of, these, end))[0])
    return lost / len(rounds)
