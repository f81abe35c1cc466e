"""Alarms as bets: accounts that bet against "all is well", and cannot grow on average while it is.

Every round hands out one coin in all, divided among the accounts that bet in it. A bet has a stake, a share of
what its account holds, and a gain per stake of at least -1 whose mean, given the past, is 0 or less while all is
well. So all accounts together hold, on average, at most as much as there were coins: one per round. An account
that holds ``1 / alpha`` raises an alarm and is emptied. Hence at most alpha T false alarms are expected in T
rounds, and 1 / alpha rounds at least before the first: the Shiryaev-Roberts form of an e-detector.

References
----------
Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection, 2022.
Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 2024: Theorem 2, `take`.
"""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats

# Stakes, as shares of an account: an account is four, and the money on the right stake grows fastest.
STAKES = (0.9, 0.3, 0.1, 0.03)
_LARGEST_GAIN = 1e9  # where what could not happen did; chances are rounded to 1e-16
_LARGEST_SLOPE = 0.5
_RECENT = 0.05  # weight of the latest number in what is recent

# A past, the fields of a row: numbers seen, their sum and squared deviations; sums of slopes, of slopes times
# numbers, and of what deviations cost; the bounds; what is recent; and the logarithm of 2 / level.
_COUNT, _SUM, _DEVIATIONS, _SLOPES, _WEIGHTED, _COSTS, LOW, HIGH, RECENT, _LOG_LEVEL = range(10)
PAST_FIELDS = 10


def new_account(*shape: int) -> Floats:
    """Empty accounts."""
    return np.zeros((*shape, len(STAKES)))


def new_past(*shape: int) -> Floats:
    """Pasts that nothing is known of."""
    past = np.zeros((*shape, PAST_FIELDS))
    past[..., HIGH] = 1.0
    return past


@kernel
def bet(account: Floats, coin: float, gain: float) -> None:
    """Put a coin into an account, then bet: each part is multiplied by 1 + stake x gain.

    Parameters
    ----------
    account
        What it holds, by stake.
    coin
        What is put in, fixed before the gain is known.
    gain
        From -1 up; its mean given the past is at most 0 if all is well.

    >>> account = new_account()
    >>> bet(account, 4.0, 1.0)
    >>> account
    array([1.9 , 1.3 , 1.1 , 1.03])
    """
    gain = min(max(gain, -1.0), _LARGEST_GAIN)
    for i in range(len(account)):
        account[i] = (account[i] + coin / len(account)) * (1.0 + STAKES[i] * gain)


@kernel
def worth(account: Floats) -> float:
    """What an account holds."""
    total = 0.0
    for i in range(len(account)):
        total += account[i]
    return total


@kernel
def against_more(x: float, most: float) -> float:
    """Gain per stake of a bet that a number from 0 to 1 has a mean above `most`.

    >>> against_more(1.0, 0.25), against_more(0.0, 0.25)
    (3.0, -1.0)
    """
    if most > 0:
        return (x - most) / most
    return inf if x > 0 else 0.0


@kernel
def against_less(x: float, least: float) -> float:
    """Gain per stake of a bet that a number from 0 to 1 has a mean below `least`."""
    return against_more(1.0 - x, 1.0 - least)


@kernel
def is_known(past: Floats) -> bool:
    """Whether anything was taken into a past."""
    return bool(past[_COUNT] > 0)


@kernel
def forget(past: Floats) -> None:
    """Let nothing be known of a past."""
    past[:] = 0.0
    past[HIGH] = 1.0


@kernel
def begin(past: Floats, level: float) -> None:
    """Forget a past; its next bounds will hold at all times at once with probability 1 - level."""
    forget(past)
    past[_LOG_LEVEL] = log(2.0 / level)


@kernel
def take(past: Floats, x: float) -> None:
    """Take a number from 0 to 1 into a past, and narrow the bounds of its mean.

    The bounds are a confidence sequence: empirical Bernstein with a predictable plug-in. With slopes l_i that
    depend on the numbers before x_i alone, and m_(i-1) the mean of these, the mean lies within

        sum l_i x_i / sum l_i  +-  (ln(2 / level) + sum (x_i - m_(i-1))^2 (-ln(1 - l_i) - l_i)) / sum l_i

    for all i at once. Bounds never widen. (`peekrank.kernels.confidence` is for means that change, and keeps
    32 sums and more. A past is one of very many, so ten numbers must do.)

    >>> past = new_past()
    >>> begin(past, 0.01)
    >>> for i in range(1000):
    ...     take(past, float(i % 4 == 0))
    >>> bool(0.15 < past[LOW] < 0.25 < past[HIGH] < 0.35)
    True
    """
    count = past[_COUNT]
    mean = (0.5 + past[_SUM]) / (count + 1.0)
    variance = (0.25 + past[_DEVIATIONS]) / (count + 1.0)
    slope = sqrt(2.0 * past[_LOG_LEVEL] / (variance * (count + 1.0) * log(count + 2.0)))
    slope = min(_LARGEST_SLOPE, slope)
    past[_SLOPES] += slope
    past[_WEIGHTED] += slope * x
    past[_COSTS] += (x - mean) * (x - mean) * (-log(1.0 - slope) - slope)
    past[_COUNT] += 1.0
    past[_SUM] += x
    after = (0.5 + past[_SUM]) / (count + 2.0)
    past[_DEVIATIONS] += (x - after) * (x - after)
    middle, radius = past[_WEIGHTED] / past[_SLOPES], (past[_LOG_LEVEL] + past[_COSTS]) / past[_SLOPES]
    past[LOW] = max(past[LOW], middle - radius)
    past[HIGH] = min(past[HIGH], middle + radius)
    past[RECENT] += (x - past[RECENT]) * max(_RECENT, 1.0 / (count + 1.0))
