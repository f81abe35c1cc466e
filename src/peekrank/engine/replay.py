"""An agent from its log: the same rankings and answers, in the same order, make the same state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from peekrank.engine.agent import Agent
from peekrank.types import Decision

Log = Iterable[tuple[Decision, ArrayLike | None]]


def replay(agent: Agent, log: Log) -> Agent:
    """Let an agent live through a log, and return it: its state is then that of the agent which wrote the log.

    Parameters
    ----------
    agent
        An agent as the one that wrote the log was before its first entry: of the same learner, shape and seed.
    log
        What happened, in order: ``(decision, None)`` where it ranked, ``(decision, feedback)`` where it was told.

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
            made = agent.rank(X if X.shape[1] else None, available=decision.items)
            if not (np.array_equal(made.ranking, decision.ranking) and np.array_equal(made.token, decision.token)):
                raise ValueError(
                    f"entry {number} of the log: {made.ranking} is ranked here, and {decision.ranking} was there. "
                    "A log is replayed from its first entry, by an agent with the same learner, shape and seed"
                )
        else:
            agent.update(decision, feedback)
    return agent
