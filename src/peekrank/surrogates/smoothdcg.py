"""A smooth DCG@1."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp2
from typing import ClassVar

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_positive
from peekrank.kernels.vectors import fill_softmax
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, Seen, by_target
from peekrank.surrogates.protocol import Limits, softmax
from peekrank.types import Floats


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return exp2(relevance) - 1


@kernel
def _gradient(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    epsilon, targets, total = parameters[0], seen.targets, 0.0
    fill_softmax(seen.scores, epsilon, slopes)
    for i in range(len(slopes)):
        targets[i] *= slopes[i] / epsilon
        total += targets[i]
    for i in range(len(slopes)):
        slopes[i] = total * slopes[i] - targets[i]


@dataclass(frozen=True)
class SmoothDCG:
    """Minus a smooth DCG@1, ``- sum_i (2^R_i - 1) softmax(s / epsilon)_i``; item by item, not convex.

    The paper's Algorithm 1 would descend the gain itself. The loss here is its negative.

    Parameters
    ----------
    epsilon
        Smoothing; the paper uses 0.01.

    >>> round(SmoothDCG(1.0).value(np.array([0.0, 0.0]), np.array([0.0, 1.0])), 3)
    -0.5

    References
    ----------
    CT16 section 4.1.1; Chapelle & Wu (2010).
    """

    epsilon: float = 0.01
    name: ClassVar[str] = "smoothdcg"
    convex: ClassVar[bool] = False
    min_k: ClassVar[int | None] = 1
    estimates: ClassVar[Estimates | None] = by_target("smoothdcg", _target, _gradient, max_grade=30)
    __str__ = format_spec

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        return float(-(np.exp2(relevance) - 1) @ softmax(scores / self.epsilon))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``(p_j / epsilon) (p . G - G_j)`` with p the softmax and G the gains."""
        p, gains = softmax(scores / self.epsilon), np.exp2(relevance) - 1
        return np.asarray(p / self.epsilon * (p @ gains - gains))

    def lipschitz(self, limits: Limits) -> float:
        """Return ``|x| (2^R - 1) / (2 epsilon)``; 0 for a single item."""
        return limits.norm * (2**limits.grade - 1) / (2 * self.epsilon) if limits.items > 1 else 0.0
