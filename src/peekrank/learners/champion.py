"""Champion: a learner in charge, and challengers that take over when it is proved that they are better."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from peekrank.learners._champion.base import ChampionLearner
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import members_of_text, parse
from peekrank.types import Learner, LinearMeasure


def _members(text: str, **context: Any) -> tuple[Learner, ...]:
    return tuple(parse("learner", LEARNERS, one, **context) for one in members_of_text(text))


@dataclass(frozen=True)
class Champion(ChampionLearner):
    """Rank with the learner in charge; promote a challenger when evidence says that it is better, never sooner.

    All members learn from all answers, whoever chose what was shown. Each says in each round which order it takes
    for best. The difference of the values of two such orders is estimated from the answers, divided by their
    propensities to be seen. A challenger takes over as soon as a confidence sequence for the mean of these
    differences is above 0: it holds at all times at once, and the probability that anybody is ever promoted who
    was not better over the rounds of the evidence is alpha at most. Evidence is collected anew after each
    promotion, and whenever the number of answered rounds has doubled, for learners learn.

    What members do not agree about must be seen now and then: an item to which two members give positions that
    differ by a weight of d (the first position has 1, the last 0) is asked about at position k with a probability
    in proportion to ``share d t^(-1/3)`` over the weight of position k, t being the round in which the period
    began. docs/learners/champion.md has the exact propensities, their price, theorem and proof.

    Parameters
    ----------
    measure
        What members are compared by, and learn if they need a measure; must be separable.
    members
        Two learners or more, the first in charge; none for doubtsort and marginftrl: the one for stable relevance,
        the other in case it is not.
    max_grade
        Largest relevance grade.
    alpha
        Probability of a promotion that was wrong, ever.
    share
        How often to ask about what is in dispute.

    >>> from peekrank import Agent, DCG
    >>> agent = Agent(Champion(DCG()), m=3, k=1, seed=0)
    >>> for _ in range(200):
    ...     decision = agent.rank()
    ...     agent.update(decision, [int(decision.ranking[0] == 2)])  # item 2 is liked, the others are not
    >>> agent.learner.champion(agent.state).name, agent.learner.promotions(agent.state)
    ('doubtsort', [])
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    members: tuple[Learner, ...] = field(default=(), metadata={"read_members": _members})
    max_grade: int = 1
    alpha: float = 0.05
    share: float = 0.4
    name: ClassVar[str] = "champion"

    def __post_init__(self) -> None:
        self.check()

    def team(self) -> tuple[Learner, ...]:
        """The members, the first in charge at the beginning."""
        context = {"measure": self.measure, "max_grade": self.max_grade}
        return self.members or _members("doubtsort;marginftrl", **context)
