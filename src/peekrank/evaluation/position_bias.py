"""How likely people look at each place, from a log of clicks in which the same items stood at different places."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from peekrank._util.validate import fraction, whole
from peekrank.evidence.log import Log
from peekrank.types import Floats, Ints

_MOST_STEPS = 100
_CLOSE = 1e-10  # a step of Newton's method that changes nothing any more


class Curve(NamedTuple):
    """Examination of each place relative to the first, with intervals."""

    examined: Floats  # the first is 1
    low: Floats
    high: Floats
    shown: Ints  # how often something stood at each place
    clicks: Ints

    def form(self) -> str:
        """The form of feedback that this curve makes of clicks (`peekrank.streams.forms.form`)."""
        return f"click = 1; curve {' '.join(f'{min(1.0, part):.4g}' for part in self.examined)}"


def estimate_curve(log: Log, *, periods: int = 1, level: float = 0.95) -> Curve:
    """Estimate how likely each place is looked at, relative to the first.

    Let a click on item i at place p have probability theta_p r_i. If i stood at p n_ip times, and had c_ip clicks
    there, theta maximises

        sum_i [ sum_p c_ip ln theta_p - c_i ln sum_p n_ip theta_p ],    c_i = sum_p c_ip:

    given its clicks, at which of its places were they? The unknown r_i cancel, so that it does not matter that
    better items stand higher, nor how many items there are; items that always stood at one place tell nothing.
    Intervals are those of the logarithm, from the variance of the clicks.

    Parameters
    ----------
    log
        Answers among the first k above its lowest are clicks; all others among the first k are none.
    periods
        Into how many equal parts the log is cut: the relevance of an item may differ between them, not within.
    level
        Probability that an interval contains what it is for.

    >>> from peekrank.evidence.log import log_of
    >>> clicks = [[1, 0], [0, 1], [1, 1], [1, 0], [1, 0], [0, 1]] * 10  # a is on top every other time
    >>> log = log_of(
    ...     {"event": str(t), "k": 2, "candidates": ["a", "b"], "place": [t % 2, 1 - t % 2], "answer": answer}
    ...     for t, answer in enumerate(clicks)
    ... )
    >>> estimate_curve(log).examined.round(2)
    array([1. , 0.4])

    References
    ----------
    Agarwal et al., Estimating position bias without intrusive interventions, WSDM 2019: the same idea, called
    intervention harvesting.
    """
    whole("periods", periods, 1)
    fraction("level", level)
    shown, clicks = _tables(log, periods)
    _check_connected(shown, clicks)
    logs = _fitted(shown, clicks)
    spread = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.diag(_covariance(shown, clicks, logs)))
    radius = np.append(0.0, spread)
    totals = shown.sum(axis=0).astype(np.int64), clicks.sum(axis=0).astype(np.int64)
    return Curve(np.exp(logs), np.exp(logs - radius), np.exp(logs + radius), *totals)


def _tables(log: Log, periods: int) -> tuple[Floats, Floats]:
    """How often each item, in each period, stood at each place, and was clicked there."""
    seen, most = log.seen, int(log.k.max())
    period = log.owner[seen] * periods // len(log.k)
    groups = log.item[seen] * periods + period
    cells = np.unique(groups, return_inverse=True)[1] * most + log.place[seen]
    size = (int(cells.max()) // most + 1) * most
    shown = np.bincount(cells, minlength=size).reshape(-1, most).astype(np.float64)
    clicked = np.nan_to_num(log.answer[seen], nan=log.lowest) > log.lowest
    clicks = np.bincount(cells[clicked], minlength=size).reshape(-1, most).astype(np.float64)
    informative = ((shown > 0).sum(axis=1) > 1) & (clicks.sum(axis=1) > 0)
    return shown[informative], clicks[informative]


def _check_connected(shown: Floats, clicks: Floats) -> None:
    """Refuse a log in which a place shares no item with the others, or has no click."""
    places = shown.shape[1]
    if places < 2:
        raise ValueError("the log shows one place only: there is nothing to compare it with")
    for place in np.flatnonzero(clicks.sum(axis=0) == 0):
        times = int(shown[:, place].sum())
        raise ValueError(
            f"place {place + 1}: no click on an item that also stood elsewhere, though such items stood there "
            f"{times:,} times; a longer log is needed, or a smaller k"
        )
    reached, before = np.arange(places) == 0, -1
    while reached.sum() > before:
        before = int(reached.sum())
        reached |= (shown[(shown[:, reached] > 0).any(axis=1)] > 0).any(axis=0)
    if not reached.all():
        raise ValueError(
            f"place {np.argmin(reached) + 1} shares no item with place 1: nothing tells places from items. The "
            "learner must show the same items at different places, as `uniform` or `greedy` do"
        )


def _shares(shown: Floats, logs: Floats) -> Floats:
    """P(a click on an item was at place p), given that there was one."""
    weights = shown * np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _information(clicks: Floats, shares: Floats) -> Floats:
    """Second derivatives of minus the likelihood; the first place is fixed, and left out."""
    totals = clicks.sum(axis=1)
    whole = np.diag(totals @ shares) - (shares * totals[:, None]).T @ shares
    return np.asarray(whole[1:, 1:])


def _likelihood(shown: Floats, clicks: Floats, logs: Floats) -> float:
    return float((clicks.sum(axis=0) * logs).sum() - clicks.sum(axis=1) @ np.log(shown @ np.exp(logs)))


def _fitted(shown: Floats, clicks: Floats) -> Floats:
    """Logarithms of the examination: Newton's method on a concave function, with halved steps where one fails."""
    logs: Floats = np.zeros(shown.shape[1])
    for _ in range(_MOST_STEPS):
        shares = _shares(shown, logs)
        slope = clicks.sum(axis=0) - clicks.sum(axis=1) @ shares
        step = np.append(0.0, np.linalg.solve(_information(clicks, shares), slope[1:]))
        before = _likelihood(shown, clicks, logs)
        while _likelihood(shown, clicks, logs + step) < before - abs(before) * 1e-14:
            step = step / 2
        logs = logs + step
        if np.abs(step).max() < _CLOSE:
            return logs
    raise ValueError("the curve of positions cannot be fitted: there are too few clicks")


def _covariance(shown: Floats, clicks: Floats, logs: Floats) -> Floats:
    """Covariance of the logarithms, if clicks are independent of each other."""
    shares, places = _shares(shown, logs), shown.shape[1]
    variances = clicks * (1 - clicks / np.maximum(1, shown))
    meat = np.zeros((places, places))
    for share, variance in zip(shares, variances, strict=True):
        left = np.eye(places) - share[:, None]
        meat += (left * variance) @ left.T
    bread = np.linalg.inv(_information(clicks, shares))
    return np.asarray(bread @ meat[1:, 1:] @ bread)
