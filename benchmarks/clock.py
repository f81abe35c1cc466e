"""Timing that benchmarks share: of the processor, the best of several turns, since machines are shared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor, and what came out."""
    begun = time.process_time()
    found = action()
    return time.process_time() - begun, found


def seconds(action: Callable[[], object]) -> float:
    """Of the processor."""
    return timed(action)[0]


def turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Best time of each, all of them being warm."""
    runs = [{name: seconds(action) for name, action in actions.items()} for _ in range(repetitions)]
    return {name: min(run[name] for run in runs) for name in actions}


def in_turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Best time of each, after one run that pays for compiling."""
    for action in actions.values():
        action()
    return turns(actions, repetitions)


def two_digits(ratio: float) -> str:
    """What is worth printing of a ratio of two times.

    >>> two_digits(1 / 7), two_digits(1234)
    ('0.14', '1,200')
    """
    return f"{float(f'{ratio:.2g}'):,g}"
