"""`AgentState`: the learner's state, the counts, and the items, which may come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import compile_for, pinned
from peekrank._util.fork import lock_of
from peekrank._util.validate import check_int
from peekrank.engine import serialization
from peekrank.engine.entry_points import (
    BAD_FEATURES,
    BAD_TOKEN,
    NO_PERMUTATION,
    Counts,
    Memory,
    are_known,
    fill_rows,
    first_invalid_item,
    no_counts,
    read_only,
)
from peekrank.engine.summary import Summary
from peekrank.engine.validation import abbreviate, as_array, as_ranking, rows_of
from peekrank.types import (
    LARGEST_FEATURE,
    CanFail,
    Features,
    Floats,
    Ints,
    Learner,
    LinearScorer,
    RealAnswers,
    Shape,
    State,
)


class AgentState:
    """State of a learner after some rounds, and its set of items. `Agent` adds ranking and learning."""

    _room: int  # items that the arrays have space for, at least m
    _state: State
    _counts: Counts
    _everyone: Ints
    _present: Ints | None  # items that have not retired; computed when needed
    _no_features: Features
    _memory: Memory  # everything that compiled code keeps between calls

    def __init__(self, learner: Learner, shape: Shape) -> None:
        self.learner, self.shape = learner, shape
        self._lock: Any = lock_of(self)  # kernels release the GIL and share the state
        self._by_item = learner.kernels.set_items is not None  # whether it can rank any subset of its items
        grades = np.arange(learner.max_grade + 1.0)
        self._range = learner.answer_range if isinstance(learner, RealAnswers) else None
        self._grades = as_array(
            learner.transform_feedback(grades), np.float64, grades.shape, "transformed feedback"
        )
        self._make_room(shape.m)
        self._check: Callable[[Features], int] = self._first_check
        self._are_known: Callable[[Ints, int], bool] = self._first_are_known
        self._fill_rows: Callable[[Ints, Ints, Ints], bool] = self._first_fill_rows

    # Kernels are compiled at their first call.

    def _first_check(self, X: Features) -> int:
        self._check = compile_for(first_invalid_item, self._no_features)
        return self._check(X)

    def _first_are_known(self, items: Ints, m: int) -> bool:
        self._are_known = compile_for(are_known, self._everyone, 0)
        return self._are_known(items, m)

    def _first_fill_rows(self, items: Ints, ranking: Ints, rows: Ints) -> bool:
        self._fill_rows = compile_for(fill_rows, *[self._everyone] * 3)
        return self._fill_rows(items, ranking, rows)

    def _make_room(self, room: int) -> None:
        """Allocate state for `room` items and copy what was learned about the present ones."""
        learner, (m, d, k) = self.learner, self.shape
        state = learner.init(self.shape._replace(m=room))
        counts = no_counts(1 if learner.variable_length else room, room if self._by_item else 0)
        if room > m:
            serialization.copy_persistent(learner, self._state, self._counts, state, counts)
        self._state, self._counts = state, counts
        self._room, self._everyone, self._present = room, np.arange(room), None
        self._no_features = np.zeros((room, d), dtype=np.float32)
        self._memory = pinned(Memory(state, counts, self._grades, np.empty(room, dtype=np.bool_), np.empty(k)))

    def add(self, count: int = 1) -> Ints:
        """Add new items, about which nothing is known yet, and return their numbers, which are permanent.

        >>> from peekrank import Agent, DoubtSort
        >>> from peekrank.measures import DCG
        >>> agent = Agent(DoubtSort(DCG()), m=3, k=1)
        >>> agent.add(2)
        array([3, 4])
        >>> agent.retire([0, 1])
        >>> sorted(agent.rank().ranking.tolist()), sorted(agent.rank(available=[3, 2]).ranking.tolist())
        ([2, 3, 4], [2, 3])
        """
        check_int("count", count, 1)
        self._require_items()
        with self._lock:
            first = self.shape.m
            if first + count > self._room:
                self._make_room(max(2 * self._room, first + int(count)))
            self.shape, self._present = self.shape._replace(m=first + int(count)), None
        return np.arange(first, first + count)

    def retire(self, items: ArrayLike) -> None:
        """Leave items out from now on. Late feedback on them still counts towards the average item."""
        self._require_items()
        retiring = self._known(items, "items")
        with self._lock:
            self._counts.retired[retiring] = 1
            self._present = None

    def _require_items(self) -> None:
        if not self._by_item:
            raise ValueError(
                f"{self.learner.name} ranks a fixed set of items, all of them in every round; if items come and "
                "go, use a learner that stores statistics per item, such as doubtsort"
            )

    def _known(self, items: ArrayLike, name: str) -> Ints:
        """Return item numbers in ascending order. Raises ValueError unless they are known, distinct and active."""
        values, m = np.asarray(items), self.shape.m
        if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) == 0:
            raise ValueError(f"{name} = {abbreviate(values)}: must be numbers of items, at least one")
        numbers: Ints = values.astype(np.int64)  # a copy
        if not self._are_known(numbers, m):
            numbers = np.unique(numbers)
        if len(numbers) < len(values):
            raise ValueError(f"{name} = {abbreviate(values)}: must name each item once")
        if numbers[0] < 0 or numbers[-1] >= m:
            raise ValueError(f"{name} = {abbreviate(values)}: must be numbers of known items, from 0 to {m - 1}")
        if (retired := numbers[self._counts.retired[numbers] > 0]).size:
            raise ValueError(f"{name} = {abbreviate(values)}: item {retired[0]} has retired")
        return numbers

    def _available(self, available: ArrayLike | None) -> Ints | None:
        """Return the items to rank, ascending, or None if these are all items."""
        if available is not None:
            self._require_items()
            return self._known(available, "available")
        if not self._by_item:
            return None
        present = self._present
        if present is None:
            present = self._present = np.flatnonzero(self._counts.retired[: self.shape.m] == 0)
            present.flags.writeable = False  # decisions share it
        if len(present) == 0:
            raise ValueError("nothing to rank: all items have retired")
        return None if len(present) == self.shape.m else present

    def _rows(self, ranking: Any, subset: Any) -> tuple[Ints, Any]:
        """Return the items of a decision, and its ranking in terms of their rows; items may have changed since."""
        if subset is None:
            return self._everyone[: min(np.size(ranking), self.shape.m)], ranking
        items = np.ascontiguousarray(subset)
        if (
            items.ndim != 1
            or items.size == 0
            or items.dtype != np.int64
            or not self._are_known(items, self.shape.m)
        ):
            raise ValueError(
                f"items of the decision {abbreviate(items)}: must be numbers of known items, ascending"
            )
        shown = as_ranking(ranking, len(items))
        rows = np.empty_like(shown)
        if not self._fill_rows(items, shown, rows):
            raise ValueError(
                f"ranking of the decision {abbreviate(shown)}: must hold each item of {abbreviate(items)} once"
            )
        return items, rows

    def _list(self, features: ArrayLike | None, name: str) -> Features:
        """Return the features of a list, which may be shorter than m if the learner allows variable lengths."""
        m, d, _ = self.shape
        X = np.ascontiguousarray(features, dtype=np.float32)
        rows = len(X) if self.learner.variable_length and X.ndim == 2 and 1 <= len(X) <= m else m
        if self.learner.variable_length and X.shape != (rows, d):
            raise ValueError(f"{name} of shape {X.shape}: must be of shape (n, {d}), n from 1 to {m}")
        return as_array(X, np.float32, (rows, d), name)

    def _features_of(self, features: Features, available: ArrayLike | None, subset: Ints | None) -> Features:
        """Return the features of the rows of a list: of all items, or of the available ones in their order."""
        if subset is None:
            return self._list(features, "features")
        if available is None or len(features) == self.shape.m:
            return self._list(features, "features")[subset]
        X = np.empty((len(subset), self.shape.d), np.float32)
        X[np.searchsorted(subset, np.asarray(available))] = as_array(features, np.float32, X.shape, "features")
        return X

    def _unblocked(
        self,
        blocked: tuple[int, ...],
        available: ArrayLike | None,
        features: ArrayLike | None,
        scores: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> tuple[ArrayLike | None, ...]:
        """Return the available items without the blocked ones, with their features, scores and groups."""
        listed = self._available(None) if available is None else np.asarray(available)
        if listed is None:
            listed = self._everyone[: self.shape.m]
        keep, n = ~np.isin(listed, blocked), len(listed)
        if keep.all():
            return available, features, scores, groups
        if not keep.any():
            raise ValueError("nothing to rank: all items are blocked")
        if features is not None and len(features := np.asarray(features)) != self.shape.m:
            features = as_array(features, np.float32, (n, self.shape.d), "features")[keep]
        if scores is not None:
            scores = as_array(scores, np.float64, (n,), "scores")[keep]
        return listed[keep], features, scores, None if groups is None else rows_of(groups, n, "groups")[keep]

    def _check_features(self, X: Features, name: str) -> None:
        if (item := self._check(X)) >= 0:
            raise ValueError(
                f"{name} of item {item}, {abbreviate(X[item])}: must be finite numbers up to {LARGEST_FEATURE:g}; "
                "scale them"
            )

    def _real_answers(self, feedback: ArrayLike, n: int) -> Floats:
        """Return the learner's value of each answer. Raises ValueError unless all are in its range, or NaN."""
        answers: Floats = as_array(feedback, np.float64, (min(self.shape.k, n),), "feedback")
        low, high = self._range or (0.0, 0.0)
        for p, answer in enumerate(answers):
            if not (np.isnan(answer) or low <= answer <= high):
                raise ValueError(
                    f"feedback[{p}] = {answer}: must be a number from {low:g} to {high:g}, or NaN if there was no "
                    f"feedback"
                )
        values: Floats = self.learner.transform_feedback(answers)
        return as_array(values, np.float64, answers.shape, "transformed feedback")

    def _raise_error(self, code: int, X: Features, ranking: Ints, token: Floats, answers: Floats) -> None:
        """Raise the ValueError for a code that the compiled update returned."""
        if code == BAD_FEATURES:
            self._check_features(X, "features of the decision")
        if code == NO_PERMUTATION:
            raise ValueError(
                f"ranking of the decision {abbreviate(ranking)}: must hold each of 0 to {len(X) - 1} once"
            )
        if code == BAD_TOKEN:
            raise ValueError(f"token of the decision {abbreviate(token)}: must hold finite numbers")
        raise ValueError(
            f"feedback[{code}] = {answers[code]}: must be a whole number from 0 to "
            f"{len(self._grades) - 1}, or NaN if there was no feedback"
        )

    def best_ranking(self, features: ArrayLike | None = None, *, available: ArrayLike | None = None) -> Ints:
        """Return the best ranking by the learner's current estimates, without counting a round or drawing numbers.

        Parameters as for `rank`.

        >>> from peekrank import Agent, BlockFTRL
        >>> from peekrank.measures import DCG
        >>> agent = Agent(BlockFTRL(DCG()), m=3, k=3)
        >>> for _ in range(4):
        ...     decision = agent.rank()
        ...     agent.update(decision, [int(item == 1) for item in decision.ranking])
        >>> agent.best_ranking()
        array([1, 0, 2])
        """
        X, subset = self._no_features[: self.shape.m], self._available(available)
        if features is not None or self.shape.d > 0:
            X = self._list(np.array(features, np.float32), "features")
            self._check_features(X, "features")
        with self._lock:
            scores = self._scores(X)
        if subset is None:
            return np.argsort(-scores, kind="stable")
        return subset[np.argsort(-scores[subset], kind="stable")]

    def _scores(self, X: Features) -> Floats:
        scores: Floats = as_array(
            self.learner.scores(self._state, X), np.float64, (len(X),), "scores of the learner"
        )
        return scores

    def summary(self) -> Summary:
        """Return the current estimate for each item, or the weight of each feature, with the number of answers.

        The summary is empty if the learner has neither.

        >>> from peekrank import Agent, SetFTRL
        >>> from peekrank.measures import Precision
        >>> agent = Agent(SetFTRL(Precision(1)), m=2, k=2)
        >>> for _ in range(5):
        ...     decision = agent.rank()
        ...     agent.update(decision, [int(item == 1) for item in decision.ranking])
        >>> print(agent.summary())
            item     estimate   feedback
               1            1          5
               0            0          5
        """
        with self._lock:
            if isinstance(self.learner, LinearScorer):
                weights = self.learner.weights(self._state).astype(np.float64)
                return Summary("feature", weights, np.full(len(weights), self._counts.answers.sum()))
            if self.learner.variable_length:
                return Summary("item", np.empty(0), np.empty(0, dtype=np.int64))
            m = self.shape.m
            return Summary("item", self._scores(self._no_features[:m]).copy(), self._counts.answers[:m].copy())

    @property
    def rounds(self) -> int:
        """Return the number of rankings so far."""
        return int(self._counts.rounds[0])

    @property
    def n_feedback(self) -> int:
        """Return the number of answers learned from so far."""
        return int(self._counts.answers.sum())

    @property
    def state(self) -> State:
        """Return a read-only view of the learner's state."""
        return read_only(self._state)

    def failure(self) -> str:
        """Return why the learner has stopped learning, or an empty text if it has not."""
        return self.learner.failure(self._state) if isinstance(self.learner, CanFail) else ""
