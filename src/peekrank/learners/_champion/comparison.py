"""Comparison of members: exploration where they disagree, evidence on their values, and promotions.

Let w_j(i) be the weight of the position that member j gives to item i, g_i the gain of the item, and c any number
that is known before the answers. Then

    value of j - value of j' = sum_i (w_j(i) - w_j'(i)) (g_i - c),

because the weights of a list have the same sum for both. An answer for item i that is used with probability p_i
has weight 1/p_i, so that the sum over the answers used is unbiased.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.confidence import log_evidence, lower_mean, observe
from peekrank.kernels.exploration import sample_position
from peekrank.kernels.sorting import move_up
from peekrank.learners._champion.state import (
    CAUTION,
    CENTRE,
    CHAMPION,
    FLOOR,
    GAIN,
    KEPT,
    MIN_PART,
    PERIOD,
    PERIOD_MARK,
    PROMOTIONS,
    ROUNDS,
    SHORTEST,
    START,
    WEIGHED,
    WEIGHED_SQUARE,
    WEIGHT,
    WEIGHTS,
    ChampionState,
    bound_of,
)
from peekrank.types import Floats, Ints

_MAX_EXPLORATION = 0.5  # largest probability of exploration in a round
_CHEAPEST = 0.25  # of the first position's weight: lower bound on the weight of position k in the rate
_USUAL = 0.5  # rounds without exploration use answers for items with at least this propensity
_FORM = 4.0  # largest weight of an answer used without exploration: 1/(1 - _MAX_EXPLORATION)/_USUAL


@kernel
def rate(s: ChampionState) -> float:
    """Return the probability of exploring an item per unit of weight by which other members rank it higher.

    Exploration uses position k, so the rate is inverse to the weight of that position: the cost stays the same.
    """
    cost = max(s.positions[s.k - 1], _CHEAPEST)
    return float(s.share / cost * float(max(s.clock[START], SHORTEST)) ** (-1 / 3))


@kernel
def reach(s: ChampionState, j: int) -> float:
    """Return the largest difference against a challenger in a round; in its favour, CAUTION times as much."""
    inverse_rate = max(1 / rate(s), s.limit / _MAX_EXPLORATION) / (CAUTION * s.evidence.parts[j])
    return float(max(inverse_rate, _FORM * s.k))


@kernel
def fill_values(s: ChampionState, n: int) -> None:
    """Fill in the weight of the position that each member gives to each item."""
    for j in range(len(s.orders)):
        for p in range(n):
            s.item_weights[j, s.orders[j, p]] = s.positions[p]


@kernel
def fill_exploration_probs(s: ChampionState, n: int) -> float:
    """Fill in the probability of exploring the item at each position of the champion's order, and return the sum.

    It is the rate times the largest difference between the weights of the champion's position and another
    member's, and CAUTION times as much if the other ranks the item lower. Such explorations are cheap, and they
    limit the evidence that a single round can give against a challenger. Every item has a floor, because members
    that learn from the same answers may agree on something that is no longer true.
    """
    champion, each, total = s.clock[CHAMPION], rate(s), 0.0
    for p in range(n):
        item, higher, lower = s.orders[champion, p], 0.0, 0.0
        for j in range(len(s.orders)):
            off = s.evidence.parts[j] * (s.item_weights[j, item] - s.positions[p])
            higher, lower = max(higher, off), max(lower, -off)
        s.explore_probs[p] = each * (higher + CAUTION * lower + FLOOR / n)
        total += s.explore_probs[p]
    if total > _MAX_EXPLORATION:
        for p in range(n):
            s.explore_probs[p] *= _MAX_EXPLORATION / total
        total = _MAX_EXPLORATION
    return total


@kernel
def pick_exploration(s: ChampionState, uniform: float, ranking: Ints) -> int:
    """Explore where members disagree: show the champion's order with the explored item at position k or above.

    Returns the explored item. Without exploration it returns -1 and leaves the ranking unchanged.
    """
    n, champion = len(ranking), s.clock[CHAMPION]
    k = min(s.k, n)
    position = sample_position(s.explore_probs[:n], 0, uniform)
    if position < 0:
        return -1
    for p in range(n):
        ranking[p] = s.orders[champion, p]
    item = ranking[position]
    if position >= k:
        move_up(ranking, position, k - 1)
    return int(item)


@kernel
def fill_propensities(s: ChampionState, n: int, total: float) -> None:
    """Fill in the propensity of each item, from the champion's propensities and from exploration."""
    champion, k, above = s.clock[CHAMPION], min(s.k, n), 0.0
    for p in range(k):
        above += s.explore_probs[p]
    for p in range(n):
        item = s.orders[champion, p]
        shown = total if p < k - 1 else above if p == k - 1 else s.explore_probs[p]
        s.propensities[item] = min(1.0, (1 - total) * s.seen[item] + shown)


@kernel
def fill_evidence(s: ChampionState, total: float, item: int, ranking: Ints, token: Floats) -> None:
    """Write the weight of each answer as evidence, 0 if it is not used, to the token.

    An exploring round uses only the answer for its item. Other rounds use the answers for items that are usually
    seen. No difference is then larger than the reach.
    """
    n, members, champion = len(ranking), len(s.orders), s.clock[CHAMPION]
    k = min(s.k, n)
    token[PERIOD_MARK] = s.clock[PERIOD]
    token[CENTRE] = min((s.sums[GAIN] + 0.5) / (s.sums[WEIGHT] + 1), 1 / CAUTION)
    for p in range(k):
        shown = ranking[p]
        usual = s.seen[shown] >= _USUAL
        if shown == item or (item < 0 and usual):
            position = 0
            while s.orders[champion, position] != shown:
                position += 1
            propensity = s.explore_probs[position] + ((1 - total) * s.seen[shown] if usual else 0.0)
            token[WEIGHTS + p] = 1 / propensity
        else:
            token[WEIGHTS + p] = 0
        for j in range(members):
            token[WEIGHTS + s.k * (1 + j) + p] = s.item_weights[j, shown]


@kernel
def _share_out(s: ChampionState) -> None:
    """Double a challenger's share of exploration in the next period, or halve it if the evidence is against it."""
    for j in range(len(s.orders)):
        total, squares = s.evidence.below.sums[j, 0], s.evidence.below.squares[j, 0]
        part = s.evidence.parts[j] * (0.5 if total < 0 and total * total > squares / 4 else 2.0)
        s.evidence.parts[j] = min(max(part, MIN_PART), 1.0)


@kernel
def _restart(s: ChampionState) -> None:
    s.clock[PERIOD] += 1
    s.clock[START] = s.clock[ROUNDS]
    s.evidence.below.sums[:] = 0
    s.evidence.below.squares[:] = 0
    s.evidence.below.observed[:] = 0
    s.evidence.above.sums[:] = 0
    s.evidence.above.squares[:] = 0
    s.evidence.above.observed[:] = 0
    s.evidence.weights[:] = 0


@kernel
def doubt(s: ChampionState) -> float:
    """Return ln(1/alpha_c) for each comparison c of this period; the alpha_c of all periods sum to alpha."""
    period = s.clock[PERIOD] + 1.0
    return log(period * (period + 1) * (len(s.orders) - 1) / s.alpha)


@kernel
def _weigh(s: ChampionState, token: Floats, feedback: Floats) -> None:
    """Add the differences observed in a round to the evidence."""
    k, champion = len(feedback), s.clock[CHAMPION]
    own, centre = WEIGHTS + s.k * (1 + champion), token[CENTRE]
    for p in range(k):
        if not (0 <= token[WEIGHTS + p] < np.inf and 0 <= centre <= 1):
            raise ValueError("the token of this decision is not from this agent")
    for j in range(len(s.orders)):
        if j == champion:
            continue
        weights, far, difference = s.evidence.weights[j], reach(s, j), 0.0
        for p in range(k):
            weight = (token[WEIGHTS + s.k * (1 + j) + p] - token[own + p]) * token[WEIGHTS + p] / far
            difference += weight * (s.gains[int(feedback[p])] - centre)
            weights[WEIGHED] += abs(weight)
            weights[WEIGHED_SQUARE] += weight * weight
        if not -1 - 1e-9 <= difference <= CAUTION + 1e-9:
            raise ValueError("the token of this decision is not from this agent")
        observe(bound_of(s.evidence.below, j), max(difference, -1.0), -1.0)
        observe(bound_of(s.evidence.above, j), max(-difference, -CAUTION), -CAUTION)
    for p in range(k):
        weight = min(token[WEIGHTS + p], 1 / rate(s))
        s.sums[WEIGHT] += weight
        s.sums[GAIN] += weight * s.gains[int(feedback[p])]


@kernel
def limits(s: ChampionState, j: int) -> tuple[float, float, float]:
    """Return the mean difference between a member's value and the champion's, with its confidence limits."""
    below, above, far, alpha = (
        bound_of(s.evidence.below, j),
        bound_of(s.evidence.above, j),
        reach(s, j),
        exp(-doubt(s)),
    )
    mean = below.sums[0] / below.observed[0] if below.observed[0] > 0 else np.nan
    return far * mean, far * lower_mean(below, alpha), -far * lower_mean(above, alpha)


@kernel
def _promote(s: ChampionState) -> None:
    """Promote the challenger with the most evidence, if that is enough."""
    best, limit = -1, doubt(s)
    for j in range(len(s.orders)):
        if s.evidence.below.observed[j, 0] > 0:
            found = log_evidence(bound_of(s.evidence.below, j), 0.0)
            if found >= limit:
                best, limit = j, found
    if best < 0:
        return
    weights, kept = s.evidence.weights[best], s.history[s.clock[PROMOTIONS] % KEPT]
    kept[0], kept[1], kept[2] = s.clock[ROUNDS], s.clock[CHAMPION], best
    kept[3], kept[4], kept[5] = limits(s, best)
    kept[6], kept[7] = weights[WEIGHED] ** 2 / weights[WEIGHED_SQUARE], s.evidence.below.observed[best, 0]
    s.evidence.parts[s.clock[CHAMPION]] = 1
    s.clock[PROMOTIONS] += 1
    s.clock[CHAMPION] = best
    _restart(s)


@kernel
def compare_members(s: ChampionState, token: Floats, feedback: Floats) -> None:
    """Add the answers of a round to the evidence, and promote a member if that is enough."""
    answers = 0
    for p in range(len(feedback)):
        answers += not np.isnan(feedback[p])
    if answers == 0:
        return
    s.clock[ROUNDS] += 1
    if answers == len(feedback) and token[PERIOD_MARK] == s.clock[PERIOD]:
        _weigh(s, token, feedback)
        _promote(s)
    if s.clock[ROUNDS] >= 2 * max(s.clock[START], SHORTEST // 2):
        _share_out(s)
        _restart(s)
