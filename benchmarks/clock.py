"""Timing for benchmarks: CPU time, best of several turns, because machines are shared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of an action, and its result."""
    begun = time.process_time()
    found = action()
    return time.process_time() - begun, found


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of an action."""
    return timed(action)[0]


def turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the best time of each action. All must be warm."""
    runs = [{name: seconds(action) for name, action in actions.items()} for _ in range(repetitions)]
    return {name: min(run[name] for run in runs) for name in actions}


def in_turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the best time of each action, after a first run that compiles."""
    for action in actions.values():
        action()
    return turns(actions, repetitions)


def two_digits(ratio: float) -> str:
    """Format a ratio of two times with the digits that matter.

    >>> two_digits(1 / 7), two_digits(1234)
    ('0.14', '1,200')
    """
    return f"{float(f'{ratio:.2g}'):,g}"
