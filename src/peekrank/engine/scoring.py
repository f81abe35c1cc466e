"""Values of rankings of lists that may differ in length."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.engine.validation import as_array
from peekrank.measures.evaluation import linear_parts
from peekrank.types import Floats, Ints, LinearMeasure, Measure


def values_of_lists(measure: Measure, rankings: Ints, relevance: NDArray[Any], starts: Ints) -> Floats:
    """Return the value of each list; the lists are stored one after the other, list t from ``starts[t]`` on."""
    lengths = np.diff(starts)
    longest = int(lengths.max())
    if lengths.min() == longest:
        return _values_of_rows(
            measure, rankings[: starts[-1]].reshape(-1, longest), relevance.reshape(-1, longest)
        )
    values = np.empty(len(lengths))
    for m in np.unique(lengths):
        these = np.flatnonzero(lengths == m)
        rows = starts[these, None] + np.arange(m)
        values[these] = _values_of_rows(measure, rankings[rows], relevance[rows])
    return values


def _values_of_rows(measure: Measure, rankings: Ints, relevance: NDArray[Any]) -> Floats:
    n, m = rankings.shape
    if rankings.min() < 0 or rankings.max() >= m:
        raise ValueError(f"a ranking holds something other than the items 0 to {m - 1}")
    return as_array(measure.values(rankings, relevance), np.float64, (n,), f"values of {measure}")


class ListValues(NamedTuple):
    """Gains, offsets and discounts of a linear measure on lists of any lengths, precomputed for many rankings.

    List n has the gains from row ``begin[n]`` on, and the discounts ``first[n]`` to ``last[n]``. The discounts
    that follow are 0.
    """

    gain: Floats
    offset: Floats
    discount: Floats
    begin: Ints
    first: Ints
    last: Ints

    def values(self, lists: Ints, rankings: Ints) -> Floats:
        """Return the value of one ranking of each of these lists; the rankings are stored one after the other."""
        out = self.offset[lists]
        if not _add_discounted_lists(self, lists, rankings, out):
            raise ValueError("a ranking holds something other than the items of its list")
        return out


def precompute_values(measure: LinearMeasure, relevance: NDArray[Any], offsets: Ints) -> ListValues:
    """Compute the gains, offsets and discounts of lists whose relevance is stored one after the other."""
    lengths = np.diff(offsets)
    gain, offset = np.empty(len(relevance)), np.empty(len(lengths))
    first, last = np.empty_like(lengths), np.empty_like(lengths)
    discounts, end = [], 0
    for m in np.unique(lengths):
        these = np.flatnonzero(lengths == m)
        rows = offsets[these, None] + np.arange(m)
        discount, gain[rows], offset[these] = linear_parts(measure, relevance[rows])
        discounts.append(np.trim_zeros(discount, "b"))
        first[these], last[these] = end, (end := end + len(discounts[-1]))
    return ListValues(gain, offset, np.concatenate(discounts), offsets, first, last)


@kernel
def _add_discounted_lists(parts: ListValues, lists: Ints, rankings: Ints, out: Floats) -> bool:
    """Add sum_p discount(p) gain(item at p) of each list. Returns False if a ranking holds a foreign item."""
    start = 0
    for t in range(len(lists)):
        n = lists[t]
        begin, first = parts.begin[n], parts.first[n]
        m = parts.begin[n + 1] - begin
        foreign = False
        for p in range(m):
            foreign |= not 0 <= rankings[start + p] < m
        if foreign:
            return False
        total = 0.0
        for p in range(parts.last[n] - first):
            total += parts.discount[first + p] * parts.gain[begin + rankings[start + p]]
        out[t] += total
        start += m
    return True
