"""Squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank._jit import kernel
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, by_item
from peekrank.surrogates.protocol import Limits
from peekrank.types import Floats


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return relevance


@kernel
def _slope(parameters: Parameters, score: float, target: float) -> float:
    return 2 * (score - target)


@dataclass(frozen=True)
class Squared:
    """Squared error, ``sum_i (s_i - R_i)^2``; item by item.

    >>> Squared().gradient(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    array([ 2., -4.])

    References
    ----------
    CT16 section 4.1; Cossock & Zhang (2008).
    """

    name: ClassVar[str] = "squared"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 1
    estimates: ClassVar[Estimates | None] = by_item("squared", _target, _slope)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(np.sum((scores - relevance) ** 2))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``2 (s - R)``."""
        return np.asarray(2 * (scores - relevance))

    def lipschitz(self, limits: Limits) -> float:
        """Return ``2 m |x| (|x| |w| + R)``."""
        return 2 * limits.items * limits.norm * (limits.score + limits.grade)
