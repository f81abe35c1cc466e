"""Off-policy evaluation: values of policies on a log and their differences, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from peekrank._util.text import excerpt, pluralize
from peekrank._util.validate import check_ascending, check_choice, check_open_unit
from peekrank.evaluation import estimators as est
from peekrank.evaluation.log import Log, Scope, scope_of_log
from peekrank.evaluation.policies import Policy, Ranker
from peekrank.evaluation.problems import Predictor, Problem, make_problems
from peekrank.kernels.confidence import bet_bound
from peekrank.measures import PairwiseLoss
from peekrank.regret import default_checkpoints
from peekrank.types import Floats, Ints, Measure

if TYPE_CHECKING:
    from peekrank.evaluation.saved_fold import SavedFold
    from peekrank.evaluation.sources import LogSource
    from peekrank.jobs.executor import Executor

Regression = Literal["items", "mean", "features", "none"]
DESIGNED = "comparison:"  # begins the learner in the log of a `Comparison`
CHECKPOINTS = 64  # of an evaluation, about


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
    for the same visitor do not count, because they are not new draws. The log of a `Comparison` gets its
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
    options = Options(alpha, simultaneous, regression, clip, partial)
    log, used = _without_repeats(log, [p.ranks for p in policies])
    check_evaluable(log)
    complete = _complete(log, partial=partial)
    _check_any(bool(complete.any()), partial=partial)
    n = int(complete.sum())
    at = (
        default_checkpoints(n, CHECKPOINTS)
        if checkpoints is None
        else check_ascending("checkpoints", checkpoints, n)
    )
    fold = Fold([p.name for p in policies], measure, scope_of_log(log), options, at)
    fold.add(log, used, progress)
    return fold.result()


def evaluate_source(
    source: LogSource,
    rankers: Sequence[Ranker],
    measure: Measure,
    options: Options | None = None,
    *,
    checkpoints: Ints | None = None,
    saved: SavedFold | None = None,
    executor: Executor | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Estimate the value of policies on a log that is read in parts.

    The memory does not depend on the number of decisions, and the result is that of `evaluate_log`.

    Parameters
    ----------
    source
        A log with propensities.
    rankers
        The policies.
    measure, options
        As for `evaluate_log`.
    checkpoints
        Numbers of decisions at which to report intervals, ascending; the end is always reported. None: about 64.
    saved
        Where the state is saved from time to time, to resume from it.
    executor
        Reads parts and ranks their candidates, such as `peekrank.jobs.ray.Ray`; the numbers stay the same. None:
        this thread does.
    progress
        Called with the number of further decisions done.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.log import log_from_records
    >>> from peekrank.evaluation.policies import ranker
    >>> from peekrank.evaluation.sources import MemorySource
    >>> record = {"k": 1, "candidates": ["a", "b"], "position": [1, 0], "propensity": [0.5, 0.5]}
    >>> log = log_from_records([{"event": "1", "feedback": [None, 1], **record}])
    >>> source = MemorySource("log", log)
    >>> evaluate_source(source, [ranker("order:b,a", source.scope, measure=DCG())], DCG()).estimates[0].ips
    2.0
    """
    scope = source.scope
    at = default_checkpoints(scope.decisions, CHECKPOINTS) if checkpoints is None else checkpoints
    fold = Fold([one.name for one in rankers], measure, scope, options or Options(), at)
    if saved:
        saved.load(fold, rankers)
        progress(fold.read)

    def add(log: Log, ranks: list[Ints | None]) -> None:
        fold.add(log, ranks)
        progress(len(log.k))
        if saved:
            saved.save(fold, rankers)

    if executor is None:
        for log in source.parts(fold.read):
            add(log, [one.ranks(log) for one in rankers])
    else:
        from peekrank.evaluation.spread import add_parts

        needs_features = fold.options.regression == "features"
        add_parts(source, rankers, executor, fold.read, add, features=needs_features)
    for one in rankers:
        one.note()  # raises ValueError if the log was unsuitable
    result = fold.result()
    if saved:
        saved.remove()
    return result


class Options(NamedTuple):
    """Options of an evaluation; `evaluate_log` describes them."""

    alpha: float = 0.05
    simultaneous: bool = True
    regression: Regression = "items"
    clip: float = np.inf
    partial: bool = False

    def check(self) -> None:
        """Raise ValueError if an option is invalid."""
        check_open_unit("alpha", self.alpha)
        check_choice("regression", self.regression, Regression)
        if not self.clip >= 1:
            raise ValueError(f"clip = {self.clip}: must be at least 1, because weights are 1/propensity")


class Fold:
    """Estimates of policies on a log that is passed in parts, in the order of time.

    The memory of a fold depends on the number of candidates and policies, not on that of decisions, and its result
    does not depend on where one part ends and the next begins.

    Parameters
    ----------
    policies
        Names of the policies.
    measure
        As for `evaluate_log`.
    scope
        Properties of the whole log.
    options
        As for `evaluate_log`.
    checkpoints
        Numbers of decisions after which to store intervals, ascending. The end is always stored.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.log import log_from_records
    >>> shown = {"k": 1, "candidates": ["a", "b"], "propensity": [0.5, 0.5]}
    >>> first = {**shown, "event": "1", "position": [0, 1], "feedback": [1, None]}
    >>> second = {**shown, "event": "2", "position": [1, 0], "feedback": [None, 0]}
    >>> log = log_from_records([first, second])
    >>> fold = Fold(["order"], DCG(), scope_of_log(log), Options(), np.array([2]))
    >>> for t in range(2):
    ...     fold.add(log.select(np.arange(2) == t), [np.array([0, 1])])
    >>> fold.result().estimates[0].ips
    1.0
    """

    def __init__(
        self, policies: Sequence[str], measure: Measure, scope: Scope, options: Options, checkpoints: Ints
    ) -> None:
        options.check()
        if options.partial and isinstance(measure, PairwiseLoss):
            raise ValueError("partial: pairwiseloss needs feedback on all candidates seen")
        self.policies, self.measure, self.scope, self.options = list(policies), measure, scope, options
        self.checkpoints = checkpoints
        self._problems = make_problems(measure, scope)
        pairs = list(combinations(range(len(self.policies)), 2))
        alpha = options.alpha / len(pairs) if options.simultaneous and pairs else options.alpha
        by_items = not isinstance(measure, PairwiseLoss)
        subjects = len(scope.names) if by_items else 0
        shared = Predictor(options.regression, subjects) if by_items else None
        self._tracks = [
            _Track(
                one, other, options.alpha if other is None else alpha, shared or Predictor(options.regression, 0),
                np.full((est.STORED, len(checkpoints) + 1), np.nan), np.zeros(subjects, np.int64),
            )
            for one, other in [*((one, None) for one in range(len(self.policies))), *pairs]
        ]  # fmt: skip
        self.read = self.decisions = self.answered = 0  # without repeats, and of these, those that count
        self._designed = True

    def add(
        self, log: Log, ranks: Sequence[Ints | None], progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Add the next decisions.

        Parameters
        ----------
        log
            The decisions, whose candidates are numbered as in the scope.
        ranks
            For each policy, the rank of each row; None: the logging policy.
        progress
            Called with 1 after each policy or difference.
        """
        self.read += len(log.k)
        log, ranks = _without_repeats(log, ranks)
        if not len(log.k):
            return
        check_evaluable(log)
        self.decisions += len(log.k)
        self._designed &= all(name.startswith(DESIGNED) for name in log.learners)
        log, ranks = _used(log, ranks, partial=self.options.partial)
        if not len(log.k):
            return
        self.answered += len(log.k)
        part = self._problems.part(log)
        shared = None if part.rows is None else self._tracks[0].predictor.predict(part.rows, log)
        for track in self._tracks:
            one, other = ranks[track.one], None if track.other is None else ranks[track.other]
            problem = part.problem(one, other, is_difference=track.other is not None)
            predicted = track.predictor.predict(problem.rows, log) if shared is None else shared
            if track.running is None:
                limits = self._problems.limits(is_difference=track.other is not None)
                track.running = est.make_running(part.scale, *limits)
            bounded = self._designed and track.other is not None and one is not None and other is not None
            track.add(problem, predicted, self.options.clip, self.checkpoints, bounded=bounded)
            if part.rows is not None:
                lost = (problem.target.weights != 0) & (problem.rows.propensity == 0)
                track.lost += np.bincount(log.item[lost], minlength=len(track.lost))
            progress(1)

    def result(self) -> Evaluation:
        """Return the estimates from all decisions so far."""
        _check_any(self.answered > 0, partial=self.options.partial)
        o = self.options
        result = Evaluation(
            self.measure,
            o.alpha,
            o.simultaneous,
            o.regression,
            float(o.clip),
            self.decisions,
            self.answered,
            [],
            [],
        )
        for track in self._tracks:
            (result.estimates if track.other is None else result.differences).append(self._estimate(track))
        return result

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state after the decisions so far: arrays by name."""
        state = {"counts": np.array([self.read, self.decisions, self.answered, self._designed])}
        for i, track in enumerate(self._tracks):
            state |= {f"{i}.stored": track.stored, f"{i}.lost": track.lost}
            if track.running is not None:
                state |= _flat(f"{i}.running", track.running)
            if i == 0 or track.predictor is not self._tracks[0].predictor:
                state |= {f"{i}.{name}": part for name, part in track.predictor.arrays().items()}
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of an equal fold. Raises ValueError if the state is not of an equal one."""
        expected = self.state()
        read, decisions, answered, designed = (int(n) for n in state["counts"])
        if not 0 <= answered <= decisions <= read <= self.scope.decisions:
            raise ValueError("its numbers of decisions are impossible")
        if answered:
            for i, track in enumerate(self._tracks):
                limits = self._problems.limits(is_difference=track.other is not None)
                track.running = est.make_running(1.0, *limits)
                expected |= _flat(f"{i}.running", track.running)
        if set(state) != set(expected):
            raise ValueError("the state is of another evaluation")
        for i, track in enumerate(self._tracks):
            if f"{i}.sums" in state:
                prefix = f"{i}."
                track.predictor.restore({name: state[prefix + name] for name in track.predictor.arrays()})
        for name, part in self.state().items():
            if part.shape != state[name].shape or part.dtype != state[name].dtype:
                raise ValueError("the state is of another evaluation")
            part[...] = state[name]
        self.read, self.decisions, self.answered, self._designed = read, decisions, answered, bool(designed)

    def _estimate(self, track: _Track) -> Estimate:
        running, n, is_difference = cast("est.Running", track.running), self.answered, track.other is not None
        sums = running.sums
        at = np.append(self.checkpoints[self.checkpoints < n], n)
        stored = track.stored[:, : len(at)].copy()
        est.store(running, track.alpha, stored[:, -1])
        bounded = running.bounded.below.observed[0] == n and self._designed
        rows = (est.BOUNDED_LOW, est.BOUNDED_HIGH) if bounded else (est.LOW, est.HIGH)
        limits = self._problems.limits(is_difference=is_difference)
        lows, highs = (stored[row].clip(*limits) + stored[est.SHIFT] for row in rows)  # tighter at the start
        shift, missing = float(stored[est.SHIFT, -1]), float(sums[est.SUM_MISSING] / n)
        mean, error = float(sums[est.DR_MEAN]), _error(sums[est.DR_SQUARES], n)
        width = _quantile(track.alpha) * error + missing
        ratio, squares = sums[est.SUM_RATIO], sums[est.SUM_RATIO_SQUARES]
        below, above = (bet_bound(bets, track.alpha / 2) for bets in (running.below, running.above))
        return Estimate(
            self.policies[track.one], "" if track.other is None else self.policies[track.other], track.alpha, n,
            float(sums[est.IPS_MEAN]), None if is_difference else _self_normalised(sums), mean, error,
            _error(sums[est.IPS_SQUARES], n), (mean - width, mean + width), (float(lows[-1]), float(highs[-1])),
            (below + shift, shift - above), float(ratio**2 / squares) if squares > 0 else float(n),
            float(sums[est.MAX_WEIGHT]), float(sums[est.SUM_CUT] / n), missing, self._unsupported(track),
            at, stored[est.MEAN], lows, highs,
        )  # fmt: skip

    def _unsupported(self, track: _Track) -> tuple[tuple[str, int], ...]:
        """Return the candidates with a weight and propensity 0."""
        codes = np.flatnonzero(track.lost)
        order = np.argsort(-track.lost[codes], kind="stable")[:10]
        return tuple((self.scope.names[codes[i]], int(track.lost[codes[i]])) for i in order)


@dataclass
class _Track:
    """State of an estimate of a policy, or of a difference of two."""

    one: int
    other: int | None
    alpha: float
    predictor: Predictor
    stored: Floats  # a column for each checkpoint
    lost: Ints  # number of decisions in which each candidate had a weight, but propensity 0
    running: est.Running | None = None

    def add(self, problem: Problem, predicted: Floats, clip: float, checkpoints: Ints, *, bounded: bool) -> None:
        """Add decisions."""
        rows, target, shift = problem
        terms = np.empty((len(rows.seen), est.LARGEST + 1))
        est.fill_terms(rows, target.weights, predicted, clip, terms)
        running = cast("est.Running", self.running)
        given = (rows, target, shift, predicted, terms, running, self.alpha, bounded)
        est.walk(*given, checkpoints, self.stored, np.empty((5, 32)))


def _flat(name: str, value: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of nested named tuples, by name."""
    if isinstance(value, np.ndarray):
        return {name: value}
    parts = [_flat(f"{name}.{field}", getattr(value, field)) for field in value._fields]
    return {key: array for part in parts for key, array in part.items()}


def _without_repeats(log: Log, ranks: Sequence[Ints | None]) -> tuple[Log, list[Ints | None]]:
    """Leave out lists that repeat an earlier one for the same visitor: they count with that one."""
    kept, used = ~log.repeats, list(ranks)
    if kept.all():
        return log, used
    rows = kept[log.owner]
    return log.select(kept), [None if r is None else r[rows] for r in used]


def _complete(log: Log, *, partial: bool) -> NDArray[np.bool_]:
    """Return the decisions that count."""
    answered = _answers(log)
    return answered > 0 if partial else answered == log.k


def _answers(log: Log) -> Ints:
    return np.asarray(np.add.reduceat(~np.isnan(log.feedback), log.offsets[:-1], dtype=np.int64))


def _used(log: Log, ranks: Sequence[Ints | None], *, partial: bool) -> tuple[Log, list[Ints | None]]:
    """Return the decisions that count, and the ranks of their rows."""
    complete, used = _complete(log, partial=partial), list(ranks)
    if partial:  # of the candidates seen, each is as likely as the others to have feedback
        answered = np.maximum(_answers(log), 1)
        log = log._replace(k=answered, propensity=log.propensity * (answered / log.k)[log.owner])
    if complete.all():
        return log, used
    rows = complete[log.owner]
    return log.select(complete), [None if r is None else r[rows] for r in used]


def _check_any(any_complete: bool, *, partial: bool) -> None:  # noqa: FBT001
    if not any_complete:
        which = "any candidate" if partial else "all candidates"
        raise ValueError(f"no decision of the log has feedback on {which} seen, so nothing can be estimated")


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


def _plain(value: Any) -> Any:
    """Convert a value for JSON, with null for numbers that are not finite."""
    if isinstance(value, np.ndarray):
        return [_plain(part) for part in value.tolist()]
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _error(squares: float, n: int) -> float:
    return float(np.sqrt(squares / (n - 1) / n)) if n > 1 else float("nan")


def _quantile(alpha: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(1 - alpha / 2)


def _self_normalised(sums: Floats) -> float:
    """Return IPS divided by the mean of its weights, which is 1 in expectation."""
    weight, n = sums[est.SUM_WEIGHT], sums[est.COUNT]
    ratio = sums[est.SUM_IPS] / weight * sums[est.SUM_TOTAL] / n if weight > 0 else 0.0
    return float(sums[est.SUM_MIDDLE] / n + ratio)
