"""Queries with nothing relevant: how many there are, what a measure counts them as, and the mean without them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._util.text import counted
from peekrank.data.dataset import Dataset
from peekrank.engine.scoring import values_of_lists
from peekrank.types import Measure


class Blank(NamedTuple):
    """How many queries of all have nothing relevant, and what a measure makes of them.

    It may leave them out, or give each the same ``value``; None: that depends on the query's length.
    """

    number: int
    queries: int
    left_out: bool
    value: float | None

    def mean_without(self, mean: float) -> float | None:
        """The mean over the other queries; None if that is no other number, or cannot be told.

        >>> Blank(1, 4, False, 1.0).mean_without(0.7).__round__(3)
        0.6
        """
        if self.left_out or self.value is None or self.number in (0, self.queries):
            return None
        return (mean * self.queries - self.number * self.value) / (self.queries - self.number)

    def sentence(self, source: str) -> str:
        """What to say of them; empty if there is none.

        >>> Blank(51, 156, False, 1.0).sentence("test.txt")
        '51 of 156 queries of test.txt have nothing relevant, and each counts as 1'
        """
        if not self.number:
            return ""
        has, are = ("has", "is") if self.number == 1 else ("have", "are")
        if self.left_out:
            counts = f"{are} left out"
        else:
            counts = (
                "how it counts depends on its length" if self.value is None else f"each counts as {self.value:g}"
            )
        queries = counted(self.queries, "query", "queries")
        return f"{self.number:,} of {queries} of {source} {has} nothing relevant, and {counts}"


def blank_queries(data: Dataset, measure: Measure) -> Blank:
    """Count the queries without a document of relevance above 0, and see what the measure makes of them.

    >>> from peekrank.data.dataset import About
    >>> from peekrank.measures import measure
    >>> features, grades = np.zeros((3, 1), np.float32), np.array([0, 0, 1], np.uint8)
    >>> data = Dataset(features, grades, np.array([0, 2, 3]), np.array([7, 4]), About("x"))
    >>> blank_queries(data, measure("ndcg@10"))
    Blank(number=1, queries=2, left_out=False, value=1.0)
    >>> blank_queries(data, measure("ndcg@10+skip")).sentence("x")
    '1 of 2 queries of x has nothing relevant, and is left out'
    """
    data = data.graded()
    blank = np.flatnonzero(np.maximum.reduceat(data.relevance, data.offsets[:-1]) == 0)
    queries = len(data.queries)
    if not len(blank):
        return Blank(0, queries, left_out=False, value=None)
    lengths = np.unique(np.diff(data.offsets)[blank])
    offsets = np.append(0, np.cumsum(lengths))
    any_order = np.concatenate([np.arange(n) for n in lengths])
    values = values_of_lists(measure, any_order, np.zeros(offsets[-1], np.uint8), offsets)
    same = bool(np.all(values == values[0]))
    return Blank(
        len(blank), queries, left_out=bool(np.isnan(values).all()), value=float(values[0]) if same else None
    )
