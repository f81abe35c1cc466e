"""Learning in the shadow of somebody who chooses what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from peekrank.engine.border import line_of, whole_numbers
from peekrank.types import Decision

if TYPE_CHECKING:
    from peekrank.engine.agent import Agent


def shown_instead(
    agent: Agent, order: ArrayLike, features: ArrayLike | None = None, *, available: ArrayLike | None = None
) -> Decision:
    """A decision for an order that an app chose by itself and showed; its answers go to ``agent.update``.

    The chances are 1 for the first k of the order and 0 for all others: nothing was left to chance, and nothing
    about the others can be found out from the answers. A learner that divides answers by their chances is told so;
    one that cannot learn from rankings of others is refused.

    Parameters
    ----------
    agent
        Who is to learn.
    order
        The items in the order that was shown: their numbers, or rows of the features.
    features, available
        As for ``agent.rank``.

    >>> from peekrank import DCG, Agent, DoubtSort
    >>> agent = Agent(DoubtSort(DCG()), m=4, k=2)
    >>> decision = shown_instead(agent, [2, 0, 1, 3])
    >>> decision.ranking, decision.chances
    (array([2, 0, 1, 3]), array([1., 0., 1., 0.]))
    >>> agent.update(decision, [0, 1])
    >>> agent.summary().answers
    array([1, 0, 1, 0])
    """
    adopt = agent.learner.kernels.adopt
    if adopt is None:
        raise ValueError(
            f"{agent.learner.name} cannot learn from what somebody else showed: it needs its own questions. Use a "
            "learner that can, such as doubtsort, marginftrl, champion, ridge or rtopkf"
        )
    own = agent.rank(features, available=available)
    items = np.arange(len(own.ranking)) if own.items is None else own.items
    given = whole_numbers(np.asarray(order), len(items))
    if not np.array_equal(np.sort(given), items):
        raise ValueError(f"order = {line_of(given)}: must hold each of the items {line_of(items)} once")
    rows = np.searchsorted(items, given)
    chances = np.zeros(len(items))
    chances[rows[: agent.shape.k]] = 1
    token = own.token
    token[0] = 0
    adopt(agent._state, own.features, rows, chances, token)
    given.flags.writeable = chances.flags.writeable = False
    return own._replace(ranking=given, chances=chances)
