"""Kernels that fill `ranking` in place: sort by scores, shuffle, move items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats, Ints

_COUNT_UP_TO = 32  # up to here, comparing all pairs without branches is faster than any sort
_BUCKETS_PER_ITEM = 2
_MOVES_PER_ITEM = 8


class SortSpace(NamedTuple):
    """Working memory of a sort."""

    keys: Floats
    buckets: Ints
    bucket_of: Ints


def sort_space(m: int) -> SortSpace:
    """Allocate working memory for sorting m scores."""
    return SortSpace(np.zeros(m), np.zeros(_BUCKETS_PER_ITEM * m, np.int64), np.zeros(m, np.int64))


@kernel
def sort_descending(scores: Floats, ranking: Ints, space: SortSpace) -> None:
    """Rank items by descending score, ties by index: a stable sort in O(m log m)."""
    if len(scores) <= _COUNT_UP_TO:
        _sort_by_counting(scores, ranking, space.bucket_of)
    elif not _sort_by_buckets(scores, ranking, space):
        merge_descending(scores, ranking, space.bucket_of)


@kernel
def _sort_by_counting(scores: Floats, ranking: Ints, rank: Ints) -> None:
    m = len(scores)
    for i in range(m):
        score = scores[i]
        overtaken = 0
        for j in range(i):
            behind = int(scores[j] < score)
            rank[j] += behind
            overtaken += behind
        rank[i] = i - overtaken
    for i in range(m):
        ranking[rank[i]] = i


@kernel
def _sort_by_buckets(scores: Floats, ranking: Ints, space: SortSpace) -> bool:
    """Sort by equal intervals, then by insertion; return False if the scores crowd into few intervals."""
    m = len(scores)
    low = high = scores[0]
    for i in range(m):
        low, high = min(low, scores[i]), max(high, scores[i])
    count = _BUCKETS_PER_ITEM * m
    per_unit = (count - 1) / (high - low)
    if not 0 < per_unit < np.inf:  # scores are all (nearly) equal, or their range overflows
        return False
    space.buckets[:count] = 0
    for i in range(m):
        bucket = int((high - scores[i]) * per_unit)
        space.bucket_of[i] = bucket
        space.buckets[bucket] += 1
    start = 0
    for b in range(count):
        size = space.buckets[b]
        space.buckets[b] = start
        start += size
    for i in range(m):
        bucket = space.bucket_of[i]
        p = space.buckets[bucket]
        space.buckets[bucket] = p + 1
        space.keys[p] = scores[i]
        ranking[p] = i
    moves_left = _MOVES_PER_ITEM * m
    for i in range(1, m):
        key = space.keys[i]
        if space.keys[i - 1] < key:
            item, p = ranking[i], i
            while p > 0 and space.keys[p - 1] < key:
                space.keys[p] = space.keys[p - 1]
                ranking[p] = ranking[p - 1]
                p -= 1
            space.keys[p] = key
            ranking[p] = item
            moves_left -= i - p
            if moves_left < 0:
                return False
    return True


@kernel
def merge_descending(scores: Floats, ranking: Ints, other: Ints) -> None:
    """Sort like `sort_descending`, by merging alone. It compiles faster, for sorts that are rare.

    >>> ranking = np.empty(3, np.int64)
    >>> merge_descending(np.array([1.0, 3.0, 1.0]), ranking, np.empty(3, np.int64))
    >>> ranking
    array([1, 0, 2])
    """
    m = len(scores)
    for i in range(m):
        ranking[i] = i
    width = 1
    while width < m:
        for start in range(0, m, 2 * width):
            left, right = start, min(start + width, m)
            left_end, right_end = right, min(start + 2 * width, m)
            for p in range(start, right_end):
                if right >= right_end or (left < left_end and scores[ranking[left]] >= scores[ranking[right]]):
                    other[p] = ranking[left]
                    left += 1
                else:
                    other[p] = ranking[right]
                    right += 1
        for p in range(m):
            ranking[p] = other[p]
        width *= 2


@kernel
def move_up(ranking: Ints, position: int, to: int) -> None:
    """Move the item at `position` up to position `to`, and those it passes down by one.

    >>> ranking = np.array([4, 7, 9])
    >>> move_up(ranking, 2, 0)
    >>> ranking
    array([9, 4, 7])
    """
    item = ranking[position]
    for p in range(position, to, -1):
        ranking[p] = ranking[p - 1]
    ranking[to] = item


@kernel
def copy_moved(order: Ints, position: int, to: int, upto: int, ranking: Ints) -> None:
    """Fill the first `upto` positions of a ranking with an order in which `move_up` moves an item; -1 for none.

    >>> ranking = np.empty(3, np.int64)
    >>> copy_moved(np.array([4, 7, 9]), 2, 0, 3, ranking)
    >>> ranking
    array([9, 4, 7])
    """
    for p in range(upto if position < 0 else min(upto, to)):
        ranking[p] = order[p]
    if position >= 0 and to < upto:
        ranking[to] = order[position]
        for p in range(to + 1, min(upto, position + 1)):
            ranking[p] = order[p - 1]
        for p in range(position + 1, upto):
            ranking[p] = order[p]


@kernel
def position_of(scores: Floats, item: int) -> int:
    """Return the position of an item in the descending order of scores, from 0; ties go by index.

    >>> position_of(np.array([1.0, 3.0, 1.0]), 2)
    2
    """
    position = 0
    for j in range(len(scores)):
        position += scores[j] > scores[item] or (scores[j] == scores[item] and j < item)
    return position


@kernel
def shuffle(uniforms: Floats, ranking: Ints) -> None:
    """Fill `ranking` with a uniformly random permutation, from m - 1 uniforms (Fisher and Yates)."""
    m = len(ranking)
    for i in range(m):
        ranking[i] = i
    for i in range(m - 1):
        j = i + int(uniforms[i] * (m - i))
        ranking[i], ranking[j] = ranking[j], ranking[i]


@kernel
def move_to_front(ranking: Ints, first: int, last: int, space: Ints) -> None:
    """Move the items `first` to `last - 1` to the front, keeping the order among them and among the others."""
    front, rest = 0, 0
    for p in range(len(ranking)):
        item = ranking[p]
        if first <= item < last:
            ranking[front] = item
            front += 1
        else:
            space[rest] = item
            rest += 1
    for p in range(rest):
        ranking[front + p] = space[p]


@kernel
def resort_descending(scores: Floats, ranking: Ints) -> bool:
    """Re-sort a ranking whose scores changed a little; return False, with no valid order, if they changed much."""
    moves_left = _MOVES_PER_ITEM * len(scores)
    for i in range(1, len(scores)):
        item = ranking[i]
        key, p = scores[item], i
        while p > 0:
            other = ranking[p - 1]
            if scores[other] > key or (scores[other] == key and other < item):
                break
            ranking[p] = other
            p -= 1
        ranking[p] = item
        moves_left -= i - p
        if moves_left < 0:
            return False
    return True
