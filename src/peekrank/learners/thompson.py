"""Thompson sampling over items: a baseline that learns the best item, but hardly the order of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_int
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
from peekrank.learners._shared import PERSISTENT_STATS, check_item_stats, largest_gain, means_of_items
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape


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
class Thompson:
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

    measure: LinearMeasure = field(metadata={"read": measure_named})
    max_grade: int = 1
    name: ClassVar[str] = "thompson"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = PERSISTENT_STATS
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, set_items=_set_items)

    def __post_init__(self) -> None:
        check_int("max_grade", self.max_grade, 1, 255)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> ThompsonState:
        """Make the state before the first round."""
        largest = largest_gain(self.measure, self.max_grade)
        return ThompsonState(
            new_stats(shape.m), shape.k, largest, np.zeros(shape.m + shape.m % 2), sort_space(shape.m)
        )

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark, which is always 0."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return m, rounded up to an even number: normal numbers come in pairs."""
        return shape.m + shape.m % 2

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(relevance)

    def validate_state(self, state: ThompsonState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_item_stats(state)

    def scores(self, state: ThompsonState, X: Features) -> Floats:
        """Return the mean gain of each item."""
        return means_of_items(state.items, len(X), state.largest)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: the regret can be linear."""
