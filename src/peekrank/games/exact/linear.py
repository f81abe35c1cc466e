"""Exact linear algebra over the rationals."""

from __future__ import annotations

from math import gcd

import numpy as np

from peekrank.games.exact import flint
from peekrank.games.exact.numbers import Exact, shortest


def kernel(rows: Exact) -> Exact:
    """Return an integer basis of the vectors that are orthogonal to every row, one vector per row.

    >>> kernel(np.array([[1, 1, 0], [0, 0, 1]])).tolist()
    [[1, -1, 0]]
    """
    basis, nullity = _matrix(rows).nullspace()
    vectors = [[int(basis[r, n]) for r in range(rows.shape[1])] for n in range(nullity)]
    if not vectors:
        return np.zeros((0, rows.shape[1]), dtype=np.int64)
    return shortest([[x // gcd(*vector) for x in vector] for vector in vectors])


def independent_columns(rows: Exact) -> list[int]:
    """Return the first independent columns that span the space of all columns.

    >>> independent_columns(np.array([[0, 1, 2, 0], [0, 0, 0, 3]]))
    [1, 3]
    """
    reduced, _, rank = _matrix(rows).rref()
    return [next(c for c, x in enumerate(row) if x != 0) for row in reduced.table()[:rank]]


def coordinates(rows: Exact, targets: Exact) -> tuple[Exact, int] | None:
    """Solve x @ rows == d * targets for integers x and a positive d, if the targets lie in the span of the rows.

    Returns None if the rows are dependent. For a target outside the span, x is right on a maximal set of columns.

    >>> coordinates(np.array([[1, 1, 0], [0, 2, 2]]), np.array([[2, 3, 1]]))
    (array([[4, 1]]), 2)
    """
    if len(rows) == 0:
        return np.zeros((len(targets), 0), dtype=np.int64), 1
    pivots = independent_columns(rows)
    if len(pivots) < len(rows):
        return None
    inverse, d = flint.fmpq_mat(_matrix(rows[:, pivots])).inv().numer_denom()
    product = (_matrix(targets[:, pivots]) * inverse).table()
    x = np.array([[int(entry) for entry in row] for row in product], dtype=object)
    return shortest(x.reshape(len(targets), len(rows))), int(d)


def rank(rows: Exact) -> int:
    """Return the rank.

    >>> rank(np.array([[1, 2], [2, 4]]))
    1
    """
    return int(_matrix(rows).rank()) if len(rows) else 0


def _matrix(rows: Exact) -> flint.fmpz_mat:
    return flint.fmpz_mat(rows.shape[0], rows.shape[1], [int(x) for x in rows.flat])
