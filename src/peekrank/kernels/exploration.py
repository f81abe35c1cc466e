"""Exploration in proportion to doubt: how much of a list's value depends on the uncertainty about an item.

Items are in descending order of their estimated means, and a width bounds the error of each mean. If all true
means are within their widths, the order loses at most ``sum_i 2 width_i doubt_i`` against the best one
(docs/theory/doubtsort.md). An unseen item is therefore explored, by moving it to the last position that is seen,
with a probability that makes the expected cost of exploration a share of ``width_i doubt_i``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel, load, vload, vselect_le, vsplat, vstore
from peekrank.kernels.sorting import SortSpace, sort_descending, sort_space
from peekrank.kernels.vectors import copy
from peekrank.types import Floats, Ints

_MAX_EXPLORATION = 0.5  # per round, so that at least every other round shows position k unchanged
_COMPARE_UP_TO = 128  # items: below, comparing all pairs (no branches) beats trees
_FAR = float(np.finfo(np.float64).max)  # larger than every mean


class DoubtSpace(NamedTuple):
    """Working memory of `fill_doubts`.

    `lows` and `highs` are trees over the positions: node 1 is the root, the children of node v are 2v and 2v + 1.
    """

    keys: Floats
    order: Ints
    lows: Floats
    highs: Floats
    sorting: SortSpace


def doubt_space(m: int) -> DoubtSpace:
    """Allocate working memory for lists of up to m items."""
    leaves = max(8, 1 << max(0, m - 1).bit_length())
    keys, lows, highs = np.zeros(leaves), np.zeros(2 * leaves), np.zeros(2 * leaves)
    return DoubtSpace(keys, np.zeros(m, np.int64), lows, highs, sort_space(m))


@kernel
def fill_doubts(means: Floats, widths: Floats, weights: Floats, doubts: Floats, space: DoubtSpace) -> None:
    """Fill `doubts` with the spread in weight of the positions that the item at each position may belong to.

    Item i may change positions with j if the width of j is at most that of i and their intervals ``mean +- width``
    overlap. The doubt of i is the weight of the highest minus that of the lowest position of all these and of i.
    O(n log n).

    Parameters
    ----------
    means, widths
        Mean and width of the item at each position; the means descend.
    weights
        Weight of each position, not increasing.
    doubts
        Output, by position.
    space
        Working memory.

    >>> means, widths, doubts = np.array([0.9, 0.6, 0.5]), np.array([0.1, 0.1, 0.3]), np.empty(3)
    >>> fill_doubts(means, widths, np.array([1.0, 0.6, 0.5]), doubts, doubt_space(3))
    >>> doubts  # the last item may be the first; the second is known better than the third, and below the first
    array([0. , 0. , 0.5])
    """
    if len(means) <= _COMPARE_UP_TO:
        _compare_all(means, widths, weights, doubts, space)
    else:
        _search_trees(means, widths, weights, doubts, space)


@kernel
def _compare_all(means: Floats, widths: Floats, weights: Floats, doubts: Floats, space: DoubtSpace) -> None:
    """Compare all pairs, eight items at a time."""
    n = len(means)
    keys, lows, highs = space.keys, space.lows, space.highs
    for p in range(n):
        keys[p], lows[p], highs[p] = widths[p], means[p] - widths[p], means[p] + widths[p]
    for p in range(0, n, 8):
        width, low, high = vload(keys, p), vload(lows, p), vload(highs, p)
        top = bottom = vsplat(0.0)
        for j in range(n):  # keeps the last position that overlaps
            known, weight = vsplat(load(widths, j)), vsplat(load(weights, j))
            bottom = vselect_le(known, width, vselect_le(low, vsplat(load(highs, j)), weight, bottom), bottom)
        for j in range(n - 1, -1, -1):  # keeps the first one
            known, weight = vsplat(load(widths, j)), vsplat(load(weights, j))
            top = vselect_le(known, width, vselect_le(vsplat(load(lows, j)), high, weight, top), top)
        vstore(top - bottom, keys, p)
    copy(keys[:n], doubts)


@kernel
def _search_trees(means: Floats, widths: Floats, weights: Floats, doubts: Floats, space: DoubtSpace) -> None:
    """Insert items into the trees by increasing width; each finds those it may change positions with."""
    n = len(means)
    leaves = 1
    while leaves < n:
        leaves *= 2
    lows, highs, keys, order = space.lows, space.highs, space.keys[:n], space.order[:n]
    for node in range(2 * leaves):
        lows[node], highs[node] = _FAR, -_FAR
    for p in range(n):
        keys[p] = -widths[p]
    sort_descending(keys, order, space.sorting)
    known = 0
    for i in range(n):
        p = order[i]
        while known < n and widths[order[known]] <= widths[p]:
            j = order[known]
            node, low, high = leaves + j, means[j] - widths[j], means[j] + widths[j]
            while node > 0 and (low < lows[node] or high > highs[node]):
                lows[node], highs[node] = min(lows[node], low), max(highs[node], high)
                node >>= 1
            known += 1
        first, last, low, high = 1, 1, means[p] - widths[p], means[p] + widths[p]
        while first < leaves:  # the first position whose interval begins below the end of this one's
            first = 2 * first + (lows[2 * first] > high)
        while last < leaves:  # the last position whose interval ends above the beginning of this one's
            last = 2 * last + (highs[2 * last + 1] >= low)
        doubts[p] = weights[first - leaves] - weights[last - leaves]


@kernel
def fill_exploration_costs(means: Floats, weights: Floats, k: int, costs: Floats) -> None:
    """Fill `costs` with the cost, by the means, of moving the item at each position below k up to position k.

    >>> costs = np.empty(3)
    >>> fill_exploration_costs(np.array([0.9, 0.5, 0.1]), np.array([1.0, 0.6, 0.5]), 1, costs)
    >>> costs.round(2)  # 0.4 x (0.9 - 0.5); 0.4 x (0.9 - 0.1) + 0.1 x (0.5 - 0.1)
    array([0.  , 0.16, 0.36])
    """
    costs[:k] = 0
    pushed = 0.0
    for p in range(k, len(means)):
        pushed += (weights[p - 1] - weights[p]) * means[p - 1]
        costs[p] = max(0.0, pushed - (weights[k - 1] - weights[p]) * means[p])


@kernel
def fill_exploration_probs(
    doubts: Floats, widths: Floats, costs: Floats, first: int, share: float, probabilities: Floats
) -> float:
    """Fill in the probability of exploring the item at each position from `first` on, and return the sum.

    Each is ``share x doubt x width / cost``, at most 1, and 0 before `first`. All are scaled if their sum exceeds
    1/2.

    >>> probabilities = np.empty(3)
    >>> widths, costs = np.full(3, 0.2), np.array([0.0, 0.16, 0.36])
    >>> doubts = np.array([0.0, 0.4, 0.0])
    >>> round(fill_exploration_probs(doubts, widths, costs, 1, 0.1, probabilities), 3), probabilities
    (0.05, array([0.  , 0.05, 0.  ]))
    """
    probabilities[:first] = 0
    total = 0.0
    for p in range(first, len(doubts)):
        budget = share * doubts[p] * widths[p]
        probabilities[p] = 0.0 if budget == 0 else 1.0 if budget >= costs[p] else budget / costs[p]
        total += probabilities[p]
    return _scale(probabilities, first, total)


@kernel
def floor_probs(probabilities: Floats, first: int, floor: float) -> float:
    """Raise the probability of every position from `first` on to at least `floor`, and return the sum.

    All are scaled if their sum exceeds 1/2.

    >>> probabilities = np.array([0.0, 0.3, 0.0])
    >>> floor_probs(probabilities, 1, 0.1), probabilities
    (0.4, array([0. , 0.3, 0.1]))
    """
    total = 0.0
    for p in range(first, len(probabilities)):
        probabilities[p] = max(probabilities[p], floor)
        total += probabilities[p]
    return _scale(probabilities, first, total)


@kernel
def _scale(probabilities: Floats, first: int, total: float) -> float:
    """Scale probabilities whose sum exceeds 1/2 to a sum of 1/2, and return the sum."""
    if total <= _MAX_EXPLORATION:
        return total
    for p in range(first, len(probabilities)):
        probabilities[p] *= _MAX_EXPLORATION / total
    return _MAX_EXPLORATION


@kernel
def sample_position(probabilities: Floats, first: int, uniform: float) -> int:
    """Return the position that a uniform number selects for exploration, or -1 for none.

    >>> sample_position(np.array([0.0, 0.25, 0.25]), 1, 0.3), sample_position(np.array([0.0, 0.25, 0.25]), 1, 0.6)
    (2, -1)
    """
    for p in range(first, len(probabilities)):
        uniform -= probabilities[p]
        if uniform < 0:
            return p
    return -1


@kernel
def fill_propensities(order: Ints, explore_probs: Floats, k: int, out: Floats) -> None:
    """Fill in each row's probability to be among the first k, if an explored item takes position k.

    `order` holds the row at each position of the best list, `explore_probs` is zero for the first k positions.
    """
    explored = 0.0
    for p in range(len(out)):
        out[order[p]] = 1.0 if p < k else explore_probs[p]
        explored += explore_probs[p]
    out[order[k - 1]] -= explored
