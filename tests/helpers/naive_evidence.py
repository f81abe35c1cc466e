"""Estimates from a log written down from their definitions, slowly, one decision after the other."""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

from peekrank.evidence.log import Log

from peekrank.types import Floats, Ints, LinearMeasure


class Naive(NamedTuple):
    ips: float
    self_normalised: float
    doubly_robust: float
    effective: float
    largest: float


def naive_estimates(log: Log, ranks: Ints, measure: LinearMeasure, regression: str = "items") -> Naive:
    """IPS, self-normalised and doubly robust estimates, effective sample size and largest weight."""
    terms, weights, robust, totals, largest = [], [], [], [], 0.0
    past: dict[int, list[float]] = {}
    every: list[float] = []
    low, high = (float(measure.gain(_array(x))[0]) for x in (log.lowest, log.highest))
    for t in range(len(log.k)):
        rows = range(log.offsets[t], log.offsets[t + 1])
        f = measure.discount(len(rows))
        average = ((high - low) / 2 + low + sum(every)) / (1 + len(every))
        ips = weight = dr = 0.0
        for row in rows:
            own = past.get(int(log.item[row]), [])
            guess = (sum(own) + average) / (len(own) + 1) if regression == "items" else low
            discount, answer, p = f[ranks[row]], log.answer[row], log.chance[row]
            dr += discount * guess
            if not isnan(answer):
                gain = float(measure.gain(_array(answer))[0])
                ips += discount * gain / p
                weight += discount / p
                dr += discount * (gain - guess) / p
                if discount > 0:
                    largest = max(largest, 1 / p)
        terms.append(ips)
        weights.append(weight / f.sum())
        robust.append(dr)
        totals.append(f.sum())
        for row in rows:
            if not isnan(log.answer[row]):
                gain = float(measure.gain(_array(log.answer[row]))[0])
                past.setdefault(int(log.item[row]), []).append(gain)
                every.append(gain)
    n = len(terms)
    mean_weight = sum(w * total for w, total in zip(weights, totals, strict=True)) / sum(totals)
    return Naive(
        sum(terms) / n,
        sum(terms) / n / mean_weight,
        sum(robust) / n,
        sum(weights) ** 2 / sum(w * w for w in weights),
        largest,
    )


def _array(x: float) -> Floats:
    import numpy as np

    return np.array([float(x)])
