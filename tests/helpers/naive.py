"""Brute-force twins of the package, written from the definitions of CT15 (and textbooks) with plain loops.

A ranking is the sequence of items in display order, relevance is indexed by item. Nothing here uses the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations
from math import inf, log2, nan
from typing import Any, NamedTuple

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


def no_relevant_value(no_relevant: str) -> float:
    return {"0": 0.0, "1": 1.0, "skip": nan}[no_relevant]


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
    no_relevant: str = "1",
) -> float:
    best = largest_dcg(tuple(relevance), n, gains)
    return dcg(ranking, relevance, n, gains) / best if best > 0 else no_relevant_value(no_relevant)


def average_precision(ranking: Ranking, relevance: Relevance, no_relevant: str = "1") -> float:
    ranks = [rank for item, rank in rank_of(ranking).items() if relevance[item] > 0]
    precisions = [precision(ranking, relevance, rank, mean=True) for rank in ranks]
    return sum(precisions) / len(precisions) if precisions else no_relevant_value(no_relevant)


def auc(ranking: Ranking, relevance: Relevance, no_relevant: str = "0") -> float:
    m = len(relevance)
    pairs = sum(relevance[i] < relevance[j] for i in range(m) for j in range(m))
    return pairwise_loss(ranking, relevance) / pairs if pairs else no_relevant_value(no_relevant)


def rank_biased_precision(ranking: Ranking, relevance: Relevance, n: int | None = None, p: float = 0.8) -> float:
    """Moffat & Zobel 2008: the reader looks at the first item, and goes on to the next one with probability p."""
    looked = 1.0
    total = 0.0
    for item in list(ranking)[:n]:
        total += looked * (relevance[item] > 0)
        looked *= p
    return (1 - p) * total


def reciprocal_rank(ranking: Ranking, relevance: Relevance, n: int | None = None) -> float:
    ranks = [rank for item, rank in rank_of(ranking).items() if relevance[item] > 0]
    return 1 / min(ranks) if ranks and (n is None or min(ranks) <= n) else 0.0


def expected_reciprocal_rank(
    ranking: Ranking, relevance: Relevance, n: int | None = None, max_grade: int = 4
) -> float:
    """Chapelle et al. 2009, equation 4: sum_r 1/r P(the user stops at r), with R of definition 2."""
    R = [(2 ** relevance[item] - 1) / 2**max_grade for item in ranking]
    total = 0.0
    for r in range(1, len(R) + 1):
        if n is None or r <= n:
            stops = R[r - 1]
            for i in range(1, r):
                stops *= 1 - R[i - 1]
            total += stops / r
    return total


def recall(ranking: Ranking, relevance: Relevance, n: int, no_relevant: str = "0") -> float:
    relevant = {item for item in ranking if relevance[item] > 0}
    return len(relevant & set(list(ranking)[:n])) / len(relevant) if relevant else no_relevant_value(no_relevant)


def hit(ranking: Ranking, relevance: Relevance, n: int) -> float:
    return float(precision(ranking, relevance, n) > 0)


TWINS: dict[str, Callable[..., float]] = {
    "sumloss": sum_loss,
    "pairwiseloss": pairwise_loss,
    "dcg": dcg,
    "p": precision,
    "ndcg": ndcg,
    "ap": average_precision,
    "aucloss": auc,
    "rbp": rank_biased_precision,
    "rr": reciprocal_rank,
    "err": expected_reciprocal_rank,
    "recall": recall,
    "hit": hit,
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

    "Any permutation which positions the jth object on top" is the index order, or the leader's, with j moved to
    the front. With k > 1 the "objects" of lines 8 to 14 are cells of k items.
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


# --- finite games of partial monitoring: ZT's definitions 1 to 7, by enumerating the corners of cells


class GameTwin(NamedTuple):
    """What the definitions say of each action and of all pairs of neighbours (in both orders), and the rate."""

    kind: list[str]
    dimension: list[int]
    neighborhood: dict[tuple[int, int], list[int]]
    globally: bool
    locally: bool
    rate: str


Row = Sequence[Fraction]


def echelon(rows: Iterable[Row]) -> list[list[Fraction]]:
    """The rows that are not 0 after elimination, each led by a 1 that is alone in its column."""
    left = [list(row) for row in rows]
    done: list[list[Fraction]] = []
    for c in range(len(left[0]) if left else 0):
        pivot = next((row for row in left if row[c]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        pivot = [x / pivot[c] for x in pivot]
        left = [[x - row[c] * y for x, y in zip(row, pivot, strict=True)] for row in left]
        done = [[x - row[c] * y for x, y in zip(row, pivot, strict=True)] for row in done] + [pivot]
    return done


def dot(x: Iterable[Fraction], y: Iterable[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def best_actions(loss: Sequence[Row], p: Row) -> frozenset[int]:
    """Definition 1."""
    values = [dot(row, p) for row in loss]
    return frozenset(i for i, value in enumerate(values) if value == min(values))


def corners(loss: Sequence[Row], i: int) -> list[tuple[Fraction, ...]]:
    """Definition 2: the corners of a cell, where n - 1 of its inequalities hold with equality."""
    n = len(loss[0])
    walls = {tuple(Fraction(r == c) for c in range(n)) for r in range(n)}
    walls |= {tuple(a - b for a, b in zip(row, loss[i], strict=True)) for row in loss}
    found = set()
    for chosen in combinations(sorted(wall for wall in walls if any(wall)), n - 1):
        solved = echelon([[*wall, Fraction(0)] for wall in chosen] + [[Fraction(1)] * (n + 1)])
        if len(solved) == n and all(any(row[:n]) for row in solved):
            point = tuple(row[n] for row in sorted(solved, key=lambda row: row.index(Fraction(1))))
            if min(point) >= 0 and i in best_actions(loss, point):
                found.add(point)
    return sorted(found)


def dimension_of(points: Sequence[Row]) -> int:
    """Of the hull of these points; -1 if there are none."""
    if not points:
        return -1
    return len(echelon([[a - b for a, b in zip(point, points[0], strict=True)] for point in points[1:]]))


def in_span(vector: Row, rows: Sequence[Row]) -> bool:
    return len(echelon([*rows, vector])) == len(echelon(rows))


def signal_rows(feedback: Sequence[Sequence[Any]], actions: Iterable[int]) -> list[list[Fraction]]:
    """Definition 5: the rows of the signal matrices of these actions."""
    return [[Fraction(s == t) for t in feedback[a]] for a in actions for s in dict.fromkeys(feedback[a])]


def game_twin(loss: Sequence[Sequence[Any]], feedback: Sequence[Sequence[Any]]) -> GameTwin:
    """A small game with rational losses, by the letter; observability is asked of neighbours (both conditions)."""
    L = [[Fraction(x) for x in row] for row in loss]
    n, actions = len(L[0]), range(len(L))
    cell = [corners(L, i) for i in actions]
    best = {point: best_actions(L, point) for points in cell for point in points}

    def within(points: Sequence[tuple[Fraction, ...]], j: int) -> bool:
        return all(j in best[point] for point in points)

    kind = []  # Definition 3
    for i in actions:
        smaller = any(within(cell[i], j) and not within(cell[j], i) for j in actions)
        kind.append("dominated" if not cell[i] else "degenerate" if smaller else "pareto")
    neighborhood = {}  # Definition 4
    for i, j in permutations([i for i in actions if kind[i] == "pareto"], 2):
        both = [point for point in cell[i] if j in best[point]]
        if dimension_of(both) == n - 2 and both:
            neighborhood[i, j] = [a for a in actions if within(both, a)]
    apart = {(i, j): [a - b for a, b in zip(L[i], L[j], strict=True)] for i, j in neighborhood}
    everything = signal_rows(feedback, actions)
    globally = all(in_span(apart[pair], everything) for pair in neighborhood)  # Definition 6
    locally = all(in_span(apart[pair], signal_rows(feedback, seen)) for pair, seen in neighborhood.items())  # 7
    rate = "0" if not neighborhood else "sqrt(T)" if locally else "T^(2/3)" if globally else "T"  # Theorem 2
    return GameTwin(kind, [dimension_of(points) for points in cell], neighborhood, globally, locally, rate)


def random_game(
    rng: np.random.Generator, most: int = 4, largest: int = 3
) -> tuple[list[list[int]], list[list[int]]]:
    """Losses and feedback with 2 to `most` actions and outcomes; ties, duplicates and losers are frequent."""
    actions, outcomes = rng.integers(2, most + 1, size=2)
    loss = rng.integers(0, largest + 1, size=(actions, outcomes))
    if actions > 2 and rng.random() < 0.3:  # one in the middle of two others
        loss[:2] *= 2
        loss[2] = (loss[0] + loss[1]) // 2
    symbols = rng.integers(1, outcomes + 1)
    order = rng.permutation(actions)
    return loss[order].tolist(), rng.integers(0, symbols, size=(actions, outcomes)).tolist()
