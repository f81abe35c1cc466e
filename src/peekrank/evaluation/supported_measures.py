"""Measures that can be estimated from a log, and substitutes for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from peekrank.evaluation.log import Log, Scope
from peekrank.measures import (
    DCG,
    ERR,
    NDCG,
    RBP,
    AUCLoss,
    Hit,
    LinearMeasureMixin,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
)
from peekrank.types import Floats, LinearMeasure, Measure


def by_items(measure: Measure, max_feedback: float) -> bool:
    """Return whether a measure is a sum over items of discount(rank) x gain(relevance).

    >>> by_items(DCG(), 4), by_items(NDCG(), 4), by_items(PairwiseLoss(), 1)
    (True, False, False)
    """
    own: Any = getattr(type(measure), "offset", None)
    linear = isinstance(measure, LinearMeasure) and measure.linear(int(np.ceil(max_feedback)))
    return linear and bool(cast("LinearMeasure", measure).separable) and own is LinearMeasureMixin.offset


def nearest_measure(measure: Measure) -> Measure:
    """Return the closest measure that can be estimated from a log.

    >>> str(nearest_measure(NDCG(10))), str(nearest_measure(Recall(3)))
    ('dcg@10', 'p@3+sum')
    """
    match measure:
        case NDCG(n, gains):
            return DCG(n, gains)
        case AUCLoss() | PairwiseLoss():
            return SumLoss()
        case Recall(n) | Hit(n):
            return Precision(n, mean=False)
        case ReciprocalRank(n) | ERR(n):
            return RBP(n)
        case _:
            return DCG()


def reject(measure: Measure, scope: Scope) -> None:
    """Raise a ValueError that says why a measure cannot be estimated from a log, and which one can.

    >>> from peekrank.evaluation.log import log_from_records, scope_of_log
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b", "c"], "position": [0, 1, 2]}
    >>> reject(NDCG(), scope_of_log(log_from_records([record])))
    Traceback (most recent call last):
    ...
    ValueError: ndcg cannot be estimated from feedback on k = 1 of 3 candidates: ... Use dcg.
    """
    from peekrank.games.theorems import theorem_of

    m, k = scope.shortest
    why = theorem_of(measure, m, k, max(2, int(scope.max_feedback) + 1)).reason
    raise ValueError(
        f"{measure} cannot be estimated from feedback on k = {k} of {m} candidates: it is not a sum over items of "
        f"discount(rank) x gain(relevance), so it depends on items that were not seen. {why} "
        f"Use {nearest_measure(measure)}."
    )


def gain_rule(
    measure: LinearMeasure, min_feedback: float, max_feedback: float
) -> tuple[Callable[[Log], Floats], float, float]:
    """Return a function from feedback (NaN: none) to gains, and the smallest and the largest possible gain.

    Feedback that is not whole, such as estimates from clicks, gets linear gains. This is exact for measures with
    linear gains, and for binary relevance; other measures need whole feedback.
    """
    middle = measure.gain(np.array([0.0, 1.0, 2.0, 3.0]))
    if max_feedback <= 1 or not np.any(np.abs(np.diff(middle, 2)) > 0):
        slope = middle[1] - middle[0]
        ends = middle[0] + slope * np.array([min_feedback, max_feedback])
        return lambda log: middle[0] + slope * log.feedback, float(ends.min()), float(ends.max())

    def gains(log: Log) -> Floats:
        answered = ~np.isnan(log.feedback)
        answers = log.feedback[answered]
        if min_feedback < 0 or np.any(answers % 1):
            raise ValueError(
                f"{measure}: feedback that is not whole needs a measure with linear gains, such as dcg+linear "
                "or sumloss, unless relevance is binary"
            )
        gain = np.full(len(log.feedback), np.nan)
        gain[answered] = measure.gain(answers)
        return gain

    ends = measure.gain(np.array([max(min_feedback, 0.0), max_feedback]))
    return gains, float(ends.min()), float(ends.max())
