"""One compiled call each for `rank` and `update`: check what comes in, call the kernel, count."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.types import Features, Floats, Ints, Kernels, State

WELL, NO_PERMUTATION, BAD_TOKEN, BAD_FEATURES = -1, -2, -3, -4  # what `update` finds; from 0 on: this is no grade


class Counts(NamedTuple):
    """Number of rounds ranked and of answers about each item (in all, if lists differ), and who has retired."""

    rounds: Ints
    answers: Ints
    retired: Ints  # 1 for an item that has; empty for a learner whose items stay


def no_counts(counted: int, changing: int) -> Counts:
    """Counts before the first round, of so many items that are counted by themselves, and that can retire."""
    return Counts(*(np.zeros(size, dtype=np.int64) for size in (1, counted, changing)))


class Memory(NamedTuple):
    """What an agent keeps from call to call."""

    state: State
    counts: Counts
    perceived_grades: Floats  # what the learner makes of each grade
    seen: NDArray[np.bool_]  # space to check a ranking in
    perceived: Floats  # space for what it makes of answers


class EntryPoints(NamedTuple):
    """The two calls for the kernels of a learner."""

    rank: Callable[..., int]
    update: Callable[..., int]


@cache
def entry_points(kernels: Kernels) -> EntryPoints:
    """The calls for these kernels; `name_of` tells them from those for others."""
    name, enter = name_of(kernels), enter_of(kernels)
    return EntryPoints(
        specialise(_rank_once, name, _enter=enter, _rank=kernels.rank, _chances=kernels.chances or _unknown),
        specialise(_update_once, name, _enter=enter, _update=kernels.update),
    )


@cache
def adopt_entry_point(kernels: Kernels) -> Callable[..., None]:
    """The call that takes over what somebody else showed, for kernels that can."""
    return specialise(_adopt_once, name_of(kernels), _enter=enter_of(kernels), _adopt=kernels.adopt or _unknown)


def enter_of(kernels: Kernels) -> Callable[[State, Ints], None]:
    """What tells a learner which items are there, if it wants to know."""
    return kernels.enter or _fixed


def name_of(kernels: Kernels) -> str:
    """A name for the kernels of a learner, in characters that file names may have."""
    return f"{kernels.rank.__module__}.{kernels.rank.__qualname__}-{kernels.update.__qualname__}"


_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_chances: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_enter: Callable[[State, Ints], None] = unspecialised
_adopt: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised


@kernel
def _fixed(state: State, items: Ints) -> None:
    """Nothing, for a learner whose items are always the same."""


@kernel
def _unknown(state: State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Nothing, for a learner that does not know its chances."""


@kernel
def first_not_finite(X: Features) -> int:
    """The first item with a feature that is no finite number; -1 if there is none."""
    for item in range(len(X)):
        finite = True
        for f in range(X.shape[1]):
            finite &= abs(X[item, f]) < np.inf
        if not finite:
            return item
    return -1


@kernel
def is_permutation(ranking: Ints, seen: NDArray[np.bool_]) -> bool:
    """Whether a ranking holds each of its items once."""
    n = len(ranking)
    for i in range(n):
        seen[i] = False
    for p in range(n):
        item = ranking[p]
        if not 0 <= item < n or seen[item]:
            return False
        seen[item] = True
    return True


@kernel
def are_known(items: Ints, m: int) -> bool:
    """Whether numbers of items ascend, and are below m."""
    before = -1
    for item in items:
        if item <= before:
            return False
        before = item
    return before < m


@kernel
def are_uniform(numbers: Floats) -> bool:
    """Whether all numbers are from [0, 1): a kernel may take them for places of items."""
    for number in numbers:
        if not 0 <= number < 1:
            return False
    return True


@kernel
def fill_rows(items: Ints, ranking: Ints, rows: Ints) -> bool:
    """Fill `rows` with the place of each item of a ranking among ascending items; False if one is not there."""
    for p in range(len(ranking)):
        low, high = 0, len(items) - 1
        while low < high:
            middle = (low + high) // 2
            if items[middle] < ranking[p]:
                low = middle + 1
            else:
                high = middle
        if items[low] != ranking[p]:
            return False
        rows[p] = low
    return True


@kernel
def count_answer(answers: Ints, item: int) -> None:
    """Add an answer about an item."""
    answers[item if len(answers) > 1 else 0] += 1


def _rank_once(
    memory: Memory,
    items: Ints,
    X: Features,
    uniforms: Floats,
    row: int,
    ranking: Ints,
    token: Floats,
    chances: Floats,
) -> int:
    """Rank by a row of the uniforms, and fill the chances if there is room for them.

    Which round it was, from 1 on; with a minus sign if the chances are not known.
    """
    state, rounds = memory.state, memory.counts.rounds
    _enter(state, items)
    _rank(state, X, uniforms[row], ranking, token)
    if not is_permutation(ranking, memory.seen):
        raise ValueError("the learner's rank kernel fills a ranking with something else than its items")
    rounds[0] += 1
    number = int(rounds[0])
    if len(chances) == 0:
        return -number
    _chances(state, X, ranking, token, chances)
    return -number if np.isnan(chances[0]) else number


def _update_once(memory: Memory, items: Ints, X: Features, ranking: Ints, token: Floats, answers: Floats) -> int:
    """Update, if all that the decision and the answers hold is as it should be; else what is not."""
    state, perceived, grades = memory.state, memory.perceived, memory.perceived_grades
    if first_not_finite(X) >= 0:
        return BAD_FEATURES
    if not is_permutation(ranking, memory.seen):
        return NO_PERMUTATION
    for i in range(len(token)):
        if not abs(token[i]) < np.inf:
            return BAD_TOKEN
    for p in range(len(answers)):
        answer = answers[p]
        if np.isnan(answer):
            perceived[p] = answer
        elif 0 <= answer < len(grades) and answer == np.floor(answer):
            perceived[p] = grades[int(answer)]
        else:
            return p
    _enter(state, items)
    _update(state, X, ranking, token, perceived[: len(answers)])
    counted = memory.counts.answers
    for p in range(len(answers)):
        if not np.isnan(answers[p]):
            count_answer(counted, items[ranking[p]])
    return WELL


def _adopt_once(memory: Memory, items: Ints, X: Features, ranking: Ints, chances: Floats, token: Floats) -> None:
    """Turn the token of what was ranked last into that of another ranking of the same list."""
    _enter(memory.state, items)
    _adopt(memory.state, X, ranking, chances, token)


def read_only(part: Any) -> Any:
    """A state with its arrays, and those of states within it, as views that cannot be written to."""
    if isinstance(part, np.ndarray):
        view = part.view()
        view.flags.writeable = False
        return view
    if hasattr(part, "_fields"):
        return type(part)(*map(read_only, part))
    return part
