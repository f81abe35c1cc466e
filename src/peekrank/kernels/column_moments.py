"""Moments of feature columns: the scale of a prior that does not depend on the units of a feature."""

from __future__ import annotations

from peekrank._jit import kernel, vload, vnonzero, vstore
from peekrank.kernels.triangular import BLOCK
from peekrank.types import Floats

ROUNDING = 1e-12  # share of a sum of squares below which a remainder counts as 0
COUNT, SUM, SQUARES = range(3)  # rows of the moments


@kernel
def add_moments(moments: Floats, rows: Floats, n: int) -> None:
    """Add the first n rows: entries that are not 0, the sum and the sum of squares of each column."""
    count, total, squares = moments[COUNT], moments[SUM], moments[SQUARES]
    for j in range(0, moments.shape[1], BLOCK):
        c, t, q = vload(count, j), vload(total, j), vload(squares, j)
        for i in range(n):
            x = vload(rows[i], j)
            c, t, q = c + vnonzero(x), t + x, q + x * x
        vstore(c, count, j)
        vstore(t, total, j)
        vstore(q, squares, j)


@kernel
def column_precision(moments: Floats, j: int, items: float) -> float:
    """Return the prior precision of a weight: the column's variance, or its mean square if it is constant.

    It is divided by the share of items for which the column is not 0, so that the prior of a one-hot column does
    not depend on how often it is 1.
    """
    squares = moments[SQUARES, j]
    spread = squares - moments[SUM, j] ** 2 / items
    precision: float = (spread if spread > ROUNDING * squares else squares) / moments[COUNT, j]
    return precision
