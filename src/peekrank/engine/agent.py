"""`Agent`: a learner that runs one round at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import compile_for
from peekrank._util.text import pluralize
from peekrank.engine import serialization
from peekrank.engine.context import NO_KEY, Context, as_context, as_key, as_version
from peekrank.engine.entry_points import (
    OK,
    are_uniform,
    context_entry_point,
    entry_points,
    no_counts,
    off_policy_entry_point,
    renewal_entry_point,
)
from peekrank.engine.ruled import Ruled, as_groups
from peekrank.engine.rules import Pins, Rules
from peekrank.engine.state import AgentState
from peekrank.engine.uniforms import Uniforms
from peekrank.engine.validation import Seed, abbreviate, as_array, as_ranking, problem_shape
from peekrank.spec import format_spec
from peekrank.types import Decision, Floats, HasAgent, Ints, Learner, Shape


class Agent(AgentState):
    """Run a learner one round at a time: call `rank` for a ranking to show, then `update` with the feedback.

    Any number of decisions may be open at a time. Feedback may arrive late, in any order, in part (NaN: missing)
    or never.

    Parameters
    ----------
    learner
        The learner, with its hyper-parameters.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    d
        Number of features of an item; 0 for a fixed set of items.
    seed
        A number, or a NumPy generator from ``default_rng``, which other code may share.
    rules
        Limits that all lists obey. Raises ValueError if the learner cannot obey them exactly.

    >>> from peekrank import Agent, RTop1F
    >>> from peekrank.measures import DCG
    >>> agent = Agent(RTop1F(DCG(), horizon=1000), m=5, k=1, seed=0)
    >>> decision = agent.rank()
    >>> decision.ranking
    array([3, 4, 1, 2, 0])
    >>> agent.update(decision, [1])  # the person liked item 3
    >>> agent
    <Agent of rtop1f:measure=dcg,horizon=1000, m=5, k=1: 1 round, 1 answer>
    """

    def __init__(
        self, learner: Learner, *, m: int, k: int, d: int = 0, seed: Seed = 0, rules: Rules | None = None
    ) -> None:
        super().__init__(learner, problem_shape(learner, m=m, k=k, d=d))
        self._random, self._default_n_uniforms = (
            Uniforms(learner.n_uniforms(self.shape), seed),
            learner.n_uniforms(self.shape),
        )
        self._ruled = Ruled(learner, self.shape, rules)
        self._token_shape = (learner.token_size(self.shape),)
        self._no_propensities, self._answer = np.empty(0), np.empty(1)
        self._featured, self._seen, self._latest = d > 0, self.shape.k, 0
        self._says_propensities, self._clocked = (
            learner.kernels.propensities is not None,
            learner.kernels.counts_rounds,
        )
        self._has_context = learner.kernels.set_key is not None or learner.kernels.set_scores is not None
        self._set_context: Callable[..., None] = self._first_set_context
        self._renew_score: Callable[..., None] = self._first_renew_score
        self._rank: Callable[..., int] = self._first_rank
        self._update: Callable[..., int] = self._first_update
        self._are_uniform: Callable[[Floats], bool] = self._first_are_uniform

    def compile(self) -> Agent:
        """Compile now what `rank` and `update` would compile at their first call, and return the agent."""
        self._compile_rank()
        self._compile_update()
        if self._has_context:
            self._compile_context()
        return self

    def _compile_rank(self) -> None:
        ranking, token = self._everyone, np.empty(self._token_shape)
        self._rank = compile_for(
            entry_points(self.learner.kernels).rank,
            *(self._memory, self._everyone, self._no_features, self._random.rows, 0, ranking, token, self._answer),
        )

    def _compile_update(self) -> None:
        ranking, token = self._everyone, np.empty(self._token_shape)
        self._update = compile_for(
            entry_points(self.learner.kernels, real_answers=self._range is not None).update,
            *(self._memory, self._everyone, self._no_features, ranking, token, self._answer),
        )

    def _compile_context(self) -> None:
        self._set_context = compile_for(
            context_entry_point(self.learner.kernels), self._memory, NO_KEY, _NO_SCORES, self._everyone
        )

    # Entry points are compiled at their first call: a simulation needs none of them.

    def _first_rank(self, *arguments: Any) -> int:
        self._compile_rank()
        return self._rank(*arguments)

    def _first_update(self, *arguments: Any) -> int:
        self._compile_update()
        return self._update(*arguments)

    def _first_set_context(self, *arguments: Any) -> None:
        self._compile_context()
        self._set_context(*arguments)

    def _first_renew_score(self, *arguments: Any) -> None:
        self._renew_score = compile_for(renewal_entry_point(self.learner.kernels), *arguments)
        self._renew_score(*arguments)

    def _first_are_uniform(self, numbers: Floats) -> bool:
        self._are_uniform = compile_for(are_uniform, self._answer)
        return self._are_uniform(numbers)

    def _n_uniforms(self, n: int) -> int:
        """Return the number of uniforms that a list of n items needs."""
        _, d, k = self.shape
        shape = Shape(n, d, min(k, n)) if self._by_item else self.shape
        return self.learner.n_uniforms(shape)

    def rank(
        self,
        features: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        key: int | None = None,
        version: int | None = None,
        uniforms: Floats | None = None,
        pins: Pins | None = None,
        blocked: Iterable[int] | None = None,
        groups: ArrayLike | None = None,
        expected: Floats | None = None,
    ) -> Decision:
        """Choose the ranking to show next.

        Parameters
        ----------
        features
            Features of the items in this round's list, for a learner that uses them: of all items or, if fewer are
            available, of these in their order.
        available
            Numbers of the items that can be shown, for a learner that stores statistics per item. None means all
            that have not retired. The ranking permutes these numbers.
        scores
            The app's score of each item, larger is better, in the order of `available`; NaN if it is missing. For
            learners that start from a score, such as mixed.
        key
            Whom or what the list is for, such as the number of a query, a tenant or a segment. For learners that
            learn per key.
        version
            Version of the ranker that computed the scores. The first list with a larger one makes the learner
            forget how far scores can be trusted, but keep what it knows about items and keys. None: the latest.
        uniforms
            The random numbers of this round, `n_uniforms` values from [0, 1), for callers who derive them from the
            record numbers of a log (`kernels.philox`). None means that the agent's own generator draws them.
        pins, blocked
            Pinned and blocked items of this list, in addition to those of the rules. See `Rules`.
        groups
            Group of each item, in the order of `available`, for rules that limit groups.
        expected
            Filled, in the order of `Decision.propensities`, with the expected weight of each item: that of its
            position among the first k, averaged over all lists that could have been drawn. For comparisons with
            another order, and for learners that can obey rules.
        """
        ruled, plan = self._ruled, None
        if ruled.always or not (pins is None and blocked is None and groups is None and expected is None):
            plan = ruled.plan(pins, blocked, groups, expecting=expected is not None)
            if plan.blocked:
                available, features, scores, groups = self._unblocked(
                    plan.blocked, available, features, scores, groups
                )
        X, items, subset = self._list_to_rank(features, available)
        n, context, coded = len(X), None, None
        if expected is not None and (type(expected) is not _Array or expected.shape != (n,)):
            raise ValueError(f"expected: must be an array of {n} numbers, one per item of the list")
        if self._has_context or scores is not None or key is not None:
            context = as_context(self.learner, key, scores, available, items if self._by_item else items[:n])
        if plan and plan.mixed:
            if context is None and plan.listed and available is not None:
                context = Context(NO_KEY, _NO_SCORES, self._listed(available, items))
            has_order = available is not None or not self._by_item
            if plan.required or not has_order:
                ruled.check_list(plan, items[:n], context, has_order=has_order)
            coded = None if groups is None else as_groups(groups, n)
        ranking, token = _empty(n, _INT), _zeros(self._token_shape)
        propensities = _empty(n) if self._says_propensities else self._no_propensities
        rows = None if uniforms is None else self._uniforms_row(uniforms, n)
        renewed = None if version is None else as_version(self.learner, version)
        applied = None
        with self._lock:
            if rows is None:
                rows, row = self._random.next(self._n_uniforms(n) if self._by_item else self._default_n_uniforms)
            else:
                row = 0
            if renewed is not None:
                self._renew_score(self._memory, renewed)
            if context is not None and self._has_context:
                self._set_context(self._memory, *context)
            arguments = (items, X, rows, row, ranking, token, propensities)
            if plan and plan.mixed:
                number, applied = ruled.rank(plan, context, coded, self._room, self._memory, arguments, expected)
            else:
                number = self._rank(self._memory, *arguments)
            self._latest = abs(number)
        if subset is not None:
            ranking = subset[ranking]
        _set_write(ranking, 0)  # a decision must not change after it was shown
        _set_write(propensities, 0)
        known, latest = (propensities, number) if number > 0 else (None, -number)
        return _new_tuple(Decision, (X, ranking, token, known, subset, latest, *_parts(context), applied, renewed))

    def _list_to_rank(self, features: ArrayLike | None, available: ArrayLike | None) -> tuple[Any, Ints, Any]:
        """Return the features of the rows to rank, their items, and these once more if some items are missing."""
        X, items, subset = self._no_features, self._everyone, None
        if self._by_item or available is not None:
            subset = self._available(available)
            items = items[: self.shape.m] if subset is None else subset
            X = X[: len(items)]
        if features is not None or self._featured:
            X = self._features_of(np.array(features, np.float32), available, subset)  # a copy for late feedback
            self._check_features(X, "features")
        return X, items, subset

    def _listed(self, available: ArrayLike, items: Ints) -> Ints:
        """Return the rows of the available items, in the order in which the app gave them."""
        numbers = np.array(available, _INT)
        rows = np.empty_like(numbers)
        self._fill_rows(items, numbers, rows)
        return rows

    def override(self, decision: Decision, ranking: ArrayLike, propensities: ArrayLike | None = None) -> Decision:
        """Replace the latest decision's ranking by the one that was actually shown, so that the learner can learn.

        Raises ValueError if the learner cannot learn from rankings that it did not choose.

        Parameters
        ----------
        decision
            The last value that `rank` returned.
        ranking
            The ranking that was shown: the same items in another order.
        propensities
            Probability of each item, in the order of `Decision.propensities`, to be among its first k. None means
            that the ranking was deterministic.

        >>> from peekrank import DoubtSort
        >>> from peekrank.measures import DCG
        >>> agent = Agent(DoubtSort(DCG()), m=3, k=1)
        >>> agent.update(agent.override(agent.rank(), [2, 0, 1]), [1])
        >>> agent.best_ranking()[0]
        np.int64(2)
        """
        if self.learner.kernels.off_policy is None:
            raise ValueError(f"{self.learner.name} learns from its own rankings only")
        if decision.round != self._latest:
            raise ValueError("only the latest decision can be overridden")
        items, n = self._everyone if decision.items is None else decision.items, len(decision.ranking)
        items, shown_ranking = items[:n], as_ranking(ranking, n)
        rows = np.empty_like(shown_ranking)
        if not np.array_equal(np.sort(shown_ranking), np.sort(decision.ranking)):
            raise ValueError(
                f"ranking {abbreviate(shown_ranking)}: must hold the items of the decision, each once"
            )
        rows[:] = np.searchsorted(items, shown_ranking) if self._by_item else shown_ranking
        if propensities is None:
            propensities = np.zeros(n)
            propensities[rows[: min(self.shape.k, n)]] = 1
        shown_propensities: Floats = as_array(propensities, np.float64, (n,), "propensities")
        X = self._no_features[:n] if self._by_item and not self._featured else decision.features
        token = decision.token
        token[0] = 0  # another policy chose this ranking, so the learner did not explore
        arguments = (self._memory, items, X, rows, shown_propensities, token)
        with self._lock:
            compile_for(off_policy_entry_point(self.learner.kernels), *arguments)(*arguments)
        return decision._replace(ranking=shown_ranking, propensities=shown_propensities)

    def n_uniforms(self, n: int | None = None) -> int:
        """Return the number of uniforms that ranking n items needs; None means all items.

        >>> from peekrank import Thompson
        >>> from peekrank.measures import DCG
        >>> Agent(Thompson(DCG()), m=5, k=1).n_uniforms()
        6
        """
        return self._n_uniforms(self.shape.m if n is None else n)

    def _uniforms_row(self, uniforms: Floats, n: int) -> Floats:
        """Validate caller-supplied uniforms and return them as one row."""
        row: Floats = as_array(uniforms, np.float64, (self._n_uniforms(n),), "uniforms")
        if not self._are_uniform(row):
            raise ValueError(f"uniforms {abbreviate(row)}: must be at least 0 and below 1")
        return row.reshape(1, -1)

    def update(self, decision: Decision, feedback: ArrayLike) -> None:
        """Learn from the grades of the first k items of a decision; NaN means that an item got no feedback.

        Grades are whole numbers, or any numbers of the learner's `answer_range` if it has one.

        Call it once for each decision. This is not checked: a second call counts as another round. A NaN is final,
        so drop feedback that arrives after it. A learner with `Kernels.counts_rounds` accepts only decisions of
        its own agent; to rebuild it from a log, use `replay`.
        """
        parts: Any = decision  # untrusted: all of it is checked below
        grades: Any = feedback
        X, ranking, token, _, subset, number, key, *_ = parts
        if self._clocked and not (1 <= number <= self._latest or 1 <= number <= self.rounds):
            raise ValueError(
                f"this decision is of round {number}, but this agent has ranked {pluralize(self.rounds, 'time')}: "
                f"{self.learner.name} learns from decisions of its own agent only; replay rebuilds it from a log"
            )
        items = self._everyone
        if self._by_item:
            items, ranking = self._rows(ranking, subset)
            if self._featured:
                X = as_array(X, np.float32, (len(items), self.shape.d), "features of the decision")
            else:
                X = self._no_features[: len(items)]
        elif X is not self._no_features:
            X = self._list(X, "features of the decision")
        n = len(X)
        if not (
            type(ranking) is _Array
            and type(token) is _Array
            and ranking.dtype is _INT
            and token.dtype is _FLOAT
            and ranking.shape == (n,)
            and token.shape == self._token_shape
            and ranking.flags.num & token.flags.num & _PLAIN == _PLAIN
        ):
            ranking = as_ranking(ranking, n)
            token = as_array(token, np.float64, self._token_shape, "token of the decision")
        answers = None
        if self._range is not None:
            answers = self._real_answers(grades, n)
        elif self._seen > 1 or type(grades) not in _LISTS or len(grades) != 1 or type(grades[0]) not in _NUMBERS:
            answers = np.array(grades, _FLOAT)
            if answers.shape != (min(self.shape.k, n),):
                as_array(answers, np.float64, (min(self.shape.k, n),), "feedback")  # raises the error
        with self._lock:
            if answers is None:  # a single grade: making an array of it would take longer than learning from it
                answers = self._answer
                answers[0] = grades[0]
            if self._has_context:
                self._set_context(self._memory, as_key(self.learner, key), _NO_SCORES, self._everyone[:0])
            code = self._update(self._memory, items, X, ranking, token, answers)
        if code != OK:
            self._raise_error(code, X, ranking, token, np.array(grades, _FLOAT))

    def __repr__(self) -> str:
        """Return the learner, the shape, and the numbers of rounds and answers."""
        m, d, k = self.shape
        shape = f"m={m}, k={k}" + (f", d={d}" if d else "")
        counts = f"{pluralize(self.rounds, 'round')}, {pluralize(self.n_feedback, 'answer')}"
        return f"<Agent of {format_spec(self.learner)}, {shape}: {counts}>"

    @property
    def rules(self) -> Rules | None:
        """Return the rules of all lists, or None. New ones apply from the next list on."""
        return self._ruled.rules

    @rules.setter
    def rules(self, rules: Rules | None) -> None:
        ruled = Ruled(self.learner, self.shape, rules)
        with self._lock:
            ruled.n_relaxed, self._ruled = self._ruled.n_relaxed, ruled

    @property
    def n_relaxed(self) -> int:
        """Return the number of lists, since the agent was made or loaded, in which a limit could not be met."""
        return self._ruled.n_relaxed

    def reseed(self, seed: Seed) -> None:
        """Reseed the generator. A loaded copy otherwise draws the same random numbers as its original."""
        with self._lock:
            self._random.reseed(seed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how `pickle` makes a copy: from a dump and the learner."""
        return Agent.load, (self.dump(), self.learner)

    def dump(self) -> bytes:
        """Serialise the agent, including its generator. `load` resumes bit for bit."""
        with self._lock:
            state, counts = self._state, self._counts
            if self._room > self.shape.m:
                state, counts = self.learner.init(self.shape), no_counts(self.shape.m, self.shape.m)
                serialization.copy_persistent(self.learner, self._state, self._counts, state, counts)
            return serialization.dump(
                self.learner, self.shape, state, counts, self._random.rewound_generator(), self.rules
            )

    @classmethod
    def load(cls, blob: bytes, learner: Learner | None = None) -> Agent:
        """Restore a dumped agent. Raises ValueError, with the reason, for any other bytes.

        Parameters
        ----------
        blob
            The bytes from `dump`.
        learner
            The learner that was dumped. Needed only if it is not in `peekrank.registry.LEARNERS`.
        """
        saved = serialization.read(blob, learner)
        m, d, k = saved.shape
        try:
            agent = cls(saved.learner, m=m, k=k, d=d, seed=saved.bits, rules=saved.rules)
        except (MemoryError, OverflowError) as error:
            reason = f"{m} items with {d} features do not fit in memory"
            raise ValueError(f"this saved agent cannot be restored: {reason}") from error
        serialization.fill(saved, agent._state, agent._counts)
        return agent

    @classmethod
    def from_model(
        cls, model: HasAgent, *, m: int | None = None, k: int | None = None, learner: Learner | None = None
    ) -> Agent:
        """Return an agent that continues learning where the training of a model ended, bit for bit.

        It needs features prepared as in training: ``agent.rank(model.prepare(features))``. Copies draw the same
        random numbers unless you call `reseed`.

        Parameters
        ----------
        model
            A model that `peekrank train` saved and `peekrank.training.model.load_model` read.
        m
            Length of the longest list to come; None: as in training.
        k
            Number of items, from the top, that will get feedback; None: as in training.
        learner
            The learner of the model. Needed only if it is not in `peekrank.registry.LEARNERS`.
        """
        if not model.agent:
            raise ValueError("this model holds weights but no agent to continue from; train it again")
        trained = cls.load(model.agent, learner)
        shape = trained.shape
        m, k = m or shape.m, k or shape.k
        if (m, k) == (shape.m, shape.k):
            return trained
        if not trained.learner.variable_length:
            raise ValueError(
                f"{trained.learner.name} stores statistics per item: m and k must stay as in training"
            )
        agent = cls(trained.learner, m=m, k=k, d=shape.d, seed=trained._random.rewound_generator().bit_generator)
        serialization.copy_persistent(
            trained.learner, trained._state, trained._counts, agent._state, agent._counts
        )
        return agent


def _parts(context: Context | None) -> tuple[int | None, Floats | None, Ints | None]:
    """Return the last fields of a decision: key, scores and rows in the order of the app's list."""
    if context is None:
        return None, None, None
    key, scores, listed = context
    return None if key < 0 else key, scores[listed] if len(scores) else None, listed


_NO_SCORES: Floats = np.empty(0)
_new_tuple = tuple.__new__  # twice as fast as calling the NamedTuple
_empty, _zeros, _Array = np.empty, np.zeros, np.ndarray  # saves the attribute lookup
_set_write: Any = np.ndarray.setflags  # with a positional argument, three times as fast
_LISTS, _NUMBERS = (list, tuple), (int, float)
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)
_PLAIN = 0x101  # NumPy's flags for C-contiguous and aligned
