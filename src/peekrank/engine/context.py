"""Context of a list that an app passes beside the items: a key, scores, and the order of the items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.validate import check_int
from peekrank.engine.validation import abbreviate, as_array
from peekrank.types import LARGEST_VERSION, Floats, Ints, Learner, Rounds

NO_KEY = -1
_LARGEST_KEY = 2**62 - 1
_NO_SCORES: Floats = np.empty(0)


class Context(NamedTuple):
    """Key of a list, scores by row (none: empty), and rows in the order of the app's list."""

    key: int
    scores: Floats
    listed: Ints


def as_key(learner: Learner, key: object) -> int:
    """Return a key as a number, -1 for None. Raises ValueError if it is invalid or the learner has no keys."""
    if key is None:
        return NO_KEY
    if learner.kernels.set_key is None:
        hint = "set cells, for example cells=10000" if learner.name == "mixed" else "use mixed with cells=10000"
        raise ValueError(f"key = {key!r}: {learner.name} learns nothing per key; {hint}")
    check_int("key", key, 0, _LARGEST_KEY)
    return int(key)  # type: ignore[call-overload,no-any-return]


def as_version(learner: Learner, version: object) -> int:
    """Return the version of a score. Raises ValueError if it is invalid or the learner has no use for it."""
    if learner.kernels.renew_score is None:
        raise ValueError(f"version = {version!r}: {learner.name} learns nothing about a score; use mixed")
    check_int("version", version, 0, LARGEST_VERSION)
    return int(version)  # type: ignore[call-overload,no-any-return]


def as_context(
    learner: Learner, key: object, scores: ArrayLike | None, available: ArrayLike | None, rows: Ints
) -> Context:
    """Validate a list's key and scores.

    Parameters
    ----------
    learner
        The learner.
    key, scores
        As the app gave them.
    available
        The items in the order in which the app gave them, None for all in ascending order.
    rows
        The items of the list, ascending.
    """
    n = len(rows)
    if scores is not None and learner.kernels.set_scores is None:
        raise ValueError(f"{learner.name} cannot start from scores; use mixed")
    listed = np.arange(n) if available is None else np.searchsorted(rows, np.asarray(available))
    given = _NO_SCORES
    if scores is not None:
        given = np.empty(n)
        given[listed] = as_array(scores, np.float64, (n,), "scores")
    return Context(as_key(learner, key), given, listed)


def context_of_rounds(learner: Learner, rounds: Rounds) -> tuple[Ints, Floats]:
    """Return the keys and scores that a learner uses, as empty arrays if it uses none or there are none."""
    keys, scores = rounds.keys, rounds.scores
    if keys is None or learner.kernels.set_key is None:
        keys = np.empty(0, np.int64)
    elif (
        keys.shape != (len(rounds.offsets) - 1,)
        or keys.dtype != np.int64
        or keys.min() < NO_KEY
        or keys.max() > _LARGEST_KEY
    ):
        raise ValueError(
            f"keys {abbreviate(keys)}: must be int64, one for each round, from 0 to {_LARGEST_KEY}, or -1"
        )
    if scores is None or learner.kernels.set_scores is None:
        scores = _NO_SCORES
    elif scores.shape != rounds.relevance.shape or scores.dtype != np.float64:
        raise ValueError(f"scores {abbreviate(scores)}: must be float64, one for each row")
    return np.ascontiguousarray(keys), np.ascontiguousarray(scores)
