"""What a round can come to, with exact probabilities: the uniforms are cut where the outcome changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import pairwise, product

import numpy as np

from peekrank.types import Floats

_CONTEXTS = 24  # settings of the other uniforms in which a uniform is tried
_FINE = 1e-14


def cuts(outcome: Callable[[Floats], Hashable], draws: int, grid: int, seed: int = 0) -> list[Floats]:
    """Where the outcome, which is piecewise constant, changes with each uniform, whatever the others are."""
    rng = np.random.default_rng(seed)
    edges = 2.0 ** -np.arange(1, 40)  # small propensities are at the ends
    points = np.unique(np.r_[(np.arange(grid) + 0.5) / grid, edges, 1 - edges])
    found: list[set[float]] = [set() for _ in range(draws)]
    for _ in range(_CONTEXTS):
        others = rng.random(draws)
        for c in range(draws):

            def at(u: float, c: int = c, others: Floats = others) -> Hashable:
                uniforms = others.copy()
                uniforms[c] = u
                return outcome(uniforms)

            values = [at(u) for u in points]
            for (low, before), (high, after) in pairwise(zip(points, values, strict=True)):
                found[c].update(_changes(at, low, high, before, after))
    return [np.array([0.0, *sorted(cut), 1.0]) for cut in found]


def _changes(
    at: Callable[[float], Hashable], low: float, high: float, before: Hashable, after: Hashable
) -> Iterator[float]:
    """All positions between two points at which the outcome changes, but for what comes and goes between equals.

    An outcome that is told in such detail that none comes back, such as the number of an action, hides nothing.
    """
    if before == after:
        return
    if high - low <= _FINE:
        yield round(float(high), 13)
        return
    middle = (low + high) / 2
    there = at(middle)
    yield from _changes(at, low, middle, before, there)
    yield from _changes(at, middle, high, there, after)


def outcomes(outcome: Callable[[Floats], Hashable], draws: int, grid: int) -> dict[Hashable, float]:
    """The probability of each outcome: the sum of the volumes of the cells in which it comes about."""
    edges = cuts(outcome, draws, grid)
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    widths = [np.diff(e) for e in edges]
    total: dict[Hashable, float] = {}
    for cell in product(*(range(len(w)) for w in widths)):
        u = np.array([m[i] for m, i in zip(middles, cell, strict=True)])
        volume = float(np.prod([w[i] for w, i in zip(widths, cell, strict=True)]))
        found = outcome(u)
        total[found] = total.get(found, 0.0) + volume
    return total
