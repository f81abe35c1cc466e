"""The regression of ridge: observe features, add answers, and rescale the prior."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.column_moments import COUNT, ROUNDING, add_moments, column_precision
from peekrank.kernels.triangular import block_dot, cholesky, rotate, solve, square
from peekrank.kernels.vectors import are_bounded, copy
from peekrank.learners.ridge.feature_map import FeatureMap, expand_row, fill_units
from peekrank.learners.ridge.state import (
    ANSWER,
    ANSWERS,
    ITEMS,
    LEFT,
    ONE,
    REFRESH,
    RENEW,
    RESERVE,
    ROUNDS,
    SQUARED,
    SQUARED_WEIGHTS,
    WEIGHTS,
    RidgeState,
    intercept,
    max_weight,
)
from peekrank.types import Features, Floats, Ints

_LAST_REFRESH = 2048  # rounds after which the prior is fixed, except for that of a feature map
_LARGEST_WEIGHT = 1e100  # weights beyond it are not used
_STEP = 4.0  # factor by which the prior precision of a feature map is changed


@kernel
def fill_scores(X: Features, expanded: FeatureMap, w: Floats, row: Floats, scores: Floats) -> None:
    """Fill in the expected relevance of each item, up to a constant."""
    for i in range(len(X)):
        expand_row(X[i], expanded, row)
        scores[i] = block_dot(row, w)


@kernel
def observe_features(s: RidgeState, X: Features) -> None:
    """Score all items, update the moments of their features, and store the rows."""
    d = len(s.w)
    fill_units(X, s.feature_map)
    for i in range(len(X)):
        expand_row(X[i], s.feature_map, s.U[i])
        s.scores[i] = block_dot(s.U[i], s.w)
    add_moments(s.moments, s.U, len(X))
    s.sums[ITEMS] += len(X)
    for j in range(d):
        if s.prior[j] == 0 and s.moments[COUNT, j] > 0:
            _start(s, j, _precision(s, j))


@kernel
def _precision(s: RidgeState, j: int) -> float:
    """Return the prior precision of a weight, by the moments of its column.

    For the columns of a feature map it has a factor, at first their number: together they are expected to matter
    as much as one feature.
    """
    precision = column_precision(s.moments, j, s.sums[ITEMS])
    return precision * s.sums[RESERVE] if j >= s.d else precision


@kernel
def _start(s: RidgeState, j: int, precision: float) -> None:
    """Set the prior of a column that has been 0 so far."""
    s.prior[j] = precision
    s.R[j, j] = sqrt(precision)


@kernel
def _add_row(s: RidgeState, one: float, answer: float) -> None:
    """Rotate the row (x | one, answer) into the factor; x is 0 afterwards."""
    y, last = s.y[:2], s.sides[len(s.w)]
    y[ONE], y[ANSWER] = one, answer
    rotate(s.R, s.ends, s.sides, s.x, y)
    if y[ONE] != 0:
        length = sqrt(last[ONE] ** 2 + y[ONE] ** 2)
        cosine, sine = last[ONE] / length, y[ONE] / length
        above = last[ANSWER]
        last[ONE], last[ANSWER] = length, cosine * above + sine * y[ANSWER]
        y[ANSWER] = cosine * y[ANSWER] - sine * above
    s.sums[LEFT] += y[ANSWER] ** 2


@kernel
def _apply_decay(s: RidgeState) -> None:
    """Apply the decay, and renew the prior of each column within 1/(1 - decay) answers."""
    d, shrink = len(s.w), sqrt(s.decay)
    for j in range(d):
        for i in range(j, s.ends[j]):
            s.R[j, i] *= shrink
        s.prior[j] *= s.decay
    for j in range(d + 1):
        s.sides[j, ONE] *= shrink
        s.sides[j, ANSWER] *= shrink
    for which in (ANSWERS, SQUARED, LEFT, WEIGHTS, SQUARED_WEIGHTS):
        s.sums[which] *= s.decay
    for _ in range(int(d * (1 - s.decay)) + 1):
        j = int(s.sums[RENEW])
        s.sums[RENEW] = (j + 1) % d
        lost = _precision(s, j) - s.prior[j] if s.moments[COUNT, j] > 0 else 0.0
        if lost > 0:
            s.prior[j] += lost
            s.x[:] = 0
            s.x[j] = sqrt(lost)
            _add_row(s, 0.0, 0.0)


@kernel
def _change_prior(s: RidgeState, target: Floats) -> None:
    """Change the prior precision of each column to `target`, and factorise again."""
    d = len(s.w)
    ones = both = answers = 0.0  # sums for the last row: the remainder after the other rows
    for j in range(d + 1):
        ones += s.sides[j, ONE] ** 2
        both += s.sides[j, ONE] * s.sides[j, ANSWER]
        answers += s.sides[j, ANSWER] ** 2
    square(s.R, s.ends, s.sides)
    for j in range(d):
        s.R[j, j] += target[j] - s.prior[j]
        s.prior[j] = target[j]
    cholesky(s.R, s.ends, s.sides)
    for j in range(d):
        ones -= s.sides[j, ONE] ** 2
        both -= s.sides[j, ONE] * s.sides[j, ANSWER]
        answers -= s.sides[j, ANSWER] ** 2
    last = s.sides[d]
    last[ONE] = sqrt(max(0.0, ones))
    last[ANSWER] = both / last[ONE] if ones > 0 else 0.0
    s.sums[LEFT] = max(0.0, s.sums[LEFT] + answers - last[ANSWER] ** 2)


@kernel
def _refresh(s: RidgeState) -> None:
    """Rescale the prior to the present scale of the columns."""
    for j in range(len(s.w)):
        s.x[j] = _precision(s, j) if s.moments[COUNT, j] > 0 else s.prior[j]
    _change_prior(s, s.x)


@kernel
def _multiply_reserve(s: RidgeState, factor: float) -> None:
    s.sums[RESERVE] *= factor
    for j in range(len(s.w)):
        s.x[j] = s.prior[j] * factor if j >= s.d else s.prior[j]
    _change_prior(s, s.x)


@kernel
def _log_volume(s: RidgeState) -> float:
    """Return the log ratio of prior to posterior volume of the weights."""
    total = log(s.sides[len(s.w), ONE])
    for j in range(len(s.w)):
        if s.prior[j] > 0 and s.R[j, j] > 0:
            total += log(s.R[j, j] ** 2 / s.prior[j]) / 2
    return total


@kernel
def _tune_expansion_prior(s: RidgeState) -> None:
    """Change the prior precision of added columns by a step if that makes the answers more likely.

    Their marginal likelihood, with all weights integrated out and the best noise variance plugged in, is
    proportional to exp(-volume) RSS^(-answers/2).
    """
    for factor in (_STEP, 1 / _STEP):
        left, volume = s.sums[LEFT], _log_volume(s)
        if left <= ROUNDING * s.sums[SQUARED]:
            return
        _multiply_reserve(s, factor)
        if volume - _log_volume(s) > s.sums[ANSWERS] / 2 * log(s.sums[LEFT] / left):
            return
        _multiply_reserve(s, 1 / factor)


@kernel
def update(s: RidgeState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Learn from each answer with the weight in the token, at least 1."""
    d, answers = len(s.w), 0
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            answers += 1
            if s.decay < 1:
                _apply_decay(s)
            s.sums[ANSWERS] += 1
            expand_row(X[ranking[p]], s.feature_map, s.x)
            for j in range(d):
                if s.prior[j] == 0 and s.x[j] != 0:  # the decision came from another learner
                    _start(s, j, s.x[j] ** 2)
            weight = min(max_weight(s), max(1.0, token[1 + p]))
            root = sqrt(weight)
            for j in range(d):
                s.x[j] *= root
            _add_row(s, root, root * feedback[p])
            s.sums[SQUARED] += weight * feedback[p] ** 2
            s.sums[WEIGHTS] += weight
            s.sums[SQUARED_WEIGHTS] += weight**2
    if answers == 0:
        return
    s.sums[ROUNDS] += 1
    if s.sums[ROUNDS] == s.sums[REFRESH]:
        expanded = s.sums[RESERVE] > 0
        s.sums[REFRESH] = 2 * s.sums[ROUNDS] if expanded or s.sums[ROUNDS] < _LAST_REFRESH else 0
        if s.sums[ROUNDS] <= _LAST_REFRESH:
            _refresh(s)
        if expanded and s.sums[ANSWERS] > d:
            _tune_expansion_prior(s)
    level = intercept(s)
    copy(s.w, s.x)
    for j in range(d):
        s.w[j] = s.sides[j, ANSWER] - s.sides[j, ONE] * level
    solve(s.R, s.ends, s.panel, s.w)
    if not are_bounded(s.w, _LARGEST_WEIGHT):
        copy(s.x, s.w)
