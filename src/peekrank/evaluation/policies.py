"""Policies to evaluate on a log: how each would have ranked the candidates of every decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from peekrank._jit import kernel, specialise, unspecialised
from peekrank._util.text import excerpt, pluralize
from peekrank._util.untrusted_files import read_text
from peekrank.engine import problem_shape
from peekrank.engine.entry_points import ignore_scores, name_of, set_items_of
from peekrank.evaluation.log import Log, Scope, scope_of_log, single_learner
from peekrank.kernels.sorting import merge_descending
from peekrank.learners import learner as learner_named
from peekrank.registry import LEARNERS
from peekrank.spec import suggest
from peekrank.types import Features, Floats, Ints, Kernels, Learner, Measure, Shape, State

LOGGED, SCORE, FEATURE = "logged", "score", "feature"
_CHUNK = 8192  # decisions per block of random numbers
Progress = Callable[[int], None]


class Policy(NamedTuple):
    """A name and the rank, from 0, of each row of a log; None means the logging policy."""

    name: str
    ranks: Ints | None
    note: str = ""  # a caveat


class Ranker(ABC):
    """A policy that ranks the parts of a log, one after the other."""

    name: str
    needs_order = True  # whether it needs all parts in order

    @abstractmethod
    def ranks(self, log: Log) -> Ints | None:
        """Return the rank, from 0, of each row of the next decisions; None means as shown."""

    def note(self) -> str:
        """Return a caveat after all decisions. Raises ValueError if the log was unsuitable."""
        return ""

    def state(self) -> dict[str, Any] | None:
        """Return the state after the decisions so far, as JSON values; None if it cannot be saved."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        del state


def policy(text: str, log: Log, *, measure: Measure, seed: int = 0, progress: Progress = lambda _: None) -> Policy:
    """Return the policy that a text names: ``logged``, ``order:a,b,c``, a file, a learner or another one below.

    Parameters
    ----------
    text
        ``logged`` is the policy that wrote the log. ``score`` is the app's own order. ``feature:1`` ranks by the
        first feature, the highest first. ``order:`` is a fixed order of candidates by name; others come last. A
        file that ends with ``.txt`` has one name per line. Any other text is the specification of a learner, which
        is replayed over the log.
    log
        The log.
    measure
        Measure of a learner whose specification has none.
    seed
        Random seed of a learner.
    progress
        Called with the number of further decisions done.

    >>> from peekrank import DCG
    >>> from peekrank.evaluation.log import log_from_records
    >>> log = log_from_records([{"event": "1", "k": 1, "candidates": ["a", "b", "c"], "position": [0, 1, 2]}])
    >>> policy("order:c,a", log, measure=DCG()).ranks
    array([1, 2, 0])
    """
    return rank_log(ranker(text, scope_of_log(log), measure=measure, seed=seed, progress=progress), log)


def rank_log(ranker: Ranker, log: Log) -> Policy:
    """Return the policy of a ranker on a log in memory."""
    ranks = ranker.ranks(log)
    return Policy(ranker.name, ranks, ranker.note())


def ranker(
    text: str, scope: Scope, *, measure: Measure, seed: int = 0, progress: Progress = lambda _: None
) -> Ranker:
    """Return the ranker that a text names, as `policy` does.

    Parameters
    ----------
    text, measure, seed, progress
        As for `policy`.
    scope
        Properties of the whole log.
    """
    if text == LOGGED:
        return _Logged()
    if text == SCORE:
        return _LoggedScores()
    if text.startswith(f"{FEATURE}:"):
        return _Feature(text)
    if text.startswith("order:"):
        return _Order(scope.names, text.removeprefix("order:").split(","), text)
    if text.endswith(".txt"):
        try:
            names = read_text(Path(text)).split("\n")
        except UnicodeDecodeError:
            raise ValueError(f"{text} is not UTF-8 text; expected a candidate's name in each line") from None
        return _Order(scope.names, [name.strip() for name in names if name.strip()], Path(text).stem)
    name = text.partition(":")[0]
    if name not in LEARNERS:
        known = (LOGGED, SCORE, FEATURE, "order", *LEARNERS)
        raise ValueError(f"unknown policy '{excerpt(text)}': {suggest(name, known)}; or a model's .json file")
    max_grade = max(1, int(np.ceil(scope.max_feedback)))
    open_fields = {"measure": measure, "horizon": scope.decisions, "max_grade": max_grade}
    return Replay(scope, learner_named(text, **open_fields), name=text, seed=seed, progress=progress)


class _Logged(Ranker):
    """The policy that wrote the log."""

    name = LOGGED

    def __init__(self) -> None:
        self._learner: str | None = None

    def ranks(self, log: Log) -> Ints | None:
        learner = single_learner(log)
        if self._learner not in (None, learner):
            what = f"is '{excerpt(learner)}' after '{excerpt(str(self._learner))}'; the log must have one learner"
            raise ValueError(f"event '{excerpt(log.events[0])}', field 'learner': {what}")
        self._learner = learner
        return None

    def state(self) -> dict[str, Any]:
        return {"learner": self._learner}

    def restore(self, state: dict[str, Any]) -> None:
        self._learner = state["learner"]
        if not isinstance(self._learner, str | None):
            raise ValueError("its learner has no name")


def fixed_order(log: Log, names: Sequence[str], name: str = "order") -> Policy:
    """Rank all candidates by a fixed order; others come last, in the order of the log.

    Parameters
    ----------
    log
        The log.
    names
        Candidates, the best first.
    name
        Name of the policy.
    """
    return rank_log(_Order(log.names, names, name), log)


class _Order(Ranker):
    """A fixed order of all candidates."""

    needs_order = False

    def __init__(self, candidates: Sequence[str], names: Sequence[str], name: str) -> None:
        self.name = name
        codes = {candidate: i for i, candidate in enumerate(candidates)}
        if unknown := [candidate for candidate in names if candidate not in codes]:
            raise ValueError(f"order: '{excerpt(unknown[0])}' is not a candidate: {suggest(unknown[0], codes)}")
        if len(set(names)) < len(names):
            raise ValueError(f"order: names must be distinct in '{excerpt(','.join(names))}'")
        self._position = np.full(len(candidates), float(len(names)))
        self._position[[codes[candidate] for candidate in names]] = np.arange(len(names))
        self._left = len(candidates) - len(names)

    def ranks(self, log: Log) -> Ints | None:
        return ranks_by(log, -self._position[log.item])

    def note(self) -> str:
        return f"{pluralize(self._left, 'candidate')} not in the order come last" if self._left else ""


def by_scores(log: Log, scores: Floats, name: str) -> Policy:
    """Rank by descending score; of equal scores the first row comes first.

    Parameters
    ----------
    log
        The log.
    scores
        A score for each row.
    name
        Name of the policy.
    """
    scores, rows = np.asarray(scores, np.float64), int(log.offsets[-1])
    if scores.shape != (rows,):
        raise ValueError(
            f"{name}: scores of shape {scores.shape}: must be of shape ({rows},), one for each candidate"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{name}: the score of row {int(np.isnan(scores).argmax())} is not a number")
    return Policy(name, ranks_by(log, scores))


class _LoggedScores(Ranker):
    """The order by the app's scores in the log, as for `mixed`: without a score in the middle, ties as logged.

    >>> from peekrank.evaluation.log import log_from_records
    >>> fields = {"k": 1, "candidates": ["a", "b", "c", "d"], "position": [0, 1, 2, 3]}
    >>> _LoggedScores().ranks(log_from_records([{"event": "1", **fields, "score": [0.1, None, 0.2, 0.9]}]))
    array([3, 1, 2, 0])
    """

    name = SCORE

    def __init__(self) -> None:
        self._decisions = self._empty = 0

    def ranks(self, log: Log) -> Ints | None:
        scores = np.full(len(log.item), np.nan) if log.scores is None else log.scores
        given = np.flatnonzero(~np.isnan(scores))
        owner, scores = log.owner[given], scores[given]
        counts, balance = np.bincount(owner, minlength=len(log.k)), np.zeros(len(log.item))
        if len(given):
            order = np.lexsort((scores, owner))
            lists, values = owner[order], scores[order]
            first_of_list = np.append(True, lists[1:] != lists[:-1])
            first_of_tie = first_of_list | np.append(True, values[1:] != values[:-1])
            starts = np.append(np.flatnonzero(first_of_tie), len(given))
            tie = np.cumsum(first_of_tie) - 1
            begin = np.flatnonzero(first_of_list)[np.cumsum(first_of_list) - 1]
            # the number of scores below minus those above: zero is the middle
            balance[given[order]] = (starts[tie] - begin) + (starts[tie + 1] - begin) - counts[lists]
        self._decisions += len(counts)
        self._empty += int((counts == 0).sum())
        return ranks_by(log, balance)

    def note(self) -> str:
        if self._empty == self._decisions:
            raise ValueError("score: the log has no scores. Write the app's own scores into the column 'score'")
        return (
            f"{pluralize(self._empty, 'decision')} without scores in the order of the log" if self._empty else ""
        )


class _Feature(Ranker):
    """The order by a feature, the highest first; `text` is ``feature:N`` with N from 1.

    >>> from peekrank.evaluation.log import log_from_records
    >>> fields = {"k": 1, "candidates": ["a", "b"], "position": [0, 1], "features": [[1, -3], [2, -4]]}
    >>> _Feature("feature:1").ranks(log_from_records([{"event": "1", **fields}]))
    array([1, 0])
    """

    needs_order = False

    def __init__(self, text: str) -> None:
        self.name = text

    def ranks(self, log: Log) -> Ints | None:
        features, number = features_of(log, self.name), self.name.removeprefix(f"{FEATURE}:")
        if not (number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= features.shape[1]):
            raise ValueError(
                f"'{excerpt(self.name)}': the log has features 1 to {features.shape[1]}, as in {FEATURE}:1"
            )
        return by_scores(log, features[:, int(number) - 1].astype(np.float64), self.name).ranks


class Scorer(Protocol):
    """An object that scores candidates by their features, such as a `Model`."""

    def scores(self, features: Features, offsets: Ints) -> Floats:
        """Return a score for each row; list n has the rows from offsets[n] to offsets[n + 1]."""
        ...


def by_model(log: Log, model: Scorer, name: str) -> Policy:
    """Rank by the scores of a model, which scales the features of the log itself.

    Parameters
    ----------
    log
        A log with unscaled features.
    model
        The model.
    name
        Name of the policy.
    """
    return rank_log(ModelRanker(model, name), log)


class ModelRanker(Ranker):
    """The order by the scores of a model; parameters as for `by_model`."""

    needs_order = False

    def __init__(self, model: Scorer, name: str) -> None:
        self._model, self.name = model, name

    def ranks(self, log: Log) -> Ints | None:
        """Return the rank of each row."""
        return by_scores(log, self._model.scores(features_of(log, self.name), log.offsets), self.name).ranks


def features_of(log: Log, name: str) -> Features:
    """Return the features of a log. Raises ValueError if it has none."""
    if log.features is None:
        raise ValueError(f"{name} needs features, but the log has none")
    return log.features


def ranks_by(log: Log, scores: Floats) -> Ints:
    """Return the rank of each row by descending score; of equal scores the first row comes first."""
    longest, ranks = int(log.lengths.max()), np.empty(len(scores), np.int64)
    _fill_ranks(log.offsets, scores, np.empty((2, longest), np.int64), ranks)
    return ranks


@kernel
def _fill_ranks(offsets: Ints, scores: Floats, space: Ints, ranks: Ints) -> None:
    for t in range(len(offsets) - 1):
        first, last = offsets[t], offsets[t + 1]
        merge_descending(scores[first:last], space[0], space[1])
        for p in range(last - first):
            ranks[first + space[0, p]] = p


def replayed(
    log: Log, learner: Learner, *, name: str = "", seed: int = 0, progress: Progress = lambda _: None
) -> Policy:
    """Replay a learner over the log: it ranks each list, then learns from the logged feedback.

    The learner learns from the lists that the log's policy showed, given the logged propensities, so it must have
    `Kernels.off_policy`. Its own ranking is drawn independently of the list shown.

    Parameters
    ----------
    log
        The log.
    learner
        The learner.
    name
        Name of the policy; empty: the learner's name.
    seed
        Random seed of the learner.
    progress
        Called with the number of further decisions done.
    """
    return rank_log(Replay(scope_of_log(log), learner, name=name, seed=seed, progress=progress), log)


class Replay(Ranker):
    """A learner that ranks each list of a log, then learns from the logged feedback.

    Parameters
    ----------
    scope
        Properties of the whole log, of which the learner must know the candidates and the longest list.
    learner, name, seed, progress
        As for `replayed`.
    """

    def __init__(
        self,
        scope: Scope,
        learner: Learner,
        *,
        name: str = "",
        seed: int = 0,
        progress: Progress = lambda _: None,
    ) -> None:
        if learner.kernels.off_policy is None:
            raise ValueError(
                f"{learner.name} learns only from its own rankings, so it cannot be replayed over a log. Use "
                "doubtsort, ridge or rtopkf"
            )
        self.name, self.learner, self._scope, self._progress = name or learner.name, learner, scope, progress
        self._by_item = learner.kernels.set_items is not None
        if not (self._by_item or learner.variable_length):
            raise ValueError(
                f"{learner.name} cannot be replayed, because it ranks all of a fixed set of items in every round"
            )
        self._rng = np.random.default_rng([seed, 1])
        self._state: State | None = None

    def _begin(self, d: int) -> None:
        """Make the state before the first decision, for lists of d features."""
        learner, longest = self.learner, int(self._scope.lengths[-1])
        m = len(self._scope.names) if self._by_item else longest
        shape = problem_shape(learner, m=m, k=min(self._scope.k, m), d=d)
        self._draws = {
            n: learner.n_uniforms(Shape(n, shape.d, min(shape.k, n)) if self._by_item else shape)
            for n in self._scope.lengths.tolist()
        }
        self._state, self._token = learner.init(shape), np.zeros(learner.token_size(shape))
        self._space = np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(shape.k)

    def ranks(self, log: Log) -> Ints | None:
        """Return the ranks that the learner gives to the rows of the next decisions."""
        learner, lengths = self.learner, log.lengths
        if np.isnan(log.propensity).any():
            raise ValueError(f"{learner.name} cannot be replayed over a log without propensities")
        X = features_of(log, learner.name) if learner.contextual else np.empty((len(log.item), 0), np.float32)
        if self._state is None:
            self._begin(X.shape[1])
        rows = np.lexsort((log.item, log.owner)) if self._by_item else np.arange(len(log.item))
        answers = learner.transform_feedback(log.feedback[rows])
        n_draws, widest = np.array([self._draws[n] for n in lengths.tolist()]), max(self._draws.values())
        ranks = np.empty(len(rows), np.int64)
        listed = np.argsort(rows) - np.repeat(log.offsets[:-1], lengths)
        scores = np.full(len(rows), np.nan) if log.scores is None else log.scores[rows]
        columns = (log.item[rows], log.position[rows], log.propensity[rows], answers, scores, listed)
        loop, features = compiled_replay(learner.kernels), np.ascontiguousarray(X[rows])
        for first in range(0, len(lengths), _CHUNK):
            these = slice(first, first + _CHUNK)
            uniforms = self._rng.random((len(n_draws[these]), widest))
            offsets = log.offsets[first : first + _CHUNK + 1]
            drawn = (n_draws[these], uniforms)
            loop(self._state, features, offsets, *drawn, *columns, ranks, self._token, *self._space)
            self._progress(len(n_draws[these]))
        out = np.empty(len(rows), np.int64)
        out[rows] = ranks
        return out

    def state(self) -> None:
        """Return nothing: the state of a learner is not saved."""


@cache
def compiled_replay(kernels: Kernels) -> Callable[..., None]:
    """Return the compiled loop that replays a learner with these kernels over a log."""
    parts = {"_rank": kernels.rank, "_off_policy": kernels.off_policy, "_update": kernels.update}
    return specialise(
        _replay,
        name_of(kernels),
        inline_all=kernels.inline,
        _set_items=set_items_of(kernels),
        _set_scores=kernels.set_scores or ignore_scores,
        **cast("Any", parts),
    )


_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_off_policy: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_items: Callable[[State, Ints], None] = unspecialised
_set_scores: Callable[[State, Floats, Ints], None] = unspecialised


def _replay(
    state: State,
    features: Features,
    offsets: Ints,
    draws: Ints,
    uniforms: Floats,
    item: Ints,
    position: Ints,
    propensity: Floats,
    answer: Floats,
    scores: Floats,
    listed: Ints,
    ranks: Ints,
    token: Floats,
    ranked: Ints,
    shown: Ints,
    feedback: Floats,
) -> None:
    for t in range(len(draws)):
        first, last = offsets[t], offsets[t + 1]
        X, ranking, other = features[first:last], ranked[: last - first], shown[: last - first]
        token[:] = 0
        _set_items(state, item[first:last])
        known = first  # without any score, the list has none
        for i in range(first, last):
            if not np.isnan(scores[i]):
                known = last
        _set_scores(state, scores[first:known], listed[first:last])
        _rank(state, X, uniforms[t, : draws[t]], ranking, token)
        for p in range(len(ranking)):
            if not 0 <= ranking[p] < len(ranking):
                raise ValueError("the learner's rank kernel must fill a ranking with its items")
            ranks[first + ranking[p]] = p
            other[position[first + p]] = p
        _off_policy(state, X, other, propensity[first:last], token)
        seen = feedback[: min(len(feedback), len(other))]
        for p in range(len(seen)):
            seen[p] = answer[first + other[p]]
        _set_items(state, item[first:last])
        _update(state, X, other, token, seen)
