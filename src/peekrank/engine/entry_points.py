"""Compiled entry points of an agent: each checks its input, calls the learner's kernel, and counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.types import LARGEST_FEATURE, Features, Floats, Ints, Kernels, State

OK, NO_PERMUTATION, BAD_TOKEN, BAD_FEATURES = (
    -1,
    -2,
    -3,
    -4,
)  # results of `update`; 0 and above: an invalid answer


class Counts(NamedTuple):
    """Numbers of rounds and of answers per item (in total, if each list has its own items), and retired items."""

    rounds: Ints
    answers: Ints
    retired: Ints  # 1 for a retired item; empty if the learner's set of items is fixed


def no_counts(counted: int, changing: int) -> Counts:
    """Return zero counts, for `counted` items with counts of their own and `changing` items that can retire."""
    return Counts(*(np.zeros(size, dtype=np.int64) for size in (1, counted, changing)))


class Memory(NamedTuple):
    """Arrays and counts that an agent keeps between calls."""

    state: State
    counts: Counts
    feedback_values: Floats  # the learner's perceived relevance of each grade
    seen: NDArray[np.bool_]  # workspace of `is_permutation`
    transformed: Floats  # workspace for perceived answers


class EntryPoints(NamedTuple):
    """The two entry points for the kernels of a learner."""

    rank: Callable[..., int]
    update: Callable[..., int]


@cache
def entry_points(kernels: Kernels, *, real_answers: bool = False) -> EntryPoints:
    """Return the entry points for these kernels; real answers come transformed and checked."""
    name, set_items = name_of(kernels), set_items_of(kernels)
    return EntryPoints(
        specialise(
            _rank_once,
            name,
            _set_items=set_items,
            _rank=kernels.rank,
            _propensities=kernels.propensities or _unknown,
        ),
        specialise(
            _update_once,
            name,
            _set_items=set_items,
            _update=kernels.update,
            _fill_values=_copy_values if real_answers else _look_up_values,
        ),
    )


@cache
def context_entry_point(kernels: Kernels) -> Callable[..., None]:
    """Return the entry point that passes the key and the scores of the next list to a learner."""
    return specialise(
        _set_context,
        name_of(kernels),
        _set_key=kernels.set_key or ignore_key,
        _set_scores=kernels.set_scores or ignore_scores,
    )


@cache
def renewal_entry_point(kernels: Kernels) -> Callable[..., None]:
    """Return the entry point that passes the version of the score to a learner."""
    return specialise(_renew_score_once, name_of(kernels), _renew_score=kernels.renew_score or ignore_key)


@cache
def off_policy_entry_point(kernels: Kernels) -> Callable[..., None]:
    """Return the entry point of `off_policy`, for kernels that learn from rankings of another policy."""
    return specialise(
        _off_policy_once,
        name_of(kernels),
        _set_items=set_items_of(kernels),
        _off_policy=kernels.off_policy or _unknown,
    )


def set_items_of(kernels: Kernels) -> Callable[[State, Ints], None]:
    """Return the kernel that passes the available items to a learner, which does nothing for a fixed set."""
    return kernels.set_items or _fixed


def name_of(kernels: Kernels) -> str:
    """Return a name for the kernels of a learner, in characters that file names may have."""
    return f"{kernels.rank.__module__}.{kernels.rank.__qualname__}-{kernels.update.__qualname__}"


_rank: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_propensities: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_items: Callable[[State, Ints], None] = unspecialised
_off_policy: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_key: Callable[[State, int], None] = unspecialised
_set_scores: Callable[[State, Floats, Ints], None] = unspecialised
_renew_score: Callable[[State, int], None] = unspecialised
_fill_values: Callable[[Floats, Floats, Floats], int] = unspecialised


@kernel
def _fixed(state: State, items: Ints) -> None:
    """Do nothing, for a learner whose set of items is fixed."""


@kernel
def ignore_key(state: State, key: int) -> None:
    """Do nothing, for a learner without keys."""


@kernel
def ignore_scores(state: State, scores: Floats, listed: Ints) -> None:
    """Do nothing, for a learner that cannot use scores."""


@kernel
def _unknown(state: State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Do nothing, for a learner that does not know its propensities."""


@kernel
def first_invalid_item(X: Features) -> int:
    """Return the first item with a feature that is not a number or beyond the largest that is allowed, or -1."""
    for item in range(len(X)):
        valid = True
        for f in range(X.shape[1]):
            valid &= abs(X[item, f]) <= LARGEST_FEATURE
        if not valid:
            return item
    return -1


@kernel
def is_permutation(ranking: Ints, seen: NDArray[np.bool_]) -> bool:
    """Return whether a ranking holds each of its items once."""
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
    """Return whether numbers of items ascend and are below m."""
    before = -1
    for item in items:
        if item <= before:
            return False
        before = item
    return before < m


@kernel
def are_uniform(numbers: Floats) -> bool:
    """Return whether all numbers are in [0, 1). Kernels turn them into indices of items."""
    for number in numbers:
        if not 0 <= number < 1:
            return False
    return True


@kernel
def fill_rows(items: Ints, ranking: Ints, rows: Ints) -> bool:
    """Fill `rows` with the index of each ranked item among ascending items. Return False if one is missing."""
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
    propensities: Floats,
) -> int:
    """Rank by a row of the uniforms, and fill the propensities unless their array is empty.

    Return the number of the round, from 1 on, negative if the propensities are not known.
    """
    state, rounds = memory.state, memory.counts.rounds
    _set_items(state, items)
    _rank(state, X, uniforms[row], ranking, token)
    if not is_permutation(ranking, memory.seen):
        raise ValueError("the learner's rank kernel fills a ranking with something other than its items")
    rounds[0] += 1
    number = int(rounds[0])
    if len(propensities) == 0:
        return -number
    _propensities(state, X, ranking, token, propensities)
    return -number if np.isnan(propensities[0]) else number


def _update_once(memory: Memory, items: Ints, X: Features, ranking: Ints, token: Floats, answers: Floats) -> int:
    """Update, unless the decision or the answers are invalid. Return `OK` or what is invalid."""
    state, transformed, grades = memory.state, memory.transformed, memory.feedback_values
    if first_invalid_item(X) >= 0:
        return BAD_FEATURES
    if not is_permutation(ranking, memory.seen):
        return NO_PERMUTATION
    for i in range(len(token)):
        if not abs(token[i]) < np.inf:
            return BAD_TOKEN
    code = _fill_values(answers, grades, transformed)
    if code != OK:
        return code
    _set_items(state, items)
    _update(state, X, ranking, token, transformed[: len(answers)])
    counted = memory.counts.answers
    for p in range(len(answers)):
        if not np.isnan(answers[p]):
            count_answer(counted, items[ranking[p]])
    return OK


@kernel
def _look_up_values(answers: Floats, grades: Floats, values: Floats) -> int:
    """Fill in the value of each grade. Return `OK` or the position of an answer that is no grade."""
    for p in range(len(answers)):
        answer = answers[p]
        if np.isnan(answer):
            values[p] = answer
        elif 0 <= answer < len(grades) and answer == np.floor(answer):
            values[p] = grades[int(answer)]
        else:
            return p
    return OK


@kernel
def _copy_values(answers: Floats, grades: Floats, values: Floats) -> int:  # noqa: ARG001
    """Copy answers that have been transformed, and return `OK`."""
    for p in range(len(answers)):
        values[p] = answers[p]
    return OK


def _set_context(memory: Memory, key: int, scores: Floats, listed: Ints) -> None:
    """Pass the key and the scores of the next list to the learner."""
    _set_key(memory.state, key)
    _set_scores(memory.state, scores, listed)


def _renew_score_once(memory: Memory, version: int) -> None:
    """Pass the version of the next list's score to the learner."""
    _renew_score(memory.state, version)


def _off_policy_once(
    memory: Memory, items: Ints, X: Features, ranking: Ints, propensities: Floats, token: Floats
) -> None:
    """Turn the token of the latest ranking into that of another ranking of the same list."""
    _set_items(memory.state, items)
    _off_policy(memory.state, X, ranking, propensities, token)


def read_only(part: Any) -> Any:
    """Return a state with all arrays, also those of nested states, as read-only views."""
    if isinstance(part, np.ndarray):
        view = part.view()
        view.flags.writeable = False
        return view
    if hasattr(part, "_fields"):
        return type(part)(*map(read_only, part))
    return part
