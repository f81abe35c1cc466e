"""Triangular factors of sums of squares: rows rotated in, systems solved, diagonals changed.

A factor is an upper triangle R, a square array with zeros below the diagonal. Row j is zero from ``ends[j]`` on:
columns that never meet in a row, as those of one-hot blocks, cost what their blocks cost. Right-hand sides B go
along. A column that has been zero in every row has a zero on the diagonal: it has no part in any solution.

The number of columns is a multiple of `BLOCK`, filled up by columns of zeros, and so is every end of a row: loops
then run over whole vectors of the processor, and over eight rows at a time. Their indices are unsigned: numba
looks for negative ones otherwise, which keeps it from using vectors.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from peekrank._jit import kernel, sum_kernel
from peekrank.types import Floats, Ints

BLOCK = 8
_STRIDE = 2120  # of the rows of a panel: they begin in different places of the cache
_R1, _R2, _R3, _R4, _R5, _R6, _R7 = (np.uint64(q * _STRIDE) for q in range(1, BLOCK))
Eight = tuple[float, float, float, float, float, float, float, float]


def whole_blocks(columns: int) -> int:
    """The number of columns of a factor that has room for so many.

    >>> whole_blocks(9)
    16
    """
    return -(-columns // BLOCK) * BLOCK


def row_ends(columns: int) -> Ints:
    """Where the rows of a diagonal factor end.

    >>> row_ends(16)
    array([ 8,  8,  8,  8,  8,  8,  8,  8, 16, 16, 16, 16, 16, 16, 16, 16])
    """
    return np.arange(columns) // BLOCK * BLOCK + BLOCK


@kernel
def rotate(R: Floats, ends: Ints, B: Floats, x: Floats, y: Floats) -> None:
    """Add a row (x | y) to the factor (R | B) by Givens rotations, one for each number of x that is not 0.

    Afterwards ``R'R`` has grown by ``x x'`` and ``R'B`` by ``x y'``; x is 0, and y holds what no column of R
    explains: its square is what the least sum of squares has grown by.

    Parameters
    ----------
    R, ends, B
        The factor, where its rows end, and right-hand sides, row by row.
    x, y
        The row; both change.

    >>> R, ends, B, y = 3 * np.eye(8), row_ends(8), np.zeros((8, 1)), np.array([5.0])
    >>> rotate(R, ends, B, 4 * np.eye(8)[0], y)
    >>> float(R[0, 0]), B[0], y  # 5^2 = 3^2 + 4^2; R B = 4 x 5; 4^2 + 3^2 = 5^2
    (5.0, array([4.]), array([3.]))
    """
    last = len(x)
    while last > 0 and x[last - 1] == 0:
        last -= 1
    last = -(-last // BLOCK) * BLOCK
    for j in range(len(x)):
        if j == last:
            return
        b = x[j]
        if b != 0:
            row = R[j]
            a = row[j]
            length = sqrt(a * a + b * b)
            cosine, sine = a / length, b / length
            last = max(last, ends[j])
            ends[j] = last
            for i in range(np.uint64(j // BLOCK * BLOCK), np.uint64(last)):
                above, below = row[i], x[i]
                row[i] = cosine * above + sine * below
                x[i] = cosine * below - sine * above
            row[j], x[j] = length, 0.0
            for q in range(len(y)):
                above, below = B[j, q], y[q]
                B[j, q] = cosine * above + sine * below
                y[q] = cosine * below - sine * above


@kernel
def _last_end(ends: Ints, j: int) -> int:
    """Where the longest of the eight rows from j on ends."""
    end: int = ends[j]
    for q in range(j + 1, j + BLOCK):
        end = max(end, ends[q])
    return end


@sum_kernel
def _eight_products(R: Floats, j: int, end: int, b: Floats) -> Eight:
    """The inner products of b with eight rows from j on, over the columns behind their triangle."""
    r0, r1, r2, r3, r4, r5, r6, r7 = R[j], R[j + 1], R[j + 2], R[j + 3], R[j + 4], R[j + 5], R[j + 6], R[j + 7]
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = 0.0
    for i in range(np.uint64(j + BLOCK), np.uint64(end)):
        p0 += r0[i] * b[i]
        p1 += r1[i] * b[i]
        p2 += r2[i] * b[i]
        p3 += r3[i] * b[i]
        p4 += r4[i] * b[i]
        p5 += r5[i] * b[i]
        p6 += r6[i] * b[i]
        p7 += r7[i] * b[i]
    return p0, p1, p2, p3, p4, p5, p6, p7


@kernel
def solve(R: Floats, ends: Ints, b: Floats) -> None:
    """Replace b by the solution x of ``R x = b``.

    >>> R, b = np.eye(8), np.arange(8.0)
    >>> R[0, :2] = 2, 6
    >>> solve(R, row_ends(8), b)
    >>> b[:3]  # 2 x -3 + 6 x 1 = 0
    array([-3.,  1.,  2.])
    """
    for j in range(len(b) - BLOCK, -1, -BLOCK):
        p0, p1, p2, p3, p4, p5, p6, p7 = _eight_products(R, j, _last_end(ends, j), b)
        b[j] -= p0
        b[j + 1] -= p1
        b[j + 2] -= p2
        b[j + 3] -= p3
        b[j + 4] -= p4
        b[j + 5] -= p5
        b[j + 6] -= p6
        b[j + 7] -= p7
        for i in range(j + BLOCK - 1, j - 1, -1):
            b[i] = b[i] / R[i, i] if R[i, i] != 0 else 0.0
            for q in range(j, i):
                b[q] -= R[q, i] * b[i]


def panel() -> Floats:
    """Memory for `solve_transposed`: eight rows of a factor."""
    return np.zeros(BLOCK * _STRIDE)


@kernel
def solve_transposed(R: Floats, ends: Ints, panel: Floats, U: Floats, count: int) -> None:
    """Replace each of the first rows u of U by the solution x of ``R' x = u``, eight columns at a time.

    Eight rows of R are copied to the panel, with the inverse of their triangle in front: a product with an inverse
    takes as many multiplications as solving, none of which waits for another, and the compiler sees that a panel
    is none of the rows that are written to.

    Parameters
    ----------
    R, ends
        The factor, of 2,048 columns at most, and where its rows end.
    panel
        Memory made by `panel`.
    U
        One row for each system.
    count
        How many rows there are to solve for.

    >>> R, U = np.eye(8), np.ones((1, 8))
    >>> R[0, :2] = 2, 6
    >>> solve_transposed(R, row_ends(8), panel(), U, 1)
    >>> U[0, :3]  # 2 x 0.5 = 1; 6 x 0.5 - 2 = 1
    array([ 0.5, -2. ,  1. ])
    """
    for j in range(0, len(ends), BLOCK):
        end = _last_end(ends, j)
        _fill_panel(R, j, end, panel)
        waiting = -1  # rows that are not 0 here are taken by twos
        for c in range(count):
            if _some(U[c], j):
                _solve_eight(panel, U[c, j : j + BLOCK])
                if waiting < 0:
                    waiting = c
                else:
                    _subtract_twice(panel, U[waiting, j:end], U[c, j:end])
                    waiting = -1
        if waiting >= 0:
            _subtract(panel, U[waiting, j:end])


@kernel
def _fill_panel(R: Floats, j: int, end: int, p: Floats) -> None:
    """The inverse of the triangle of eight rows from j on, 0 where its diagonal is; then what is behind it."""
    for q in range(BLOCK - 1, -1, -1):
        own = R[j + q, j + q]
        inverse = 1 / own if own != 0 else 0.0
        row = p[q * _STRIDE : q * _STRIDE + end - j]
        row[:BLOCK] = 0
        for r in range(q + 1, BLOCK):
            factor, below = -inverse * R[j + q, j + r], p[r * _STRIDE : r * _STRIDE + BLOCK]
            for i in range(np.uint64(BLOCK)):
                row[i] += factor * below[i]
        row[q] = inverse
        behind = R[j + q, j:end]
        for i in range(np.uint64(BLOCK), np.uint64(end - j)):
            row[i] = behind[i]


@kernel
def _some(u: Floats, j: int) -> bool:
    """Whether one of eight numbers is not 0."""
    some = False
    for q in range(j, j + BLOCK):
        some |= u[q] != 0
    return some


@kernel
def _solve_eight(p: Floats, u: Floats) -> None:
    """Solve for the eight columns that a panel begins with."""
    a0, a1, a2, a3, a4, a5, a6, a7 = u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
    for i in range(np.uint64(len(u))):  # the compiler would unroll a known number of steps, without vectors
        u[i] = ((a0 * p[i] + a1 * p[i + _R1]) + (a2 * p[i + _R2] + a3 * p[i + _R3])) + (
            (a4 * p[i + _R4] + a5 * p[i + _R5]) + (a6 * p[i + _R6] + a7 * p[i + _R7])
        )


@kernel
def _subtract(p: Floats, u: Floats) -> None:
    """Subtract what the first eight numbers contribute to the others."""
    a0, a1, a2, a3, a4, a5, a6, a7 = u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
    for i in range(np.uint64(BLOCK), np.uint64(len(u))):
        u[i] -= ((a0 * p[i] + a1 * p[i + _R1]) + (a2 * p[i + _R2] + a3 * p[i + _R3])) + (
            (a4 * p[i + _R4] + a5 * p[i + _R5]) + (a6 * p[i + _R6] + a7 * p[i + _R7])
        )


@kernel
def _subtract_twice(p: Floats, u: Floats, v: Floats) -> None:
    """The same for two rows, with what is read of the panel once."""
    a0, a1, a2, a3, a4, a5, a6, a7 = u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    for i in range(np.uint64(BLOCK), np.uint64(len(u))):
        r0, r1, r2, r3 = p[i], p[i + _R1], p[i + _R2], p[i + _R3]
        r4, r5, r6, r7 = p[i + _R4], p[i + _R5], p[i + _R6], p[i + _R7]
        u[i] -= ((a0 * r0 + a1 * r1) + (a2 * r2 + a3 * r3)) + ((a4 * r4 + a5 * r5) + (a6 * r6 + a7 * r7))
        v[i] -= ((b0 * r0 + b1 * r1) + (b2 * r2 + b3 * r3)) + ((b4 * r4 + b5 * r5) + (b6 * r6 + b7 * r7))


@kernel
def _add_eight(coefficients: Eight, A: Floats, r: int, begin: int, end: int, out: Floats) -> None:
    """Add a combination of eight rows of A, from r on, to the columns of `out` from `begin` to `end`."""
    r0, r1, r2, r3, r4, r5, r6, r7 = A[r], A[r + 1], A[r + 2], A[r + 3], A[r + 4], A[r + 5], A[r + 6], A[r + 7]
    a0, a1, a2, a3, a4, a5, a6, a7 = coefficients
    for i in range(np.uint64(begin), np.uint64(end)):
        out[i] += ((a0 * r0[i] + a1 * r1[i]) + (a2 * r2[i] + a3 * r3[i])) + (
            (a4 * r4[i] + a5 * r5[i]) + (a6 * r6[i] + a7 * r7[i])
        )


@kernel
def _add_rows_above(A: Floats, ends: Ints, B: Floats, i: int, sign: float) -> None:
    """Add to row i of (A | B) every row r above it, times sign A[r, i]; what is left of the diagonal stays 0."""
    row, begin = A[i], i // BLOCK * BLOCK
    for r in range(0, i, BLOCK):
        some = False
        for q in range(r, min(r + BLOCK, i)):
            a = sign * A[q, i]
            if a != 0:
                some = True
                ends[i] = max(ends[i], ends[q])
                for side in range(B.shape[1]):
                    B[i, side] += a * B[q, side]
                if r == begin:
                    above = A[q]
                    for j in range(np.uint64(begin), np.uint64(ends[i])):
                        row[j] += a * above[j]
        if some and r < begin:
            coefficients = (
                sign * A[r, i], sign * A[r + 1, i], sign * A[r + 2, i], sign * A[r + 3, i],
                sign * A[r + 4, i], sign * A[r + 5, i], sign * A[r + 6, i], sign * A[r + 7, i],
            )  # fmt: skip
            _add_eight(coefficients, A, r, begin, ends[i], row)
    row[begin:i] = 0


@kernel
def square(R: Floats, ends: Ints, B: Floats) -> None:
    """Replace R by the upper triangle of ``R'R`` and B by ``R'B``: from the last row up, each needs those above.

    >>> R, B = np.eye(8), np.ones((8, 1))
    >>> R[0, :2] = 2, 6
    >>> square(R, row_ends(8), B)
    >>> R[:2, :2], B[:2, 0]
    (array([[ 4., 12.],
           [ 0., 37.]]), array([2., 7.]))
    """
    for i in range(len(ends) - 1, -1, -1):
        own = R[i, i]
        for j in range(i, ends[i]):
            R[i, j] *= own
        for q in range(B.shape[1]):
            B[i, q] *= own
        _add_rows_above(R, ends, B, i, 1.0)


@kernel
def cholesky(A: Floats, ends: Ints, B: Floats) -> None:
    """Undo `square`: replace A by R with ``R'R = A`` and B by the solution X of ``R'X = B``.

    A column whose pivot is not positive becomes one that has been zero in every row.

    >>> A, B = np.eye(8), np.ones((8, 1))
    >>> A[:2, :2], B[:2, 0] = [[4, 12], [0, 37]], [2, 7]
    >>> cholesky(A, row_ends(8), B)
    >>> A[:2, :2], B[:2, 0]
    (array([[2., 6.],
           [0., 1.]]), array([1., 1.]))
    """
    for i in range(len(ends)):
        _add_rows_above(A, ends, B, i, -1.0)
        inverse = 1 / sqrt(A[i, i]) if A[i, i] > 0 else 0.0
        for j in range(i, ends[i]):
            A[i, j] *= inverse
        for q in range(B.shape[1]):
            B[i, q] *= inverse
