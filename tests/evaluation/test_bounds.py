"""Bounds without propensities: certain for the log, and with a level beyond it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from peekrank import DCG, PairwiseLoss
from peekrank.evaluation.bounds import BoundedEvaluation, bound_source
from peekrank.evaluation.log import Log, log_from_records
from peekrank.evaluation.policies import ranker
from peekrank.evaluation.sources import MemorySource
from peekrank.types import Floats

NAMES = ["a", "b", "c"]


def _bound(log: Log, *orders: str, measure: object = None) -> BoundedEvaluation:
    source = MemorySource("log", log)
    goal = DCG() if measure is None else measure
    rankers = [ranker(order, source.scope, measure=DCG()) for order in orders]
    return bound_source(source, rankers, goal)  # type: ignore[arg-type]


def _log(positions: list[list[int]], feedback: list[list[float | None]], k: int) -> Log:
    return log_from_records([
        {"event": str(t), "k": k, "candidates": NAMES, "position": p, "feedback": f}
        for t, (p, f) in enumerate(zip(positions, feedback, strict=True))
    ], max_feedback=2.0)  # fmt: skip


def test_bounds_are_the_extremes_over_all_possible_answers() -> None:
    positions = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    feedback: list[list[float | None]] = [[1, 2, None], [None, 0, None], [None, None, 1]]
    found = _bound(_log(positions, feedback, 2), "order:a,b,c", "order:c,b,a", "logged")
    unknown = [(t, i) for t in range(3) for i in range(3) if feedback[t][i] is None]
    values: list[list[float]] = [[], [], [], []]
    f = DCG().discount(3)
    for answers in product((0.0, 2.0), repeat=len(unknown)):
        full = np.array([[0.0 if x is None else x for x in row] for row in feedback])
        for (t, i), answer in zip(unknown, answers, strict=True):
            full[t, i] = answer
        gains = DCG().gain(full.ravel()).reshape(full.shape)
        each = [float((gains @ f).mean()), float((gains[:, ::-1] @ f).mean())]
        shown = float(np.mean([f[positions[t]] @ gains[t] for t in range(3)]))
        for part, value in zip(values, [*each, shown, each[0] - each[1]], strict=True):
            part.append(value)
    for one, part in zip([*found.values, found.differences[0]], values, strict=True):
        assert one.log == pytest.approx((min(part), max(part)), abs=1e-12)
        assert one.anytime[0] <= one.log[0] <= one.log[1] <= one.anytime[1]
    assert found.values[2].stationary is None
    assert found.seen == pytest.approx(4 / 9)


def test_anytime_and_stationary_bounds_hold() -> None:
    rng = np.random.default_rng(0)
    means: Floats = np.array([0.9, 0.5, 0.1])
    positions = [[0, 1, 2] if rng.random() < 0.9 else [2, 0, 1] for _ in range(4000)]
    feedback: list[list[float | None]] = [
        [float(rng.random() < means[i]) if p[i] < 2 else None for i in range(3)] for p in positions
    ]
    log = _log(positions, feedback, 2)._replace(min_feedback=0.0, max_feedback=1.0)
    found = _bound(log, "order:a,b,c", "order:c,b,a")
    one, two = found.values
    first, second = means @ DCG().discount(3), means[::-1] @ DCG().discount(3)
    for bounds, true in ((one, first), (two, second), (found.differences[0], first - second)):
        assert bounds.anytime[0] < true < bounds.anytime[1]
        assert bounds.stationary is not None
        assert bounds.stationary[0] < true < bounds.stationary[1]
        assert bounds.stationary[1] - bounds.stationary[0] < bounds.anytime[1] - bounds.anytime[0]
    assert found.differences[0].verdict == "undecided"
    assert found.as_json()["differences"][0]["verdict"] == "undecided"
    with pytest.raises(ValueError, match="pairwiseloss cannot be bounded"):
        _bound(log, "order:a", measure=PairwiseLoss())
