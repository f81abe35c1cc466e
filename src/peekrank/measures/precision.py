"""Measures that count relevant items near the top: precision, recall, hit and average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from peekrank.measures.base import (
    LinearMeasureMixin,
    NoRelevant,
    Relevance,
    check_fields,
    depth,
    no_relevant_value,
    ranks,
)
from peekrank.measures.evaluation import average_precision, first_relevant
from peekrank.measures.names import name_of
from peekrank.types import Floats, Ints


@dataclass(frozen=True)
class Precision(LinearMeasureMixin):
    """Precision: share of the first n items that are relevant, sum_i 1[rank(i) <= n] 1[R(i) > 0] / n.

    CT15 and ZT do not divide by n: their count is ``p@n+sum``. (CT15 section 3 once prints < for <=.)

    Parameters
    ----------
    cutoff
        Number n of positions that count.
    mean
        Whether to divide by n.

    >>> from peekrank import evaluate, measure
    >>> evaluate(Precision(2, mean=False), [0, 1, 2], [1, 1, 1])
    2.0
    >>> evaluate(measure("p@2"), [0, 1, 2], [1, 1, 1])
    1.0
    """

    cutoff: int
    mean: bool = True
    name: ClassVar[str] = "p"
    higher_is_better: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def discount(self, m: int) -> Floats:
        """Return 1 / n for the first n positions (1 for the count), then 0."""
        return (ranks(m) <= self.cutoff) / (self.cutoff if self.mean else 1.0)

    def gain(self, relevance: Relevance) -> Floats:
        """Return 1[R > 0]."""
        return np.sign(relevance.astype(np.float64))


@dataclass(frozen=True)
class Recall(LinearMeasureMixin):
    """Recall: share of the relevant items that are among the first n.

    Items with R > 0 are relevant.

    Parameters
    ----------
    cutoff
        Number n of positions that count.
    no_relevant
        Value of a list without relevant items: ``0`` as in most tools, ``1`` or ``skip``, as for NDCG.

    >>> from peekrank import evaluate
    >>> evaluate(Recall(2), [0, 1, 2, 3], [1, 0, 1, 0])
    0.5
    """

    cutoff: int
    no_relevant: NoRelevant = "0"
    name: ClassVar[str] = "recall"
    higher_is_better: ClassVar[bool] = True
    separable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def discount(self, m: int) -> Floats:
        """Return 1 for the first n positions, then 0."""
        return Precision(self.cutoff, mean=False).discount(m)

    def gain(self, relevance: Relevance) -> Floats:
        """Return 1[R > 0] divided by the number of relevant items; 0 in a list without any."""
        relevant = relevance > 0
        return np.asarray(relevant / np.maximum(relevant.sum(axis=-1, keepdims=True), 1))

    def offset(self, relevance: Relevance) -> Floats:
        """Return the value of a list without relevant items, 0 for other lists."""
        return np.where(relevance.any(axis=-1), 0, no_relevant_value(self.no_relevant))


@dataclass(frozen=True)
class Hit:
    """Whether a relevant item is among the first n (1) or not (0), also called success@n.

    Items with R > 0 are relevant. The measure is not linear in any gain unless n = 1, where it equals p@1.

    Parameters
    ----------
    cutoff
        Number n of positions that count.

    >>> from peekrank import evaluate
    >>> evaluate(Hit(2), [0, 1, 2], [0, 1, 1])
    1.0
    """

    cutoff: int
    name: ClassVar[str] = "hit"
    higher_is_better: ClassVar[bool] = True
    __str__ = name_of

    def __post_init__(self) -> None:
        check_fields(self)

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        out = np.empty(len(rankings))
        first_relevant(rankings, relevance > 0, depth(self.cutoff, rankings), out)
        return np.isfinite(out).astype(np.float64)


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision of one list ("MAP" in CT15): the mean, over relevant items, of precision at their rank.

    Items with R > 0 are relevant. The measure is not linear in any gain.

    Parameters
    ----------
    no_relevant
        As for NDCG.

    >>> from peekrank import evaluate
    >>> round(evaluate(AveragePrecision(), [0, 1, 2], [0, 1, 1]), 4)
    0.5833

    References
    ----------
    CT15 section 3 and appendix 15.
    """

    no_relevant: NoRelevant = "1"
    name: ClassVar[str] = "ap"
    higher_is_better: ClassVar[bool] = True
    __str__ = name_of

    def __post_init__(self) -> None:
        check_fields(self)

    def values(self, rankings: Ints, relevance: Relevance) -> Floats:
        """Return the value of each row."""
        out = np.empty(len(rankings))
        average_precision(rankings, relevance > 0, no_relevant_value(self.no_relevant), out)
        return out
