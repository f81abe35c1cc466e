"""Estimates from a log written down from their definitions, slowly, one decision after the other."""

from __future__ import annotations

import math
from math import exp, isnan
from typing import NamedTuple

from peekrank.evaluation.log import Log
from peekrank.types import Floats, Ints, LinearMeasure


class Naive(NamedTuple):
    ips: float
    snips: float
    dr: float
    ess: float
    max_weight: float


def naive_estimates(log: Log, ranks: Ints, measure: LinearMeasure, regression: str = "items") -> Naive:
    """IPS, self-normalised and doubly robust estimates, effective sample size and largest weight."""
    terms, weights, robust, totals, largest = [], [], [], [], 0.0
    past: dict[int, list[float]] = {}
    every: list[float] = []
    low, high = (float(measure.gain(_array(x))[0]) for x in (log.min_feedback, log.max_feedback))
    for t in range(len(log.k)):
        rows = range(log.offsets[t], log.offsets[t + 1])
        f = measure.discount(len(rows))
        average = ((high - low) / 2 + low + sum(every)) / (1 + len(every))
        ips = weight = dr = 0.0
        for row in rows:
            own = past.get(int(log.item[row]), [])
            guess = (sum(own) + average) / (len(own) + 1) if regression == "items" else low
            discount, answer, p = f[ranks[row]], log.feedback[row], log.propensity[row]
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
            if not isnan(log.feedback[row]):
                gain = float(measure.gain(_array(log.feedback[row]))[0])
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


def naive_interval(
    log: Log, ranks: Ints, measure: LinearMeasure, alpha: float, checkpoints: list[int]
) -> list[tuple[float, float]]:
    """The interval at all times of the value of an order after some decisions, for gains from 0 on."""
    span = float(measure.gain(_array(log.max_feedback))[0])
    scale = span * float(measure.discount(int(log.offsets[1])).sum())
    rates = range(16)
    shares = [1 / (j + 1) for j in rates]
    ends: list[tuple[float, float]] = []
    states = {side: [[0.0, 0.0] for _ in rates] for side in (1, -1)}  # sums and squares, by rate
    past: dict[int, list[float]] = {}
    every: list[float] = []
    most = 0.0
    for t in range(len(log.k)):
        rows = range(log.offsets[t], log.offsets[t + 1])
        f = measure.discount(len(rows))
        most = max(most, span * float(f.sum()))
        top = sum(sorted((float(f[ranks[row]]) for row in rows), reverse=True)[: log.k[t]])
        average = (span / 2 + sum(every)) / (1 + len(every))
        for side, state in states.items():
            for j in rates:
                reach = scale * 2**j / 2
                known, base = 0.0, 0.0
                for row in rows:
                    own = past.get(int(log.item[row]), [])
                    guess, p = (sum(own) + average) / (len(own) + 1), log.propensity[row]
                    q = min(guess, reach / top * p) if side > 0 else max(guess, span - reach / top * p)
                    h = side * float(f[ranks[row]])
                    base += h * q
                    if not isnan(log.feedback[row]):
                        known += h * (float(measure.gain(_array(log.feedback[row]))[0]) - q) / p
                low, x = base - reach, base + known
                centre = low + scale / 2 if t == 0 else min(state[j][0] / t, low + scale * 2**j)
                state[j][0] += x
                state[j][1] += (x - centre) ** 2
        for row in rows:
            if not isnan(log.feedback[row]):
                gain = float(measure.gain(_array(log.feedback[row]))[0])
                past.setdefault(int(log.item[row]), []).append(gain)
                every.append(gain)
        if t + 1 in checkpoints:
            low, high = (_least(states[side], shares, scale, t + 1, alpha / 2) for side in (1, -1))
            ends.append((max(low, 0.0), min(-high, most)))
    return ends


def _least(state: list[list[float]], shares: list[float], scale: float, n: int, alpha: float) -> float:
    """The smallest mean that is not refuted, by bisection."""

    def evidence(mean: float) -> float:
        total = 0.0
        for j, (value, squares) in enumerate(state):
            rate, width = 0.25 / scale / 2**j, scale * 2**j
            cost = (-math.log(1 - 0.25) - 0.25) / width**2
            total += shares[j] / sum(shares) * exp(min(700.0, rate * (value - n * mean) - cost * squares))
        return total

    low, high = -1e6, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if evidence(middle) >= 1 / alpha else (low, middle)
    return low
