"""Auto: a champion of ridge, ridge with a feature map, and rtopkf."""

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
    """Rank lists with ridge until there is evidence that a feature map or rtopkf ranks better.

    Auto is a champion of three members. Ridge needs the fewest answers. Ridge with products of features as further
    columns is for relevance that is not linear in the features. The estimates of rtopkf with clip = 0 hold for the
    whole list in every case. docs/learners/auto.md says what the choice costs.

    Parameters
    ----------
    measure
        The measure that compares the members; must be separable.
    max_grade
        Largest relevance grade.
    expand
        Limit for the columns that the feature map adds. The time of a round grows with their square.
    alpha
        Probability that any promotion is ever wrong.
    share
        Amount of exploration where members disagree.

    >>> from peekrank import Agent
    >>> agent = Agent(Auto(), m=5, k=1, d=3)
    >>> [status.member for status in agent.learner.member_status(agent.state)]
    ['ridge', 'ridge:expand=1300', 'rtopkf:clip=0.0']
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
        """Return the members; the first is the champion at the start."""
        texts = ("ridge", f"ridge:expand={self.expand}", "rtopkf:clip=0")
        return tuple(parse("learner", LEARNERS, text) for text in texts)
