"""Exact numbers of games: rationals, and integer combinations of 1 / log2(b) with signs certified by balls.

Position p of DCG has weight 1 / log2(1 + p). With 1 + p = b^e and b no perfect power this is u_b / e, where
u_b = 1 / log2(b) and u_2 = 1: every weight is a rational multiple of one of the *units* u_b. A combination of
units is zero if it vanishes term by term and nonzero if its ball excludes zero. Otherwise its sign is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peekrank.games.exact import flint

Exact = NDArray[Any]  # integers: int64, or Python's if they do not fit
MOST_DIGITS = 300
PRECISIONS = (64, 256, 1024, 4096)  # bits, tried in this order


class UndecidedError(ArithmeticError):
    """Raised if neither exact nor certified arithmetic settles a question."""


def rational(value: Any) -> Fraction:
    """Return the exact value of a number. A float means the decimal it prints as; text may be '1/3' or '0.1'.

    >>> rational(0.1) + rational("1/3")
    Fraction(13, 30)
    """
    text = str(int(value)) if isinstance(value, bool | np.bool) else str(value)
    try:
        exponent = text.lower().partition("e")[2]
        if len(text) > MOST_DIGITS or (exponent and abs(int(exponent)) > MOST_DIGITS):
            raise ValueError(f"{text[:20]}... has more than {MOST_DIGITS} digits")
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(str(error) if "digits" in str(error) else f"{text!r} is not a finite number") from None


@lru_cache(maxsize=4096)
def base_and_power(n: int) -> tuple[int, int]:
    """Return b and e with n = b^e, where b is not a perfect power.

    >>> base_and_power(8), base_and_power(36), base_and_power(6)
    ((2, 3), (6, 2), (6, 1))
    """
    for b in range(2, isqrt(n) + 1):
        power, e = b, 1
        while power < n:
            power, e = power * b, e + 1
        if power == n:
            return b, e
    return n, 1


@lru_cache(maxsize=512)
def unit(base: int, bits: int) -> flint.arb:
    """Return a ball around u_b = 1 / log2(b).

    >>> round(float(unit(3, 64).mid()), 6)
    0.63093
    """
    with flint.ctx.workprec(bits):
        return flint.arb(1) if base == 2 else flint.arb(2).log() / flint.arb(base).log()


def ball(numbers: Iterable[Any], units: Iterable[flint.arb]) -> flint.arb:
    """Return the sum of numbers[b] * units[b]."""
    total = flint.arb(0)
    for number, value in zip(numbers, units, strict=True):
        if number:
            total += _arb(number) * value
    return total


def sign_of(value: flint.arb) -> int | None:
    """Return 1 or -1, or None if the ball contains zero."""
    return 1 if value > 0 else -1 if value < 0 else None


def _arb(number: Any) -> flint.arb:
    if isinstance(number, Fraction):
        return flint.arb(flint.fmpq(number.numerator, number.denominator))
    return flint.arb(number if isinstance(number, flint.fmpq) else int(number))


def shortest(values: Any) -> Exact:
    """Return an integer array: int64 if sums of a million such numbers fit, Python integers otherwise."""
    array = np.asarray(values) if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    small = array.size == 0 or max(abs(array.max()), abs(array.min())) < 2**31
    return array.astype(np.int64 if small else object)
