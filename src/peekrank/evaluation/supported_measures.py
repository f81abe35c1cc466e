"""Which measures can be estimated from a log, and what takes their place where they cannot."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from peekrank.evidence.log import Log
from peekrank.measures import (
    AUC,
    DCG,
    ERR,
    NDCG,
    RBP,
    Hit,
    LinearForm,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
)
from peekrank.types import Floats, LinearMeasure, Measure


def by_items(measure: Measure, highest: float) -> bool:
    """Whether a measure is a sum over items of discount(rank) x gain(relevance), and nothing more.

    >>> by_items(DCG(), 4), by_items(NDCG(), 4), by_items(PairwiseLoss(), 1)
    (True, False, False)
    """
    own: Any = getattr(type(measure), "offset", None)
    linear = isinstance(measure, LinearMeasure) and measure.linear(int(np.ceil(highest)))
    return linear and bool(cast("LinearMeasure", measure).separable) and own is LinearForm.offset


def nearest_measure(measure: Measure) -> Measure:
    """The measure that can be estimated and says most of what this one says.

    >>> str(nearest_measure(NDCG(10))), str(nearest_measure(Recall(3)))
    ('dcg@10', 'p@3')
    """
    match measure:
        case NDCG(n, gains):
            return DCG(n, gains)
        case AUC() | PairwiseLoss():
            return SumLoss()
        case Recall(n) | Hit(n):
            return Precision(n)
        case ReciprocalRank(n) | ERR(n):
            return RBP(n)
        case _:
            return DCG()


def refuse(measure: Measure, log: Log) -> None:
    """Raise the ValueError that says why a measure cannot be estimated from a log, and what can be.

    >>> from peekrank.evidence.log import log_of
    >>> refuse(NDCG(), log_of([{"event": "1", "k": 1, "candidates": ["a", "b", "c"], "place": [0, 1, 2]}]))
    Traceback (most recent call last):
    ...
    ValueError: ndcg cannot be estimated from answers about k = 1 of 3 candidates: ... The nearest that can is dcg.
    """
    from peekrank.games.theorems import theorem_of

    short = int(np.argmax(log.lengths - log.k))
    m, k = int(log.lengths[short]), int(log.k[short])
    why = theorem_of(measure, m, k, max(2, int(log.highest) + 1)).reason
    raise ValueError(
        f"{measure} cannot be estimated from answers about k = {k} of {m} candidates: it is no sum over items of "
        f"discount(rank) x gain(relevance), and what is not seen decides it. {why} "
        f"The nearest that can is {nearest_measure(measure)}."
    )


def gains_of(measure: LinearMeasure, log: Log) -> tuple[Floats, float, float]:
    """The gain of each answer (NaN: none), and the gains of the least and of the largest answer.

    Answers that are no grades, such as estimates from clicks, have gains on a straight line: exact for measures
    with linear gains, and for relevance that is 0 or 1.
    """
    told = ~np.isnan(log.answer)
    gain = np.full(len(log.answer), np.nan)
    answers = log.answer[told]
    whole = not np.any(answers % 1) and log.lowest >= 0
    if whole:
        ends = measure.gain(np.array([log.lowest, log.highest]))
        gain[told] = measure.gain(answers)
    else:
        middle = measure.gain(np.array([0.0, 1.0, 2.0, 3.0]))
        if log.highest > 1 and np.any(np.abs(np.diff(middle, 2)) > 0):
            raise ValueError(
                f"{measure}: answers that are no whole numbers need a measure whose gains are proportional to "
                "relevance, as in dcg+linear or sumloss, unless relevance is 0 or 1"
            )
        slope = middle[1] - middle[0]
        ends = middle[0] + slope * np.array([log.lowest, log.highest])
        gain[told] = middle[0] + slope * answers
    low, high = float(ends.min()), float(ends.max())
    return gain, low, high
