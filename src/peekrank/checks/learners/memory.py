"""What is remembered: all of it is saved and checked when it is read, and it does not grow."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from peekrank.checks.common import require
from peekrank.checks.learners import problem
from peekrank.engine import Agent
from peekrank.engine.serialization import arrays_of
from peekrank.types import Learner, State


def dump_resumes(learner: Learner) -> None:
    """An agent that was dumped and loaded goes on as if nothing had happened."""
    relevance = problem.relevance(learner)
    agent = problem.agent(learner)
    for row in relevance[: problem.ROUNDS // 2]:
        problem.step(agent, row)
    still_open = problem.rank(agent)
    copy = Agent.load(agent.dump(), learner)
    for one in (agent, copy):
        one.update(still_open, relevance[0][still_open.ranking[: one.shape.k]])
    for row in relevance[problem.ROUNDS // 2 :]:
        require(
            np.array_equal(problem.step(agent, row).ranking, problem.step(copy, row).ranking),
            "trajectories part after load",
        )


def says_whether_rank_is_remembered(learner: Learner) -> None:
    """`counts_rounds` is said if rankings that nobody answers change its memory: then answers alone do not make it."""
    agent = problem.agent(learner)
    for row in problem.relevance(learner)[:20]:
        problem.step(agent, row)
    before = {name: array.copy() for name, array in arrays_of(agent.state) if name in learner.persistent}
    for _ in range(20):
        problem.rank(agent)
    changed = [name for name, array in arrays_of(agent.state) if name in before and np.any(array != before[name])]
    require(
        learner.kernels.counts_rounds or not changed,
        f"rank changes {', '.join(changed)}, and it is not counts_rounds",
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
    """The present best order, the summary and the state can be looked at, and nothing is spent or changed."""
    agent = problem.agent(learner)
    for row in problem.relevance(learner)[:20]:
        problem.step(agent, row)
    before = agent.dump()
    order = agent.best_ranking(problem.features(learner))
    require(np.array_equal(np.sort(order), np.arange(problem.M)), f"its order {order} is not a permutation")
    require(np.isfinite(agent.summary().estimate).all(), "its summary is not finite")
    repr(agent), agent.state
    require(agent.dump() == before, "order, summary, repr or state change the agent")


def memory_is_constant(learner: Learner) -> None:
    """What an agent keeps does not grow with the number of rounds."""
    agent = problem.agent(learner)
    relevance = problem.relevance(learner)
    problem.step(agent, relevance[0])
    before = len(agent.dump())
    for row in relevance:
        problem.step(agent, row)
    require(len(agent.dump()) < before + 500, "a dump grows with the number of rounds")
