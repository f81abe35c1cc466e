"""A learner at work, one round at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import compile_for
from peekrank._util.text import pluralize
from peekrank.engine import serialization
from peekrank.engine.entry_points import (
    BAD_FEATURES,
    BAD_TOKEN,
    NO_PERMUTATION,
    WELL,
    are_uniform,
    entry_points,
    no_counts,
    off_policy_entry_point,
)
from peekrank.engine.state import AgentState
from peekrank.engine.uniforms import Uniforms
from peekrank.engine.validation import Seed, abbreviate, as_array, as_ranking, problem_shape
from peekrank.spec import format_spec
from peekrank.types import Decision, Features, Floats, HasAgent, Ints, Learner, Shape


class Agent(AgentState):
    """A learner at work: asks `rank` for a ranking to show, tells `update` what people answered.

    Any number of decisions may be open at a time, and answered late, in any order, in part (NaN: not answered) or
    never.

    Parameters
    ----------
    learner
        Which learner, with its hyper-parameters.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    d
        Number of features of an item; 0 for a fixed set of items.
    seed
        A number, or a NumPy generator of the default kind, which others may use, too.

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

    def __init__(self, learner: Learner, *, m: int, k: int, d: int = 0, seed: Seed = 0) -> None:
        super().__init__(learner, problem_shape(learner, m=m, k=k, d=d))
        self._random, self._default_n_uniforms = (
            Uniforms(learner.n_uniforms(self.shape), seed),
            learner.n_uniforms(self.shape),
        )
        self._token_shape = (learner.token_size(self.shape),)
        self._no_propensities, self._answer = np.empty(0), np.empty(1)
        self._featured, self._seen, self._latest = d > 0, self.shape.k, 0
        self._says_propensities, self._clocked = (
            learner.kernels.propensities is not None,
            learner.kernels.counts_rounds,
        )
        self._rank: Callable[..., int] = self._first_rank
        self._update: Callable[..., int] = self._first_update
        self._are_uniform: Callable[[Floats], bool] = self._first_are_uniform

    def compile(self) -> Agent:
        """Compile now what `rank` and `update` would compile at their first call, and return the agent."""
        self._compile_rank()
        self._compile_update()
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
            entry_points(self.learner.kernels).update,
            *(self._memory, self._everyone, self._no_features, ranking, token, self._answer),
        )

    # Entry points are compiled at their first call: a simulation needs none of them.

    def _first_rank(self, *arguments: Any) -> int:
        self._compile_rank()
        return self._rank(*arguments)

    def _first_update(self, *arguments: Any) -> int:
        self._compile_update()
        return self._update(*arguments)

    def _first_are_uniform(self, numbers: Floats) -> bool:
        self._are_uniform = compile_for(are_uniform, self._answer)
        return self._are_uniform(numbers)

    def _n_uniforms(self, n: int) -> int:
        """How many random numbers a list of n items takes."""
        _, d, k = self.shape
        shape = Shape(n, d, min(k, n)) if self._by_item else self.shape
        return self.learner.n_uniforms(shape)

    def rank(
        self,
        features: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        uniforms: Floats | None = None,
    ) -> Decision:
        """Choose the ranking to show next.

        Parameters
        ----------
        features
            Features of the items of this round's list, for a learner that uses them; of all items, even if only
            some are available.
        available
            Numbers of the items that can be shown, for a learner that knows items one by one; None: all that have
            not retired. The ranking is one of these numbers.
        uniforms
            The randomness of this round, `n_uniforms` numbers from [0, 1), for callers who keep a log and draw them by
            the numbers of its records (`kernels.philox`); None: the agent's own generator draws them.
        """
        X, items, chosen = self._no_features, self._everyone, None
        if self._by_item or available is not None:
            chosen = self._available(available)
            items = items[: self.shape.m] if chosen is None else chosen
            X = X[: len(items)]
        if features is not None or self._featured:
            X = self._list(np.array(features, np.float32), "features")  # a copy: answers may come late
            self._check_finite(X, "features")
            X = X if chosen is None else X[chosen]
        n = len(X)
        ranking, token = _empty(n, _INT), _zeros(self._token_shape)
        propensities = _empty(n) if self._says_propensities else self._no_propensities
        drawn = None if uniforms is None else self._given(uniforms, n)
        with self._lock:
            if drawn is None:
                drawn, row = self._random.next(self._n_uniforms(n) if self._by_item else self._default_n_uniforms)
            else:
                row = 0
            number = self._rank(self._memory, items, X, drawn, row, ranking, token, propensities)
            self._latest = abs(number)
        if chosen is not None:
            ranking = chosen[ranking]
        _set_write(ranking, 0)  # what was shown was shown
        if number < 0:
            return _made(Decision, (X, ranking, token, None, chosen, -number))
        _set_write(propensities, 0)
        return _made(Decision, (X, ranking, token, propensities, chosen, number))

    def override(self, decision: Decision, ranking: ArrayLike, propensities: ArrayLike | None = None) -> Decision:
        """The latest decision as it is after somebody else's ranking was shown instead of its own.

        Parameters
        ----------
        decision
            What `rank` returned last.
        ranking
            What was shown: the same items in another order.
        propensities
            Probability of each item, in the order of `Decision.propensities`, to be among the first k of it; None: the
            order was no matter of chance.

        >>> from peekrank import DoubtSort
        >>> from peekrank.measures import DCG
        >>> agent = Agent(DoubtSort(DCG()), m=3, k=1)
        >>> agent.update(agent.override(agent.rank(), [2, 0, 1]), [1])
        >>> agent.best_ranking()[0]
        np.int64(2)
        """
        if self.learner.kernels.off_policy is None:
            raise ValueError(f"{self.learner.name} learns from lists of its own only")
        if decision.round != self._latest:
            raise ValueError("only the latest decision can be shown otherwise")
        items, n = self._everyone if decision.items is None else decision.items, len(decision.ranking)
        items, shown = items[:n], as_ranking(ranking, n)
        rows = np.empty_like(shown)
        if not np.array_equal(np.sort(shown), np.sort(decision.ranking)):
            raise ValueError(f"ranking {abbreviate(shown)}: must hold the items of the decision, each once")
        rows[:] = np.searchsorted(items, shown) if self._by_item else shown
        if propensities is None:
            propensities = np.zeros(n)
            propensities[rows[: min(self.shape.k, n)]] = 1
        told: Floats = as_array(propensities, np.float64, (n,), "propensities")
        X = self._no_features[:n] if self._by_item else decision.features
        token = decision.token
        token[0] = 0  # nothing was shown to learn something
        arguments = (self._memory, items, X, rows, told, token)
        with self._lock:
            compile_for(off_policy_entry_point(self.learner.kernels), *arguments)(*arguments)
        return decision._replace(ranking=shown, propensities=told)

    def n_uniforms(self, n: int | None = None) -> int:
        """How many random numbers a round takes that ranks n items; None: all there are.

        >>> from peekrank import Thompson
        >>> from peekrank.measures import DCG
        >>> Agent(Thompson(DCG()), m=5, k=1).n_uniforms()
        6
        """
        return self._n_uniforms(self.shape.m if n is None else n)

    def _given(self, uniforms: Floats, n: int) -> Floats:
        """A row of uniforms from outside, which a kernel can do no harm with."""
        row: Floats = as_array(uniforms, np.float64, (self._n_uniforms(n),), "uniforms")
        if not self._are_uniform(row):
            raise ValueError(f"uniforms {abbreviate(row)}: must be numbers from 0 on and below 1")
        return row.reshape(1, -1)

    def update(self, decision: Decision, feedback: ArrayLike) -> None:
        """Learn from the relevance grades of the first k items of a decision; NaN where one was not answered.

        Once for each decision, which is not checked: answered twice, it counts as two rounds. A NaN is final, and
        an answer that comes after it must be dropped. A learner whose memory counts rankings learns from decisions
        of its own only; `replay` rebuilds it from a log.
        """
        parts: Any = decision  # whatever they are
        told: Any = feedback
        X, ranking, token, _, chosen, number = parts
        if self._clocked and not (1 <= number <= self._latest or 1 <= number <= self.rounds):
            raise ValueError(
                f"this decision is of round {number}, and this agent has ranked {pluralize(self.rounds, 'time')}: "
                f"{self.learner.name} learns from decisions of its own only; replay rebuilds it from a log"
            )
        items = self._everyone
        if self._by_item:
            items, ranking = self._rows(ranking, chosen)
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
        if self._seen > 1 or type(told) not in _LISTS or len(told) != 1 or type(told[0]) not in _NUMBERS:
            answers = np.array(told, _FLOAT)
            if answers.shape != (min(self.shape.k, n),):
                as_array(answers, np.float64, (min(self.shape.k, n),), "feedback")  # which says what is wrong
        with self._lock:
            if answers is None:  # a single answer: making an array of it would take longer than learning from it
                answers = self._answer
                answers[0] = told[0]
            fault = self._update(self._memory, items, X, ranking, token, answers)
        if fault != WELL:
            self._refuse(fault, X, ranking, token, np.array(told, _FLOAT))

    def _refuse(self, fault: int, X: Features, ranking: Ints, token: Floats, answers: Floats) -> None:
        if fault == BAD_FEATURES:
            self._check_finite(X, "features of the decision")
        if fault == NO_PERMUTATION:
            raise ValueError(
                f"ranking of the decision {abbreviate(ranking)}: must hold each of 0 to {len(X) - 1} once"
            )
        if fault == BAD_TOKEN:
            raise ValueError(f"token of the decision {abbreviate(token)}: must hold finite numbers")
        raise ValueError(
            f"feedback[{fault}] = {answers[fault]}: must be a whole number from 0 to "
            f"{len(self._grades) - 1}, or NaN if it was not answered"
        )

    def __repr__(self) -> str:
        """The learner, the shape, and how much has happened."""
        m, d, k = self.shape
        shape = f"m={m}, k={k}" + (f", d={d}" if d else "")
        done = f"{pluralize(self.rounds, 'round')}, {pluralize(self.n_feedback, 'answer')}"
        return f"<Agent of {format_spec(self.learner)}, {shape}: {done}>"

    def reseed(self, seed: Seed) -> None:
        """Go on with other randomness: a copy that was loaded would else repeat what its original draws."""
        with self._lock:
            self._random.reseed(seed)

    def __reduce__(self) -> tuple[Any, ...]:
        """How `pickle` makes a copy: from a dump and the learner."""
        return Agent.load, (self.dump(), self.learner)

    def dump(self) -> bytes:
        """Everything this agent is, generator included: `load` goes on bit for bit."""
        with self._lock:
            state, counts = self._state, self._counts
            if self._room > self.shape.m:
                state, counts = self.learner.init(self.shape), no_counts(self.shape.m, self.shape.m)
                serialization.copy_persistent(self.learner, self._state, self._counts, state, counts)
            return serialization.dump(self.learner, self.shape, state, counts, self._random.rewound_generator())

    @classmethod
    def load(cls, blob: bytes, learner: Learner | None = None) -> Agent:
        """The agent that was dumped; a ValueError says what is wrong with other bytes, whatever they are.

        Parameters
        ----------
        blob
            What `dump` returned.
        learner
            The same learner as was dumped; needed only for one that is not in `peekrank.registry.LEARNERS`.
        """
        found = serialization.read(blob, learner)
        m, d, k = found.shape
        try:
            agent = cls(found.learner, m=m, k=k, d=d, seed=found.bits)
        except (MemoryError, OverflowError) as error:
            what = f"{m} items with {d} features are more than there is memory for"
            raise ValueError(f"this saved agent cannot be made: {what}") from error
        serialization.fill(found, agent._state, agent._counts)
        return agent

    @classmethod
    def from_model(
        cls, model: HasAgent, *, m: int | None = None, k: int | None = None, learner: Learner | None = None
    ) -> Agent:
        """An agent that goes on learning where the training of a model ended, bit for bit.

        It wants features as the training had them: ``agent.rank(model.prepare(features))``. Copies draw the same
        random numbers; `reseed` gives one its own.

        Parameters
        ----------
        model
            What `peekrank train` saved and `peekrank.training.model.load_model` read.
        m
            Length of the longest list to come; None: as in training.
        k
            Number of items, from the top, that will be answered; None: as in training.
        learner
            The learner of the model; needed only for one that is not in `peekrank.registry.LEARNERS`.
        """
        if not model.agent:
            raise ValueError("this model holds only weights, and no agent that could go on; learn it again")
        trained = cls.load(model.agent, learner)
        shape = trained.shape
        m, k = m or shape.m, k or shape.k
        if (m, k) == (shape.m, shape.k):
            return trained
        if not trained.learner.variable_length:
            raise ValueError(f"{trained.learner.name} knows its items one by one: m and k stay as in training")
        agent = cls(trained.learner, m=m, k=k, d=shape.d, seed=trained._random.rewound_generator().bit_generator)
        serialization.copy_persistent(
            trained.learner, trained._state, trained._counts, agent._state, agent._counts
        )
        return agent


_made = tuple.__new__  # what a NamedTuple's own calls, at twice the time
_empty, _zeros, _Array = np.empty, np.zeros, np.ndarray  # found sooner than in NumPy
_set_write: Any = np.ndarray.setflags  # three times as fast as naming its argument
_LISTS, _NUMBERS = (list, tuple), (int, float)
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)
_PLAIN = 0x101  # NumPy's numbers for: contiguous in C's order, and aligned
