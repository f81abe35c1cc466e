"""Surrogates: losses of score vectors that are smooth enough to descend, with their gradients.

A surrogate is a value with a name, ``str(SmoothDCG(0.1)) == "smoothdcg/0.1"``. Its gradient by the scores is what
learners with features estimate from the answers they see. Those here have one of three structures:

- *item by item*: the gradient is a sum over items of terms with one relevance each; one answer suffices;
- *pair by pair*: terms with two relevances; two answers are needed;
- *whole list*: terms with nearly all relevances or with all; learners here must see the whole list. Which of them
  could be learned from less, and which cannot, is on docs/surrogates/index.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, tanh
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._util.validate import positive
from peekrank.registry import SURROGATES
from peekrank.spec import build
from peekrank.types import Floats


class Limits(NamedTuple):
    """How large a problem with linear scores can be; what constants of surrogates depend on.

    Parameters
    ----------
    items
        Items of the longest list.
    norm
        Euclidean norm of the features of any item, at most.
    radius
        Euclidean norm of the weights w, at most.
    grade
        The largest relevance; the smallest is 0.

    >>> Squared().lipschitz(Limits(items=10, norm=1.0, radius=2.0, grade=1.0))
    60.0
    """

    items: int
    norm: float
    radius: float
    grade: float

    @property
    def score(self) -> float:
        """The largest score."""
        return self.norm * self.radius


@runtime_checkable
class Surrogate(Protocol):
    """A frozen dataclass with a name that round-trips: ``surrogate(str(x)) == x``."""

    name: ClassVar[str]
    code: ClassVar[int]  # which branch of the kernels is meant
    convex: ClassVar[bool]
    min_k: ClassVar[int | None]  # answers that `RTopKF` needs to estimate the gradient; None for all

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        ...

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Derivative by the scores."""
        ...

    def lipschitz(self, limits: Limits) -> float:
        """The largest norm that the derivative by w can have, scores being X w: a Lipschitz constant in w."""
        ...


class _Plain:
    name: ClassVar[str]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Squared(_Plain):
    """Squared error, ``sum_i (s_i - R_i)^2``; item by item.

    >>> Squared().gradient(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    array([ 2., -4.])

    References
    ----------
    CT16 section 4.1; Cossock & Zhang (2008).
    """

    name: ClassVar[str] = "squared"
    code: ClassVar[int] = 0
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 1

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        return float(np.sum((scores - relevance) ** 2))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """``2 (s - R)``."""
        return np.asarray(2 * (scores - relevance))

    def lipschitz(self, limits: Limits) -> float:
        """``2 m |x| (|x| |w| + R)``."""
        return 2 * limits.items * limits.norm * (limits.score + limits.grade)


@dataclass(frozen=True)
class KL(_Plain):
    """Divergence of exp(s) from exp(R), not normalised: ``sum_i e^R_i (R_i - s_i) - e^R_i + e^s_i``; item by item.

    >>> KL().gradient(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    array([0., 0.])

    References
    ----------
    CT16 section 4.1, "modified ListNet".
    """

    name: ClassVar[str] = "kl"
    code: ClassVar[int] = 1
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 1

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        return float(np.sum(np.exp(relevance) * (relevance - scores - 1) + np.exp(scores)))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """``exp(s) - exp(R)``."""
        return np.asarray(np.exp(scores) - np.exp(relevance))

    def lipschitz(self, limits: Limits) -> float:
        """``m |x| max(exp(|x| |w|) - 1, exp(R) - exp(-|x| |w|))``."""
        worst = max(exp(limits.score) - 1, exp(limits.grade) - exp(-limits.score))
        return limits.items * limits.norm * worst


@dataclass(frozen=True)
class SmoothDCG:
    """Minus a smooth DCG@1, ``- sum_i (2^R_i - 1) softmax(s / epsilon)_i``; item by item, not convex.

    The paper's Algorithm 1 would descend the gain itself; its negative is the loss.

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
    code: ClassVar[int] = 2
    convex: ClassVar[bool] = False
    min_k: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)

    def __str__(self) -> str:
        return self.name if self.epsilon == SmoothDCG.epsilon else f"{self.name}/{self.epsilon!r}"

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        return float(-(np.exp2(relevance) - 1) @ softmax(scores / self.epsilon))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """``(p_j / epsilon) (p . G - G_j)`` with p the softmax and G the gains."""
        p, gains = softmax(scores / self.epsilon), np.exp2(relevance) - 1
        return np.asarray(p / self.epsilon * (p @ gains - gains))

    def lipschitz(self, limits: Limits) -> float:
        """``|x| (2^R - 1) / (2 epsilon)``; 0 for a single item."""
        return limits.norm * (2**limits.grade - 1) / (2 * self.epsilon) if limits.items > 1 else 0.0


@dataclass(frozen=True)
class RankSVM(_Plain):
    """Hinge over pairs, ``sum over R_i > R_j of max(0, 1 + s_j - s_i)``; pair by pair.

    >>> RankSVM().gradient(np.array([0.0, 0.0, 3.0]), np.array([1.0, 0.0, 2.0]))
    array([-1.,  1.,  0.])

    References
    ----------
    CT16 section 4.1; Joachims (2002).
    """

    name: ClassVar[str] = "ranksvm"
    code: ClassVar[int] = 3
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = 2

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        return float(np.sum(self._better(relevance) * np.maximum(0, self._margins(scores))))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Sum of ``e_j - e_i`` over the pairs with R_i > R_j and 1 + s_j > s_i."""
        active = self._better(relevance) & (self._margins(scores) > 0)
        return np.asarray(active.sum(axis=0) - active.sum(axis=1), dtype=np.float64)

    def lipschitz(self, limits: Limits) -> float:
        """``2 |x|`` times the product of m / 2 rounded down and up."""
        return 2 * limits.norm * (limits.items**2 // 4) if limits.grade > 0 else 0.0

    def _better(self, relevance: Floats) -> NDArray[np.bool_]:
        return np.asarray(relevance[:, None] > relevance)

    def _margins(self, scores: Floats) -> Floats:
        return np.asarray(1 + scores - scores[:, None])


@dataclass(frozen=True)
class ListNet(_Plain):
    """Cross entropy of softmax(s) relative to softmax(R); learners here need the whole list.

    With binary relevance all answers but one would do; with fewer, or with more grades, no learner has sublinear
    regret in it (docs/surrogates/index.md).

    >>> ListNet().gradient(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    array([0., 0.])

    References
    ----------
    CT16 section 4.1 and Lemma 3; Cao et al. (2007).
    """

    name: ClassVar[str] = "listnet"
    code: ClassVar[int] = 4
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = None

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        logarithms = scores - scores.max() - np.log(np.sum(np.exp(scores - scores.max())))
        return float(-softmax(relevance) @ logarithms)

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """``softmax(s) - softmax(R)``."""
        return np.asarray(softmax(scores) - softmax(relevance))

    def lipschitz(self, limits: Limits) -> float:
        """``2 |x| tanh((2 |x| |w| + R) / 4)``; 0 for a single item."""
        return 2 * limits.norm * tanh((2 * limits.score + limits.grade) / 4) if limits.items > 1 else 0.0


@dataclass(frozen=True)
class NDCGSquared(_Plain):
    """Squared error from normalised gains, ``sum_i (s_i - (2^R_i - 1) / Z(R))^2``; needs the whole list.

    Z is the largest DCG of the list. The best scores sort as NDCG wants: it is calibrated for NDCG. No learner
    with top-k feedback, k < m, has sublinear regret in it (docs/surrogates/index.md);
    `peekrank.advice.advise_surrogate` gives the witness.

    >>> NDCGSquared().gradient(np.zeros(2), np.array([1.0, 0.0]))
    array([-2.,  0.])

    References
    ----------
    CT16 section 5; Ravikumar, Tewari & Yang (2011).
    """

    name: ClassVar[str] = "ndcgsquared"
    code: ClassVar[int] = 5
    convex: ClassVar[bool] = True
    min_k: ClassVar[int | None] = None

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        return float(np.sum((scores - self.target(relevance)) ** 2))

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """``2 (s - G / Z)``."""
        return np.asarray(2 * (scores - self.target(relevance)))

    def target(self, relevance: ArrayLike) -> Floats:
        """The gains over the largest DCG of the list, the best scores; 0 in a list without a relevant item."""
        gains = np.exp2(np.asarray(relevance, dtype=np.float64)) - 1
        largest = -np.sort(-gains) @ self._discounts(len(gains))
        return np.asarray(gains / largest if largest > 0 else gains)

    def lipschitz(self, limits: Limits) -> float:
        """``2 m |x| (|x| |w| + 1 / (sum of the discounts))``."""
        target = 1 / float(self._discounts(limits.items).sum()) if limits.grade > 0 else 0.0
        return 2 * limits.items * limits.norm * (limits.score + target)

    def _discounts(self, m: int) -> Floats:
        return np.asarray(1 / np.log2(np.arange(2, m + 2)))


def surrogate(name: str) -> Surrogate:
    """The surrogate with this name.

    >>> surrogate("smoothdcg/0.1")
    SmoothDCG(epsilon=0.1)
    """
    if "/" in name:
        base, _, parameter = name.partition("/")
        if base != SmoothDCG.name:
            raise ValueError(f"surrogate '{name}': '{base}' has no parameter")
        try:
            return SmoothDCG(float(parameter))
        except ValueError as error:
            raise ValueError(f"surrogate '{name}': {error}") from None
    made: Surrogate = build("surrogate", SURROGATES, name)
    return made


def softmax(x: ArrayLike) -> Floats:
    """Exponentials over their sum.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    e = np.asarray(x, dtype=np.float64)
    e = np.exp(e - e.max())
    return np.asarray(e / e.sum())
