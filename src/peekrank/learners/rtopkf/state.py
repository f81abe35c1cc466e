"""State of rtopkf."""

from __future__ import annotations

from typing import NamedTuple

from peekrank.kernels.sorting import SortSpace
from peekrank.kernels.vectors import Weights
from peekrank.surrogates.estimates import Parameters
from peekrank.types import Floats, Ints

# The token: explored mark, gamma (-1: scores overflowed), P(first k of the greedy order), k propensities, scores,
# predictions
GAMMA, TOP, PROPENSITIES = 1, 2, 3
# Sums: rounds answered; for w and for the regression, squared norms of gradients and the largest of an item; the
# constant of the regression; whether the last round overflowed
ROUNDS, SQUARES, LARGEST, SQUARES_V, LARGEST_V, BIAS, OVERFLOWED = range(7)
LARGEST_WEIGHT, LARGEST_SUM = 1e12, 1e100  # an update that exceeds them is undone


class RTopKFState(NamedTuple):
    """Weights of the features, sums for the step sizes, and working memory."""

    w: Weights
    v: Weights  # of a regression of the targets, for doubly robust estimates
    sums: Floats
    parameters: Parameters  # of the surrogate
    robust: bool
    all_needed: bool  # whether a round with a missing answer is skipped
    random_below: bool
    temperature: float
    gamma: float  # of every round, or 0: t^(-1/3) in round t
    clip: float  # of every round, or -1: gamma
    step: float  # of every round, or 0: scale-free
    rate: float
    radius: float
    k: int
    z: Weights
    kept: Weights  # w, then v, before an update
    kept_sums: Floats
    scores: Floats
    slopes: Floats
    propensities: Floats
    divisors: Floats  # what to divide the k answers by: propensities, clipped
    pairs: Floats  # the same for pairs; empty if no pairs are used, or all items are seen
    order: Ints
    items: Ints
    sorting: SortSpace
