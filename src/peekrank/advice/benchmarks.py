"""Benchmarks of the learners: measured losses on stationary streams, stored with the package.

`experiments/choosing.py` measures them, with ten items and one measure and k for each rate that a game can have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILE = Path(__file__).with_name("benchmarks.json")
ITEMS = 10


class Benchmark(NamedTuple):
    """Loss per round of a learner on a stationary stream: mean and standard deviation over runs."""

    learner: str
    knows_horizon: bool
    measure: str
    k: int
    stream: str
    rounds: int
    mean: float
    sd: float


class ResponseRateBenchmark(NamedTuple):
    """Loss per visit of a learner if a share of the visitors answers: ten items, DCG, k = 1."""

    learner: str
    share: float
    mean: float
    sd: float


@cache
def streams() -> tuple[Benchmark, ...]:
    """Return all benchmarks on streams.

    >>> streams()[0].learner, streams()[0].stream
    ('doubtsort', 'ct15')
    """
    return tuple(Benchmark(*row) for row in json.loads(FILE.read_text(encoding="utf-8"))["streams"])


@cache
def visitors() -> tuple[ResponseRateBenchmark, ...]:
    """Return all benchmarks at response rates below 1, and at 1."""
    return tuple(ResponseRateBenchmark(*row) for row in json.loads(FILE.read_text(encoding="utf-8"))["visitors"])


def loss_by_stream(learner: str, measure: str, k: int, *, knows_horizon: bool) -> dict[str, float]:
    """Return the loss per round of a learner in the longest runs, by stream. It is empty if not measured.

    >>> sorted(loss_by_stream("doubtsort", "dcg", 1, knows_horizon=False))
    ['ct15', 'graded', 'linear means']
    """
    longest = max(row.rounds for row in streams())
    key = (learner, knows_horizon, measure, k)
    return {row.stream: row.mean for row in streams() if row[:4] == key and row.rounds == longest}


def mean_loss(learner: str, measure: str, k: int, *, knows_horizon: bool) -> float:
    """Return the geometric mean of `loss_by_stream`, since streams differ in scale.

    It is infinite if not measured.
    """
    losses = loss_by_stream(learner, measure, k, knows_horizon=knows_horizon)
    return float(np.exp(np.mean(np.log(list(losses.values()))))) if losses else float("inf")


def loss_by_response_rate(learner: str) -> dict[float, float]:
    """Return the loss per visit of a learner, by the share of visitors that answer.

    It is empty if not measured.
    """
    return {row.share: row.mean for row in visitors() if row.learner == learner}


def figures(values: Iterable[float], separator: str = ", ") -> str:
    """Format numbers with two significant digits.

    >>> figures([0.0123, 0.00004, 1.0])
    '0.012, 0.00004, 1'
    """
    return separator.join(np.format_float_positional(value, 2, fractional=False, trim="-") for value in values)
