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


@kernel
def solve_transposed(R: Floats, ends: Ints, inverses: Floats, U: Floats, count: int) -> None:
    """Replace each of the first rows u of U by the solution x of ``R' x = u``, eight columns at a time.

    Parameters
    ----------
    R, ends
        The factor, and where its rows end.
    inverses
        Memory for as many numbers as there are columns.
    U
        One row for each system.
    count
        How many rows there are to solve for.

    >>> R, U = np.eye(8), np.ones((1, 8))
    >>> R[0, :2] = 2, 6
    >>> solve_transposed(R, row_ends(8), np.empty(8), U, 1)
    >>> U[0, :3]  # 2 x 0.5 = 1; 6 x 0.5 - 2 = 1
    array([ 0.5, -2. ,  1. ])
    """
    for j in range(len(ends)):
        inverses[j] = 1 / R[j, j] if R[j, j] != 0 else 0.0
    for j in range(0, len(ends), BLOCK):
        end = _last_end(ends, j)
        for c in range(count):
            u = U[c]
            q = j
            while q < j + BLOCK and u[q] == 0:
                q += 1
            if q < j + BLOCK:
                minus = _solve_eight(R, j, inverses, u)
                _add_eight(minus, R, j, j + BLOCK, end, u)


@kernel
def _solve_eight(R: Floats, j: int, inverses: Floats, u: Floats) -> Eight:
    """Solve for eight columns from j on; returns minus the solution."""
    r0, r1, r2, r3, r4, r5, r6 = R[j], R[j + 1], R[j + 2], R[j + 3], R[j + 4], R[j + 5], R[j + 6]
    i, h, g, f, e, d, c, b = j, j + 1, j + 2, j + 3, j + 4, j + 5, j + 6, j + 7
    a0 = u[i] * inverses[i]
    a1 = (u[h] - a0 * r0[h]) * inverses[h]
    a2 = (u[g] - (a0 * r0[g] + a1 * r1[g])) * inverses[g]
    a3 = (u[f] - (a0 * r0[f] + a1 * r1[f] + a2 * r2[f])) * inverses[f]
    a4 = (u[e] - ((a0 * r0[e] + a1 * r1[e]) + (a2 * r2[e] + a3 * r3[e]))) * inverses[e]
    t5 = u[d] - ((a0 * r0[d] + a1 * r1[d]) + (a2 * r2[d] + a3 * r3[d]))
    t6 = u[c] - ((a0 * r0[c] + a1 * r1[c]) + (a2 * r2[c] + a3 * r3[c]))
    t7 = u[b] - ((a0 * r0[b] + a1 * r1[b]) + (a2 * r2[b] + a3 * r3[b]))
    a5 = (t5 - a4 * r4[d]) * inverses[d]
    a6 = (t6 - (a4 * r4[c] + a5 * r5[c])) * inverses[c]
    a7 = (t7 - (a4 * r4[b] + a5 * r5[b] + a6 * r6[b])) * inverses[b]
    u[i], u[h], u[g], u[f], u[e], u[d], u[c], u[b] = a0, a1, a2, a3, a4, a5, a6, a7
    return -a0, -a1, -a2, -a3, -a4, -a5, -a6, -a7


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
