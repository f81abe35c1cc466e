"""Many rounds: `simulate` in a compiled loop, `play` the same in Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import compile_for, kernel, pinned, specialise, unspecialised
from peekrank._util.validate import check_ascending
from peekrank.engine.agent import Agent
from peekrank.engine.entry_points import Counts, name_of, set_items_of
from peekrank.engine.feedback import NOBODY, FeedbackSource, check_positions, reveal_clicks, reveal_relevance, tell
from peekrank.engine.scoring import precompute_values, values_of_lists
from peekrank.engine.validation import Seed
from peekrank.measures import LinearMeasureMixin
from peekrank.streams.click_stream import COINS
from peekrank.streams.fixed import known_items, list_lengths, list_shape
from peekrank.types import (
    Features,
    Floats,
    Grades,
    Ints,
    Kernels,
    Learner,
    LinearMeasure,
    Measure,
    Rounds,
    State,
    Trace,
)

_CACHE = 2**22  # bytes of features that learners who take turns find in cache
_SHORTEST_TURN = 16  # rounds, so that changing turns costs little


class LearningStoppedWarning(UserWarning):
    """A learner has come into a state from which it does not learn any more."""


class Chunk(NamedTuple):
    """Rounds to play: which lists, where each begins, their relevance; then what was shown and explored."""

    lists: Ints
    starts: Ints
    relevance: NDArray[np.uint8]
    rankings: Ints
    explored: NDArray[np.bool_]


class LoopMemory(NamedTuple):
    """What the compiled loop reads and writes in every round."""

    state: State
    counts: Counts
    listening: FeedbackSource


class Run(Protocol):
    """An agent on its way through rounds, a chunk at a time."""

    def begin(self, chunk: Chunk) -> None:
        """Take up a chunk."""
        ...

    def turn(self, low: int, high: int) -> None:
        """Play rounds `low` to `high` of the chunk."""
        ...


def simulate(
    learner: Learner,
    rounds: Rounds,
    *,
    k: int,
    measure: Measure,
    seed: Seed = 0,
    sequence: Ints | None = None,
    checkpoints: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trace:
    """Run a learner over rounds in a compiled loop.

    Parameters
    ----------
    learner
        Which learner.
    rounds
        What happens: lists of items, with features if the learner uses them.
    k
        Number of items, from the top, whose relevance is revealed; of a shorter list all. A learner with full
        information sees all.
    measure
        What each shown ranking is worth.
    seed
        Randomness of the learner.
    sequence
        Number of the list that each round shows; None for all lists in turn.
    checkpoints
        After which numbers of rounds to record, ascending; None for all.
    progress
        Called with the number of rounds done since the last call; an exception raised there ends the run.

    >>> from peekrank import DCG, RTop1F, CT15
    >>> rounds = CT15(m=10, noise=0.25).rounds(10_000, np.random.default_rng(1))
    >>> trace = simulate(RTop1F(DCG(), horizon=10_000), rounds, k=1, measure=DCG())
    >>> int(trace.explored[-1])  # 10 questions in each of 215 blocks
    2150
    """
    (trace,) = simulate_all(
        [learner],
        rounds,
        k=k,
        measure=measure,
        seeds=[seed],
        sequence=sequence,
        checkpoints=checkpoints,
        progress=progress,
    )
    return trace


def simulate_all(
    learners: Sequence[Learner],
    rounds: Rounds,
    *,
    k: int,
    measure: Measure,
    seeds: Sequence[Seed],
    sequence: Ints | None = None,
    checkpoints: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Trace]:
    """Run several learners over the same rounds; each trace is what `simulate` gives, bit for bit.

    The learners take turns, a few rounds at a time: lists with many features are read from memory once for all.

    Parameters
    ----------
    seeds
        Randomness of each learner.
    learners, rounds, k, measure, sequence, at, progress
        As for `simulate`.
    """
    agents = [_agent(learner, rounds, k, seed) for learner, seed in zip(learners, seeds, strict=True)]
    traces = run_agents(
        agents, rounds, measure=measure, sequence=sequence, checkpoints=checkpoints, progress=progress
    )
    for agent in agents:
        if what := agent.failure():
            warnings.warn(f"{agent.learner.name}: {what}", LearningStoppedWarning, stacklevel=2)
    return traces


def run_agents(
    agents: Sequence[Agent],
    rounds: Rounds,
    *,
    measure: Measure,
    sequence: Ints | None = None,
    checkpoints: Ints | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Trace]:
    """Let agents go on over rounds in a compiled loop, as if each had been asked and told one by one.

    Parameters
    ----------
    agents
        Who is to go on; they have learned when it is done, and can be dumped.
    rounds, measure, sequence, at, progress
        As for `simulate`.

    >>> from peekrank import CT15, DCG, RTop1F
    >>> rounds = CT15().rounds(100, np.random.default_rng(1))
    >>> agent = Agent(RTop1F(DCG(), horizon=100), m=10, k=1)
    >>> (trace,) = run_agents([agent], rounds, measure=DCG())
    >>> len(trace.checkpoints), bool(agent.rank().token[2] > 1)  # it is in a later block now
    (100, True)
    """
    return _record(
        [_CompiledRun(agent, rounds) for agent in agents], rounds, measure, sequence, checkpoints, progress
    )


def play(
    learner: Learner,
    rounds: Rounds,
    *,
    k: int,
    measure: Measure,
    seed: Seed = 0,
    sequence: Ints | None = None,
    checkpoints: Ints | None = None,
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
    run = _PlainRun(_agent(learner, rounds, k, seed), rounds)
    (trace,) = _record([run], rounds, measure, sequence, checkpoints, progress)
    return trace


def _agent(learner: Learner, rounds: Rounds, k: int, seed: Seed) -> Agent:
    lengths = list_lengths(rounds)
    if learner.variable_length:
        m = int(lengths.max())
    elif rounds.items is None:
        m = list_shape(rounds)[1]
    else:
        m = known_items(rounds)
    return Agent(learner, m=m, k=k, d=rounds.features.shape[1], seed=seed)


class _PlainRun:
    """Asks the agent and tells it, round by round."""

    def __init__(self, agent: Agent, rounds: Rounds) -> None:
        check_positions(rounds, agent.shape.k)
        self._agent, self._rounds = agent, rounds

    def begin(self, chunk: Chunk) -> None:
        """Take up a chunk."""
        self._chunk = chunk

    def turn(self, low: int, high: int) -> None:
        """Play rounds `low` to `high` of the chunk."""
        chunk, (features, _, offsets, items, _) = self._chunk, self._rounds
        for t in range(low, high):
            n, here = chunk.lists[t], slice(chunk.starts[t], chunk.starts[t + 1])
            rows = slice(offsets[n], offsets[n + 1])
            if items is None or self._agent.learner.variable_length:
                decision = self._agent.rank(features[rows])
                ranking = decision.ranking
            else:
                decision = self._agent.rank(available=items[rows])
                ranking = np.searchsorted(items[rows], decision.ranking)
            seen = ranking[: self._agent.shape.k]
            self._agent.update(decision, tell(self._rounds, n, seen, decision.round))
            chunk.rankings[here] = ranking
            chunk.explored[t] = decision.explored


class _CompiledRun:
    """Calls the agent's kernels on the agent's state, many rounds at a time."""

    def __init__(self, agent: Agent, rounds: Rounds) -> None:
        learner, shape = agent.learner, agent.shape
        lengths = _fitting(agent, rounds)
        self._rng = agent._random.rewound_generator()
        feedback, token = np.empty(shape.k), np.zeros(learner.token_size(shape))
        everyone = np.arange(shape.m)
        items = everyone[:0] if rounds.items is None or learner.variable_length else rounds.items
        lists = rounds.features, rounds.offsets, items, everyone
        listening = FeedbackSource(rounds.visitors or NOBODY, agent._grades, np.empty(COINS * shape.k))
        memory = pinned(LoopMemory(agent._state, agent._counts, listening))
        self._fixed = (memory, *lists, feedback, token)
        sizes, which = np.unique(lengths, return_inverse=True)
        self._draws = np.array([agent._n_uniforms(int(n)) for n in sizes])[which]
        self._uniforms = np.zeros((chunk_length(int(lengths.max())), self._draws.max()))
        numbers, marks = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        relevance = np.empty(0, dtype=np.uint8)
        loop = compiled_loop(learner.kernels, clicks=rounds.visitors is not None)
        self._loop = compile_for(loop, *self._fixed, self._uniforms, numbers, relevance, numbers, marks)

    def begin(self, chunk: Chunk) -> None:
        """Take up a chunk."""
        self._chunk = chunk

    def turn(self, low: int, high: int) -> None:
        """Play rounds `low` to `high` of the chunk."""
        lists, starts, relevance, rankings, explored = self._chunk
        these, rows = slice(low, high), slice(starts[low], starts[high])
        drawn, wanted = self._uniforms[: high - low], self._draws[lists[these]]
        if wanted.min() == drawn.shape[1]:
            self._rng.random(out=drawn)
        else:  # as many for each round as an agent would draw
            drawn[np.arange(drawn.shape[1]) < wanted[:, None]] = self._rng.random(wanted.sum())
        self._loop(*self._fixed, drawn, lists[these], relevance[rows], rankings[rows], explored[these])


def _fitting(agent: Agent, rounds: Rounds) -> Ints:
    """The lengths of the lists, if they, their features and their grades are what the agent was made for."""
    learner, shape = agent.learner, agent.shape
    lengths, d = list_lengths(rounds), rounds.features.shape[1]
    if learner.variable_length:
        fits = lengths.max() <= shape.m
    elif rounds.items is None:
        fits = lengths.min() == lengths.max() == shape.m and not agent._counts.retired.any()
    else:
        agent._require_items()
        fits = known_items(rounds) <= shape.m and not agent._counts.retired[rounds.items].any()
    if not fits or d != shape.d:
        raise ValueError(
            f"lists of up to {lengths.max()} items with {d} features: the agent was made for {shape.m} items with "
            f"{shape.d} features"
        )
    check_positions(rounds, shape.k)
    if (largest := int(rounds.relevance.max())) > learner.max_grade:
        raise ValueError(f"relevance {largest} occurs, but {learner.name} has max_grade = {learner.max_grade}")
    return lengths


@cache
def compiled_loop(kernels: Kernels, *, clicks: bool = False) -> Callable[..., None]:
    """The loop over rounds for the kernels of a learner, which is told relevance, or what is made of clicks."""
    name, told = (f"{name_of(kernels)}-clicks", reveal_clicks) if clicks else (name_of(kernels), reveal_relevance)
    set_items = set_items_of(kernels)
    return specialise(
        _loop, name, inline_all=True, _set_items=set_items, _rank=kernels.rank, _update=kernels.update, _tell=told
    )


_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_items: Callable[[State, Ints], None] = unspecialised
_tell: Callable[[FeedbackSource, Counts, int, Ints, Grades, Ints, Floats], None] = unspecialised


def _loop(
    memory: LoopMemory,
    features: Features,
    offsets: Ints,
    items: Ints,
    everyone: Ints,
    feedback: Floats,
    token: Floats,
    uniforms: Floats,
    lists: Ints,
    relevance: NDArray[np.uint8],
    rankings: Ints,
    explored: NDArray[np.bool_],
) -> None:
    state, counts, listening, start = memory.state, memory.counts, memory.listening, 0
    for t in range(len(lists)):
        first, last = offsets[lists[t]], offsets[lists[t] + 1]
        X = features[first:last]
        here = items[first:last] if len(items) > 0 else everyone
        ranking = rankings[start : start + len(X)]
        seen = feedback[: min(len(feedback), len(X))]
        token[:] = 0
        _set_items(state, here)
        _rank(state, X, uniforms[t], ranking, token)
        _tell(listening, counts, t, here, relevance[start : start + len(X)], ranking, seen)
        _update(state, X, ranking, token, seen)
        explored[t] = token[0] > 0
        start += len(X)
    counts.rounds[0] += len(lists)


def _record(
    runs: Sequence[Run],
    rounds: Rounds,
    measure: Measure,
    sequence: Ints | None,
    checkpoints: Ints | None,
    progress: Callable[[int], None],
) -> list[Trace]:
    """Let each run fill rankings chunk by chunk, so that memory does not grow with the horizon, and sum up."""
    lengths = list_lengths(rounds)
    sequence = np.arange(len(lengths)) if sequence is None else _numbers_of_lists(sequence, len(lengths))
    n, m = len(sequence), int(lengths.max())
    checkpoints = np.arange(1, n + 1) if checkpoints is None else check_ascending("checkpoints", checkpoints, n)
    traces = [
        Trace(checkpoints, np.empty(len(checkpoints)), np.empty(len(checkpoints), dtype=np.int64)) for _ in runs
    ]
    running = np.zeros((len(runs), 2))
    value = _evaluation(measure, rounds, lengths)
    length = chunk_length(m)
    turn = length if len(runs) == 1 else max(_SHORTEST_TURN, _CACHE // (4 * m * (1 + rounds.features.shape[1])))
    rankings, explored = np.empty((len(runs), length * m), np.int64), np.empty((len(runs), length), np.bool_)
    for first in range(0, n, length):
        lists = sequence[first : first + length]
        starts = np.append(0, np.cumsum(lengths[lists]))
        relevance = _relevance_of(rounds, lists, starts)
        chunks = [Chunk(lists, starts, relevance, *filled) for filled in zip(rankings, explored, strict=True)]
        for run, chunk in zip(runs, chunks, strict=True):
            run.begin(chunk)
        for low in range(0, len(lists), turn):
            for run in runs:
                run.turn(low, min(low + turn, len(lists)))
        here = slice(*np.searchsorted(checkpoints, (first + 1, first + len(lists) + 1)))
        for trace, chunk, sums in zip(traces, chunks, running, strict=True):
            _add_up(
                value(chunk),
                chunk.explored,
                sums,
                checkpoints[here] - first,
                trace.value[here],
                trace.explored[here],
            )
        progress(len(lists))
    return traces


def _numbers_of_lists(sequence: Ints, count: int) -> Ints:
    sequence = np.ascontiguousarray(sequence, dtype=np.int64)
    if sequence.ndim != 1 or len(sequence) == 0 or sequence.min() < 0 or sequence.max() >= count:
        raise ValueError(f"sequence: must be numbers of lists, from 0 to {count - 1}, one for each round")
    return sequence


def _relevance_of(rounds: Rounds, lists: Ints, starts: Ints) -> NDArray[np.uint8]:
    """The relevance of these lists, one after the other."""
    first, last = rounds.offsets[lists[0]], rounds.offsets[lists[-1] + 1]
    if np.all(np.diff(lists) == 1):
        return rounds.relevance[first:last]
    relevance = np.empty(starts[-1], dtype=np.uint8)
    _gather(rounds.relevance, rounds.offsets, lists, relevance)
    return relevance


@kernel
def _gather(relevance: NDArray[np.uint8], offsets: Ints, lists: Ints, out: NDArray[np.uint8]) -> None:
    start = 0
    for n in lists:
        for row in range(offsets[n], offsets[n + 1]):
            out[start] = relevance[row]
            start += 1


def _evaluation(measure: Measure, rounds: Rounds, lengths: Ints) -> Callable[[Chunk], Floats]:
    """What gives the value of each ranking of a chunk: sums of gains, if that is what the measure is."""
    linear = isinstance(measure, LinearMeasureMixin) and type(measure).values is LinearMeasureMixin.values
    if linear and lengths.min() < lengths.max():
        worth = precompute_values(cast("LinearMeasure", measure), rounds.relevance, rounds.offsets)
        return lambda chunk: worth.values(chunk.lists, chunk.rankings[: chunk.starts[-1]])
    return lambda chunk: values_of_lists(measure, chunk.rankings, chunk.relevance, chunk.starts)


@kernel
def _add_up(
    values: Floats, explored: NDArray[np.bool_], running: Floats, checkpoints: Ints, total: Floats, count: Ints
) -> None:
    """Running sums of values (NaN: skipped) and of explored rounds, noted after each number of rounds of `checkpoints`."""
    value, marks, i = running[0], running[1], 0
    for t in range(len(values)):
        if not np.isnan(values[t]):
            value += values[t]
        marks += explored[t]
        if i < len(checkpoints) and checkpoints[i] == t + 1:
            total[i] = value
            count[i] = int(marks)
            i += 1
    running[0], running[1] = value, marks


def chunk_length(m: int) -> int:
    """Rounds of m items to work on at a time: enough to forget the overhead, few enough to stay in cache."""
    return max(64, 2**17 // m)
