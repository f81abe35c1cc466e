"""Estimates of what another ranking would have been worth, decision by decision, in compiled loops.

A row is a candidate, or a pair of candidates. Its gain is known if it was seen, which had a known chance, and the
value of a policy is the sum of its weights times the gains of all rows. Formulas and proofs are on the page
docs/evidence/mathematics.md.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.confidence import Bound, Interval, lower_mean, observe_at
from peekrank.types import Features, Floats, Ints

IPS, WEIGHT, TOTAL, DR, CUT, MISSING, LARGEST = range(7)  # columns of `fill_terms`
_MOST_SORTED = 16  # rows seen; of more, all weights are added up for a limit
_PRIOR = 1.0  # answers that the regression takes for average ones


class Rows(NamedTuple):
    """What estimates are made of: decision t has the rows ``offsets[t]:offsets[t + 1]``."""

    offsets: Ints
    chance: Floats  # of each row to be seen
    gain: Floats  # above the least that is possible; NaN: not seen
    subject: Ints  # rows with the same number have similar gains: items, or pairs of them
    seen: Ints  # how many rows of each decision are seen
    span: float  # the largest gain that is possible
    origin: float = 0.0  # the gain that stands for nothing: what IPS takes for gains that are not seen


class Target(NamedTuple):
    """What is to be estimated: a weight for each row, and what is known of each decision without an estimate.

    The value of decision t is ``weights @ gains`` of its rows, plus a number that is from ``known[t]`` to
    ``known[t] + spare[t]``. Before the decision it was known that these are from ``least[t]`` to ``most[t]``.
    """

    weights: Floats
    known: Floats
    spare: Floats
    least: Floats
    most: Floats

    def minus(self, other: Target) -> Target:
        """The difference of two."""
        return Target(
            self.weights - other.weights,
            self.known - other.known - other.spare,
            self.spare + other.spare,
            self.least - other.most,
            self.most - other.least,
        )


@kernel
def fill_weights(offsets: Ints, discounts: Floats, starts: Ints, ranks: Ints, out: Floats) -> None:
    """What a measure makes of ranks: those of decision t are discounted by ``discounts[starts[t]:]``.

    >>> out = np.empty(3)
    >>> fill_weights(np.array([0, 2, 3]), np.array([1.0, 0.5, 2.0]), np.array([0, 2]), np.array([1, 0, 0]), out)
    >>> out
    array([0.5, 1. , 2. ])
    """
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            out[i] = discounts[starts[t] + ranks[i]]


@kernel
def fill_means(rows: Rows, sums: Floats, counts: Floats, out: Floats) -> None:
    """Predict the gain of each row by the mean of what was seen of its subject in earlier decisions.

    One more answer, as good as the mean of all, counts for each subject; half of the span before the first.

    Parameters
    ----------
    rows
        What was seen.
    sums, counts
        Zeros, one for each subject; changed.
    out
        Filled.

    >>> gain = np.array([np.nan, 1.0, np.nan, 0.0])
    >>> rows = Rows(np.array([0, 2, 4]), np.full(4, 0.5), gain, np.array([0, 1, 0, 1]), np.array([1, 1]), 1.0)
    >>> out = np.empty(4)
    >>> fill_means(rows, np.zeros(2), np.zeros(2), out)
    >>> out  # subject 0 was never seen; the mean of all is (1/2 + 1)/2
    array([0.5  , 0.5  , 0.75 , 0.875])
    """
    total, number = rows.span / 2, 1.0
    for t in range(len(rows.seen)):
        average = total / number
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            s = rows.subject[i]
            out[i] = (sums[s] + _PRIOR * average) / (counts[s] + _PRIOR)
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            if not np.isnan(rows.gain[i]):
                sums[rows.subject[i]] += rows.gain[i]
                counts[rows.subject[i]] += 1
                total += rows.gain[i]
                number += 1


@kernel
def fill_ridge(
    rows: Rows, X: Features, scale: Floats, P: Floats, w: Floats, x: Floats, u: Floats, out: Floats
) -> None:
    """Predict the gain of each row by ridge regression on features, from earlier decisions only.

    Recursive least squares: P is the inverse of the identity plus the sum of x x', and w = P sum x gain.

    Parameters
    ----------
    rows, X
        What was seen, and the features of each row.
    scale
        What each feature is divided by.
    P, w
        The identity and zeros, for one number more than there are features; changed.
    x, u
        Memory to work in, as long as w.
    out
        Filled.
    """
    d = len(scale)
    for t in range(len(rows.seen)):
        first, last = rows.offsets[t], rows.offsets[t + 1]
        for i in range(first, last):
            value = w[d]
            for j in range(d):
                value += w[j] * X[i, j] / scale[j]
            out[i] = min(max(value, 0.0), rows.span)
        for i in range(first, last):
            if np.isnan(rows.gain[i]):
                continue
            x[d], left, length = 1.0, rows.gain[i] - w[d], 1.0
            for j in range(d):
                x[j] = X[i, j] / scale[j]
                left -= w[j] * x[j]
            for j in range(d + 1):
                u[j] = 0.0
                for other in range(d + 1):
                    u[j] += P[j, other] * x[other]
                length += u[j] * x[j]
            for j in range(d + 1):
                w[j] += u[j] * left / length
                for other in range(d + 1):
                    P[j, other] -= u[j] * u[other] / length


@kernel
def fill_terms(rows: Rows, weights: Floats, predicted: Floats, largest: float, out: Floats) -> None:
    """What each decision adds to the estimates, a column for each.

    IPS: sum of weight x gain / chance over rows seen, gains from the origin on; WEIGHT: the same with gain 1;
    TOTAL: sum of weights; DR: doubly robust; CUT: by how much cutting 1/chance off at `largest` can bias the
    decision's term; MISSING: what rows that could not be seen may add; LARGEST: largest 1/chance. WEIGHT and TOTAL
    are of absolute weights.

    Parameters
    ----------
    rows, weights, predicted
        What was seen, what is estimated, and a prediction of each gain.
    largest
        What 1/chance is cut off at; infinity for nothing.
    out
        Filled, a row for each decision.
    """
    for t in range(len(rows.seen)):
        term = out[t]
        term[:] = 0
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            h, p = weights[i], rows.chance[i]
            if h == 0:
                continue
            factor = min(1 / p, largest) if p > 0 else 0.0
            term[TOTAL] += abs(h)
            term[DR] += h * predicted[i]
            if p == 0:
                term[MISSING] += abs(h) * rows.span
            else:
                term[CUT] += abs(h) * rows.span * (1 - p * largest) if p * largest < 1 else 0.0
            if not np.isnan(rows.gain[i]):
                term[IPS] += h * (rows.gain[i] - rows.origin) * factor
                term[WEIGHT] += abs(h) * factor
                term[DR] += h * (rows.gain[i] - predicted[i]) * factor
                term[LARGEST] = max(term[LARGEST], 1 / p)


@kernel
def _top(weights: Floats, rows: Rows, t: int, space: Floats) -> float:
    """Sum of the absolute weights that can be seen at once, or more."""
    first, last, k = rows.offsets[t], rows.offsets[t + 1], rows.seen[t]
    total = 0.0
    if k > _MOST_SORTED or k >= last - first:
        for i in range(first, last):
            total += abs(weights[i])
        return total
    for j in range(k):
        space[j] = 0.0
    for i in range(first, last):
        new = abs(weights[i])
        for j in range(k):
            if new > space[j]:
                space[j], new = new, space[j]
    for j in range(k):
        total += space[j]
    return total


@kernel
def _take(
    rows: Rows, target: Target, predicted: Floats, t: int, sign: float, bound: Bound, reach: Floats, sums: Floats
) -> None:
    """Take decision t as evidence on one side; the last of `reach`, `sums` and lower limits is for bets.

    A prediction is kept so close to the harmless end that a row seen cannot take more than `reach` from the sum.
    """
    rates, top = len(reach) - 1, _top(target.weights, rows, t, sums[2])
    base, seen = sums[0], sums[1]
    base[:] = 0
    seen[:] = 0
    for i in range(rows.offsets[t], rows.offsets[t + 1]):
        h, p, r, gain = sign * target.weights[i], rows.chance[i], predicted[i], rows.gain[i]
        if h == 0:
            continue
        known = not np.isnan(gain)
        for j in range(rates + 1):
            q = min(r, reach[j] / top * p) if h > 0 else max(r, rows.span - reach[j] / top * p)
            base[j] += h * q
            if known:
                seen[j] += h * (gain - q) / p
    extra = target.known[t] if sign > 0 else -target.known[t] - target.spare[t]
    low = target.least[t] if sign > 0 else -target.most[t]
    for j in range(rates + 1):
        cut = reach[j] if top > 0 else 0.0
        seen[j] += base[j] + extra
        base[j] += low - cut
        if j < rates:
            observe_at(bound, j, seen[j], base[j])
    bound.observed[0] += 1


@kernel
def walk(
    rows: Rows,
    target: Target,
    predicted: Floats,
    interval: Interval,
    alpha: float,
    looks: Ints,
    found: Floats,
    tracks: Floats,
    space: Floats,
) -> None:
    """Take all decisions as evidence, and note the interval after some of them.

    Parameters
    ----------
    rows, target, predicted
        What was seen, what is estimated, and a prediction of each gain.
    interval
        Evidence before the first decision, with growing scales.
    alpha
        Probability of an error.
    looks
        After which numbers of decisions to note the interval, ascending.
    found
        Filled: lower and upper ends.
    tracks
        Filled for betting, in pairs of rows: observations and their lower limits, of the value and its negative.
    space
        Five rows of memory to work in, longer than the number of rates and than 16.
    """
    rates, look = len(interval.below.rates), 0
    reach, sums, totals, squares = space[3][: rates + 1], space[:3], space[4][:2], space[4][2:4]
    totals[:] = 0
    squares[:] = 0
    for t in range(len(rows.seen)):
        for side in range(2):
            bound = interval.below if side == 0 else interval.above
            for j in range(rates):
                reach[j] = bound.scales[j] / 2
            variance = (squares[side] + bound.scales[0] ** 2 / 4) / (t + 1)
            reach[rates] = max(bound.scales[0], sqrt(variance * (t + 1) * log(t + 2.0) / (2 * log(2 / alpha)))) / 4
            mean = totals[side] / (t + 1)
            _take(rows, target, predicted, t, 1.0 - 2 * side, bound, reach, sums)
            totals[side] += sums[1, rates]
            squares[side] += (sums[1, rates] - mean) ** 2
            tracks[2 * side, t] = sums[1, rates]
            tracks[2 * side + 1, t] = sums[0, rates]
        if look < len(looks) and looks[look] == t + 1:
            found[0, look] = lower_mean(interval.below, alpha / 2)
            found[1, look] = -lower_mean(interval.above, alpha / 2)
            look += 1
