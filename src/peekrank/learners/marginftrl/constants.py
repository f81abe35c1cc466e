"""Shifted position weights of marginftrl, and the constants of its theorem."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.learners._shared import exploration_cost, position_weights, weights_below
from peekrank.types import Floats, Ints, LinearMeasure

SHARE = 0.5  # lambda: beta grows by this share of the loss, over h
LONGEST = 32  # largest number of answered rounds of a plan; items per round of a plan that only explores
NUDGE = 1 / 32  # z0: a plan ends when answers have moved an item's costs by this times beta
PUSH = 0.5  # c: an answer that may change the leader moves costs by at most c sqrt(v(1) / (k x_i)) times beta
HARDEST = 2.0  # and by at most this times beta
SLACK = 1.5  # growth of beta^q, relative to the worst case, at which the learner switches to safe rates
_SHIFT = 0.25  # a, as a part of the mean weight


class Scale(NamedTuple):
    """The constants of the bound, for costs from 0 to 1."""

    shift: float  # a, added to all weights
    V: float  # sum of the shifted weights
    h: float  # range of their entropy
    E: float  # cost of exploring every item once
    power: float  # q: in the worst case beta^q grows in proportion to the rounds
    pace: float  # D: its growth per round
    start: float  # beta_s, where safe rates begin
    jump: float  # a plan multiplies beta by at most 1 + jump
    hop: float  # and adds at most hop to that
    exploring: float  # rounds of a plan that explores in every round


class PositionTables(NamedTuple):
    """Tables by position for lists of one length, filled by `fill_positions`."""

    weights: Floats  # shifted
    logs: Floats  # their logarithms
    drops: Floats  # difference in weight to the nearest position of another weight
    seen_at: Floats  # the probability that an item drawn to this position is seen
    move_cost_at: Floats  # largest cost of moving an item from this position to position k
    ends: Ints  # the length; begin and end of the positions with the same weight as position k
    scale: Floats  # the fields of a Scale, in order


def positions(m: int) -> PositionTables:
    """Allocate empty tables for lists of up to m items."""
    weights, logs, drops, seen_at, move_cost_at = (np.zeros(m) for _ in range(5))
    ends, scale = np.zeros(3, np.int64), np.zeros(len(Scale._fields))
    return PositionTables(weights, logs, drops, seen_at, move_cost_at, ends, scale)


@kernel
def scale_in(s: PositionTables) -> Scale:
    """Return the constants for the length that was filled in."""
    f = s.scale
    return Scale(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9])


Sums = tuple[float, float, float, float]  # a, V, h and E


def _scale_of(m: int, k: int, first: float, last: float, top: float, sums: Sums) -> Scale:
    """Compute the constants from the first weight, that of position k, and sums of the weights."""
    shift, V, h, E = sums
    if first == 0:
        return Scale(shift, V, 0.0, 0.0, 1.5, 0.0, 1.0, 0.0, 0.0, 1.0)
    grow, pushed = SHARE / h, 0.0
    for z in (PUSH / sqrt(k), HARDEST):
        pushed = max(pushed, (exp(z + 2 * NUDGE) - 1 - z - 2 * NUDGE) / z**2)
    jump = grow * (V * (exp(2 * NUDGE) - 1 - 2 * NUDGE) + PUSH**2 * (first + shift) * pushed)
    n = min(max(m // LONGEST, 1), LONGEST)
    hop = grow * (first * m * (4 * n * k + (n - 1) / 2) + n * last)
    start = 4 * (1 + jump + hop)
    if E > 0:
        power, start = 1.5, max(start, V * m * m / (2 * E), 50 * E / V, 4 * E / h)
        R = sqrt(E * V / 2)
        most = R / (2 * sqrt(start)) + 1.08 * E * top / V
        pace = 1.5 * grow * R * (1 + sqrt(2 * E / (V * start)) / 4) * (1 + grow * most / (4 * start))
    else:
        power, start = 2.0, max(start, 5.0 * m)
        most = 0.54 * top * m * m / start
        pace = 2 * grow * 0.27 * V * m * (1 + grow * most / (2 * start))
    return Scale(shift, V, h, E, power, pace, start, jump, hop, float(n))


_compiled_scale = kernel(_scale_of)


@lru_cache(maxsize=64)
def scale_for(measure: LinearMeasure, m: int, k: int) -> Scale:
    """Return the constants for lists of m items without compiling: equal to `fill_positions` up to rounding."""
    first, W, shift, h = _entropy(measure, m)
    below, E = weights_below(measure, m, k), max(exploration_cost(measure, m, k), 0.0)
    last = (E + below) / (m - k) if k < m else 0.0
    return _scale_of(m, k, first, last, W - below + k * shift, (shift, W + m * shift, h, E))


@lru_cache(maxsize=64)
def _entropy(measure: LinearMeasure, m: int) -> tuple[float, float, float, float]:
    """Return the first weight, the sum of all weights, the shift a, and h."""
    v = position_weights(measure, m)
    first, W = float(v[0]), float(v.sum())
    shift = _SHIFT * W / m if first > 0 else 1.0
    v += shift
    return first, W, shift, float(np.sum(v * np.log(v / (W / m + shift))))  # a dot product starts BLAS threads


@kernel
def fill_positions(discounts: Floats, n: int, k: int, s: PositionTables) -> None:
    """Fill in weights, ties, costs and constants for lists of n items with k seen, unless already filled.

    >>> found = positions(3)
    >>> fill_positions(np.array([1.0, 0.5, 0.0]), 3, 1, found)
    >>> found.weights, found.move_cost_at, found.drops
    (array([1.125, 0.625, 0.125]), array([0. , 0.5, 1. ]), array([0.5, 0.5, 0.5]))
    """
    if s.ends[0] == n:
        return
    lowest, total = discounts[n - 1], 0.0
    for p in range(n):
        total += discounts[p] - lowest
    mean, last = total / n, discounts[k - 1] - lowest
    shift = _SHIFT * mean if total > 0 else 1.0
    V, h, E, top = 0.0, 0.0, 0.0, 0.0
    for p in range(n):
        w = discounts[p] - lowest
        v = w + shift
        s.weights[p], s.logs[p], s.move_cost_at[p] = v, log(v), max(last - w, 0.0)
        V += v
        h += v * log(v / (mean + shift))
        E += s.move_cost_at[p]
        top += v if p < k else 0.0
    found = _compiled_scale(n, k, discounts[0] - lowest, last, top, (shift, V, h, E))
    s.scale[0], s.scale[1], s.scale[2], s.scale[3], s.scale[4] = found[0], found[1], found[2], found[3], found[4]
    s.scale[5], s.scale[6], s.scale[7], s.scale[8], s.scale[9] = found[5], found[6], found[7], found[8], found[9]
    s.ends[0] = n
    _find_ties(n, k, s)


@kernel
def _find_ties(n: int, k: int, s: PositionTables) -> None:
    """Fill in the positions that tie with position k, the propensities there, and the steps between weights."""
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and s.weights[end] == s.weights[begin]:
            end += 1
        above = s.weights[begin - 1] - s.weights[begin] if begin > 0 else 0.0
        below = s.weights[begin] - s.weights[end] if end < n else 0.0
        if begin < k <= end:
            s.ends[1], s.ends[2] = begin, end
        for p in range(begin, end):
            s.drops[p] = max(above, below)
            s.seen_at[p] = 1.0 if end <= k else 0.0 if begin >= k else (k - begin) / (end - begin)
        begin = end
