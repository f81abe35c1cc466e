"""Compiled evaluation of many rankings at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank._jit import kernel
from peekrank.types import Floats, Ints, LinearMeasure, Measure

_POWERS = np.exp2(np.arange(256)) - 1


def evaluate(measure: Measure, ranking: ArrayLike, relevance: ArrayLike) -> Any:
    """Return the value of one ranking, or of each row of a matrix of rankings.

    Parameters
    ----------
    measure
        The measure.
    ranking
        Items in display order, or one such row per list.
    relevance
        Relevance of item 0, 1, ..., in the same shape.

    >>> from peekrank.measures import DCG
    >>> round(evaluate(DCG(), [2, 0, 1], [0, 1, 1]), 4)
    1.5
    """
    rankings, rel = np.asarray(ranking), np.asarray(relevance)
    if rankings.shape != rel.shape or rankings.ndim not in (1, 2) or rankings.size == 0:
        raise ValueError(
            f"ranking of shape {rankings.shape} and relevance of shape {rel.shape}: "
            "both must be one list, or one list per row, of the same shape and not empty"
        )
    rankings, rows = np.atleast_2d(rankings), np.atleast_2d(rel)
    with np.errstate(invalid="ignore"):
        items = np.ascontiguousarray(rankings, dtype=np.int64)
    if not np.array_equal(items, rankings) or not are_permutations(items, np.full(rows.shape[1], -1)):
        raise ValueError(f"a ranking must hold each of the items 0 to {rows.shape[1] - 1} exactly once")
    grades = rows.dtype == np.uint8
    if not grades and (rows.dtype.kind not in "buif" or not np.all(np.isfinite(rows)) or np.any(rows < 0)):
        raise ValueError("relevance must be numbers, finite and not negative")
    values = measure.values(items, rows)
    return float(values[0]) if rel.ndim == 1 else values


def linear_parts(measure: LinearMeasure, relevance: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return discount, gains and offsets (a copy) of lists in rows, in the types that kernels are compiled for."""
    n, m = relevance.shape
    parts = []
    for name, values, shape in (
        ("discount", measure.discount(m), (m,)),
        ("gain", measure.gain(relevance), (n, m)),
        ("offset", measure.offset(relevance), (n,)),
    ):
        array = np.array(values, dtype=np.float64, order="C", copy=True if name == "offset" else None)
        if array.shape != shape:
            raise ValueError(
                f"{name} of {measure} has shape {array.shape} for lists of {m} items: must be {shape}"
            )
        parts.append(array)
    return parts[0], parts[1], parts[2]


def powers(grades: NDArray[np.uint8]) -> Floats:
    """Return 2^grade - 1 for each grade."""
    out = np.empty(grades.size)
    _look_up(_POWERS, grades.reshape(-1), out)
    return out.reshape(grades.shape)


@kernel
def _look_up(table: Floats, grades: NDArray[np.uint8], out: Floats) -> None:
    for i in range(len(grades)):
        out[i] = table[grades[i]]


def best_sums(discount: Floats, gain: Floats, relevance: NDArray[Any]) -> Floats:
    """Return the largest sum_p discount(p) gain(item at p) of each row, for a gain that ascends with relevance."""
    if relevance.dtype != np.uint8:
        return np.asarray(-np.sort(-gain, axis=-1) @ discount)
    out = np.zeros(relevance.shape[:-1])
    gains, grades = (np.ascontiguousarray(array).reshape(-1, len(discount)) for array in (gain, relevance))
    sums = np.append(0, np.cumsum(discount))
    _find_best(sums, gains, grades, np.zeros(256, np.int64), np.zeros(256), out.reshape(-1))
    return out


@kernel
def _find_best(
    sums: Floats, gain: Floats, grades: NDArray[np.uint8], counts: Ints, gain_of: Floats, out: Floats
) -> None:
    """Sum up each row's gains in descending order of grades, by counting the grades.

    `counts` is 0 before and after. ``sums[p]`` is the sum of the first p discounts.
    """
    n, m = grades.shape
    for t in range(n):
        highest = 0
        for i in range(m):
            grade = grades[t, i]
            counts[grade] += 1
            gain_of[grade] = gain[t, i]
            highest = max(highest, grade)
        p, total = 0, 0.0
        for grade in range(highest, -1, -1):
            end = p + counts[grade]
            total += (sums[end] - sums[p]) * gain_of[grade]
            p = end
            counts[grade] = 0
        out[t] = total


@kernel
def are_permutations(rankings: Ints, last_seen: Ints) -> bool:
    """Return whether each row is a permutation of 0 to m - 1; `last_seen` must hold -1 for each item."""
    n, m = rankings.shape
    for t in range(n):
        for p in range(m):
            item = rankings[t, p]
            if not 0 <= item < m or last_seen[item] == t:
                return False
            last_seen[item] = t
    return True


@kernel
def add_discounted(discount: Floats, gain: Floats, rankings: Ints, out: Floats) -> None:
    """Add sum_p discount(p) gain(item at p) of each row."""
    n, m = rankings.shape
    for t in range(n):
        total = 0.0
        for p in range(m):
            total += discount[p] * gain[t, rankings[t, p]]
        out[t] += total


@kernel
def average_precision(rankings: Ints, relevant: NDArray[np.bool_], no_relevant: float, out: Floats) -> None:
    """Fill in the mean, over the relevant items of each row, of the precision at their rank."""
    n, m = rankings.shape
    for t in range(n):
        hits, total = 0, 0.0
        for p in range(m):
            if relevant[t, rankings[t, p]]:
                hits += 1
                total += hits / (p + 1)
        out[t] = total / hits if hits > 0 else no_relevant


@kernel
def first_relevant(rankings: Ints, relevant: NDArray[np.bool_], depth: int, out: Floats) -> None:
    """Fill in the rank of each row's first relevant item, infinity if none is among the first `depth`."""
    for t in range(len(rankings)):
        out[t] = np.inf
        for p in range(depth):
            if relevant[t, rankings[t, p]]:
                out[t] = p + 1
                break


@kernel
def cascade(rankings: Ints, satisfies: Floats, depth: int, out: Floats) -> None:
    """Fill in the expected 1/rank of each row's first satisfying item among the first `depth`; 0 if none is."""
    for t in range(len(rankings)):
        total, continuation = 0.0, 1.0
        for p in range(depth):
            probability = satisfies[t, rankings[t, p]]
            total += continuation * probability / (p + 1)
            continuation *= 1 - probability
        out[t] = total


def discordant_pairs(rankings: Ints, relevance: NDArray[Any]) -> Floats:
    """Return the number of pairs of each row that are in the wrong order."""
    levels, codes = np.unique(relevance, return_inverse=True)
    out = np.empty(len(rankings))
    _count_discordant(rankings, codes.reshape(relevance.shape), np.zeros(len(levels), dtype=np.int64), out)
    return out


@kernel
def _count_discordant(rankings: Ints, codes: Ints, below: Ints, out: Floats) -> None:
    n, m = rankings.shape
    for t in range(n):
        below[:] = 0
        wrong = 0
        for p in range(m - 1, -1, -1):
            code = codes[t, rankings[t, p]]
            for better in range(code + 1, len(below)):
                wrong += below[better]
            below[code] += 1
        out[t] = wrong


@kernel
def add_up_rows(gain: Floats, offset: Floats, sums: Floats, checkpoints: Ints, records: Floats) -> None:
    """Add gains and offset (NaN: none) of each row to `sums`, and record the sums at each checkpoint."""
    n, m = gain.shape
    i = 0
    for t in range(n):
        for item in range(m):
            sums[item] += gain[t, item]
        if not np.isnan(offset[t]):
            sums[m] += offset[t]
        if i < len(checkpoints) and checkpoints[i] == t + 1:
            for item in range(m + 1):
                records[i, item] = sums[item]
            i += 1
