"""What CT15 and ZT define, asked of a game: observability of every pair, neighbours, types of signals.

Cells, neighbours and N+ are those of `analyse`, which looks at one ranking for all that are alike after renaming
items, and so is local observability, which is about these. tests/test_cells.py holds them against a twin that goes
by the definitions.
"""

from __future__ import annotations

from itertools import permutations, product
from math import comb, factorial

import numpy as np

from peekrank.games.analysis import Analysis
from peekrank.games.game import Game
from peekrank.games.observability import signals, unobservable_change

STRICT = ("sumloss", "pairwiseloss", "dcg")  # losses with a strictly increasing f
MOST = {True: 4, False: 5}  # items, quick or not

Row = tuple[int, ...]


def globally_observable(game: Game) -> bool:
    """CT15 Definition 3, ZT Definition 6: all feedback spans the loss difference of *every* pair of actions.

    Differences to the first action suffice, for the others are differences of these.

    >>> from peekrank.games.ranking import ranking_game
    >>> globally_observable(ranking_game("dcg", m=3, k=1)), globally_observable(ranking_game("ndcg", m=3, k=1))
    (True, False)
    """
    seen = signals(game, range(len(game.actions)))
    return all(unobservable_change(game, game.difference(0, j), seen) is None for j in range(1, len(game.actions)))


def all_pareto(found: Analysis) -> bool:
    """CT15 Lemma 2, ZT Lemmas 3 and 9: every action is Pareto-optimal."""
    return found.cells is not None and set(found.cells.kind) == {"pareto"}


def adjacent_swaps(found: Analysis, m: int) -> bool:
    """CT15 Lemma 3, ZT Lemmas 4 and 5: neighbours of the first ranking swap two adjacent items, N+ is the two."""
    if found.cells is None:
        return False
    orders = list(permutations(range(m)))
    swaps = {orders.index((*range(p), p + 1, p, *range(p + 2, m))) for p in range(m - 1)}
    mine = [border for border in found.cells.borders if border.i == 0]
    return {border.j for border in mine} == swaps and all(len(border.neighborhood) == 2 for border in mine)


def exchanges(found: Analysis, m: int, n: int) -> bool:
    """ZT Lemmas 10 and 11: neighbours of the first ranking exchange one of its first n, N+ is the two classes."""
    if found.cells is None:
        return False
    tops = [frozenset(order[:n]) for order in permutations(range(m))]
    mine = [border for border in found.cells.borders if border.i == 0]
    return (
        len(np.unique(found.cells.duplicate_of)) == comb(m, n)
        and len(mine) == n * (m - n)
        and all(len(tops[0] - tops[border.j]) == 1 for border in mine)
        and all(len(border.neighborhood) == 2 * factorial(n) * factorial(m - n) for border in mine)
    )


def groups(m: int, a: int, b: int) -> list[list[int]]:
    """ZT, proof of Theorem 6: outcomes that differ in items a and b only, in the order 00, 01, 10, 11.

    >>> groups(3, 0, 1)
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    step_a, step_b = 2 ** (m - 1 - a), 2 ** (m - 1 - b)
    rest = [n for n in range(2**m) if not n & (step_a | step_b)]
    return [[n + x * step_a + y * step_b for x, y in product((0, 1), repeat=2)] for n in rest]


def types_of_rows(game: Game, actions: tuple[int, ...], group: list[int]) -> set[Row]:
    """The rows of the signal matrices of some actions, within a group."""
    rows = np.vstack([game.signal_matrix(action) for action in actions])[:, group]
    return {tuple(row) for row in rows.tolist()}
