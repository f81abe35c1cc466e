"""Streams that are hard for learners of fixed items, and the mean regret on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from peekrank import (
    CT15,
    Rounds,
    fixed_items,
    simulate,
)
from peekrank.regret import best_values, regret


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


def mean_regret(learner: Any, rounds: list[Rounds], k: int) -> float:
    of, lost = learner.measure, 0.0
    for seed, these in enumerate(rounds):
        end = np.array([len(these.offsets) - 1])
        trace = simulate(learner, these, k=k, measure=of, seed=seed, at=end)
        lost += float(regret(of, trace, best_values(of, these, end))[0])
    return lost / len(rounds)
