"""Exploration plans of marginftrl: how often to explore each item, how long a plan lasts, and its loss.

A plan is for one list. The cost of an item is extrapolated to all rounds: its estimated cost per round in which it
was available, times the number of all rounds. For a fixed set of items that is the estimated cost itself.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.permutahedron import Pairs, Space, expected_values, find_exchanges, leader, pairs, space
from peekrank.learners.marginftrl.constants import (
    HARDEST,
    LONGEST,
    NUDGE,
    PUSH,
    SHARE,
    SLACK,
    PositionTables,
    fill_positions,
    positions,
    scale_in,
)
from peekrank.types import Floats, Ints

# The clock: rounds answered under the present plan, and its length (a plan that is shorter than that is over);
# pools of its leader (0: there is no plan yet); whether rates are those of the worst case; the length of its list;
# the number of items that answers have moved since
ANSWERED, LENGTH, POOLS, SAFE, LISTED, TOUCHED = range(6)
# The numbers: answered rounds; beta; the cost of exploration per round, its probability, and how far answers may
# move an item before the plan ends; the limit for beta^q, and the growth of that limit per round
ROUNDS, BETA, COST, EXPLORING, REACH, ALLOWED, PACE = range(7)
# Marks of an item: it is on the plan's list; answers have moved it
ON_LIST, MOVED = 1, 2

RARELY = 2.0**-40  # smallest target propensity
MAX_EXPLORATION = 0.9  # largest probability of exploration
_CAUTION = 0.5  # alpha: the doubt about the order that is required
_CALM = 0.2  # added to the logarithm of the cost of a mistake
_BOUNDLESS = 1e99  # margin of an item with no other to pass
_MAX_EXPONENT = 50.0  # for larger exponents the linear bound is smaller


class Estimates(NamedTuple):
    """Statistics of each item, subject to decay."""

    costs: Floats  # estimated, without the hints of the plan in force
    sums: Floats  # of the costs seen
    squares: Floats  # of their deviations from the hints
    counts: Floats
    rounds: Floats  # the item's own clock: answered rounds with it on the list, without those of the plan in force
    hints: Floats  # estimated cost per round, as of the last plan with the item on its list
    moved: Floats  # change of its costs by answers since the plan was made


class MarginFTRLState(NamedTuple):
    """Statistics of the items, the plan in force, and working memory."""

    items: Estimates
    marks: Ints
    touched: Ints  # items with the mark MOVED
    listed: Ints  # the plan's list
    explore_probs: Floats  # by row of the list: the probability of exploring the item,
    propensity: Floats  # the probability of exploring it or seeing it without exploration,
    ratios: Floats  # and the ratio of all rounds to those in which it was available
    clock: Ints
    numbers: Floats
    discounts: Floats  # of positions, up to a constant: the same for lists of any length
    k: int
    decay: float
    rows: Ints  # the items of the present list, and whether it is the plan's
    same: Ints
    positions: PositionTables
    scores: Floats  # by row, as is point
    point: Floats
    seen: Floats  # by order, as are move_cost, up and down
    move_cost: Floats
    up: Floats
    down: Floats
    space: Space
    pairs: Pairs


def no_plan(discounts: Floats, k: int, decay: float) -> MarginFTRLState:
    """Make the state before the first round, for as many items as there are discounts."""
    m = len(discounts)
    costs, sums, squares, counts, rounds, moved, explore_probs = (np.zeros(m) for _ in range(7))
    scores, point, seen, move_cost, up, down = (np.zeros(m) for _ in range(6))
    numbers = np.zeros(7)
    numbers[BETA] = 1.0
    return MarginFTRLState(
        items=Estimates(costs, sums, squares, counts, rounds, np.full(m, 0.5), moved),
        marks=np.zeros(m, np.int64),
        touched=np.zeros(m, np.int64),
        listed=np.zeros(m, np.int64),
        explore_probs=explore_probs,
        propensity=np.ones(m),
        ratios=np.ones(m),
        clock=np.zeros(6, np.int64),
        numbers=numbers,
        discounts=discounts,
        k=k,
        decay=decay,
        rows=np.arange(m),
        same=np.zeros(1, np.int64),
        positions=positions(m),
        scores=scores,
        point=point,
        seen=seen,
        move_cost=move_cost,
        up=up,
        down=down,
        space=space(m),
        pairs=pairs(m),
    )


@kernel
def make_plan(s: MarginFTRLState, n: int) -> None:
    """Settle the plan in force, and make one for the n items of the present list."""
    _settle(s)
    fill_positions(s.discounts, n, min(s.k, n), s.positions)
    _guard(s)
    _list_items(s, n)
    clock, beta = s.clock, s.numbers[BETA]
    safe = clock[SAFE] == 1
    for r in range(n):
        i = s.rows[r]
        s.items.hints[i] = 0.5 if safe else (s.items.sums[i] + 0.5) / (s.items.counts[i] + 1)
        s.ratios[r] = _ratio(s, i)
        s.scores[r] = -(s.items.costs[i] + s.items.hints[i]) * s.ratios[r]
    clock[POOLS] = leader(s.scores[:n], 1 / beta, s.positions.weights, s.space)
    find_exchanges(s.positions.weights, clock[POOLS], s.space)
    for p in range(n):
        s.seen[p], s.move_cost[p] = s.positions.seen_at[p], s.positions.move_cost_at[p]
    expected_values(s.seen, s.space)
    expected_values(s.move_cost, s.space)
    if not safe:
        _find_margins(s, n)
    _choose_rates(s, n)


@kernel
def _settle(s: MarginFTRLState) -> None:
    """Add the hints of the plan in force to the costs, and its loss to beta; then apply the decay."""
    items, clock, numbers = s.items, s.clock, s.numbers
    answered, n = clock[ANSWERED], clock[LISTED]
    for r in range(n):
        items.costs[s.listed[r]] += answered * items.hints[s.listed[r]]
        items.rounds[s.listed[r]] += answered
    if n > 0 and clock[TOUCHED] + answered > 0:
        fill_positions(s.discounts, n, min(s.k, n), s.positions)
        h = s.positions.scale[2]
        lost = _lost(s, n)
        numbers[BETA] += SHARE / h * (answered * numbers[COST] + lost) if h > 0 else 0.0
        numbers[ALLOWED] += answered * numbers[PACE]
    if s.decay < 1 and answered > 0:
        _apply_decay(s, s.decay**answered)
    for j in range(clock[TOUCHED]):
        items.moved[s.touched[j]] = 0
        s.marks[s.touched[j]] &= ~MOVED
    clock[TOUCHED], clock[ANSWERED] = 0, 0


@kernel
def _apply_decay(s: MarginFTRLState, part: float) -> None:
    """Multiply the statistics of the items on the plan's list, the rounds and beta by `part`."""
    for r in range(s.clock[LISTED]):
        i = s.listed[r]
        s.items.costs[i] *= part
        s.items.sums[i] *= part
        s.items.squares[i] *= part
        s.items.counts[i] *= part
        s.items.rounds[i] *= part
    s.numbers[ROUNDS] *= part
    s.numbers[BETA] = max(part * s.numbers[BETA], s.positions.scale[6] if s.clock[SAFE] == 1 else 1.0)
    s.numbers[ALLOWED] *= part ** s.positions.scale[4]


@kernel
def _lost(s: MarginFTRLState, n: int) -> float:
    """Return the loss of the plan's point against the best one for the present costs, by the items' clocks."""
    beta, rounds, lowest, moved, in_all = s.numbers[BETA], s.numbers[ROUNDS], _BOUNDLESS, 0.0, 0.0
    for p in range(n):
        s.point[s.space.order[p]] = s.space.x[p]
    for r in range(n):
        i = s.listed[r]
        own = s.items.rounds[i]
        costs = s.items.costs[i] * (rounds / own) if own > 0 else 0.5 * rounds
        s.scores[r] = -costs
        lowest = min(lowest, costs)
        moved += abs(s.items.moved[i])
        in_all += abs(s.items.moved[i]) * s.ratios[r]
    leader(s.scores[:n], 1 / beta, s.positions.weights, s.space)
    lost = 0.0
    for p in range(n):
        r, y = s.space.order[p], s.space.x[p]
        x = s.point[r]
        if x != y:
            lost += (x - y) * (-s.scores[r] - lowest) + beta * (x * log(x) - y * log(y))
    return max(lost, 0.0) * (moved / in_all) if in_all > 0 else max(lost, 0.0)


@kernel
def settle_late(s: MarginFTRLState, ranking: Ints, token: Floats, feedback: Floats) -> None:
    """Settle a round with late answers and another list than the plan's by itself.

    An item that is not on the plan's list gets the mean weight and the largest possible cost of a move: the
    smaller of the two bounds in the proof.
    """
    numbers, n = s.numbers, s.clock[LISTED]
    fill_positions(s.discounts, n, min(s.k, n), s.positions)
    c, beta, lost = scale_in(s.positions), numbers[BETA], numbers[COST]
    for p in range(len(feedback)):
        i = s.rows[ranking[p]]
        if token[1 + p] > 0 and not np.isnan(feedback[p]) and not s.marks[i] & ON_LIST:
            moved, own = (feedback[p] - s.items.hints[i]) / token[1 + p], beta / _ratio(s, i)
            z = max(moved / own, -_MAX_EXPONENT)
            lost += min(own * c.V / n * (exp(-z) - 1 + z), s.positions.weights[0] * abs(moved))
    if c.h > 0:
        numbers[BETA] += SHARE / c.h * lost
        numbers[ALLOWED] += numbers[PACE]
    for r in range(len(ranking)):
        s.items.costs[s.rows[r]] += s.items.hints[s.rows[r]]
        s.items.rounds[s.rows[r]] += 1


@kernel
def _ratio(s: MarginFTRLState, i: int) -> float:
    """Return the ratio of all rounds to those in which an item was available."""
    return float((s.numbers[ROUNDS] + 1) / (s.items.rounds[i] + 1))


@kernel
def _list_items(s: MarginFTRLState, n: int) -> None:
    """Make the present list the plan's."""
    if s.same[0] == 0:
        for r in range(s.clock[LISTED]):
            s.marks[s.listed[r]] &= ~ON_LIST
        for r in range(n):
            s.listed[r] = s.rows[r]
            s.marks[s.rows[r]] |= ON_LIST
            s.space.order[r] = r
        s.clock[LISTED], s.same[0] = n, 1


@kernel
def _guard(s: MarginFTRLState) -> None:
    """Switch to safe rates for good once beta may have grown faster than the worst case allows."""
    c, beta = scale_in(s.positions), s.numbers[BETA]
    highest = (1 + c.jump) * beta + c.hop
    if s.clock[SAFE] == 0 and c.h > 0 and highest**c.power > c.start**c.power + s.numbers[ALLOWED]:
        s.clock[SAFE] = 1
        s.numbers[BETA] = max(beta, c.start)


@kernel
def _find_margins(s: MarginFTRLState, n: int) -> None:
    """Compute how far the cost of an item alone in its pool can fall (up) and rise (down) with the same leader.

    Pools have levels, which rise along the order; a change of an item's cost changes its level. Items that are
    alone in their pools can pass each other if their positions have the same weight.
    """
    order, first, pools, beta = s.space.order, s.space.first, s.clock[POOLS], s.numbers[BETA]
    level, limit = _BOUNDLESS, _BOUNDLESS  # of the pool just visited; of the nearest one of another weight
    for b in range(pools - 1, -1, -1):
        p, end = first[b], first[b + 1]
        if end < n and not _can_pass(s, b):
            limit = level
        share = s.positions.logs[p] if end - p == 1 else log(s.space.mass[b] / s.space.total[b])
        level = beta * share - s.scores[order[p]]
        s.down[p] = max(limit - level, 0.0) if end - p == 1 else 0.0
        s.up[p] = level
        s.down[p + 1 : end] = 0
        s.up[p + 1 : end] = 0
    before, limit = -_BOUNDLESS, -_BOUNDLESS
    for b in range(pools):
        p, end = first[b], first[b + 1]
        if b > 0 and not _can_pass(s, b - 1):
            limit = before
        before = s.up[p]
        s.up[p] = max(before - limit, 0.0) if end - p == 1 else 0.0


@kernel
def _can_pass(s: MarginFTRLState, b: int) -> bool:
    """Return whether this pool and the next are single items whose positions have the same weight."""
    p, first, weights = s.space.first[b], s.space.first, s.positions.weights
    return bool(first[b + 1] - p == 1 and first[b + 2] - p == 2 and weights[p] == weights[p + 1])


@kernel
def _target_propensity(s: MarginFTRLState, p: int, k: int) -> float:
    """Return the target propensity of the item at p of the order, for the worst case and for the present doubt."""
    row, beta, x, move_cost = s.space.order[p], s.numbers[BETA], s.space.x[p], s.move_cost[p]
    i, ratio, rounds = s.listed[row], s.ratios[row], s.numbers[ROUNDS] + 1.0
    hint, variance = s.items.hints[i], (s.items.squares[i] + 0.5) / (s.items.counts[i] + 2)
    push = min(PUSH * sqrt(s.positions.weights[0] / (k * x)), HARDEST)
    target = ratio * max(hint, 1 - hint) / (push * beta)
    if move_cost > 0:
        target = max(target, sqrt(ratio * variance * x / (2 * beta * move_cost)))
    part, spare = (1.0 if k == 1 else 0.5), 2 * NUDGE * beta
    up, down = part * s.up[p] - spare, part * s.down[p] - spare
    if up > 0 and down > 0:
        enough, margin = ratio * max(hint / up, (1 - hint) / down), min(s.up[p], s.down[p])
        if margin < _BOUNDLESS and enough < target:
            gap = min(margin / rounds, 1.0)
            mistake = s.positions.drops[p] * gap**3 * (rounds / ratio) / (max(move_cost, 1e-9) * variance)
            doubt = ratio * (variance * rounds / (margin * margin) + 0.5 / margin)
            enough = max(enough, _CAUTION * (_CALM + log(1 + mistake)) * doubt)
        target = min(target, enough)
    propensity: float = min(max(target, RARELY), 1.0)
    return propensity


@kernel
def _choose_rates(s: MarginFTRLState, n: int) -> None:
    """Choose the probabilities of exploration, and with them the cost per round and the length of the plan."""
    beta, order, c, safe = s.numbers[BETA], s.space.order, scale_in(s.positions), s.clock[SAFE] == 1
    rate, k = (sqrt(c.V / (8 * beta * c.E)) if c.E > 0 else 0.5 / n), min(s.k, n)
    most, pace = 0.0, 0.0  # total target; pace of the worst case relative to a fixed set
    for p in range(n):
        r, root, x = order[p], sqrt(s.ratios[order[p]]), s.space.x[p]
        s.explore_probs[r] = min(rate * root, 1.0) if safe else _target_propensity(s, p, k)
        most += max(s.explore_probs[r] - 0.5 * s.seen[p], 0.0)
        pace += root * (x / c.V + s.move_cost[p] / c.E) / 2 if c.E > 0 else root * root * x / c.V
    exploring, move_cost = 0.0, 0.0
    for p in range(n):
        r = order[p]
        if most > 0.5:
            share = max(s.explore_probs[r] - 0.5 * s.seen[p], 0.0) / most
            s.explore_probs[r] = min(most, MAX_EXPLORATION) * 0.5 * (1 / n + share)
        else:
            s.explore_probs[r] = max(s.explore_probs[r] - (1 - most) * s.seen[p], 0.0)
        exploring += s.explore_probs[r]
        move_cost += s.explore_probs[r] * s.move_cost[p]
    for p in range(n):
        s.propensity[order[p]] = s.explore_probs[order[p]] + (1 - exploring) * s.seen[p]
    s.numbers[EXPLORING], s.numbers[COST], s.numbers[PACE] = exploring, move_cost, SLACK * c.pace * pace
    s.numbers[REACH] = _BOUNDLESS
    if safe:
        s.clock[LENGTH] = 1
    elif most > 0.5:
        s.clock[LENGTH] = int(c.exploring)
    else:
        length = min(1 + 2 * NUDGE * beta, float(LONGEST))
        if exploring * length > 0.5:
            length = 0.5 / exploring
        s.clock[LENGTH] = int(max(length, 1.0))
        s.numbers[REACH] = NUDGE * beta
