"""Expansion of loss differences over sets of items (docs/theory/rates.md, Theorem 1)."""

from __future__ import annotations

from itertools import product

import numpy as np

from peekrank._util.validate import check_int
from peekrank.games.exact.numbers import Exact, UndecidedError
from peekrank.games.game import Game
from peekrank.games.ranking import losses
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

MAX_ENTRIES = 1 << 22


def interaction_order(measure: Measure | str, m: int, grades: int = 2) -> int:
    """Return the largest number of items in one term of any loss difference, the smallest k that permits learning.

    The function expands the differences of rankings that swap two adjacent items over all grades^m outcomes. All
    other differences are sums of these, for relabelled items. A term is present if exact or ball arithmetic shows
    that it is not 0, and absent only if it is exactly 0. The result is 0 if all rankings have the same value.

    Parameters
    ----------
    measure
        A measure, or its name.
    m
        Number of items; about 12 for binary relevance, fewer with more grades.
    grades
        Number of relevance grades.

    >>> interaction_order("aucloss", m=5), interaction_order("ap", m=5)
    (3, 4)
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1)
    check_int("grades", grades, 2, 256)
    if m > 24 or grades**m * m * m > MAX_ENTRIES:
        raise ValueError(
            f"m = {m} and grades = {grades}: too many outcomes to expand; use a smaller m or fewer grades"
        )
    rankings = np.tile(np.arange(m), (m, 1))
    for p in range(m - 1):
        rankings[p + 1, [p, p + 1]] = p + 1, p
    relevance = np.array(list(product(range(grades), repeat=m)), dtype=np.int64)
    numerators, bases, scales, column = losses(measure, rankings, relevance)
    names = tuple(map(str, range(len(relevance))))
    no_signals = np.zeros((m, len(relevance)), dtype=np.int64)
    game = Game(numerators, no_signals, ("",), names[:m], names, bases, scales, column)
    return max(_largest_term(game, game.difference(p, 0), m, grades) for p in range(m))


def _largest_term(game: Game, difference: Exact, m: int, grades: int) -> int:
    """Return the number of items in the largest term, by differences to grade 0 in every item."""
    rows, keys = game.terms(difference)
    terms = rows.reshape((len(rows),) + (grades,) * m).copy()
    for axis in range(1, m + 1):
        rest = (slice(None),) * axis
        terms[(*rest, slice(1, None))] -= terms[(*rest, slice(0, 1))]
    columns = terms.reshape(len(rows), grades**m)
    size = (np.indices((grades,) * m) > 0).sum(axis=0).reshape(-1)
    for items in range(m, 0, -1):
        present = {tuple(column) for column in columns[:, size == items].T.tolist() if any(column)}
        undecided: UndecidedError | None = None
        for column in present:
            try:
                if game.sign_weighted(column, keys):
                    return items
            except UndecidedError as error:
                undecided = error  # another term may decide
        if undecided:
            raise undecided
    return 0
