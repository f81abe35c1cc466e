"""Evidence of a comparison: predictions, the interval of the difference, and a check of the assumptions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.evaluation import estimators as est
from peekrank.evaluation.comparison.designs import A
from peekrank.evaluation.estimators import Rows
from peekrank.kernels.confidence import RATES, Interval, observe_tightly
from peekrank.types import Floats, Ints

COUNT, SUM, SQUARES, SCALE, RANGE, MOST, CHECKS, CHECK_SUM, CHECK_SCALE, VALUE_SUM = range(10)  # of `totals`
TOTALS = 10
_FLOOR = 0.3  # smallest spread that the design assumes, as a share of the largest gain


class Evidence(NamedTuple):
    """Sums and item statistics of a comparison."""

    sums: Floats  # of gains, by subject
    counts: Floats
    squares: Floats  # of residuals
    overall: Floats  # sum and number of all gains, with the prior
    totals: Floats
    difference: Interval
    check: Interval


class Work(NamedTuple):
    """Working memory for a decision of n rows."""

    offsets: Ints
    seen: Ints
    none: Floats  # a zero
    predicted: Floats
    propensity: Floats
    terms: Floats
    space: Floats


def make_evidence(subjects: int, span: float) -> Evidence:
    """Return the evidence before the first decision."""
    return Evidence(
        np.zeros(subjects), np.zeros(subjects), np.zeros(subjects), np.array([span / 2, 1.0]), np.zeros(TOTALS),
        Interval.fresh(1.0, growing=True), Interval.fresh(1.0, growing=True),
    )  # fmt: skip


def make_work(n: int) -> Work:
    """Allocate working memory for lists of n items."""
    terms, space = np.empty((1, est.LARGEST + 1)), np.empty((2, 2 * RATES))
    return Work(np.array([0, n]), np.zeros(1, np.int64), np.zeros(1), np.empty(n), np.empty(n), terms, space)


@kernel
def fill_spread(e: Evidence, subject: Ints, span: float, spread: Floats) -> None:
    """Fill in the root of the mean squared residual of each row, with one prior observation and a floor."""
    for i in range(len(subject)):
        s = subject[i]
        spread[i] = max(_FLOOR * span, ((e.squares[s] + span * span / 4) / (e.counts[s] + 1)) ** 0.5)


@kernel
def observe_list(
    e: Evidence,
    subject: Ints,
    difference: Floats,
    exposure: Floats,
    gain: Floats,
    looked: Floats,
    answered: int,
    seen: int,
    span: float,
    total: float,
    work: Work,
) -> None:
    """Add a list with at least one answer.

    Parameters
    ----------
    e
        The evidence, which is modified.
    subject
        Whose earlier gains predict each row.
    difference, exposure
        Weight in a minus weight in b, and the probability that each row is seen.
    gain
        Gain of each row, from 0; NaN without an answer.
    looked
        For clicks, the examination of each row at its position; otherwise empty.
    answered, seen
        Number of answers and of rows seen. If some are missing, propensities are multiplied by their ratio.
    span
        The largest gain.
    total
        The sum of the weights of all positions.
    work
        Working memory.
    """
    n, share = len(subject), answered / seen
    for i in range(n):
        work.propensity[i] = exposure[i] * share
    work.seen[0] = answered
    rows = Rows(work.offsets, work.propensity, gain, subject, work.seen, span, 0.0, looked)
    est.fill_means(rows, e.sums, e.counts, e.overall, work.predicted)
    est.fill_terms(rows, difference, work.predicted, np.inf, work.terms)
    totals, x, distance = e.totals, work.terms[0, est.DR], 0.0
    for i in range(n):
        distance += abs(difference[i])
        if not np.isnan(gain[i]):
            examined = looked[i] if len(looked) > 0 else 1.0
            e.squares[subject[i]] += (gain[i] - examined * work.predicted[i]) ** 2
    if totals[SCALE] == 0:  # the orders have not differed yet
        totals[SCALE] = est.unit_of(rows, difference, 0)
    est.observe_bounded(
        rows, difference, work.predicted, 0, max(totals[SCALE], est.LEAST), e.difference, work.space
    )
    totals[COUNT] += 1
    totals[SUM] += x
    totals[SQUARES] += x * x
    totals[RANGE] += 2 * span * distance / share
    totals[MOST] = max(totals[MOST], span * total)


@kernel
def _check(e: Evidence, x: float, reach: float) -> None:
    """Add an observation from -reach to reach to the check."""
    totals = e.totals
    if totals[CHECK_SCALE] == 0:
        totals[CHECK_SCALE] = reach / 2
    scale = totals[CHECK_SCALE]
    observe_tightly(e.check.below, x / scale, -reach / scale)
    observe_tightly(e.check.above, -x / scale, -reach / scale)
    totals[CHECKS] += 1
    totals[CHECK_SUM] += x


@kernel
def observe_value(e: Evidence, value: float, arm: int, lowest: float, highest: float) -> None:
    """Add the observed value of a whole list of a or b, which follows its order, for the plain A/B value."""
    totals = e.totals
    centre = (totals[VALUE_SUM] + (lowest + highest) / 2) / (totals[CHECKS] + 1)
    centre = min(max(centre, lowest), highest)
    x = 2 * (value - centre) * (1 if arm == A else -1)
    _check(e, x, 2 * max(highest - centre, centre - lowest))
    totals[VALUE_SUM] += value


@kernel
def observe_positions(
    e: Evidence, position: Ints, ranks: Ints, gain: Floats, arm: int, k: int, span: float, predicted: Floats
) -> None:
    """Add whether the rows that the coin put higher have higher gains than predicted.

    If answers do not depend on the position, the mean is 0, because the coin is independent of the answers.

    Parameters
    ----------
    e
        The evidence, which is modified.
    position, ranks, gain
        Position of each row, its rank in b, and its gain, NaN without an answer.
    arm
        Whose order the rows seen follow.
    k
        Number of rows seen.
    span
        The largest gain.
    predicted
        The prediction of each row.
    """
    x, reach, n = 0.0, 0.0, len(ranks)
    for i in range(n):
        if position[i] >= k or np.isnan(gain[i]):
            continue
        higher = 0  # by how many positions it stands higher in a's arrangement
        for j in range(n):
            if position[j] < k:
                higher += (ranks[j] < ranks[i]) - (j < i)
        x += higher * (gain[i] - predicted[i]) / k
        reach += abs(higher) * span / k
    if reach > 0:
        _check(e, x if arm == A else -x, reach)
