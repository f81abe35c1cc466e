"""Compiled rules: a list that obeys pins and limits, and that loses no more than a leash allows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.engine.entry_points import Counts
from peekrank.kernels.sorting import SortSpace, sort_descending, sort_space
from peekrank.kernels.vectors import copy
from peekrank.types import Floats, Ints

FREE = -1  # a position without a pin
STEPS = 8  # of the leash, from the app's order to the learner's
# Numbers of the rules: PINNED is the last pinned position, from 1; a limit within 0 positions is none
# EXPECT asks for the expected weight of each row
TARGET, PINNED, GROUP_N, GROUP_WITHIN, NEW_N, NEW_WITHIN, NEW_BELOW, LEASHED, N_PINS, EXPECT = range(10)
EXPLORE, LEASH, MOST = range(3)  # shares, and the largest loss that the leash allows in one list
# Results: positions that break a limit, steps that the leash allowed, pins with an effect
RELAXED, FOLLOWED, USED = range(3)
# Numbers of one list: k, the position at which to explore, whether its lists only move an item, the position of
# the list drawn, the first position at which an explored item can be, the new items above it; and calls of `obey`
K, EXPLORED_AT, MOVES, DRAWN, ENTRANCE, NEW_ABOVE, CALLS = range(7)
_HASH = 0x9E3779B97F4A7C1  # odd: spreads the numbers of groups
_FLOATS = ("shares", "probs", "app_weights", "losses", "scores", "top_weights", "expected")


class RuleMemory(NamedTuple):
    """Rules as numbers, additions of the current call, and working memory for one list."""

    numbers: Ints
    shares: Floats
    weights: Floats  # of positions
    pin_positions: Ints  # of the rules and the call, from 0
    pin_items: Ints
    pins: Ints  # row at each position
    groups: Ints  # of rows, from 0
    own: Ints  # rows in the app's order
    results: Ints
    now: Ints
    probs: Floats
    learned: Ints  # the learner's best list
    wanted: Ints  # a list before the rules
    base: Ints  # the list without exploration, after the rules
    obeyed: Ints
    app: Ints  # the app's order, after the rules
    app_weights: Floats  # weight of each row in it
    app_positions: Ints
    positions: Ints
    keys: Ints
    losses: Floats
    looked: Ints  # by position: the last index of the wanted list that `obey` looked at
    taken: Ints  # the last call of `obey` that placed the row
    counted: Ints  # items of each group so far
    above: Ints  # items of each group above the entrance
    stamps: Ints
    buckets: Ints  # a hash table of groups: their numbers, the call that inserted them, and as what
    bucket_calls: Ints
    bucket_groups: Ints
    scores: Floats
    top_weights: Floats  # of the first k positions
    expected: Floats  # mean weight of each row over the lists of the mixture
    sorting: SortSpace


def rule_memory(room: int, weights: Floats) -> RuleMemory:
    """Allocate the memory for lists of up to `room` items."""
    sizes = {"numbers": 10, "results": 3, "now": 7, "shares": 3}
    sizes |= {name: 1 << (2 * room).bit_length() for name in ("buckets", "bucket_calls", "bucket_groups")}
    arrays: dict[str, Any] = {
        name: np.zeros(sizes.get(name, room), np.float64 if name in _FLOATS else np.int64)
        for name in RuleMemory._fields
    }
    return RuleMemory(**arrays | {"weights": np.ascontiguousarray(weights), "sorting": sort_space(room)})


@kernel
def fill_pins(r: RuleMemory, items: Ints, n: int) -> None:
    """Fill in the row at each pinned position, and count the pins whose item and position the list has."""
    last = used = 0
    for j in range(r.numbers[N_PINS]):
        last = max(last, min(n, r.pin_positions[j] + 1))
    for p in range(last):
        r.pins[p] = FREE
    last = 0
    for j in range(r.numbers[N_PINS]):
        p, low, high = r.pin_positions[j], 0, n - 1
        if p >= n:
            continue
        while low < high:
            middle = (low + high) // 2
            if items[middle] < r.pin_items[j]:
                low = middle + 1
            else:
                high = middle
        if items[low] == r.pin_items[j]:
            r.pins[p] = low
            used, last = used + 1, max(last, p + 1)
    r.numbers[PINNED], r.results[USED] = last, used


@kernel
def fill_groups(r: RuleMemory, groups: Ints, listed: Ints) -> None:
    """Fill in the groups of a list as numbers from 0; `groups` is in the order of the app's list."""
    r.now[CALLS] += 1
    call, mask, known = r.now[CALLS], len(r.buckets) - 1, 0
    for p in range(len(groups)):
        bucket = ((groups[p] * _HASH) >> 16) & mask
        while r.bucket_calls[bucket] == call and r.buckets[bucket] != groups[p]:
            bucket = (bucket + 1) & mask
        if r.bucket_calls[bucket] != call:
            r.bucket_calls[bucket], r.buckets[bucket], r.bucket_groups[bucket] = call, groups[p], known
            known += 1
        r.groups[listed[p] if len(listed) > 0 else p] = r.bucket_groups[bucket]


@kernel
def fill_own(r: RuleMemory, scores: Floats, listed: Ints, n: int) -> None:
    """Fill in the app's order: by score, ties as listed. A missing score counts as the middle."""
    own = r.own
    for p in range(n):
        own[p] = listed[p] if len(listed) > 0 else p
    known = 0
    for p in range(len(scores)):
        r.scores[p] = scores[own[p]]
        known += not np.isnan(r.scores[p])
    if known == 0:
        return
    if known < n:  # compare ranks: two for each known score below, one for each equal one
        for p in range(n):
            score, rank = scores[own[p]], 0
            for j in range(n):
                rank += int(scores[j] < score) + int(scores[j] <= score)
            r.scores[p] = known if np.isnan(score) else rank
    order, copied = r.positions[:n], r.keys[:n]
    sort_descending(r.scores[:n], order, r.sorting)
    copy(own[:n], copied)
    for p in range(n):
        own[p] = copied[order[p]]


@kernel
def is_new(r: RuleMemory, counts: Counts, item: int) -> bool:
    """Return whether an item has too few answers."""
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
    new = relaxed = first = last = 0
    limited = min(upto, max(pinned, by_group, by_new))
    r.now[CALLS] += 1
    call = r.now[CALLS]
    if by_group > 0:
        counted[:n] = 0
    for p in range(pinned):
        row = r.pins[p]
        if row != FREE:
            taken[row] = call
            if p < by_group:
                counted[r.groups[row]] += 1
            if p < by_new and is_new(r, counts, items[row]):
                new += 1
    for p in range(limited):
        if p < pinned and r.pins[p] != FREE:
            out[p] = r.pins[p]
            continue
        while taken[wanted[first]] == call:
            first += 1
        chosen, at = wanted[first], first
        if p < by_group or p < by_new:
            while at < n and not (
                taken[wanted[at]] != call
                and (p >= by_group or counted[r.groups[wanted[at]]] < numbers[GROUP_N])
                and (p >= by_new or new < numbers[NEW_N] or not is_new(r, counts, items[wanted[at]]))
            ):
                at += 1
            if at < n:
                chosen = wanted[at]
            else:
                relaxed += 1
            if p < by_group:
                counted[r.groups[chosen]] += 1
            if p < by_new and is_new(r, counts, items[chosen]):
                new += 1
        last = max(last, at)
        r.looked[p] = last
        taken[chosen] = call
        out[p] = chosen
    p = limited
    while p < upto:
        if taken[wanted[first]] != call:
            out[p], r.looked[p] = wanted[first], max(last, first)
            p += 1
        first += 1
    return relaxed


@kernel
def _fill_most(r: RuleMemory, n: int) -> None:
    """Fill in the largest loss against the app's order that the leash allows."""
    best, least = 0.0, min(0.0, r.weights[n - 1])
    for p in range(n):
        best += r.weights[p] - least
    r.shares[MOST] = r.shares[LEASH] * best


@kernel
def possible_loss(r: RuleMemory, ranking: Ints) -> float:
    """Return the largest loss of a list against the app's order over all relevances."""
    loss = 0.0
    for p in range(len(ranking)):
        loss += max(0.0, r.app_weights[ranking[p]] - r.weights[p])
    return loss


@kernel
def free_position(r: RuleMemory, target: int) -> int:
    """Return the last position up to this one that has no pin; -1 if there is none."""
    while 0 <= target < r.numbers[PINNED] and r.pins[target] != FREE:
        target -= 1
    return target


@kernel
def free_above(r: RuleMemory, position: int) -> int:
    """Return the number of positions above this one that have no pin."""
    free = position
    for p in range(min(position, r.numbers[PINNED])):
        free -= r.pins[p] != FREE
    return free


@kernel
def fill_base(r: RuleMemory, counts: Counts, items: Ints, n: int) -> None:
    """Fill in the list without exploration, as near to the learner's best list as the leash allows."""
    base, learned, app, wanted = r.base[:n], r.learned[:n], r.app[:n], r.wanted[:n]
    r.results[RELAXED], r.results[FOLLOWED] = obey(r, counts, items, learned, n, base), STEPS
    if r.numbers[LEASHED] == 0:
        return
    _fill_most(r, n)
    obey(r, counts, items, r.own[:n], n, app)
    for p in range(n):
        r.app_weights[app[p]], r.app_positions[app[p]] = r.weights[p], p
        r.positions[learned[p]], wanted[p] = p, learned[p]
    step = STEPS
    while possible_loss(r, base) > r.shares[MOST]:
        step -= 1
        for row in range(n):
            own = r.app_positions[row]
            r.keys[row] = (step * r.positions[row] + (STEPS - step) * own) * n + own
        for p in range(1, n):  # the order of the step before is near
            row, to = wanted[p], p
            while to > 0 and r.keys[wanted[to - 1]] > r.keys[row]:
                wanted[to] = wanted[to - 1]
                to -= 1
            wanted[to] = row
        r.results[RELAXED] = obey(r, counts, items, wanted, n, base)
    r.results[FOLLOWED] = step
