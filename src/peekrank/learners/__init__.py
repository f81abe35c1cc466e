"""Learners, one file or folder each, imported on first use. `learner` builds one from its specification.

Learners share `_shared`, `_finite_games` and `_champion`, and never import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peekrank.registry import LEARNERS
from peekrank.spec import parse

if TYPE_CHECKING:
    from peekrank.learners.auto import Auto
    from peekrank.learners.blockftrl import BlockFTRL
    from peekrank.learners.champion import Champion
    from peekrank.learners.doubtsort import DoubtSort
    from peekrank.learners.feedexp3.learner import FeedExp3
    from peekrank.learners.ftpl import FTPL
    from peekrank.learners.greedy import Greedy
    from peekrank.learners.marginftrl.learner import MarginFTRL
    from peekrank.learners.mixed.learner import Mixed
    from peekrank.learners.nw2.learner import NW2
    from peekrank.learners.permftrl import PermFTRL
    from peekrank.learners.ridge.learner import Ridge
    from peekrank.learners.rtop1f import RTop1F
    from peekrank.learners.rtopkf.learner import RTopKF
    from peekrank.learners.setftrl import SetFTRL
    from peekrank.learners.thompson import Thompson
    from peekrank.learners.ucb import UCB
    from peekrank.learners.uniform import Uniform
    from peekrank.types import Learner

FINITE = ("nw2", "feedexp3")  # these enumerate all actions of a game, which takes time


def learner(text: str, **context: Any) -> Learner:
    """Build the learner that a specification names.

    `context` fills fields that the specification leaves open, if the learner has them.

    >>> from peekrank.measures import DCG
    >>> learner("rtop1f:order=fixed", measure=DCG(), horizon=10_000)
    RTop1F(measure=DCG(cutoff=None, gains='exponential'), horizon=10000, max_grade=1, order='fixed', ...)
    """
    made: Learner = parse("learner", LEARNERS, text, **context)
    return made


__all__ = [
    "FTPL",
    "NW2",
    "UCB",
    "Auto",
    "BlockFTRL",
    "Champion",
    "DoubtSort",
    "FeedExp3",
    "Greedy",
    "MarginFTRL",
    "Mixed",
    "PermFTRL",
    "RTop1F",
    "RTopKF",
    "Ridge",
    "SetFTRL",
    "Thompson",
    "Uniform",
    "learner",
]


def __getattr__(name: str) -> Any:
    return LEARNERS.built_in_class(name)
