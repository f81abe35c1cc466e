"""Helpers that several learners share: constants of a measure, checks of parameters and states, totals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_int, check_positive
from peekrank.kernels.item_stats import ItemStats, average
from peekrank.kernels.sorting import SortSpace, sort_descending
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, LinearMeasure, Shape, State

_MAX_NUMBER = 1e100  # larger numbers may overflow in products and squares
_MAX_SQUARES = 1e200  # sums of squared gains, which are up to 2^510
_MAX_COUNT = 2**40  # larger counts may overflow in sums


@kernel
def answered(feedback: Floats) -> int:
    """Return the number of answers in a round."""
    count = 0
    for p in range(len(feedback)):
        count += not np.isnan(feedback[p])
    return count


class FeedbackTotals(NamedTuple):
    """Sum and number of the answers for each item so far."""

    sums: Floats
    counts: Ints


def empty_totals(m: int) -> FeedbackTotals:
    """Return the totals of m items without answers."""
    return FeedbackTotals(np.zeros(m), np.zeros(m, dtype=np.int64))


@kernel
def add_feedback(answers: FeedbackTotals, ranking: Ints, feedback: Floats) -> bool:
    """Add the answers of a round, and return whether there were any.

    >>> answers = empty_totals(3)
    >>> add_feedback(answers, np.array([2, 0, 1]), np.array([1.0, np.nan]))
    True
    >>> answers.counts
    array([0, 0, 1])
    """
    some = False
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            answers.sums[ranking[p]] += feedback[p]
            answers.counts[ranking[p]] += 1
            some = True
    return some


@kernel
def completed(answers: FeedbackTotals, item: int, answer: float) -> float:
    """Return an answer or, if it is missing, the mean of the answers for its item, or else for all items.

    >>> answers = empty_totals(3)
    >>> _ = add_feedback(answers, np.array([2, 0, 1]), np.array([1.0, 0.0]))
    >>> completed(answers, 2, np.nan), completed(answers, 1, np.nan), completed(answers, 2, 0.0)
    (1.0, 0.5, 0.0)
    """
    if not np.isnan(answer):
        return answer
    if answers.counts[item] > 0:
        return float(answers.sums[item] / answers.counts[item])
    total, count = 0.0, 0
    for i in range(len(answers.sums)):
        total += answers.sums[i]
        count += answers.counts[i]
    return total / count


@lru_cache(maxsize=2)
def discount_of(measure: LinearMeasure, m: int) -> Floats:
    """Return the measure's discount, read-only and cached for the bounds of several learners."""
    discount = measure.discount(m)
    discount.setflags(write=False)
    return discount


def largest_gain(measure: LinearMeasure, max_grade: int) -> float:
    """Return the gain of the largest grade: 2^n - 1 for DCG with grades 0..n."""
    return float(measure.gain(np.array([max_grade], dtype=np.float64))[0])


@kernel
def perturbed_leader(
    scores: Floats, width: float, uniforms: Floats, perturbed: Floats, ranking: Ints, sorting: SortSpace
) -> None:
    """Sort descending by ``scores + width * uniforms``: M(s + p) with p uniform in [0, 1/epsilon]^m."""
    for i in range(len(scores)):
        perturbed[i] = scores[i] + width * uniforms[i]
    sort_descending(perturbed, ranking, sorting)


class Constants(NamedTuple):
    """Kalai and Vempala's constants of a measure over gain vectors in [0, g]^m.

    D bounds how much two rankings can differ in the value of one vector from the unit cube, R in the value of one
    gain vector, and A the l1 norm of a gain vector.
    """

    D: float
    R: float
    A: float


@lru_cache(maxsize=64)
def constants(measure: LinearMeasure, m: int, max_grade: int) -> Constants:
    """Return D, R and A: two opposite rankings differ most, on the half of the items that one ranks first.

    >>> from peekrank.measures import SumLoss
    >>> constants(SumLoss(), 10, max_grade=1)
    Constants(D=25.0, R=25.0, A=10.0)
    """
    largest = largest_gain(measure, max_grade)
    discount, half = discount_of(measure, m), m // 2
    D = float(np.abs(discount[:half] - discount[: m - half - 1 : -1]).sum())
    return Constants(D, largest * D, largest * m)


def position_weights(measure: LinearMeasure, m: int) -> Floats:
    """Return the weight of each position above the last one: non-negative, non-increasing, 0 at the end.

    >>> from peekrank.measures import DCG, SumLoss
    >>> position_weights(SumLoss(), 4)
    array([3., 2., 1., 0.])
    >>> position_weights(DCG(1), 4)
    array([1., 0., 0., 0.])
    """
    return _weights(measure, m).copy()


@lru_cache(maxsize=2)
def _weights(measure: LinearMeasure, m: int) -> Floats:
    """Return the position weights, read-only and cached for the bounds of several learners."""
    discount = discount_of(measure, m)
    weights: Floats = np.abs(discount - discount[-1])
    weights.setflags(write=False)
    return weights


def weights_below(measure: LinearMeasure, m: int, k: int) -> float:
    """Return the sum of the weights of the positions after k.

    >>> from peekrank.measures import SumLoss
    >>> weights_below(SumLoss(), 4, 2), exploration_cost(SumLoss(), 4, 2)
    (1.0, 3.0)
    """
    return float(_sums_below(measure, m)[k - 1])


def exploration_cost(measure: LinearMeasure, m: int, k: int) -> float:
    """Return the cost of exploring every item once: the sum of w(k) - w(p) over the unseen positions p."""
    return float((m - k) * _weights(measure, m)[k - 1] - _sums_below(measure, m)[k - 1])


@lru_cache(maxsize=2)
def _sums_below(measure: LinearMeasure, m: int) -> Floats:
    weights = _weights(measure, m)
    return np.asarray(np.cumsum(weights[::-1])[::-1] - weights)


class Entropy(NamedTuple):
    """The first weight, the sum W of all, and r = sum of w ln(w m / W)."""

    first: float
    W: float
    r: float


@lru_cache(maxsize=64)
def entropy(measure: LinearMeasure, m: int) -> Entropy:
    """Return the constants that bound the entropy of a measure's position weights."""
    weights = _weights(measure, m)
    w = weights[weights > 0]
    W = float(w.sum())
    return Entropy(float(weights[0]), W, float(np.sum(w * np.log(w * m / W))))


def check_parameters(
    *, horizon: int, max_grade: int, blocks: int | None = None, epsilon: float | None = None
) -> None:
    """Raise ValueError if a parameter is out of range. None stands for the theorem's choice."""
    check_int("horizon", horizon, 1, 10**12)
    check_int("max_grade", max_grade, 1, 255)
    if blocks is not None:
        check_int("blocks", blocks, 1, 10**9)
    if epsilon is not None:
        check_positive("epsilon", epsilon)


def check_numbers(state: State, *names: str, largest: float = _MAX_NUMBER) -> None:
    """Raise ValueError if one of these arrays of a state holds NaN or a number beyond the largest.

    >>> class Memory(NamedTuple):
    ...     scores: Floats
    >>> check_numbers(Memory(np.array([0.5, np.inf])), "scores")
    Traceback (most recent call last):
    ValueError: its scores must be finite numbers
    """
    for name in names:
        if not np.all(np.abs(attrgetter(name)(state).astype(np.float64)) <= largest):
            raise ValueError(f"its {name} must be finite numbers")


def check_counts(state: State, *names: str) -> None:
    """Raise ValueError if one of these arrays of a state holds anything but numbers from 0 to 2^40.

    >>> class Memory(NamedTuple):
    ...     rounds: Ints
    >>> check_counts(Memory(np.array([-1])), "rounds")
    Traceback (most recent call last):
    ValueError: its rounds must be counts, from 0 to 2^40
    """
    for name in names:
        numbers = attrgetter(name)(state)
        if not np.all((numbers >= 0) & (numbers <= _MAX_COUNT)):
            raise ValueError(f"its {name} must be counts, from 0 to 2^40")


@kernel
def off_policy_unchanged(state: State, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Leave the token unchanged, for learners whose ``update`` can use feedback on any ranking."""


PERSISTENT_STATS = tuple(f"items.{name}" for name in ("sums", "squares", "answers", "rounds", "pool"))


def check_item_stats(state: State) -> None:
    """Raise ValueError if the item statistics of a state read from a file are invalid."""
    answers = state.items.answers
    check_numbers(state, "items.sums", "items.pool")
    check_numbers(state, "items.squares", largest=_MAX_SQUARES)
    check_counts(state, "items.answers", "items.rounds")
    if np.any((answers > 0) & (answers < 1)) or state.items.pool[1] < 0:
        raise ValueError("its items.answers must be 0 or at least 1, and its items.pool must not be below 0")


def means_of_items(items: ItemStats, count: int, largest: float) -> Floats:
    """Return the mean gain of each of the first items, like `kernels.item_stats.mean`."""
    means: Floats = (items.sums[:count] + average(items, largest)) / (items.answers[:count] + 1)
    return means


class ShortHorizonWarning(UserWarning):
    """Warning that a horizon is too short for the parameters of the theorem."""


def warn_short(name: str, horizon: int, what: str) -> None:
    """Warn that a horizon is too short, and say what the learner does instead."""
    warnings.warn(f"{name}: horizon = {horizon:,} is short: {what}", ShortHorizonWarning, stacklevel=2)


@dataclass(frozen=True)
class ItemLearner:
    """Base of learners that keep statistics of each item: members that they have in common."""

    measure: LinearMeasure = field(metadata={"read": measure_named})
    max_grade: int = 1
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = PERSISTENT_STATS

    def __post_init__(self) -> None:
        check_int("max_grade", self.max_grade, 1, 255)
        learnable(self.measure, self.max_grade)

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark."""
        return 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(relevance)

    def validate_state(self, state: Any) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_item_stats(state)

    def scores(self, state: Any, X: Features) -> Floats:
        """Return the mean gain of each item."""
        return means_of_items(state.items, len(X), state.largest)

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: if relevance changes, the regret can be linear."""
