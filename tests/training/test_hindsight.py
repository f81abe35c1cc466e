"""The best weights in a ball where many weights are equally good, and what is not computed."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.surrogates import SmoothDCG, Squared
from peekrank.training.hindsight import best_fixed, loss_along
from peekrank.types import Rounds


def test_a_ball_with_exact_solutions_has_loss_zero() -> None:
    """Fewer items than features of different scales, and a ball that holds the shortest exact solution."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        d = int(rng.integers(2, 8))
        n = int(rng.integers(1, d))
        X = (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d)).astype(np.float32)
        relevance = rng.integers(0, 3, n).astype(np.uint8)
        exact = X.astype(np.float64)
        shortest = np.linalg.lstsq(exact, relevance.astype(np.float64), rcond=None)[0]
        radius = 1.5 * float(np.linalg.norm(shortest)) + 0.01
        best = best_fixed(Squared(), Rounds(X, relevance, np.array([0, n])), np.array([1]), radius)
        assert np.linalg.norm(best.weights) <= radius * (1 + 1e-12)
        assert best.loss == pytest.approx(np.sum((exact @ best.weights - relevance) ** 2), abs=1e-12)
        assert best.loss < 1e-8


def test_a_loss_that_is_not_convex_is_refused_rather_than_taken_for_zero() -> None:
    rounds = Rounds(np.array([[1.0], [0.0]], np.float32), np.array([2, 0], np.uint8), np.array([0, 2]))
    with pytest.raises(ValueError, match="surrogate = smoothdcg: must be convex"):
        loss_along(RTopKF(SmoothDCG()), rounds, np.zeros(1, np.int64), k=1, seed=0)
