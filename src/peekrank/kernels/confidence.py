r"""Confidence sequences: intervals for a mean that hold after every observation.

**Observations.** x_1, x_2, ... have conditional means mu_t = E[x_t | past], which may change and may depend on the
past in any way. A lower limit low_t <= x_t is known before x_t. No upper limit is needed: an estimate that divides
by a small probability is rarely huge, and never far below zero.

**Empirical Bernstein (`Bound`).** Let c > 0, 0 <= r < 1/c, and let a_t <= low_t + c be known before x_t. Then

    M_t = exp( r sum_s (x_s - mu_s)  -  psi sum_s (x_s - a_s)^2 ),      psi = (-log(1 - r c) - r c) / c^2

is a supermartingale with M_0 = 1. For y = (x_t - a_t)/c >= -1 and s = r c the inequality of Fan, Grama & Liu
(2015, Lemma 4.1), exp(s y - (-log(1 - s) - s) y^2) <= 1 + s y, gives

    E[exp(r (x_t - a_t) - psi (x_t - a_t)^2) | past] <= 1 + r (mu_t - a_t) <= exp(r (mu_t - a_t)).

A weighted average of such processes for several r is again a supermartingale; each r may have its own c and its
own observations. By Ville's inequality the average stays below 1/alpha forever with probability at least
1 - alpha. If it does, the running mean (mu_1 + ... + mu_t)/t exceeds the result of `lower_mean` for all t at once.
The centre a_t is the mean of the earlier observations, or low_t + c if that is less. The closer it is to the mean,
the closer psi sum (x - a)^2 is to the variance. Waudby-Smith & Ramdas choose a new r before each observation, so
their interval is for a mean that never changes; with varying rates it would cover a weighted mean. With fixed
rates the interval covers the plain running mean, however the means change.

**Betting (`Bets`).** If all mu_t are equal to mu, then prod_t (1 + b_t (x_t - m)) is a
martingale for m = mu and a supermartingale for m > mu, if the bets b_t >= 0 are known before x_t and keep the
factors positive. It decreases in m. So the largest m at which it has reached 1/alpha is below mu for all t at once
with probability at least 1 - alpha. This interval is often narrower, but it is invalid if the mean changes.

Upper bounds are lower bounds of -x. Two bounds at alpha/2 each make an interval.

References
----------
Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by betting, Theorems 2 and 3.
Karampatziakis, Mineiro & Ramdas (2021), Off-policy confidence sequences (only a lower limit is needed).
Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022), Anytime-valid off-policy inference for contextual
bandits (values that change). Howard, Ramdas, McAuliffe & Sekhon (2021), Time-uniform, nonparametric,
nonasymptotic confidence sequences. Fan, Grama & Liu (2015), Exponential inequalities for martingales with
applications.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_positive
from peekrank.types import Floats

RATES = 16  # each half of the one before: covers variances over a factor of a billion
_FASTEST = 0.5  # the largest rate times its scale
_LARGEST_PART = 0.75  # the largest rate times its scale, if scales follow the observations
_STEPS = 40  # limit for Newton steps and for bisection
BOLDEST = 0.5  # the largest part of the capital that a bet can lose
POINTS = 64  # the interpolation is then exact to rounding


class Bound(NamedTuple):
    """Evidence for a lower bound on a running mean, with sums for each of several rates.

    `sums`, `squares` and `observed` are the statistics of the observations. Learners save these three.
    """

    rates: Floats  # r
    scales: Floats  # c: how far a centre may be above the lower limit of an observation
    costs: Floats  # psi
    weights: Floats  # logarithm of the weight of each rate in the average
    sums: Floats  # of observations
    squares: Floats  # of their distances from the centres
    observed: Floats  # one number: how many observations

    @classmethod
    def fresh(cls, scale: float, *, growing: bool = False) -> Bound:
        """Make the evidence before the first observation.

        Parameters
        ----------
        scale
            Typical distance of observations from their lower limit. The bound holds for every scale and is tight
            if the scale is right within a factor of ten.
        growing
            Whether smaller rates have larger scales, for observations that are clipped further below zero the
            smaller the rate.

        >>> Bound.fresh(2.0).rates[:3]
        array([0.25  , 0.125 , 0.0625])
        """
        check_positive("scale", scale)
        halves: Floats = np.ldexp(1.0, -np.arange(RATES))
        rates: Floats = halves * (_FASTEST / 2 if growing else _FASTEST) / scale
        scales: Floats = scale / halves if growing else np.full(RATES, float(scale))
        part = rates * scales  # 1/4 for all rates if scales grow
        costs = (-np.log1p(-part) - part) / scales**2
        weights = 1 / np.arange(1.0, RATES + 1)
        weights = np.log(weights / weights.sum())
        return cls(rates, scales, costs, weights, np.zeros(RATES), np.zeros(RATES), np.zeros(1))


class Interval(NamedTuple):
    """Evidence for both bounds on a running mean: from the observations and from their negatives."""

    below: Bound
    above: Bound

    @classmethod
    def fresh(cls, scale: float, *, growing: bool = False) -> Interval:
        """Make the evidence before the first observation. Parameters are those of `Bound.fresh`."""
        return cls(Bound.fresh(scale, growing=growing), Bound.fresh(scale, growing=growing))


@kernel
def observe_at(bound: Bound, j: int, x: float, low: float) -> None:
    """Add an observation for one of the rates. The caller updates `observed`.

    Parameters
    ----------
    bound
        The evidence so far.
    j
        Index of the rate.
    x
        The observation.
    low
        Its lower limit, known before.
    """
    n = bound.observed[0]
    highest = low + bound.scales[j]
    centre = low + bound.scales[0] / 2 if n == 0 else min(bound.sums[j] / n, highest)
    bound.sums[j] += x
    bound.squares[j] += (x - centre) * (x - centre)


@kernel
def observe(bound: Bound, x: float, low: float) -> None:
    """Add an observation with lower limit `low`, known before.

    >>> bound = Bound.fresh(1.0)
    >>> for x in [1.0, 0.0, 1.0, 1.0] * 25:
    ...     observe(bound, x, 0.0)
    >>> round(lower_mean(bound, 0.025), 3)
    0.577
    """
    for j in range(len(bound.rates)):
        observe_at(bound, j, x, low)
    bound.observed[0] += 1


@kernel
def observe_tightly(bound: Bound, x: float, low: float) -> None:
    """Add an observation with lower limit `low`, with the smallest scale that the limit allows.

    The inequality holds for each observation with a scale of its own: c_t = a_t - low_t instead of c, where a_t is
    limited so that r c_t is at most 3/4. The bound is tighter than that of `observe` if limits differ.

    >>> bound = Bound.fresh(1.0)
    >>> for x in [1.0, 0.0, 1.0, 1.0] * 25:
    ...     observe_tightly(bound, x, 0.0)
    >>> round(lower_mean(bound, 0.025), 3)
    0.584
    """
    n = bound.observed[0]
    for j in range(len(bound.rates)):
        rate = bound.rates[j]
        centre = min(bound.sums[j] / n if n > 0 else 0.0, low + _LARGEST_PART / rate)
        part = rate * max(centre - low, 0.0)
        # psi / r^2, or slightly more where it would be a difference of nearly equal numbers
        cost = (-log1p(-part) - part) / (part * part) if part > 1e-3 else 0.5 + part * (1 / 3 + part / 2)
        bound.sums[j] += x
        bound.squares[j] += cost * rate * rate / bound.costs[j] * (x - centre) * (x - centre)
    bound.observed[0] += 1


@kernel
def _log_part(bound: Bound, j: int, total: float) -> float:
    """Return the logarithm of the evidence of one rate against a sum of means."""
    gained = bound.rates[j] * (bound.sums[j] - total)
    return float(bound.weights[j] + gained - bound.costs[j] * bound.squares[j])


@kernel
def lower_mean(bound: Bound, alpha: float) -> float:
    """Return a lower bound on the running mean of the conditional means, valid at all times at once.

    The probability that the bound ever fails is at most alpha. It is minus infinity before the first observation.

    Parameters
    ----------
    bound
        The evidence so far.
    alpha
        Error probability, below 1.
    """
    n, needed = len(bound.rates), log(1 / alpha)
    if bound.observed[0] == 0:
        return -inf
    total = -inf  # a sum of means at which one rate alone has the evidence
    for j in range(n):
        missing = needed - bound.weights[j] + bound.costs[j] * bound.squares[j]
        total = max(total, bound.sums[j] - missing / bound.rates[j])
    for _ in range(_STEPS):  # Newton's method: from the left it never passes the zero of a convex function
        value, slope = 0.0, 0.0
        for j in range(n):
            part = exp(_log_part(bound, j, total) - needed)
            value += part
            slope += bound.rates[j] * part
        step = log(value) * value / slope
        total += step
        if step <= 1e-12 * abs(total):
            break
    return float(total / bound.observed[0])


@kernel
def observe_between(interval: Interval, x: float, low: float, high: float) -> None:
    """Add an observation with limits `low` and `high`, known before.

    Parameters
    ----------
    interval
        The evidence so far.
    x
        The observation.
    low, high
        Its limits.

    >>> interval = Interval.fresh(1.0)
    >>> for x in [1.0, 0.0, 1.0, 1.0] * 25:
    ...     observe_between(interval, x, 0.0, 1.0)
    >>> low, high = interval_of_mean(interval, 0.05)
    >>> round(low, 3), round(high, 3)
    (0.577, 0.923)
    """
    observe(interval.below, x, low)
    observe(interval.above, -x, -high)


@kernel
def interval_of_mean(interval: Interval, alpha: float) -> tuple[float, float]:
    """Return a confidence interval for the running mean of the conditional means, valid at all times at once.

    The probability that it ever fails is at most alpha.
    """
    return lower_mean(interval.below, alpha / 2), -lower_mean(interval.above, alpha / 2)


class Bets(NamedTuple):
    """Capital of bets against means, at the Chebyshev points between two limits of the mean.

    The logarithm of the capital is an analytic function of the mean, because each bet is small enough for a mean
    somewhat above the upper limit. So its values at `POINTS` points determine it up to rounding, and no
    observation has to be kept.
    """

    means: Floats  # ascending; the first and the last are the limits
    logs: Floats  # logarithm of the capital against each mean
    products: Floats  # further factors of the capital
    totals: Floats  # number of observations, their sum, and the sum of squared distances from their mean

    @classmethod
    def fresh(cls, lowest: float, highest: float) -> Bets:
        """Make the capital before the first observation; the limits of the mean must be known.

        >>> Bets.fresh(0.0, 1.0).means[[0, -1]]
        array([0., 1.])
        """
        places = np.sin(np.pi / 2 * np.linspace(-1, 1, POINTS))
        means: Floats = lowest + (highest - lowest) * (places + 1) / 2
        return cls(means, np.zeros(POINTS), np.ones(POINTS), np.zeros(3))


@kernel
def next_bet(bets: Bets, low: float, alpha: float) -> float:
    """Return the bet on the next observation, computed from the earlier ones.

    b_t = sqrt(2 log(1/alpha) / (variance t log(1 + t))), reduced so that no bet loses more than half the capital.

    Parameters
    ----------
    bets
        The evidence so far.
    low
        Lower limit of the observation, known before.
    alpha
        Target error probability.

    >>> next_bet(Bets.fresh(0.0, 1.0), 0.0, 0.05)
    0.5
    """
    t, highest = bets.totals[0], bets.means[-1]
    scale = max(highest - low, 1e-300)
    variance = (bets.totals[2] + scale * scale / 4) / (t + 1)
    wanted = sqrt(2 * log(1 / alpha) / (max(variance, 1e-300) * (t + 1) * log(t + 2)))
    return float(min(wanted, BOLDEST / scale))


@kernel
def observe_bet(bets: Bets, x: float, low: float, alpha: float) -> None:
    """Add an observation.

    Parameters
    ----------
    bets
        The evidence so far.
    x
        The observation.
    low, alpha
        As for `next_bet`.
    """
    bet, last = next_bet(bets, low, alpha), len(bets.means) - 1
    mean = (bets.totals[1] + (bets.means[last] + low) / 2) / (bets.totals[0] + 1)
    place_bet(bets, x, bet)
    bets.totals[2] += (x - mean) * (x - mean)


@kernel
def place_bet(bets: Bets, x: float, bet: float) -> None:
    """Add an observation on which `bet` was placed; it must be known before, and lose at most half the capital.

    >>> bets = Bets.fresh(0.0, 1.0)
    >>> place_bet(bets, 1.0, 0.5)
    >>> bets.products[[0, -1]]
    array([1.5, 1. ])
    """
    last = len(bets.means) - 1
    for j in range(last + 1):
        bets.products[j] *= 1 + bet * (x - bets.means[j])
    if not (bets.products[last] > 1e-100 and bets.products[0] < 1e100):  # the smallest, and the largest
        for j in range(last + 1):
            bets.logs[j] += log(bets.products[j])
            bets.products[j] = 1.0
    bets.totals[0] += 1
    bets.totals[1] += x


@kernel
def narrow_bets(bets: Bets, lowest: float, highest: float, space: Floats) -> None:
    """Forget the capital against means outside narrower limits, which allows larger bets.

    This keeps the bound valid if the mean is within these limits, or if they are bounds whose own error
    probability is counted. `space` has room for a number for each point.

    >>> bets = Bets.fresh(0.0, 1.0)
    >>> place_bet(bets, 1.0, 0.5)
    >>> narrow_bets(bets, 0.0, 0.5, np.empty(POINTS))
    >>> np.exp(bets.logs[[0, -1]]).round(6)
    array([1.5 , 1.25])
    """
    last = len(bets.means) - 1
    first, width = bets.means[0], bets.means[last] - bets.means[0]
    for j in range(last + 1):
        space[j] = _capital(bets, lowest + (highest - lowest) * (bets.means[j] - first) / width)
    for j in range(last + 1):
        bets.means[j] = lowest + (highest - lowest) * (bets.means[j] - first) / width
        bets.logs[j], bets.products[j] = space[j], 1.0


@kernel
def bet_bound(bets: Bets, alpha: float) -> float:
    """Return a lower bound on a mean that never changes, by betting; the lower limit if there is no better one.

    Parameters
    ----------
    bets
        The evidence so far.
    alpha
        Error probability, at all times at once.

    >>> bets = Bets.fresh(0.0, 1.0)
    >>> for x in [1.0, 0.0, 1.0, 1.0] * 25:
    ...     observe_bet(bets, x, 0.0, 0.025)
    >>> round(bet_bound(bets, 0.025), 3)
    0.612
    """
    needed = log(1 / alpha)
    under, over = bets.means[0], bets.means[-1]
    if _capital(bets, under) < needed:
        return float(under)
    for _ in range(_STEPS):
        middle = (under + over) / 2
        if _capital(bets, middle) >= needed:
            under = middle
        else:
            over = middle
    return float(under)


@kernel
def _capital(bets: Bets, mean: float) -> float:
    """Return the logarithm of the capital after betting against a mean, by barycentric interpolation."""
    last, sign, value, weights = len(bets.means) - 1, 1.0, 0.0, 0.0
    for j in range(last + 1):
        own = bets.logs[j] + log(bets.products[j])
        if mean == bets.means[j]:
            return float(own)
        part = sign / (mean - bets.means[j])
        if j in (0, last):
            part /= 2
        value += part * own
        weights += part
        sign = -sign
    return float(value / weights)


@kernel
def log_evidence(bound: Bound, mean: float) -> float:
    """Return the logarithm of the evidence that the running mean is above `mean`.

    If it is not, the evidence is a supermartingale, and it ever reaches 1/alpha with probability at most alpha.

    >>> bound = Bound.fresh(1.0)
    >>> for x in [1.0, 0.0, 1.0, 1.0] * 25:
    ...     observe(bound, x, 0.0)
    >>> round(log_evidence(bound, lower_mean(bound, 0.05)), 6) == round(log(20), 6)
    True
    """
    total, largest, value = bound.observed[0] * mean, -inf, 0.0
    for j in range(len(bound.rates)):
        largest = max(largest, _log_part(bound, j, total))
    for j in range(len(bound.rates)):
        value += exp(_log_part(bound, j, total) - largest)
    return largest + log(value)
