"""Bounds on the values of policies from a log without propensities.

Without propensities, it is unknown how often an item would have been seen, so no estimate of another order is
unbiased. What was seen is still known, and what was not seen has a gain within the declared range. So each
decision has a smallest and a largest possible value, whatever the logger did (Manski bounds). Their means bound
the value on the decisions of the log, and a confidence sequence of each bounds the value in general.

References
----------
Manski (1990), Nonparametric bounds on treatment effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_open_unit
from peekrank.evaluation.policies import LOGGED, Ranker
from peekrank.evaluation.problems import make_problems
from peekrank.evaluation.sources import LogSource
from peekrank.evaluation.value_bounds import bound_means
from peekrank.kernels.confidence import Interval, lower_mean, observe_tightly
from peekrank.measures import PairwiseLoss
from peekrank.types import Floats, Measure


class Bounds(NamedTuple):
    """Bounds on the mean value of a policy, or on the difference of two.

    `log` is certain, and is about the decisions of the log. `anytime` is about the mean value that was to be
    expected of them, and holds after every decision with probability 1 - alpha. `stationary` likewise, if the
    relevance of an item is the same in every decision, whether it is shown or not; None if it was not computed.
    """

    name: str
    baseline: str  # the policy that is subtracted; "" for a single policy
    log: tuple[float, float]
    anytime: tuple[float, float]
    stationary: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Whether the value is ``higher`` or ``lower`` than the baseline's, by `anytime`, or ``undecided``."""
        return "higher" if self.anytime[0] > 0 else "lower" if self.anytime[1] < 0 else "undecided"


class BoundedEvaluation(NamedTuple):
    """Bounds for all policies and for the difference of each pair, which share alpha."""

    measure: Measure
    alpha: float
    decisions: int
    seen: float  # share of the candidates with an answer
    values: list[Bounds]
    differences: list[Bounds]

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON has them."""
        values, differences = (
            [one._asdict() | ({"verdict": one.verdict} if one.baseline else {}) for one in part]
            for part in (self.values, self.differences)
        )
        return self._asdict() | {"measure": str(self.measure), "values": values, "differences": differences}


@kernel
def _observe(interval: Interval, lows: Floats, highs: Floats, scale: float, limits: tuple[float, float]) -> None:
    """Add the smallest and largest possible values of some decisions."""
    for t in range(len(lows)):
        observe_tightly(interval.below, lows[t] / scale, limits[0] / scale)
        observe_tightly(interval.above, -highs[t] / scale, -limits[1] / scale)


class _Track:
    """The sums of a policy, or of a difference of two."""

    def __init__(self, one: int, other: int | None, items: int, alpha: float) -> None:
        self.one, self.other, self.alpha = one, other, alpha
        self.interval = Interval.fresh(1.0)
        self.lows = self.highs = self.shift = 0.0
        self.weights = np.zeros(items)  # of each item, added over decisions


def bound_source(
    source: LogSource,
    rankers: Sequence[Ranker],
    measure: Measure,
    *,
    alpha: float = 0.05,
    progress: Callable[[int], None] = lambda _: None,
) -> BoundedEvaluation:
    """Bound the value of policies on a log, without propensities and without any assumption about the logger.

    All decisions count: a missing answer may be anything in the declared range.

    Parameters
    ----------
    source
        A log.
    rankers
        The policies.
    measure
        A sum over items of discount(rank) x gain(relevance).
    alpha
        Error probability of the interval of a policy, and of those of all differences together.
    progress
        Called with the number of further decisions done.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.log import log_from_records
    >>> from peekrank.evaluation.policies import ranker
    >>> from peekrank.evaluation.sources import MemorySource
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "feedback": [None, 1]}
    >>> source = MemorySource("log", log_from_records([record]))
    >>> order = ranker("order:b,a", source.scope, measure=DCG(1))
    >>> bound_source(source, [order], DCG(1)).values[0].log
    (1.0, 1.0)
    """
    check_open_unit("alpha", alpha)
    if isinstance(measure, PairwiseLoss):
        raise ValueError(f"{measure} cannot be bounded without propensities: use a sum over items, such as dcg")
    scope = source.scope
    problems = make_problems(measure, scope)
    pairs = list(combinations(range(len(rankers)), 2))
    share = alpha / max(len(pairs), 1)
    tracks = [
        _Track(one, other, len(scope.names), alpha if other is None else share)
        for one, other in [*((one, None) for one in range(len(rankers))), *pairs]
    ]
    sums, counts = np.zeros(len(scope.names)), np.zeros(len(scope.names))
    span, rows_seen, rows, decisions = 0.0, 0, 0, 0
    for log in source.parts():
        part = problems.part(log)
        if part.rows is None:
            raise ValueError(f"{measure} cannot be bounded without propensities")
        gain, span = part.rows.gain, part.rows.span
        known = ~np.isnan(gain)
        sums += np.bincount(log.item[known], gain[known], len(sums))
        counts += np.bincount(log.item[known], minlength=len(counts))
        rows_seen, rows, decisions = rows_seen + int(known.sum()), rows + len(gain), decisions + len(log.k)
        ranks = [log.position if (r := one.ranks(log)) is None else r for one in rankers]
        for track in tracks:
            is_difference = track.other is not None
            other = None if track.other is None else ranks[track.other]
            _, target, shift = part.problem(ranks[track.one], other, is_difference=is_difference)
            w, limits = target.weights, problems.limits(is_difference=is_difference)
            lows, highs = (
                np.add.reduceat(np.where(known, w * gain, end(w, 0) * span), log.offsets[:-1])
                for end in (np.minimum, np.maximum)
            )
            _observe(track.interval, lows, highs, max(limits[1], 1e-300), (limits[0], limits[1]))
            track.lows, track.highs = track.lows + float(lows.sum()), track.highs + float(highs.sum())
            track.shift += float(shift.sum())
            track.weights += np.bincount(log.item, w, len(track.weights))
        progress(len(log.k))
    for one in rankers:
        one.note()  # raises ValueError if the log was unsuitable
    items = bound_means(sums, counts, span, alpha)
    found = [_bounds(track, [one.name for one in rankers], problems, decisions, items) for track in tracks]
    n = len(rankers)
    return BoundedEvaluation(measure, alpha, decisions, rows_seen / max(rows, 1), found[:n], found[n:])


def _bounds(
    track: _Track, names: list[str], problems: Any, decisions: int, items: tuple[Floats, Floats]
) -> Bounds:
    limits = problems.limits(is_difference=track.other is not None)
    shift, scale = track.shift / decisions, max(limits[1], 1e-300)
    low = scale * lower_mean(track.interval.below, track.alpha / 2)
    high = -scale * lower_mean(track.interval.above, track.alpha / 2)
    anytime = max(float(low), limits[0]) + shift, min(float(high), limits[1]) + shift
    weights = track.weights / decisions
    stationary = tuple(
        float(np.sum(np.where(weights > 0, weights * first, weights * second))) + shift
        for first, second in (items, items[::-1])
    )
    other = "" if track.other is None else names[track.other]
    logged = LOGGED in (names[track.one], other)  # its ranks may depend on relevance
    return Bounds(
        names[track.one], other, (track.lows / decisions + shift, track.highs / decisions + shift), anytime,
        None if logged else (stationary[0], stationary[1]),
    )  # fmt: skip
