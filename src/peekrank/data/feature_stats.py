"""What the values of each feature are like: which have a scale of their own, and which have heavy tails."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.text import counted
from peekrank.types import Features, Floats, Ints

_MOST_ROWS = 20_000  # that medians are taken of, evenly spread over all
_MOST_AT_ONCE = 1 << 22  # values in memory once more
_FAR = 30.0  # spreads from the median: an exponential distribution does not reach so far in a million draws
_OTHER_SCALE = 10.0  # a size so many times that of the usual feature, or a mean of so many deviations

_MOST_NAMED = 5  # features


class Columns(NamedTuple):
    """What each feature is like, one number per feature.

    ``centre`` is the median and ``spread`` the median distance from it of the values that differ from it (0: all
    are equal), both of 20,000 documents at most; ``reach`` is the distance of the farthest value, in spreads.
    ``size`` is the root mean square of the values that are not 0, ``offset`` the mean in standard deviations.
    """

    centre: Floats
    spread: Floats
    reach: Floats
    size: Floats
    offset: Floats

    def of_another_scale(self) -> Ints:
        """The features whose size is a tenth or ten times that of the median feature, or that lie far from 0."""
        used = self.size > 0
        if not used.any():
            return np.empty(0, np.int64)
        ratio = self.size / np.median(self.size[used])
        wild = (ratio > _OTHER_SCALE) | (ratio < 1 / _OTHER_SCALE) | (self.offset > _OTHER_SCALE)
        return np.flatnonzero(used & wild)

    def heavy_tailed(self) -> Ints:
        """The features with a value more than 30 spreads from the median."""
        return np.flatnonzero(self.reach > _FAR)


def look_at_columns(features: Features) -> Columns:
    """Look at the values of each feature.

    >>> columns = look_at_columns(np.float32([[1, 0], [2, 0], [3, 0], [4, 0], [500, 2]]))
    >>> columns.centre, columns.spread, columns.reach
    (array([3., 0.]), array([1.5, 2. ]), array([331.33333333,   1.        ]))
    >>> columns.heavy_tailed(), columns.of_another_scale()
    (array([0]), array([1]))
    """
    centre, spread = centres_and_spreads(features)
    d = features.shape[1]
    farthest, mean, squares, present = (np.zeros(d) for _ in range(4))
    _sum_up(features, centre, farthest, mean, squares, present)
    n = len(features)
    variance = np.maximum(squares / n - (mean / n) ** 2, 0)
    offset = np.divide(np.abs(mean / n), np.sqrt(variance), out=np.zeros(d), where=variance > 0)
    reach = np.divide(farthest, spread, out=np.zeros(d), where=spread > 0)
    size = np.sqrt(np.divide(squares, present, out=np.zeros(d), where=present > 0))
    return Columns(centre, spread, reach, size, offset)


def centres_and_spreads(features: Features) -> tuple[Floats, Floats]:
    """The median of each feature, and the median distance from it of the values that differ from it."""
    sample = features[:: -(-len(features) // _MOST_ROWS)]
    n, d = sample.shape
    centre, spread = np.empty(d), np.empty(d)
    width = max(1, _MOST_AT_ONCE // n)
    for first in range(0, d, width):
        here = slice(first, first + width)
        values = np.ascontiguousarray(sample[:, here].T, np.float64)
        centre[here] = np.median(values, axis=1)
        distances = np.sort(np.abs(values - centre[here, None]), axis=1)
        equal = np.count_nonzero(distances == 0, axis=1)
        middle = [
            np.minimum(equal + (n - equal - 1 + part) // 2, n - 1) for part in (0, 1)
        ]  # of those that differ
        spread[here] = sum(np.take_along_axis(distances, at[:, None], axis=1)[:, 0] for at in middle) / 2
    return centre, spread


def counted_features(which: Ints, base: int, d: int, what: str) -> str:
    """A sentence about some of d features, with the ids of the first five.

    >>> counted_features(np.array([0, 4]), 1, 6, "have heavy tails")
    '2 of 6 features have heavy tails (1, 5)'
    """
    shown = ", ".join(str(base + int(column)) for column in which[:_MOST_NAMED])
    rest = f" and {len(which) - _MOST_NAMED:,} more" if len(which) > _MOST_NAMED else ""
    return f"{len(which):,} of {counted(d, 'feature')} {what} ({shown}{rest})"


@kernel
def _sum_up(
    features: Features, centre: Floats, farthest: Floats, total: Floats, squares: Floats, present: Floats
) -> None:
    for row in range(len(features)):
        for column in range(len(centre)):
            value = np.float64(features[row, column])
            farthest[column] = max(farthest[column], abs(value - centre[column]))
            total[column] += value
            squares[column] += value * value
            present[column] += value != 0
