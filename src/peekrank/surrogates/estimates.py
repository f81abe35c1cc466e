"""Estimates of a surrogate's gradient from what a round showed: the kernels that learners call.

An estimate is a kernel ``estimate(parameters, seen, slopes)``. It fills `slopes`, which are 0 before, so that
their mean over all that the round could have shown is the gradient. `by_item`, `by_target`, `by_pair` and
`from_all` make such kernels of smaller ones, for surrogates of these forms, under the surrogate's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from peekrank._jit import specialise, unspecialised
from peekrank.kernels.sorting import SortSpace
from peekrank.types import Floats, Ints

Estimator = Literal["printed", "residual", "doubly_robust"]
Parameters = tuple[Any, ...]  # the fields of a surrogate, in their order


class Seen(NamedTuple):
    """What a round showed of a list of n items, of which k were seen, and how probable that was.

    Parameters
    ----------
    scores
        Scores of the n items when the ranking was chosen.
    ranking
        The n items as they were shown.
    relevance
        Relevance of the first k; NaN where it was not answered. The estimates here then take that item for one not
        seen, so that they are the gradient times the probability of an answer; `printed` ones get all answers.
    propensities
        Probability, for each of the first k, that it was to be seen.
    pairs
        Probability, for each two of the first k, that both were to be seen; empty if that was certain. Filled for
        surrogates with ``min_k = 2``.
    predicted
        Target of each item as a regression predicts it; empty if the estimate is not doubly robust.
    targets, order, sorting
        Working memory for n numbers, for n items, and for sorting them.
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
    """The estimates of one surrogate's gradient.

    Parameters
    ----------
    printed
        As in the paper that has it.
    residual
        The one with the least noise among those that predict nothing.
    doubly_robust
        The one that corrects predictions; None if predicting one relevance at a time does not help.
    target
        What is predicted, a function of an item's relevance; None if nothing is.
    max_grade
        The largest grade whose slopes fit in single precision.
    """

    printed: Estimate
    residual: Estimate
    doubly_robust: Estimate | None = None
    target: Target | None = None
    max_grade: int = 255

    def of(self, estimator: Estimator) -> Estimate | None:
        """The estimate of this name; None if there is none."""
        return {"printed": self.printed, "residual": self.residual, "doubly_robust": self.doubly_robust}[estimator]


def by_item(name: str, target: Target, slope: Slope, max_grade: int = 255) -> Estimates:
    """Estimates for ``gradient_i = slope(s_i, target(R_i))``, affine in the target: one answer suffices.

    Printed and doubly robust estimates put estimated targets into the gradient; a residual one takes the slopes of
    what was seen, divided by their propensities.
    """
    gradient = specialise(_each, name, slope=slope)
    residual = specialise(_residual, name, target=target, slope=slope)
    return by_target(name, target, gradient, max_grade)._replace(residual=residual)


def by_target(name: str, target: Target, gradient: Gradient, max_grade: int = 255) -> Estimates:
    """Estimates for a gradient that is affine in all targets: one answer suffices.

    ``gradient(parameters, seen, slopes)`` finds the targets in ``seen.targets``, and may overwrite them.
    """
    estimate = specialise(_from_targets, name, target=target, gradient=gradient)
    return Estimates(estimate, estimate, estimate, target, max_grade)


def from_all(name: str, target: Target, gradient: Gradient, max_grade: int = 255) -> Estimates:
    """Exact gradients where all is seen, ``min_k = None``; `gradient` is called as for `by_target`."""
    return by_target(name, target, gradient, max_grade)._replace(doubly_robust=None, target=None)


def by_pair(name: str, slope: PairSlope, max_grade: int = 255) -> Estimates:
    """Estimates for a sum over pairs with R_i > R_j: two answers are needed.

    ``slope(parameters, s_i, s_j, R_i, R_j)`` is the derivative of a pair's loss by s_j; by s_i it is its negative.
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
            wanted = target(parameters, seen.relevance[p])
            slopes[i] = slope(parameters, seen.scores[i], wanted) / seen.propensities[p]


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
