"""Estimators of a surrogate's gradient from the feedback of one round: the kernels that learners call.

An estimate is a kernel ``estimate(parameters, seen, slopes)``. It fills `slopes`, which are 0 before the call,
with numbers whose expectation over the rankings of the round is the gradient. `by_item`, `by_target`, `by_pair`
and `from_all` build such kernels from smaller ones for surrogates of the respective structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from peekrank._jit import specialise, unspecialised
from peekrank.kernels.sorting import SortSpace
from peekrank.types import Floats, Ints

Estimator = Literal["printed", "residual", "doubly_robust"]
Parameters = tuple[Any, ...]  # the fields of a surrogate, in order


class Seen(NamedTuple):
    """Observation of one round: a list of n items of which k were seen, and the propensities.

    Parameters
    ----------
    scores
        Scores of the n items when the ranking was chosen.
    ranking
        The n items as they were shown.
    relevance
        Relevance of the first k; NaN if there was no feedback. The estimates here treat such an item as not seen,
        so that their mean is the gradient times the response probability. `printed` estimates need all k answers.
    propensities
        Probability of each of the first k to be seen.
    pairs
        Probability, for each two of the first k, that both are seen; empty if it is 1. Filled for surrogates with
        ``min_k = 2``.
    predicted
        Target of each item as predicted by a regression; empty if the estimate is not doubly robust.
    targets, order, sorting
        Working memory for n numbers, for n items, and for sorting.
    """

    scores: Floats
    ranking: Ints
    relevance: Floats
    propensities: Floats
    pairs: Floats
    predicted: Floats
    targets: Floats
    order: Ints
    sorting: SortSpace


Estimate = Callable[[Parameters, Seen, Floats], None]
Gradient = Callable[[Parameters, Seen, Floats], None]
Target = Callable[[Parameters, float], float]
Slope = Callable[[Parameters, float, float], float]
PairSlope = Callable[[Parameters, float, float, float, float], float]


class Estimates(NamedTuple):
    """The estimators of one surrogate's gradient.

    Parameters
    ----------
    printed
        The estimator of the paper.
    residual
        The estimator with the least variance among those without predictions.
    doubly_robust
        The estimator that corrects predictions; None if predicting one relevance at a time does not help.
    target
        The predicted function of an item's relevance; None if there is no prediction.
    max_grade
        The largest grade whose slopes fit in single precision.
    """

    printed: Estimate
    residual: Estimate
    doubly_robust: Estimate | None = None
    target: Target | None = None
    max_grade: int = 255

    def of(self, estimator: Estimator) -> Estimate | None:
        """Return the estimator of this name, or None if there is none."""
        return {"printed": self.printed, "residual": self.residual, "doubly_robust": self.doubly_robust}[estimator]


def by_item(name: str, target: Target, slope: Slope, max_grade: int = 255) -> Estimates:
    """Make estimators for ``gradient_i = slope(s_i, target(R_i))``, affine in the target: one answer suffices.

    Printed and doubly robust estimators put estimated targets into the gradient. The residual estimator divides
    the slopes of the seen items by their propensities.
    """
    gradient = specialise(_each, name, slope=slope)
    residual = specialise(_residual, name, target=target, slope=slope)
    return by_target(name, target, gradient, max_grade)._replace(residual=residual)


def by_target(name: str, target: Target, gradient: Gradient, max_grade: int = 255) -> Estimates:
    """Make estimators for a gradient that is affine in all targets: one answer suffices.

    ``gradient(parameters, seen, slopes)`` reads the targets from ``seen.targets`` and may overwrite them.
    """
    estimate = specialise(_from_targets, name, target=target, gradient=gradient)
    return Estimates(estimate, estimate, estimate, target, max_grade)


def from_all(name: str, target: Target, gradient: Gradient, max_grade: int = 255) -> Estimates:
    """Make exact gradients for a list that is seen whole, ``min_k = None``; `gradient` is as for `by_target`."""
    return by_target(name, target, gradient, max_grade)._replace(doubly_robust=None, target=None)


def by_pair(name: str, slope: PairSlope, max_grade: int = 255) -> Estimates:
    """Make estimators for a sum over pairs with R_i > R_j: two answers are needed.

    ``slope(parameters, s_i, s_j, R_i, R_j)`` is the derivative of a pair's loss by s_j, and minus that by s_i.
    """
    estimate = specialise(_pairs, name, pair_slope=slope)
    return Estimates(estimate, estimate, max_grade=max_grade)


# Kernels that the templates below are specialised for
target: Target = unspecialised
slope: Slope = unspecialised
gradient: Gradient = unspecialised
pair_slope: PairSlope = unspecialised


def _each(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    for i in range(len(slopes)):
        slopes[i] = slope(parameters, seen.scores[i], seen.targets[i])


def _residual(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    for p in range(len(seen.relevance)):
        if not np.isnan(seen.relevance[p]):
            i = seen.ranking[p]
            value = target(parameters, seen.relevance[p])
            slopes[i] = slope(parameters, seen.scores[i], value) / seen.propensities[p]


def _from_targets(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    for i in range(len(slopes)):
        seen.targets[i] = seen.predicted[i] if len(seen.predicted) > 0 else 0.0
    for p in range(len(seen.relevance)):
        if not np.isnan(seen.relevance[p]):
            i = seen.ranking[p]
            seen.targets[i] += (target(parameters, seen.relevance[p]) - seen.targets[i]) / seen.propensities[p]
    gradient(parameters, seen, slopes)


def _pairs(parameters: Parameters, seen: Seen, slopes: Floats) -> None:
    k = len(seen.relevance)
    for a in range(k):
        for b in range(k):
            if seen.relevance[a] > seen.relevance[b]:
                i, j = seen.ranking[a], seen.ranking[b]
                pull = pair_slope(parameters, seen.scores[i], seen.scores[j], seen.relevance[a], seen.relevance[b])
                if pull != 0:
                    pull /= seen.pairs[a, b] if len(seen.pairs) > 0 else 1.0
                    slopes[i] -= pull
                    slopes[j] += pull
