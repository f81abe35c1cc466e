"""Normal quantiles, and quantiles among recent numbers."""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, Ints


@kernel
def normal_quantile(p: float) -> float:
    """Return the quantile of the standard normal distribution at p, 0 < p < 1, with an error below 1e-6.

    >>> round(normal_quantile(0.975), 5), normal_quantile(0.5)
    (1.95996, 0.0)

    References
    ----------
    M. J. Wichura: The percentage points of the normal distribution, AS 241, 1988 (PPND7).
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = ((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        return q * above / (((67.1875636 * r + 78.757757664) * r + 17.895169469) * r + 1.0)
    r = sqrt(-log(p if q < 0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        above = ((0.17023821103 * r + 1.3067284816) * r + 2.75681539) * r + 1.4234372777
        z = above / ((0.12021132975 * r + 0.7370016425) * r + 1.0)
    else:
        r -= 5.0
        above = ((0.017337203997 * r + 0.42868294337) * r + 3.081226386) * r + 6.657905115
        z = above / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    return -z if q < 0 else z


class RecentNumbers(NamedTuple):
    """The latest numbers in a ring, the same numbers ascending, and how many there have been."""

    ring: Floats
    ascending: Floats
    total: Ints


def recent_numbers(size: int) -> RecentNumbers:
    """Allocate memory for the latest numbers."""
    return RecentNumbers(np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


@kernel
def _below(ascending: Floats, kept: int, number: float) -> int:
    """Return how many of the first numbers are smaller than a number."""
    low, high = 0, kept
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def keep_number(recent: RecentNumbers, number: float) -> None:
    """Add a number, in place of the oldest one if there is no room. It may be infinite, but not NaN.

    >>> recent = recent_numbers(2)
    >>> for number in (3.0, 1.0, 2.0):
    ...     keep_number(recent, number)
    >>> recent.ascending
    array([1., 2.])
    """
    ring, ascending, size = recent.ring, recent.ascending, len(recent.ring)
    place = recent.total[0] % size
    kept = min(recent.total[0], size)
    hole = kept if kept < size else _below(ascending, kept, ring[place])
    while hole > 0 and ascending[hole - 1] > number:
        ascending[hole] = ascending[hole - 1]
        hole -= 1
    while hole + 1 < kept and ascending[hole + 1] < number:
        ascending[hole] = ascending[hole + 1]
        hole += 1
    ascending[hole] = ring[place] = number
    recent.total[0] += 1


@kernel
def recent_quantile(recent: RecentNumbers, number: float) -> float:
    """Return the share of the recent numbers below a number, half of its equals included, strictly in (0, 1)."""
    kept = min(recent.total[0], len(recent.ring))
    below = _below(recent.ascending, kept, number)
    ties = 0
    while below + ties < kept and recent.ascending[below + ties] == number:
        ties += 1
    return float((below + ties / 2 + 0.5) / (kept + 1))


def check_recent(recent: RecentNumbers, name: str) -> None:
    """Raise ValueError unless numbers from a file are in order."""
    count = int(recent.total[0])
    kept = min(count, len(recent.ring))
    if count < 0 or np.isnan(recent.ring).any():
        raise ValueError(f"its {name}.ring must hold numbers, and its {name}.total must not be below 0")
    if not np.array_equal(np.sort(recent.ring[:kept]), recent.ascending[:kept]) or recent.ascending[kept:].any():
        raise ValueError(f"its {name}.ascending must hold the numbers of {name}.ring in order")
