r"""Confidence sequences: intervals for a mean that may be looked at after every observation.

**What is observed.** x_1, x_2, ... with conditional means mu_t = E[x_t | past], which may change and may depend
on the past in any way, and numbers low_t <= x_t that are known before x_t is. There need be no upper limit: an
estimate that divides by a small probability is rarely huge, and never far below zero.

**Empirical Bernstein (`Bound`).** Let c > 0, 0 <= r < 1/c, and let a_t <= low_t + c be known before x_t. Then

    M_t = exp( r sum_s (x_s - mu_s)  -  psi sum_s (x_s - a_s)^2 ),      psi = (-log(1 - r c) - r c) / c^2

is a supermartingale with M_0 = 1. For y = (x_t - a_t)/c >= -1 and s = r c the inequality of Fan, Grama & Liu
(2015, Lemma 4.1), exp(s y - (-log(1 - s) - s) y^2) <= 1 + s y, gives

    E[exp(r (x_t - a_t) - psi (x_t - a_t)^2) | past] <= 1 + r (mu_t - a_t) <= exp(r (mu_t - a_t)).

A weighted average of such processes for several r, each with a c and observations of its own if one likes, is
one, too. By Ville's inequality the average stays below 1/alpha for ever with probability 1 - alpha at least,
and where it does, the running mean (mu_1 + ... + mu_t)/t is above the number that `lower_mean` returns, for all
t at once. The centre a_t is the mean of what was observed before, as far as low_t + c allows: the closer it is
to the mean, the closer psi sum (x - a)^2 is to the variance. (Waudby-Smith & Ramdas choose r anew before each
observation. Their interval is for a mean that never changes; weighted by rates that vary, it would be one for a
weighted mean. With fixed rates it holds for the plain running mean, whatever the means do.)

**Betting (`fill_bets`, `bet_bound`).** If all mu_t are equal to mu, then prod_t (1 + b_t (x_t - m)) is a
martingale for m = mu, and a supermartingale for m > mu, for bets b_t >= 0 that are known before x_t and keep
the factors positive. It decreases in m. So the largest m at which it has reached 1/alpha is below mu for all t
at once with probability 1 - alpha at least. This is often narrower, and wrong if the mean changes.

Upper bounds are lower bounds of -x. Two bounds at alpha/2 each make an interval.

References
----------
Waudby-Smith & Ramdas (2023), Estimating means of bounded random variables by betting, Theorems 2 and 3.
Karampatziakis, Mineiro & Ramdas (2021), Off-policy confidence sequences (only a lower limit is needed).
Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro (2022), Anytime-valid off-policy inference for contextual
bandits (values that change). Howard, Ramdas, McAuliffe & Sekhon (2021), Time-uniform, nonparametric,
nonasymptotic confidence sequences. Fan, Grama & Liu (2015), Exponential inequalities for martingales with
applications.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_positive
from peekrank.types import Floats

RATES = 16  # each half of the one before: good for variances that differ by a factor of a billion
_FASTEST = 0.5  # the largest rate times its scale
_STEPS = 40  # of Newton's method, or halvings of an interval
_BOLDEST = 0.5  # the largest part of what it has that a bet can lose


class Bound(NamedTuple):
    """Evidence that a running mean is not small: sums for each of several rates.

    `sums` and `squares` are of what was observed; a learner keeps them, and `observed`, in its memory.
    """

    rates: Floats  # r
    scales: Floats  # c: how far above the least possible observation a centre may be
    prices: Floats  # psi
    weights: Floats  # logarithm of each rate's part in the average
    sums: Floats  # of observations
    squares: Floats  # of their distances from the centres
    observed: Floats  # one number: how many observations

    @classmethod
    def fresh(cls, scale: float, *, growing: bool = False) -> Bound:
        """Evidence before the first observation.

        Parameters
        ----------
        scale
            About how far observations are from the least that is possible. The bound holds whatever the scale
            is; it is narrow if the scale is right within a factor of ten.
        growing
            Whether slower rates have larger scales, for observations that are cut off the further below zero
            the slower the rate is.

        >>> Bound.fresh(2.0).rates[:3]
        array([0.25  , 0.125 , 0.0625])
        """
        check_positive("scale", scale)
        halves: Floats = np.ldexp(1.0, -np.arange(RATES))
        rates: Floats = halves * (_FASTEST / 2 if growing else _FASTEST) / scale
        scales: Floats = scale / halves if growing else np.full(RATES, float(scale))
        part = rates * scales  # a quarter throughout, if they grow
        prices = (-np.log1p(-part) - part) / scales**2
        weights = 1 / np.arange(1.0, RATES + 1)
        weights = np.log(weights / weights.sum())
        return cls(rates, scales, prices, weights, np.zeros(RATES), np.zeros(RATES), np.zeros(1))


class Interval(NamedTuple):
    """Evidence on both sides: of the observations, and of their negatives."""

    below: Bound
    above: Bound

    @classmethod
    def fresh(cls, scale: float, *, growing: bool = False) -> Interval:
        """Evidence before the first observation; parameters as for `Bound.fresh`."""
        return cls(Bound.fresh(scale, growing=growing), Bound.fresh(scale, growing=growing))


@kernel
def observe_at(bound: Bound, j: int, x: float, low: float) -> None:
    """Take an observation for one of the rates; `observed` is left to the caller.

    Parameters
    ----------
    bound
        What is known.
    j
        The number of the rate.
    x
        What was observed.
    low
        A number, known before, that x cannot be below.
    """
    n = bound.observed[0]
    highest = low + bound.scales[j]
    centre = low + bound.scales[0] / 2 if n == 0 else min(bound.sums[j] / n, highest)
    bound.sums[j] += x
    bound.squares[j] += (x - centre) * (x - centre)


@kernel
def observe(bound: Bound, x: float, low: float) -> None:
    """Take an observation that cannot be below `low`, a number known before.

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
def _log_part(bound: Bound, j: int, total: float) -> float:
    """Logarithm of what one rate adds to the evidence against a sum of means."""
    gained = bound.rates[j] * (bound.sums[j] - total)
    return float(bound.weights[j] + gained - bound.prices[j] * bound.squares[j])


@kernel
def lower_mean(bound: Bound, alpha: float) -> float:
    """What the running mean of the conditional means is above, for all numbers of observations at once.

    The probability that this is wrong at any time is alpha at most. It is minus infinity before the first
    observation.

    Parameters
    ----------
    bound
        What was observed.
    alpha
        Probability of an error, below 1.
    """
    n, needed = len(bound.rates), log(1 / alpha)
    if bound.observed[0] == 0:
        return -inf
    total = -inf  # a sum of means at which one rate alone has the evidence
    for j in range(n):
        missing = needed - bound.weights[j] + bound.prices[j] * bound.squares[j]
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
    """Take an observation that is from `low` to `high`, numbers known before.

    Parameters
    ----------
    interval
        What is known.
    x
        What was observed.
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
    """The running mean of the conditional means is between these, for all numbers of observations at once.

    The probability that this is wrong at any time is alpha at most.
    """
    return lower_mean(interval.below, alpha / 2), -lower_mean(interval.above, alpha / 2)


@kernel
def fill_bets(x: Floats, low: Floats, highest: float, alpha: float, bets: Floats) -> None:
    """How much to bet before each observation, from those before it: more if they vary little.

    b_t = sqrt(2 log(1/alpha) / (variance t log(1 + t))), and so little that no bet loses more than a half.

    Parameters
    ----------
    x
        What was observed.
    low
        What each observation cannot be below, known before.
    highest
        What the mean cannot be above.
    alpha
        Probability of an error that is aimed at.
    bets
        Filled.

    >>> bets = np.empty(3)
    >>> fill_bets(np.array([1.0, 0.0, 1.0]), np.zeros(3), 1.0, 0.05, bets)
    >>> bets
    array([0.5, 0.5, 0.5])
    """
    total, squares = 0.0, 0.0
    for t in range(len(x)):
        scale = max(highest - low[t], 1e-300)
        mean = (total + (highest + low[t]) / 2) / (t + 1)
        variance = (squares + scale * scale / 4) / (t + 1)
        wanted = sqrt(2 * log(1 / alpha) / (max(variance, 1e-300) * (t + 1) * log(t + 2)))
        bets[t] = min(wanted, _BOLDEST / scale)
        total += x[t]
        squares += (x[t] - mean) * (x[t] - mean)


@kernel
def bet_bound(x: Floats, bets: Floats, alpha: float, lowest: float, highest: float) -> float:
    """What a mean that never changes is above, by betting; `lowest` if nothing above that can be said.

    Parameters
    ----------
    x, bets
        Observations so far, and what was bet before each.
    alpha
        Probability of an error, at any number of observations.
    lowest, highest
        What the mean can be.

    >>> x = np.tile([1.0, 0.0, 1.0, 1.0], 25)
    >>> bets = np.empty(100)
    >>> fill_bets(x, np.zeros(100), 1.0, 0.025, bets)
    >>> round(bet_bound(x, bets, 0.025, 0.0, 1.0), 3)
    0.612
    """
    needed = log(1 / alpha)
    if _capital(x, bets, lowest) < needed:
        return lowest
    under, over = lowest, highest
    for _ in range(_STEPS):
        middle = (under + over) / 2
        if _capital(x, bets, middle) >= needed:
            under = middle
        else:
            over = middle
    return under


@kernel
def _capital(x: Floats, bets: Floats, mean: float) -> float:
    """Logarithm of what a gambler has who bets against a mean."""
    total, product = 0.0, 1.0
    for t in range(len(x)):
        product *= 1 + bets[t] * (x[t] - mean)
        if not 1e-100 < product < 1e100:
            total += log(product)
            product = 1.0
    return total + log(product)


@kernel
def log_evidence(bound: Bound, mean: float) -> float:
    """Logarithm of the evidence that the running mean is above `mean`: a supermartingale's, if it is not.

    The probability that it ever reaches log(1/alpha) is alpha at most.

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
