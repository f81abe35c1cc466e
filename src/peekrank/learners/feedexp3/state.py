"""State of feedexp3."""

from __future__ import annotations

from typing import NamedTuple

from peekrank.types import Floats, Ints

MAX_MIXING = 1 / 2  # largest share of rounds that explore


class FeedExp3State(NamedTuple):
    """Estimated losses, the number of rounds they come from, and the plan of the game."""

    losses: Floats
    rounds: Ints
    mixing: float  # gamma, or gamma t^(1/3) in round t without a horizon
    rate: float  # eta / gamma, or that times t^(1/3) in round t without a horizon
    anytime: bool
    grades: int
    k: int
    rankings: Ints  # to show for each action
    action: Ints  # the action played for each class
    group: Ints  # of each action
    row: Ints  # of the estimates, for each action and symbol
    values: Floats  # (rows, classes)
    cumulative_q: Floats  # cumulative sum of q by action
    explore_probs: Floats  # q by group
    weights: Floats
