"""Linear programs with a feasible origin, solved in floating point or in rationals.

maximise objective @ x   subject to   rows @ x <= limits,  x >= 0,      where limits >= 0
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._util.extras import extra
from peekrank.games.exact import flint
from peekrank.games.exact.numbers import UndecidedError
from peekrank.types import Floats


class Optimum(NamedTuple):
    """An optimal value, its point, and the multipliers of the rows that prove it."""

    value: Any
    x: NDArray[Any]
    multipliers: NDArray[Any]


def maximise(objective: Floats, rows: Floats, limits: Floats) -> Optimum:
    """Solve in floating point (HiGHS).

    >>> maximise(np.array([1.0, 1.0]), np.array([[2.0, 1.0]]), np.array([2.0])).value
    2.0
    """
    with extra("games"):  # importing SciPy takes half a second
        from scipy.optimize import linprog

    solution = linprog(-objective, A_ub=rows, b_ub=limits, method="highs-ds")
    if solution.x is None:
        raise UndecidedError(f"the solution of a linear program: {solution.message}")
    return Optimum(float(objective @ solution.x), solution.x, -solution.ineqlin.marginals)


def maximise_exactly(objective: NDArray[Any], rows: NDArray[Any], limits: NDArray[Any]) -> Optimum:
    """Solve in rational numbers, by the simplex method with Bland's rule, which never cycles.

    >>> maximise_exactly(np.array([1, 1]), np.array([[2, 1], [1, 3]]), np.array([2, 2])).value
    6/5
    """
    n, m = len(objective), len(limits)
    table = np.empty((m + 1, n + m + 1), dtype=object)
    table[:] = flint.fmpq(0)
    for i in range(m):
        table[i, :n] = [_fmpq(a) for a in rows[i]]
        table[i, n + i], table[i, -1] = flint.fmpq(1), _fmpq(limits[i])
    table[m, :n] = [-_fmpq(c) for c in objective]
    basis = np.arange(n, n + m)
    while True:
        entering = next((c for c in range(n + m) if table[m, c] < 0), None)
        if entering is None:
            break
        ratios = [(table[i, -1] / table[i, entering], basis[i], i) for i in range(m) if table[i, entering] > 0]
        if not ratios:
            raise ArithmeticError("the linear program is unbounded")
        leaving = min(ratios)[2]
        table[leaving] = table[leaving] / table[leaving, entering]
        for i in range(m + 1):
            if i != leaving and table[i, entering] != 0:
                table[i] = table[i] - table[leaving] * table[i, entering]
        basis[leaving] = entering
    x = np.empty(n + m, dtype=object)
    x[:] = flint.fmpq(0)
    x[basis] = table[:m, -1]
    return Optimum(table[m, -1], x[:n], table[m, n : n + m])


def _fmpq(value: Any) -> flint.fmpq:
    if isinstance(value, flint.fmpq):
        return value
    exact = Fraction(value) if isinstance(value, float) else value
    return flint.fmpq(int(exact.numerator), int(exact.denominator))
