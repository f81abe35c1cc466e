"""Observability: whether, and how, feedback can estimate a loss difference.

Feedback can estimate a vector over outcomes iff the vector lies in the span of the signals, that is, iff it is
orthogonal to every v that all signals map to zero. Such a v is a direction in which the adversary can move
unnoticed. A v that is not orthogonal to the vector proves that no estimate exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from peekrank.games.exact.linear import coordinates, independent_columns, kernel
from peekrank.games.exact.numbers import Exact, UndecidedError
from peekrank.games.game import Game
from peekrank.types import Ints


class Signals(NamedTuple):
    """Signal rows of some actions, without repetition.

    ``rows[n]`` marks the outcomes under which action ``owner[n]`` shows ``symbol[n]``.
    ``unobservable_directions`` is a basis of the directions that all rows map to zero.
    """

    rows: Exact
    owner: Ints
    symbol: Ints
    unobservable_directions: Exact


class Observer(NamedTuple):
    """An unbiased estimate of loss_i - loss_j from feedback.

    Play action a with probability p_a and add ``value / p_a`` if its symbol appears. ``action``, ``symbol`` and
    ``value`` list the symbols with nonzero value.
    """

    i: int
    j: int
    action: Ints
    symbol: Ints
    value: list[float]


def signals(game: Game, actions: Iterable[int]) -> Signals:
    """Collect the signals of the actions, without repetition."""
    source_of: dict[bytes, tuple[int, int]] = {}
    done: set[bytes] = set()
    for action in actions:
        row = game.signals[action]
        if row.tobytes() in done:
            continue
        done.add(row.tobytes())
        for symbol in np.unique(row):
            source_of.setdefault((row == symbol).tobytes(), (int(action), int(symbol)))
    rows = np.array([np.frombuffer(mask, dtype=bool) for mask in source_of]).astype(np.int64)
    owner, symbol = np.array(list(source_of.values())).T
    return Signals(rows, owner, symbol, kernel(rows))


def unobservable_change(game: Game, difference: Exact, seen: Signals) -> Exact | None:
    """Return a direction that no signal reveals and that changes the loss difference, or None if there is none.

    Such a direction proves that feedback cannot estimate the difference.
    """
    terms, keys = game.terms(difference)
    products = seen.unobservable_directions.astype(object) @ terms.astype(object).T
    undecided: UndecidedError | None = None
    for vector, numbers in zip(seen.unobservable_directions, products, strict=True):
        try:
            if game.sign_weighted(numbers, keys):
                return np.asarray(vector)
        except UndecidedError as error:
            undecided = error  # a later direction may decide
    if undecided:
        raise undecided
    return None


def observers(game: Game, pairs: Sequence[tuple[int, int]], seen: Signals) -> list[Observer]:
    """Return estimates of loss_i - loss_j for pairs (i, j). The signals must be able to estimate them."""
    independent = np.array(independent_columns(seen.rows.T))
    rows = seen.rows[independent]
    split = [game.terms(game.difference(i, j)) for i, j in pairs]
    solution = coordinates(rows, np.concatenate([terms for terms, _ in split]))
    assert solution is not None  # noqa: S101
    x, d = solution
    estimates, start = [], 0
    for (i, j), (terms, keys) in zip(pairs, split, strict=True):
        part = x[start : start + len(terms)]
        start += len(terms)
        weights = np.array([float(weight) for weight in game.weights(keys, 64)])
        counts = np.flatnonzero(part.any(axis=0))
        value = weights @ part[:, counts].astype(np.float64) / d
        used = independent[counts]
        estimates.append(Observer(i, j, seen.owner[used], seen.symbol[used], value.tolist()))
    return estimates
