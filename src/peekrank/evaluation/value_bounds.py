"""Bounds on the value of any order, from feedback on an order that never varied."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.validate import check_unit
from peekrank.types import Floats, Ints, LinearMeasure


class ValueBounds(NamedTuple):
    """Bounds on the value of an order per round, and the two parts of their width."""

    low: float
    high: float
    sampling: float  # part of high - low due to the limited number of answers
    unseen: float  # part due to items without answers
    unknown: Ints  # these items

    @property
    def may_explore(self) -> bool:
        """Whether exploring items without answers would narrow the bounds more than further answers."""
        return self.unseen > self.sampling

    def __str__(self) -> str:
        """Return the bounds and the advice in two lines."""
        items = ", ".join(map(str, self.unknown)) or "none"
        advice = "exploration may begin" if self.may_explore else "more answers to the same order help most"
        return f"value {self.low:.4g} to {self.high:.4g} per round; items without answers: {items}\n{advice}"


def bound_means(sums: Floats, counts: Floats, largest: float, alpha: float) -> tuple[Floats, Floats]:
    """Bound the mean gain of each item, for all items and all numbers of answers at once, as `bound_value` says.

    Parameters
    ----------
    sums, counts
        Sum and number of the observed gains of each item.
    largest
        Largest gain.
    alpha
        Error probability.
    """
    known = np.maximum(counts, 1)
    half = largest * np.sqrt(np.log(2 * len(counts) * known * (known + 1) / alpha) / (2 * known))
    mean = sums / known
    low = np.where(counts > 0, np.maximum(mean - half, 0), 0.0)
    high = np.where(counts > 0, np.minimum(mean + half, largest), largest)
    return low, high


def bound_value(
    measure: LinearMeasure,
    order: ArrayLike,
    sums: Floats,
    answers: ArrayLike,
    *,
    max_grade: int = 1,
    alpha: float = 0.05,
) -> ValueBounds:
    """Bound the value of any order of fixed items, from answers to an order that never varied.

    The mean gain of an item with n answers is within ``g sqrt(ln(2 m n (n + 1)/alpha)/(2 n))`` of the mean of its
    answers, for all items and all n simultaneously with probability 1 - alpha (Hoeffding). That of an item without
    answers is from 0 to g, the largest gain. Relevance must be stationary.

    Parameters
    ----------
    measure
        A separable measure.
    order
        The items, first position first.
    sums
        Sum of the observed gains of each item.
    answers
        Number of answers for each item.
    max_grade
        Largest relevance grade.
    alpha
        Error probability of the bounds.

    >>> from peekrank import DCG
    >>> bounds = bound_value(DCG(), [0, 1, 2], np.array([900.0, 500.0, 0.0]), [1000, 1000, 0])
    >>> print(bounds)
    value 1.058 to 1.873 per round; items without answers: 2
    exploration may begin
    """
    check_unit("alpha", alpha)
    counts = np.asarray(answers, dtype=np.float64)
    m, largest = len(counts), float(measure.gain(np.array([float(max_grade)]))[0])
    low, high = bound_means(sums, counts, largest, alpha)
    positions = np.empty(m)
    positions[np.asarray(order)] = measure.discount(m)
    width, seen = positions * (high - low), counts > 0
    return ValueBounds(
        float(positions @ low), float(positions @ high), float(width[seen].sum()), float(width[~seen].sum()),
        np.flatnonzero(~seen),
    )  # fmt: skip
