"""The protocol `Surrogate`, and the limits that its constants depend on."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from peekrank.surrogates.estimates import Estimates
from peekrank.types import Floats


class Limits(NamedTuple):
    """Size limits of a problem with linear scores, on which constants of surrogates depend.

    Parameters
    ----------
    items
        Number of items in the longest list.
    norm
        Largest Euclidean norm of an item's features.
    radius
        Largest Euclidean norm of the weights w.
    grade
        Largest relevance; the smallest is 0.

    >>> from peekrank.surrogates import Squared
    >>> Squared().lipschitz(Limits(items=10, norm=1.0, radius=2.0, grade=1.0))
    60.0
    """

    items: int
    norm: float
    radius: float
    grade: float

    @property
    def score(self) -> float:
        """Return the largest score."""
        return self.norm * self.radius


@runtime_checkable
class Surrogate(Protocol):
    """A surrogate loss: a frozen dataclass of numbers whose name round-trips, ``surrogate(str(x)) == x``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    convex: ClassVar[bool]
    min_k: ClassVar[int | None]  # answers that the estimators need; None for all
    estimates: ClassVar[Estimates | None]  # the estimators; None if no learner here can use the surrogate

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Return the loss of a score vector."""
        ...

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Return the derivative with respect to the scores."""
        ...

    def lipschitz(self, limits: Limits) -> float:
        """Return a Lipschitz constant in w for scores X w: the largest norm of the derivative by w."""
        ...


def softmax(x: ArrayLike) -> Floats:
    """Return the exponentials divided by their sum.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    e = np.asarray(x, dtype=np.float64)
    e = np.exp(e - e.max())
    return np.asarray(e / e.sum())
