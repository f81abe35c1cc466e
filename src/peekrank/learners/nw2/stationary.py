"""Stationary distribution of the Markov chain on neighbouring action classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.learners.nw2.tables import Tables
from peekrank.types import Floats, Ints

# Sums are stored as differences to the sum of the class itself, because Q depends only on these. Exponentials are
# taken of differences to the least sum of a row and are at least exp(-36), so that the chain stays connected in
# floating point; the change of at most 2e-16 is within rounding. Q changes little from round to round, so the
# inverse of an earlier round serves many rounds: one or two corrections, each followed by a new residual, suffice.
# A new inverse is computed if six corrections do not suffice, or if many rounds needed more than one. It comes
# from elimination without subtractions (Grassmann, Taksar & Heyman 1985), which is exact to rounding. We ran three
# million rounds at m = 5, n = 2, with one set always best and with all equal: all numbers stayed finite, and the
# shares summed to 1 within 1e-15. docs/theory/finite-games.md bounds the cost of a residual.
_MAX_EXPONENT = 36.0  # exp(-36) is about the rounding error of 1
_RESIDUAL = 1e-9
_CORRECT_UP_TO = 300  # classes; for more, sweeps are faster
_INVERT_UP_TO = 1000  # classes; for more, the matrix is too large
_CORRECTIONS, _SWEEPS = 6, 1000


class ShareSpace(NamedTuple):
    """Working memory: a number for each edge, four for each class, and a matrix of classes."""

    weights: Floats
    leaving: Floats  # sum of the weights of proper edges
    total: Floats  # sum of all weights
    flow: Floats  # share over total
    surplus: Floats  # inflow minus outflow of a class
    inverse: Floats  # row c: the missing flow if class c has a surplus of 1; from an earlier round
    spent: Ints  # corrections since that round, not counting the first of each round


def share_space(tables: Tables) -> ShareSpace:
    """Allocate working memory for the classes of a game."""
    edges, classes = len(tables.target), len(tables.edges) - 1
    side = classes if classes <= _INVERT_UP_TO else 0
    leaving, total, flow, surplus = np.zeros((4, classes))
    return ShareSpace(
        np.zeros(edges), leaving, total, flow, surplus, np.zeros((side, side)), np.zeros(1, dtype=np.int64)
    )


@kernel
def stationary_distribution(sums: Floats, eta: float, t: Tables, space: ShareSpace, shares: Floats) -> None:
    """Fill the shares p with p Q = p, where row k of Q is exp(-eta sums) along the edges of class k, normalised.

    The present shares are corrected until |p Q - p| sums to at most 1e-9, by the inverse of an earlier round or,
    for more than 300 classes, by sweeps. If that fails, and for up to 1,000 classes, a new inverse gives them
    exactly.
    """
    classes, flow = len(shares), space.flow
    if classes == 1:
        return
    _weigh(sums, eta, t, space)
    for c in range(classes):
        flow[c] = shares[c] / space.total[c]
    _balance(t, space)
    near = _correct(t, space) if classes <= _CORRECT_UP_TO else _sweep(t, space)
    if not near and classes <= _INVERT_UP_TO:
        _invert(t, space, shares)
    everything = 0.0
    for c in range(classes):
        shares[c] = flow[c] * space.total[c]
        everything += shares[c]
    for c in range(classes):
        shares[c] /= everything


@kernel
def exponentials(x: Floats) -> None:
    """Replace each x >= 0 by exp(-x), or exp(-36) if x > 36, to thirteen digits.

    This is a Taylor polynomial of x/128 < 0.29, squared seven times. It is computed in three independent parts.
    """
    for i in range(len(x)):
        z = min(x[i], _MAX_EXPONENT) * (-1 / 128)
        zz = z * z
        zzzz = zz * zz
        a = (1 + z) + zz * (1 / 2 + z * (1 / 6))
        b = (1 / 24 + z * (1 / 120)) + zz * (1 / 720 + z * (1 / 5040))
        c = (1 / 40320 + z * (1 / 362880)) + zz * (1 / 3628800 + z * (1 / 39916800))
        y = a + zzzz * (b + zzzz * c)
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        x[i] = y * y


@kernel
def _weigh(sums: Floats, eta: float, t: Tables, space: ShareSpace) -> None:
    """Fill the weights of the edges, scaled to a maximum of 1 per class, and their sums."""
    classes = len(space.total)
    for c in range(classes):
        row, weights = sums[t.edges[c] : t.edges[c + 1]], space.weights[t.edges[c] : t.edges[c + 1]]
        least = row[0]
        for e in range(len(row)):
            least = min(least, row[e])
        for e in range(len(row)):
            weights[e] = eta * (row[e] - least)
    exponentials(space.weights)
    for c in range(classes):
        weights, leaving = space.weights[t.edges[c] : t.edges[c + 1]], 0.0
        for e in range(1, len(weights)):
            leaving += weights[e]
        space.leaving[c] = leaving
        space.total[c] = weights[0] + leaving


@kernel
def _send(t: Tables, space: ShareSpace, c: int, flow: float) -> None:
    """Send an amount of flow of class c along its edges."""
    begin, end = t.edges[c] + 1, t.edges[c + 1]
    surplus, target, weights = space.surplus, t.target[begin:end], space.weights[begin:end]
    surplus[c] -= flow * space.leaving[c]
    for e in range(len(target)):
        surplus[target[e]] += flow * weights[e]


@kernel
def _balance(t: Tables, space: ShareSpace) -> None:
    """Fill the surplus that results from the flow."""
    space.surplus[:] = 0
    for c in range(len(space.flow)):
        _send(t, space, c, space.flow[c])


@kernel
def _settled(space: ShareSpace) -> bool:
    """Return whether |p Q - p| is small enough."""
    off, shares = 0.0, 0.0
    for c in range(len(space.flow)):
        off += abs(space.surplus[c])
        shares += space.flow[c] * space.total[c]
    return off <= _RESIDUAL * shares < np.inf


@kernel
def _correct(t: Tables, space: ShareSpace) -> bool:
    """Correct by Newton's method with an earlier inverse; return whether it converged and is still good.

    A new inverse takes as long as ``classes / 2`` corrections. It is due after ``classes`` corrections since the
    last one, not counting the first of each round.
    """
    flow, classes = space.flow, len(space.flow)
    for tried in range(_CORRECTIONS):
        if _settled(space):
            return bool(space.spent[0] < classes)
        if tried > 0:
            space.spent[0] += 1
        for c in range(classes):
            row, surplus = space.inverse[c], space.surplus[c]
            for i in range(classes):
                flow[i] += surplus * row[i]
        for c in range(classes):
            flow[c] = max(flow[c], 0.0)
        _balance(t, space)
    return False


@kernel
def _sweep(t: Tables, space: ShareSpace) -> bool:
    """Send on the surplus of class after class (Gauss and Seidel); return whether it converged."""
    for _ in range(_SWEEPS):
        if _settled(space):
            return True
        for c in range(len(space.flow)):
            more = max(space.surplus[c] / space.leaving[c], -space.flow[c])
            space.flow[c] += more
            _send(t, space, c, more)
    return False


@kernel
def _invert(t: Tables, space: ShareSpace, shares: Floats) -> None:
    """Fill flow and inverse by eliminating all classes except the heaviest, whose flow stays 1.

    The elimination subtracts nothing (Grassmann, Taksar & Heyman 1985), so the flow is exact to rounding, however
    small.
    """
    flow, matrix, classes, ground = space.flow, space.inverse, len(shares), 0
    for c in range(classes):
        if shares[c] > shares[ground]:
            ground = c
    matrix[:] = 0
    for e in range(len(t.source)):
        matrix[t.source[e], t.target[e]] = space.weights[e]
    row = space.surplus  # reused as a buffer: a row that cannot alias the matrix is twice as fast
    for last in range(classes - 1, -1, -1):
        if last == ground:
            continue
        leaving = 0.0  # to the remaining classes
        for c in range(classes):
            row[c] = matrix[last, c]
            if c < last or c == ground:
                leaving += row[c]
        row[last] = 0
        for c in range(classes):
            mine = matrix[c]
            if c != last and mine[last] > 0:
                part = mine[last] / leaving
                for i in range(classes):
                    mine[i] += part * row[i]
                mine[last] = part
        for c in range(classes):
            matrix[last, c] = row[c] / leaving
        matrix[last, last] = 1 / leaving
    for c in range(classes):
        flow[c] = matrix[ground, c]
        matrix[ground, c] = matrix[c, ground] = 0
    flow[ground] = 1
    space.spent[0] = 0
