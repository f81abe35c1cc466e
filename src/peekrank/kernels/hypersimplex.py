"""The hypersimplex {x in [0, 1]^m, sum x = n}, whose points are the inclusion probabilities of random n-sets.

These kernels compute the point of an FTRL learner and draw a set with given inclusion probabilities.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, Ints

_EPS = float(np.finfo(np.float64).eps)
_FINEST = _EPS / 2  # uniforms in [0, 1) are multiples of this
_MAX_STEPS = 200  # bisection alone needs 60; usually a handful of Newton steps suffice


@kernel
def smallest(values: Floats, n: int, space: Floats) -> float:
    """Return the n-th smallest value, n from 1, by Hoare's selection in `space`, O(m) on average."""
    for i in range(len(values)):
        space[i] = values[i]
    low, high, wanted = 0, len(values) - 1, n - 1
    while low < high:
        a, b, c = space[low], space[(low + high) // 2], space[high]
        pivot = max(min(a, b), min(max(a, b), c))
        left, right = low, high
        while left <= right:
            while space[left] < pivot:
                left += 1
            while space[right] > pivot:
                right -= 1
            if left <= right:
                space[left], space[right] = space[right], space[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    value: float = space[wanted]
    return value


@kernel
def tsallis_point(losses: Floats, rate: float, n: int, guess: float, x: Floats, space: Floats) -> float:
    """Fill x with the minimiser of <x, losses> - (2 / rate) sum_i sqrt(x_i) over the hypersimplex.

    Returns the multiplier: the l of ``x_i = min(1, 1 / (rate (losses_i - l))^2)``, with 1 where losses_i < l. It
    is a good guess for slightly different losses. Any number is a valid guess.

    With z_i = rate (losses_i - the n-th smallest loss), x_i = 1 / max(1, z_i + c)^2 for the one c at which these
    add up to n. Fewer than n items can be at 1, since nothing would be left for the others. So the n-th smallest
    is below 1, and c > 1. With n - 1 items at 1 and z >= 0 for the others, c <= sqrt(m - n + 1). Newton's method
    runs on (sum over x_i < 1 of x_i)^(-1/2), which is concave in c, and linear if these items are tied. Bisection
    replaces a step that leaves the interval known to hold c.
    """
    m = len(losses)
    if n >= m:
        x[:] = 1
        return guess
    middle = smallest(losses, n, space)
    low, high = 1.0, sqrt(m - n + 1.0)
    c = rate * (middle - guess)
    if not low <= c <= high:
        c = low if c < low else high
    for i in range(m):
        space[i] = rate * (losses[i] - middle)
    tolerance = _EPS * n * (16 + 4 * sqrt(m))
    for _ in range(_MAX_STEPS):
        total, slope, full = 0.0, 0.0, 0
        for i in range(m):
            distance = space[i] + c
            full += distance <= 1
            y = 1 / max(distance, 1.0)
            x[i] = y * y
            total += y * y
            slope += y * y * y
        if abs(total - n) <= tolerance:
            break
        if total > n:
            low = c
        else:
            high = c
        step = c
        if full < n:
            part = total - full
            step += part / (slope - full) * (sqrt(part / (n - full)) - 1)
        if not low < step < high:
            step = 0.5 * (low + high)
        if step in (low, high):
            break  # neighbouring floats: c cannot be more exact
        c = step
    return middle - c / rate


@kernel
def systematic_sample(x: Floats, n: int, start: float, ranking: Ints) -> None:
    """Fill the first n positions of `ranking` with a random set that holds item i with probability x_i.

    The others follow; both parts keep the order of the items.

    Systematic sampling (Madow 1949): lay the x_i end to end on a line of length n, and take the items on which
    start, start + 1, ..., start + n - 1 fall. As every x_i <= 1, no item is taken twice. If rounding leaves the
    last position empty, it goes to the likeliest item not yet taken. An item with x_i below 2^-53 is never taken,
    because starts are multiples of 2^-53 and would take it too often.
    """
    taken, others, reach = 0, n, -start
    m = len(x)
    for i in range(m):
        reach += x[i]
        if reach > 0 and taken < n and x[i] >= _FINEST:
            reach -= 1
            ranking[taken] = i
            taken += 1
        elif others < m:
            ranking[others] = i
            others += 1
        else:  # m - n items are left out already: take this item, or one of those instead
            best, position = i, -1
            for p in range(n, m):
                if x[ranking[p]] > x[best]:
                    best, position = ranking[p], p
            if position >= 0:
                ranking[position] = i
            ranking[taken] = best
            taken += 1
