"""Base class of champion and auto, which differ in their members."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_int, check_positive, check_unit
from peekrank.learners._champion.comparison import limits
from peekrank.learners._champion.kernels import champion_kernels, lacking
from peekrank.learners._champion.state import (
    CAUTION,
    CHAMPION,
    FLOOR,
    KEPT,
    MIN_PART,
    PERSISTENT,
    PROMOTIONS,
    ROUNDS,
    START,
    WEIGHTS,
    ChampionState,
    joined,
    members_of,
    no_evidence,
    no_history,
)
from peekrank.learners._shared import check_counts, check_numbers, discount_of, largest_gain
from peekrank.measures import learnable
from peekrank.spec import format_spec
from peekrank.types import CanFail, Features, Floats, Kernels, Learner, LinearMeasure, Shape

_COST = 1.9  # above 1.5 x 2^(1/3): the sum of (t / 2)^(-1/3) over t to T, in units of T^(2/3)
_MAX_MEMBERS = 5  # every member adds seconds of compilation


def check_number_of_members(n: int) -> None:
    """Raise ValueError if a champion cannot have this many members."""
    if not 2 <= n <= _MAX_MEMBERS:
        raise ValueError(
            f"members = {n}: must be two to {_MAX_MEMBERS} learners, as in members=[doubtsort;marginftrl]"
        )


class Promotion(NamedTuple):
    """A change of champion and its evidence: the difference in value per round of the period.

    The interval holds at all times at once, so it may be read after every answer.
    """

    round: int  # number of answered rounds
    before: str
    after: str
    difference: float  # estimated value of the new champion minus that of the old one
    low: float
    high: float
    effective: float  # effective sample size: the number of equally weighted answers with as much information
    rounds: int  # with evidence, in this period

    def __str__(self) -> str:
        """Return the promotion as one line."""
        return (
            f"round {self.round:,}: {self.after} instead of {self.before}, better by {self.difference:.4g} "
            f"({self.low:.4g} to {self.high:.4g}) in {self.rounds:,} rounds, by {self.effective:,.0f} answers"
        )


class MemberStatus(NamedTuple):
    """Estimated value of a member minus the champion's in the present period; NaN without evidence."""

    member: str
    is_champion: bool
    difference: float
    low: float
    high: float
    rounds: int  # with evidence, in this period


class ChampionLearner:
    """A learner made of several members that learn from the same feedback; the champion ranks."""

    full_information: ClassVar[bool] = False
    horizon: ClassVar[None] = None
    measure: LinearMeasure
    max_grade: int
    alpha: float
    share: float

    def team(self) -> tuple[Learner, ...]:
        """Return the members; the first is the champion at the start."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ValueError if these learners cannot be members, or a parameter is out of range."""
        check_int("max_grade", self.max_grade, 1, 255)
        check_unit("alpha", self.alpha)
        check_positive("share", self.share)
        learnable(self.measure, self.max_grade)
        team = self.team()
        check_number_of_members(len(team))
        for one in team:
            if what := lacking(one.kernels):
                raise ValueError(f"members: {format_spec(one)} cannot be a member, because {what}")
            if one.contextual != team[0].contextual:
                raise ValueError("members: must all use features, or none of them")
            if one.max_grade < self.max_grade:
                raise ValueError(
                    f"members: {format_spec(one)} accepts grades up to {one.max_grade}, below max_grade"
                )

    @property
    def contextual(self) -> bool:
        """Return whether the members use features."""
        return self.team()[0].contextual

    @property
    def variable_length(self) -> bool:
        """Return whether lists may differ in length."""
        return all(one.variable_length for one in self.team())

    @property
    def min_k(self) -> int:
        """Return the smallest k that all members can learn from."""
        return max(one.min_k for one in self.team())

    @property
    def kernels(self) -> Kernels:
        """Return the kernels for these members."""
        return champion_kernels(tuple(one.kernels for one in self.team()))

    @property
    def persistent(self) -> tuple[str, ...]:
        """Return the persistent arrays of all members and those of the evidence."""
        team, names = self.team(), []
        for j, one in enumerate(team):
            position = "members" + ".rest" * j + (".first" if j < len(team) - 1 else "")
            names += [f"{position}.{name}" for name in one.persistent]
        return (*names, *PERSISTENT)

    def init(self, shape: Shape) -> ChampionState:
        """Make the state before the first round."""
        team, (m, _, k) = self.team(), shape
        positions = self._position_weights(m)
        grades = np.arange(self.max_grade + 1.0)
        sizes, first = (one.token_size(shape) for one in team), WEIGHTS + k * (1 + len(team))
        return ChampionState(
            members=joined([one.init(shape) for one in team]),
            clock=np.zeros(5, np.int64),
            sums=np.zeros(2),
            evidence=no_evidence(len(team)),
            history=no_history(),
            grades=np.array([one.transform_feedback(grades) for one in team]),
            gains=self.measure.gain(grades) / largest_gain(self.measure, self.max_grade),
            positions=positions,
            everyone=np.arange(m),
            tokens=np.array([*accumulate(sizes, initial=first)]),
            k=k,
            alpha=self.alpha,
            share=self.share,
            limit=self._largest_exploration(positions),
            orders=np.zeros((len(team), m), np.int64),
            item_weights=np.zeros((len(team), m)),
            propensities=np.zeros(m),
            seen=np.zeros(m),
            explore_probs=np.zeros(m),
            member_feedback=np.zeros(k),
        )

    def token_size(self, shape: Shape) -> int:
        """Count the explored mark, period, centre, k weights, k positions per member, and the members' tokens."""
        team = self.team()
        return WEIGHTS + shape.k * (1 + len(team)) + sum(one.token_size(shape) for one in team)

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1 for the exploration plus the largest number that a member needs."""
        return 1 + max(one.n_uniforms(shape) for one in self.team())

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the grades unchanged; each member transforms them itself."""
        return np.asarray(relevance, dtype=np.float64)

    def validate_state(self, state: ChampionState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        team = self.team()
        for one, own in zip(team, members_of(state, len(team)), strict=True):
            try:
                one.validate_state(own)
            except ValueError as error:
                raise ValueError(f"in {one.name}, {error}") from None
        floats = (name for name in PERSISTENT if name != "clock")
        check_numbers(state, *floats)
        check_counts(state, "clock")
        if state.clock[CHAMPION] >= len(team) or state.clock[START] > state.clock[ROUNDS]:
            raise ValueError("its clock must name a member, and a period that has begun")
        below, above, weights, parts = state.evidence
        squares = (below.squares, below.observed, above.squares, above.observed, weights, state.sums)
        if min(array.min() for array in squares) < 0:
            raise ValueError("its sums of weights and squares, and its counts, must not be below 0")
        if not np.all((parts >= MIN_PART) & (parts <= 1)):
            raise ValueError("its parts must be from 1/16 to 1")
        ends = state.history[:, 1:3]
        if not (ends.min() >= 0 and ends.max() < len(team)):
            raise ValueError("its history must name members")

    def champion(self, state: ChampionState) -> Learner:
        """Return the member that ranks at present."""
        return self.team()[int(state.clock[CHAMPION])]

    def scores(self, state: ChampionState, X: Features) -> Floats:
        """Return the champion's scores."""
        champion, team = int(state.clock[CHAMPION]), self.team()
        return team[champion].scores(members_of(state, len(team))[champion], X)

    def failure(self, state: ChampionState) -> str:
        """Return why members have stopped learning; empty while all are healthy."""
        team = self.team()
        said = zip(team, members_of(state, len(team)), strict=True)
        found = [
            f"{one.name}: {one.failure(own)}" for one, own in said if isinstance(one, CanFail) and one.failure(own)
        ]
        return "; ".join(found)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: the regret is that of the members, plus at most `exploration_bound`."""

    def exploration_bound(self, shape: Shape, horizon: int, answered: float = 1.0) -> float:
        """Return the bound on the expected cost of exploration, against the member that is champion in each round.

        This is Theorem 2 of docs/theory/champion.md.

        Parameters
        ----------
        shape
            Number of items, features and answers.
        horizon
            Number of rounds, with answers or without.
        answered
            Smallest probability that a round is answered, whatever happened before.

        >>> from peekrank import DCG, Champion
        >>> [round(Champion(DCG()).exploration_bound(Shape(10, 0, 1), 100_000, share)) for share in (1.0, 0.01)]
        [13823, 64161]
        """
        if not 0 < answered <= 1:
            raise ValueError(f"answered = {answered}: must be a probability above 0")
        limit = self._largest_exploration(self._position_weights(shape.m))
        return float(_COST * self.share * limit * self._unit(shape.m) * (horizon**2 / answered) ** (1 / 3))

    def promotions(self, state: ChampionState) -> list[Promotion]:
        """Return the last 32 promotions with their evidence."""
        count, team, unit = int(state.clock[PROMOTIONS]), self.team(), self._unit(len(state.positions))
        found = []
        for row in (state.history[i % KEPT] for i in range(max(0, count - KEPT), count)):
            before, after = (format_spec(team[int(j)]) for j in row[1:3])
            difference, low, high = (unit * float(x) for x in row[3:6])
            found.append(Promotion(int(row[0]), before, after, difference, low, high, float(row[6]), int(row[7])))
        return found

    def member_status(self, state: ChampionState) -> list[MemberStatus]:
        """Return the evidence on each member in the present period."""
        champion, unit = int(state.clock[CHAMPION]), self._unit(len(state.positions))
        limit = float(np.abs(state.positions - state.positions[::-1]).sum()) / 2  # an order against its reverse
        found = []
        for j, one in enumerate(self.team()):
            mean, low, high = (unit * np.clip(limits(state, j), -limit, limit)).tolist()
            rounds = int(state.evidence.below.observed[j, 0])
            found.append(MemberStatus(format_spec(one), j == champion, mean, low, high, rounds))
        return found

    def _position_weights(self, m: int) -> Floats:
        """Return the weight of each position, from 1 to 0."""
        discount = discount_of(self.measure, m) * (1 if self.measure.higher_is_better else -1)
        drop = discount[0] - discount[-1]
        return np.asarray((discount - discount[-1]) / drop if drop > 0 else np.zeros(m))

    def _largest_exploration(self, positions: Floats) -> float:
        """Return the largest total exploration of a list, in units of the rate."""
        return (CAUTION + len(self.team()) - 1) * float(positions.sum()) + FLOOR

    def _unit(self, m: int) -> float:
        """Return the difference in value between the first and the last position for the largest grade."""
        discount = discount_of(self.measure, m)
        return float(abs(discount[0] - discount[-1])) * largest_gain(self.measure, self.max_grade)
