"""Logs of decisions to be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

NAMES = ("apple", "banana", "cherry", "date")
HEADER: dict[str, Any] = {"format": "peekrank-log", "version": 1, "min_feedback": 0.0, "max_feedback": 1.0}


def decisions(
    n: int, seed: int = 0, shown: Callable[[list[int]], list[int]] = list, first: int = 0
) -> Iterator[dict[str, Any]]:
    """Records of a learner that shows apple with probability 0.7, and the others with 0.1 each, k = 1.

    `shown` makes of the positions of the four items those at which the app shows them.
    """
    rng = np.random.default_rng(seed)
    for t in range(first, first + n):
        top = int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))
        positions = [0 if i == top else i + (i < top) for i in range(4)]
        positions = shown(positions)
        answers = [float(rng.random() < 0.6) if position == 0 else None for position in positions]
        yield {
            "event": str(t), "k": 1, "candidates": list(NAMES), "position": positions,
            "propensity": [0.7, 0.1, 0.1, 0.1],
            "feedback": answers,
        }  # fmt: skip
