"""What several learners need: the parameters of a measure, checks of parameters, and a test for full answers."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, LinearMeasure


@kernel
def answered(feedback: Floats) -> bool:
    """Whether every question of a round was answered."""
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            return False
    return True


def largest_gain(measure: LinearMeasure, max_grade: int) -> float:
    """Gain of the largest grade: 2^n - 1 for DCG with grades 0..n."""
    return float(measure.gain(np.array([max_grade], dtype=np.float64))[0])


def check_counts(**values: int | None) -> None:
    """Raise a ValueError for a parameter that is given, and not a whole number from 1."""
    for name, value in values.items():
        if value is not None and (value < 1 or value != int(value)):
            raise ValueError(f"{name} = {value}: must be a whole number, 1 at least")


def check_positive(**values: float | None) -> None:
    """Raise a ValueError for a parameter that is given, and not a positive number."""
    for name, value in values.items():
        if value is not None and not 0 < value < np.inf:
            raise ValueError(f"{name} = {value}: must be a positive number")
