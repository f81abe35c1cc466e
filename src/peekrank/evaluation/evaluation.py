"""The value of policies on a log, and of their differences: estimates, intervals, and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from peekrank._util.text import counted, excerpt
from peekrank._util.validate import ascending, choice, fraction
from peekrank.evidence import estimates as est
from peekrank.evidence.estimable import by_items, gains_of, refuse
from peekrank.evidence.estimates import Rows, Target
from peekrank.evidence.log import Log
from peekrank.evidence.pairs import fill_pairs, pair_chances
from peekrank.evidence.policies import Policy
from peekrank.kernels.confidence import Interval, bet_bound, fill_bets
from peekrank.measures import PairwiseLoss
from peekrank.regret import checkpoints
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Regression = Literal["items", "features", "none"]
_LOOKS = 64


class Estimate(NamedTuple):
    """What is known of a policy's mean value per decision, or of the difference of two.

    Intervals at 1 - alpha: `usual` may be looked at once, at a number of decisions chosen beforehand; `anytime`
    after every decision, whatever the policies do; `betting` after every decision, if the value stays the same.
    """

    name: str
    minus: str  # the other policy of a difference; "" for a policy by itself
    decisions: int
    ips: float
    self_normalised: float | None  # None for a difference
    doubly_robust: float
    error: float  # standard error of the doubly robust estimate
    ips_error: float
    usual: tuple[float, float]
    anytime: tuple[float, float]
    betting: tuple[float, float]
    effective: float  # sample size
    largest: float  # weight
    cut: float  # bias that cutting off weights may have caused, at most
    missing: float  # how far off it may be since candidates could not be seen, at most; in all intervals
    unsupported: tuple[tuple[str, int], ...]  # these candidates, with the number of decisions, the worst first
    looks: Ints  # numbers of decisions
    means: Floats  # doubly robust estimates after these
    lows: Floats  # ends of `anytime` after these
    highs: Floats

    @property
    def verdict(self) -> str:
        """What a difference says, whenever one looks: the value is higher, lower, or this is undecided."""
        low, high = self.anytime
        return "higher" if low > 0 else "lower" if high < 0 else "undecided"

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        plain = {name: _plain(value) for name, value in self._asdict().items()}
        return plain | ({"verdict": self.verdict} if self.minus else {})


class Evaluation(NamedTuple):
    """Estimates of all policies, and of the differences of each two."""

    measure: Measure
    alpha: float
    regression: str
    clip: float
    decisions: int
    answered: int
    estimates: list[Estimate]
    differences: list[Estimate]

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        parts = {name: [e.as_json() for e in getattr(self, name)] for name in ("estimates", "differences")}
        clip = None if np.isinf(self.clip) else self.clip
        return {**self._asdict(), "measure": str(self.measure), "clip": clip, **parts}


def evaluate_log(
    log: Log,
    policies: Sequence[Policy],
    measure: Measure,
    *,
    alpha: float = 0.05,
    regression: Regression = "items",
    clip: float = np.inf,
    looks: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """The value of policies on a log, with intervals.

    Only decisions whose seen candidates were all answered count.

    Parameters
    ----------
    log
        What was logged, with chances.
    policies
        How each policy would have ranked.
    measure
        What a ranking is worth: a sum over items of discount(rank) x gain(relevance), or pairwiseloss.
    alpha
        Probability of an error, of each interval.
    regression
        What the doubly robust estimate predicts gains by, from earlier decisions only: the mean of each
        candidate's answers, ridge regression on features, or nothing.
    clip
        What weights 1/chance are cut off at; intervals at all times never are.
    looks
        After which numbers of decisions intervals are told, ascending, the last one included; None: 64 or so.
    progress
        Called with 1 for each policy or difference done.

    >>> from peekrank import DCG
    >>> from peekrank.evidence.log import log_of
    >>> from peekrank.evidence.policies import fixed_order
    >>> shown = {"k": 1, "candidates": ["a", "b"], "chance": [0.5, 0.5]}
    >>> first = {**shown, "event": "1", "place": [0, 1], "answer": [1, None]}
    >>> second = {**shown, "event": "2", "place": [1, 0], "answer": [None, 0]}
    >>> log = log_of([first, second])
    >>> found = evaluate_log(log, [fixed_order(log, ["a", "b"])], DCG())
    >>> found.estimates[0].ips  # (1/0.5 + 0)/2
    1.0
    """
    fraction("alpha", alpha)
    choice("regression", regression, Regression)
    if not clip >= 1:
        raise ValueError(f"clip = {clip}: must be 1 at least, since weights are 1 over a probability")
    check_evaluable(log)
    complete = np.logical_and.reduceat(~log.seen | ~np.isnan(log.answer), log.offsets[:-1])
    if not complete.any():
        raise ValueError("no decision of the log has answers about all that was seen: nothing can be estimated")
    used, ranked = log, list(policies)
    if not complete.all():
        used, kept = log.select(complete), complete[log.owner]
        ranked = [p if p.ranks is None else p._replace(ranks=p.ranks[kept]) for p in policies]
    make = _Pairs(used, measure) if isinstance(measure, PairwiseLoss) else _Items(used, measure)
    at = checkpoints(len(used.k), _LOOKS) if looks is None else ascending("looks", looks, len(used.k))
    work = _Work(make, used, alpha, regression, float(clip), at)
    found = Evaluation(measure, alpha, regression, float(clip), len(log.k), len(used.k), [], [])
    for policy in ranked:
        found.estimates.append(work.estimate(policy, None))
        progress(1)
    for one, other in combinations(ranked, 2):
        found.differences.append(work.estimate(one, other))
        progress(1)
    return found


def check_evaluable(log: Log) -> None:
    """Raise a ValueError if there are decisions without chances, with the reason that the log gives."""
    unknown = np.isnan(log.chance[log.offsets[:-1]])
    if unknown.any():
        event = int(np.argmax(unknown))
        who, why = log.learners[int(log.learner[event])], log.reasons[int(log.learner[event])]
        raise ValueError(
            f"{counted(int(unknown.sum()), 'decision')} of the log cannot be evaluated, event "
            f"'{excerpt(log.events[event])}' by '{excerpt(who)}' first: {why or 'no chances were logged'}"
        )


class Problem(NamedTuple):
    """Rows and target of an estimate, what a decision's value is more than the target's, and features of rows."""

    rows: Rows
    target: Target
    shift: Floats
    features: Any
    scale: float  # about what a value can be
    least: float  # what no value of the target is below, and none above
    most: float


class _Items:
    """Problems of measures that are sums over items."""

    def __init__(self, log: Log, measure: Measure) -> None:
        if not by_items(measure, log.highest):
            refuse(measure, log)
        self.log, self.measure = log, cast("LinearMeasure", measure)
        gain, self.low, self.high = gains_of(self.measure, log)
        self.rows = Rows(
            log.offsets, log.chance, gain - self.low, log.item, log.k, self.high - self.low, -self.low
        )
        sizes, which = np.unique(log.lengths, return_inverse=True)
        discounts = [self.measure.discount(int(n)) for n in sizes]
        self.totals = np.array([discount.sum() for discount in discounts])[which]
        self._flat, self._first = np.concatenate(discounts), np.append(0, np.cumsum(sizes))[which]

    def weights(self, ranks: Ints) -> Floats:
        weights = np.empty(len(ranks))
        est.fill_weights(self.log.offsets, self._flat, self._first, ranks, weights)
        return weights

    def problem(self, one: Policy, other: Policy | None) -> Problem:
        target, shift = self._target(one), self.low * self.totals
        if other is not None:
            target, shift = target.minus(self._target(other)), np.zeros(len(shift))
        most = float(self.rows.span * self.totals.max())
        scale = self.rows.span * float(self.totals[0])
        ends = (0.0, most) if other is None else (-most, most)
        return Problem(self.rows, target, shift, self.log.features, scale, *ends)

    def _target(self, policy: Policy) -> Target:
        none = np.zeros(len(self.log.k))
        if policy.ranks is not None:
            return Target(self.weights(policy.ranks), none, none, none, none)
        weights = self.weights(self.log.place)  # what was shown was seen, or cannot be known
        seen = np.where(np.isnan(self.rows.gain), 0, weights * self.rows.gain)
        unseen = np.where(np.isnan(self.rows.gain), weights, 0) * self.rows.span
        known, spare = (np.add.reduceat(part, self.log.offsets[:-1]) for part in (seen, unseen))
        return Target(np.zeros(len(weights)), known, spare, none, self.rows.span * self.totals)


class _Pairs:
    """Problems of the pairwise loss, a sum over pairs."""

    def __init__(self, log: Log, measure: Measure) -> None:  # noqa: ARG002
        self.log = log
        lengths = log.lengths
        sizes = lengths * (lengths - 1) // 2
        if (sizes == 0).any():
            raise ValueError("pairwiseloss: there are decisions with one candidate, which have no pairs")
        self.offsets = np.append(0, np.cumsum(sizes))
        self.chance, self.seen = pair_chances(log), log.k * (log.k - 1) // 2

    def problem(self, one: Policy, other: Policy | None) -> Problem:
        signs, first = self._pairs(one)
        none, pairs = np.zeros(len(self.log.k)), np.diff(self.offsets).astype(np.float64)
        if other is None:  # the gain of a pair is 1 if it is in the wrong order
            gain, weights, span = np.where(np.isnan(signs), np.nan, first * signs > 0), np.ones(len(signs)), 1.0
            subject, shift = self._subjects(first), none
        else:  # or else its sign plus 1, and the weight tells who has it the other way round
            gain, weights, span = signs + 1, (first - self._pairs(other)[1]) / 2, 2.0
            subject, shift = self._subjects(np.ones(len(signs))), -np.add.reduceat(weights, self.offsets[:-1])
        rows = Rows(self.offsets, self.chance, gain, subject, self.seen, span, span - 1)
        most = float(pairs.max())
        ends = (0.0, most) if other is None else (-2 * most, 2 * most)
        return Problem(rows, Target(weights, none, none, none, none), shift, None, float(pairs[0]), *ends)

    def _pairs(self, policy: Policy) -> tuple[Floats, Floats]:
        if policy.ranks is None:
            raise ValueError("pairwiseloss of the logging policy itself cannot be estimated: pairs are not seen")
        signs, above = np.empty(self.offsets[-1]), np.empty(self.offsets[-1])
        fill_pairs(self.log.offsets, self.log.answer, policy.ranks, signs, above)
        return signs, above

    def _subjects(self, above: Floats) -> Ints:
        """A number for each pair of items, in the order in which a policy has them."""
        m = len(self.log.names)
        ones, others = _pair_rows(self.log.offsets, self.log.lengths)
        a, b = self.log.item[ones], self.log.item[others]
        first, second = np.where(above > 0, a, b), np.where(above > 0, b, a)
        return np.asarray(np.unique(first * m + second, return_inverse=True)[1])


def _pair_rows(offsets: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """The two rows of each pair, decision by decision."""
    found = {int(n): np.triu_indices(int(n), 1) for n in np.unique(lengths)}
    ones = [found[n][0] + first for n, first in zip(lengths.tolist(), offsets[:-1].tolist(), strict=True)]
    others = [found[n][1] + first for n, first in zip(lengths.tolist(), offsets[:-1].tolist(), strict=True)]
    return np.concatenate(ones), np.concatenate(others)


class _Work(NamedTuple):
    """What all estimates share."""

    make: _Items | _Pairs
    log: Log
    alpha: float
    regression: str
    clip: float
    looks: Ints

    def estimate(self, one: Policy, other: Policy | None) -> Estimate:
        problem = self.make.problem(one, other)
        rows, target, shift = problem[:3]
        n, predicted = len(rows.seen), self._predicted(problem)
        terms = np.empty((n, est.LARGEST + 1))
        est.fill_terms(rows, target.weights, predicted, self.clip, terms)
        middle = shift + target.known + target.spare / 2
        nothing = rows.origin * np.add.reduceat(target.weights, rows.offsets[:-1])
        ips, dr = terms[:, est.IPS] + nothing + middle, terms[:, est.DR] + middle
        looks = self.looks
        lows, highs, betting = self._anytime(problem, predicted, looks)
        error = _error(dr)
        mean = float(dr.mean())
        missing = float(terms[:, est.MISSING].mean() + target.spare.mean())
        width = _quantile(self.alpha) * error + missing
        weights = terms[:, est.WEIGHT][terms[:, est.TOTAL] > 0] / terms[:, est.TOTAL][terms[:, est.TOTAL] > 0]
        return Estimate(
            one.name, "" if other is None else other.name, n, float(ips.mean()),
            None if other is not None else _self_normalised(terms, nothing + middle), mean, error, _error(ips),
            (mean - width, mean + width), (float(lows[-1]), float(highs[-1])), betting,
            float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else float(n),
            float(terms[:, est.LARGEST].max()), float(terms[:, est.CUT].mean()),
            missing, self._unsupported(problem),
            looks, (np.cumsum(dr) / np.arange(1, n + 1))[looks - 1], lows, highs,
        )  # fmt: skip

    def _predicted(self, problem: Problem) -> Floats:
        rows, out = problem.rows, np.zeros(len(problem.rows.chance))
        if self.regression == "items":
            subjects = int(rows.subject.max()) + 1
            est.fill_means(rows, np.zeros(subjects), np.zeros(subjects), out)
        elif self.regression == "features":
            if problem.features is None:
                raise ValueError("regression = 'features': there are no features in the log, or none of pairs")
            X, d = problem.features, problem.features.shape[1]
            scale = np.sqrt(np.mean(X[: rows.offsets[1]].astype(np.float64) ** 2, axis=0))
            scale = np.where(scale > 0, scale, 1.0)
            est.fill_ridge(rows, X, scale, np.eye(d + 1), np.zeros(d + 1), np.empty(d + 1), np.empty(d + 1), out)
        return out

    def _anytime(self, problem: Problem, predicted: Floats, looks: Ints) -> tuple[Floats, Floats, Any]:
        rows, target, shift = problem[:3]
        n, interval = len(rows.seen), Interval.fresh(problem.scale, growing=True)
        found, tracks, space = np.empty((2, len(looks))), np.empty((4, n)), np.empty((5, 32))
        est.walk(rows, target, predicted, interval, self.alpha, looks, found, tracks, space)
        found = found.clip(problem.least, problem.most)  # few decisions tell less than what is possible at all
        added = (np.cumsum(shift) / np.arange(1, n + 1))[looks - 1]
        below = self._bet(tracks[0], tracks[1], problem.least, problem.most)
        above = self._bet(tracks[2], tracks[3], -problem.most, -problem.least)
        return found[0] + added, found[1] + added, (below + float(added[-1]), float(added[-1]) - above)

    def _bet(self, x: Floats, low: Floats, least: float, most: float) -> float:
        bets = np.empty(len(x))
        fill_bets(x, low, most, self.alpha / 2, bets)
        return float(bet_bound(x, bets, self.alpha / 2, least, most))

    def _unsupported(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """The candidates that matter and could not be seen."""
        if isinstance(self.make, _Pairs):
            return ()
        lost = (problem.target.weights != 0) & (problem.rows.chance == 0)
        codes, counts = np.unique(self.log.item[lost], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:10]
        return tuple((self.log.names[codes[i]], int(counts[i])) for i in order)


def _plain(value: Any) -> Any:
    """A value as JSON has it: null for what is not finite."""
    if isinstance(value, np.ndarray):
        return [_plain(part) for part in value.tolist()]
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _error(terms: Floats) -> float:
    return float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else float("nan")


def _quantile(alpha: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(1 - alpha / 2)


def _self_normalised(terms: Floats, middle: Floats) -> float:
    """IPS divided by the mean of its weights, which is 1 in expectation."""
    weight, total = terms[:, est.WEIGHT].sum(), terms[:, est.TOTAL].mean()
    return float(middle.mean() + (terms[:, est.IPS].sum() / weight * total if weight > 0 else 0.0))
