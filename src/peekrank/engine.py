"""Running a learner: `Agent` one round at a time, `play` a loop in Python, `simulate` the same loop compiled.

All three call the same two kernels of the learner and draw the same random numbers: their results are equal bit
for bit. A learner sees its k answers and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank import storage
from peekrank._jit import driver, kernel, machine_code
from peekrank.parameters import ascending, whole
from peekrank.streams.fixed import list_shape
from peekrank.types import Decision, Features, Floats, Ints, Learner, Measure, Rounds, Shape, State, Trace

Seed = int | np.random.SeedSequence | np.random.Generator


def generator(seed: Seed) -> np.random.Generator:
    """The randomness of a learner.

    A number gives another generator than ``default_rng`` makes of it, so that rounds drawn from
    ``default_rng(0)`` and a learner with ``seed=0`` are independent: the theorems need that.

    >>> bool(generator(0).random() == np.random.default_rng(0).random())
    False
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)) if isinstance(seed, int) else seed)


def problem_shape(learner: Learner, *, m: int, k: int, d: int = 0) -> Shape:
    """The shape a learner works in, checked; a learner with full information has k = m.

    >>> from peekrank.learners import Uniform
    >>> problem_shape(Uniform(), m=10, k=11)
    Traceback (most recent call last):
    ...
    ValueError: k = 11: must be between 1 and the number of items, m = 10
    """
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
        self._rng = generator(seed)
        self._state = learner.init(self.shape)
        self._uniforms = np.empty(learner.draws(self.shape))
        self._token_size = learner.token_size(self.shape)
        self._no_features = np.empty((m, d), dtype=np.float32)
        self._seen = np.empty(m, dtype=np.bool_)
        grades = np.arange(largest_grade(learner) + 1.0)
        self._perceived = _array(learner.perceive(grades), np.float64, grades.shape, "perceived relevance")
        kernels = learner.kernels
        ranking, token, answers = np.empty(m, dtype=np.int64), np.empty(self._token_size), np.empty(self.shape.k)
        self._rank = machine_code(kernels.rank, self._state, self._no_features, self._uniforms, ranking, token)
        self._update = machine_code(kernels.update, self._state, self._no_features, ranking, token, answers)
        self._read = machine_code(_read_answers, ranking, self._seen, answers, self._perceived, answers)

    def rank(self, features: ArrayLike | None = None) -> Decision:
        """Choose the ranking to show next."""
        if features is None and self.shape.d == 0:
            X = self._no_features
        else:
            X = _array(features, np.float32, self.shape[:2], "features")
        ranking, token = np.empty(self.shape.m, dtype=np.int64), np.zeros(self._token_size)
        self._rng.random(out=self._uniforms)
        self._rank(self._state, X, self._uniforms, ranking, token)
        return Decision(X, ranking, token)

    def update(self, decision: Decision, feedback: ArrayLike) -> None:
        """Learn from the relevance grades of the first k items of a decision; NaN where one was not answered.

        Once for each decision: a NaN is final, and an answer that comes after it must be dropped.
        """
        X = _array(decision.features, np.float32, self.shape[:2], "features of the decision")
        ranking = _array(decision.ranking, np.int64, (self.shape.m,), "ranking of the decision")
        token = _array(decision.token, np.float64, (self._token_size,), "token of the decision")
        answers = _array(feedback, np.float64, (self.shape.k,), "feedback")
        perceived = np.empty(self.shape.k)
        fault = self._read(ranking, self._seen, answers, self._perceived, perceived)
        if fault == _NO_PERMUTATION:
            raise ValueError(f"ranking of the decision {ranking}: must hold each of 0 to {self.shape.m - 1} once")
        if fault != _WELL:
            raise ValueError(
                f"feedback[{fault}] = {answers[fault]}: must be a whole number from 0 to "
                f"{len(self._perceived) - 1}, or NaN if it was not answered"
            )
        self._update(self._state, X, ranking, token, perceived)

    def dump(self) -> bytes:
        """Everything this agent is, generator included: `load` goes on bit for bit."""
        return storage.dump(self.learner, self.shape, self._state, self._rng)

    @classmethod
    def load(cls, blob: bytes, learner: Learner | None = None) -> Agent:
        """The agent that was dumped.

        Parameters
        ----------
        blob
            What `dump` returned.
        learner
            The same learner as was dumped; needed only for one that is not in `peekrank.learners.ALL`.
        """
        saved = storage.load(blob, learner)
        agent = cls(saved.learner, m=saved.shape.m, k=saved.shape.k, d=saved.shape.d, seed=saved.rng)
        agent._state = saved.state
        return agent


def largest_grade(learner: Learner) -> int:
    """The largest grade a learner is made for; 255, the largest there is, if it does not say."""
    return int(getattr(learner, "max_grade", 255))


def _array(values: ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """What kernels are compiled for; a ValueError if the shape is not as it must be."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} of shape {array.shape}: must be of shape {shape}")
    return array if array.flags.carray else array.copy()  # aligned and writable, too


_WELL, _NO_PERMUTATION = -1, -2


@kernel
def _read_answers(
    ranking: Ints, seen: NDArray[np.bool_], answers: Floats, perceived_grades: Floats, perceived: Floats
) -> int:
    """Translate answers; tell which is no grade, or that the ranking is no permutation, or that all is well."""
    seen[:] = False
    for item in ranking:
        if not 0 <= item < len(seen) or seen[item]:
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


Play = Callable[[Features, NDArray[np.uint8], Ints, Ints], NDArray[np.bool_]]


def simulate(
    learner: Learner,
    rounds: Rounds,
    *,
    k: int,
    measure: Measure,
    seed: Seed = 0,
    at: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Run a learner over rounds in a compiled loop.

    Parameters
    ----------
    learner
        Which learner.
    rounds
        What happens.
    k
        Number of items, from the top, whose relevance is revealed; a learner with full information sees all.
    measure
        What each shown ranking is worth.
    seed
        Randomness of the learner.
    at
        After which numbers of rounds to record, ascending; None for all.
    progress
        Called with the number of rounds done since the last call; an exception raised there ends the run.

    >>> from peekrank import DCG, RTop1F, CT15
    >>> rounds = CT15(m=10, noise=0.25).rounds(10_000, np.random.default_rng(1))
    >>> trace = simulate(RTop1F(DCG(), horizon=10_000), rounds, k=1, measure=DCG())
    >>> int(trace.explored[-1])  # 10 questions in each of 215 blocks
    2150
    """
    shape = _shape_of(learner, rounds, k)
    state, rng = learner.init(shape), generator(seed)
    feedback, token = np.empty(shape.k), np.zeros(learner.token_size(shape))
    uniforms = np.empty(learner.draws(shape))

    kernels = learner.kernels
    loop = machine_code(
        _loop, *kernels, state, rng, rounds.features, feedback, rounds.offsets,
        feedback, token, uniforms, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_),
    )  # fmt: skip

    def run(features: Features, relevance: NDArray[np.uint8], offsets: Ints, rankings: Ints) -> NDArray[np.bool_]:
        explored = np.empty(len(offsets) - 1, dtype=np.bool_)
        perceived = _array(learner.perceive(relevance), np.float64, relevance.shape, "perceived relevance")
        loop(*kernels, state, rng, features, perceived, offsets, feedback, token, uniforms, rankings, explored)
        return explored

    return _record(run, rounds, shape, measure, at, progress)


def play(
    learner: Learner,
    rounds: Rounds,
    *,
    k: int,
    measure: Measure,
    seed: Seed = 0,
    at: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Run a learner over rounds with an `Agent`, in Python: slower than `simulate`, equal to it bit for bit.

    Parameters as for `simulate`.

    >>> from peekrank import DCG, RTop1F, CT15
    >>> rounds = CT15(m=10, noise=0.25).rounds(500, np.random.default_rng(1))
    >>> learner, how = RTop1F(DCG(), horizon=500), {"k": 1, "measure": DCG(), "seed": 3}
    >>> bool(np.array_equal(play(learner, rounds, **how).value, simulate(learner, rounds, **how).value))
    True
    """
    shape = _shape_of(learner, rounds, k)
    agent = Agent(learner, m=shape.m, k=k, d=shape.d, seed=seed)

    def run(features: Features, relevance: NDArray[np.uint8], offsets: Ints, rankings: Ints) -> NDArray[np.bool_]:
        explored = np.empty(len(offsets) - 1, dtype=np.bool_)
        for t, (low, high) in enumerate(pairwise(offsets)):
            decision = agent.rank(features[low:high])
            agent.update(decision, relevance[low:high][decision.ranking[: shape.k]])
            rankings[low:high] = decision.ranking
            explored[t] = decision.token[0] > 0
        return explored

    return _record(run, rounds, shape, measure, at, progress)


@driver
def _loop(
    rank: Any,
    update: Any,
    state: State,
    rng: np.random.Generator,
    features: Features,
    perceived: Floats,
    offsets: Ints,
    feedback: Floats,
    token: Floats,
    uniforms: Floats,
    rankings: Ints,
    explored: NDArray[np.bool_],
) -> None:
    for t in range(len(explored)):
        low, high = offsets[t], offsets[t + 1]
        X, ranking = features[low:high], rankings[low:high]
        for i in range(len(uniforms)):
            uniforms[i] = rng.random()
        token[:] = 0
        rank(state, X, uniforms, ranking, token)
        for p in range(len(feedback)):
            if not 0 <= ranking[p] < high - low:
                raise ValueError("the learner's rank kernel fills a ranking with something else than its items")
            feedback[p] = perceived[low + ranking[p]]
        update(state, X, ranking, token, feedback)
        explored[t] = token[0] > 0


def _shape_of(learner: Learner, rounds: Rounds, k: int) -> Shape:
    _, m = list_shape(rounds)
    largest = int(rounds.relevance.max())
    if largest > largest_grade(learner):
        raise ValueError(
            f"relevance {largest} occurs, but {learner.name} has max_grade = {largest_grade(learner)}"
        )
    return problem_shape(learner, m=m, k=k, d=rounds.features.shape[1])


def _record(
    run: Play, rounds: Rounds, shape: Shape, measure: Measure, at: Ints | None, progress: Callable[[int], None]
) -> Trace:
    """Let `run` fill rankings chunk by chunk, so that memory does not grow with the horizon, and sum up."""
    n, m = len(rounds.offsets) - 1, shape.m
    at = np.arange(1, n + 1) if at is None else ascending("at", at, n)
    trace = Trace(at, np.empty(len(at)), np.empty(len(at), dtype=np.int64))
    chunk = chunk_length(m)
    rankings = np.empty(chunk * m, dtype=np.int64)
    running = np.zeros(2)
    for first in range(0, n, chunk):
        last = min(first + chunk, n)
        low, high = rounds.offsets[first], rounds.offsets[last]
        relevance = rounds.relevance[low:high]
        shown = rankings[: high - low]
        explored = run(rounds.features[low:high], relevance, rounds.offsets[first : last + 1] - low, shown)
        if shown.min() < 0 or shown.max() >= m:
            raise ValueError(f"a ranking holds something else than the items 0 to {m - 1}")
        values = measure.values(shown.reshape(-1, m), relevance.reshape(-1, m))
        values = _array(values, np.float64, (last - first,), f"values of {measure}")
        here = slice(*np.searchsorted(at, (first + 1, last + 1)))
        _add_up(values, explored, running, at[here] - first, trace.value[here], trace.explored[here])
        progress(last - first)
    return trace


@kernel
def _add_up(
    values: Floats, explored: NDArray[np.bool_], running: Floats, at: Ints, total: Floats, count: Ints
) -> None:
    """Running sums of values (NaN: skipped) and of explored rounds, noted after each number of rounds of `at`."""
    value, marks, i = running[0], running[1], 0
    for t in range(len(values)):
        if not np.isnan(values[t]):
            value += values[t]
        marks += explored[t]
        if i < len(at) and at[i] == t + 1:
            total[i] = value
            count[i] = int(marks)
            i += 1
    running[0], running[1] = value, marks


def chunk_length(m: int) -> int:
    """Rounds of m items to work on at a time: enough to forget the overhead, few enough to stay in cache."""
    return max(64, 2**17 // m)
