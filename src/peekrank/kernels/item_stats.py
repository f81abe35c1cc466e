"""What answers tell of single items: counts, means, variances and how far a mean may be off.

An item that was never answered for is taken for an average one: its mean begins at the mean of the others' means,
with the weight of one answer.
"""

from __future__ import annotations

from math import e, log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, Ints


class Items(NamedTuple):
    """Per item: sum and sum of squares of the gains answered, number of answers and of rounds it was available in.

    `pool` holds the sum of the means of all items with an answer, and their number. `here` tells which item each
    row of the list is that is being ranked or answered for.
    """

    sums: Floats
    squares: Floats
    answers: Floats
    rounds: Floats
    pool: Floats
    here: Ints


def unknown_items(m: int) -> Items:
    """No answer about any of m items."""
    return Items(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(2), np.arange(m))


@kernel
def enter(items: Items, available: Ints) -> None:
    """Note which items the rows of the next list are.

    >>> known = unknown_items(5)
    >>> enter(known, np.array([1, 4]))
    >>> known.here[:2]
    array([1, 4])
    """
    for row in range(len(available)):
        items.here[row] = available[row]


@kernel
def learn(items: Items, item: int, gain: float, forget: float) -> None:
    """Take an answer in, after multiplying what is known of the item by `forget`.

    >>> known = unknown_items(2)
    >>> learn(known, 1, 1.0, 1.0)
    >>> learn(known, 1, 0.0, 1.0)
    >>> known.answers, known.pool
    (array([0., 2.]), array([0.5, 1. ]))
    """
    count = items.answers[item]
    if count > 0:
        items.pool[0] -= items.sums[item] / count
    else:
        items.pool[1] += 1
    items.sums[item] = forget * items.sums[item] + gain
    items.squares[item] = forget * items.squares[item] + gain * gain
    items.answers[item] = forget * count + 1
    items.pool[0] += items.sums[item] / items.answers[item]


@kernel
def learn_from_answers(items: Items, ranking: Ints, feedback: Floats, forget: float) -> None:
    """Take in what was answered about the first of a ranking of the items that are here; NaN: not answered."""
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            learn(items, items.here[ranking[p]], feedback[p], forget)


@kernel
def average(items: Items, largest: float) -> float:
    """What is expected of an item nothing is known of: the mean of all means, and of half the largest gain.

    >>> average(unknown_items(3), 1.0)
    0.5
    """
    return float((items.pool[0] + largest / 2) / (items.pool[1] + 1))


@kernel
def mean(items: Items, item: int, prior: float) -> float:
    """Mean gain of an item, the prior counting as one more answer.

    >>> known = unknown_items(1)
    >>> learn(known, 0, 1.0, 1.0)
    >>> mean(known, 0, 0.5)
    0.75
    """
    return float((items.sums[item] + prior) / (items.answers[item] + 1))


@kernel
def variance(items: Items, item: int, largest: float) -> float:
    """Variance of an item's gain, as if two answers had been the smallest and the largest gain.

    >>> variance(unknown_items(1), 0, 1.0)
    0.25
    """
    count, deviations = items.answers[item], 0.0
    if count > 0:
        deviations = max(0.0, items.squares[item] - items.sums[item] * items.sums[item] / count)
    return float((deviations + largest * largest / 2) / (count + 2))


@kernel
def width(items: Items, item: int, largest: float) -> float:
    """How far the mean may be off: the root of variance x ln(e + rounds available) / (answers + 1).

    >>> width(unknown_items(1), 0, 1.0)
    0.5
    """
    spread = variance(items, item, largest) * log(e + items.rounds[item])
    return sqrt(spread / (items.answers[item] + 1))
