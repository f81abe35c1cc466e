"""State of ridge."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from peekrank._jit import kernel
from peekrank.kernels.column_moments import ROUNDING
from peekrank.kernels.exploration import DoubtSpace
from peekrank.kernels.sorting import SortSpace
from peekrank.kernels.triangular import Panel
from peekrank.learners.ridge.feature_map import FeatureMap
from peekrank.types import Floats, Ints

_GROWTH = 0.6  # exponent of the largest weight in the number of answers per column
# Columns of the sides
ONE, ANSWER = range(2)
# Sums: rounds and answers learned from, squares of the answers, residual sum of squares, items observed, the round
# of the next refresh, the column whose prior is renewed next, the factor of the prior precision of added columns
# (0 without a feature map), weights of the answers, their squares
ROUNDS, ANSWERS, SQUARED, LEFT, ITEMS, REFRESH, RENEW, RESERVE, WEIGHTS, SQUARED_WEIGHTS = range(10)


class RidgeState(NamedTuple):
    """Triangular factor of the regression, moments for the scale of the prior, and memory for one round."""

    R: Floats  # R'R is the precision of the weights
    ends: Ints  # of its rows
    sides: Floats  # the columns of the intercept and of the answers; the last row is the intercept's own
    w: Floats
    prior: Floats  # the prior's part of each diagonal entry of R'R
    moments: Floats  # of each column, over all items observed
    sums: Floats
    confidence: float
    explore_rate: float
    uniform: float
    decay: float
    k: int
    d: int
    columns: int  # of features and of the feature map
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
    means: Floats  # from this field on, arrays are by position
    widths: Floats
    doubts: Floats
    costs: Floats
    explore_probs: Floats
    space: DoubtSpace
    sorting: SortSpace


@kernel
def noise_std(s: RidgeState) -> float:
    """Return the standard deviation of the noise; arbitrary before there are answers to explain.

    The effective sample size of answers with weights v is (sum v)^2/sum v^2 (Kish 1965).
    """
    if s.sums[LEFT] <= ROUNDING * s.sums[SQUARED]:
        return 1.0
    return float(sqrt(s.sums[LEFT] * s.sums[SQUARED_WEIGHTS]) / s.sums[WEIGHTS])


@kernel
def answers_per_column(s: RidgeState) -> float:
    """Return the number of answers per column."""
    return float(s.sums[ANSWERS] / s.columns)


@kernel
def max_weight(s: RidgeState) -> float:
    """Return the largest weight of an answer; it never falls."""
    return float(max(1.0, answers_per_column(s)) ** _GROWTH)


@kernel
def intercept(s: RidgeState) -> float:
    """Return the expected relevance of an item whose features are all 0."""
    last = s.sides[len(s.w)]
    return last[ANSWER] / last[ONE] if last[ONE] > 0 else 0.0
