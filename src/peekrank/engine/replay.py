"""Replay: rebuild an agent from a log of its rankings and feedback."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from peekrank.engine.agent import Agent
from peekrank.types import Decision

Log = Iterable[tuple[Decision, ArrayLike | None]]


def replay(agent: Agent, log: Log) -> Agent:
    """Replay a log with an agent and return it, in the state of the agent that wrote the log.

    Raises ValueError if the agent ranks differently from the log.

    Parameters
    ----------
    agent
        A new agent with the learner, shape and seed of the one that wrote the log.
    log
        The events in order: ``(decision, None)`` for a ranking, ``(decision, feedback)`` for its feedback.

    >>> from peekrank import Agent, BlockFTRL, DCG, replay
    >>> agent, log = Agent(BlockFTRL(DCG()), m=4, k=1, seed=7), []
    >>> for t in range(100):
    ...     decision = agent.rank()
    ...     log.append((decision, None))
    ...     if t % 3 == 0:
    ...         agent.update(decision, [decision.ranking[0] == 2])
    ...         log.append((decision, [decision.ranking[0] == 2]))
    >>> replay(Agent(BlockFTRL(DCG()), m=4, k=1, seed=7), log).dump() == agent.dump()
    True
    """
    for number, (decision, feedback) in enumerate(log):
        if feedback is None:
            X = decision.features
            items, listed = decision.items, decision.listed
            if items is not None and listed is not None:
                X = X if len(items) == agent.shape.m else X[listed]
                items = items[listed]
            applied = decision.applied
            new = agent.rank(
                X if X.shape[1] else None,
                available=items,
                scores=decision.scores,
                key=decision.key,
                version=decision.version,
                pins=applied.pins if applied else None,
                groups=applied.groups if applied else None,
            )
            if not (np.array_equal(new.ranking, decision.ranking) and np.array_equal(new.token, decision.token)):
                raise ValueError(
                    f"entry {number} of the log: replay ranks {new.ranking}, but the log has {decision.ranking}. "
                    "Replay a log from its first entry, with an agent of the same learner, shape and seed"
                )
        else:
            agent.update(decision, feedback)
    return agent
