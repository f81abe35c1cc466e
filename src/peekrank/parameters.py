"""Checks of parameters: a ValueError names the parameter, its value, and what would be right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise a ValueError unless the value is a whole number from low to high.

    >>> whole("m", 1, 2)
    Traceback (most recent call last):
    ValueError: m = 1: must be a whole number, at least 2
    """
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    if not isinstance(value, int | np.integer) or value < low or (high is not None and value > high):
        raise ValueError(f"{name} = {value!r}: must be a whole number, {allowed}")


def positive(name: str, value: Any) -> None:
    """Raise a ValueError unless the value is a positive, finite number.

    >>> positive("epsilon", 0.0)
    Traceback (most recent call last):
    ValueError: epsilon = 0.0: must be a positive number
    """
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} = {value!r}: must be a positive number")
