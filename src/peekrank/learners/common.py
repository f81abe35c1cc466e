"""What several learners need: the parameters of a measure, checks of parameters, and a test for full answers."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np

from peekrank._jit import kernel
from peekrank.parameters import positive, whole
from peekrank.types import Floats, LinearMeasure


@kernel
def answered(feedback: Floats) -> bool:
    """Whether every question of a round was answered."""
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            return False
    return True


@lru_cache(maxsize=2)
def discount_of(measure: LinearMeasure, m: int) -> Floats:
    """The measure's discount, not to be written to; computed once for the bounds of several learners."""
    discount = measure.discount(m)
    discount.setflags(write=False)
    return discount


def largest_gain(measure: LinearMeasure, max_grade: int) -> float:
    """Gain of the largest grade: 2^n - 1 for DCG with grades 0..n."""
    return float(measure.gain(np.array([max_grade], dtype=np.float64))[0])


def check_parameters(
    *, horizon: int, max_grade: int, blocks: int | None = None, epsilon: float | None = None
) -> None:
    """Raise a ValueError for a parameter out of its range; None leaves it to the theorem."""
    whole("horizon", horizon, 1, 10**12)
    whole("max_grade", max_grade, 1, 255)
    if blocks is not None:
        whole("blocks", blocks, 1, 10**9)
    if epsilon is not None:
        positive("epsilon", epsilon)


class ShortHorizonWarning(UserWarning):
    """A horizon is too short for the parameters that the theorem wants."""


def warn_short(name: str, horizon: int, what: str) -> None:
    """Say that a horizon is too short, and what is done about it."""
    warnings.warn(f"{name}: horizon = {horizon:,} is short: {what}", ShortHorizonWarning, stacklevel=2)
