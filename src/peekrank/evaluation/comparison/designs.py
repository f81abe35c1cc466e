"""Designs: lists from two orders of the same items whose answers say most about the difference.

Rows are in the first order a, so row i has rank i there and ``ranks[i]`` in b. Position p is looked at with
probability theta(p): 1 for the first k and 0 below, or the examination of clicks. A design is a random ranking.
The exposure pi_i = E theta(position of i), by which the estimate divides, is exact. docs/theory/compare.md has the
proofs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.hypersimplex import systematic_sample
from peekrank.kernels.sorting import merge_descending
from peekrank.types import Floats, Ints

A, B = 0, 1  # the order in which the rows drawn are shown
_CLOSE = 1e-12


class Design(NamedTuple):
    """Configuration of a design."""

    k: int
    union: bool  # whether lists may mix both orders
    clicks: bool
    outside: float  # limit on the exposure of rows that neither order has in its first k


class Space(NamedTuple):
    """Working memory for lists of n items."""

    order: Ints
    other: Ints
    home: Ints  # rows by the mean of both ranks, those within the first k of a or b first
    sums: Floats  # of pooled blocks
    totals: Floats
    ends: Ints
    part: Floats
    limits: Floats
    extra: Floats


def make_space(n: int) -> Space:
    """Allocate working memory for lists of n items."""
    ints, floats = np.empty((4, n), np.int64), np.empty((5, n))
    return Space(ints[0], ints[1], ints[2], floats[0], floats[1], ints[3], floats[2], floats[3], floats[4])


@kernel
def fill_exposure(wanted: Floats, home: Ints, theta: Floats, space: Space, out: Floats) -> None:
    """Fill in the exposures that minimise sum wanted^2 / exposure.

    Random rankings can have all exposures that theta majorises. Pooling adjacent violators finds the best of them:
    proportional to `wanted`, up to what theta allows. All other rows take the positions that remain.

    Parameters
    ----------
    wanted
        Weight of each row, at least 0.
    home
        Order of the rows that are not wanted.
    theta
        Exposure of each position, not increasing.
    space
        Working memory.
    out
        Filled.

    >>> out = np.empty(4)
    >>> theta, home = np.array([1.0, 1.0, 0.0, 0.0]), np.arange(4)
    >>> fill_exposure(np.array([3.0, 1.0, 1.0, 0.0]), home, theta, make_space(4), out)
    >>> out
    array([1. , 0.5, 0.5, 0. ])
    """
    n, blocks, rows, order = len(wanted), 0, 0, space.order
    merge_descending(wanted, order, space.other)
    sums, totals, ends = space.sums, space.totals, space.ends
    while rows < n and wanted[order[rows]] > 0:
        sums[blocks], totals[blocks] = theta[rows], wanted[order[rows]]
        rows += 1
        ends[blocks] = rows
        blocks += 1
        # sums / totals must not fall from one block to the next
        while blocks > 1 and sums[blocks - 2] * totals[blocks - 1] >= sums[blocks - 1] * totals[blocks - 2]:
            blocks -= 1
            sums[blocks - 1] += sums[blocks]
            totals[blocks - 1] += totals[blocks]
            ends[blocks - 1] = ends[blocks]
    first = 0
    for b in range(blocks):
        for p in range(first, ends[b]):
            out[order[p]] = min(sums[b] * wanted[order[p]] / totals[b], theta[0])
        first = ends[b]
    for p in range(n):
        if wanted[home[p]] <= 0:
            out[home[p]] = theta[rows]
            rows += 1


@kernel
def fill_home(ranks: Ints, k: int, space: Space) -> None:
    """Fill `space.home`: rows within the first k of either order, then the others, by the mean of both ranks."""
    n = len(ranks)
    for i in range(n):
        space.part[i] = -1.0 * (i + ranks[i]) - (0.0 if i < k or ranks[i] < k else 2.0 * n)
    merge_descending(space.part, space.home, space.other)


@kernel
def fill_union(
    wanted: Floats, ranks: Ints, k: int, outside: float, theta: Floats, space: Space, out: Floats
) -> None:
    """Fill in the best exposures, with a limit on their sum over rows that neither order has in its first k.

    Parameters
    ----------
    wanted, ranks, theta
        Weight of each row, its rank in b, and the exposure of each position.
    k
        Number of positions with answers.
    outside
        The limit.
    space
        Working memory.
    out
        Filled.
    """
    n, beyond = len(wanted), 0.0
    fill_home(ranks, k, space)
    fill_exposure(wanted, space.home, theta, space, out)
    for i in range(n):
        if i >= k and ranks[i] >= k:
            beyond += out[i]
    if beyond <= outside:
        return
    part, limits, extra = space.part, space.limits, space.extra
    for i in range(n):
        part[i] = wanted[i] if i < k or ranks[i] < k else 0.0
        limits[i] = min(max(k - outside - i, 0.0), 1.0)
    fill_exposure(part, space.home, limits, space, out)
    for i in range(n):
        part[i] = wanted[i] - part[i]
        limits[i] = min(max(outside - i, 0.0), 1.0)
    fill_exposure(part, space.home, limits, space, extra)
    for i in range(n):
        out[i] += extra[i]


@kernel
def draw_set(
    exposure: Floats, difference: Floats, ranks: Ints, k: int, uniforms: Floats, space: Space, ranking: Ints
) -> None:
    """Draw k rows by systematic sampling, arranged by their difference, and order them by a or b, by a fair coin.

    Rows with differences of the same sign are neighbours, so they are rarely drawn together. A fixed order would
    let effects of the position favour one side.

    Parameters
    ----------
    exposure
        Probability of each row; the sum is k.
    difference
        Weight in a minus weight in b.
    ranks
        Rank in b.
    k
        Number of rows to draw.
    uniforms
        Two uniforms.
    space
        Working memory.
    ranking
        Filled; the rows that were not drawn follow in the same order.
    """
    n, drawn = len(exposure), space.totals
    merge_descending(difference, space.order, space.other)
    for p in range(n):
        space.part[p] = exposure[space.order[p]]
    systematic_sample(space.part, k, uniforms[1], space.other)
    drawn[:n] = 0
    for p in range(k):
        drawn[space.order[space.other[p]]] = 1
    for i in range(n):
        space.home[i if uniforms[0] < 0.5 else ranks[i]] = i
    first, rest = 0, k
    for p in range(n):
        row = space.home[p]
        if drawn[row] > 0:
            ranking[first] = row
            first += 1
        else:
            ranking[rest] = row
            rest += 1


@kernel
def draw_swaps(
    exposure: Floats, theta: Floats, k: int, uniforms: Floats, space: Space, ranking: Ints, included: Floats
) -> None:
    """Draw a ranking with the given exposures by random swaps (Hardy, Littlewood & Polya).

    Rows by falling exposure get the positions in order. Then at most n - 1 pairs swap positions, each with its own
    probability.

    Parameters
    ----------
    exposure
        Exposures that theta majorises. Replaced by those of the drawing itself, which may differ by rounding.
    theta
        Exposure of each position, not increasing.
    k
        Number of positions with feedback.
    uniforms
        At least n uniforms.
    space
        Working memory.
    ranking
        Filled.
    included
        Filled with the probability of each row to be among the first k.
    """
    n, step = len(exposure), 0
    goal, now, within = space.part, space.sums, space.totals
    merge_descending(exposure, space.order, space.other)
    for p in range(n):
        ranking[p] = space.order[p]
        space.other[p] = p  # position of the row that began at p
        goal[p], now[p], within[p] = exposure[ranking[p]], theta[p], p < k
    while step < n:
        high, low = -1, -1
        for p in range(n):
            if now[p] > goal[p] + _CLOSE:
                high = p
        for p in range(n - 1, high, -1):
            if goal[p] > now[p] + _CLOSE:
                low = p
        if high < 0 or low < 0:
            break
        chance = min(now[high] - goal[high], goal[low] - now[low]) / (now[high] - now[low])
        now[high], now[low] = (
            now[high] + chance * (now[low] - now[high]),
            now[low] + chance * (now[high] - now[low]),
        )
        within[high], within[low] = (
            within[high] + chance * (within[low] - within[high]),
            within[low] + chance * (within[high] - within[low]),
        )
        if uniforms[step] < chance:
            space.other[high], space.other[low] = space.other[low], space.other[high]
        step += 1
    for p in range(n):
        row = space.order[p]
        ranking[space.other[p]] = row
        exposure[row], included[row] = now[p], within[p]


@kernel
def fill_difference(weights: Floats, ranks: Ints, difference: Floats) -> None:
    """Fill in the weight of each row's position in a minus that in b.

    >>> difference = np.empty(2)
    >>> fill_difference(np.array([1.0, 0.5]), np.array([1, 0]), difference)
    >>> difference
    array([ 0.5, -0.5])
    """
    for i in range(len(ranks)):
        difference[i] = weights[i] - weights[ranks[i]]


@kernel
def fill_design(
    design: Design,
    difference: Floats,
    ranks: Ints,
    theta: Floats,
    spread: Floats,
    space: Space,
    exposure: Floats,
) -> None:
    """Fill in the exposure of each row.

    Parameters
    ----------
    design
        Configuration.
    difference, ranks, theta
        Weight in a minus weight in b, rank in b, and exposure of each position.
    spread
        Typical error of the prediction of each row.
    space
        Working memory.
    exposure
        Filled.
    """
    if design.union:
        for i in range(len(ranks)):
            spread[i] *= abs(difference[i])
        fill_union(spread, ranks, min(design.k, len(ranks)), design.outside, theta, space, exposure)
    else:
        for i in range(len(ranks)):
            exposure[i] = (theta[i] + theta[ranks[i]]) / 2


@kernel
def draw_list(
    design: Design,
    difference: Floats,
    ranks: Ints,
    theta: Floats,
    uniforms: Floats,
    space: Space,
    exposure: Floats,
    ranking: Ints,
    included: Floats,
) -> int:
    """Draw a ranking, and return whose order it follows: A, B, or -1 for neither.

    Parameters
    ----------
    design
        Configuration.
    difference, ranks, theta, exposure
        As in `fill_design`.
    uniforms
        One more uniform than there are rows.
    space
        Working memory.
    ranking
        Filled.
    included
        Filled with the probability of each row to be among the first k.
    """
    n, k = len(ranks), min(design.k, len(ranks))
    arm = A if uniforms[0] < 0.5 else B
    if not design.union:
        for i in range(n):
            ranking[i if arm == A else ranks[i]] = i
            included[i] = ((i < k) + (ranks[i] < k)) / 2
        return arm
    if design.clicks:
        draw_swaps(exposure, theta, k, uniforms, space, ranking, included)
        return -1
    draw_set(exposure, difference, ranks, k, uniforms, space, ranking)
    for i in range(n):
        included[i] = exposure[i]
    return arm
