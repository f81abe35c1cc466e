"""Squared error from normalised gains."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp2, log2
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import kernel
from peekrank.kernels.sorting import sort_descending
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, Seen, from_all
from peekrank.surrogates.protocol import Limits
from peekrank.types import Floats


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return exp2(relevance) - 1


@kernel
def _gradient(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    gains, largest = seen.targets, 0.0
    sort_descending(gains, seen.order, seen.sorting)
    for p in range(len(slopes)):
        largest += gains[seen.order[p]] / log2(2.0 + p)
    for i in range(len(slopes)):
        slopes[i] = 2 * (seen.scores[i] - (gains[i] / largest if largest > 0 else 0.0))


@dataclass(frozen=True)
class NDCGSquared:
    """Squared error from normalised gains, ``sum_i (s_i - (2^R_i - 1) / Z(R))^2``; needs the whole list.

    Z is the largest DCG of the list. The surrogate is calibrated for NDCG: sorting by its best scores maximises
    NDCG. No learner with top-k feedback, k < m, has sublinear regret in it (docs/surrogates.md);
    `peekrank.advice.advise_surrogate` gives the witness.

    >>> NDCGSquared().gradient(np.zeros(2), np.array([1.0, 0.0]))
    array([-2.,  0.])

    References
    ----------
    CT16 section 5; Ravikumar, Tewari & Yang (2011).
    """

    name: ClassVar[str] = "ndcgsquared"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = None
    estimates: ClassVar[Estimates | None] = from_all("ndcgsquared", _target, _gradient)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(np.sum((scores - self.target(relevance)) ** 2))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``2 (s - G / Z)``."""
        return np.asarray(2 * (scores - self.target(relevance)))

    def target(self, relevance: ArrayLike) -> Floats:
        """Return the best scores: gains divided by the list's largest DCG, or 0 without a relevant item."""
        gains = np.exp2(np.asarray(relevance, dtype=np.float64)) - 1
        largest = -np.sort(-gains) @ self._discounts(len(gains))
        return np.asarray(gains / largest if largest > 0 else gains)

    def lipschitz(self, limits: Limits) -> float:
        """Return ``2 m |x| (|x| |w| + 1 / (sum of the discounts))``."""
        target = 1 / float(self._discounts(limits.items).sum()) if limits.grade > 0 else 0.0
        return 2 * limits.items * limits.norm * (limits.score + target)

    def _discounts(self, m: int) -> Floats:
        return np.asarray(1 / np.log2(np.arange(2, m + 2)))
