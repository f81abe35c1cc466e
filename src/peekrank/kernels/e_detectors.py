"""E-detectors: e-processes that bet against the null hypothesis of no change, and raise alarms.

Every round deposits one unit in total, divided among the e-processes that bet in it. A bet has a stake, which is a
share of the wealth of its e-process, and a gain per stake of at least -1. Under the null hypothesis its mean given
the past is at most 0. The expected total wealth is therefore at most the number of rounds. An e-process that
reaches ``1 / alpha`` raises an alarm and starts again from zero. So the expected number of false alarms in T
rounds is at most alpha T, and the expected time to the first is at least 1 / alpha rounds. This is the
Shiryaev-Roberts form.

References
----------
Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection, 2022.
Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 2024: Theorem 2,
`update_reference`.
"""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats

# Stakes, as shares of wealth. An e-process has one part for each; the part with the best stake grows fastest.
STAKES = np.array([0.9, 0.3, 0.1, 0.03])
_LARGEST_GAIN = 1e9  # for an event of probability 0 that occurred: propensities are rounded to 1e-16
_LARGEST_SLOPE = 0.5
_RECENT = 0.05  # weight of the latest observation in the recent mean

# The fields of a reference: number of observations, their sum and squared deviations; sums of slopes, of slopes
# times observations, and of the variance terms; the bounds; the recent mean; and the logarithm of 2 / level.
_COUNT, _SUM, _DEVIATIONS, _SLOPES, _WEIGHTED, _COSTS, LOW, HIGH, RECENT, _LOG_LEVEL = range(10)
PAST_FIELDS = 10


def new_e_process(*shape: int) -> Floats:
    """Return e-processes of wealth 0."""
    return np.zeros((*shape, len(STAKES)))


def new_reference(*shape: int) -> Floats:
    """Return empty reference statistics."""
    reference = np.zeros((*shape, PAST_FIELDS))
    reference[..., HIGH] = 1.0
    return reference


@kernel
def bet(e_process: Floats, deposit: float, gain: float) -> None:
    """Add a deposit to an e-process, then bet: multiply each part by 1 + stake x gain.

    Parameters
    ----------
    e_process
        Its wealth by stake.
    deposit
        Amount to add, fixed before the gain is known.
    gain
        At least -1. Its mean given the past is at most 0 under the null hypothesis.

    >>> e_process = new_e_process()
    >>> bet(e_process, 4.0, 1.0)
    >>> e_process
    array([1.9 , 1.3 , 1.1 , 1.03])
    """
    gain = min(max(gain, -1.0), _LARGEST_GAIN)
    for i in range(len(e_process)):
        e_process[i] = (e_process[i] + deposit / len(e_process)) * (1.0 + STAKES[i] * gain)


@kernel
def wealth(e_process: Floats) -> float:
    """Return the wealth of an e-process."""
    total = 0.0
    for i in range(len(e_process)):
        total += e_process[i]
    return total


@kernel
def bet_above(x: float, limit: float) -> float:
    """Return the gain per stake of a bet that an observation in [0, 1] has a mean above `limit`.

    >>> bet_above(1.0, 0.25), bet_above(0.0, 0.25)
    (3.0, -1.0)
    """
    if limit > 0:
        return (x - limit) / limit
    return inf if x > 0 else 0.0


@kernel
def bet_below(x: float, limit: float) -> float:
    """Return the gain per stake of a bet that an observation in [0, 1] has a mean below `limit`."""
    return bet_above(1.0 - x, 1.0 - limit)


@kernel
def is_known(reference: Floats) -> bool:
    """Return whether a reference has any observation."""
    return bool(reference[_COUNT] > 0)


@kernel
def reset(reference: Floats) -> None:
    """Reset the reference statistics."""
    reference[:] = 0.0
    reference[HIGH] = 1.0


@kernel
def begin(reference: Floats, level: float) -> None:
    """Reset a reference; its next bounds hold at all times at once with probability 1 - level."""
    reset(reference)
    reference[_LOG_LEVEL] = log(2.0 / level)


@kernel
def update_reference(reference: Floats, x: float) -> None:
    """Add an observation in [0, 1] and tighten the confidence bounds on its mean.

    The bounds are a confidence sequence: empirical Bernstein with a predictable plug-in. With slopes l_i that
    depend only on the observations before x_i, and m_(i-1) the mean of these, the mean lies within

        sum l_i x_i / sum l_i  +-  (ln(2 / level) + sum (x_i - m_(i-1))^2 (-ln(1 - l_i) - l_i)) / sum l_i

    for all i at once. Bounds never widen. (`peekrank.kernels.confidence` is for means that change and keeps
    at least 32 sums. The monitor keeps very many references, so each has only ten numbers.)

    >>> reference = new_reference()
    >>> begin(reference, 0.01)
    >>> for i in range(1000):
    ...     update_reference(reference, float(i % 4 == 0))
    >>> bool(0.15 < reference[LOW] < 0.25 < reference[HIGH] < 0.35)
    True
    """
    count = reference[_COUNT]
    mean = (0.5 + reference[_SUM]) / (count + 1.0)
    variance = (0.25 + reference[_DEVIATIONS]) / (count + 1.0)
    slope = sqrt(2.0 * reference[_LOG_LEVEL] / (variance * (count + 1.0) * log(count + 2.0)))
    slope = min(_LARGEST_SLOPE, slope)
    reference[_SLOPES] += slope
    reference[_WEIGHTED] += slope * x
    reference[_COSTS] += (x - mean) * (x - mean) * (-log(1.0 - slope) - slope)
    reference[_COUNT] += 1.0
    reference[_SUM] += x
    after = (0.5 + reference[_SUM]) / (count + 2.0)
    reference[_DEVIATIONS] += (x - after) * (x - after)
    middle, radius = (
        reference[_WEIGHTED] / reference[_SLOPES],
        (reference[_LOG_LEVEL] + reference[_COSTS]) / reference[_SLOPES],
    )
    reference[LOW] = max(reference[LOW], middle - radius)
    reference[HIGH] = min(reference[HIGH], middle + radius)
    reference[RECENT] += (x - reference[RECENT]) * max(_RECENT, 1.0 / (count + 1.0))
