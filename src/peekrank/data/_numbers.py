"""Exact conversion of decimal numbers of any length to the nearest float32."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel

Bytes = NDArray[np.uint8]

LARGEST = float(np.finfo(np.float32).max)
DIGITS = 18  # always fit in 64 bits
_TOO_LARGE = LARGEST + 2.0**103  # halfway to what would be the next float32: larger numbers are infinite
_EXACT = 1 << 53  # whole numbers up to this are float64
_FARTHEST = 60  # powers of ten in the table; float32 ends at 38, but a mantissa may have many digits
_POWERS = np.array([float(f"1e{power}") for power in range(-_FARTHEST, _FARTHEST + 1)])
_BELOW, _ABOVE = 1 - 2.0**-50, 1 + 2.0**-50
_PLUS, _MINUS, _POINT, _ZERO = b"+-.0"
_UPPER_E, _LOWER_E = b"Ee"


def nearest_float(number: str) -> np.float32:
    """Return the float32 nearest to a decimal number. Ties go to the even one.

    >>> float(nearest_float("16777217")), float(nearest_float("16777217.0000000001"))
    (16777216.0, 16777218.0)
    """
    double = float(number)
    if abs(double) == _TOO_LARGE and Decimal(number).copy_abs() < Decimal(_TOO_LARGE):
        return np.float32(np.copysign(LARGEST, double))
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(double)
        other = np.nextafter(single, np.float32(np.inf if double > float(single) else -np.inf))
    if np.isinf(single) or (float(single) + float(other)) / 2 != double:
        return single
    exact, middle = Decimal(number), Decimal(double)
    if exact == middle:
        return single
    return max(single, other) if exact > middle else min(single, other)


@kernel
def _digit(byte: np.uint8) -> int:
    """Return the value of a digit. Any result outside 0 to 9 is not a digit."""
    return int(np.int64(byte) - _ZERO)


@kernel
def _more_digits(text: Bytes, at: int, number: int) -> tuple[int, int]:
    """Append digits to a number. Return their end and the number, which overflows if there are too many."""
    digit = _digit(text[at])
    while 0 <= digit <= 9:
        number = number * 10 + digit
        at += 1
        digit = _digit(text[at])
    return at, number


@kernel
def decimal(text: Bytes, at: int) -> tuple[int, np.float32, int]:
    """Parse a decimal number. Return its end, its float32, and 1 if that is exact, 0 if not, -1 if invalid.

    Mantissa times power of ten in float64 has a relative error of at most 4 x 2^-53. If all numbers within 2^-50
    of it round to one float32, that float32 is exact.
    """
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    first = at
    at, mantissa = _more_digits(text, at, 0)
    digits = at - first
    scale = 0
    if text[at] == _POINT:
        point = at + 1
        at, mantissa = _more_digits(text, point, mantissa)
        scale = point - at
        digits -= scale
    if digits == 0:
        return at, np.float32(0), -1
    if digits > DIGITS:
        mantissa, scale = _long_mantissa(text, first)
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        first = at
        power = 0
        while True:
            digit = _digit(text[at])
            if digit < 0 or digit > 9:
                break
            power = min(power * 10 + digit, 1 << 40)
            at += 1
        if at == first:
            return at, np.float32(0), -1
        scale += -power if down else power
    if mantissa == 0:
        return at, np.float32(-0.0 if minus else 0.0), 1
    value, sure = np.float32(0), 0
    if -_FARTHEST <= scale <= _FARTHEST:
        near = np.float64(mantissa) * _POWERS[scale + _FARTHEST]
        value = np.float32(near * _BELOW)
        sure = int(value == np.float32(near * _ABOVE))
    if sure == 0:
        while scale < 0 and mantissa % 10 == 0:  # 16777217.000 is exactly halfway between two float32
            mantissa //= 10
            scale += 1
        if scale == 0 and mantissa <= _EXACT and digits <= DIGITS:
            value, sure = np.float32(np.float64(mantissa)), 1
    return at, -value if minus else value, sure


@kernel
def _long_mantissa(text: Bytes, at: int) -> tuple[int, int]:
    """Return the first 18 significant digits of a number, and their power of ten."""
    mantissa = scale = kept = 0
    fraction = False
    while True:
        digit = _digit(text[at])
        if text[at] == _POINT and not fraction:
            fraction = True
        elif digit < 0 or digit > 9:
            return mantissa, scale
        elif kept < DIGITS:
            mantissa = mantissa * 10 + digit
            kept += int(mantissa > 0)
            scale -= int(fraction)
        else:
            scale += int(not fraction)
        at += 1


@kernel
def whole_number(text: Bytes, at: int) -> tuple[int, int]:
    """Return the end of a whole number, and its value, or -1 if it has no digits or too many."""
    first = at
    value = 0
    while True:
        digit = _digit(text[at])
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        at += 1
    return at, value if 0 < at - first <= DIGITS else -1
