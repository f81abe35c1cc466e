"""What ridge remembers, and its memory for one round."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from peekrank._jit import kernel
from peekrank.kernels.exploration import DoubtSpace
from peekrank.kernels.sorting import SortSpace
from peekrank.kernels.triangular import Panel
from peekrank.learners.ridge.feature_map import FeatureMap
from peekrank.types import Floats, Ints

ROUNDING = 1e-12  # share of the sum of squares below which what is left of it is none
_GROWTH = 0.6  # of the largest weight, as a power of the answers per column
# Rows of the moments
COUNT, SUM, SQUARES = range(3)
# Columns of the sides
ONE, ANSWER = range(2)
# Sums: rounds and answers learned from, squares of the answers, what the regression leaves of them, items looked
# at, the round of the next refresh, the column whose prior is renewed next, how many times as precise the prior of
# added columns is as that of features (0 without a feature map), weights of the answers, their squares
ROUNDS, ANSWERS, SQUARED, LEFT, ITEMS, REFRESH, RENEW, RESERVE, WEIGHTS, SQUARED_WEIGHTS = range(10)


class RidgeState(NamedTuple):
    """What was learned, as a triangular factor, what the prior's scale comes from, and memory for one round."""

    R: Floats  # R'R is the precision of the weights
    ends: Ints  # of its rows
    sides: Floats  # the columns of the constant 1 and of the answers; the last row is the constant's own
    w: Floats
    prior: Floats  # how much of each diagonal entry of R'R is prior
    moments: Floats  # of each column, over all items looked at
    sums: Floats
    confidence: float
    explore_rate: float
    uniform: float
    decay: float
    k: int
    d: int
    columns: int  # features, and what the feature map adds
    weights: Floats  # of the positions
    feature_map: FeatureMap
    x: Floats
    y: Floats
    U: Floats  # items x columns
    centre: Floats
    panel: Panel
    scores: Floats
    sampled: Floats
    order: Ints
    drawn: Ints
    means: Floats  # from here on by position
    widths: Floats
    doubts: Floats
    costs: Floats
    explore_probs: Floats
    space: DoubtSpace
    sorting: SortSpace


@kernel
def deviation(s: RidgeState) -> float:
    """Standard deviation of answers from what is expected; any number will do before there is one to explain.

    Answers of weights v are worth (sum v)^2/sum v^2 answers (Kish 1965).
    """
    if s.sums[LEFT] <= ROUNDING * s.sums[SQUARED]:
        return 1.0
    return float(sqrt(s.sums[LEFT] * s.sums[SQUARED_WEIGHTS]) / s.sums[WEIGHTS])


@kernel
def answers_per_column(s: RidgeState) -> float:
    """How much is known."""
    return float(s.sums[ANSWERS] / s.columns)


@kernel
def max_weight(s: RidgeState) -> float:
    """How often an answer counts at most; never less than before."""
    return float(max(1.0, answers_per_column(s)) ** _GROWTH)


@kernel
def constant(s: RidgeState) -> float:
    """What is expected of an item whose features are all 0."""
    last = s.sides[len(s.w)]
    return last[ANSWER] / last[ONE] if last[ONE] > 0 else 0.0
