"""Doubtsort: sort by mean gain, and explore where uncertainty costs more than exploration."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_choice, check_unit
from peekrank.kernels.exploration import (
    DoubtSpace,
    doubt_space,
    fill_doubts,
    fill_exploration_costs,
    fill_exploration_probs,
    sample_position,
)
from peekrank.kernels.item_stats import (
    ItemStats,
    average,
    confidence_width,
    mean,
    new_stats,
    set_items,
    update_from_feedback,
)
from peekrank.kernels.sorting import copy_moved, move_up, sort_descending
from peekrank.kernels.vectors import copy
from peekrank.learners._shared import (
    ItemLearner,
    discount_of,
    largest_gain,
    means_of_items,
    off_policy_unchanged,
    position_weights,
)
from peekrank.types import Explanation, Features, Floats, Ints, Kernels, Shape

Variant = Literal["usual", "cautious", "safe"]
_USUAL, _CAUTIOUS, _SAFE = range(3)
_SHARE = 0.03  # of the possible loss from doubt, spent on exploration; the safe variant spends all of it
_CAUTION = 0.3


class DoubtSortState(NamedTuple):
    """Statistics of the items, constants, and memory for one round."""

    items: ItemStats
    weights: Floats  # of positions, up to a constant: the same for lists of any length
    k: int
    largest: float
    variant: int
    share: float
    decay: float
    scores: Floats
    spreads: Floats
    rows: Ints  # from this field on, arrays are by position
    means: Floats
    widths: Floats
    doubts: Floats
    costs: Floats
    explore_probs: Floats
    space: DoubtSpace


@kernel
def _estimate(s: DoubtSortState, item: int, prior: float) -> tuple[float, float]:
    """Return the mean gain of an item and its confidence width."""
    answers, rounds = s.items.answers[item], s.items.rounds[item]
    if s.variant == _SAFE:
        if answers == 0:
            return s.largest / 2, s.largest
        spread = s.largest * sqrt(log(2 * rounds**3) / (2 * answers)) if rounds > 0 else s.largest
        return s.items.sums[item] / answers, min(s.largest, spread)
    spread = confidence_width(s.items, item, s.largest)
    if s.variant == _CAUTIOUS:
        spread += _CAUTION * s.largest * log(np.e + rounds) / (answers + 1)
    return mean(s.items, item, prior), spread


@kernel
def _fill_estimates(s: DoubtSortState, means: Floats, widths: Floats) -> None:
    """Fill in the mean gain and the confidence width of each item."""
    prior = average(s.items, s.largest)
    for item in range(len(means)):
        means[item], widths[item] = _estimate(s, item, prior)


@kernel
def _tied(weights: Floats, k: int, n: int) -> tuple[int, int]:
    """Return begin and end of the positions of n that have the same weight as position k."""
    begin, end = k - 1, k
    while begin > 0 and weights[begin - 1] == weights[k - 1]:
        begin -= 1
    while end < n and weights[end] == weights[k - 1]:
        end += 1
    return begin, end


@kernel
def _exploit(s: DoubtSortState, X: Features, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    prior = average(s.items, s.largest)
    for r in range(n):
        item = s.items.rows[r]
        s.items.rounds[item] += 1
        s.scores[r], s.spreads[r] = _estimate(s, item, prior)
    sort_descending(s.scores[:n], ranking, s.space.sorting)
    for p in range(n):
        row = ranking[p]
        s.rows[p], s.means[p], s.widths[p] = row, s.scores[row], s.spreads[row]


@kernel
def _price(s: DoubtSortState, first: int, target: int, probs: Floats) -> None:
    n = len(probs)
    if s.variant == _SAFE:
        s.costs[:n] = s.largest * (s.weights[target] - s.weights[n - 1])
    else:
        fill_exploration_costs(s.means[:n], s.weights, target + 1, s.costs[:n])
    if first == s.k:
        first = _tied(s.weights, s.k, n)[1]
    fill_exploration_probs(s.doubts[:n], s.widths[:n], s.costs[:n], first, s.share, probs)


@kernel
def _mixture(s: DoubtSortState, X: Features, first: int, target: int, probs: Floats) -> None:
    if first == s.k and target == s.k - 1:
        copy(s.explore_probs[: len(probs)], probs)
    else:
        _price(s, first, target, probs)


@kernel
def _explore(s: DoubtSortState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    k = min(s.k, n)
    fill_doubts(s.means[:n], s.widths[:n], s.weights, s.doubts[:n], s.space)
    _price(s, k, k - 1, s.explore_probs[:n])
    begin, end = _tied(s.weights, k, n)
    position = sample_position(s.explore_probs[:n], end, uniforms[0])
    _arrange(s, ranking, position, begin, end, k)
    token[0] = position >= 0


@kernel
def _rank(s: DoubtSortState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    _exploit(s, X, ranking, token)
    _explore(s, X, uniforms, ranking, token)


@kernel
def _arrange(s: DoubtSortState, ranking: Ints, position: int, begin: int, end: int, k: int) -> None:
    """Move the explored item to position k; among the other tied positions, the least known items come first."""
    size = end - begin
    if position >= 0:  # the cost is that of moving it to the last of the tied positions
        move_up(ranking, position, end - 1)
        size -= 1
    order = s.space.order[:size]
    sort_descending(s.widths[begin : begin + size], order, s.space.sorting)
    for j in range(size):
        ranking[begin + j] = s.rows[begin + order[j]]
    if position >= 0:
        move_up(ranking, end - 1, k - 1)


@kernel
def _component(s: DoubtSortState, position: int, upto: int, ranking: Ints) -> bool:
    n = len(ranking)
    k = min(s.k, n)
    begin, end = _tied(s.weights, k, n)
    if end - begin == 1:
        copy_moved(s.rows, position, k - 1, upto, ranking)
        return True
    copy(s.rows[:n], ranking)
    _arrange(s, ranking, position, begin, end, k)
    return False


@kernel
def _set_items(s: DoubtSortState, items: Ints) -> None:
    set_items(s.items, items)


@kernel
def _update(s: DoubtSortState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    update_from_feedback(s.items, ranking, feedback, s.decay)


@kernel
def _propensities(s: DoubtSortState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    n = len(ranking)
    k, total = min(s.k, n), 0.0
    begin, end = _tied(s.weights, k, n)
    for p in range(n):
        out[s.rows[p]] = 1.0 if p < begin else s.explore_probs[p]
        total += s.explore_probs[p]
    order = s.space.order[: end - begin]
    sort_descending(s.widths[begin:end], order, s.space.sorting)
    displaced = order[k - 1 - begin]
    for j in range(k - begin):
        out[s.rows[begin + order[j]]] = 1.0
        if order[j] == end - 1 - begin:
            displaced = order[j]
    out[s.rows[begin + displaced]] -= total


@dataclass(frozen=True)
class DoubtSort(ItemLearner):
    """Sort the items by mean gain, and explore those whose uncertainty costs more than exploration.

    Doubtsort is for stable relevance, drawn in each round from the same distribution. The available items may
    change in any way. If relevance changes, it has no guarantee; use marginftrl or blockftrl.

    Let b_i be the mean gain of item i and u_i its confidence width. Items i and j may have to change positions if
    ``|b_i - b_j| <= u_i + u_j``. The doubt D_i is the difference in weight between the highest and the lowest
    position that i may take in this way, counting only items whose width is at most u_i. Sorting by b loses at
    most ``sum_i 2 u_i D_i``. Moving item i up to position k has a cost, computed from the means; the learner does
    it with probability ``0.03 u_i D_i / cost``.

    - Every answer counts, whenever it arrives and whichever other items were answered. Whether people answer must
      not depend on what they would answer.
    - Exploration at positions with the same weight as position k costs nothing: the least known items come first.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    max_grade
        Largest relevance grade.
    variant
        "usual": u_i is the root of ``variance ln(e + rounds) / (answers + 1)``. "cautious" adds
        ``0.3 g ln(e + rounds) / (answers + 1)``: quicker with new items, and more costly. "safe" is the one with a
        theorem (`stochastic_bound`): ``u_i = g sqrt(ln(2 rounds^3) / (2 answers))``, and much more costly. g is
        the largest gain.
    decay
        Factor of an item's statistics at each of its answers. A value below 1 follows change.

    >>> from peekrank import Agent, DCG
    >>> agent = Agent(DoubtSort(DCG()), m=3, k=1, seed=0)
    >>> for _ in range(200):
    ...     decision = agent.rank()
    ...     agent.update(decision, [int(decision.ranking[0] == 2)])  # item 2 is liked, the others are not
    >>> int(agent.rank().ranking[0])
    2
    """

    variant: Variant = "usual"
    decay: float = 1.0
    name: ClassVar[str] = "doubtsort"
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
        check_choice("variant", self.variant, Variant)
        check_unit("decay", self.decay)

    def init(self, shape: Shape) -> DoubtSortState:
        """Make the state before the first round."""
        m, variant = shape.m, get_args(Variant).index(self.variant)
        scores, spreads, means, widths, doubts, costs, explore_probs = (np.zeros(m) for _ in range(7))
        return DoubtSortState(
            items=new_stats(m),
            weights=discount_of(self.measure, m) * (1 if self.measure.higher_is_better else -1),
            k=shape.k,
            largest=largest_gain(self.measure, self.max_grade),
            variant=variant,
            share=1.0 if variant == _SAFE else _SHARE,
            decay=self.decay,
            scores=scores,
            spreads=spreads,
            rows=np.zeros(m, np.int64),
            means=means,
            widths=widths,
            doubts=doubts,
            costs=costs,
            explore_probs=explore_probs,
            space=doubt_space(m),
        )

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1: the uniform that selects the explored item."""
        return 1

    def scores(self, state: DoubtSortState, X: Features) -> Floats:
        """Return the mean gain of each item."""
        means = means_of_items(state.items, len(X), state.largest)
        if self.variant == "safe":
            answers = state.items.answers[: len(X)]
            means = np.where(answers > 0, state.items.sums[: len(X)] / np.maximum(1, answers), state.largest / 2)
        return means

    def explain(self, state: DoubtSortState, scores: Floats, key: int | None) -> Explanation:
        """Return the mean gain of each item, and the width of its uncertainty."""
        means, widths = np.empty(len(scores)), np.empty(len(scores))
        _fill_estimates(state, means, widths)
        return Explanation(means, state.items.answers[: len(scores)].copy(), {"width": widths})

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: there is no bound if relevance changes. For stable relevance see `stochastic_bound`."""

    def stochastic_bound(self, shape: Shape, horizon: int) -> float | None:
        """Return the bound on the expected regret if relevance is stable and all items are always available.

        This is the theorem of docs/theory/doubtsort.md for the safe variant. None for the others, and with decay.
        """
        if self.variant != "safe" or self.decay < 1:
            return None
        m, _, k = shape
        weights, g = position_weights(self.measure, m), largest_gain(self.measure, self.max_grade)
        first, last, W = weights[0], weights[k - 1], weights.sum()
        begin, end = _tied(weights, k, m)
        L = log(2 * horizon**3)
        exploration = 3 * g * (1.5 * (last * first**2 * L) ** (1 / 3) * horizon ** (2 / 3) + last)
        seen = 4 * g * first * (end - begin) / (k - begin) * (1 + sqrt(2 * L * horizon))
        crowded = 4 * g * W * (8 * (m * first / last) ** 2 * L + 1) if last > 0 else 0.0
        return float(m * (exploration + seen + crowded + g * W * pi**2 / 6))
