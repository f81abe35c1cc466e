"""Cross entropy of two softmaxes."""

from __future__ import annotations

from dataclasses import dataclass
from math import tanh
from typing import ClassVar

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.vectors import fill_softmax
from peekrank.spec import format_spec
from peekrank.surrogates.estimates import Estimates, Parameters, Seen, from_all
from peekrank.surrogates.protocol import Limits, softmax
from peekrank.types import Floats


@kernel
def _target(parameters: Parameters, relevance: float) -> float:
    return relevance


@kernel
def _gradient(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    fill_softmax(seen.targets, 1.0, seen.targets)
    fill_softmax(seen.scores, 1.0, slopes)
    for i in range(len(slopes)):
        slopes[i] -= seen.targets[i]


@dataclass(frozen=True)
class ListNet:
    """Cross entropy of softmax(s) relative to softmax(R); learners here need the whole list.

    With binary relevance, feedback on all items except one would suffice. With less feedback, or with more grades,
    no learner has sublinear regret in it (docs/surrogates.md).

    >>> ListNet().gradient(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    array([0., 0.])

    References
    ----------
    CT16 section 4.1 and Lemma 3; Cao et al. (2007).
    """

    name: ClassVar[str] = "listnet"
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = None
    estimates: ClassVar[Estimates | None] = from_all("listnet", _target, _gradient)
    __str__ = format_spec

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        logarithms = scores - scores.max() - np.log(np.sum(np.exp(scores - scores.max())))
        return float(-softmax(relevance) @ logarithms)

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return ``softmax(s) - softmax(R)``."""
        return np.asarray(softmax(scores) - softmax(relevance))

    def lipschitz(self, limits: Limits) -> float:
        """Return ``2 |x| tanh((2 |x| |w| + R) / 4)``; 0 for a single item."""
        return 2 * limits.norm * tanh((2 * limits.score + limits.grade) / 4) if limits.items > 1 else 0.0
