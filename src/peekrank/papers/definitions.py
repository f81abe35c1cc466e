"""The definitions of CT15 and ZT, applied to a game: observability of every pair, neighbours, types of signals.

Cells, neighbours, N+ and local observability are those of `analyse`, which examines one ranking of each class that
is equal up to relabelling. tests/games/test_cells.py compares them with a direct implementation of the
definitions.
"""

from __future__ import annotations

from itertools import permutations, product
from math import comb, factorial

import numpy as np

from peekrank.games.analysis import Analysis
from peekrank.games.game import Game
from peekrank.games.observability import signals, unobservable_change

STRICT = ("sumloss", "pairwiseloss", "dcg")  # losses with a strictly increasing f
MAX_ITEMS = {True: 4, False: 5}  # by `Options.quick`

Row = tuple[int, ...]


def globally_observable(game: Game) -> bool:
    """Return whether all feedback spans the loss difference of *every* pair (CT15 Definition 3, ZT Definition 6).

    Differences to the first action suffice, because all others are differences of these.

    >>> from peekrank.games.ranking import ranking_game
    >>> globally_observable(ranking_game("dcg", m=3, k=1)), globally_observable(ranking_game("ndcg", m=3, k=1))
    (True, False)
    """
    seen = signals(game, range(len(game.actions)))
    return all(unobservable_change(game, game.difference(0, j), seen) is None for j in range(1, len(game.actions)))


def all_pareto(analysis: Analysis) -> bool:
    """Return whether every action is Pareto-optimal (CT15 Lemma 2, ZT Lemmas 3 and 9)."""
    return analysis.cells is not None and set(analysis.cells.kind) == {"pareto"}


def adjacent_swaps(analysis: Analysis, m: int) -> bool:
    """Return whether neighbours of the first ranking swap two adjacent items and N+ is the pair.

    CT15 Lemma 3, ZT Lemmas 4 and 5.
    """
    if analysis.cells is None:
        return False
    orders = list(permutations(range(m)))
    swaps = {orders.index((*range(p), p + 1, p, *range(p + 2, m))) for p in range(m - 1)}
    mine = [border for border in analysis.cells.borders if border.i == 0]
    return {border.j for border in mine} == swaps and all(len(border.neighborhood) == 2 for border in mine)


def exchanges(analysis: Analysis, m: int, n: int) -> bool:
    """Return whether neighbours of the first ranking exchange one of its first n items and N+ is the two classes.

    ZT Lemmas 10 and 11.
    """
    if analysis.cells is None:
        return False
    tops = [frozenset(order[:n]) for order in permutations(range(m))]
    mine = [border for border in analysis.cells.borders if border.i == 0]
    return (
        len(np.unique(analysis.cells.duplicate_of)) == comb(m, n)
        and len(mine) == n * (m - n)
        and all(len(tops[0] - tops[border.j]) == 1 for border in mine)
        and all(len(border.neighborhood) == 2 * factorial(n) * factorial(m - n) for border in mine)
    )


def groups(m: int, a: int, b: int) -> list[list[int]]:
    """Group the outcomes that differ only in items a and b, in the order 00, 01, 10, 11 (ZT, proof of Theorem 6).

    >>> groups(3, 0, 1)
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    step_a, step_b = 2 ** (m - 1 - a), 2 ** (m - 1 - b)
    rest = [n for n in range(2**m) if not n & (step_a | step_b)]
    return [[n + x * step_a + y * step_b for x, y in product((0, 1), repeat=2)] for n in rest]


def types_of_rows(game: Game, actions: tuple[int, ...], group: list[int]) -> set[Row]:
    """Return the distinct rows of the actions' signal matrices, within a group."""
    rows = np.vstack([game.signal_matrix(action) for action in actions])[:, group]
    return {tuple(row) for row in rows.tolist()}
