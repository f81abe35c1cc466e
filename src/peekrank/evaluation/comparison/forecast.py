"""Forecast from the orders alone: how much shorter than an A/B test a comparison can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from peekrank.evaluation.comparison.designs import Design, fill_design, fill_difference, make_space
from peekrank.evaluation.comparison.settings import Settings
from peekrank.types import Floats, Ints

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


def forecast(settings: Settings, ranks: Iterable[Ints]) -> Forecast:
    """Forecast a comparison from the ranks in b of lists in the order of a."""
    own = coin = plain = 0.0
    lists = differ = 0
    for b in ranks:
        n = len(b)
        weights, theta, difference = settings.weights(n), settings.theta(n), np.empty(n)
        fill_difference(weights, b, difference)
        own += _variance(settings.design, difference, b, theta)
        coin += _variance(settings.design._replace(union=False), difference, b, theta)
        seen = theta > 0
        plain += 4 * float((weights[seen] ** 2 / theta[seen]).sum())
        lists, differ = lists + 1, differ + bool(difference.any())
    if lists == 0:
        raise ValueError("a forecast needs at least one pair of orders")
    return Forecast(own / plain, coin / plain, differ / lists)


def _variance(design: Design, difference: Floats, ranks: Ints, theta: Floats) -> float:
    """Return the variance of the estimate for gains of variance 1, or of clicks of mean 1."""
    n = len(ranks)
    exposure = np.empty(n)
    fill_design(design, difference, ranks, theta, np.ones(n), make_space(n), exposure)
    counts = (difference != 0) & (exposure > 0)
    return float((difference[counts] ** 2 / exposure[counts]).sum())
