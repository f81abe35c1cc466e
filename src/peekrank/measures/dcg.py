"""Discounted cumulative gain, plain and normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank.measures.base import (
    Gains,
    LinearMeasureMixin,
    NoRelevant,
    Relevance,
    check_fields,
    no_relevant_value,
)
from peekrank.measures.evaluation import best_sums, powers
from peekrank.types import Floats


@dataclass(frozen=True)
class DCG(LinearMeasureMixin):
    """Discounted cumulative gain down to the cutoff: sum_i (2^R(i) - 1) / log2(1 + rank(i)).

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all.
    gains
        ``exponential`` as in the papers, or ``linear``: R(i) instead of 2^R(i) - 1.

    >>> from peekrank import evaluate
    >>> evaluate(DCG(2), [0, 1, 2], [2, 0, 1])
    3.0

    References
    ----------
    CT15 section 3.
    """

    cutoff: int | None = None
    gains: Gains = "exponential"
    name: ClassVar[str] = "dcg"
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def discount(self, m: int) -> Floats:
        """Return 1 / log2(1 + p), and 0 below the cutoff."""
        weights = np.zeros(m)
        top = weights[: self.cutoff]
        top[:] = np.arange(2, len(top) + 2)
        np.log2(top, out=top)  # in place, to save memory on lists of millions of items
        np.reciprocal(top, out=top)
        return weights

    def gain(self, relevance: Relevance) -> Floats:
        """Return 2^R - 1, or R for linear gains."""
        if self.gains == "linear":
            return relevance.astype(np.float64)
        return powers(relevance) if relevance.dtype == np.uint8 else np.exp2(relevance, dtype=np.float64) - 1


@dataclass(frozen=True)
class NDCG(LinearMeasureMixin):
    """DCG@n divided by the DCG@n of the best ranking of the same list.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all.
    gains
        As for DCG.
    no_relevant
        Value of a list without relevant items: ``1`` as in the papers, ``0`` as in scikit-learn, or ``skip``
        (the value is NaN, and averages leave the list out). It cancels in regret.

    >>> from peekrank import evaluate
    >>> round(evaluate(NDCG(), [0, 1, 2], [0, 1, 0]), 4)
    0.6309

    References
    ----------
    CT15 section 3; with three items, no learner with top-1 feedback has sublinear regret (Theorem 12).
    """

    cutoff: int | None = None
    gains: Gains = "exponential"
    no_relevant: NoRelevant = "1"
    name: ClassVar[str] = "ndcg"
    higher_is_better: ClassVar[bool] = True
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def discount(self, m: int) -> Floats:
        """Return the weights of DCG@n."""
        return DCG(self.cutoff).discount(m)

    def gain(self, relevance: Relevance) -> Floats:
        """Return g(R) / max DCG; 0 in a list without relevant items."""
        gains = DCG(self.cutoff, self.gains).gain(relevance)
        best = best_sums(self.discount(relevance.shape[-1]), gains, relevance)
        return gains / np.where(best > 0, best, 1)[..., None]

    def offset(self, relevance: Relevance) -> Floats:
        """Return the value of a list without relevant items, 0 for other lists."""
        return np.where(relevance.any(axis=-1), 0, no_relevant_value(self.no_relevant))
