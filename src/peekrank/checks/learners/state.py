"""Checks of a learner's state: it is saved completely, validated when loaded, and does not grow."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from peekrank.checks.common import require
from peekrank.checks.learners import problem
from peekrank.engine import Agent
from peekrank.engine.serialization import arrays_of
from peekrank.types import Learner, State


def dump_resumes(learner: Learner) -> None:
    """Check that an agent that was dumped and loaded continues exactly as the original."""
    relevance = problem.relevance(learner)
    agent = problem.agent(learner)
    for row in relevance[: problem.ROUNDS // 2]:
        problem.step(agent, row)
    open_decision = problem.rank(agent)
    copy = Agent.load(agent.dump(), learner)
    for one in (agent, copy):
        one.update(open_decision, relevance[0][open_decision.ranking[: one.shape.k]])
    for row in relevance[problem.ROUNDS // 2 :]:
        require(
            np.array_equal(problem.step(agent, row).ranking, problem.step(copy, row).ranking),
            "the trajectories diverge after load",
        )


def says_whether_rank_is_remembered(learner: Learner) -> None:
    """Check that `counts_rounds` is set if rankings without feedback change the persistent state."""
    agent = problem.agent(learner)
    for row in problem.relevance(learner)[:20]:
        problem.step(agent, row)
    before = {name: array.copy() for name, array in arrays_of(agent.state) if name in learner.persistent}
    for _ in range(20):
        problem.rank(agent)
    changed = [name for name, array in arrays_of(agent.state) if name in before and np.any(array != before[name])]
    require(
        learner.kernels.counts_rounds or not changed,
        f"rank changes {', '.join(changed)}, but counts_rounds is not set",
    )


def damaged_memory_is_refused(learner: Learner) -> None:
    """`validate_state` checks every persistent array: it rejects one that is NaN or below zero everywhere."""
    agent = problem.agent(learner)
    for row in problem.relevance(learner)[:20]:
        problem.step(agent, row)
    error = _validation_error(learner, agent.state)
    require(not error, f"validate_state raises '{error}' for a valid state")
    for name in learner.persistent:
        state = deepcopy(agent.state)
        array = dict(arrays_of(state))[name]
        if array.size:
            array.flags.writeable = True
            array[...] = np.nan if array.dtype.kind == "f" else -1
            error = _validation_error(learner, state)
            require(error, f"validate_state accepts a state whose {name} is {array.flat[0]} everywhere")


def _validation_error(learner: Learner, state: State) -> str:
    """Return the message of the ValueError that `validate_state` raises, or an empty string."""
    try:
        learner.validate_state(state)
    except ValueError as error:
        return str(error) or "a ValueError without a message"
    return ""


def looking_changes_nothing(learner: Learner) -> None:
    """Check that the best ranking, the summary and the state can be read without changing the agent."""
    agent = problem.agent(learner)
    for row in problem.relevance(learner)[:20]:
        problem.step(agent, row)
    before = agent.dump()
    order = agent.best_ranking(problem.features(learner))
    require(np.array_equal(np.sort(order), np.arange(problem.M)), f"its best ranking {order} is not a permutation")
    require(np.isfinite(agent.summary().estimate).all(), "its summary is not finite")
    repr(agent), agent.state
    require(agent.dump() == before, "best_ranking, summary, repr or state changes the agent")


def memory_is_constant(learner: Learner) -> None:
    """Check that the size of an agent does not grow with the number of rounds."""
    agent = problem.agent(learner)
    relevance = problem.relevance(learner)
    problem.step(agent, relevance[0])
    before = len(agent.dump())
    for row in relevance:
        problem.step(agent, row)
    require(len(agent.dump()) < before + 500, "a dump grows with the number of rounds")
