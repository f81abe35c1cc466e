"""The entropic leader in decimals, and what the coins of a draw can come to."""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from functools import partial
from itertools import product

import numpy as np

from peekrank.types import Floats, Ints

ALWAYS = 1 - 2.0**-53  # the largest uniform


def _probability(changes: Callable[[float], bool]) -> float:
    """Probability that a uniform from the grid of 2^-53 changes the ranking, by bisection."""
    if not changes(ALWAYS):
        return 0.0
    low, high = 0, 2**53 - 1  # low does not change it, high does
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(middle * 2.0**-53) else (middle, high)
    return (2**53 - high) * 2.0**-53


def closed_form(scores: Floats, rate: float, weights: Floats) -> Floats:
    """exp(rate score) times the isotonic regression of weight / exp(rate score), in decimals."""
    m, order = len(scores), np.argsort(-scores, kind="stable")
    x = np.empty(m)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, MIN_EMIN, MAX_EMAX  # e^(-10^12) is no problem
        best = Decimal(float(scores.max()))
        e = [(Decimal(rate) * (Decimal(float(scores[i])) - best)).exp() for i in order]
        w = [Decimal(float(v)) for v in weights]
        for p in range(m):
            # the max-min formula
            means = [
                [sum(w[a:b], Decimal(0)) / sum(e[a:b], Decimal(0)) for b in range(p + 1, m + 1)]
                for a in range(p + 1)
            ]
            x[order[p]] = float(e[p] * max(map(min, means)))
    return x


class Outcomes:
    """Every ranking a draw can give, with its probability: the coins are independent."""

    def __init__(self, m: int, rank: Callable[[Floats], Ints]) -> None:
        plain = rank(np.zeros(m))

        def changes(coin: int, uniform: float) -> bool:
            uniforms = np.zeros(m)
            uniforms[coin] = uniform
            return not np.array_equal(rank(uniforms), plain)

        self.flip_probabilities = np.array([_probability(partial(changes, coin)) for coin in range(m)])
        self.uniforms: list[Floats] = []
        self.rankings: list[Ints] = []
        self.probabilities: list[float] = []
        for flips in product((False, True), repeat=m):
            probability = float(np.prod(np.where(flips, self.flip_probabilities, 1 - self.flip_probabilities)))
            if probability > 0:
                self.uniforms.append(np.where(flips, ALWAYS, 0.0))
                self.rankings.append(rank(self.uniforms[-1]))
                self.probabilities.append(probability)
