"""A learner at work, one round at a time: the border where everything that comes in is checked."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._jit import kernel, machine_code
from peekrank._util.validate import whole
from peekrank.engine import saved
from peekrank.types import (
    Decision,
    Fallible,
    Features,
    Floats,
    Ints,
    Learner,
    Shape,
    State,
    missing_members,
)

Seed = int | np.integer[Any] | np.random.SeedSequence | np.random.Generator


def generator(seed: Seed) -> np.random.Generator:
    """The randomness of a learner.

    A number gives another generator than ``default_rng`` makes of it, so that rounds drawn from
    ``default_rng(0)`` and a learner with ``seed=0`` are independent: the theorems need that.

    >>> bool(generator(0).random() == np.random.default_rng(0).random())
    False
    """
    if isinstance(seed, int | np.integer):
        return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(1,)))
    return np.random.default_rng(seed)


def problem_shape(learner: Learner, *, m: int, k: int, d: int = 0) -> Shape:
    """The shape a learner works in, checked; a learner with full information has k = m.

    >>> from peekrank.learners import Uniform
    >>> problem_shape(Uniform(), m=10, k=11)
    Traceback (most recent call last):
    ...
    ValueError: k = 11: must be between 1 and the number of items, m = 10
    """
    if missing := missing_members(learner):
        raise ValueError(f"{learner!r} is no learner: it lacks {', '.join(missing)} (see peekrank.types.Learner)")
    whole("m", m, 1)
    whole("d", d, 0)
    whole("k", k, 1)
    if k > m:
        raise ValueError(f"k = {k}: must be between 1 and the number of items, m = {m}")
    if k < learner.min_k:
        raise ValueError(f"k = {k}: {learner.name} needs k = {learner.min_k} at least")
    if learner.contextual and d < 1:
        raise ValueError(f"{learner.name} needs items with features, and these have none")
    return Shape(int(m), int(d), int(m if learner.full_information else k))


class Agent:
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
        A number, or a NumPy generator of the default kind.

    >>> from peekrank import Agent, RTop1F
    >>> from peekrank.measures import DCG
    >>> agent = Agent(RTop1F(DCG(), horizon=1000), m=5, k=1, seed=0)
    >>> decision = agent.rank()
    >>> decision.ranking
    array([3, 4, 1, 2, 0])
    >>> agent.update(decision, [1])  # the person liked item 3
    """

    def __init__(self, learner: Learner, *, m: int, k: int, d: int = 0, seed: Seed = 0) -> None:
        self.learner = learner
        self.shape = problem_shape(learner, m=m, k=k, d=d)
        self._lock = Lock()  # kernels release the GIL, and share the state
        self._rng = generator(seed)
        self._state = learner.init(self.shape)
        self._uniforms = np.empty(learner.draws(self.shape))
        self._token_size = learner.token_size(self.shape)
        self._no_features = np.empty((m, d), dtype=np.float32)
        self._seen = np.empty(m, dtype=np.bool_)
        grades = np.arange(learner.max_grade + 1.0)
        self._perceived = array_of(learner.perceive(grades), np.float64, grades.shape, "perceived relevance")
        kernels = learner.kernels
        ranking, token, answers = np.empty(m, dtype=np.int64), np.empty(self._token_size), np.empty(self.shape.k)
        self._rank = machine_code(kernels.rank, self._state, self._no_features, self._uniforms, ranking, token)
        self._update = machine_code(kernels.update, self._state, self._no_features, ranking, token, answers)
        self._check = machine_code(_not_finite, self._no_features)
        self._read = machine_code(_read_answers, ranking, self._seen, answers, self._perceived, answers)

    def rank(self, features: ArrayLike | None = None) -> Decision:
        """Choose the ranking to show next."""
        X = self._no_features
        if features is not None or self.shape.d > 0:
            X = self._list(np.array(features, np.float32), "features")  # a copy: answers may come late
            if (item := self._check(X)) >= 0:
                raise ValueError(f"features of item {item}, {X[item]}: must be finite numbers")
        ranking, token = np.empty(len(X), dtype=np.int64), np.zeros(self._token_size)
        with self._lock:
            self._rng.random(out=self._uniforms)
            self._rank(self._state, X, self._uniforms, ranking, token)
        ranking.flags.writeable = False  # what was shown was shown
        return Decision(X, ranking, token)

    def update(self, decision: Decision, feedback: ArrayLike) -> None:
        """Learn from the relevance grades of the first k items of a decision; NaN where one was not answered.

        Once for each decision, which is not checked: answered twice, it counts as two rounds. A NaN is final, and
        an answer that comes after it must be dropped.
        """
        X = self._list(decision.features, "features of the decision")
        ranking = array_of(decision.ranking, np.int64, (len(X),), "ranking of the decision")
        token = array_of(decision.token, np.float64, (self._token_size,), "token of the decision")
        answers = array_of(feedback, np.float64, (min(self.shape.k, len(X)),), "feedback")
        perceived = np.empty(len(answers))
        with self._lock:
            fault = self._read(ranking, self._seen, answers, self._perceived, perceived)
        if fault == _NO_PERMUTATION:
            raise ValueError(f"ranking of the decision {ranking}: must hold each of 0 to {len(X) - 1} once")
        if fault != _WELL:
            raise ValueError(
                f"feedback[{fault}] = {answers[fault]}: must be a whole number from 0 to "
                f"{len(self._perceived) - 1}, or NaN if it was not answered"
            )
        with self._lock:
            self._update(self._state, X, ranking, token, perceived)

    def _list(self, features: ArrayLike | None, name: str) -> Features:
        """The features of a list, which may be shorter than m if the learner keeps nothing about single items."""
        m, d, _ = self.shape
        X = np.ascontiguousarray(features, dtype=np.float32)
        rows = len(X) if self.learner.any_length and X.ndim == 2 and 1 <= len(X) <= m else m
        if self.learner.any_length and X.shape != (rows, d):
            raise ValueError(f"{name} of shape {X.shape}: must be of shape (n, {d}), n from 1 to {m}")
        return array_of(X, np.float32, (rows, d), name)

    @property
    def state(self) -> State:
        """What the learner remembers now, not to be written to."""
        return _read_only(self._state)

    def trouble(self) -> str:
        """Why the learner has stopped learning; empty while it is healthy."""
        return self.learner.trouble(self._state) if isinstance(self.learner, Fallible) else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle`."""
        return Agent.load, (self.dump(), self.learner)

    def dump(self) -> bytes:
        """Everything this agent is, generator included: `load` goes on bit for bit."""
        with self._lock:
            return saved.dump(self.learner, self.shape, self._state, self._rng)

    @classmethod
    def load(cls, blob: bytes, learner: Learner | None = None) -> Agent:
        """The agent that was dumped.

        Parameters
        ----------
        blob
            What `dump` returned.
        learner
            The same learner as was dumped; needed only for one that is not in `peekrank.registry.LEARNERS`.
        """
        found = saved.load(blob, learner)
        agent = cls(found.learner, m=found.shape.m, k=found.shape.k, d=found.shape.d, seed=found.rng)
        agent._state = found.state
        return agent


def _read_only(state: State) -> State:
    """Views of the arrays of a state, and of the states within it, that cannot be written to."""
    return type(state)(*map(_view, state))


def _view(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        part = part.view()
        part.flags.writeable = False
    return _read_only(part) if hasattr(part, "_fields") else part


_WELL, _NO_PERMUTATION = -1, -2


@kernel
def _not_finite(X: Features) -> int:
    """The first item with a feature that is no finite number; -1 if there is none."""
    for item in range(len(X)):
        finite = True
        for f in range(X.shape[1]):
            finite &= abs(X[item, f]) < np.inf
        if not finite:
            return item
    return -1


@kernel
def _read_answers(
    ranking: Ints, seen: NDArray[np.bool_], answers: Floats, perceived_grades: Floats, perceived: Floats
) -> int:
    """Translate answers; tell which is no grade, or that the ranking is no permutation, or that all is well."""
    seen[:] = False
    for item in ranking:
        if not 0 <= item < len(ranking) or seen[item]:
            return _NO_PERMUTATION
        seen[item] = True
    for p in range(len(answers)):
        answer = answers[p]
        if np.isnan(answer):
            perceived[p] = answer
        elif 0 <= answer < len(perceived_grades) and answer == np.floor(answer):
            perceived[p] = perceived_grades[int(answer)]
        else:
            return p
    return _WELL


def array_of(values: ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """What kernels are compiled for; a ValueError if the shape is not as it must be."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} of shape {array.shape}: must be of shape {shape}")
    return array if array.flags.carray else array.copy()  # aligned and writable, too
