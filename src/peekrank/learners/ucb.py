"""Upper confidence bounds over items: a baseline that learns the best item, but not the order of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.item_stats import (
    ItemStats,
    average,
    confidence_width,
    mean,
    new_stats,
    set_items,
    update_from_feedback,
)
from peekrank.kernels.sorting import SortSpace, sort_descending, sort_space
from peekrank.learners._shared import ItemLearner, largest_gain
from peekrank.types import Features, Floats, Ints, Kernels, Shape


class UCBState(NamedTuple):
    """Statistics of the items, constants, and memory for one round."""

    items: ItemStats
    k: int
    largest: float
    scores: Floats
    sorting: SortSpace


@kernel
def _rank(s: UCBState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n, prior = len(ranking), average(s.items, s.largest)
    for r in range(n):
        item = s.items.rows[r]
        s.items.rounds[item] += 1
        s.scores[r] = mean(s.items, item, prior) + confidence_width(s.items, item, s.largest)
    sort_descending(s.scores[:n], ranking, s.sorting)
    token[0] = 0


@kernel
def _set_items(s: UCBState, items: Ints) -> None:
    set_items(s.items, items)


@kernel
def _update(s: UCBState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    update_from_feedback(s.items, ranking, feedback, 1.0)


@kernel
def _propensities(s: UCBState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for p in range(len(ranking)):
        out[ranking[p]] = p < s.k


@dataclass(frozen=True)
class UCB(ItemLearner):
    """Sort the items by the upper confidence bound on their mean gain: mean plus width.

    The width is the root of ``variance x ln(e + rounds) / (answers + 1)``, as in doubtsort. This is a well-known
    baseline. **It has no guarantee for the whole list, and its regret is linear even if relevance is perfectly
    stable**: the items shown most have the smallest widths, so all upper bounds become equal, and the items below
    the first k stay unordered. docs/learners/baselines.md has an example.

    Every answer counts, whenever it arrives. An item without answers has the mean of the others.

    Parameters
    ----------
    measure
        The measure that defines the gain of a grade; must be separable.
    max_grade
        Largest relevance grade.

    >>> from peekrank import Agent, DCG
    >>> agent = Agent(UCB(DCG()), m=3, k=1)
    >>> agent.update(agent.rank(), [0])
    >>> agent.rank().ranking
    array([1, 2, 0])
    """

    name: ClassVar[str] = "ucb"
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities, _set_items, counts_rounds=True)

    def init(self, shape: Shape) -> UCBState:
        """Make the state before the first round."""
        largest = largest_gain(self.measure, self.max_grade)
        return UCBState(new_stats(shape.m), shape.k, largest, np.zeros(shape.m), sort_space(shape.m))

    def n_uniforms(self, shape: Shape) -> int:
        """Return 0: the learner is deterministic."""
        return 0
