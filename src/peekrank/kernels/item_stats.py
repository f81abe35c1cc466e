"""Feedback statistics of single items: counts, means, variances and confidence widths.

The prior of an item is the mean of the other items' means, with the weight of one answer.
"""

from __future__ import annotations

from math import e, log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, Ints


class ItemStats(NamedTuple):
    """Sum and sum of squares of the observed gains, number of answers and of rounds available, per item.

    `pool` holds the sum of the means of all items with an answer, and their number. `rows` holds the item of each
    row of the present list.
    """

    sums: Floats
    squares: Floats
    answers: Floats
    rounds: Floats
    pool: Floats
    rows: Ints


def new_stats(m: int) -> ItemStats:
    """Return the statistics of m items without answers."""
    return ItemStats(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(2), np.arange(m))


@kernel
def set_items(items: ItemStats, available: Ints) -> None:
    """Set the items of the rows of the next list.

    >>> known = new_stats(5)
    >>> set_items(known, np.array([1, 4]))
    >>> known.rows[:2]
    array([1, 4])
    """
    for row in range(len(available)):
        items.rows[row] = available[row]


@kernel
def update(items: ItemStats, item: int, gain: float, decay: float) -> None:
    """Add an answer to the statistics of an item, after multiplying them by `decay`.

    >>> known = new_stats(2)
    >>> update(known, 1, 1.0, 1.0)
    >>> update(known, 1, 0.0, 1.0)
    >>> known.answers, known.pool
    (array([0., 2.]), array([0.5, 1. ]))
    """
    count = items.answers[item]
    if count > 0:
        items.pool[0] -= items.sums[item] / count
    else:
        items.pool[1] += 1
    items.sums[item] = decay * items.sums[item] + gain
    items.squares[item] = decay * items.squares[item] + gain * gain
    items.answers[item] = decay * count + 1
    items.pool[0] += items.sums[item] / items.answers[item]


@kernel
def update_from_feedback(items: ItemStats, ranking: Ints, feedback: Floats, decay: float) -> None:
    """Add the feedback on the first rows of a ranking. NaN means no answer."""
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            update(items, items.rows[ranking[p]], feedback[p], decay)


@kernel
def average(items: ItemStats, largest: float) -> float:
    """Return the prior mean of an item without answers: the mean of all means and of half the largest gain.

    >>> average(new_stats(3), 1.0)
    0.5
    """
    return float((items.pool[0] + largest / 2) / (items.pool[1] + 1))


@kernel
def mean(items: ItemStats, item: int, prior: float) -> float:
    """Return the mean gain of an item, counting the prior as one more answer.

    >>> known = new_stats(1)
    >>> update(known, 0, 1.0, 1.0)
    >>> mean(known, 0, 0.5)
    0.75
    """
    return float((items.sums[item] + prior) / (items.answers[item] + 1))


@kernel
def variance(items: ItemStats, item: int, largest: float) -> float:
    """Return the variance of an item's gain, with the smallest and the largest gain as two more answers.

    >>> variance(new_stats(1), 0, 1.0)
    0.25
    """
    count, deviations = items.answers[item], 0.0
    if count > 0:
        deviations = max(0.0, items.squares[item] - items.sums[item] * items.sums[item] / count)
    return float((deviations + largest * largest / 2) / (count + 2))


@kernel
def confidence_width(items: ItemStats, item: int, largest: float) -> float:
    """Return the confidence width of a mean: sqrt(variance x ln(e + rounds available) / (answers + 1)).

    >>> confidence_width(new_stats(1), 0, 1.0)
    0.5
    """
    spread = variance(items, item, largest) * log(e + items.rounds[item])
    return sqrt(spread / (items.answers[item] + 1))
