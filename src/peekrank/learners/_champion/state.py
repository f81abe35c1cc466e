"""What a team of learners remembers: its members, who is in charge, the evidence, and the promotions so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.confidence import RATES, Bound
from peekrank.types import Floats, Ints, State

# The clock: answered rounds, who is in charge, the period of evidence, the answered round in which it began, and
# promotions so far
ROUNDS, CHAMPION, PERIOD, START, PROMOTIONS = range(5)
# Sums over all answers that were used: their weights, and these times the gains
WEIGHT, GAIN = range(2)
# The weights of the single answers that are the evidence on a member: their sum, and that of their squares
WEIGHED, WEIGHED_SQUARE = range(2)
# The token: explored mark, period, centre, the weights of k answers; then what the positions count that each
# member
# gives to the k items; then the members' own tokens
PERIOD_MARK, CENTRE, WEIGHTS = 1, 2, 3

CAUTION = 4.0  # how many times as often to ask about an item that the one in charge puts higher than others do
FLOOR = 1 / 4  # weight in dispute that every list has, whether members agree or not
MIN_PART = 1 / 16  # the smallest part of the share of questions that a challenger has
KEPT = 32  # promotions that are remembered
SHORTEST = 1024  # answered rounds of the first period; each later one is as long as all before


class Members(NamedTuple):
    """The states of a learner and of those after it."""

    first: State
    rest: State


class Evidence(NamedTuple):
    """What is known of each member's value minus that of the one in charge, in units of the reach.

    The constants are those of `Interval`, and the same for all members; sums and squares have a row for each.
    """

    below: Bound
    above: Bound
    weights: Floats
    parts: Floats  # of the share of questions that each member has as a challenger in this period


class ChampionState(NamedTuple):
    """The members, what is known of their values, and the last promotions; then constants, and working memory."""

    members: State  # a Team, whose rest is a Team or the last member
    clock: Ints
    sums: Floats
    evidence: Evidence
    history: Floats  # a row for each promotion, as `Promotion` has it
    grades: Floats  # what each member makes of each grade
    gains: Floats  # of each grade, from 0 to 1
    positions: Floats  # weight of each position, from 1 to 0
    everyone: Ints  # all items
    tokens: Ints  # where each member's token begins, then where the last one ends
    k: int
    alpha: float
    share: float
    limit: float  # what there is to ask about in a list, in units of the rate, at most
    orders: Ints  # members x items
    item_weights: Floats  # members x items: the weight of the position that the member gives to the item
    propensities: Floats  # by item: to be seen
    seen: Floats  # by item: to be seen, as the one in charge would have it
    explore_probs: Floats  # by position of the order of the one in charge
    member_feedback: Floats


MEMORY = (
    "clock",
    "sums",
    *(f"evidence.{side}.{name}" for side in ("below", "above") for name in ("sums", "squares", "observed")),
    "evidence.weights",
    "evidence.parts",
    "history",
)


def members_of(state: ChampionState, count: int) -> list[State]:
    """The states of the members."""
    found, rest = [], state.members
    for _ in range(count - 1):
        found.append(rest.first)
        rest = rest.rest
    return [*found, rest]


def joined(states: list[State]) -> State:
    """The states of members as nested pairs: compiled code needs to know the type of each."""
    return states[0] if len(states) == 1 else Members(states[0], joined(states[1:]))


def no_evidence(members: int) -> Evidence:
    """No evidence on any member."""

    def bound(scale: float) -> Bound:
        sums, squares = np.zeros((members, RATES)), np.zeros((members, RATES))
        return Bound.fresh(scale)._replace(sums=sums, squares=squares, observed=np.zeros((members, 1)))

    return Evidence(bound(1.0), bound(CAUTION), np.zeros((members, 2)), np.full(members, MIN_PART))


@kernel
def bound_of(bounds: Bound, j: int) -> Bound:
    """The bound on one member."""
    return Bound(
        bounds.rates,
        bounds.scales,
        bounds.costs,
        bounds.weights,
        bounds.sums[j],
        bounds.squares[j],
        bounds.observed[j],
    )


def no_history() -> Floats:
    """No promotion yet."""
    return np.zeros((KEPT, 8))
