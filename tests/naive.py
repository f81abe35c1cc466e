"""Brute-force twins of the package, written from the definitions of CT15 (and textbooks) with plain loops.

A ranking is the sequence of items in display order, relevance is indexed by item. Nothing here uses the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import permutations
from math import inf, log2, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ranking = Sequence[int]
Relevance = Sequence[float]


def rank_of(ranking: Ranking) -> dict[int, int]:
    """Sigma of CT15: the rank, from 1, of each item."""
    return {item: position + 1 for position, item in enumerate(ranking)}


def ranking_of(sigma: Sequence[int]) -> list[int]:
    """The items 0, 1, ... in display order, where sigma holds the rank (from 1) of item 0, 1, ..."""
    return sorted(range(len(sigma)), key=lambda item: sigma[item])


def stable_descending(scores: Iterable[float]) -> list[int]:
    """Indices by descending score, ties by index."""
    values = list(scores)
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


# --- measures


def blank_value(blank: str) -> float:
    return {"0": 0.0, "1": 1.0, "skip": nan}[blank]


def gain(grade: float, gains: str = "exponential") -> float:
    return 2**grade - 1 if gains == "exponential" else grade


def sum_loss(ranking: Ranking, relevance: Relevance) -> float:
    rank = rank_of(ranking)
    return sum(rank[i] * relevance[i] for i in range(len(relevance)))


def pairwise_loss(ranking: Ranking, relevance: Relevance) -> float:
    rank, m = rank_of(ranking), len(relevance)
    return sum(rank[i] < rank[j] and relevance[i] < relevance[j] for i in range(m) for j in range(m))


def dcg(ranking: Ranking, relevance: Relevance, n: int | None = None, gains: str = "exponential") -> float:
    total = 0.0
    for item, rank in rank_of(ranking).items():
        if n is None or rank <= n:
            total += gain(relevance[item], gains) / log2(1 + rank)
    return total


def precision(ranking: Ranking, relevance: Relevance, n: int, mean: bool = False) -> float:
    hits = sum(1 for item in list(ranking)[:n] if relevance[item] > 0)
    return hits / n if mean else hits


@cache
def largest_dcg(relevance: tuple[float, ...], n: int | None, gains: str) -> float:
    """Z(r) of CT15: the largest DCG of all m! rankings."""
    return max(dcg(ranking, relevance, n, gains) for ranking in permutations(range(len(relevance))))


def ndcg(
    ranking: Ranking,
    relevance: Relevance,
    n: int | None = None,
    gains: str = "exponential",
    blank: str = "1",
) -> float:
    best = largest_dcg(tuple(relevance), n, gains)
    return dcg(ranking, relevance, n, gains) / best if best > 0 else blank_value(blank)


def average_precision(ranking: Ranking, relevance: Relevance, blank: str = "1") -> float:
    ranks = [rank for item, rank in rank_of(ranking).items() if relevance[item] > 0]
    precisions = [precision(ranking, relevance, rank, mean=True) for rank in ranks]
    return sum(precisions) / len(precisions) if precisions else blank_value(blank)


def auc(ranking: Ranking, relevance: Relevance, blank: str = "0") -> float:
    m = len(relevance)
    pairs = sum(relevance[i] < relevance[j] for i in range(m) for j in range(m))
    return pairwise_loss(ranking, relevance) / pairs if pairs else blank_value(blank)


TWINS: dict[str, Callable[..., float]] = {
    "sumloss": sum_loss,
    "pairwiseloss": pairwise_loss,
    "dcg": dcg,
    "p": precision,
    "ndcg": ndcg,
    "ap": average_precision,
    "auc": auc,
}


# --- regret


def best_value(
    value: Callable[[Ranking, Relevance], float], rows: Iterable[Relevance], *, higher_is_better: bool
) -> float:
    """Sum over the rows of the value of the one ranking that is best for all of them together: tries all m!."""
    lists = [list(row) for row in rows]
    sign = 1 if higher_is_better else -1
    best = -inf
    for ranking in permutations(range(len(lists[0]))):
        best = max(best, sign * sum(value(ranking, row) for row in lists))
    return sign * best


# --- Algorithm 1 of CT15


def cells(m: int, k: int) -> list[list[int]]:
    """The items cut into cells of k neighbours; the last may be smaller."""
    return [list(range(first, min(first + k, m))) for first in range(0, m, k)]


def on_top(cell: Sequence[int], order: Sequence[int]) -> list[int]:
    """A ranking with the items of a cell first; among them and below them in the given order."""
    return [item for item in order if item in cell] + [item for item in order if item not in cell]


def algorithm_1(
    relevance: NDArray[Any],
    blocks: int,
    epsilon: float,
    rng: np.random.Generator,
    *,
    k: int = 1,
    follow_leader: bool = False,
) -> list[list[int]]:
    """RTop-1F as printed: the rankings it shows. Rows of `relevance` are rounds; T must be a multiple of K.

    "Any permutation which places the jth object on top" is the index order, or the leader's, with j moved to the
    front. With k > 1 the "objects" of lines 8 to 14 are cells of k items.
    """
    horizon, m = relevance.shape
    length = horizon // blocks
    parts = cells(m, k)
    s_hat, r_hat = np.zeros(m), np.zeros(m)
    shown = []
    for i in range(blocks):
        s_hat = s_hat + r_hat
        r_hat = np.zeros(m)
        times = rng.choice(length, size=len(parts), replace=False)
        for t in range(length):
            leader = stable_descending(s_hat + rng.uniform(0, 1 / epsilon, m))
            if t in times:
                cell = parts[list(times).index(t)]
                sigma = on_top(cell, leader if follow_leader else range(m))
                for item in sigma[: len(cell)]:
                    r_hat[item] = relevance[i * length + t, item]
            else:
                sigma = leader
            shown.append(sigma)
    return shown
