"""Compiled rules: a list that obeys them, and exact propensities over all lists of a mixture."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.engine.entry_points import Counts, Memory, is_permutation, name_of, set_items_of
from peekrank.kernels.exploration import sample_position
from peekrank.kernels.sorting import SortSpace, copy_moved, move_up, sort_descending, sort_space
from peekrank.kernels.vectors import copy
from peekrank.types import Features, Floats, Ints, Kernels, State

FREE = -1  # a position without a pin
STEPS = 8  # of the leash, from the app's order to the learner's
# Numbers of the rules: PINNED is the last pinned position, from 1; a limit within 0 positions is none
PLACE, PINNED, GROUP_N, GROUP_WITHIN, NEW_N, NEW_WITHIN, NEW_BELOW, LEASHED = range(8)
EXPLORE, LEASH = range(2)  # shares
RELAXED, FOLLOWED, CALLS = range(3)  # results: positions that break a limit, steps that the leash allowed


class RuleMemory(NamedTuple):
    """Rules in numbers, what a call adds to them, and working memory for one list."""

    numbers: Ints
    shares: Floats
    weights: Floats  # of positions
    pins: Ints  # row at each position
    groups: Ints  # of rows
    own: Ints  # rows in the app's order
    results: Ints
    probs: Floats
    learned: Ints  # the learner's best list
    wanted: Ints  # a list before the rules
    base: Ints  # the list without exploration, after the rules
    obeyed: Ints
    app: Ints  # the app's order, after the rules
    app_weights: Floats  # weight of each row in it
    places: Ints
    keys: Floats
    order: Ints
    taken: Ints  # the last call of `obey` that placed the row
    counted: Ints  # items of each group so far
    stamps: Ints
    sorting: SortSpace


def rule_memory(room: int, weights: Floats) -> RuleMemory:
    """Allocate the memory for lists of up to `room` items."""
    pins, groups, own, learned, wanted, base, obeyed, app, places, order, taken, counted, stamps = (
        np.zeros(room, np.int64) for _ in range(13)
    )
    return RuleMemory(
        numbers=np.zeros(8, np.int64),
        shares=np.zeros(2),
        weights=np.ascontiguousarray(weights),
        pins=pins,
        groups=groups,
        own=own,
        results=np.zeros(3, np.int64),
        probs=np.zeros(room),
        learned=learned,
        wanted=wanted,
        base=base,
        obeyed=obeyed,
        app=app,
        app_weights=np.zeros(room),
        places=places,
        keys=np.zeros(room),
        order=order,
        taken=taken,
        counted=counted,
        stamps=stamps,
        sorting=sort_space(room),
    )


@kernel
def _is_new(r: RuleMemory, counts: Counts, item: int) -> bool:
    return bool(counts.answers[item] < r.numbers[NEW_BELOW])


@kernel
def obey(r: RuleMemory, counts: Counts, items: Ints, wanted: Ints, upto: int, out: Ints) -> int:
    """Fill the first positions of `out`, up to `upto`, with a list that obeys pins and limits.

    Pinned rows are placed first. Then each position from the top gets the first row of `wanted` that no limit
    excludes or, if there is none, the first row. Return the number of positions for which there was none.
    """
    n, numbers, taken, counted = len(wanted), r.numbers, r.taken, r.counted
    pinned, by_group, by_new = numbers[PINNED], numbers[GROUP_WITHIN], numbers[NEW_WITHIN]
    if pinned == 0 and by_group == 0 and by_new == 0:
        copy(wanted[:upto], out)
        return 0
    new = relaxed = first = 0
    r.results[CALLS] += 1
    call = r.results[CALLS]
    if by_group > 0:
        counted[:n] = 0
    for p in range(pinned):
        row = r.pins[p]
        if row != FREE:
            taken[row] = call
            if p < by_group:
                counted[r.groups[row]] += 1
            if p < by_new and _is_new(r, counts, items[row]):
                new += 1
    for p in range(upto):
        if p < pinned and r.pins[p] != FREE:
            out[p] = r.pins[p]
            continue
        while taken[wanted[first]] == call:
            first += 1
        chosen = wanted[first]
        if p < by_group or p < by_new:
            j = first
            while j < n and not (
                taken[wanted[j]] != call
                and (p >= by_group or counted[r.groups[wanted[j]]] < numbers[GROUP_N])
                and (p >= by_new or new < numbers[NEW_N] or not _is_new(r, counts, items[wanted[j]]))
            ):
                j += 1
            if j < n:
                chosen = wanted[j]
            else:
                relaxed += 1
            if p < by_group:
                counted[r.groups[chosen]] += 1
            if p < by_new and _is_new(r, counts, items[chosen]):
                new += 1
        taken[chosen] = call
        out[p] = chosen
    return relaxed


@kernel
def _too_far(r: RuleMemory, ranking: Ints) -> bool:
    """Return whether some relevance makes a list lose more than the leash against the app's order."""
    n, loss, best = len(ranking), 0.0, 0.0
    for p in range(n):
        loss += max(0.0, r.app_weights[ranking[p]] - r.weights[p])
        best += r.weights[p] - min(0.0, r.weights[n - 1])
    return bool(loss > r.shares[LEASH] * best)


@kernel
def _free_place(r: RuleMemory, k: int) -> int:
    """Return the last position, up to the one at which to explore, that has no pin; -1 if there is none."""
    place = min(r.numbers[PLACE], k - 1)
    while 0 <= place < r.numbers[PINNED] and r.pins[place] != FREE:
        place -= 1
    return int(place)


@kernel
def _free_above(r: RuleMemory, position: int) -> int:
    """Return the number of positions above this one that have no pin."""
    free = position
    for p in range(min(position, r.numbers[PINNED])):
        free -= r.pins[p] != FREE
    return free


@kernel
def _fill_base(r: RuleMemory, counts: Counts, items: Ints, n: int) -> None:
    """Fill in the list without exploration, as near to the learner's best list as the leash allows."""
    base, learned, app = r.base[:n], r.learned[:n], r.app[:n]
    r.results[RELAXED], r.results[FOLLOWED] = obey(r, counts, items, learned, n, base), STEPS
    if r.numbers[LEASHED] == 0:
        return
    obey(r, counts, items, r.own[:n], n, app)
    for p in range(n):
        r.app_weights[app[p]] = r.weights[p]
        r.places[learned[p]] = p
    step = STEPS
    while _too_far(r, base):
        step -= 1
        for p in range(n):
            r.keys[p] = -(float(step) * r.places[app[p]] + float(STEPS - step) * p)
        sort_descending(r.keys[:n], r.order[:n], r.sorting)
        for p in range(n):
            r.wanted[p] = app[r.order[p]]
        r.results[RELAXED] = obey(r, counts, items, r.wanted[:n], n, base)
    r.results[FOLLOWED] = step


@kernel
def _add_list(r: RuleMemory, k: int, probability: float, stamp: int, propensities: Floats) -> None:
    """Move the probability of a list from the first k rows of the base to its own."""
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


_set_items: Callable[[State, Ints], None] = unspecialised
_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_mixture: Callable[[State, Features, int, int, Floats], None] = unspecialised
_component: Callable[[State, int, int, Ints], None] = unspecialised
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
    items: Ints,
    X: Features,
    uniforms: Floats,
    row: int,
    ranking: Ints,
    token: Floats,
    propensities: Floats,
) -> int:
    """Draw a list of the learner's mixture after the rules, by the first uniform, and fill exact propensities.

    Return the number of the round.
    """
    state, n = memory.state, len(ranking)
    k = min(len(memory.transformed), n)
    _set_items(state, items)
    _rank(state, X, uniforms[row], ranking, token)
    place, leashed = _free_place(r, k), r.numbers[LEASHED] == 1
    probs, wanted = r.probs[:n], r.wanted[:n]
    probs[:] = 0
    if place >= 0:
        above, seen = _free_above(r, place), _free_above(r, k)  # the learner's order fills positions without pins
        _mixture(state, X, seen, above, probs)
    total = 0.0
    for p in range(n):
        total += probs[p]
    if total > r.shares[EXPLORE]:
        for p in range(n):
            probs[p] *= r.shares[EXPLORE] / total
    _component(state, -1, n, r.learned[:n])
    if not is_permutation(r.learned[:n], memory.seen):
        raise ValueError("the learner's component kernel fills a ranking with something else than its items")
    _fill_base(r, memory.counts, items, n)
    base, obeyed, position = r.base[:n], r.obeyed[:n], sample_position(probs, 0, uniforms[row, 0])
    for p in range(n):
        r.stamps[p] = propensities[p] = 0
    for p in range(k):
        propensities[base[p]] = 1
    copy(base, ranking)
    rows = min(n, k + r.numbers[PINNED])  # of a list, that decide on its first k
    if leashed or r.numbers[GROUP_WITHIN] > 0 or r.numbers[NEW_WITHIN] > 0:
        rows = n
    for i in range(n):
        if probs[i] == 0:
            continue
        upto = n if i == position else rows
        _component(state, i, upto, wanted)
        if r.numbers[PINNED] == 0 and r.results[FOLLOWED] == STEPS:
            move_up(wanted, k - 1, place)
        else:  # start from the list after the rules
            explored, at = wanted[k - 1], 0
            while base[at] != explored:
                at += 1
            copy_moved(base, at if at > place else -1, place, upto, wanted)
        relaxed = obey(r, memory.counts, items, wanted, n if leashed or i == position else k, obeyed)
        if leashed and _too_far(r, obeyed):
            continue
        _add_list(r, k, probs[i], i + 1, propensities)
        if i == position:
            r.results[RELAXED] = relaxed
            copy(obeyed, ranking)
    token[:] = 0
    for p in range(n):
        if ranking[p] != base[p]:
            token[0] = 1
    if not is_permutation(ranking, memory.seen):
        raise ValueError("the learner's component kernel fills a ranking with something else than its items")
    _off_policy(state, X, ranking, propensities, token)
    memory.counts.rounds[0] += 1
    return int(memory.counts.rounds[0])
