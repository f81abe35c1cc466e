"""A surrogate: the logistic loss of being relevant, item by item."""

from dataclasses import dataclass
from math import exp
from typing import ClassVar

import numpy as np

from peekrank import kernel
from peekrank.spec import format_spec
from peekrank.surrogates import Limits
from peekrank.surrogates.estimates import Estimates, Parameters, by_item
from peekrank.types import Floats


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return 1.0 if relevance > 0 else 0.0


@kernel
def _slope(parameters: Parameters, score: float, target: float) -> float:
    return 1 / (1 + exp(-score)) - target


@dataclass(frozen=True)
class Logistic:
    """Logistic loss, ``sum_i log(1 + exp(s_i)) - 1[R_i > 0] s_i``; item by item."""

    name: ClassVar[str] = "logistic"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 1
    estimates: ClassVar[Estimates | None] = by_item("logistic", _target, _slope)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(np.sum(np.logaddexp(0, scores) - (relevance > 0) * scores))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``1 / (1 + exp(-s)) - 1[R > 0]``."""
        return np.asarray(1 / (1 + np.exp(-scores)) - (relevance > 0))

    def lipschitz(self, limits: Limits) -> float:
        """Return ``m |x| / (1 + exp(-|x| |w|))``."""
        return limits.items * limits.norm / (1 + exp(-limits.score))
