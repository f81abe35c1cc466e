"""Ceilings on the best factor for any number of items: an adversary with two blocks of items that look alike.

All items have the same flag, so random rankings are optimal, but the first block is better on the whole. The best
such adversary is a small linear program (docs/theory/best-factor.md, Theorem 2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from peekrank._util.extras import LazyModule
from peekrank._util.validate import check_int
from peekrank.measures import NDCG, AUCLoss, AveragePrecision, Recall
from peekrank.measures import measure as measure_named
from peekrank.types import Floats, Measure

optimize: Any = LazyModule("scipy.optimize", "games")  # importing SciPy takes half a second
MAX_ITEMS = 50
_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28)  # of the first block, if there are many items
_MANY = 10


def factor_ceiling(measure: Measure | str, m: int, k: int) -> float | None:
    """Return a share of the best ranking's value that no learner can exceed on binary relevance.

    Adversaries are those with two blocks of items that look alike, so the best factor may be smaller. They always
    have a relevant item (and an irrelevant one for `aucloss`). Returns None for other measures than `ndcg`, `ap`,
    `aucloss` (as area under the curve) and `recall`, and for `aucloss` with more than 50 items. For the others,
    items that are never relevant change nothing, so the ceiling of 50 items holds for more.

    Parameters
    ----------
    measure
        A measure, or its name.
    m
        Number of items.
    k
        Number of revealed positions.

    >>> round(factor_ceiling("ndcg", m=10, k=1), 4), round(factor_ceiling("ndcg", m=10, k=2), 4)
    (0.7721, 0.9493)
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 2)
    check_int("k", k, 1, m)
    if type(measure) not in (NDCG, AveragePrecision, AUCLoss, Recall):
        return None
    if m > MAX_ITEMS and isinstance(measure, AUCLoss):
        return None
    m = min(m, MAX_ITEMS)
    if k >= m - 1:
        return 1.0
    sizes = range(1, m) if m <= _MANY else [a for a in _SIZES if a < m]
    return min(_ceiling(measure, a, m - a, min(k, m)) for a in sizes)


@lru_cache(maxsize=1024)
def _ceiling(measure: Measure, a: int, b: int, k: int) -> float:
    """Return the smallest value of random rankings, if ranking the first a items first has the value 1.

    Variables are the weights of i relevant items among the first a and j among the other b, in random positions.
    """
    i, j = (
        grid.ravel().astype(np.float64) for grid in np.meshgrid(np.arange(a + 1), np.arange(b + 1), indexing="ij")
    )
    counted = (i + j > 0) & ((i + j < a + b) | (not isinstance(measure, AUCLoss)))
    i, j = i[counted], j[counted]
    n = i + j
    best, random = _value(measure, i, j, a, b), _value(measure, n, np.zeros_like(n), a + b, 0)
    same = []  # the probability that s given items are all relevant does not depend on how many are of each block
    for s in range(1, min(k, a + b) + 1):
        shown = [_falling(i, a, u) * _falling(j, b, s - u) for u in range(max(0, s - b), min(a, s) + 1)]
        same += [one - shown[0] for one in shown[1:]]
    equal = np.array([best, *same])
    found = optimize.linprog(random, A_eq=equal, b_eq=np.r_[1.0, np.zeros(len(same))], method="highs")
    if found.x is None:
        return 1.0
    p = np.maximum(found.x, 0)
    return min(1.0, float(random @ p / (best @ p)))


def _falling(i: Floats, a: int, u: int) -> Floats:
    """Return the probability that u given items of a block are relevant, if i random items of its a are."""
    value: Floats = np.ones(len(i))
    for step in range(u):
        value = value * np.maximum(i - step, 0) / (a - step)
    return value


def _value(measure: Measure, i: Floats, j: Floats, a: int, b: int) -> Floats:
    """Return the mean value of the ranking with the first block first, i relevant among a, then j among b."""
    n = i + j
    match measure:
        case AUCLoss():
            pairs = i * (a - i) / 2 + j * (b - j) / 2 + i * (b - j)
            return np.asarray(pairs / (n * (a + b - n)))
        case AveragePrecision():
            total, in_a, in_b = np.zeros(len(n)), i / a, j / max(b, 1)
            two_a, two_b = in_a * (i - 1) / max(a - 1, 1), in_b * (j - 1) / max(b - 1, 1)
            for p in range(1, a + b + 1):  # P(relevant at p) and at each of the p - 1 positions above
                total += (in_a + (p - 1) * two_a if p <= a else in_b + i * in_b + (p - 1 - a) * two_b) / p
            return np.asarray(total / n)
        case NDCG(cutoff=cut):
            weights = np.zeros(a + b)
            weights[:cut] = 1 / np.log2(2 + np.arange(len(weights[:cut])))
            best = np.cumsum(weights)[n.astype(int) - 1]
        case Recall(cutoff=cut):
            weights, best = (np.arange(a + b) < cut).astype(float), n
        case _:
            raise TypeError(f"{measure} has no ceiling")
    other = weights[a:].mean() if b else 0.0
    return np.asarray((i * weights[:a].mean() + j * other) / best)
