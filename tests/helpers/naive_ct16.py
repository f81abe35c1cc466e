"""RTop-kF written from CT16 alone: Algorithm 1, section 4.1 and the propensities of section 4.2, in NumPy.

Nothing here uses the package. Items of a list are rows of X, and ties of scores go by index.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Propensities = Literal["exact", "printed", "twice"]
SEEN = {"squared": 1, "kl": 1, "smoothdcg": 1, "ranksvm": 2}


def top_propensity(order: Array, greedy: Array, gamma: float, propensities: Propensities) -> float:
    """p(sigma(1)): by equation (1) a sum over permutations, or 1 - gamma + gamma / m as section 4.2 prints it."""
    m = len(order)
    if propensities != "exact":
        return 1 - gamma + gamma / m
    return (1 - gamma) * float(order[0] == greedy[0]) + gamma / m


def pair_denominator(order: Array, greedy: Array, gamma: float, propensities: Propensities) -> float:
    """p(sigma(1), sigma(2)) + p(sigma(2), sigma(1)): by (1), or as printed, the sum read as one p or as two."""
    m = len(order)
    if propensities != "exact":
        printed = 1 - gamma + 2 * gamma / (m * (m - 1))
        return 2 * printed if propensities == "twice" else printed
    return (1 - gamma) * float(set(order[:2]) == set(greedy[:2])) + 2 * gamma / (m * (m - 1))


def slopes(
    surrogate: str, s: Array, order: Array, seen: Array, gamma: float, propensities: Propensities, epsilon: float
) -> Array:
    """The estimated gradient in the scores from the relevance `seen` of the first items of `order`."""
    m, greedy = len(s), np.argsort(-s, kind="stable")
    e, i = np.eye(m), order[0]
    if surrogate == "ranksvm":
        j = order[1]
        if seen[0] == seen[1]:
            return np.zeros(m)
        high, low = (i, j) if seen[0] > seen[1] else (j, i)
        pull = float(1 + s[low] > s[high]) * (e[low] - e[high])
        return np.asarray(pull / pair_denominator(order, greedy, gamma, propensities))
    p = top_propensity(order, greedy, gamma, propensities)
    if surrogate == "squared":
        return np.asarray(2 * (s - seen[0] * e[i] / p))
    if surrogate == "kl":
        return np.asarray((np.exp(s[i]) - np.exp(seen[0])) * e[i] / p)
    share = np.exp((s - s.max()) / epsilon)
    share /= share.sum()
    rise = (share[i] * e[i] - share[i] * share) / epsilon  # of a gain, which is to be climbed
    return np.asarray(-(2 ** seen[0] - 1) / p * rise)
