"""What measures share: the linear form, options, and who can be learned."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import choice, whole
from peekrank.measures.evaluation import add_discounted, linear_parts
from peekrank.measures.names import name_of
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Gains = Literal["exponential", "linear"]
Blank = Literal["0", "1", "skip"]
_CHOICES = {"gains": Gains, "blank": Blank}
Relevance = NDArray[Any]


class LinearForm:
    """What the linear measures share: offset(R) + discount(m) @ gain(R)[ranking], for all grades, offset 0."""

    separable: ClassVar[bool] = True
    __str__ = name_of

    def linear(self, max_grade: int) -> bool:  # noqa: ARG002
        """Whether the form holds for grades 0..max_grade."""
        return True

    def offset(self, relevance: Relevance) -> Floats:
        """What a list adds whatever its order."""
        return np.zeros(relevance.shape[:-1])

    def values(self: LinearMeasure, rankings: Ints, relevance: Relevance) -> Floats:
        """Value of each row."""
        discount, gain, out = linear_parts(self, relevance)
        add_discounted(discount, gain, rankings, out)
        return out


def learnable(measure: Measure, max_grade: int) -> LinearMeasure:
    """The measure, if a learner can estimate it from single revealed items; else a ValueError that says why.

    >>> from peekrank import measure
    >>> learnable(measure("ndcg"), 1)
    Traceback (most recent call last):
    ...
    ValueError: ndcg cannot be learned from revealed items one by one, for grades 0 to 1: ...
    """
    given: object = measure
    if not isinstance(given, Measure):
        raise ValueError(f"measure = {given!r}: must be a measure, as in measure('dcg')")
    if isinstance(measure, LinearMeasure) and measure.separable and measure.linear(max_grade):
        return measure
    raise ValueError(
        f"{measure} cannot be learned from revealed items one by one, for grades 0 to {max_grade}: it is no sum "
        "over items of discount(rank) x gain(relevance). Give the learner a measure of its own that is, for "
        "instance measure=dcg, measure=sumloss or measure=p@3"
    )


def ranks(m: int) -> Floats:
    """1, 2, ..., m.

    >>> ranks(3)
    array([1., 2., 3.])
    """
    return np.arange(1.0, m + 1)


def depth(n: int | None, rankings: Ints) -> int:
    """How many positions count of rankings in rows, for a cut-off n."""
    m: int = rankings.shape[1]
    return m if n is None else min(n, m)


def check_fields(measure: Any) -> None:
    """Raise a ValueError for a cut-off, gains or value of blank lists that cannot be."""
    for field in fields(measure):
        value = getattr(measure, field.name)
        if field.name == "n" and value is not None:
            whole("cut-off n", value, 1, 10**9)
        elif field.name in _CHOICES:
            choice(field.name, value, _CHOICES[field.name])


def blank_value(blank: Blank) -> float:
    """Value of a list that the measure cannot judge; NaN where such lists are skipped."""
    return np.nan if blank == "skip" else float(blank)
