"""Hash table from pairs of whole numbers to rows, in arrays of a fixed size.

Rows are numbered in the order in which pairs were added, so memory that belongs to them is touched in order. The
rows are all that has to be saved: the slots are filled again when the table is next used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Ints

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd, as multipliers must be
_SHIFT = np.uint64(32)


class PairTable(NamedTuple):
    """The pair of each row, the number of rows, the slots, and the number of rows that are in a slot."""

    pairs: Ints
    used: Ints
    slots: Ints  # row + 1; 0 for a free slot
    indexed: Ints


def pair_table(capacity: int) -> PairTable:
    """Allocate a table for a number of pairs.

    >>> table = pair_table(3)
    >>> add(table, 7, 5), add(table, 5, 7), find(table, 7, 5), find(table, 7, 7)
    (0, 1, 0, -1)
    """
    slots = 1 << (2 * capacity + 1).bit_length()
    one, two = np.zeros(1, np.int64), np.zeros(1, np.int64)
    return PairTable(np.zeros((capacity, 2), np.int64), one, np.zeros(slots, np.int64), two)


@kernel
def _home(table: PairTable, first: int, second: int) -> int:
    """Return the slot at which the search for a pair begins."""
    mixed = np.uint64(first) * _FIRST + np.uint64(second) * _SECOND
    mixed = (mixed ^ (mixed >> _SHIFT)) * _FIRST
    return np.int64((mixed >> _SHIFT) & np.uint64(len(table.slots) - 1))  # type: ignore[return-value]


@kernel
def _slot(table: PairTable, first: int, second: int) -> int:
    """Return the slot of a pair, or the free one where it would be."""
    last = len(table.slots) - 1
    slot = _home(table, first, second)
    while table.slots[slot] > 0:
        row = table.slots[slot] - 1
        if table.pairs[row, 0] == first and table.pairs[row, 1] == second:
            break
        slot = (slot + 1) & last
    return slot


@kernel
def reindex(table: PairTable) -> None:
    """Fill the slots, if the rows come from a file or from a smaller table."""
    if table.indexed[0] == table.used[0]:
        return
    table.slots[:] = 0
    for row in range(table.used[0]):
        table.slots[_slot(table, table.pairs[row, 0], table.pairs[row, 1])] = row + 1
    table.indexed[0] = table.used[0]


@kernel
def find(table: PairTable, first: int, second: int) -> int:
    """Return the row of a pair, or -1."""
    return int(table.slots[_slot(table, first, second)] - 1)


@kernel
def add(table: PairTable, first: int, second: int) -> int:
    """Return the row of a pair. A new pair gets a new row, so the table must not be full."""
    slot = _slot(table, first, second)
    if table.slots[slot] == 0:
        row = table.used[0]
        table.pairs[row, 0], table.pairs[row, 1] = first, second
        table.used[0] = table.indexed[0] = row + 1
        table.slots[slot] = row + 1
    return int(table.slots[slot] - 1)


@kernel
def replace(table: PairTable, row: int, first: int, second: int) -> None:
    """Give the row of one pair to another pair, which has none.

    >>> table = pair_table(2)
    >>> row = add(table, 1, 1)
    >>> replace(table, row, 2, 2)
    >>> find(table, 1, 1), find(table, 2, 2)
    (-1, 0)
    """
    last = len(table.slots) - 1
    hole = _slot(table, table.pairs[row, 0], table.pairs[row, 1])
    slot = (hole + 1) & last
    while table.slots[slot] > 0:  # move pairs that were pushed behind the hole back into it
        other = table.slots[slot] - 1
        home = _home(table, table.pairs[other, 0], table.pairs[other, 1])
        if ((slot - home) & last) >= ((slot - hole) & last):
            table.slots[hole] = other + 1
            hole = slot
        slot = (slot + 1) & last
    table.slots[hole] = 0
    table.pairs[row, 0], table.pairs[row, 1] = first, second
    table.slots[_slot(table, first, second)] = row + 1


def check_pair_table(table: PairTable, limits: tuple[int, int], name: str) -> None:
    """Raise ValueError unless the rows of a table from a file hold different pairs below the limits."""
    used, pairs = int(table.used[0]), table.pairs
    if not 0 <= used <= len(pairs):
        raise ValueError(f"its {name}.used must be a number of rows, from 0 to {len(pairs)}")
    if len(pairs) and (pairs.min() < 0 or pairs[:, 0].max() >= limits[0] or pairs[:, 1].max() >= limits[1]):
        raise ValueError(f"its {name}.pairs must be numbers below {limits[0]} and {limits[1]}")
    if len(np.unique(pairs[:used], axis=0)) < used:
        raise ValueError(f"its {name}.pairs must differ")
