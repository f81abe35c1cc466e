"""The shares of neighbouring classes that stay as they are when each class passes its own on by given weights.

In other words, the stationary distribution of a Markov chain on the neighbours of a game, by kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.learners.nw2_tables import Tables
from peekrank.types import Floats, Ints

_FARTHEST = 36.0  # exp(-36) is what rounding leaves of 1
_ELIMINATE_UP_TO = 80  # classes; beyond, iterating is faster
_DENSE_UP_TO = 1000  # classes; beyond, the matrix is too large
_RESIDUAL = 1e-13
_SWEEPS, _LONG_SWEEPS = 100, 1000


class ShareSpace(NamedTuple):
    """Working memory: two numbers for each edge, two for each class, and a matrix of classes."""

    weights: Floats
    inward: Floats  # the weights of the reverse edges
    flow: Floats  # share over sum of weights
    leaving: Floats  # sum of the weights of proper edges
    matrix: Floats


def share_space(tables: Tables) -> ShareSpace:
    """Memory for the classes of a game."""
    edges, classes = len(tables.target), len(tables.edges) - 1
    side = classes if classes <= _DENSE_UP_TO else 0
    return ShareSpace(
        np.zeros(edges), np.zeros(edges), np.zeros(classes), np.zeros(classes), np.zeros((side, side))
    )


@kernel
def settle(sums: Floats, eta: float, t: Tables, space: ShareSpace, shares: Floats) -> None:
    """Fill the shares p with p Q = p, where class k passes exp(-eta sums) on along its edges, normalised.

    Up to 80 classes by elimination, then by iteration from the shares that are there, until |p Q - p| adds up to
    1e-13; elimination has the last word up to 1,000 classes.
    """
    classes = len(shares)
    if classes == 1:
        return
    _weigh(sums, eta, t, space)
    if (classes <= _ELIMINATE_UP_TO or not _sweep(t, space, shares)) and classes <= _DENSE_UP_TO:
        _eliminate(t, space)
    total = 0.0
    for c in range(classes):
        shares[c] = space.flow[c] * (space.leaving[c] + space.weights[t.edges[c]])
        total += shares[c]
    for c in range(classes):
        shares[c] /= total


@kernel
def exponentials(x: Floats) -> None:
    """Replace each x >= 0 by exp(-x), or exp(-36) where x > 36; to thirteen digits, several at a time.

    A Taylor polynomial of x/128, which is below 0.29, squared seven times.
    """
    for i in range(len(x)):
        z = min(x[i], _FARTHEST) * (-1 / 128)
        y = 1 / 720 + z * (1 / 5040 + z * (1 / 40320 + z * (1 / 362880 + z * (1 / 3628800 + z * (1 / 39916800)))))
        y = 1 + z * (1 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * y)))))
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        y *= y
        x[i] = y * y


@kernel
def _weigh(sums: Floats, eta: float, t: Tables, space: ShareSpace) -> None:
    """Fill the weights of the edges, the largest of each class being 1, and what leaves each class."""
    weights = space.weights
    for c in range(len(space.leaving)):
        begin, end = t.edges[c], t.edges[c + 1]
        least = _least(sums, begin, end)
        for e in range(begin, end):
            weights[e] = eta * (sums[e] - least)
    exponentials(weights)
    for c in range(len(space.leaving)):
        space.leaving[c] = _sum(weights, t.edges[c] + 1, t.edges[c + 1])


@kernel
def _least(x: Floats, begin: int, end: int) -> float:
    """Of a part of x; by four candidates, which need not wait for each other."""
    a = b = c = d = float(x[begin])
    whole = end - (end - begin) % 4
    for i in range(begin, whole, 4):
        a = min(a, x[i])
        b = min(b, x[i + 1])
        c = min(c, x[i + 2])
        d = min(d, x[i + 3])
    for i in range(whole, end):
        a = min(a, x[i])
    return min(a, b, c, d)


@kernel
def _sum(x: Floats, begin: int, end: int) -> float:
    """Of a part of x; by four sums, likewise."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = end - (end - begin) % 4
    for i in range(begin, whole, 4):
        a += x[i]
        b += x[i + 1]
        c += x[i + 2]
        d += x[i + 3]
    for i in range(whole, end):
        a += x[i]
    return (a + b) + (c + d)


@kernel
def _inflow(flow: Floats, target: Ints, inward: Floats, begin: int, end: int) -> float:
    """What a class gets from its neighbours; by four sums, likewise."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = end - (end - begin) % 4
    for e in range(begin, whole, 4):
        a += flow[target[e]] * inward[e]
        b += flow[target[e + 1]] * inward[e + 1]
        c += flow[target[e + 2]] * inward[e + 2]
        d += flow[target[e + 3]] * inward[e + 3]
    for e in range(whole, end):
        a += flow[target[e]] * inward[e]
    return (a + b) + (c + d)


@kernel
def _sweep(t: Tables, space: ShareSpace, shares: Floats) -> bool:
    """Gauss and Seidel from the last shares; whether the residual became small.

    ``change`` over ``total`` is no less than the residual of the shares after the sweep: what remains there of
    class c is due to changes of later classes, and adds up to no more than these send out. Sweeps do not keep the
    total.
    """
    flow, inward, classes = space.flow, space.inward, len(shares)
    for c in range(classes):
        for e in range(t.edges[c], t.edges[c + 1]):
            inward[e] = space.weights[t.reverse[e]]
        flow[c] = shares[c] / (space.leaving[c] + space.weights[t.edges[c]])
    for _ in range(_SWEEPS if classes <= _DENSE_UP_TO else _LONG_SWEEPS):
        change, total = 0.0, 0.0
        for c in range(classes):
            got = _inflow(flow, t.target, inward, t.edges[c] + 1, t.edges[c + 1])
            change += abs(got - flow[c] * space.leaving[c])
            flow[c] = got / space.leaving[c]
            total += flow[c] * (space.leaving[c] + space.weights[t.edges[c]])
        if change <= _RESIDUAL * total:
            return True
    return False


@kernel
def _eliminate(t: Tables, space: ShareSpace) -> None:
    """Eliminate class after class, without any subtraction (Grassmann, Taksar & Heyman 1985)."""
    flow, matrix, classes = space.flow, space.matrix, len(space.flow)
    matrix[:] = 0
    for e in range(len(t.source)):
        matrix[t.source[e], t.target[e]] = space.weights[e]
    for last in range(classes - 1, 0, -1):
        row = matrix[last]
        total = _sum(row, 0, last)
        for c in range(last):
            if matrix[c, last] > 0:
                part, mine = matrix[c, last] / total, matrix[c]
                mine[last] = part
                for j in range(last):
                    mine[j] += part * row[j]
    flow[:] = 0
    flow[0] = 1
    for c in range(classes):
        row = matrix[c]
        for j in range(c + 1, classes):
            flow[j] += flow[c] * row[j]
