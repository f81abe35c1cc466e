"""Upper confidence bounds over items: a baseline that learns the best item, but not the order of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_int
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
from peekrank.learners._shared import PERSISTENT_STATS, check_item_stats, largest_gain, means_of_items
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape


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
class UCB:
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

    measure: LinearMeasure = field(metadata={"read": measure_named})
    max_grade: int = 1
    name: ClassVar[str] = "ucb"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = PERSISTENT_STATS
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities, _set_items, counts_rounds=True)

    def __post_init__(self) -> None:
        check_int("max_grade", self.max_grade, 1, 255)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> UCBState:
        """Make the state before the first round."""
        largest = largest_gain(self.measure, self.max_grade)
        return UCBState(new_stats(shape.m), shape.k, largest, np.zeros(shape.m), sort_space(shape.m))

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark, which is always 0."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return 0: the learner is deterministic."""
        return 0

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(relevance)

    def validate_state(self, state: UCBState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_item_stats(state)

    def scores(self, state: UCBState, X: Features) -> Floats:
        """Return the mean gain of each item."""
        return means_of_items(state.items, len(X), state.largest)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: the regret can be linear."""
