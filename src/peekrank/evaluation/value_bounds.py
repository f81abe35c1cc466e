"""What answers to an order that was never varied tell of other orders: limits, not guesses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.validate import share
from peekrank.types import Floats, Ints, LinearMeasure


class Shadow(NamedTuple):
    """Between what an order is worth per round, and why it cannot be told more closely."""

    low: float
    high: float
    chance: float  # part of high - low that comes from the number of answers
    unseen: float  # part that comes from items that were never answered for
    unknown: Ints  # these items

    @property
    def may_explore(self) -> bool:
        """Whether more answers of the same kind would help less than one look at what was never shown."""
        return self.unseen > self.chance

    def __str__(self) -> str:
        """Two lines."""
        items = ", ".join(map(str, self.unknown)) or "none"
        todo = "exploring may begin" if self.may_explore else "more answers to the same order help most"
        return f"worth {self.low:.4g} to {self.high:.4g} per round; never answered for: {items}\n{todo}"


def shadow(
    measure: LinearMeasure,
    order: ArrayLike,
    sums: Floats,
    answers: ArrayLike,
    *,
    max_grade: int = 1,
    alpha: float = 0.05,
) -> Shadow:
    """Limits for the value of any order of fixed items, from answers to an order that was always the same.

    The mean gain of an item that was answered for n times is within ``g sqrt(ln(2 m n (n + 1)/alpha)/(2 n))`` of
    the mean of its answers, for all items and numbers of answers at once with probability 1 - alpha (Hoeffding);
    that of an item without answers is anything from 0 to g, the largest gain. Relevance must be stable.

    Parameters
    ----------
    measure
        What orders are compared by; must be separable.
    order
        The items, first place first.
    sums
        Sum of the gains answered for each item.
    answers
        Number of answers for each item.
    max_grade
        Largest relevance grade.
    alpha
        Probability that a limit is wrong.

    >>> from peekrank import DCG
    >>> found = shadow(DCG(), [0, 1, 2], np.array([900.0, 500.0, 0.0]), [1000, 1000, 0])
    >>> print(found)
    worth 1.058 to 1.873 per round; never answered for: 2
    exploring may begin
    """
    share("alpha", alpha)
    counts = np.asarray(answers, dtype=np.float64)
    m, largest = len(counts), float(measure.gain(np.array([float(max_grade)]))[0])
    known = np.maximum(counts, 1)
    half = largest * np.sqrt(np.log(2 * m * known * (known + 1) / alpha) / (2 * known))
    mean = sums / known
    low = np.where(counts > 0, np.maximum(mean - half, 0), 0.0)
    high = np.where(counts > 0, np.minimum(mean + half, largest), largest)
    places = np.empty(m)
    places[np.asarray(order)] = measure.discount(m)
    width, seen = places * (high - low), counts > 0
    return Shadow(
        float(places @ low), float(places @ high), float(width[seen].sum()), float(width[~seen].sum()),
        np.flatnonzero(~seen),
    )  # fmt: skip
