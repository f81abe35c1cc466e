"""Holdouts: how much better a learner is than the app's own order, which a share of the lists shows.

A visitor who gets the same order for some time is one cluster: the sum over the visits counts, in the order of
first visits, with all predictions frozen at the first visit. docs/theory/clusters.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from peekrank._jit import kernel
from peekrank._util.text import pluralize
from peekrank.engine.ruled import top_weights
from peekrank.evaluation.comparison.designs import draw_set, fill_difference, fill_union, make_space
from peekrank.evaluation.comparison.verdict import describe_remaining, remaining_lists
from peekrank.evaluation.log import ARMS, Log
from peekrank.evaluation.supported_measures import by_items
from peekrank.kernels.confidence import Interval, interval_of_mean, observe_tightly
from peekrank.types import Floats, Ints, LinearMeasure, Measure

MAX_VISITS = 5  # of a cluster that count
ALPHA = 0.05  # for both intervals together
_MAX_SUBJECTS = 10_000  # items with predictions of their own; further ones share one
_MAX_SORTED = 16  # items seen; beyond that, the sum of all bounds is the bound
_LEAST = 1e-300  # unit of observations that are all 0
# Totals: clusters, visits, visits in the own order; for the estimate and for the plain means: sum, sum of squares,
# sum of products with the number of visits, unit, range; squares of the numbers of visits; sum of values; largest;
# visits in the plain means
CLUSTERS, VISITS, HELD, SUM, SQUARES, PRODUCTS, UNIT, RANGE = range(8)
PLAIN_SUM, PLAIN_UNIT, VISITS_SQUARED, VALUE_SUM, MOST, PLAIN_VISITS = range(8, 14)
TOTALS = 14


class Part(NamedTuple):
    """An estimate with its interval."""

    estimate: float
    low: float
    high: float


class HoldoutVerdict(NamedTuple):
    """Value per list of the learner minus that of the app's own order, of the first k positions.

    Both intervals are valid at every look, and hold together with probability 1 - alpha.
    """

    measure: str
    higher_is_better: bool
    lists: int  # with all answers
    held: int  # of these, in the app's own order, or a mixture with it
    visitors: int  # clusters
    alpha: float
    difference: Part
    two_samples: Part  # from the plain means of both kinds of lists, without those of a mixture
    plain: int  # lists in the plain means
    std_error: float
    remaining: int | None  # lists that are likely to be needed, if the difference is as estimated

    @property
    def better(self) -> Literal["learner", "own", "undecided"]:
        """The better one, or undecided while the interval contains 0."""
        _, low, high = self.difference
        if low <= 0 <= high:
            return "undecided"
        return "learner" if (low > 0) == self.higher_is_better else "own"

    @property
    def agrees(self) -> bool:
        """Whether the two intervals overlap. If not, answers probably depend on the position.

        It is True if they are not about the same lists.
        """
        one, other = self.difference, self.two_samples
        return self.plain < self.lists or (one.low <= other.high and other.low <= one.high)

    def __str__(self) -> str:
        """Return the verdict in words."""
        if not self.lists:
            return "Undecided: no list has answers yet."
        mean, low, high = self.difference
        ends = f"{100 * (1 - self.alpha):g} %: {low:.3g} to {high:.3g}"
        counted = f"after {pluralize(self.lists, 'list')} with answers"
        if self.better == "undecided":
            text = f"Undecided: {self.measure} of the learner minus your order is {mean:.3g} ({ends}) {counted}."
            text += describe_remaining(self.remaining)
        else:
            who = "The learner" if self.better == "learner" else "Your order"
            text = f"{who} is better: {self.measure} differs by {abs(mean):.3g} ({ends}) {counted}."
        if not self.agrees:
            text += " But the plain means contradict this: answers probably depend on the position."
        return text

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON has them."""
        values = self._asdict() | {"better": self.better, "agrees": self.agrees, "verdict": str(self)}
        for name in ("difference", "two_samples"):
            values[name] = {field: _finite(one) for field, one in getattr(self, name)._asdict().items()}
        return values | {"std_error": _finite(self.std_error)}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def mix_orders(expected: Floats, own: Ints, weights: Floats, uniform: float) -> tuple[Ints, Floats]:
    """Draw a mixture of the learner's order and the app's own, and return it with its propensities.

    The first k items come from the first k of both orders, with the propensities of a comparison. They, and
    then the others, are in the learner's order, that of the expected weights, which costs least.

    Parameters
    ----------
    expected
        Expected weight of each item in the learner's lists.
    own
        The app's own order.
    weights
        Weights of the first k positions.
    uniform
        A uniform.
    """
    n, k = len(own), len(weights)
    rank: Ints = np.empty(n, np.int64)
    rank[own] = np.arange(n)
    order = own[np.argsort(-np.abs(expected[own]), kind="stable")]
    ranks, theta = rank[order], (np.arange(n) < k).astype(np.float64)
    exposure, difference, space, drawn = np.empty(n), np.empty(n), make_space(n), np.empty(n, np.int64)
    fill_difference(np.append(weights, np.zeros(n - k)), ranks, difference)
    fill_union(np.abs(difference), ranks, k, 0.0, theta, space, exposure)
    draw_set(exposure, difference, ranks, k, np.array([0.0, uniform]), space, drawn)
    propensities: Floats = np.empty(n)
    propensities[order] = exposure
    return order[drawn], propensities


class Gains(NamedTuple):
    """Gains of grades, minus that of the worst grade."""

    of: Callable[[Floats], Floats]
    span: float  # the largest


def make_gains(measure: LinearMeasure, low: float, high: float, *, whole: bool) -> Gains:
    """Return the gains of a measure: linear ones if grades are not whole, as in `evaluate_log`."""
    if whole and low >= 0:
        ends = measure.gain(np.array([low, high]))
        least = float(ends.min())
        return Gains(lambda grades: measure.gain(grades) - least, float(ends.max()) - least)
    first, second = measure.gain(np.array([0.0, 1.0]))
    slope = float(second - first)
    lowest = min(slope * low, slope * high)
    return Gains(lambda grades: slope * grades - lowest, abs(slope) * (high - low))


@kernel
def observe_cluster(
    difference: Floats,
    propensity: Floats,
    predicted: Floats,
    span: float,
    k: int,
    rows: Ints,
    gains: Floats,
    visits: int,
    totals: Floats,
    interval: Interval,
    space: Floats,
) -> None:
    """Add the sum over the visits of a cluster: doubly robust, with one propensity over both kinds of lists."""
    base = down = up = added = 0.0
    space[:] = 0.0
    some = k <= _MAX_SORTED
    for i in range(len(difference)):
        d, p, m = difference[i], propensity[i], predicted[i]
        if d == 0:
            continue
        base += d * m
        fall, rise = max(d * m, -d * (span - m)) / p, max(d * (span - m), -d * m) / p
        down += fall
        up += rise
        for j in range(k if some else 0):
            if fall > space[0, j]:
                space[0, j], fall = fall, space[0, j]
            if rise > space[1, j]:
                space[1, j], rise = rise, space[1, j]
    if some:
        down = up = 0.0
        for j in range(k):
            down += space[0, j]
            up += space[1, j]
    for j in range(len(rows)):
        i = rows[j]
        if difference[i] != 0:
            added += difference[i] * (gains[j] - predicted[i]) / propensity[i]
    x = visits * base + added
    if totals[UNIT] == 0:
        totals[UNIT] = (down + up) / 2
    unit = max(totals[UNIT], _LEAST)
    observe_tightly(interval.below, x / unit, visits * (base - down) / unit)
    observe_tightly(interval.above, -x / unit, -visits * (base + up) / unit)
    totals[CLUSTERS] += 1
    totals[VISITS] += visits
    totals[VISITS_SQUARED] += visits * visits
    totals[SUM] += x
    totals[SQUARES] += x * x
    totals[PRODUCTS] += x * visits
    totals[RANGE] += visits * (down + up)


@kernel
def observe_plain(
    weights: Floats,
    gains: Floats,
    visits: int,
    span: float,
    share: float,
    held: int,
    totals: Floats,
    interval: Interval,
) -> None:
    """Add the observed values of a cluster to the difference of plain means."""
    k, worst, best, value = len(weights), 0.0, 0.0, 0.0
    for p in range(k):
        worst += min(0.0, weights[p]) * span
        best += max(0.0, weights[p]) * span
    for j in range(len(gains)):
        value += weights[j % k] * gains[j]
    seen = totals[PLAIN_VISITS]
    centre = min(max((totals[VALUE_SUM] + (worst + best) / 2) / (seen + 1), worst), best)
    x = value - visits * centre
    x *= -1 / share if held else 1 / (1 - share)
    low = visits * min((worst - centre) / (1 - share), (centre - best) / share)
    high = visits * max((best - centre) / (1 - share), (centre - worst) / share)
    if totals[PLAIN_UNIT] == 0:
        totals[PLAIN_UNIT] = (high - low) / 2
    unit = max(totals[PLAIN_UNIT], _LEAST)
    observe_tightly(interval.below, x / unit, low / unit)
    observe_tightly(interval.above, -x / unit, -high / unit)
    totals[PLAIN_SUM] += x
    totals[VALUE_SUM] += value
    totals[PLAIN_VISITS] += visits


class HoldoutEvidence:
    """Evidence of a holdout: add clusters in the order of their first visits, once all of their visits are known.

    Parameters
    ----------
    span
        The largest gain.
    """

    def __init__(self, span: float) -> None:
        self.span = span
        self.subjects: dict[str, int] = {}
        self.sums, self.counts = np.zeros(1), np.zeros(1)
        self.overall, self.totals = np.array([span / 2, 1.0]), np.zeros(TOTALS)
        self.difference, self.plain = Interval.fresh(1.0, growing=True), Interval.fresh(1.0, growing=True)
        self._space = np.empty((2, _MAX_SORTED))

    def observe(
        self,
        names: Sequence[str],
        difference: Floats,
        propensity: Floats,
        weights: Floats,
        share: float,
        visits: Sequence[tuple[Ints, Floats]],
        *,
        held: bool,
        mixture: bool = False,
    ) -> None:
        """Add a cluster.

        Parameters
        ----------
        names
            Items: at least those that have a difference or were seen.
        difference
            Expected weight of each in the learner's lists, minus its weight in the app's own order.
        propensity
            Probability of each to be among the first k, over both kinds of lists.
        weights
            Weights of the first k positions.
        share
            Share of the lists that are in the app's own order, or a mixture.
        visits
            For each visit with all answers, the rows of the first k items in the order shown, and their gains.
        held
            Whether the visits are of that share.
        mixture
            Whether the share is of mixtures, so that the plain means of both kinds of lists say nothing.
        """
        visits = visits[:MAX_VISITS]
        if not visits:
            return
        subject = self._subject(names)
        average = min(float(self.overall[0] / self.overall[1]), self.span)
        predicted = np.minimum((self.sums[subject] + average) / (self.counts[subject] + 1), self.span)
        rows, gains = (np.concatenate(parts) for parts in zip(*visits, strict=True))
        observe_cluster(
            difference, propensity, predicted, self.span, len(weights), rows, gains, len(visits), self.totals,
            self.difference, self._space,
        )  # fmt: skip
        if not mixture:
            observe_plain(weights, gains, len(visits), self.span, share, int(held), self.totals, self.plain)
        self.totals[HELD] += len(visits) * held
        self.totals[MOST] = max(self.totals[MOST], float(np.abs(weights).sum()) * self.span)
        np.add.at(self.sums, subject[rows], gains)
        np.add.at(self.counts, subject[rows], 1.0)
        self.overall[0] += gains.sum()
        self.overall[1] += len(gains)

    def _subject(self, names: Sequence[str]) -> Ints:
        """Return the number under which each item's answers count; 0 for all items beyond the limit."""
        known = self.subjects
        for name in names:
            if name not in known and len(known) < _MAX_SUBJECTS:
                known[name] = len(known) + 1
        while len(self.sums) <= len(known):
            self.sums, self.counts = (np.append(one, np.zeros(len(one))) for one in (self.sums, self.counts))
        return np.array([known.get(name, 0) for name in names], np.int64)

    def verdict(self, measure: Measure, alpha: float = ALPHA) -> HoldoutVerdict:
        """Return the result so far. Each of the two intervals gets half of alpha."""
        totals = self.totals.tolist()
        n, clusters = totals[VISITS], totals[CLUSTERS]
        named = (str(measure), measure.higher_is_better)
        if n == 0:
            none = Part(float("nan"), -np.inf, np.inf)
            return HoldoutVerdict(*named, 0, 0, 0, alpha, none, none, 0, float("nan"), None)
        mean = totals[SUM] / n
        spread = max(totals[SQUARES] - 2 * mean * totals[PRODUCTS] + mean**2 * totals[VISITS_SQUARED], 0.0)
        plain = int(totals[PLAIN_VISITS])
        parts = [
            self._part(self.difference, SUM, UNIT, n, alpha / 2),
            self._part(self.plain, PLAIN_SUM, PLAIN_UNIT, plain, alpha / 2),
        ]
        sd, error = float((spread / n) ** 0.5), float(spread**0.5 / n)
        undecided = parts[0].low <= 0 <= parts[0].high
        needed = remaining_lists(int(n), mean, sd, totals[RANGE] / n) if undecided else None
        counted = (int(n), int(totals[HELD]), int(clusters))
        return HoldoutVerdict(*named, *counted, alpha, parts[0], parts[1], plain, error, needed)

    def _part(self, interval: Interval, total: int, unit: int, visits: float, alpha: float) -> Part:
        """Return the mean per visit with its interval, which counts clusters."""
        if not visits:
            return Part(float("nan"), -np.inf, np.inf)
        scale, most = self.totals[unit] * interval.below.observed[0] / visits, self.totals[MOST]
        ends = np.array(interval_of_mean(interval, alpha)) * scale if scale > 0 else np.zeros(2)
        low, high = ends.clip(-most, most).tolist()
        return Part(float(self.totals[total] / visits), low, high)


def holdout_of_log(log: Log, measure: Measure | None = None, alpha: float = ALPHA) -> HoldoutVerdict | None:
    """Return the verdict of the holdout in a log, or None if there is none.

    Parameters
    ----------
    log
        A log, in the order of its decisions.
    measure
        The measure, by whose weights the log has `expected`. None: that of the log's latest learner.
    alpha
        Error probability.
    """
    if log.arms is None or log.share is None or log.own is None or log.expected is None:
        return None
    first, answers = clusters_of(log), log.feedback[~np.isnan(log.feedback)]
    chosen = _measure_of(log) if measure is None else measure
    if not by_items(chosen, log.max_feedback):
        raise ValueError(f"{chosen} is not a sum over positions, so a holdout cannot be analysed")
    goal = cast("LinearMeasure", chosen)
    gains = make_gains(goal, log.min_feedback, log.max_feedback, whole=not np.any(answers % 1))
    complete = np.add.reduceat(~np.isnan(log.feedback), log.offsets[:-1], dtype=np.int64) == log.k
    visits: dict[int, list[int]] = {}
    for t in np.flatnonzero(complete & (first >= 0)).tolist():
        visits.setdefault(int(first[t]), []).append(t)
    evidence = HoldoutEvidence(gains.span)
    for c in np.flatnonzero(log.arms >= 0).tolist():
        if first[c] != c or np.isnan(log.propensity[log.offsets[c]]):
            continue
        rows, k = slice(log.offsets[c], log.offsets[c + 1]), int(log.k[c])
        item, own = log.item[rows], log.own[rows]
        weights = top_weights(goal, len(item), k)
        difference = log.expected[rows] - np.append(weights, 0.0)[np.minimum(own, len(weights))]
        index = {code: row for row, code in enumerate(item.tolist())}
        seen = []
        for t in visits.get(c, ())[:MAX_VISITS]:
            these = slice(log.offsets[t], log.offsets[t + 1])
            top = np.argsort(log.position[these])[: log.k[t]]
            shown = np.array([index[code] for code in log.item[these][top].tolist()], np.int64)
            seen.append((shown, gains.of(log.feedback[these][top])))
        names = [log.names[code] for code in item.tolist()]
        arm, share = ARMS[log.arms[c]], float(log.share[c])
        held, mixture = arm in ("own", "mixed"), arm in ("mixed", "unmixed")
        p = log.propensity[rows]
        if ((p == 0) & (difference != 0)).any():
            raise ValueError(
                f"decision {log.events[c]!r}: an item that the two orders weigh differently has propensity 0"
            )
        evidence.observe(names, difference, p, weights, share, seen, held=held, mixture=mixture)
    return evidence.verdict(chosen, alpha)


def clusters_of(log: Log) -> Ints:
    """Return the decision of the first visit for each decision: itself for most, -1 if it cannot count.

    A repeated list counts if the log has its first one, and if both have the same candidates.
    """
    first: Ints = np.arange(len(log.k))
    if log.clusters is None:
        return first
    known, repeats = {name: t for t, name in enumerate(log.events)}, log.repeats
    for t in np.flatnonzero(repeats).tolist():
        c = known.get(log.clusters[t], t)
        one, other = (log.item[log.offsets[d] : log.offsets[d + 1]] for d in (c, t))
        same = c < t and not repeats[c] and log.k[c] == log.k[t] and np.array_equal(np.sort(one), np.sort(other))
        first[t] = c if same else -1
    return first


def _measure_of(log: Log) -> Measure:
    from peekrank.learners import learner as learner_named
    from peekrank.measures import DCG

    spec = log.learners[int(log.learner[-1])].partition(" @ ")[0]
    try:
        measure: Measure = learner_named(spec).measure or DCG()
    except ValueError as error:
        raise ValueError(f"the measure of the holdout is unknown: {error}") from None
    return measure
