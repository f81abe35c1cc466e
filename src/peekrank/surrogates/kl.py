"""Unnormalised Kullback-Leibler divergence of exponentials."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import ClassVar

import numpy as np

from peekrank._jit import kernel
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, by_item
from peekrank.surrogates.protocol import Limits
from peekrank.types import Floats

_MAX_SCORE = 30.0  # scores are clipped here before the exponential, so that nothing overflows


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return exp(relevance)


@kernel
def _slope(parameters: Parameters, score: float, target: float) -> float:
    return exp(min(score, _MAX_SCORE)) - target


_ESTIMATES = by_item("kl", _target, _slope, max_grade=30)


@dataclass(frozen=True)
class KL:
    """Divergence of exp(s) from exp(R), not normalised: ``sum_i e^R_i (R_i - s_i) - e^R_i + e^s_i``; item by item.

    >>> KL().gradient(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    array([0., 0.])

    References
    ----------
    CT16 section 4.1, "modified ListNet".
    """

    name: ClassVar[str] = "kl"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 1
    estimates: ClassVar[Estimates | None] = _ESTIMATES._replace(printed=_ESTIMATES.residual)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(np.sum(np.exp(relevance) * (relevance - scores - 1) + np.exp(scores)))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``exp(s) - exp(R)``."""
        return np.asarray(np.exp(scores) - np.exp(relevance))

    def lipschitz(self, limits: Limits) -> float:
        """Return ``m |x| max(exp(|x| |w|) - 1, exp(R) - exp(-|x| |w|))``."""
        worst = max(exp(limits.score) - 1, exp(limits.grade) - exp(-limits.score))
        return limits.items * limits.norm * worst
