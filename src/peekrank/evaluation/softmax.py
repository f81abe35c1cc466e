r"""Propensities of a logger that draws rankings from a Plackett-Luce distribution of its scores.

Such a logger draws the first item with probability proportional to w_i = exp(score_i / temperature), the next one
likewise among the rest, and so on: it sorts by score + temperature x Gumbel noise. In the exponential race, item i
arrives at time T_i ~ Exp(w_i), and the ranking is the order of arrival. So item i is among the first k if fewer
than k others arrive before it. With Q_i(t) the probability of that at time t, and any rate L,

    P(i among the first k) = 1 - (L / (L + w_i))^k + \int w_i exp(-w_i t) (Q_i(t) - P(Poisson(L t) < k)) dt.

The number of arrivals before t is Poisson-binomial. Its distribution comes from products of prefixes and suffixes
without any subtraction. In u = log t the integrand is analytic and falls off exponentially on both sides, so the
trapezoidal rule converges exponentially. tests/evaluation/test_softmax.py compares with enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log, sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank._util.text import excerpt
from peekrank._util.validate import check_positive
from peekrank.evaluation.log import Log, Scope
from peekrank.evaluation.sources import LogSource
from peekrank.types import Floats, Ints

_STEP = 0.4  # of the rule, times the square root of k + 1: the width of the integrand
_SMALL = 1e-18  # terms of the rule that are left out
_MOST_STEPS = 4000  # on each side
_LEAST = 1e-300  # propensity: every item can be among the first k
_FAR = 600.0  # distance below the highest score / temperature at which weights end


@kernel
def fill_inclusion(weights: Floats, k: int, space: Floats, out: Floats) -> None:
    """Fill the probability of each item to be among the first k of a Plackett-Luce ranking.

    Parameters
    ----------
    weights
        Positive, the largest of them 1.
    k
        Length of the list seen, from 1 to the number of items.
    space
        Work array of 2 m + 3 rows and k columns or more, for m items.
    out
        Filled.

    >>> out = np.empty(3)
    >>> fill_inclusion(np.array([1.0, 0.5, 0.5]), 2, np.empty((9, 3)), out)
    >>> out.round(6)  # 1/2 + 1/4 x 2/3 + 1/4 x 2/3, and so on
    array([0.833333, 0.583333, 0.583333])
    """
    m, total = len(weights), 0.0
    for w in weights:
        total += w
    if k >= m:
        out[:] = 1.0
        return
    if k == 1:
        for i in range(m):
            out[i] = weights[i] / total
        return
    centre = _time_of(weights, k)
    rate = k / centre
    for i in range(m):
        out[i] = -np.expm1(-k * np.log1p(weights[i] / rate))
    step = _STEP / sqrt(k + 1.0)
    for side in (-1, 1):
        quiet = 0
        for j in range(1 if side == 1 else 0, _MOST_STEPS):
            largest = _add_node(weights, k, rate, log(centre) + side * j * step, step, space, out)
            quiet = quiet + 1 if largest < _SMALL else 0
            if quiet > 3:
                break
    for i in range(m):
        out[i] = min(max(out[i], _LEAST), 1.0)


@kernel
def _time_of(weights: Floats, k: int) -> float:
    """Return the time at which k items are expected to have arrived, by bisection of its logarithm."""
    low, high = -50.0, 800.0
    for _ in range(60):
        middle, arrived = (low + high) / 2, 0.0
        for w in weights:
            arrived += -np.expm1(-w * exp(middle))
        if arrived < k:
            low = middle
        else:
            high = middle
    return exp(low)


@kernel
def _add_node(weights: Floats, k: int, rate: float, u: float, step: float, space: Floats, out: Floats) -> float:
    """Add the integrand at exp(u) times the step to all items, and return the largest term."""
    m, t = len(weights), exp(u)
    before, after = space[: m + 1], space[m + 1 : 2 * m + 2]  # P(c of the items i' < i, or i' >= i, have arrived)
    before[0], after[m] = 0.0, 0.0
    before[0, 0], after[m, 0] = 1.0, 1.0
    for i in range(m):
        p = -np.expm1(-weights[i] * t)
        for c in range(k):
            before[i + 1, c] = before[i, c] * (1 - p) + (before[i, c - 1] * p if c > 0 else 0.0)
    for i in range(m - 1, -1, -1):
        p = -np.expm1(-weights[i] * t)
        for c in range(k):
            after[i, c] = after[i + 1, c] * (1 - p) + (after[i + 1, c - 1] * p if c > 0 else 0.0)
    poisson, part = 0.0, exp(-rate * t)
    for c in range(k):
        poisson += part
        part *= rate * t / (c + 1)
    largest = 0.0
    for i in range(m):
        fewer, sums = 0.0, 0.0
        for c in range(k):  # c of the earlier items, at most k - 1 - c of the later ones
            sums += after[i + 1, c]
            fewer += before[i, k - 1 - c] * sums
        added = step * weights[i] * t * exp(-weights[i] * t) * (fewer - poisson)
        out[i] += added
        largest = max(largest, abs(added))
    return largest


@kernel
def _fill_propensities(
    log_weights: Floats, offsets: Ints, k: Ints, weights: Floats, space: Floats, out: Floats
) -> None:
    """Fill the propensities of all decisions."""
    for t in range(len(k)):
        first, last = offsets[t], offsets[t + 1]
        highest = log_weights[first]
        for i in range(first, last):
            highest = max(highest, log_weights[i])
        for i in range(first, last):
            weights[i - first] = exp(max(log_weights[i] - highest, -_FAR))
        fill_inclusion(weights[: last - first], k[t], space, out[first:last])


def add_softmax_propensities(log: Log, temperature: float, file: str = "log") -> Log:
    """Return a log with the propensities of a logger that drew a Plackett-Luce ranking by its scores.

    Parameters
    ----------
    log
        A log with the score of every candidate and without propensities.
    temperature
        The scores are divided by it.
    file
        Name of the log in an error.

    >>> from peekrank.evaluation.log import log_from_records
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "score": [0.0, 1.0]}
    >>> add_softmax_propensities(log_from_records([record]), 1.0).propensity.round(3)
    array([0.269, 0.731])
    """
    check_positive("temperature", temperature)
    scores = np.full(len(log.item), np.nan) if log.scores is None else log.scores
    for wrong, what in (
        (np.isnan(scores), "has no score, so its propensity cannot be computed"),
        (~np.isnan(log.propensity), "already has a propensity; leave the temperature out to use it"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            event = excerpt(log.events[int(log.owner[row])])
            raise ValueError(f"{file}, event '{event}': candidate '{excerpt(log.names[log.item[row]])}' {what}")
    longest, k = int(log.lengths.max()), int(log.k.max())
    out = np.empty(len(scores))
    space = np.empty((2 * longest + 3, k)), np.empty(longest)
    _fill_propensities(scores / temperature, log.offsets, log.k, space[1], space[0], out)
    return log._replace(propensity=out)


class SoftmaxSource:
    """A log whose propensities are computed from scores while it is read.

    Parameters
    ----------
    source
        The log.
    temperature
        As for `add_softmax_propensities`.
    """

    def __init__(self, source: LogSource, temperature: float) -> None:
        check_positive("temperature", temperature)
        self.name, self._source, self._temperature = source.name, source, temperature

    @property
    def scope(self) -> Scope:
        """Properties of the whole log."""
        return self._source.scope

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the decisions from number `first` on, in order."""
        for part in self._source.parts(first):
            yield add_softmax_propensities(part, self._temperature, self.name)

    def digest(self) -> str:
        """Return a digest of the log and of the temperature."""
        return f"{self._source.digest()} {self._temperature!r}"
