"""What feedback can estimate: whether a loss difference lies in the span of signal matrices, and how.

A vector over outcomes is in the span of the signals iff every v that all signals map to zero is orthogonal to it.
Such a v is a direction in which the adversary can move unseen; one that is not orthogonal proves that no estimate
exists.
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

    ``rows[n]`` marks the outcomes under which action ``owner[n]`` shows ``symbol[n]``; ``unseen`` is a basis of
    the directions that all rows map to zero.
    """

    rows: Exact
    owner: Ints
    symbol: Ints
    unobservable_direction: Exact


class Observer(NamedTuple):
    """An unbiased estimate of loss_i - loss_j from feedback.

    Play action a with probability p_a, and count ``value / p_a`` for its symbol; ``action``, ``symbol`` and
    ``value`` run over the symbols that count.
    """

    i: int
    j: int
    action: Ints
    symbol: Ints
    value: list[float]


def signals(game: Game, actions: Iterable[int]) -> Signals:
    """The signals of these actions."""
    found: dict[bytes, tuple[int, int]] = {}
    seen: set[bytes] = set()
    for action in actions:
        row = game.signals[action]
        if row.tobytes() in seen:
            continue
        seen.add(row.tobytes())
        for symbol in np.unique(row):
            found.setdefault((row == symbol).tobytes(), (int(action), int(symbol)))
    rows = np.array([np.frombuffer(mask, dtype=bool) for mask in found]).astype(np.int64)
    owner, symbol = np.array(list(found.values())).T
    return Signals(rows, owner, symbol, kernel(rows))


def unseen_change(game: Game, difference: Exact, seen: Signals) -> Exact | None:
    """A direction that no signal shows and that changes the loss difference: proof that it cannot be estimated.

    None if it can be.
    """
    terms, keys = game.terms(difference)
    products = seen.unseen.astype(object) @ terms.astype(object).T
    undecided: UndecidedError | None = None
    for vector, numbers in zip(seen.unseen, products, strict=True):
        try:
            if game.sign_weighted(numbers, keys):
                return np.asarray(vector)
        except UndecidedError as error:
            undecided = error  # a later direction may decide
    if undecided:
        raise undecided
    return None


def observers(game: Game, pairs: Sequence[tuple[int, int]], seen: Signals) -> list[Observer]:
    """The estimates of loss_i - loss_j for pairs (i, j), from signals that must be able to give them."""
    independent = np.array(independent_columns(seen.rows.T))
    rows = seen.rows[independent]
    split = [game.terms(game.difference(i, j)) for i, j in pairs]
    found = coordinates(rows, np.concatenate([terms for terms, _ in split]))
    assert found is not None  # noqa: S101
    x, d = found
    made, start = [], 0
    for (i, j), (terms, keys) in zip(pairs, split, strict=True):
        part = x[start : start + len(terms)]
        start += len(terms)
        weights = np.array([float(weight) for weight in game.weights(keys, 64)])
        counts = np.flatnonzero(part.any(axis=0))
        value = weights @ part[:, counts].astype(np.float64) / d
        used = independent[counts]
        made.append(Observer(i, j, seen.owner[used], seen.symbol[used], value.tolist()))
    return made
