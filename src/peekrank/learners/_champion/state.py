"""State of champion and auto: the members, the champion, the evidence, and the promotions so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.confidence import RATES, Bound
from peekrank.types import Floats, Ints, State

# The clock: answered rounds, the champion, the period of evidence, the answered round in which it began, and the
# number of promotions
ROUNDS, CHAMPION, PERIOD, START, PROMOTIONS = range(5)
# Sums over all answers that were used: their weights, and these times the gains
WEIGHT, GAIN = range(2)
# The weights of the single answers that are the evidence on a member: their sum, and that of their squares
WEIGHED, WEIGHED_SQUARE = range(2)
# The token: explored mark, period, centre, the weights of k answers; then the weights of the positions that each
# member gives to the k items; then the members' own tokens
PERIOD_MARK, CENTRE, WEIGHTS = 1, 2, 3

CAUTION = 4.0  # factor of exploration for an item that the champion ranks higher than other members
FLOOR = 1 / 4  # difference in weight that every list has at least, even if members agree
MIN_PART = 1 / 16  # smallest part of the exploration that a challenger gets
KEPT = 32  # number of promotions in the history
SHORTEST = 1024  # answered rounds of the first period; each later one is as long as all before together


class Members(NamedTuple):
    """The state of a member, and those of the members after it."""

    first: State
    rest: State


class Evidence(NamedTuple):
    """Evidence on each member's value minus the champion's, in units of the reach.

    The constants are those of `Interval`, and the same for all members; sums and squares have a row for each.
    """

    below: Bound
    above: Bound
    weights: Floats
    parts: Floats  # part of the exploration that each member gets as a challenger in this period


class ChampionState(NamedTuple):
    """The members, the evidence on their values, the last promotions, constants, and working memory."""

    members: State  # a `Members`, whose rest is a `Members` or the last member's state
    clock: Ints
    sums: Floats
    evidence: Evidence
    history: Floats  # one row for each promotion, with the fields of `Promotion`
    grades: Floats  # each member's transform of each grade
    gains: Floats  # of each grade, from 0 to 1
    positions: Floats  # weight of each position, from 1 to 0
    everyone: Ints  # all items
    tokens: Ints  # offset of each member's token, then the end of the last one
    k: int
    alpha: float
    share: float
    limit: float  # largest total exploration of a list, in units of the rate
    orders: Ints  # members x items
    item_weights: Floats  # members x items: the weight of the position that the member gives to the item
    propensities: Floats  # by item
    seen: Floats  # by item: the champion's own propensities
    explore_probs: Floats  # by position of the champion's order
    member_feedback: Floats


PERSISTENT = (
    "clock",
    "sums",
    *(f"evidence.{side}.{name}" for side in ("below", "above") for name in ("sums", "squares", "observed")),
    "evidence.weights",
    "evidence.parts",
    "history",
)


def members_of(state: ChampionState, count: int) -> list[State]:
    """Return the states of the members."""
    found, rest = [], state.members
    for _ in range(count - 1):
        found.append(rest.first)
        rest = rest.rest
    return [*found, rest]


def joined(states: list[State]) -> State:
    """Nest the states of the members as pairs, because compiled code needs the type of each."""
    return states[0] if len(states) == 1 else Members(states[0], joined(states[1:]))


def no_evidence(members: int) -> Evidence:
    """Return empty evidence."""

    def bound(scale: float) -> Bound:
        sums, squares = np.zeros((members, RATES)), np.zeros((members, RATES))
        return Bound.fresh(scale)._replace(sums=sums, squares=squares, observed=np.zeros((members, 1)))

    return Evidence(bound(1.0), bound(CAUTION), np.zeros((members, 2)), np.full(members, MIN_PART))


@kernel
def bound_of(bounds: Bound, j: int) -> Bound:
    """Return the bound on one member."""
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
    """Return an empty history."""
    return np.zeros((KEPT, 8))
