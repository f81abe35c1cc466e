"""The shares of neighbouring classes that stay as they are when each class passes its own on by given weights.

In other words, the stationary distribution of a Markov chain on the neighbours of a game, by kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.learners.nw2.tables import Tables
from peekrank.types import Floats, Ints

# Sums are kept as differences to the sum of the class itself, since Q depends on nothing else. Exponentials are
# taken of differences to the least sum of a row, and never below exp(-36), so that the chain stays connected in
# floating point: raising a weight by 2e-16 costs as much as rounding does. Q changes little from round to round,
# so that the inverse of an earlier round serves for many: one or two corrections, each followed by a new
# residual, are enough. A new inverse is made if six corrections are not enough, or if many rounds needed more
# than one. It comes from elimination without subtractions (Grassmann, Taksar & Heyman 1985), which gives shares
# that are exact to rounding. Three million rounds at m = 5, n = 2, with one set always best and with all alike,
# left everything finite and shares that add up to 1 within 1e-15. docs/theory/finite-games.md bounds what a
# residual costs.
_MAX_NUMBER = 36.0  # exp(-36) is what rounding leaves of 1
_RESIDUAL = 1e-9
_CORRECT_UP_TO = 300  # classes; beyond, sweeps are faster
_INVERT_UP_TO = 1000  # classes; beyond, the matrix is too large
_CORRECTIONS, _SWEEPS = 6, 1000


class ShareSpace(NamedTuple):
    """Working memory: a number for each edge, four for each class, and a matrix of classes."""

    weights: Floats
    leaving: Floats  # sum of the weights of proper edges
    total: Floats  # sum of all weights
    flow: Floats  # share over total
    surplus: Floats  # what comes to a class less what leaves it
    inverse: Floats  # row c: the flow that is missing where class c has a surplus of 1; from an earlier round
    spent: Ints  # corrections since that round, beyond the first of each


def share_space(tables: Tables) -> ShareSpace:
    """Memory for the classes of a game."""
    edges, classes = len(tables.target), len(tables.edges) - 1
    side = classes if classes <= _INVERT_UP_TO else 0
    leaving, total, flow, surplus = np.zeros((4, classes))
    return ShareSpace(
        np.zeros(edges), leaving, total, flow, surplus, np.zeros((side, side)), np.zeros(1, dtype=np.int64)
    )


@kernel
def settle(sums: Floats, eta: float, t: Tables, space: ShareSpace, shares: Floats) -> None:
    """Fill the shares p with p Q = p, where class k passes exp(-eta sums) on along its edges, normalised.

    The shares that are there are corrected until |p Q - p| adds up to 1e-9: by the inverse of an earlier round or,
    for more than 300 classes, by sweeps. Where that does not do, and up to 1,000 classes, a new inverse is exact.
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
    """Replace each x >= 0 by exp(-x), or exp(-36) where x > 36; to thirteen digits, several at a time.

    A Taylor polynomial of x/128, which is below 0.29, squared seven times; in three parts, which need not wait
    for each other.
    """
    for i in range(len(x)):
        z = min(x[i], _MAX_NUMBER) * (-1 / 128)
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
    """Fill the weights of the edges, the largest of each class being 1, and their sums."""
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
    """Let so much flow of class c go along its edges."""
    begin, end = t.edges[c] + 1, t.edges[c + 1]
    surplus, target, weights = space.surplus, t.target[begin:end], space.weights[begin:end]
    surplus[c] -= flow * space.leaving[c]
    for e in range(len(target)):
        surplus[target[e]] += flow * weights[e]


@kernel
def _balance(t: Tables, space: ShareSpace) -> None:
    """Fill the surplus that the flow leads to."""
    space.surplus[:] = 0
    for c in range(len(space.flow)):
        _send(t, space, c, space.flow[c])


@kernel
def _settled(space: ShareSpace) -> bool:
    """Whether |p Q - p| adds up to little enough."""
    off, shares = 0.0, 0.0
    for c in range(len(space.flow)):
        off += abs(space.surplus[c])
        shares += space.flow[c] * space.total[c]
    return off <= _RESIDUAL * shares < np.inf


@kernel
def _correct(t: Tables, space: ShareSpace) -> bool:
    """Newton's method with the inverse of an earlier round; whether it settled, and the inverse is good enough.

    A new inverse takes as long as ``classes / 2`` corrections. It is due when ``classes`` of them have been made
    since the last one, beyond the first of each round.
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
    """Gauss and Seidel: class after class sends its surplus on; whether it settled."""
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
    """Fill flow and inverse by eliminating all classes but the heaviest, whose flow is 1 and stays as it is.

    Nothing is ever subtracted (Grassmann, Taksar & Heyman 1985): the flow is exact to rounding, however small.
    """
    flow, matrix, classes, ground = space.flow, space.inverse, len(shares), 0
    for c in range(classes):
        if shares[c] > shares[ground]:
            ground = c
    matrix[:] = 0
    for e in range(len(t.source)):
        matrix[t.source[e], t.target[e]] = space.weights[e]
    row = space.surplus  # no longer needed; a copy, known not to be a part of the matrix, is twice as fast
    for last in range(classes - 1, -1, -1):
        if last == ground:
            continue
        leaving = 0.0  # to classes that remain
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
