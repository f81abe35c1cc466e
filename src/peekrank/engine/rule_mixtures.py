"""Compiled mixtures under rules: a list drawn from those of a learner, and exact propensities over all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.engine.entry_points import Counts, Memory, is_permutation, name_of, set_items_of
from peekrank.engine.rule_kernels import (
    DRAWN,
    ENTRANCE,
    EXPECT,
    EXPLORE,
    EXPLORED_AT,
    FOLLOWED,
    FREE,
    GROUP_N,
    GROUP_WITHIN,
    LEASHED,
    MOST,
    MOVES,
    N_PINS,
    NEW_ABOVE,
    NEW_N,
    NEW_WITHIN,
    PINNED,
    RELAXED,
    STEPS,
    TARGET,
    USED,
    K,
    RuleMemory,
    fill_base,
    fill_groups,
    fill_own,
    fill_pins,
    free_above,
    free_position,
    is_new,
    obey,
    possible_loss,
)
from peekrank.kernels.exploration import sample_position
from peekrank.kernels.sorting import copy_moved, move_up
from peekrank.kernels.vectors import copy
from peekrank.types import Features, Floats, Ints, Kernels, State

_NO_RANKING = "the learner's component kernel fills a ranking with something other than its items"


@kernel
def _is_pinned(r: RuleMemory, position: int) -> bool:
    return bool(position < r.numbers[PINNED] and r.pins[position] != FREE)


@kernel
def _limit_exploration(r: RuleMemory, probs: Floats) -> None:
    """Scale the probabilities of exploration so that their sum is at most the share of the rules."""
    total = 0.0
    for p in range(len(probs)):
        total += probs[p]
    if total > r.shares[EXPLORE]:
        for p in range(len(probs)):
            probs[p] *= r.shares[EXPLORE] / total


@kernel
def _start(r: RuleMemory, ranking: Ints, propensities: Floats) -> None:
    """Start from the list without exploration."""
    for p in range(len(ranking)):
        row = r.base[p]
        ranking[p], r.positions[row], r.stamps[p], propensities[row] = row, p, 0, p < r.now[K]
        r.expected[row] = r.top_weights[p] if p < r.now[K] else 0.0


@kernel
def _mix_moves(r: RuleMemory, ranking: Ints, propensities: Floats) -> None:
    """Mix the lists that move one item of the base up, if no limit changes them any further.

    The possible loss of such a list is that of the base and a sum of what each move adds.
    """
    n, k, target, leashed, base = len(ranking), r.now[K], r.now[EXPLORED_AT], r.numbers[LEASHED] == 1, r.base
    most, before, total, left_out = 0.0, -1, 0.0, 0.0
    if leashed:
        most = r.shares[MOST] - possible_loss(r, base[:n])
        for p in range(n):  # losses: of moving down all items above, each to the next position without a pin
            if not _is_pinned(r, p):
                if before >= 0:
                    worth = r.app_weights[base[before]]
                    total += max(0.0, worth - r.weights[p]) - max(0.0, worth - r.weights[before])
                r.losses[p], before = total, p
    for i in range(n):
        row = r.learned[i]
        at = r.positions[row]
        if r.probs[i] == 0 or at <= target or _is_pinned(r, at):
            continue
        if leashed:
            worth = r.app_weights[row]
            moved = max(0.0, worth - r.weights[target]) - max(0.0, worth - r.weights[at])
            if r.losses[at] - r.losses[target] + moved > most:
                continue
        if at >= k:
            propensities[row] = r.probs[i]
            left_out += r.probs[i]
        if i == r.now[DRAWN]:
            to = at
            for p in range(at - 1, target - 1, -1):
                if not _is_pinned(r, p):
                    ranking[to], to = ranking[p], p
            ranking[target] = row
    if left_out > 0:
        propensities[base[free_position(r, k - 1)]] = max(0.0, 1 - left_out)


@kernel
def _find_entrance(r: RuleMemory, counts: Counts, items: Ints) -> None:
    """Find the first position at which a list that explores an item may show it, and count what stands above.

    It is -1 if a limit was relaxed, because the list is then not known in advance.
    """
    numbers, target, entrance = r.numbers, r.now[EXPLORED_AT], 0
    r.now[ENTRANCE] = -1
    if r.results[RELAXED] > 0 or target < 0:
        return
    if numbers[PINNED] > 0:
        entrance = target
    else:  # above the target, if limits pass over items of the learner's list
        while r.looked[entrance] < target:
            entrance += 1
    r.above[:] = 0
    r.now[ENTRANCE], r.now[NEW_ABOVE] = entrance, 0
    for p in range(max(entrance, numbers[PINNED])):
        if p < entrance or _is_pinned(r, p):
            if p < numbers[GROUP_WITHIN]:
                r.above[r.groups[r.base[p]]] += 1
            if p < numbers[NEW_WITHIN] and is_new(r, counts, items[r.base[p]]):
                r.now[NEW_ABOVE] += 1


@kernel
def _end_of_exclusion(r: RuleMemory, counts: Counts, items: Ints, row: int) -> int:
    """Return the position up to which limits keep an explored row out, 0 if they let it in at the entrance."""
    numbers, entrance, end = r.numbers, r.now[ENTRANCE], 0
    if entrance < numbers[GROUP_WITHIN] and r.above[r.groups[row]] >= numbers[GROUP_N]:
        end = numbers[GROUP_WITHIN]
    full = entrance < numbers[NEW_WITHIN] and r.now[NEW_ABOVE] >= numbers[NEW_N]
    if full and is_new(r, counts, items[row]):
        end = max(end, numbers[NEW_WITHIN])
    return int(end)


@kernel
def _only_moves(r: RuleMemory, counts: Counts, items: Ints, row: int, last: int) -> bool:
    """Return whether an explored row at the entrance moves the rows below it down, and limits surely no others."""
    numbers = r.numbers
    new = numbers[NEW_WITHIN] > 0 and is_new(r, counts, items[row])
    for p in range(r.now[ENTRANCE], last):
        if _is_pinned(r, p):
            continue
        same = numbers[GROUP_WITHIN] > 0 and r.groups[r.base[p]] == r.groups[row]
        if same or (new and is_new(r, counts, items[r.base[p]])):
            return False
        if 0 < numbers[GROUP_WITHIN] <= last or 0 < numbers[NEW_WITHIN] <= last:
            return False
    return True


@kernel
def _add_list(r: RuleMemory, k: int, probability: float, stamp: int, propensities: Floats) -> None:
    """Move the probability of a list, and its weights, from the first k rows of the base to its own."""
    for p in range(k):
        r.stamps[r.obeyed[p]] = stamp
    for p in range(k):
        row = r.base[p]
        if r.stamps[row] != stamp:
            propensities[row] = max(0.0, propensities[row] - probability)
        r.stamps[row] = 0
    for p in range(k):
        row = r.obeyed[p]
        if r.stamps[row] == stamp:
            propensities[row] += probability
        r.expected[row] += probability * r.top_weights[p]
        r.expected[r.base[p]] -= probability * r.top_weights[p]


@kernel
def _mix_list(r: RuleMemory, counts: Counts, items: Ints, i: int, ranking: Ints, propensities: Floats) -> None:
    """Mix the list that explores the item at a position of the learner's list, as it is after the rules.

    It starts from the base if there are pins or if the leash held back, else from `wanted`.
    """
    n, k, target, moves, drawn = len(ranking), r.now[K], r.now[EXPLORED_AT], r.now[MOVES] == 1, i == r.now[DRAWN]
    learned, wanted, base, obeyed = r.learned[:n], r.wanted[:n], r.base[:n], r.obeyed[:n]
    leashed, probability, last = r.numbers[LEASHED] == 1, r.probs[i], free_position(r, k - 1)
    explored = learned[i] if moves else wanted[k - 1]
    at, from_base = r.positions[explored], r.numbers[PINNED] > 0 or r.results[FOLLOWED] < STEPS
    if from_base and (at <= target or _is_pinned(r, at)):
        return
    if r.now[ENTRANCE] >= 0 and not drawn:
        end = _end_of_exclusion(r, counts, items, explored)
        if end >= k:
            return
        if end == 0 and _only_moves(r, counts, items, explored, last):
            if at >= k:
                propensities[explored] += probability
                propensities[base[last]] = max(0.0, propensities[base[last]] - probability)
            return
    if from_base:
        copy_moved(base, at, target, n, wanted)
    elif moves:
        copy_moved(learned, i, target, n, wanted)
    else:
        move_up(wanted, k - 1, target)
    relaxed = obey(r, counts, items, wanted, n if leashed or drawn else k, obeyed)
    if leashed and possible_loss(r, obeyed) > r.shares[MOST]:
        return
    _add_list(r, k, probability, i + 1, propensities)
    if drawn:
        r.results[RELAXED] = relaxed
        copy(obeyed, ranking)


_set_items: Callable[[State, Ints], None] = unspecialised
_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_mixture: Callable[[State, Features, int, int, Floats], None] = unspecialised
_component: Callable[[State, int, int, Ints], bool] = unspecialised
_off_policy: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised


@cache
def ruled_entry_point(kernels: Kernels) -> Callable[..., int]:
    """Return the entry point that ranks under rules, for kernels with `mixture`, `component` and `off_policy`."""
    return specialise(
        _rank_ruled,
        name_of(kernels),
        _set_items=set_items_of(kernels),
        _rank=kernels.rank,
        _mixture=kernels.mixture or unspecialised,
        _component=kernels.component or unspecialised,
        _off_policy=kernels.off_policy or unspecialised,
    )


def _rank_ruled(
    memory: Memory,
    r: RuleMemory,
    scores: Floats,
    listed: Ints,
    groups: Ints,
    items: Ints,
    X: Features,
    uniforms: Floats,
    row: int,
    ranking: Ints,
    token: Floats,
    propensities: Floats,
) -> int:
    """Draw a list of the learner's mixture after the rules, by the first uniform, and fill exact propensities.

    Return the number of the round, negative if pins had no effect, limits were relaxed or the leash held back.
    """
    state, counts, numbers, n = memory.state, memory.counts, r.numbers, len(ranking)
    k = min(len(memory.transformed), n)
    _set_items(state, items)
    _rank(state, X, uniforms[row], ranking, token)
    fill_pins(r, items, n)
    fill_groups(r, groups, listed)
    if numbers[LEASHED] == 1:
        fill_own(r, scores, listed, n)
    probs, learned, base = r.probs[:n], r.learned[:n], r.base[:n]
    target = free_position(r, min(numbers[TARGET], k - 1))
    if target >= 0:  # the learner's order fills positions without pins
        _mixture(state, X, free_above(r, k), free_above(r, target), probs)
        _limit_exploration(r, probs)
    else:
        probs[:] = 0
    moves = _component(state, -1, n, learned)
    if not is_permutation(learned, memory.seen):
        raise ValueError(_NO_RANKING)
    fill_base(r, counts, items, n)
    r.now[K], r.now[EXPLORED_AT], r.now[MOVES], r.now[ENTRANCE] = k, target, moves, -1
    r.now[DRAWN] = sample_position(probs, 0, uniforms[row, 0])
    _start(r, ranking, propensities)
    limited = numbers[GROUP_WITHIN] > 0 or numbers[NEW_WITHIN] > 0
    expect = numbers[EXPECT] == 1  # each list is then made as a whole
    if moves and not limited and not expect:
        _mix_moves(r, ranking, propensities)
    else:
        if moves and numbers[LEASHED] == 0 and not expect:
            _find_entrance(r, counts, items)
        for i in range(n):
            if probs[i] > 0:
                if not moves:
                    _component(state, i, n, r.wanted[:n])
                _mix_list(r, counts, items, i, ranking, propensities)
    token[:] = 0
    for p in range(n):
        if ranking[p] != base[p]:
            token[0] = 1
    if not is_permutation(ranking, memory.seen):
        raise ValueError(_NO_RANKING)
    _off_policy(state, X, ranking, propensities, token)
    counts.rounds[0] += 1
    number = int(counts.rounds[0])
    whole = r.results[FOLLOWED] == STEPS and r.results[USED] == numbers[N_PINS]
    return number if r.results[RELAXED] == 0 and whole else -number
