"""Epsilon-greedy over items: a baseline without a guarantee against changing relevance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_unit
from peekrank.kernels.item_stats import ItemStats, average, mean, new_stats, set_items, update_from_feedback
from peekrank.kernels.sorting import SortSpace, copy_moved, move_up, sort_descending, sort_space
from peekrank.learners._shared import (
    PERSISTENT_STATS,
    ItemLearner,
    check_counts,
    check_item_stats,
    largest_gain,
    off_policy_unchanged,
)
from peekrank.types import Features, Floats, Ints, Kernels, Shape


class GreedyState(NamedTuple):
    """Statistics of the items and the number of rounds, constants, and memory for one round."""

    items: ItemStats
    rounds: Ints
    k: int
    largest: float
    epsilon: float  # 0: falling
    scores: Floats
    rows: Ints
    sorting: SortSpace


@kernel
def _epsilon(s: GreedyState) -> float:
    return s.epsilon if s.epsilon > 0 else float(max(1, s.rounds[0])) ** (-1 / 3)


@kernel
def _exploit(s: GreedyState, X: Features, ranking: Ints, token: Floats) -> None:
    n, prior = len(ranking), average(s.items, s.largest)
    s.rounds[0] += 1
    for r in range(n):
        s.scores[r] = mean(s.items, s.items.rows[r], prior)
    sort_descending(s.scores[:n], ranking, s.sorting)
    for p in range(n):
        s.rows[p] = ranking[p]


@kernel
def _explore(s: GreedyState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    k = min(s.k, n)
    position = int(uniforms[0] / _epsilon(s) * n)
    token[0] = k <= position < n
    if k <= position < n:
        move_up(ranking, position, k - 1)


@kernel
def _rank(s: GreedyState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    _exploit(s, X, ranking, token)
    _explore(s, X, uniforms, ranking, token)


@kernel
def _mixture(s: GreedyState, X: Features, first: int, target: int, probs: Floats) -> None:
    n, epsilon = len(probs), _epsilon(s)
    for p in range(n):
        probs[p] = 0.0 if p < first else epsilon / n


@kernel
def _component(s: GreedyState, position: int, upto: int, ranking: Ints) -> bool:
    copy_moved(s.rows, position, s.k - 1, upto, ranking)
    return True


@kernel
def _set_items(s: GreedyState, items: Ints) -> None:
    set_items(s.items, items)


@kernel
def _update(s: GreedyState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    update_from_feedback(s.items, ranking, feedback, 1.0)


@kernel
def _propensities(s: GreedyState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    n = len(ranking)
    k, each = min(s.k, n), _epsilon(s) / n
    for p in range(n):
        out[s.rows[p]] = 1.0 if p < k - 1 else 1.0 - each * (n - k) if p == k - 1 else each


@dataclass(frozen=True)
class Greedy(ItemLearner):
    """Sort the items by their mean gain; with probability epsilon move one, drawn uniformly, to position k.

    This is the best-known baseline. With a falling epsilon and stable relevance it learns the order of the whole
    list at the rate T^(2/3). **If relevance changes there is no guarantee, and the regret can be linear**: old
    answers count as much as new ones, and most of an item's answers come from the rounds in which it was at the
    top. docs/learners/baselines.md has an example.

    Every answer counts, whenever it arrives. An item without answers has the mean of the others.

    Parameters
    ----------
    measure
        The measure that defines the gain of a grade; must be separable.
    max_grade
        Largest relevance grade.
    epsilon
        Probability of exploring an item drawn at random; None for ``t^(-1/3)`` in round t.

    >>> from peekrank import Agent, DCG
    >>> Agent(Greedy(DCG()), m=4, k=1).rank().ranking  # the first round always explores
    array([2, 0, 1, 3])
    """

    epsilon: float | None = None
    name: ClassVar[str] = "greedy"
    persistent: ClassVar[tuple[str, ...]] = (*PERSISTENT_STATS, "rounds")
    kernels: ClassVar[Kernels] = Kernels(
        _rank,
        _update,
        _propensities,
        _set_items,
        counts_rounds=True,
        off_policy=off_policy_unchanged,
        exploit=_exploit,
        explore=_explore,
        mixture=_mixture,
        component=_component,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_unit("epsilon", self.epsilon)

    def init(self, shape: Shape) -> GreedyState:
        """Make the state before the first round."""
        m = shape.m
        return GreedyState(
            items=new_stats(m),
            rounds=np.zeros(1, np.int64),
            k=shape.k,
            largest=largest_gain(self.measure, self.max_grade),
            epsilon=self.epsilon or 0.0,
            scores=np.zeros(m),
            rows=np.zeros(m, np.int64),
            sorting=sort_space(m),
        )

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1: the uniform that decides whether and which item to explore."""
        return 1

    def validate_state(self, state: GreedyState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_item_stats(state)
        check_counts(state, "rounds")
