"""Thompson sampling over items: a baseline that learns the best item, but hardly the order of the others."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.item_stats import (
    ItemStats,
    average,
    mean,
    new_stats,
    set_items,
    update_from_feedback,
    variance,
)
from peekrank.kernels.sorting import SortSpace, sort_descending, sort_space
from peekrank.kernels.vectors import fill_normals
from peekrank.learners._shared import ItemLearner, largest_gain
from peekrank.types import Features, Floats, Ints, Kernels, Shape


class ThompsonState(NamedTuple):
    """Statistics of the items, constants, and memory for one round."""

    items: ItemStats
    k: int
    largest: float
    scores: Floats
    sorting: SortSpace


@kernel
def _rank(s: ThompsonState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n, prior = len(ranking), average(s.items, s.largest)
    fill_normals(uniforms[: n + n % 2], s.scores)
    for r in range(n):
        item = s.items.rows[r]
        deviation = sqrt(variance(s.items, item, s.largest) / (s.items.answers[item] + 1))
        s.scores[r] = mean(s.items, item, prior) + deviation * s.scores[r]
    sort_descending(s.scores[:n], ranking, s.sorting)
    token[0] = 0


@kernel
def _set_items(s: ThompsonState, items: Ints) -> None:
    set_items(s.items, items)


@kernel
def _update(s: ThompsonState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    update_from_feedback(s.items, ranking, feedback, 1.0)


@dataclass(frozen=True)
class Thompson(ItemLearner):
    """Sort the items by a draw from the posterior of each one's mean gain.

    The posterior is approximated by a Gaussian, with the mean of the answers and one average answer, and the
    variance of an answer over their number. This is a well-known baseline. **It has no guarantee for the whole
    list, and its regret can be nearly linear even if relevance is perfectly stable**: it soon stops exploring
    items that cannot be first, so their order stays random. docs/learners/baselines.md has an example.

    Every answer counts, whenever it arrives. An item without answers has the mean of the others.

    Parameters
    ----------
    measure
        The measure that defines the gain of a grade; must be separable.
    max_grade
        Largest relevance grade.

    >>> from peekrank import Agent, DCG
    >>> Agent(Thompson(DCG()), m=3, k=1).rank().ranking
    array([1, 0, 2])
    """

    name: ClassVar[str] = "thompson"
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, set_items=_set_items)

    def init(self, shape: Shape) -> ThompsonState:
        """Make the state before the first round."""
        largest = largest_gain(self.measure, self.max_grade)
        return ThompsonState(
            new_stats(shape.m), shape.k, largest, np.zeros(shape.m + shape.m % 2), sort_space(shape.m)
        )

    def n_uniforms(self, shape: Shape) -> int:
        """Return m, rounded up to an even number: normal numbers come in pairs."""
        return shape.m + shape.m % 2
