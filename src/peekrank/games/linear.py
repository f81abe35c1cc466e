"""Exact linear algebra over the rationals."""

from __future__ import annotations

from math import gcd

import numpy as np
from flint import fmpq, fmpz_mat

from peekrank.games.game import Exact, shortest


def kernel(rows: Exact) -> Exact:
    """A basis, in whole numbers, of the vectors that are orthogonal to every row; one per row of the result.

    >>> kernel(np.array([[1, 1, 0], [0, 0, 1]])).tolist()
    [[1, -1, 0]]
    """
    basis, nullity = _matrix(rows).nullspace()
    vectors = [[int(basis[r, n]) for r in range(rows.shape[1])] for n in range(nullity)]
    if not vectors:
        return np.zeros((0, rows.shape[1]), dtype=np.int64)
    return shortest([[x // gcd(*vector) for x in vector] for vector in vectors])


def independent_columns(rows: Exact) -> list[int]:
    """The first columns that are independent and span the space of all columns.

    >>> independent_columns(np.array([[0, 1, 2, 0], [0, 0, 0, 3]]))
    [1, 3]
    """
    reduced, _, rank = _matrix(rows).rref()
    return [next(c for c, x in enumerate(row) if x != 0) for row in reduced.table()[:rank]]


def solve(rows: Exact, wanted: Exact) -> list[fmpq] | None:
    """Multipliers of independent rows whose sum is `wanted`, where it is one; None if the rows are dependent.

    >>> solve(np.array([[1, 1, 0], [0, 1, 2]]), np.array([2, 3, 2]))
    [2, 1]
    """
    if len(rows) == 0:
        return []
    pivots = independent_columns(rows)
    if len(pivots) < len(rows):
        return None
    solution = _matrix(rows[:, pivots].T).solve(_matrix(wanted[pivots, None]))
    return [solution[n, 0] for n in range(len(rows))]


def rank(rows: Exact) -> int:
    """The rank.

    >>> rank(np.array([[1, 2], [2, 4]]))
    1
    """
    return int(_matrix(rows).rank()) if len(rows) else 0


def _matrix(rows: Exact) -> fmpz_mat:
    return fmpz_mat(rows.shape[0], rows.shape[1], [int(x) for x in rows.flat])
