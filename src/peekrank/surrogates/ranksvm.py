"""Hinge loss over pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, by_pair
from peekrank.surrogates.protocol import Limits
from peekrank.types import Floats


@kernel
def _slope(parameters: Parameters, better: float, worse: float, high: float, low: float) -> float:
    return 1.0 if 1 + worse > better else 0.0


@dataclass(frozen=True)
class RankSVM:
    """Hinge loss over pairs, ``sum over R_i > R_j of max(0, 1 + s_j - s_i)``; pair by pair.

    >>> RankSVM().gradient(np.array([0.0, 0.0, 3.0]), np.array([1.0, 0.0, 2.0]))
    array([-1.,  1.,  0.])

    References
    ----------
    CT16 section 4.1; Joachims (2002).
    """

    name: ClassVar[str] = "ranksvm"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 2
    estimates: ClassVar[Estimates | None] = by_pair("ranksvm", _slope)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(np.sum(self._better(relevance) * np.maximum(0, self._margins(scores))))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return the sum of ``e_j - e_i`` over the pairs with R_i > R_j and 1 + s_j > s_i."""
        active = self._better(relevance) & (self._margins(scores) > 0)
        return np.asarray(active.sum(axis=0) - active.sum(axis=1), dtype=np.float64)

    def lipschitz(self, limits: Limits) -> float:
        """Return ``2 |x|`` times the product of m / 2 rounded down and up."""
        return 2 * limits.norm * (limits.items**2 // 4) if limits.grade > 0 else 0.0

    def _better(self, relevance: Floats) -> NDArray[np.bool_]:
        return np.asarray(relevance[:, None] > relevance)

    def _margins(self, scores: Floats) -> Floats:
        return np.asarray(1 + scores - scores[:, None])
