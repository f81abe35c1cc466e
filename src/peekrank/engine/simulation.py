"""Simulation over many rounds: `simulate` in a compiled loop, `play` in a plain Python loop with equal results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import compile_for, kernel, pinned, specialise, unspecialised
from peekrank._util.validate import check_ascending
from peekrank.engine.agent import Agent
from peekrank.engine.context import NO_KEY, context_of_rounds
from peekrank.engine.entry_points import Counts, ignore_key, ignore_scores, name_of, set_items_of
from peekrank.engine.feedback import (
    NOBODY,
    FeedbackSource,
    check_positions,
    reveal,
    reveal_clicks,
    reveal_relevance,
)
from peekrank.engine.rules import Rules
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

_CACHE = 2**22  # bytes of features that stay in the CPU's cache while learners take turns
_SHORTEST_TURN = 16  # rounds, so that switching learners costs little


class LearningStoppedWarning(UserWarning):
    """A learner has reached a state in which it stops learning."""


class Chunk(NamedTuple):
    """A chunk of rounds to run, with space for the results."""

    lists: Ints  # number of each round's list
    starts: Ints  # where each list begins in `relevance` and `rankings`
    relevance: NDArray[np.uint8]
    rankings: Ints  # filled with the rankings shown
    explored: NDArray[np.bool_]  # filled with whether the learner explored


class LoopMemory(NamedTuple):
    """Arrays that the compiled loop reads and writes in every round."""

    state: State
    counts: Counts
    source: FeedbackSource


class Run(Protocol):
    """The run of an agent over rounds, chunk by chunk."""

    def start(self, chunk: Chunk) -> None:
        """Start a chunk."""
        ...

    def advance(self, low: int, high: int) -> None:
        """Run rounds `low` to `high` of the chunk."""
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
    rules: Rules | None = None,
) -> Trace:
    """Run a learner over rounds in a compiled loop.

    Parameters
    ----------
    learner
        The learner.
    rounds
        Lists of items, with features if the learner uses them.
    k
        Number of items, from the top, whose relevance is revealed, or all of a shorter list. A learner with full
        information sees all.
    measure
        The measure that values each ranking shown.
    seed
        Random seed of the learner.
    sequence
        Number of the list that each round shows; None for all lists in order.
    checkpoints
        Numbers of rounds after which to record, ascending; None for all.
    progress
        Called with the number of rounds run since the last call. An exception raised there ends the run.
    rules
        Limits on the lists, except on blocked items and groups, which rounds do not have. The order of the list
        counts as the app's own. Rounds then take ten times longer.

    >>> from peekrank import DCG, RTop1F, CT15
    >>> rounds = CT15(m=10, noise=0.25).rounds(10_000, np.random.default_rng(1))
    >>> trace = simulate(RTop1F(DCG(), horizon=10_000), rounds, k=1, measure=DCG())
    >>> int(trace.explored[-1])  # 10 explorations in each of 215 blocks
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
        rules=rules,
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
    rules: Rules | None = None,
) -> list[Trace]:
    """Run several learners over the same rounds; each trace equals that of `simulate`, bit for bit.

    The learners take turns, a few rounds at a time, so that lists with many features are read from memory only
    once.

    Parameters
    ----------
    seeds
        Random seed of each learner.
    learners, rounds, k, measure, sequence, checkpoints, progress, rules
        As for `simulate`.
    """
    agents = [_agent(learner, rounds, k, seed, rules) for learner, seed in zip(learners, seeds, strict=True)]
    traces = run_agents(
        agents, rounds, measure=measure, sequence=sequence, checkpoints=checkpoints, progress=progress
    )
    for agent in agents:
        if reason := agent.failure():
            warnings.warn(f"{agent.learner.name}: {reason}", LearningStoppedWarning, stacklevel=2)
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
    """Advance agents over rounds in a compiled loop; equivalent to calling `rank` and `update` once per round.

    Parameters
    ----------
    agents
        The agents to advance. They keep what they learn.
    rounds, measure, sequence, checkpoints, progress
        As for `simulate`.

    >>> from peekrank import CT15, DCG, RTop1F
    >>> rounds = CT15().rounds(100, np.random.default_rng(1))
    >>> agent = Agent(RTop1F(DCG(), horizon=100), m=10, k=1)
    >>> (trace,) = run_agents([agent], rounds, measure=DCG())
    >>> len(trace.checkpoints), bool(agent.rank().token[2] > 1)  # it is in a later block now
    (100, True)
    """
    return _record([_run_of(agent, rounds) for agent in agents], rounds, measure, sequence, checkpoints, progress)


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
    """Run a learner over rounds with an `Agent` in Python: slower than `simulate`, but equal to it bit for bit.

    Parameters as for `simulate`.

    >>> from peekrank import DCG, RTop1F, CT15
    >>> rounds = CT15(m=10, noise=0.25).rounds(500, np.random.default_rng(1))
    >>> learner, options = RTop1F(DCG(), horizon=500), {"k": 1, "measure": DCG(), "seed": 3}
    >>> bool(np.array_equal(play(learner, rounds, **options).value, simulate(learner, rounds, **options).value))
    True
    """
    run = _PlainRun(_agent(learner, rounds, k, seed), rounds)
    (trace,) = _record([run], rounds, measure, sequence, checkpoints, progress)
    return trace


def _run_of(agent: Agent, rounds: Rounds) -> Run:
    """Return the run of an agent, in a compiled loop unless it has rules."""
    if agent.rules is None:
        return _CompiledRun(agent, rounds)
    if agent.rules.blocked or agent.rules.group:
        name = "blocked" if agent.rules.blocked else "group"
        raise ValueError(f"rules: rounds have all items and no groups, so leave {name} out")
    _check_fit(agent, rounds)
    return _PlainRun(agent, rounds)


def _agent(learner: Learner, rounds: Rounds, k: int, seed: Seed, rules: Rules | None = None) -> Agent:
    lengths = list_lengths(rounds)
    if learner.variable_length:
        m = int(lengths.max())
    elif rounds.items is None:
        m = list_shape(rounds)[1]
    else:
        m = known_items(rounds)
    return Agent(learner, m=m, k=k, d=rounds.features.shape[1], seed=seed, rules=rules)


class _PlainRun:
    """A run that calls the agent's `rank` and `update`, round by round."""

    def __init__(self, agent: Agent, rounds: Rounds) -> None:
        check_positions(rounds, agent.shape.k)
        self._agent, self._rounds = agent, rounds
        self._keys, self._scores = context_of_rounds(agent.learner, rounds)
        self._in_order = agent.rules is not None and agent.learner.kernels.set_items is not None

    def start(self, chunk: Chunk) -> None:
        """Start a chunk."""
        self._chunk = chunk

    def advance(self, low: int, high: int) -> None:
        """Run rounds `low` to `high` of the chunk."""
        chunk, (features, _, offsets, items) = self._chunk, self._rounds[:4]
        for t in range(low, high):
            n, span = chunk.lists[t], slice(chunk.starts[t], chunk.starts[t + 1])
            rows = slice(offsets[n], offsets[n + 1])
            said: dict[str, Any] = {}
            if len(self._keys) and self._keys[n] >= 0:
                said["key"] = self._keys[n]
            if len(self._scores):
                said["scores"] = self._scores[rows]
            if items is None or self._agent.learner.variable_length:
                X: Features | None = features[rows]
                if self._in_order:
                    X, said["available"] = X if features.shape[1] else None, np.arange(rows.stop - rows.start)
                decision = self._agent.rank(X, **said)
                ranking = decision.ranking
            else:
                X = features[rows] if features.shape[1] else None
                decision = self._agent.rank(X, available=items[rows], **said)
                ranking = np.searchsorted(items[rows], decision.ranking)
            seen = ranking[: self._agent.shape.k]
            self._agent.update(decision, reveal(self._rounds, n, seen, decision.round))
            chunk.rankings[span] = ranking
            chunk.explored[t] = decision.explored


class _CompiledRun:
    """A run that calls the agent's kernels on the agent's state, many rounds at a time."""

    def __init__(self, agent: Agent, rounds: Rounds) -> None:
        learner, shape = agent.learner, agent.shape
        lengths = _check_fit(agent, rounds)
        self._rng = agent._random.rewound_generator()
        feedback, token = np.empty(shape.k), np.zeros(learner.token_size(shape))
        everyone = np.arange(shape.m)
        items = everyone[:0] if rounds.items is None or learner.variable_length else rounds.items
        lists = rounds.features, rounds.offsets, items, everyone, *context_of_rounds(learner, rounds)
        source = FeedbackSource(rounds.visitors or NOBODY, agent._grades, np.empty(COINS * shape.k))
        memory = pinned(LoopMemory(agent._state, agent._counts, source))
        self._fixed = (memory, *lists, feedback, token)
        sizes, which = np.unique(lengths, return_inverse=True)
        self._draws = np.array([agent._n_uniforms(int(n)) for n in sizes])[which]
        self._uniforms = np.zeros((chunk_length(int(lengths.max())), self._draws.max()))
        numbers, marks = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        relevance = np.empty(0, dtype=np.uint8)
        loop = compiled_loop(learner.kernels, clicks=rounds.visitors is not None)
        self._loop = compile_for(loop, *self._fixed, self._uniforms, numbers, relevance, numbers, marks)

    def start(self, chunk: Chunk) -> None:
        """Start a chunk."""
        self._chunk = chunk

    def advance(self, low: int, high: int) -> None:
        """Run rounds `low` to `high` of the chunk."""
        lists, starts, relevance, rankings, explored = self._chunk
        span, rows = slice(low, high), slice(starts[low], starts[high])
        uniforms, draws = self._uniforms[: high - low], self._draws[lists[span]]
        if draws.min() == uniforms.shape[1]:
            self._rng.random(out=uniforms)
        else:  # as many for each round as an agent would draw
            uniforms[np.arange(uniforms.shape[1]) < draws[:, None]] = self._rng.random(draws.sum())
        self._loop(*self._fixed, uniforms, lists[span], relevance[rows], rankings[rows], explored[span])


def _check_fit(agent: Agent, rounds: Rounds) -> Ints:
    """Return the lengths of the lists. Raises ValueError if lists, features or grades do not fit the agent."""
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
    agent._check_features(rounds.features, "features")
    check_positions(rounds, shape.k)
    if (largest := int(rounds.relevance.max())) > learner.max_grade:
        raise ValueError(f"relevance {largest} occurs, but {learner.name} has max_grade = {learner.max_grade}")
    return lengths


@cache
def compiled_loop(kernels: Kernels, *, clicks: bool = False) -> Callable[..., None]:
    """Return the compiled loop over rounds for a learner's kernels, with relevance or clicks as feedback."""
    name = f"{name_of(kernels)}-clicks" if clicks else name_of(kernels)
    return specialise(
        _loop,
        name,
        inline_all=kernels.inline,
        _set_items=set_items_of(kernels),
        _set_key=kernels.set_key or ignore_key,
        _set_scores=kernels.set_scores or ignore_scores,
        _rank=kernels.rank,
        _update=kernels.update,
        _reveal=reveal_clicks if clicks else reveal_relevance,
    )


_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_items: Callable[[State, Ints], None] = unspecialised
_set_key: Callable[[State, int], None] = unspecialised
_set_scores: Callable[[State, Floats, Ints], None] = unspecialised
_reveal: Callable[[FeedbackSource, Counts, int, Ints, Grades, Ints, Floats], None] = unspecialised


def _loop(
    memory: LoopMemory,
    features: Features,
    offsets: Ints,
    items: Ints,
    everyone: Ints,
    keys: Ints,
    scores: Floats,
    feedback: Floats,
    token: Floats,
    uniforms: Floats,
    lists: Ints,
    relevance: NDArray[np.uint8],
    rankings: Ints,
    explored: NDArray[np.bool_],
) -> None:
    state, counts, source, start = memory.state, memory.counts, memory.source, 0
    for t in range(len(lists)):
        first, last = offsets[lists[t]], offsets[lists[t] + 1]
        X = features[first:last]
        listed = items[first:last] if len(items) > 0 else everyone
        ranking = rankings[start : start + len(X)]
        seen = feedback[: min(len(feedback), len(X))]
        token[:] = 0
        _set_items(state, listed)
        _set_key(state, keys[lists[t]] if len(keys) > 0 else NO_KEY)
        _set_scores(state, scores[first:last] if len(scores) > 0 else scores, everyone[: len(X)])
        _rank(state, X, uniforms[t], ranking, token)
        _reveal(source, counts, t, listed, relevance[start : start + len(X)], ranking, seen)
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
    """Run chunk by chunk, so that memory does not grow with the horizon, and sum up the values."""
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
            run.start(chunk)
        for low in range(0, len(lists), turn):
            for run in runs:
                run.advance(low, min(low + turn, len(lists)))
        reached = slice(*np.searchsorted(checkpoints, (first + 1, first + len(lists) + 1)))
        for trace, chunk, sums in zip(traces, chunks, running, strict=True):
            _add_up(
                value(chunk),
                chunk.explored,
                sums,
                checkpoints[reached] - first,
                trace.value[reached],
                trace.explored[reached],
            )
        progress(len(lists))
    return traces


def _numbers_of_lists(sequence: Ints, count: int) -> Ints:
    sequence = np.ascontiguousarray(sequence, dtype=np.int64)
    if sequence.ndim != 1 or len(sequence) == 0 or sequence.min() < 0 or sequence.max() >= count:
        raise ValueError(f"sequence: must be numbers of lists, from 0 to {count - 1}, one for each round")
    return sequence


def _relevance_of(rounds: Rounds, lists: Ints, starts: Ints) -> NDArray[np.uint8]:
    """Return the relevance of these lists, one after the other."""
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
    """Return a function that values each ranking of a chunk, by precomputed gains if the measure is linear."""
    linear = isinstance(measure, LinearMeasureMixin) and type(measure).values is LinearMeasureMixin.values
    if linear and lengths.min() < lengths.max():
        parts = precompute_values(cast("LinearMeasure", measure), rounds.relevance, rounds.offsets)
        return lambda chunk: parts.values(chunk.lists, chunk.rankings[: chunk.starts[-1]])
    return lambda chunk: values_of_lists(measure, chunk.rankings, chunk.relevance, chunk.starts)


@kernel
def _add_up(
    values: Floats, explored: NDArray[np.bool_], running: Floats, checkpoints: Ints, total: Floats, count: Ints
) -> None:
    """Record the running sums of values (NaN: skipped) and of explored rounds at each checkpoint."""
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
    """Return how many rounds of m items to run at a time: enough to hide overhead, few enough for the cache."""
    return max(64, 2**17 // m)
