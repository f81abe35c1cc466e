"""What learners usually lose: measured on stationary streams, and kept with the package.

`experiments/choosing.py` measures it. Ten items, and k and a measure for each rate that a game can have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILE = Path(__file__).with_name("usual.json")
ITEMS = 10


class Usual(NamedTuple):
    """What a learner loses per round on a stationary stream: mean and standard deviation over runs."""

    learner: str
    told: bool  # the number of rounds
    measure: str
    k: int
    stream: str
    rounds: int
    mean: float
    sd: float


class Answers(NamedTuple):
    """What a learner loses per visit where a share of the visitors answers: ten items, DCG, k = 1."""

    learner: str
    share: float
    mean: float
    sd: float


@cache
def streams() -> tuple[Usual, ...]:
    """All that was measured on streams.

    >>> streams()[0].learner, streams()[0].stream
    ('doubtsort', 'ct15')
    """
    return tuple(Usual(*row) for row in json.loads(FILE.read_text(encoding="utf-8"))["streams"])


@cache
def visitors() -> tuple[Answers, ...]:
    """All that was measured with few visitors answering."""
    return tuple(Answers(*row) for row in json.loads(FILE.read_text(encoding="utf-8"))["visitors"])


def lost(learner: str, measure: str, k: int, *, told: bool) -> dict[str, float]:
    """What a learner loses per round after the longest runs, by stream; empty where that was not measured.

    >>> sorted(lost("doubtsort", "dcg", 1, told=False))
    ['ct15', 'graded', 'linear means']
    """
    longest = max(row.rounds for row in streams())
    wanted = (learner, told, measure, k)
    return {row.stream: row.mean for row in streams() if row[:4] == wanted and row.rounds == longest}


def typically(learner: str, measure: str, k: int, *, told: bool) -> float:
    """The geometric mean of that over streams, which differ in scale; infinite where nothing was measured."""
    found = lost(learner, measure, k, told=told)
    return float(np.exp(np.mean(np.log(list(found.values()))))) if found else float("inf")


def few(learner: str) -> dict[float, float]:
    """What a learner loses per visit, by the share of visitors that answer; empty where that was not measured."""
    return {row.share: row.mean for row in visitors() if row.learner == learner}


def figures(values: Iterable[float], between: str = ", ") -> str:
    """Numbers in two digits.

    >>> figures([0.0123, 0.00004, 1.0])
    '0.012, 0.00004, 1'
    """
    return between.join(np.format_float_positional(value, 2, fractional=False, trim="-") for value in values)
