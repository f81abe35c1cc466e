"""Checks that every stream must pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peekrank.checks.common import require, run_all, specification_round_trips
from peekrank.types import Rounds, Stream


def check_stream(stream: Stream) -> None:
    """Run every check of a stream."""
    run_all(STREAM_CHECKS, stream)


def rounds_are_well_formed(stream: Stream) -> None:
    """Check that the stream draws n rounds of the declared shape and grades, in the right types."""
    for n in (1, 17):
        rounds = stream.rounds(n, np.random.default_rng(0))
        rows = int(rounds.offsets[-1])
        require(len(rounds.offsets) == n + 1 and rounds.offsets[0] == 0, "offsets do not delimit n rounds")
        require(np.diff(rounds.offsets).max() <= stream.m, "a list is longer than m")
        require(rounds.relevance.dtype == np.uint8 and rounds.relevance.shape == (rows,), "relevance is not uint8")
        require(rounds.features.dtype == np.float32, "features are not float32")
        require(rounds.features.shape == (rows, stream.d), "features do not have the declared shape")
        require(rounds.relevance.max() <= stream.max_grade, "a grade is above max_grade")


def same_seed_same_rounds(stream: Stream) -> None:
    """Check that all randomness comes from the generator passed in."""
    one, two = (stream.rounds(50, np.random.default_rng(7)) for _ in range(2))
    for name in Rounds._fields:
        require(_equal(getattr(one, name), getattr(two, name)), f"two draws differ in their {name}")


def _equal(one: Any, two: Any) -> bool:
    """Return whether two arrays, records of arrays, or functions of the round (`Rounds.tails`) are equal."""
    if callable(one) and callable(two):
        return _equal(*(tuple(tails(np.arange(50))) for tails in (one, two)))
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_equal, one, two))
    return bool(np.array_equal(one, two))


STREAM_CHECKS: dict[str, Callable[[Stream], None]] = {
    check.__name__: check for check in (rounds_are_well_formed, same_seed_same_rounds, specification_round_trips)
}
