"""What every stream must do."""

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
    """It draws as many rounds as asked for, of the promised shape and grades, in compact types."""
    for n in (1, 17):
        rounds = stream.rounds(n, np.random.default_rng(0))
        rows = int(rounds.offsets[-1])
        require(len(rounds.offsets) == n + 1 and rounds.offsets[0] == 0, "offsets do not delimit n rounds")
        require(np.diff(rounds.offsets).max() <= stream.m, "a list is longer than m")
        require(rounds.relevance.dtype == np.uint8 and rounds.relevance.shape == (rows,), "relevance is not uint8")
        require(rounds.features.dtype == np.float32, "features are not float32")
        require(rounds.features.shape == (rows, stream.d), "features are not of the promised shape")
        require(rounds.relevance.max() <= stream.max_grade, "a grade is above max_grade")


def same_seed_same_rounds(stream: Stream) -> None:
    """All randomness comes from the generator given."""
    one, two = (stream.rounds(50, np.random.default_rng(7)) for _ in range(2))
    for name in Rounds._fields:
        require(_equal(getattr(one, name), getattr(two, name)), f"two draws differ in their {name}")


def _equal(one: Any, two: Any) -> bool:
    """Whether two arrays, or records of them, are the same."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_equal, one, two))
    return bool(np.array_equal(one, two))


STREAM_CHECKS: dict[str, Callable[[Stream], None]] = {
    check.__name__: check for check in (rounds_are_well_formed, same_seed_same_rounds, specification_round_trips)
}
