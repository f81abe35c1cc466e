"""Queries without relevant documents: their number, their value, and the mean without them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._util.text import pluralize
from peekrank.data.dataset import Dataset
from peekrank.engine.scoring import values_of_lists
from peekrank.types import Measure


class NoRelevant(NamedTuple):
    """The number of queries without relevant documents, and their value under a measure.

    The measure skips them (``left_out``) or gives each the same ``value``. ``value`` is None if it depends on the
    length of the query.
    """

    number: int
    queries: int
    left_out: bool
    value: float | None

    def mean_without(self, mean: float) -> float | None:
        """Return the mean over the other queries, or None if it is the same or unknown.

        >>> NoRelevant(1, 4, False, 1.0).mean_without(0.7).__round__(3)
        0.6
        """
        if self.left_out or self.value is None or self.number in (0, self.queries):
            return None
        return (mean * self.queries - self.number * self.value) / (self.queries - self.number)

    def sentence(self, source: str) -> str:
        """Describe them in a sentence, which is empty if there are none.

        >>> NoRelevant(51, 156, False, 1.0).sentence("test.txt")
        '51 of 156 queries of test.txt have no relevant documents, and each counts as 1'
        """
        if not self.number:
            return ""
        has, are = ("has", "is") if self.number == 1 else ("have", "are")
        if self.left_out:
            counts = f"{are} left out"
        else:
            counts = (
                "their value depends on their length" if self.value is None else f"each counts as {self.value:g}"
            )
        queries = pluralize(self.queries, "query", "queries")
        return f"{self.number:,} of {queries} of {source} {has} no relevant documents, and {counts}"


def queries_without_relevant(data: Dataset, measure: Measure) -> NoRelevant:
    """Count the queries without relevant documents, and determine their value under the measure.

    >>> from peekrank.data.dataset import Provenance
    >>> from peekrank.measures import measure
    >>> features, grades = np.zeros((3, 1), np.float32), np.array([0, 0, 1], np.uint8)
    >>> data = Dataset(features, grades, np.array([0, 2, 3]), np.array([7, 4]), Provenance("x"))
    >>> queries_without_relevant(data, measure("ndcg@10"))
    NoRelevant(number=1, queries=2, left_out=False, value=1.0)
    >>> queries_without_relevant(data, measure("ndcg@10+skip")).sentence("x")
    '1 of 2 queries of x has no relevant documents, and is left out'
    """
    data = data.graded()
    no_relevant = np.flatnonzero(np.maximum.reduceat(data.relevance, data.offsets[:-1]) == 0)
    queries = len(data.queries)
    if not len(no_relevant):
        return NoRelevant(0, queries, left_out=False, value=None)
    lengths = np.unique(np.diff(data.offsets)[no_relevant])
    offsets = np.append(0, np.cumsum(lengths))
    any_order = np.concatenate([np.arange(n) for n in lengths])
    values = values_of_lists(measure, any_order, np.zeros(offsets[-1], np.uint8), offsets)
    same = bool(np.all(values == values[0]))
    return NoRelevant(
        len(no_relevant), queries, left_out=bool(np.isnan(values).all()), value=float(values[0]) if same else None
    )
