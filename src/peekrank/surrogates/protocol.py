"""What a surrogate is, and the limits that its constants depend on."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from peekrank.surrogates.estimates import Estimates
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
        """The largest score."""
        return self.norm * self.radius


@runtime_checkable
class Surrogate(Protocol):
    """A frozen dataclass of numbers with a name that round-trips: ``surrogate(str(x)) == x``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    convex: ClassVar[bool]
    min_k: ClassVar[int | None]  # answers that the estimates need; None for all
    estimates: ClassVar[Estimates | None]  # what learners call; None: none here can learn it

    def value(self, scores: Floats, relevance: Floats) -> float:
        """Loss of a score vector."""
        ...

    def gradient(self, scores: Floats, relevance: Floats) -> Floats:
        """Derivative by the scores."""
        ...

    def lipschitz(self, limits: Limits) -> float:
        """The largest norm that the derivative by w can have, scores being X w: a Lipschitz constant in w."""
        ...


def softmax(x: ArrayLike) -> Floats:
    """Exponentials over their sum.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    e = np.asarray(x, dtype=np.float64)
    e = np.exp(e - e.max())
    return np.asarray(e / e.sum())
