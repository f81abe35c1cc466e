"""Rounds over known items, all or only the available ones: one row of grades per round, no features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank.types import Grades, Ints, Rounds

_CELLS = 1 << 17  # a chunk of float64 takes a megabyte: it fits in the cache and adds little memory


def fixed_items(relevance: ArrayLike) -> Rounds:
    """Make rounds from an (n, m) array: row t holds the grades of items 0..m-1 in round t.

    ``features`` has no columns, and ``offsets[t] = t m``. A C-contiguous uint8 array is used without a copy.

    >>> rounds = fixed_items([[0, 1, 0], [2, 0, 1]])
    >>> rounds.relevance[rounds.offsets[1] : rounds.offsets[2]]
    array([2, 0, 1], dtype=uint8)

    Parameters
    ----------
    relevance
        Whole numbers from 0 to 255, of any numeric type. Raises ValueError, with the position, for anything else.
    """
    table = np.asarray(relevance)
    if table.ndim != 2:
        raise ValueError(f"relevance has shape {table.shape}: it must be 2-dimensional, (rounds, items)")
    if table.size == 0:
        raise ValueError(f"relevance has shape {table.shape}: it needs at least one round and one item")
    if table.dtype.kind not in "buif":
        raise ValueError(f"relevance has type {table.dtype}: grades are whole numbers from 0 to 255")
    n, m = table.shape
    grades = np.ascontiguousarray(table) if table.dtype == np.uint8 else _to_grades(table)
    features = np.empty((n * m, 0), np.float32)
    return Rounds(features, grades.reshape(-1), np.arange(0, n * m + 1, m, dtype=np.int64))


def available_items(relevance: ArrayLike, available: ArrayLike) -> Rounds:
    """Make rounds in which only some items are available: those for which row t of `available` is true.

    >>> rounds = available_items([[0, 1, 0], [2, 0, 1]], [[True, True, False], [False, False, True]])
    >>> rounds.items, rounds.relevance, rounds.offsets
    (array([0, 1, 2]), array([0, 1, 1], dtype=uint8), array([0, 2, 3]))

    Parameters
    ----------
    relevance
        As for `fixed_items`; grades of items that are not available are ignored.
    available
        True or false in the same shape, with at least one true in each row.
    """
    mask = np.asarray(available, dtype=np.bool_)
    grades = fixed_items(relevance).relevance.reshape(-1, np.shape(relevance)[1])
    if mask.shape != grades.shape or not mask.any(axis=1).all():
        raise ValueError(
            f"available of shape {mask.shape}: must be of the shape of relevance, {grades.shape}, with at least "
            "one item in every round"
        )
    offsets = np.append(0, np.cumsum(mask.sum(axis=1)))
    features = np.empty((offsets[-1], 0), np.float32)
    return Rounds(features, grades[mask], offsets, np.ascontiguousarray(np.nonzero(mask)[1]))


def known_items(rounds: Rounds) -> int:
    """Return the number of items in the rounds: those of the longest list, or all that are ever available.

    >>> known_items(fixed_items([[0, 1, 0], [2, 0, 1]]))
    3
    """
    return int(list_lengths(rounds).max() if rounds.items is None else rounds.items.max() + 1)


def list_shape(rounds: Rounds) -> tuple[int, int]:
    """Return the number of lists and of items in each. Raises ValueError if the lists differ in length.

    >>> list_shape(fixed_items([[0, 1, 0], [2, 0, 1]]))
    (2, 3)
    """
    lengths = list_lengths(rounds)
    if lengths.min() < lengths.max():
        raise ValueError(f"lists of {lengths.min()} to {lengths.max()} items: all must have the same length")
    return len(lengths), int(lengths[0])


def list_lengths(rounds: Rounds) -> Ints:
    """Validate rounds for compiled code and return the number of items of each list.

    >>> list_lengths(Rounds(np.zeros((3, 1), np.float32), np.zeros(3, np.uint8), np.array([0, 1, 3])))
    array([1, 2])
    """
    features, relevance, offsets, items = rounds[:4]
    for name, array, dtype in (
        ("features", features, np.float32), ("relevance", relevance, np.uint8), ("offsets", offsets, np.int64),
    ):  # fmt: skip
        dimensions, values = 1 + (name == "features"), np.asarray(array)
        if values.dtype != dtype or not values.flags.c_contiguous or values.ndim != dimensions:
            order = "" if values.flags.c_contiguous else "not "
            raise ValueError(
                f"{name} of the rounds: {values.dtype} in {values.ndim} dimensions, {order}C-contiguous; must be "
                f"{dtype.__name__} in {dimensions}, C-contiguous"
            )
    if len(offsets) < 2:
        raise ValueError("horizon = 0: a run must have at least 1 round")
    if offsets[0] != 0 or not offsets[-1] == len(relevance) == len(features):
        raise ValueError(
            f"offsets of the rounds go from {offsets[0]} to {offsets[-1]}: must go from 0 to the number of rows, "
            f"which is {len(relevance)} of relevance and {len(features)} of features"
        )
    lengths: Ints = np.diff(offsets)
    if lengths.min() < 1:
        raise ValueError(f"list {lengths.argmin()} has {lengths.min()} items: each must have at least one")
    if items is not None:
        _check_items(items, offsets)
    return lengths


def _check_items(items: Ints, offsets: Ints) -> None:
    if items.dtype != np.int64 or not items.flags.c_contiguous or items.shape != (offsets[-1],):
        raise ValueError(
            f"items of the rounds: {items.dtype} of shape {items.shape}; must be int64, one for each row, "
            "C-contiguous"
        )
    within = np.ones(len(items), dtype=np.bool_)
    within[offsets[:-1]] = False
    if items.min() < 0 or np.any(np.diff(items, prepend=-1)[within] <= 0):
        raise ValueError("items of the rounds: must be numbers of at least 0, ascending within each round")


def _to_grades(table: NDArray[Any]) -> Grades:
    """Convert to uint8. Raises ValueError for a value that the conversion changes, such as NaN."""
    grades = np.empty(table.shape, np.uint8)
    for rows in row_chunks(*table.shape):
        with np.errstate(invalid="ignore"):
            grades[rows] = table[rows].astype(np.uint8)
        for row, column in np.argwhere(grades[rows] != table[rows])[:1]:
            raise ValueError(
                f"relevance at row {rows.start + row}, column {column} is {table[rows][row, column]}: "
                "grades are whole numbers from 0 to 255"
            )
    return grades


def row_chunks(n: int, m: int) -> Iterator[slice]:
    """Yield slices of n rows of m cells, each small enough for temporary arrays.

    >>> [rows.stop - rows.start for rows in row_chunks(3000, 100)]
    [1310, 1310, 380]
    """
    step = max(1, _CELLS // m)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
