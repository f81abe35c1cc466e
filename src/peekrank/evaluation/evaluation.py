"""Off-policy evaluation: values of policies on a log and their differences, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from peekrank._util.text import excerpt, pluralize
from peekrank._util.validate import check_ascending, check_choice, check_open_unit
from peekrank.evaluation import estimators as est
from peekrank.evaluation.estimators import Rows, Target
from peekrank.evaluation.log import Log
from peekrank.evaluation.pairs import fill_pairs, pair_propensities
from peekrank.evaluation.policies import Policy
from peekrank.evaluation.supported_measures import by_items, gains_of, reject
from peekrank.kernels.confidence import Interval, bet_bound, fill_bets
from peekrank.measures import PairwiseLoss
from peekrank.regret import default_checkpoints
from peekrank.types import Floats, Ints, LinearMeasure, Measure

Regression = Literal["items", "mean", "features", "none"]
DESIGNED = "comparison:"  # begins the learner in the log of a `Comparison`
_CHECKPOINTS = 64


class Estimate(NamedTuple):
    """Estimate of a policy's mean value per decision, or of the difference of two policies.

    Each interval is wrong with probability alpha at most. `fixed_n` is valid once, at a number of decisions chosen
    beforehand. `anytime` is valid after every decision, even if values change. `betting` is valid after every
    decision if the value is stationary.
    """

    name: str
    baseline: str  # the policy that is subtracted; "" for a single policy
    alpha: float
    decisions: int
    ips: float
    snips: float | None  # None for a difference
    dr: float  # doubly robust estimate
    std_error: float  # standard error of `dr`
    ips_std_error: float
    fixed_n: tuple[float, float]
    anytime: tuple[float, float]
    betting: tuple[float, float]
    ess: float  # effective sample size
    max_weight: float  # largest 1/propensity of a candidate that was seen and counts; 0 if no weight was used
    clip_bias: float  # largest bias that clipping may have caused
    support_gap: float  # largest error by candidates with propensity 0; included in all intervals
    unsupported: tuple[tuple[str, int], ...]  # these candidates with their number of decisions, most first
    checkpoints: Ints  # numbers of decisions
    means: Floats  # doubly robust estimates at the checkpoints
    lows: Floats  # ends of `anytime` at the checkpoints
    highs: Floats

    @property
    def verdict(self) -> str:
        """Whether the value is ``higher`` or ``lower`` than the baseline's, by `anytime`, or ``undecided``.

        This is about the value. `peekrank evaluate` prints better or worse instead: a higher loss is worse.
        """
        low, high = self.anytime
        return "higher" if low > 0 else "lower" if high < 0 else "undecided"

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON has them."""
        plain = {name: _plain(value) for name, value in self._asdict().items()}
        return plain | ({"verdict": self.verdict} if self.baseline else {})


class Evaluation(NamedTuple):
    """Estimates of all policies, and of the difference of each pair.

    If `simultaneous`, alpha is divided among the differences, so that their anytime intervals all hold together.
    """

    measure: Measure
    alpha: float
    simultaneous: bool
    regression: str
    clip: float
    decisions: int
    answered: int
    estimates: list[Estimate]
    differences: list[Estimate]

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON has them."""
        parts = {name: [e.as_json() for e in getattr(self, name)] for name in ("estimates", "differences")}
        clip = None if np.isinf(self.clip) else self.clip
        return {**self._asdict(), "measure": str(self.measure), "clip": clip, **parts}


def evaluate_log(
    log: Log,
    policies: Sequence[Policy],
    measure: Measure,
    *,
    alpha: float = 0.05,
    simultaneous: bool = True,
    regression: Regression = "items",
    clip: float = np.inf,
    partial: bool = False,
    checkpoints: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Estimate the value of policies on a log, with confidence intervals.

    Only decisions with feedback on all candidates seen count, unless `partial`. Lists that repeat an earlier one
    for the same visitor do not count, because they were not drawn anew. The log of a `Comparison` gets its
    intervals for differences.

    Parameters
    ----------
    log
        A log with propensities.
    policies
        The policies, with their ranks of each row.
    measure
        A sum over items of discount(rank) x gain(relevance), or pairwiseloss.
    alpha
        Error probability of the interval of a policy, and of those of all differences together.
    simultaneous
        Divide alpha by the number of differences (Bonferroni). False: each difference gets alpha itself, and with
        several of them some interval is wrong more often.
    regression
        How the doubly robust estimate predicts gains, from earlier decisions only: by the mean of each
        candidate, by the mean of all, by ridge regression on features, or not at all.
    clip
        Clip weights 1/propensity at this value. Anytime intervals are never clipped.
    partial
        Count decisions with feedback on at least one candidate. This is right only if feedback goes missing
        independently of its candidate, position and value.
    checkpoints
        Numbers of decisions at which to report intervals, ascending, including the last one; None: about 64.
    progress
        Called with 1 after each policy or difference.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.log import log_from_records
    >>> from peekrank.evaluation.policies import fixed_order
    >>> shown = {"k": 1, "candidates": ["a", "b"], "propensity": [0.5, 0.5]}
    >>> first = {**shown, "event": "1", "position": [0, 1], "feedback": [1, None]}
    >>> second = {**shown, "event": "2", "position": [1, 0], "feedback": [None, 0]}
    >>> log = log_from_records([first, second])
    >>> result = evaluate_log(log, [fixed_order(log, ["a", "b"])], DCG())
    >>> result.estimates[0].ips  # (1/0.5 + 0)/2
    1.0
    """
    check_open_unit("alpha", alpha)
    check_choice("regression", regression, Regression)
    if not clip >= 1:
        raise ValueError(f"clip = {clip}: must be at least 1, because weights are 1/propensity")
    if (repeats := log.repeats).any():
        kept = ~repeats[log.owner]
        policies = [p if p.ranks is None else p._replace(ranks=p.ranks[kept]) for p in policies]
        log = log.select(~repeats)
    check_evaluable(log)
    answered = np.add.reduceat(~np.isnan(log.feedback), log.offsets[:-1], dtype=np.int64)
    complete = answered > 0 if partial else answered == log.k
    if not complete.any():
        which = "any candidate" if partial else "all candidates"
        raise ValueError(f"no decision of the log has feedback on {which} seen, so nothing can be estimated")
    if partial and isinstance(measure, PairwiseLoss):
        raise ValueError("partial: pairwiseloss needs feedback on all candidates seen")
    if partial:  # of the candidates seen, each is as likely as the others to have feedback
        share = np.maximum(answered, 1) / log.k
        log = log._replace(k=np.maximum(answered, 1), propensity=log.propensity * share[log.owner])
    used, ranked = log, list(policies)
    if not complete.all():
        used, rows = log.select(complete), complete[log.owner]
        ranked = [p if p.ranks is None else p._replace(ranks=p.ranks[rows]) for p in policies]
    problems = _Pairs(used, measure) if isinstance(measure, PairwiseLoss) else _Items(used, measure)
    n = len(used.k)
    at = (
        default_checkpoints(n, _CHECKPOINTS)
        if checkpoints is None
        else check_ascending("checkpoints", checkpoints, n)
    )
    estimator = _Estimator(problems, used, alpha, regression, float(clip), at)
    result = Evaluation(measure, alpha, simultaneous, regression, float(clip), len(log.k), len(used.k), [], [])
    for policy in ranked:
        result.estimates.append(estimator.estimate(policy, None))
        progress(1)
    pairs = list(combinations(ranked, 2))
    if simultaneous and pairs:
        estimator = estimator._replace(alpha=alpha / len(pairs))
    for one, other in pairs:
        result.differences.append(estimator.estimate(one, other))
        progress(1)
    return result


def check_evaluable(log: Log) -> None:
    """Check that all decisions have propensities. Raises ValueError with the reason that the log gives."""
    unknown = np.isnan(log.propensity[log.offsets[:-1]])
    if unknown.any():
        event = int(np.argmax(unknown))
        who, why = log.learners[int(log.learner[event])], log.reasons[int(log.learner[event])]
        raise ValueError(
            f"{pluralize(int(unknown.sum()), 'decision')} of the log cannot be evaluated, event "
            f"'{excerpt(log.events[event])}' by '{excerpt(who)}' first: {why or 'no propensities were logged'}"
        )


class Problem(NamedTuple):
    """Rows and estimand, the constant to add to each decision's value, and the features of rows."""

    rows: Rows
    target: Target
    shift: Floats
    features: Any
    scale: float  # typical magnitude of a value
    least: float  # bounds of the value of the target
    most: float


class _Items:
    """Problems of measures that are sums over items."""

    def __init__(self, log: Log, measure: Measure) -> None:
        if not by_items(measure, log.max_feedback):
            reject(measure, log)
        self.log, self.measure = log, cast("LinearMeasure", measure)
        gain, self.low, self.high = gains_of(self.measure, log)
        self.rows = Rows(
            log.offsets, log.propensity, gain - self.low, log.item, log.k, self.high - self.low, -self.low
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
        weights = self.weights(self.log.position)  # the ranking shown: its gains were seen, or are unknown
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
            raise ValueError("pairwiseloss needs at least two candidates in each decision")
        self.offsets = np.append(0, np.cumsum(sizes))
        self.propensity, self.seen = pair_propensities(log), log.k * (log.k - 1) // 2

    def problem(self, one: Policy, other: Policy | None) -> Problem:
        signs, first = self._pairs(one)
        none, pairs = np.zeros(len(self.log.k)), np.diff(self.offsets).astype(np.float64)
        if other is None:  # the gain of a pair is 1 if its order is wrong
            gain, weights, span = np.where(np.isnan(signs), np.nan, first * signs > 0), np.ones(len(signs)), 1.0
            subject, shift = self._subjects(first), none
        else:  # its sign plus 1; the weight says which policy has the wrong order
            gain, weights, span = signs + 1, (first - self._pairs(other)[1]) / 2, 2.0
            subject, shift = self._subjects(np.ones(len(signs))), -np.add.reduceat(weights, self.offsets[:-1])
        rows = Rows(self.offsets, self.propensity, gain, subject, self.seen, span, span - 1)
        most = float(pairs.max())
        ends = (0.0, most) if other is None else (-2 * most, 2 * most)
        return Problem(rows, Target(weights, none, none, none, none), shift, None, float(pairs[0]), *ends)

    def _pairs(self, policy: Policy) -> tuple[Floats, Floats]:
        if policy.ranks is None:
            raise ValueError(
                "pairwiseloss of the logging policy cannot be estimated, because most pairs are not seen"
            )
        signs, above = np.empty(self.offsets[-1]), np.empty(self.offsets[-1])
        fill_pairs(self.log.offsets, self.log.feedback, policy.ranks, signs, above)
        return signs, above

    def _subjects(self, above: Floats) -> Ints:
        """Return a number for each ordered pair of items."""
        m = len(self.log.names)
        ones, others = _pair_rows(self.log.offsets, self.log.lengths)
        a, b = self.log.item[ones], self.log.item[others]
        first, second = np.where(above > 0, a, b), np.where(above > 0, b, a)
        return np.asarray(np.unique(first * m + second, return_inverse=True)[1])


def _pair_rows(offsets: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return the two rows of each pair, decision by decision."""
    indices = {int(n): np.triu_indices(int(n), 1) for n in np.unique(lengths)}
    ones = [indices[n][0] + first for n, first in zip(lengths.tolist(), offsets[:-1].tolist(), strict=True)]
    others = [indices[n][1] + first for n, first in zip(lengths.tolist(), offsets[:-1].tolist(), strict=True)]
    return np.concatenate(ones), np.concatenate(others)


class _Estimator(NamedTuple):
    """Data and options that all estimates share."""

    problems: _Items | _Pairs
    log: Log
    alpha: float
    regression: str
    clip: float
    checkpoints: Ints

    def estimate(self, one: Policy, other: Policy | None) -> Estimate:
        problem = self.problems.problem(one, other)
        rows, target, shift = problem[:3]
        n, predicted = len(rows.seen), self._predicted(problem)
        terms = np.empty((n, est.LARGEST + 1))
        est.fill_terms(rows, target.weights, predicted, self.clip, terms)
        middle = shift + target.known + target.spare / 2
        nothing = rows.origin * np.add.reduceat(target.weights, rows.offsets[:-1])
        ips, dr = terms[:, est.IPS] + nothing + middle, terms[:, est.DR] + middle
        at = self.checkpoints
        designed = all(name.startswith(DESIGNED) for name in self.log.learners)
        bounded = designed and other is not None and one.ranks is not None and other.ranks is not None
        lows, highs, betting = self._anytime(problem, predicted, bounded=bounded)
        error = _error(dr)
        mean = float(dr.mean())
        missing = float(terms[:, est.MISSING].mean() + target.spare.mean())
        width = _quantile(self.alpha) * error + missing
        weights = terms[:, est.WEIGHT][terms[:, est.TOTAL] > 0] / terms[:, est.TOTAL][terms[:, est.TOTAL] > 0]
        return Estimate(
            one.name, "" if other is None else other.name, self.alpha, n, float(ips.mean()),
            None if other is not None else _self_normalised(terms, nothing + middle), mean, error, _error(ips),
            (mean - width, mean + width), (float(lows[-1]), float(highs[-1])), betting,
            float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else float(n),
            float(terms[:, est.LARGEST].max()), float(terms[:, est.CUT].mean()),
            missing, self._unsupported(problem),
            at, (np.cumsum(dr) / np.arange(1, n + 1))[at - 1], lows, highs,
        )  # fmt: skip

    def _predicted(self, problem: Problem) -> Floats:
        rows, out = problem.rows, np.zeros(len(problem.rows.propensity))
        if self.regression in ("items", "mean"):
            if self.regression == "mean":
                rows = rows._replace(subject=np.zeros_like(rows.subject))
            subjects = int(rows.subject.max()) + 1
            overall = np.array([rows.span / 2, 1.0])
            est.fill_means(rows, np.zeros(subjects), np.zeros(subjects), overall, out)
        elif self.regression == "features":
            if problem.features is None:
                raise ValueError(
                    "regression = 'features': the log has no features, or the measure is a sum over pairs"
                )
            X, d = problem.features, problem.features.shape[1]
            scale = np.sqrt(np.mean(X[: rows.offsets[1]].astype(np.float64) ** 2, axis=0))
            scale = np.where(scale > 0, scale, 1.0)
            est.fill_ridge(rows, X, scale, np.eye(d + 1), np.zeros(d + 1), np.empty(d + 1), np.empty(d + 1), out)
        return out

    def _anytime(
        self, problem: Problem, predicted: Floats, *, bounded: bool
    ) -> tuple[Floats, Floats, tuple[float, float]]:
        rows, target, shift = problem[:3]
        n, interval = len(rows.seen), Interval.fresh(problem.scale, growing=True)
        at = self.checkpoints
        ends, tracks, space = np.empty((2, len(at))), np.empty((4, n)), np.empty((5, 32))
        est.walk(rows, target, predicted, interval, self.alpha, at, ends, tracks, space)
        if bounded:
            fresh = Interval.fresh(1.0, growing=True)
            est.walk_bounded(rows, target.weights, predicted, fresh, self.alpha, at, ends, space[:2])
        ends = ends.clip(problem.least, problem.most)  # with few decisions, these bounds are tighter
        added = (np.cumsum(shift) / np.arange(1, n + 1))[at - 1]
        below = self._bet(tracks[0], tracks[1], problem.least, problem.most)
        above = self._bet(tracks[2], tracks[3], -problem.most, -problem.least)
        return ends[0] + added, ends[1] + added, (below + float(added[-1]), float(added[-1]) - above)

    def _bet(self, x: Floats, low: Floats, least: float, most: float) -> float:
        bets = np.empty(len(x))
        fill_bets(x, low, most, self.alpha / 2, bets)
        return float(bet_bound(x, bets, self.alpha / 2, least, most))

    def _unsupported(self, problem: Problem) -> tuple[tuple[str, int], ...]:
        """Return the candidates with a weight and propensity 0."""
        if isinstance(self.problems, _Pairs):
            return ()
        lost = (problem.target.weights != 0) & (problem.rows.propensity == 0)
        codes, counts = np.unique(self.log.item[lost], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:10]
        return tuple((self.log.names[codes[i]], int(counts[i])) for i in order)


def _plain(value: Any) -> Any:
    """Convert a value for JSON, with null for numbers that are not finite."""
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
    """Return IPS divided by the mean of its weights, which is 1 in expectation."""
    weight, total = terms[:, est.WEIGHT].sum(), terms[:, est.TOTAL].mean()
    return float(middle.mean() + (terms[:, est.IPS].sum() / weight * total if weight > 0 else 0.0))
