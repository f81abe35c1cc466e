"""Validation of parameters: each ValueError gives the parameter, its value and what would be valid."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from peekrank._util.text import shown
from peekrank.types import Ints


def check_int(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise ValueError unless the value is a whole number from low to high.

    >>> check_int("m", 1, 2)
    Traceback (most recent call last):
    ValueError: m = 1: must be a whole number, at least 2
    """
    allowed = f"at least {low}" if high is None else f"from {low} to {high}"
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or value < low
        or (high is not None and value > high)
    ):
        raise ValueError(f"{name} = {shown(value)}: must be a whole number, {allowed}")


def check_ascending(name: str, values: Any, high: int) -> Ints:
    """Return the values as an array. Raises ValueError unless they are ascending whole numbers from 1 to high.

    >>> check_ascending("checkpoints", [1, 5, 3], 10)
    Traceback (most recent call last):
    ValueError: checkpoints must hold ascending whole numbers from 1 to 10, at least one
    """
    array = np.asarray(values)
    if (
        array.ndim != 1
        or array.dtype.kind not in "iu"
        or len(array) == 0
        or array[0] < 1
        or array[-1] > high
        or np.any(np.diff(array) <= 0)
    ):
        raise ValueError(f"{name} must hold ascending whole numbers from 1 to {high}, at least one")
    return array.astype(np.int64)


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a positive, finite number.

    >>> check_positive("epsilon", 0.0)
    Traceback (most recent call last):
    ValueError: epsilon = 0.0: must be a positive number
    """
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (number and value > 0 and math.isfinite(value) and math.isfinite(1 / value)):
        raise ValueError(f"{name} = {shown(value)}: must be a positive number")


def check_open_unit(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a number strictly between 0 and 1.

    >>> check_open_unit("p", 1.0)
    Traceback (most recent call last):
    ValueError: p = 1.0: must be a number above 0 and below 1
    """
    if isinstance(value, bool) or not isinstance(value, float | np.floating) or not 0 < value < 1:
        raise ValueError(f"{name} = {shown(value)}: must be a number above 0 and below 1")


def check_unit(name: str, value: Any) -> None:
    """Raise ValueError unless the value is a number above 0 and at most 1.

    >>> check_unit("decay", 1.5)
    Traceback (most recent call last):
    ValueError: decay = 1.5: must be at most 1
    """
    check_positive(name, value)
    if value > 1:
        raise ValueError(f"{name} = {shown(value)}: must be at most 1")


def check_choice(name: str, value: object, hint: Any) -> None:
    """Raise ValueError unless the value is one of the choices of a Literal type.

    >>> from typing import Literal
    >>> check_choice("order", "best", Literal["leader", "fixed"])
    Traceback (most recent call last):
    ValueError: order = 'best': must be 'leader' or 'fixed'
    """
    if value not in get_args(hint):
        raise ValueError(f"{name} = {shown(value)}: must be {' or '.join(map(repr, get_args(hint)))}")
