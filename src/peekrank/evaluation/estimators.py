"""Compiled estimators of the value of another ranking, decision by decision.

A row is a candidate or a pair of candidates. Its gain is known if it was seen, which had a known propensity. The
value of a policy is the sum over all rows of weight times gain. docs/theory/evaluation.md has formulas and proofs.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.confidence import (
    Bets,
    Bound,
    Interval,
    interval_of_mean,
    lower_mean,
    observe_at,
    observe_bet,
    observe_tightly,
)
from peekrank.types import Features, Floats, Ints

IPS, WEIGHT, TOTAL, DR, CUT, MISSING, LARGEST = range(7)  # columns of `fill_terms`
_MAX_SORTED = 16  # rows seen; beyond that, the sum of all weights serves as the limit
_PRIOR = 1.0  # weight of the overall mean in the regression, in observations
_ALWAYS: Floats = np.empty(0)
LEAST = 1e-300  # unit of observations that are all 0


class Rows(NamedTuple):
    """Observations: decision t has the rows ``offsets[t]:offsets[t + 1]``.

    For clicks, the probability that a row was looked at depends on its position. `looked` has it for the position
    shown and `propensity` its expectation, and the mean of a click is that probability times the gain.
    """

    offsets: Ints
    propensity: Floats  # probability of each row to be seen
    gain: Floats  # minus the smallest possible gain; NaN: not seen
    subject: Ints  # rows with the same number have similar gains: items, or pairs of them
    seen: Ints  # number of rows seen in each decision
    span: float  # largest possible gain
    origin: float = 0.0  # gain that IPS assumes for rows that were not seen
    looked: Floats = _ALWAYS  # empty: rows that were seen were looked at


class Target(NamedTuple):
    """Estimand: a weight for each row, and the part of each decision that is known.

    The value of decision t is ``weights @ gains`` of its rows, plus a number from ``known[t]`` to
    ``known[t] + spare[t]``. Bounds known before the decision are ``least[t]`` and ``most[t]``.
    """

    weights: Floats
    known: Floats
    spare: Floats
    least: Floats
    most: Floats

    def minus(self, other: Target) -> Target:
        """Return the difference of two estimands."""
        return Target(
            self.weights - other.weights,
            self.known - other.known - other.spare,
            self.spare + other.spare,
            self.least - other.most,
            self.most - other.least,
        )


@kernel
def fill_weights(offsets: Ints, discounts: Floats, starts: Ints, ranks: Ints, out: Floats) -> None:
    """Fill the discount of each rank; decision t uses ``discounts[starts[t]:]``.

    >>> out = np.empty(3)
    >>> fill_weights(np.array([0, 2, 3]), np.array([1.0, 0.5, 2.0]), np.array([0, 2]), np.array([1, 0, 0]), out)
    >>> out
    array([0.5, 1. , 2. ])
    """
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            out[i] = discounts[starts[t] + ranks[i]]


@kernel
def fill_means(rows: Rows, sums: Floats, counts: Floats, overall: Floats, out: Floats) -> None:
    """Predict the gain of each row by the mean gain of its subject in earlier decisions.

    Each subject has one prior observation: the mean of all, or half of the span before the first.

    Parameters
    ----------
    rows
        Observations.
    sums, counts
        Zeros, one for each subject; modified. To continue with further decisions, pass them again.
    overall
        Half of the span, and 1; modified likewise.
    out
        Filled.

    >>> gain = np.array([np.nan, 1.0, np.nan, 0.0])
    >>> rows = Rows(np.array([0, 2, 4]), np.full(4, 0.5), gain, np.array([0, 1, 0, 1]), np.array([1, 1]), 1.0)
    >>> out = np.empty(4)
    >>> fill_means(rows, np.zeros(2), np.zeros(2), np.array([0.5, 1.0]), out)
    >>> out  # subject 0 was never seen; the mean of all is (1/2 + 1)/2
    array([0.5  , 0.5  , 0.75 , 0.875])
    """
    for t in range(len(rows.seen)):
        average = min(overall[0] / overall[1], rows.span)
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            s = rows.subject[i]
            out[i] = min((sums[s] + _PRIOR * average) / (counts[s] + _PRIOR), rows.span)
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            if not np.isnan(rows.gain[i]):
                looked = rows.looked[i] if len(rows.looked) > 0 else 1.0
                sums[rows.subject[i]] += rows.gain[i]
                counts[rows.subject[i]] += looked
                overall[0] += rows.gain[i]
                overall[1] += looked


@kernel
def fill_ridge(
    rows: Rows, X: Features, scale: Floats, P: Floats, w: Floats, x: Floats, u: Floats, out: Floats
) -> None:
    """Predict the gain of each row by ridge regression on features, from earlier decisions only.

    Recursive least squares: P is the inverse of the identity plus the sum of x x', and w = P sum x gain.

    Parameters
    ----------
    rows, X
        Observations, and the features of each row.
    scale
        Divisor of each feature.
    P, w
        The identity and zeros, of dimension d + 1; modified.
    x, u
        Work arrays, as long as w.
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
    """Fill the terms of each decision, one column per estimate.

    IPS: sum of weight x gain / propensity over rows seen, with gains relative to the origin. WEIGHT: the same with
    gain 1. TOTAL: sum of weights. DR: doubly robust. CUT: largest bias of the term by clipping 1/propensity at
    `largest`. MISSING: largest contribution of rows with propensity 0. LARGEST: largest 1/propensity. WEIGHT and
    TOTAL use absolute weights.

    Parameters
    ----------
    rows, weights, predicted
        Observations, weights of the estimand, and a prediction of each gain.
    largest
        Clip 1/propensity at this value; infinity for no clipping.
    out
        Filled, one row per decision.
    """
    for t in range(len(rows.seen)):
        term = out[t]
        term[:] = 0
        for i in range(rows.offsets[t], rows.offsets[t + 1]):
            h, p = weights[i], rows.propensity[i]
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
                looked = rows.looked[i] if len(rows.looked) > 0 else 1.0
                term[IPS] += h * (rows.gain[i] - rows.origin) * factor
                term[WEIGHT] += abs(h) * factor
                term[DR] += h * (rows.gain[i] - looked * predicted[i]) * factor
                term[LARGEST] = max(term[LARGEST], 1 / p)


@kernel
def _top(weights: Floats, rows: Rows, t: int, space: Floats) -> float:
    """Return an upper bound on the sum of absolute weights that can be seen at once."""
    first, last, k = rows.offsets[t], rows.offsets[t + 1], rows.seen[t]
    total = 0.0
    if k > _MAX_SORTED or k >= last - first:
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
def _observe_decision(
    rows: Rows, target: Target, predicted: Floats, t: int, sign: float, bound: Bound, reach: Floats, sums: Floats
) -> None:
    """Update one side of the interval with decision t; the last entry of `reach` and `sums` is for bets.

    Predictions are clipped so that a row seen cannot lower the sum by more than `reach`.
    """
    rates, top = len(reach) - 1, _top(target.weights, rows, t, sums[2])
    base, seen = sums[0], sums[1]
    base[:] = 0
    seen[:] = 0
    for i in range(rows.offsets[t], rows.offsets[t + 1]):
        h, p, r, gain = sign * target.weights[i], rows.propensity[i], predicted[i], rows.gain[i]
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
def unit_of(rows: Rows, weights: Floats, t: int) -> float:
    """Return the unit of the observations of `observe_bounded`, if decision t is the first with weights."""
    total = 0.0
    for i in range(rows.offsets[t], rows.offsets[t + 1]):
        total += abs(weights[i])
    return rows.span * total / 2


@kernel
def observe_bounded(
    rows: Rows, weights: Floats, predicted: Floats, t: int, scale: float, interval: Interval, space: Floats
) -> None:
    """Update an interval with decision t, without clipping, by the largest and smallest possible sums.

    This is tighter than `walk` if no propensity is small, and also holds for clicks.

    Parameters
    ----------
    rows, weights, predicted
        Observations, weights of the estimand, and a prediction of each gain.
    t
        The decision.
    scale
        Unit of the observations.
    interval
        The evidence so far, with growing scales.
    space
        Two work arrays, longer than 16.
    """
    clicks = len(rows.looked) > 0
    k = len(predicted) if clicks else rows.seen[t]
    some = k <= _MAX_SORTED
    low = high = added = down = up = 0.0
    space[:] = 0.0
    for i in range(rows.offsets[t], rows.offsets[t + 1]):
        h, p, r = weights[i], rows.propensity[i], predicted[i]
        if h == 0:
            continue
        if p == 0:
            low += min(h, 0.0) * rows.span
            high += max(h, 0.0) * rows.span
            continue
        low += h * r
        high += h * r
        looked = rows.looked[i] if clicks else 1.0
        if not np.isnan(rows.gain[i]):
            added += h * (rows.gain[i] - looked * r) / p
        least = 0.0 if clicks else r  # a click counts in full, however unlikely the look
        fall = max(h * r, -h * (rows.span - least)) / p
        rise = max(h * (rows.span - least), -h * r) / p
        down += fall
        up += rise
        for j in range(k if some else 0):
            if fall > space[0, j]:
                space[0, j], fall = fall, space[0, j]
            if rise > space[1, j]:
                space[1, j], rise = rise, space[1, j]
    if some:
        down, up = space[0].sum(), space[1].sum()
    observe_tightly(interval.below, (low + added) / scale, (low - down) / scale)
    observe_tightly(interval.above, (-high - added) / scale, (-high - up) / scale)


class Running(NamedTuple):
    """Estimates and evidence after the decisions so far: their size does not depend on the number of decisions."""

    sums: Floats  # by the numbers below
    interval: Interval
    bounded: Interval  # for `observe_bounded`
    below: Bets  # against means of the value, and of its negative
    above: Bets


(
    COUNT,
    DR_MEAN,
    DR_SQUARES,
    IPS_MEAN,
    IPS_SQUARES,
    SUM_IPS,
    SUM_WEIGHT,
    SUM_TOTAL,
    SUM_CUT,
    SUM_MISSING,
    SUM_RATIO,
    SUM_RATIO_SQUARES,
    MAX_WEIGHT,
    SUM_MIDDLE,
    SUM_SHIFT,
    UNIT,
    TOTAL_BELOW,
    TOTAL_ABOVE,
    SQUARES_BELOW,
    SQUARES_ABOVE,
) = range(20)  # of `Running.sums`
SUMS = 20
LOW, HIGH, MEAN, SHIFT, BOUNDED_LOW, BOUNDED_HIGH = range(6)  # rows of what is stored at checkpoints
STORED = 6


def make_running(scale: float, least: float, most: float) -> Running:
    """Return what is known before the first decision.

    Parameters
    ----------
    scale
        Typical magnitude of a value.
    least, most
        Limits of the value.
    """
    return Running(
        np.zeros(SUMS), Interval.fresh(scale, growing=True), Interval.fresh(1.0, growing=True),
        Bets.fresh(least, most), Bets.fresh(-most, -least),
    )  # fmt: skip


@kernel
def walk(
    rows: Rows,
    target: Target,
    shift: Floats,
    predicted: Floats,
    terms: Floats,
    running: Running,
    alpha: float,
    bounded: bool,  # noqa: FBT001
    checkpoints: Ints,
    stored: Floats,
    space: Floats,
) -> None:
    """Add decisions to the estimates and intervals, and store them after some.

    Parameters
    ----------
    rows, target, predicted
        Observations, estimand, and a prediction of each gain.
    shift
        A constant that belongs to the value of each decision.
    terms
        The result of `fill_terms`.
    running
        Estimates and evidence after the decisions before these; updated.
    alpha
        Error probability.
    bounded
        Whether to update `running.bounded`.
    checkpoints
        Numbers of decisions after which to store, ascending.
    stored
        A column for each checkpoint; those that are reached are filled.
    space
        Five work arrays, longer than the number of rates and than 16.
    """
    sums, rates = running.sums, len(running.interval.below.rates)
    reach, work, at = space[3][: rates + 1], space[:3], 0
    while at < len(checkpoints) and checkpoints[at] <= sums[COUNT]:
        at += 1
    for t in range(len(rows.seen)):
        n, term = sums[COUNT], terms[t]
        for side in range(2):
            bound = running.interval.below if side == 0 else running.interval.above
            for j in range(rates):
                reach[j] = bound.scales[j] / 2
            variance = (sums[SQUARES_BELOW + side] + bound.scales[0] ** 2 / 4) / (n + 1)
            reach[rates] = max(bound.scales[0], sqrt(variance * (n + 1) * log(n + 2.0) / (2 * log(2 / alpha)))) / 4
            mean = sums[TOTAL_BELOW + side] / (n + 1)
            _observe_decision(rows, target, predicted, t, 1.0 - 2 * side, bound, reach, work)
            x, low = work[1, rates], work[0, rates]
            sums[TOTAL_BELOW + side] += x
            sums[SQUARES_BELOW + side] += (x - mean) ** 2
            observe_bet(running.below if side == 0 else running.above, x, low, alpha / 2)
        if bounded:
            if sums[UNIT] == 0:
                sums[UNIT] = unit_of(rows, target.weights, t)
            observe_bounded(rows, target.weights, predicted, t, max(sums[UNIT], LEAST), running.bounded, space[:2])
        _add_term(rows, target, shift, t, term, sums)
        if at < len(checkpoints) and checkpoints[at] == sums[COUNT]:
            store(running, alpha, stored[:, at])
            at += 1


@kernel
def _add_term(rows: Rows, target: Target, shift: Floats, t: int, term: Floats, sums: Floats) -> None:
    """Add a decision to the sums, and to means and squared distances by Welford's method."""
    nothing = 0.0
    for i in range(rows.offsets[t], rows.offsets[t + 1]):
        nothing += target.weights[i]
    middle = shift[t] + target.known[t] + target.spare[t] / 2
    ips, dr = term[IPS] + rows.origin * nothing + middle, term[DR] + middle
    sums[COUNT] += 1
    for value, mean, squares in ((dr, DR_MEAN, DR_SQUARES), (ips, IPS_MEAN, IPS_SQUARES)):
        before = value - sums[mean]
        sums[mean] += before / sums[COUNT]
        sums[squares] += before * (value - sums[mean])
    sums[SUM_IPS] += term[IPS]
    sums[SUM_WEIGHT] += term[WEIGHT]
    sums[SUM_TOTAL] += term[TOTAL]
    sums[SUM_CUT] += term[CUT]
    sums[SUM_MISSING] += term[MISSING] + target.spare[t]
    if term[TOTAL] > 0:
        ratio = term[WEIGHT] / term[TOTAL]
        sums[SUM_RATIO] += ratio
        sums[SUM_RATIO_SQUARES] += ratio * ratio
    sums[MAX_WEIGHT] = max(sums[MAX_WEIGHT], term[LARGEST])
    sums[SUM_MIDDLE] += rows.origin * nothing + middle
    sums[SUM_SHIFT] += shift[t]


@kernel
def store(running: Running, alpha: float, column: Floats) -> None:
    """Store the interval, the mean and the mean of the constants after the decisions so far."""
    sums = running.sums
    column[LOW] = lower_mean(running.interval.below, alpha / 2)
    column[HIGH] = -lower_mean(running.interval.above, alpha / 2)
    column[MEAN] = sums[DR_MEAN]
    column[SHIFT] = sums[SUM_SHIFT] / sums[COUNT]
    low, high = interval_of_mean(running.bounded, alpha)
    column[BOUNDED_LOW], column[BOUNDED_HIGH] = low * sums[UNIT], high * sums[UNIT]
