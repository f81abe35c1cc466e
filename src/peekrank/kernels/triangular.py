"""Triangular factors of least-squares problems: add rows, solve systems, change diagonals.

A factor is an upper triangular square array R. Row j is zero from ``ends[j]`` on, so columns that never occur in
the same row, such as those of one-hot blocks, cost no more than their blocks. The right-hand sides B are updated
with R. A column that has been zero in every row has a zero on the diagonal and no part in any solution.

The number of columns and all row ends are multiples of `BLOCK`, with columns of zeros as padding. Loops then run
over whole SIMD vectors and over eight rows at a time. Their indices are unsigned, because numba checks signed ones
for negative values and then does not vectorise.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel, load, vany, vload, vsplat, vstore, vsum
from peekrank.types import Floats, Ints

BLOCK = 8
_WIDTH = 256  # columns of a panel
_LINE = 64  # bytes
_UNITS = np.eye(BLOCK).ravel()
Eight = tuple[float, float, float, float, float, float, float, float]


def whole_blocks(columns: int) -> int:
    """Round a number of columns up to a multiple of `BLOCK`.

    >>> whole_blocks(9)
    16
    """
    return -(-columns // BLOCK) * BLOCK


def row_ends(columns: int) -> Ints:
    """Return the row ends of a diagonal factor.

    >>> row_ends(16)
    array([ 8,  8,  8,  8,  8,  8,  8,  8, 16, 16, 16, 16, 16, 16, 16, 16])
    """
    return np.arange(columns) // BLOCK * BLOCK + BLOCK


@kernel
def block_dot(x: Floats, y: Floats) -> float:
    """Return the inner product of vectors of whole blocks.

    >>> block_dot(np.ones(8), np.arange(8.0))
    28.0
    """
    products = vload(x, 0) * vload(y, 0)
    for j in range(BLOCK, len(x), BLOCK):
        products = products + vload(x, j) * vload(y, j)
    return vsum(products)


@kernel
def rotate(R: Floats, ends: Ints, B: Floats, x: Floats, y: Floats) -> None:
    """Add a row (x | y) to the factor (R | B) by Givens rotations, one for each number of x that is not 0.

    This adds ``x x'`` to ``R'R`` and ``x y'`` to ``R'B``. Afterwards x is 0, and y holds the residual that no
    column of R explains: its square is the increase of the residual sum of squares.

    Parameters
    ----------
    R, ends, B
        The factor, its row ends, and the right-hand sides, row by row.
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
    """Return the largest row end of the eight rows from j on."""
    end: int = ends[j]
    for q in range(j + 1, j + BLOCK):
        end = max(end, ends[q])
    return end


class Panel(NamedTuple):
    """Working memory of a solver: eight rows of a factor, and the systems that are not 0 so far."""

    rows: Floats
    systems: Ints


def panel(systems: int) -> Panel:
    """Allocate working memory for a number of systems."""
    return Panel(aligned(BLOCK * _WIDTH), np.zeros(systems, np.int64))


def aligned(*shape: int) -> Floats:
    """Return an array of zeros aligned to a cache line, so that no block of eight straddles two lines."""
    count = prod(shape)
    numbers = np.zeros(count + BLOCK)
    first = -numbers.ctypes.data % _LINE // numbers.itemsize
    return numbers[first : first + count].reshape(shape)


@kernel
def _invert(R: Floats, j: int, rows: Floats) -> None:
    """Fill a panel with the inverse of the triangle of eight rows from j on, with 0 for a zero on the diagonal."""
    for q in range(BLOCK - 1, -1, -1):
        row, own = R[j + q], load(R[j + q], j + q)
        inverse = vload(_UNITS, q * BLOCK)
        for r in range(BLOCK - 1, q, -1):
            inverse = inverse - load(row, j + r) * vload(rows, r * BLOCK)
        vstore((1 / own if own != 0 else 0.0) * inverse, rows, q * BLOCK)


@kernel
def solve(R: Floats, ends: Ints, panel: Panel, b: Floats) -> None:
    """Replace b by the solution x of ``R x = b``.

    >>> R, b = np.eye(8), np.arange(8.0)
    >>> R[0, :2] = 2, 6
    >>> solve(R, row_ends(8), panel(0), b)
    >>> b[:3]  # 2 x -3 + 6 x 1 = 0
    array([-3.,  1.,  2.])
    """
    rows = panel.rows
    for j in range(len(b) - BLOCK, -1, -BLOCK):
        _invert(R, j, rows)
        _subtract_products(R, j, _last_end(ends, j), b)
        left = vload(b, j)
        for q in range(BLOCK):
            b[j + q] = vsum(vload(rows, q * BLOCK) * left)


@kernel
def _subtract_products(R: Floats, j: int, end: int, b: Floats) -> None:
    """Subtract the products of eight rows from j on with the columns right of their triangle."""
    r0, r1, r2, r3, r4, r5, r6, r7 = R[j], R[j + 1], R[j + 2], R[j + 3], R[j + 4], R[j + 5], R[j + 6], R[j + 7]
    p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = vsplat(0.0)
    for i in range(j + BLOCK, end, BLOCK):
        x = vload(b, i)
        p0, p1, p2, p3 = p0 + x * vload(r0, i), p1 + x * vload(r1, i), p2 + x * vload(r2, i), p3 + x * vload(r3, i)
        p4, p5, p6, p7 = p4 + x * vload(r4, i), p5 + x * vload(r5, i), p6 + x * vload(r6, i), p7 + x * vload(r7, i)
    b[j] -= vsum(p0)
    b[j + 1] -= vsum(p1)
    b[j + 2] -= vsum(p2)
    b[j + 3] -= vsum(p3)
    b[j + 4] -= vsum(p4)
    b[j + 5] -= vsum(p5)
    b[j + 6] -= vsum(p6)
    b[j + 7] -= vsum(p7)


@kernel
def solve_transposed(R: Floats, ends: Ints, panel: Panel, U: Floats, count: int) -> None:
    """Replace each of the first rows u of U by the solution x of ``R' x = u``, eight columns at a time.

    Multiplying by the inverse of a triangle of eight rows takes as many multiplications as solving, and they are
    independent. The columns right of the triangle are copied to the panel in pieces that fit the cache.

    Parameters
    ----------
    R, ends
        The factor and its row ends.
    panel
        Working memory from `panel`.
    U
        One row for each system.
    count
        Number of rows to solve for.

    >>> R, U = np.eye(8), np.ones((1, 8))
    >>> R[0, :2] = 2, 6
    >>> solve_transposed(R, row_ends(8), panel(1), U, 1)
    >>> U[0, :3]  # 2 x 0.5 = 1; 6 x 0.5 - 2 = 1
    array([ 0.5, -2. ,  1. ])
    """
    rows, systems = panel.rows, panel.systems
    for j in range(0, len(ends), BLOCK):
        found = 0
        _invert(R, j, rows)
        for c in range(count):
            if vany(vload(U[c], j)):
                _solve_eight(rows, U[c], j)
                systems[found] = c
                found += 1
        end = _last_end(ends, j) if found > 0 else 0
        for begin in range(j + BLOCK, end, _WIDTH):
            last = min(begin + _WIDTH, end)
            _fill_panel(R, j, begin, last, rows)
            for s in range(0, found, 2):  # if the number is odd, the last one is paired with itself
                _subtract(rows, j, begin, last, U[systems[s]], U[systems[min(s + 1, found - 1)]])


@kernel
def _fill_panel(R: Floats, j: int, begin: int, end: int, rows: Floats) -> None:
    """Copy eight rows from j on between two columns: eight numbers of each, then the next eight of each."""
    for q in range(BLOCK):
        row = R[j + q]
        for i in range(begin, end, BLOCK):
            vstore(vload(row, i), rows, (i - begin + q) * BLOCK)


@kernel
def _solve_eight(rows: Floats, u: Floats, j: int) -> None:
    """Solve for the eight columns whose inverse is in the panel."""
    solved = load(u, j) * vload(rows, 0)
    for q in range(1, BLOCK):
        solved = solved + load(u, j + q) * vload(rows, q * BLOCK)
    vstore(solved, u, j)


@kernel
def _subtract(rows: Floats, j: int, begin: int, end: int, u: Floats, v: Floats) -> None:
    """Subtract the contribution of eight unknowns from j on to the others, for two systems."""
    a0, a1, a2, a3 = load(u, j), load(u, j + 1), load(u, j + 2), load(u, j + 3)
    a4, a5, a6, a7 = load(u, j + 4), load(u, j + 5), load(u, j + 6), load(u, j + 7)
    b0, b1, b2, b3 = load(v, j), load(v, j + 1), load(v, j + 2), load(v, j + 3)
    b4, b5, b6, b7 = load(v, j + 4), load(v, j + 5), load(v, j + 6), load(v, j + 7)
    for i in range(begin, end, BLOCK):
        p = (i - begin) * BLOCK
        r0, r1, r2, r3 = vload(rows, p), vload(rows, p + 8), vload(rows, p + 16), vload(rows, p + 24)
        x = vload(u, i) - ((a0 * r0 + a1 * r1) + (a2 * r2 + a3 * r3))
        y = vload(v, i) - ((b0 * r0 + b1 * r1) + (b2 * r2 + b3 * r3))
        r0, r1, r2, r3 = vload(rows, p + 32), vload(rows, p + 40), vload(rows, p + 48), vload(rows, p + 56)
        vstore(x - ((a4 * r0 + a5 * r1) + (a6 * r2 + a7 * r3)), u, i)
        vstore(y - ((b4 * r0 + b5 * r1) + (b6 * r2 + b7 * r3)), v, i)


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
    """Add to row i of (A | B) every row r above it, times sign A[r, i]; entries left of the diagonal stay 0."""
    row, begin = A[i], i // BLOCK * BLOCK
    for r in range(0, i, BLOCK):
        any_row = False
        for q in range(r, min(r + BLOCK, i)):
            a = sign * A[q, i]
            if a != 0:
                any_row = True
                ends[i] = max(ends[i], ends[q])
                for side in range(B.shape[1]):
                    B[i, side] += a * B[q, side]
                if r == begin:
                    above = A[q]
                    for j in range(np.uint64(begin), np.uint64(ends[i])):
                        row[j] += a * above[j]
        if any_row and r < begin:
            coefficients = (
                sign * A[r, i], sign * A[r + 1, i], sign * A[r + 2, i], sign * A[r + 3, i],
                sign * A[r + 4, i], sign * A[r + 5, i], sign * A[r + 6, i], sign * A[r + 7, i],
            )  # fmt: skip
            _add_eight(coefficients, A, r, begin, ends[i], row)
    row[begin:i] = 0


@kernel
def square(R: Floats, ends: Ints, B: Floats) -> None:
    """Replace R by the upper triangle of ``R'R`` and B by ``R'B``, from the last row up.

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

    A column whose pivot is not positive becomes a column of zeros.

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
