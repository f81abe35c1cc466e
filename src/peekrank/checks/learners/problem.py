"""The small problem that learners are checked on: six items, k = 2, a few hundred rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from peekrank._jit import compile_for, pinned
from peekrank.engine import Agent, problem_shape, simulate
from peekrank.streams import fixed_items
from peekrank.types import Decision, Features, Floats, Grades, Ints, Learner, Rounds, Shape, State

M, K, ROUNDS = 6, 2, 300
FEATURES = np.random.default_rng(3).normal(size=(M, 4)).astype(np.float32)


def agent(learner: Learner, seed: int = 0) -> Agent:
    """Make a new agent."""
    return Agent(learner, m=M, k=K, d=features(learner).shape[1], seed=seed)


def shape(learner: Learner) -> Shape:
    """Return the shape of the problem for this learner."""
    return problem_shape(learner, m=M, k=K, d=features(learner).shape[1])


def features(learner: Learner) -> Features:
    """Return the features of the items, without columns if the learner uses none."""
    return FEATURES if learner.contextual else FEATURES[:, :0]


def on_state(kernel: Callable[..., Any], state: State, *arguments: Any) -> Callable[..., Any]:
    """Compile a kernel that works on a state, for other arguments of exactly these types.

    The state is passed by its address: code that takes large states apart takes many seconds to compile.
    """
    address = pinned(state)
    return partial(compile_for(kernel, address, *arguments), address)


def with_features(learner: Learner, relevance: Grades) -> Rounds:
    """Make rounds over the same items."""
    return fixed_items(relevance)._replace(features=np.tile(features(learner), (len(relevance), 1)))


def relevance(learner: Learner, seed: int = 0) -> Grades:
    """Draw random grades of all rounds."""
    top = min(learner.max_grade, 4)
    return np.random.default_rng(seed).integers(0, top + 1, size=(ROUNDS, M), dtype=np.uint8)


def step(agent: Agent, relevance: Grades) -> Decision:
    """Run one round with feedback."""
    decision = rank(agent)
    agent.update(decision, relevance[decision.ranking[: agent.shape.k]])
    return decision


def rank(agent: Agent) -> Decision:
    """Rank all items."""
    return agent.rank(features(agent.learner))


def shown(learner: Learner, relevance: Grades) -> Ints:
    """Return all rankings that a simulation shows."""
    recorder = _Recorder()
    simulate(learner, with_features(learner, relevance), k=K, measure=recorder)
    return np.concatenate(recorder.rankings)


class _Recorder:
    """A measure that records all rankings and gives each the value 0."""

    name: ClassVar[str] = "recorder"
    higher_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.rankings: list[Ints] = []

    def values(self, rankings: Ints, relevance: Any) -> Floats:  # noqa: ARG002
        self.rankings.append(rankings.copy())
        return np.zeros(len(rankings))
