"""Signal groups of a game: actions with the same feedback."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank.games.game import Game
from peekrank.types import Floats, Ints


class SignalGroups(NamedTuple):
    """The group of each action, and the row of each of its symbols (-1 if it never occurs).

    ``owner`` is the group of a row, ``outcomes`` marks the outcomes that lead to it.
    """

    group: Ints
    row: Ints
    owner: Ints
    outcomes: Floats


def seen_in(game: Game) -> SignalGroups:
    """Compute the signal groups and rows of a game."""
    actions = len(game.actions)
    row = np.full((actions, len(game.symbols)), -1)
    group = np.empty(actions, dtype=np.int64)
    groups: dict[bytes, int] = {}
    rows: dict[tuple[int, int], int] = {}
    for a, symbols in enumerate(game.signals):
        shown, first, where = np.unique(symbols, return_index=True, return_inverse=True)
        group[a] = groups.setdefault(first[where].tobytes(), len(groups))
        row[a, shown] = [rows.setdefault((int(group[a]), int(r)), len(rows)) for r in first]
    outcomes = np.zeros((len(rows), len(game.outcomes)))
    columns = np.broadcast_to(np.arange(len(game.outcomes)), game.signals.shape)
    outcomes[np.take_along_axis(row, game.signals, axis=1), columns] = 1
    return SignalGroups(group, row, np.array([g for g, _ in rows]), outcomes)
