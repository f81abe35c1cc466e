"""What rankings of lists of any lengths are worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.engine.validation import as_array
from peekrank.measures.evaluation import linear_parts
from peekrank.types import Floats, Ints, LinearMeasure, Measure


def values_of_lists(measure: Measure, rankings: Ints, relevance: NDArray[Any], starts: Ints) -> Floats:
    """Value of each of the lists that stand one after the other, those of the same length together."""
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
        raise ValueError(f"a ranking holds something else than the items 0 to {m - 1}")
    return as_array(measure.values(rankings, relevance), np.float64, (n,), f"values of {measure}")


class ListValues(NamedTuple):
    """What a linear measure says about lists of any lengths, found once for however many rankings of them.

    List n has the gains of rows ``begin[n]`` on, and the discounts ``first[n]`` to ``last[n]``, of which all that
    follow are 0.
    """

    gain: Floats
    offset: Floats
    discount: Floats
    begin: Ints
    first: Ints
    last: Ints

    def values(self, lists: Ints, rankings: Ints) -> Floats:
        """Value of a ranking of each of these lists; the rankings stand one after the other."""
        out = self.offset[lists]
        if not _add_discounted_lists(self, lists, rankings, out):
            raise ValueError("a ranking holds something else than the items of its list")
        return out


def precompute_values(measure: LinearMeasure, relevance: NDArray[Any], offsets: Ints) -> ListValues:
    """Gains, offsets and discounts of lists, whose relevance stands one after the other."""
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
def _add_discounted_lists(worth: ListValues, lists: Ints, rankings: Ints, out: Floats) -> bool:
    """Add sum_p discount(p) gain(item at p) of each list; False if some ranking holds no item of its list."""
    start = 0
    for t in range(len(lists)):
        n = lists[t]
        begin, first = worth.begin[n], worth.first[n]
        m = worth.begin[n + 1] - begin
        foreign = False
        for p in range(m):
            foreign |= not 0 <= rankings[start + p] < m
        if foreign:
            return False
        total = 0.0
        for p in range(worth.last[n] - first):
            total += worth.discount[first + p] * worth.gain[begin + rankings[start + p]]
        out[t] += total
        start += m
    return True
