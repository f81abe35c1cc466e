"""Champion: a learner that ranks, and challengers that replace it once the evidence shows they are better."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from peekrank.learners._champion.base import ChampionLearner, check_number_of_members
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import members_of_text, parse
from peekrank.types import Learner, LinearMeasure


def _members(text: str, **context: Any) -> tuple[Learner, ...]:
    """Parse the members. Rejects too many or nested ones before any is made, since a saved agent may name them."""
    texts = members_of_text(text)
    check_number_of_members(len(texts))
    for one in texts:
        name = one.partition(":")[0]
        if name in LEARNERS and issubclass(LEARNERS[name], ChampionLearner):
            raise ValueError(f"members: {name} cannot be a member, because it has members itself")
    return tuple(parse("learner", LEARNERS, one, **context) for one in texts)


@dataclass(frozen=True)
class Champion(ChampionLearner):
    """Rank with the champion, and promote a challenger once the evidence shows that it is better.

    All members learn from all answers, whichever of them chose the ranking. In each round every member computes
    its best order. The difference in value between two such orders is estimated from the answers, divided by their
    propensities. A challenger becomes the champion as soon as a confidence sequence for the mean of these
    differences is above 0. The sequence holds at all times at once: the probability that a member is ever promoted
    that was not better over the rounds of the evidence is at most alpha. Because members keep learning, evidence
    restarts after each promotion and whenever the number of answered rounds has doubled.

    The champion explores where members disagree. If two members give an item positions whose weights differ by d
    (the first position has 1, the last 0), the item is shown at position k with a probability in proportion to
    ``share d t^(-1/3)`` over the weight of position k, where t is the round in which the period began.
    docs/learners/champion.md gives the exact propensities; docs/theory/champion.md has the theorem, its cost and
    the proof.

    Parameters
    ----------
    measure
        The measure that compares the members, and that they optimise if they need one; must be separable.
    members
        Two to five learners; the first is the champion at the start. The default is doubtsort, for stable
        relevance, and marginftrl, in case it is not stable.
    max_grade
        Largest relevance grade.
    alpha
        Probability that any promotion is ever wrong.
    share
        Amount of exploration where members disagree.

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
        """Return the members; the first is the champion at the start."""
        context = {"measure": self.measure, "max_grade": self.max_grade}
        return self.members or _members("doubtsort;marginftrl", **context)
