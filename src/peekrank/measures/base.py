"""Shared parts of measures: the linear form, validation of options, and the test for learnable measures."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_choice, check_int
from peekrank.measures.evaluation import add_discounted, linear_parts
from peekrank.measures.names import name_of
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Gains = Literal["exponential", "linear"]
NoRelevant = Literal["0", "1", "skip"]
_CHOICES = {"gains": Gains, "no_relevant": NoRelevant}
Relevance = NDArray[Any]


_MANY_GRADES = 10
_FAST = 3.0  # gains above this factor for half as large a grade grow faster than any that people mean


class LargeGainsWarning(UserWarning):
    """Exponential gains make all but the largest grades worthless."""


class LinearMeasureMixin:
    """Linear measures: offset(R) + discount(m) @ gain(R)[ranking], by default for all grades and with offset 0."""

    separable: ClassVar[bool] = True
    __str__ = name_of

    def linear(self, max_grade: int) -> bool:  # noqa: ARG002
        """Return whether the form holds for grades 0 to `max_grade`."""
        return True

    def offset(self, relevance: Relevance) -> Floats:
        """Return the part of a list's value that no order changes."""
        return np.zeros(relevance.shape[:-1])

    def values(self: LinearMeasure, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        discount, gain, out = linear_parts(self, relevance)
        add_discounted(discount, gain, rankings, out)
        return out


def learnable(measure: Measure, max_grade: int) -> LinearMeasure:
    """Return the measure. Raises ValueError, with the reason, if single revealed items cannot estimate it.

    >>> from peekrank import measure
    >>> learnable(measure("ndcg"), 1)
    Traceback (most recent call last):
    ...
    ValueError: ndcg cannot be learned from revealed items one by one, for grades 0 to 1: ...
    """
    value: object = measure
    if not isinstance(value, Measure):
        raise ValueError(f"measure = {value!r}: must be a measure, as in measure('dcg')")
    if isinstance(measure, LinearMeasure) and measure.separable and measure.linear(max_grade):
        _warn_of_large_gains(measure, max_grade)
        return measure
    raise ValueError(
        f"{measure} cannot be learned from revealed items one by one, for grades 0 to {max_grade}: it is not a "
        "sum over items of discount(rank) x gain(relevance). Give the learner its own measure of this form, for "
        "example measure=dcg, measure=sumloss or measure=p@3"
    )


def _warn_of_large_gains(measure: LinearMeasure, max_grade: int) -> None:
    """Warn if gains grow so fast that only the largest grades count."""
    if max_grade <= _MANY_GRADES:
        return
    half, top = measure.gain(np.array([max_grade // 2, max_grade], dtype=np.float64))
    if top > _FAST * half > 0:
        warnings.warn(
            f"max_grade = {max_grade} with {measure}: a grade g is worth 2^g - 1, so one {max_grade} counts "
            f"as much as {top / half:,.3g} answers of {max_grade // 2}. Use gains=linear, as in dcg:gains=linear",
            LargeGainsWarning,
            stacklevel=5,
        )


def ranks(m: int) -> Floats:
    """Return 1, 2, ..., m.

    >>> ranks(3)
    array([1., 2., 3.])
    """
    return np.arange(1.0, m + 1)


def depth(cutoff: int | None, rankings: Ints) -> int:
    """Return how many positions of the rankings (rows) count with this cutoff."""
    m: int = rankings.shape[1]
    return m if cutoff is None else min(cutoff, m)


def check_fields(measure: Any) -> None:
    """Raise ValueError if the cutoff, the gains or `no_relevant` is invalid."""
    for field in fields(measure):
        value = getattr(measure, field.name)
        if field.name == "cutoff" and value is not None:
            check_int("cut-off n", value, 1, 10**9)
        elif field.name in _CHOICES:
            check_choice(field.name, value, _CHOICES[field.name])


def no_relevant_value(no_relevant: NoRelevant) -> float:
    """Return the value of a list without relevant items; NaN if such lists are skipped."""
    return np.nan if no_relevant == "skip" else float(no_relevant)
