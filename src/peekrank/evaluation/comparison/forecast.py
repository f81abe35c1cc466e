"""Forecast from the orders alone: how much shorter than an A/B test a comparison can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.evaluation.comparison.designs import Design, Space, fill_design, fill_difference, make_space
from peekrank.evaluation.comparison.settings import Settings
from peekrank.types import Floats, Ints

SUMS = 5
PLAIN, LISTS = 2, 3  # indices of sums
_A_THIRD = 1 / 3


class Forecast(NamedTuple):
    """Expected numbers of lists, divided by that of an A/B test about the first k positions.

    The ratio is that of variances, for equal uncertainty about all items and good predictions. Tests of fewer than
    200 lists are longer, because the range of an answer decides, not its variance.
    """

    ratio: float  # of this comparison
    coin: float  # of a coin between the two orders, with the same estimate
    differ: float  # share of the lists in which a and b differ

    def __str__(self) -> str:
        """Return the forecast in words."""
        if self.differ == 0:
            return "The orders never differ where people answer, so no test can tell them apart."
        text = f"Needs about {self.ratio:.2g} of the lists of an A/B test"
        if self.ratio < self.coin:
            text += f" ({self.coin:.2g} with mode = 'coin')"
        if self.ratio > _A_THIRD:
            text += ", which is more than a third"
        return f"{text}. a and b differ in {self.differ:.0%} of the lists."


@kernel
def add_orders(
    design: Design, weights: Floats, theta: Floats, ranks: Ints, space: Space, rows: Floats, sums: Floats
) -> None:
    """Add a pair of orders to the sums of a forecast.

    Parameters
    ----------
    design, weights, theta
        Configuration, and weight and exposure of each position.
    ranks
        Rank in b of each item of a.
    space
        Working memory.
    rows
        Working memory: three rows as long as `ranks`.
    sums
        Variances of the comparison, of the coin and of the A/B test, number of lists, and number of lists in which
        the orders differ. Modified. They are for gains of variance 1, or for clicks of mean 1.
    """
    difference, spread, exposure = rows[0], rows[1], rows[2]
    fill_difference(weights, ranks, difference)
    spread[:] = 1.0
    fill_design(design, difference, ranks, theta, spread, space, exposure)
    differ = 0
    for i in range(len(ranks)):
        both = (theta[i] + theta[ranks[i]]) / 2
        if difference[i] != 0:
            differ = 1
            sums[0] += difference[i] ** 2 / exposure[i] if exposure[i] > 0 else 0.0
            sums[1] += difference[i] ** 2 / both if both > 0 else 0.0
        sums[2] += 4 * weights[i] ** 2 / theta[i] if theta[i] > 0 else 0.0
    sums[3] += 1
    sums[4] += differ


def forecast_from_sums(sums: Floats) -> Forecast:
    """Return the forecast of `add_orders`. Raises ValueError before the first pair of orders."""
    own, coin, plain, lists, differ = sums.tolist()
    if not lists:
        raise ValueError("a forecast needs at least one pair of orders")
    return Forecast(own / plain, coin / plain, differ / lists)


def forecast(settings: Settings, ranks: Iterable[Ints]) -> Forecast:
    """Forecast a comparison from the ranks in b of lists in the order of a."""
    sums = np.zeros(SUMS)
    for b in ranks:
        n = len(b)
        add_orders(
            settings.design, settings.weights(n), settings.theta(n), b, make_space(n), np.empty((3, n)), sums
        )
    return forecast_from_sums(sums)
