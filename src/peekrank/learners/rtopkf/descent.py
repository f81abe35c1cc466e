"""Updates of rtopkf: a step along the estimated negative gradient."""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.kernels.sorting import position_of
from peekrank.kernels.vectors import add, add_rows, are_bounded, copy, dot, shrink_into_ball
from peekrank.learners._shared import answered
from peekrank.learners.rtopkf.exploration import exploit, explore, fill_propensities, off_policy, rank
from peekrank.learners.rtopkf.state import (
    BIAS,
    GAMMA,
    LARGEST,
    LARGEST_SUM,
    LARGEST_V,
    LARGEST_WEIGHT,
    OVERFLOWED,
    PROPENSITIES,
    ROUNDS,
    SQUARES,
    SQUARES_V,
    TOP,
    RTopKFState,
)
from peekrank.surrogates.estimates import Estimate, Estimates, Estimator, Seen, Target
from peekrank.types import Features, Floats, Ints, Kernels


@kernel
def _fill_divisors(s: RTopKFState, k: int, n: int, token: Floats) -> None:
    """Fill in the propensity of each seen item, but at least `clip` times that of the greedy item."""
    gamma = token[GAMMA]
    least = (s.clip if s.clip >= 0 else gamma) * (1 - gamma + gamma * k / n)
    for p in range(k):
        s.divisors[p] = max(token[PROPENSITIES + p], least)


@kernel
def _fill_pairs(s: RTopKFState, ranking: Ints, token: Floats, scores: Floats) -> None:
    """Do the same for each pair of seen items; s.items gets their positions."""
    k, n, gamma = len(s.pairs), len(ranking), token[GAMMA]
    random, clip = gamma * k * (k - 1) / (n * (n - 1)), s.clip if s.clip >= 0 else gamma
    for a in range(k):
        s.items[a] = position_of(scores, ranking[a])
    for a in range(k):
        for b in range(a):
            low, high = (a, b) if s.items[a] < s.items[b] else (b, a)
            if s.items[high] < k - 1:
                exploited = 1.0
            elif s.items[high] == k - 1:
                exploited = token[TOP]
            elif s.items[low] < k - 1:
                exploited = (token[PROPENSITIES + high] - gamma * k / n) / (1 - gamma)
            else:
                exploited = 0.0
            propensity = random + (1 - gamma) * exploited
            s.pairs[a, b] = s.pairs[b, a] = max(propensity, clip * (random + 1 - gamma))


@kernel
def _descend_scale_free(s: RTopKFState, X: Features, rows: Ints) -> None:
    """Take a step of rate / sqrt(largest squared norm of an item x sum of squared norms of gradients)."""
    norm = 0.0
    for i in rows:
        norm = float(dot(X[i], X[i]))
        s.sums[LARGEST] = max(s.sums[LARGEST], norm)
    if len(rows) == 1:
        s.sums[SQUARES] += s.slopes[rows[0]] ** 2 * norm
    else:
        s.z[:] = 0
        add_rows(X, rows, s.slopes, 1.0, s.z)
        s.sums[SQUARES] += dot(s.z, s.z)
    scale = s.sums[LARGEST] * s.sums[SQUARES]
    step = s.rate / sqrt(scale) if scale > 0 else 0.0
    if len(rows) == 1:
        add_rows(X, rows, s.slopes, -step, s.w)
    else:
        add(s.z, -step, s.w)


@kernel
def _descend(s: RTopKFState, X: Features) -> None:
    """Take one step against the estimated gradient X' slopes, and project onto the ball."""
    count = 0
    for i in range(len(X)):
        if s.slopes[i] != 0:
            s.items[count] = i
            count += 1
    rows = s.items[:count]
    if s.step > 0:
        add_rows(X, rows, s.slopes, -s.step, s.w)
    elif count > 0:
        _descend_scale_free(s, X, rows)
    if s.radius < np.inf:
        shrink_into_ball(s.w, s.radius)


@kernel
def _keep(s: RTopKFState) -> None:
    """Copy the arrays that an update may change."""
    d = len(s.w)
    copy(s.w, s.kept[:d])
    copy(s.v, s.kept[d:])
    copy(s.sums, s.kept_sums)


@kernel
def _undo_overflow(s: RTopKFState) -> None:
    """Undo an update after which weights or sums are too large."""
    if are_bounded(s.w, LARGEST_WEIGHT) and are_bounded(s.v, LARGEST_WEIGHT) and are_bounded(s.sums, LARGEST_SUM):
        return
    d = len(s.w)
    copy(s.kept[:d], s.w)
    copy(s.kept[d:], s.v)
    copy(s.kept_sums, s.sums)
    s.sums[OVERFLOWED] = 1


# Kernels that specialise the templates below
target: Target = unspecialised
estimate: Estimate = unspecialised


def _regress(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Take a step of the regression on the seen relevance."""
    predicted = token[PROPENSITIES + s.k + len(s.scores) :]
    for p in range(len(feedback)):
        if np.isnan(feedback[p]):
            continue
        x = X[ranking[p]]
        error = predicted[ranking[p]] - target(s.parameters, feedback[p])
        norm = 1 + dot(x, x)
        s.sums[LARGEST_V] = max(s.sums[LARGEST_V], norm)
        s.sums[SQUARES_V] += error * error * norm
        if error != 0:
            step = error / sqrt(s.sums[LARGEST_V] * s.sums[SQUARES_V])
            s.sums[BIAS] -= step
            add(x, -step, s.v)


@kernel
def regress(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Do nothing: only doubly robust estimates need predictions."""


def _update(s: RTopKFState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    n, k = len(ranking), len(feedback)
    if token[GAMMA] < 0:
        s.sums[OVERFLOWED] = 1
        return
    for p in range(k):
        if not (0 < token[PROPENSITIES + p] <= 1 and token[GAMMA] < 1):
            raise ValueError("the token of this decision is not from this agent")
    answers = answered(feedback)
    if answers == 0 or (s.all_needed and answers < k):
        return
    _keep(s)
    s.sums[ROUNDS] += answers / k
    s.sums[OVERFLOWED] = 0
    scores, predicted = token[PROPENSITIES + s.k :], token[PROPENSITIES + s.k + len(s.scores) :]
    _fill_divisors(s, k, n, token)
    pairs = s.pairs if k < n else s.pairs[:0]
    if len(pairs) > 0:
        _fill_pairs(s, ranking, token, scores[:n])
    s.slopes[:n] = 0
    seen = Seen(
        scores[:n],
        ranking,
        feedback,
        s.divisors[:k],
        pairs,
        predicted[:n],
        s.propensities[:n],
        s.order[:n],
        s.sorting,
    )
    estimate(s.parameters, seen, s.slopes[:n])
    regress(s, X, ranking, token, feedback)
    _descend(s, X)
    _undo_overflow(s)


@cache
def kernels_for(name: str, estimates: Estimates, estimator: Estimator, *, pairs: bool) -> Kernels:
    """Return the kernels that descend the surrogate of this name by one of its estimates.

    Propensities of pairs do not follow from those of items, so learners that need them have no `off_policy`.
    """
    parts: dict[str, Any] = {"estimate": estimates.of(estimator)}
    if estimates.target is not None and estimator == "doubly_robust":
        parts["regress"] = specialise(_regress, name, target=estimates.target)
    update = specialise(_update, f"{name}-{estimator}", **parts)
    return Kernels(
        rank, update, fill_propensities, off_policy=None if pairs else off_policy, exploit=exploit, explore=explore
    )
