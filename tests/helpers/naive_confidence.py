"""Confidence sequences written down from their definitions, slowly."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from scipy.optimize import brentq


def log_evidence(
    x: Sequence[float],
    low: Sequence[float],
    means: Sequence[float],
    scale: float,
    *,
    growing: bool = False,
    rates: int = 16,
) -> float:
    """Logarithm of the average of the processes M_t of the module's docstring, for these conditional means."""
    weights = [1 / (j + 1) for j in range(rates)]
    parts = []
    for j, weight in enumerate(weights):
        c = scale * 2**j if growing else scale
        r = (0.25 if growing else 0.5) / scale / 2**j
        psi = (-log(1 - r * c) - r * c) / c**2
        power, observed = 0.0, 0.0
        for t, value in enumerate(x):
            a = low[t] + scale / 2 if t == 0 else min(observed / t, low[t] + c)
            power += r * (value - means[t]) - psi * (value - a) ** 2
            observed += value
        parts.append(log(weight / sum(weights)) + power)
    return max(parts) + log(sum(exp(part - max(parts)) for part in parts))


def lower(x: Sequence[float], low: Sequence[float], scale: float, alpha: float, *, growing: bool = False) -> float:
    """The running mean at which the evidence is 1/alpha, by searching."""

    def excess(mean: float) -> float:
        return log_evidence(x, low, [mean] * len(x), scale, growing=growing) + log(alpha)

    return float(brentq(excess, -1e9, 1e9, xtol=1e-13))


def capital(x: Sequence[float], low: Sequence[float], mean: float, highest: float, alpha: float) -> float:
    """What a gambler has who bets against a mean that never changes."""
    money = 1.0
    for t, value in enumerate(x):
        scale = highest - low[t]
        past = list(x[:t])
        means = [(sum(past[:s]) + (highest + low[s]) / 2) / (s + 1) for s in range(t)]
        squares = sum((past[s] - means[s]) ** 2 for s in range(t))
        variance = (squares + scale**2 / 4) / (t + 1)
        bet = min((2 * log(1 / alpha) / (variance * (t + 1) * log(t + 2))) ** 0.5, 0.5 / scale)
        money *= 1 + bet * (value - mean)
    return money
