"""Estimation of position bias from a log of clicks on items that were shown at several positions."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from peekrank._util.validate import check_int, check_open_unit
from peekrank.evaluation.log import Log
from peekrank.evaluation.sources import LogSource, MemorySource
from peekrank.types import Floats, Ints

_MAX_STEPS = 100
_CLOSE = 1e-10  # Newton's method stops at smaller steps


class Curve(NamedTuple):
    """Examination of each position relative to the first, with intervals."""

    examined: Floats  # the first is 1
    low: Floats
    high: Floats
    shown: Ints  # number of items shown at each position
    clicks: Ints

    def feedback_rules(self) -> str:
        """Return this curve as feedback rules (see `peekrank.streams.feedback_rules.parse_rules`)."""
        return f"click = 1; curve {' '.join(f'{min(1.0, part):.4g}' for part in self.examined)}"


def estimate_curve(log: Log | LogSource, *, periods: int = 1, level: float = 0.95) -> Curve:
    """Estimate how likely people are to look at each position, relative to the first.

    Let a click on item i at position p have probability theta_p r_i. If i was shown n_ip times at p and had c_ip
    clicks there, theta maximises

        sum_i [ sum_p c_ip ln theta_p - c_i ln sum_p n_ip theta_p ],    c_i = sum_p c_ip:

    the likelihood of Poisson counts after r_i has been maximised out. Its slope has mean 0 at the true theta,
    whatever the r_i are, so it does not matter that better items are shown higher, nor how many items there are.
    Items that were always shown at one position carry no information. Intervals are computed for the logarithm,
    from the inverse of the information. That is the variance if clicks were Poisson counts; that of clicks is
    smaller, so intervals are too wide where most impressions are clicked, and hold with one impression per item
    and position (docs/theory/clicks.md).

    Parameters
    ----------
    log
        A log, or a source of one that is read in parts. Feedback above the minimum, among the first k, counts as a
        click.
    periods
        Number of equal parts of the log. The relevance of an item may differ between parts, not within.
    level
        Coverage probability of an interval.

    >>> from peekrank.evaluation.log import log_from_records
    >>> clicks = [[1, 0], [0, 1], [1, 1], [1, 0], [1, 0], [0, 1]] * 10  # a is on top every other time
    >>> log = log_from_records(
    ...     {"event": str(t), "k": 2, "candidates": ["a", "b"], "position": [t % 2, 1 - t % 2], "feedback": answer}
    ...     for t, answer in enumerate(clicks)
    ... )
    >>> estimate_curve(log).examined.round(2)
    array([1. , 0.4])

    References
    ----------
    Agarwal et al., Estimating position bias without intrusive interventions, WSDM 2019 (intervention harvesting).
    """
    check_int("periods", periods, 1)
    check_open_unit("level", level)
    shown, clicks = _tables(MemorySource("log", log) if isinstance(log, Log) else log, periods)
    _check_connected(shown, clicks)
    logs = _fitted(shown, clicks)
    covariance = np.linalg.inv(_information(clicks, _shares(shown, logs)))
    radius = np.append(0.0, NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.diag(covariance)))
    totals = shown.sum(axis=0).astype(np.int64), clicks.sum(axis=0).astype(np.int64)
    return Curve(np.exp(logs), np.exp(logs - radius), np.exp(logs + radius), *totals)


def _tables(source: LogSource, periods: int) -> tuple[Floats, Floats]:
    """Count how often each item, in each period, was shown and clicked at each position."""
    scope, before = source.scope, 0
    shape = (len(scope.names) * periods, scope.k)
    shown, clicks = np.zeros(shape), np.zeros(shape)
    for log in source.parts():
        seen = log.seen
        period = (log.owner[seen] + before) * periods // scope.decisions
        cells = (log.item[seen] * periods + period) * scope.k + log.position[seen]
        clicked = np.nan_to_num(log.feedback[seen], nan=log.min_feedback) > log.min_feedback
        for table, counted in ((shown, cells), (clicks, cells[clicked])):
            np.add.at(table.reshape(-1), counted, 1.0)
        before += len(log.k)
    informative = ((shown > 0).sum(axis=1) > 1) & (clicks.sum(axis=1) > 0)
    return shown[informative], clicks[informative]


def _check_connected(shown: Floats, clicks: Floats) -> None:
    """Check that positions share items, and that the maximum exists. Raises ValueError if not.

    It exists if and only if, for every division of the positions into two parts, an item was clicked in the first
    and shown in the second (Ford 1957, for comparisons of pairs). So every position must reach every other one.
    """
    positions = shown.shape[1]
    if positions < 2:
        raise ValueError("the log has only one position, so there is nothing to compare")
    for position in np.flatnonzero(clicks.sum(axis=0) == 0):
        times = int(shown[:, position].sum())
        raise ValueError(
            f"position {position + 1} has no click on an item that was also shown elsewhere, in {times:,} "
            "impressions; use a longer log or a smaller k"
        )
    reached, before = np.arange(positions) == 0, -1
    while reached.sum() > before:
        before = int(reached.sum())
        reached |= (shown[(shown[:, reached] > 0).any(axis=1)] > 0).any(axis=0)
    if not reached.all():
        raise ValueError(
            f"position {np.argmin(reached) + 1} shares no item with position 1, so the bias cannot be estimated. "
            "Use a learner that shows the same items at different positions, such as `uniform` or `greedy`"
        )
    reaches = np.eye(positions) + (clicks > 0).T.astype(np.float64) @ (shown > 0) > 0
    for _ in range(positions.bit_length()):
        reaches = reaches @ reaches
    for one, other in np.argwhere(~reaches):
        raise ValueError(
            f"there are too few clicks to compare position {one + 1} with position {other + 1}; use a longer log "
            "or a smaller k"
        )


def _shares(shown: Floats, logs: Floats) -> Floats:
    """Return the probability that a click on an item was at position p, given a click."""
    weights = shown * np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _information(clicks: Floats, shares: Floats) -> Floats:
    """Return the Hessian of the negative log-likelihood, without the first position, which is fixed."""
    totals = clicks.sum(axis=1)
    whole = np.diag(totals @ shares) - (shares * totals[:, None]).T @ shares
    return np.asarray(whole[1:, 1:])


def _likelihood(shown: Floats, clicks: Floats, logs: Floats) -> float:
    return float((clicks.sum(axis=0) * logs).sum() - clicks.sum(axis=1) @ np.log(shown @ np.exp(logs)))


def _fitted(shown: Floats, clicks: Floats) -> Floats:
    """Return the logarithms of examination, by Newton's method with step halving on a concave function."""
    logs: Floats = np.zeros(shown.shape[1])
    for _ in range(_MAX_STEPS):
        shares = _shares(shown, logs)
        slope = clicks.sum(axis=0) - clicks.sum(axis=1) @ shares
        step = np.append(0.0, np.linalg.solve(_information(clicks, shares), slope[1:]))
        before = _likelihood(shown, clicks, logs)
        while _likelihood(shown, clicks, logs + step) < before - abs(before) * 1e-14:
            step = step / 2
        logs = logs + step
        if np.abs(step).max() < _CLOSE:
            return logs
    raise ValueError("the examination curve cannot be fitted, because there are too few clicks")
