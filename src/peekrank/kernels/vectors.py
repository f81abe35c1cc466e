"""Vector kernels: inner products and sums of rows in single precision, softmax, normal random numbers."""

from __future__ import annotations

from math import cos, exp, log, pi, sin, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, reassociating_kernel
from peekrank.types import Features, Floats, Ints

Weights = NDArray[np.float32]
Real = TypeVar("Real", np.float32, np.float64)


@reassociating_kernel
def dot(x: NDArray[Real], y: NDArray[Real]) -> Real:
    """Return the inner product, in the precision of the vectors.

    >>> float(dot(np.float32([1, 2]), np.float32([3, 4])))
    11.0
    """
    total: Any = np.float32(0)
    for f in range(len(x)):
        total += x[f] * y[f]
    return total  # type: ignore[no-any-return]


@kernel
def score(X: Features, w: Weights, out: Floats) -> None:
    """Fill `out` with X w, row by row.

    >>> out = np.empty(2)
    >>> score(np.float32([[1, 0], [2, 3]]), np.float32([1, -1]), out)
    >>> out
    array([ 1., -1.])
    """
    for i in range(len(X)):
        out[i] = dot(X[i], w)


@kernel
def any_positive(numbers: Floats) -> bool:
    """Return whether some number is above 0."""
    for number in numbers:
        if number > 0:
            return True
    return False


@kernel
def copy(numbers: NDArray[Any], out: NDArray[Any]) -> None:
    """Fill the first positions of `out` with all numbers."""
    for i in range(len(numbers)):
        out[i] = numbers[i]


@kernel
def add(x: Weights, factor: float, out: Weights) -> None:
    """Add factor times x to `out`.

    >>> out = np.float32([0, 1])
    >>> add(np.float32([1, 2]), -2.0, out)
    >>> out
    array([-2., -3.], dtype=float32)
    """
    a = np.float32(factor)
    for f in range(len(out)):
        out[f] += a * x[f]


@kernel
def shrink_into_ball(w: Weights, radius: float) -> None:
    """Project a vector onto the ball of a radius.

    >>> w = np.float32([3, 4])
    >>> shrink_into_ball(w, 2.5)
    >>> w
    array([1.5, 2. ], dtype=float32)
    """
    norm = sqrt(dot(w, w))
    if norm > radius:
        shrink = np.float32(radius / norm)
        for f in range(len(w)):
            w[f] *= shrink


@kernel
def add_rows(X: Features, rows: Ints, slopes: Floats, factor: float, out: Weights) -> None:
    """Add factor times slope times row to `out`, four rows at a time to save memory traffic.

    Parameters
    ----------
    X, slopes
        Rows, and the slope of each.
    rows
        Indices of the rows to add.
    factor
        Factor of all slopes.
    out
        The vector to add to.

    >>> out = np.float32([0, 1])
    >>> add_rows(np.float32([[1, 0], [2, 3]]), np.array([1]), np.array([7.0, 0.5]), 2.0, out)
    >>> out
    array([2., 4.], dtype=float32)
    """
    q = 0
    while q + 4 <= len(rows):
        g, h, i, j = rows[q], rows[q + 1], rows[q + 2], rows[q + 3]
        a, b = np.float32(factor * slopes[g]), np.float32(factor * slopes[h])
        c, d = np.float32(factor * slopes[i]), np.float32(factor * slopes[j])
        for f in range(len(out)):
            out[f] += (a * X[g, f] + b * X[h, f]) + (c * X[i, f] + d * X[j, f])
        q += 4
    while q < len(rows):
        i = rows[q]
        a = np.float32(factor * slopes[i])
        for f in range(len(out)):
            out[f] += a * X[i, f]
        q += 1


@kernel
def all_finite(numbers: NDArray[Any]) -> bool:
    """Return whether all numbers, and their sum, are finite.

    >>> all_finite(np.array([1.0, np.nan]))
    False
    """
    total = 0.0
    for i in range(len(numbers)):
        total += numbers[i]
    return bool(np.isfinite(total))


@kernel
def are_bounded(numbers: NDArray[Any], largest: float) -> bool:
    """Return whether no number is NaN or beyond a largest one.

    >>> are_bounded(np.array([1.0, -2.0]), 2.0), are_bounded(np.array([np.nan]), 2.0)
    (True, False)
    """
    bounded = True
    for i in range(len(numbers)):
        bounded &= abs(numbers[i]) <= largest
    return bounded


@kernel
def fill_softmax(numbers: Floats, temperature: float, out: Floats) -> None:
    """Fill `out`, which may be `numbers` itself, with exp(number / temperature) over their sum.

    >>> out = np.empty(2)
    >>> fill_softmax(np.array([700.0, 700.0]), 0.1, out)
    >>> out
    array([0.5, 0.5])
    """
    best, total = numbers[0], 0.0
    for i in range(len(numbers)):
        best = max(best, numbers[i])
    for i in range(len(numbers)):
        out[i] = exp((numbers[i] - best) / temperature)
        total += out[i]
    for i in range(len(numbers)):
        out[i] /= total


@kernel
def fill_normals(uniforms: Floats, out: Floats) -> None:
    """Fill `out` with independent standard normal numbers, two from each two uniforms (Box and Muller 1958).

    Parameters
    ----------
    uniforms
        Independent and uniform in [0, 1); an even number of them.
    out
        Output, at least as long. Further numbers stay unchanged.

    >>> out = np.empty(2)
    >>> fill_normals(np.array([1 - exp(-2), 0.25]), out)
    >>> out.round(12)
    array([0., 2.])
    """
    for i in range(0, len(uniforms), 2):
        radius, angle = sqrt(-2 * log(1 - uniforms[i])), 2 * pi * uniforms[i + 1]
        out[i], out[i + 1] = radius * cos(angle), radius * sin(angle)
