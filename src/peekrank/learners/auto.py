"""Auto: ridge, its feature map and rtopkf learn from the same answers, and evidence says who ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from peekrank._util.validate import check_int
from peekrank.learners._champion.base import ChampionLearner
from peekrank.measures import DCG
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import parse
from peekrank.types import Learner, LinearMeasure


@dataclass(frozen=True)
class Auto(ChampionLearner):
    """Rank lists with features by ridge until there is evidence that its feature map or rtopkf ranks better.

    A champion of three members: ridge, which needs the fewest answers; ridge with products of features as further
    columns, for relevance that is not linear in them; and rtopkf, whose estimates hold for the whole list
    whatever relevance depends on. docs/learners/auto.md has what choosing costs.

    Parameters
    ----------
    measure
        What members are compared by; must be separable.
    max_grade
        Largest relevance grade.
    expand
        Columns that the feature map adds at most: the time of a round grows with their square.
    alpha
        Probability of a promotion that was wrong, ever.
    share
        How often to ask about what is in dispute.

    >>> from peekrank import Agent
    >>> agent = Agent(Auto(), m=5, k=1, d=3)
    >>> [standing.member for standing in agent.learner.member_status(agent.state)]
    ['ridge', 'ridge:expand=1300', 'rtopkf']
    """

    measure: LinearMeasure = field(default=DCG(10), metadata={"read": measure_named})
    max_grade: int = 4
    expand: int = 1300
    alpha: float = 0.05
    share: float = 0.4
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        check_int("expand", self.expand, 1, 2000)
        self.check()

    def team(self) -> tuple[Learner, ...]:
        """The members, the first in charge at the beginning."""
        return tuple(
            parse("learner", LEARNERS, text) for text in ("ridge", f"ridge:expand={self.expand}", "rtopkf")
        )
