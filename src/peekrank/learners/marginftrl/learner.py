"""Margin FTRL: worst-case exploration, reduced for items whose margins leave no doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_unit
from peekrank.kernels.permutahedron import (
    exchange,
    expected_values,
    fill_pairs,
    find_exchanges,
    propensities_with_exploration,
)
from peekrank.kernels.sorting import move_up
from peekrank.learners._shared import (
    check_counts,
    check_numbers,
    check_parameters,
    discount_of,
    largest_gain,
)
from peekrank.learners.marginftrl.constants import LONGEST, SHARE, SLACK, Scale, fill_positions, scale_for
from peekrank.learners.marginftrl.plan import (
    ANSWERED,
    BETA,
    EXPLORING,
    LENGTH,
    LISTED,
    MAX_EXPLORATION,
    MOVED,
    ON_LIST,
    POOLS,
    RARELY,
    REACH,
    ROUNDS,
    TOUCHED,
    Estimates,
    MarginFTRLState,
    make_plan,
    no_plan,
    settle_late,
)
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape

_ROUNDING = 1e-9
_FLOATS = ("explore_probs", "propensity", "ratios", "numbers", "space.x")


@kernel
def _set_items(s: MarginFTRLState, items: Ints) -> None:
    same = len(items) == s.clock[LISTED]
    for r in range(len(items)):
        s.rows[r] = items[r]
        same = same and items[r] == s.listed[r]
    s.same[0] = same


@kernel
def _exploit(s: MarginFTRLState, X: Features, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    if s.same[0] == 0 or s.clock[ANSWERED] >= s.clock[LENGTH]:
        make_plan(s, n)
    else:
        fill_positions(s.discounts, n, min(s.k, n), s.positions)
        find_exchanges(s.positions.weights, s.clock[POOLS], s.space)
    for p in range(n):
        ranking[p] = s.space.order[p]


@kernel
def _explore(s: MarginFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    k, begin, end = min(s.k, n), s.positions.ends[1], s.positions.ends[2]
    exchange(uniforms[1:], ranking, s.space)
    if end - begin > 1:
        for p in range(begin, k):
            j = p + int(uniforms[1 + n + p] * (end - p))
            ranking[p], ranking[j] = ranking[j], ranking[p]
    token[0] = 0
    if uniforms[0] >= s.numbers[EXPLORING]:
        for p in range(k):
            token[1 + p] = s.propensity[ranking[p]]
        return
    row, left = 0, uniforms[0] - s.explore_probs[0]
    while left >= 0 and row < n - 1:
        row += 1
        left -= s.explore_probs[row]
    position = 0
    while ranking[position] != row:
        position += 1
    if position >= k:
        move_up(ranking, position, k - 1)
        position = k - 1
        token[0] = 1
    for p in range(k):
        token[1 + p] = s.propensity[row] if p == position else 0.0


@kernel
def _rank(s: MarginFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    _exploit(s, X, ranking, token)
    _explore(s, X, uniforms, ranking, token)


@kernel
def _off_policy(s: MarginFTRLState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Use all answers, each divided by its propensity, so that the estimates are unbiased for any ranking."""
    for p in range(min(s.k, len(ranking))):
        token[1 + p] = propensities[ranking[p]] if propensities[ranking[p]] >= RARELY else 0.0


@kernel
def _update(s: MarginFTRLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if not (token[1 + p] == 0 or 0.5 * RARELY <= token[1 + p] <= 1 + 1e-9):
            raise ValueError("the token of this decision is not from this agent")
    answers = 0
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            answers += 1
            _learn(s, s.rows[ranking[p]], feedback[p], token[1 + p])
    if answers == 0:
        return
    if s.same[0] == 1:
        s.clock[ANSWERED] += 1
    else:
        settle_late(s, ranking, token, feedback)
    s.numbers[ROUNDS] += 1


@kernel
def _learn(s: MarginFTRLState, i: int, cost: float, propensity: float) -> None:
    """Add an answer for an item with this propensity, or 0 if the cost estimate does not use it."""
    items, off = s.items, cost - s.items.hints[i]
    if propensity > 0:
        items.costs[i] += off / propensity
        items.moved[i] += off / propensity
        if not s.marks[i] & MOVED:
            s.marks[i] |= MOVED
            s.touched[s.clock[TOUCHED]] = i
            s.clock[TOUCHED] += 1
        if abs(items.moved[i]) > s.numbers[REACH] and s.marks[i] & ON_LIST:
            s.clock[LENGTH] = 0
    items.squares[i] += off * off
    items.sums[i] += cost
    items.counts[i] += 1


@kernel
def _propensities(s: MarginFTRLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    n = len(out)
    fill_pairs(n, min(s.k, n), s.positions.ends[1], s.positions.ends[2], s.pairs)
    for p in range(n):
        s.seen[p] = s.positions.seen_at[p]
    expected_values(s.seen, s.space)
    propensities_with_exploration(s.explore_probs, s.seen, s.clock[POOLS], s.space, s.pairs, out)


@dataclass(frozen=True)
class MarginFTRL:
    """Follow the entropy-regularised leader, and explore items as often as their margins leave doubt.

    The leader is that of blockftrl, with costs estimated round by round, but every position has a slightly larger
    weight. The leader is then exactly a ranking as soon as costs differ enough, and estimates that move an item by
    less than its margin do not change it. Rare exploration of such an item is therefore safe for every sequence.
    How rare it becomes depends on the variance of its answers and on the cost of a mistake. Exploration moves its
    item to position k. beta, the factor of the entropy, grows with the observed loss. If it grows faster than the
    worst case allows, the learner explores at worst-case rates from then on.

    With v = w + a the shifted weights, V their sum, ``h = sum_p v(p) ln(m v(p) / V)``, g the largest gain and E
    the sum of w(k) - w(p) over p > k, the expected regret after every T is at most
    ``2.58 g (h V E)^(1/3) T^(2/3)`` plus lower-order terms, which `bound` includes. docs/theory/marginftrl.md has
    the algorithm and the proof.

    - Missing answers are ignored. A round without answers changes nothing.
    - Answers may arrive late and in any order. The bound requires that they arrive before the next ranking.
    - Lists may hold any of the items. Each item has its own clock: its estimated cost per round in which it was
      available. The bound is for items that are always available; for lists drawn at random we have only a sketch.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    max_grade
        Largest relevance grade.
    decay
        Factor of the past in each answered round. A value below 1 follows change; 1 - 1/H forgets within about H
        rounds. There is then no bound against a fixed ranking, but one on the recent regret.

    >>> from peekrank.measures import DCG
    >>> round(MarginFTRL(DCG()).bound(Shape(10, 0, 1), 100_000))
    12099
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    max_grade: int = 1
    decay: float = 1.0
    name: ClassVar[str] = "marginftrl"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    horizon: ClassVar[None] = None
    kernels: ClassVar[Kernels] = Kernels(
        _rank,
        _update,
        _propensities,
        _set_items,
        counts_rounds=True,
        off_policy=_off_policy,
        exploit=_exploit,
        explore=_explore,
    )
    persistent: ClassVar[tuple[str, ...]] = (
        *(f"items.{name}" for name in Estimates._fields),
        *("marks", "touched", "listed", "explore_probs", "propensity", "ratios", "clock", "numbers"),
        *("space.order", "space.x", "space.first"),  # the leader of the plan
    )

    def __post_init__(self) -> None:
        check_parameters(horizon=1, max_grade=self.max_grade)
        check_unit("decay", self.decay)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> MarginFTRLState:
        """Make the state before the first round."""
        sign = 1 if self.measure.higher_is_better else -1
        return no_plan(sign * discount_of(self.measure, shape.m), shape.k, self.decay)

    def validate_state(self, state: MarginFTRLState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        numbers = (*(f"items.{name}" for name in Estimates._fields), *_FLOATS)
        plan = ("marks", "touched", "listed", "clock", "space.order", "space.first")
        counts = ("items.counts", "items.rounds", *plan)
        check_numbers(state, *numbers)
        check_counts(state, *counts)
        _check_values(state)
        _check_plan(state)

    def scores(self, state: MarginFTRLState, X: Features) -> Floats:
        """Return minus the estimated cost per round of each item; an item without answers gets -1/2."""
        items, n = state.items, len(X)
        pending = state.clock[ANSWERED] * (state.marks[:n] & ON_LIST)
        rounds = items.rounds[:n] + pending
        costs = items.costs[:n] + pending * items.hints[:n]
        return np.where(rounds > 0, -costs / np.maximum(rounds, 1e-300), -0.5)

    def token_size(self, shape: Shape) -> int:
        """Return 1 + k: the explored mark and the propensities of k answers, 0 for answers that are not used."""
        return 1 + shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1 + m + k: uniforms for the exploration, for each item, and for the shuffle of ties."""
        return 1 + shape.m + shape.k

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the cost: 1 minus the measure's gain over the largest gain."""
        return 1 - self.measure.gain(relevance) / largest_gain(self.measure, self.max_grade)

    def scale(self, shape: Shape) -> Scale:
        """Return the constants of the bound."""
        return scale_for(self.measure, shape.m, shape.k)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return ``g h ((1 + 1/lambda) (beta_s^q + 1.5 D (T + 31))^(1/q) - 1/lambda)``; None with decay."""
        if self.decay < 1:
            return None
        c = self.scale(shape)
        highest = (c.start**c.power + SLACK * c.pace * (horizon + LONGEST - 1)) ** (1 / c.power)
        return float(largest_gain(self.measure, self.max_grade) * c.h * ((1 + 1 / SHARE) * highest - 1 / SHARE))


def _check_values(state: MarginFTRLState) -> None:
    """Raise ValueError if a number is one that no run can have reached."""
    if state.numbers[BETA] < 1 or state.numbers.min() < 0:
        raise ValueError("its numbers must not be below 0, and beta not below 1")
    if state.items.squares.min() < 0 or state.explore_probs.min() < 0:
        raise ValueError("its items.squares and explore_probs must not be below 0")
    if not np.all(state.ratios > 0):
        raise ValueError("its ratios must be above 0")
    if not (np.all(state.propensity >= RARELY / 2) and np.all(state.propensity <= 1 + 1e-9)):
        raise ValueError("its propensity must be probabilities")


def _check_plan(state: MarginFTRLState) -> None:
    """Raise ValueError if the list, the items moved since, the order and the pools cannot be a plan."""
    m, clock, first = len(state.marks), state.clock, state.space.first
    n, pools, touched = int(clock[LISTED]), int(clock[POOLS]), int(clock[TOUCHED])
    listed, moved = state.listed[: min(n, m)], state.touched[: min(touched, m)]
    if n > m or np.any(np.diff(listed) <= 0) or np.any(listed >= m):
        raise ValueError("its listed must be numbers of items, ascending")
    if touched > m or np.any(moved >= m) or len(np.unique(moved)) < touched:
        raise ValueError("its touched must be numbers of items, each once")
    marks = np.zeros(m, np.int64)
    marks[listed] |= ON_LIST
    marks[moved] |= MOVED
    if not np.array_equal(marks, state.marks):
        raise ValueError("its marks must be those of the items listed and touched")
    if not np.array_equal(np.sort(state.space.order[:n]), np.arange(n)):
        raise ValueError("its space.order must hold each row of the list once")
    if (n > 0) != (pools > 0) or (clock[LENGTH] > 0 and pools == 0) or pools > n:
        raise ValueError("its clock must have a list and pools for its plan")
    if n > 0 and not (first[0] == 0 and first[pools] == n and np.all(np.diff(first[: pools + 1]) > 0)):
        raise ValueError("its space.first must cut the list into pools")
    if not np.all(state.space.x[:n] > 0):
        raise ValueError("its space.x must be above 0")
    explored, exploring = float(state.explore_probs[:n].sum()), float(state.numbers[EXPLORING])
    if abs(explored - exploring) > _ROUNDING or exploring > MAX_EXPLORATION + _ROUNDING:
        raise ValueError(f"its explore_probs must add up to its exploration, at most {MAX_EXPLORATION:g}")
