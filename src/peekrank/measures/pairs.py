"""Losses that count ranks or pairs in the wrong order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank.measures.base import (
    LinearMeasureMixin,
    NoRelevant,
    Relevance,
    check_fields,
    no_relevant_value,
    ranks,
)
from peekrank.measures.evaluation import discordant_pairs
from peekrank.types import Floats, Ints


@dataclass(frozen=True)
class SumLoss(LinearMeasureMixin):
    """Sum of the ranks of the relevant items, a loss: sum_i rank(i) R(i).

    >>> from peekrank import evaluate
    >>> evaluate(SumLoss(), [1, 0, 2], [0, 1, 1])
    4.0

    References
    ----------
    CT15 section 3 and Table 1.
    """

    name: ClassVar[str] = "sumloss"
    higher_is_better: ClassVar[bool] = False

    def discount(self, m: int) -> Floats:
        """Return 1, 2, ..., m."""
        return ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """Return R."""
        return relevance.astype(np.float64)


@dataclass(frozen=True)
class PairwiseLoss(LinearMeasureMixin):
    """Number of pairs in the wrong order, a loss: #{(i, j): i above j, R(i) < R(j)}.

    For binary R with s ones it equals SumLoss - s(s + 1)/2, so both have the same regret (CT15 equation 2). With
    more grades they differ, and the measure is not linear (an erratum of CT15, which states no restriction).

    >>> from peekrank import evaluate
    >>> evaluate(PairwiseLoss(), [0, 1, 2], [0, 1, 2])
    3.0

    References
    ----------
    CT15 section 3.
    """

    name: ClassVar[str] = "pairwiseloss"
    higher_is_better: ClassVar[bool] = False

    def linear(self, max_grade: int) -> bool:
        """Return whether relevance is binary, for which the measure is linear."""
        return max_grade <= 1

    def discount(self, m: int) -> Floats:
        """Return 1, 2, ..., m."""
        return ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """Return R."""
        return relevance.astype(np.float64)

    def offset(self, relevance: Relevance) -> Floats:
        """Return -s(s + 1)/2 for s relevant items."""
        s: Floats = relevance.sum(axis=-1, dtype=np.float64)
        return -s * (s + 1) / 2

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        return discordant_pairs(rankings, relevance)


@dataclass(frozen=True)
class AUCLoss(LinearMeasureMixin):
    """Share of comparable pairs in the wrong order, a **loss**: 1 minus the area under the ROC curve.

    PairwiseLoss / #{(i, j): R(i) < R(j)}; for binary R the number of pairs is (#relevant)(#irrelevant).

    Parameters
    ----------
    no_relevant
        Value of a list whose items are all equally relevant: ``0`` as in the papers, ``1`` or ``skip``.

    >>> from peekrank import evaluate
    >>> evaluate(AUCLoss(), [0, 1, 2], [0, 1, 1])
    1.0

    References
    ----------
    CT15 section 3 and appendix 15.
    """

    no_relevant: NoRelevant = "0"
    name: ClassVar[str] = "aucloss"
    higher_is_better: ClassVar[bool] = False
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def linear(self, max_grade: int) -> bool:
        """Return whether relevance is binary, for which the measure is linear."""
        return max_grade <= 1

    def discount(self, m: int) -> Floats:
        """Return 1, 2, ..., m."""
        return ranks(m)

    def gain(self, relevance: Relevance) -> Floats:
        """Return R / (s(m - s)) for s relevant items; 0 in a list without comparable pairs."""
        s = relevance.sum(axis=-1, dtype=np.float64)
        pairs = s * (relevance.shape[-1] - s)
        return relevance * np.where(pairs > 0, 1 / np.maximum(pairs, 1), 0)[..., None]

    def offset(self, relevance: Relevance) -> Floats:
        """Return -(s + 1) / (2(m - s)), or `no_relevant` for a list without comparable pairs."""
        s = relevance.sum(axis=-1, dtype=np.float64)
        others = relevance.shape[-1] - s
        return np.where(
            (s > 0) & (others > 0), -(s + 1) / (2 * np.maximum(others, 1)), no_relevant_value(self.no_relevant)
        )

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        ascending = np.argsort(relevance, axis=-1, kind="stable").astype(np.int64)
        pairs = discordant_pairs(ascending, relevance)  # the worst ranking has every pair in the wrong order
        wrong = discordant_pairs(rankings, relevance)
        return np.where(pairs > 0, wrong / np.maximum(pairs, 1), no_relevant_value(self.no_relevant))
