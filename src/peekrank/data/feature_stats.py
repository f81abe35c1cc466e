"""Statistics of each feature, which detect bad scales and heavy tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.text import pluralize
from peekrank.types import Features, Floats, Ints

_MAX_ROWS = 20_000  # sample size for medians, evenly spread over all rows
_MAX_VALUES = 1 << 22  # values to copy at a time
_FAR = 30.0  # spreads from the median; a million draws of an exponential distribution stay below
_OTHER_SCALE = 10.0  # ratio of the size to that of the median feature, or of the mean to the deviation
_MAX_NAMED = 5  # features


class FeatureStats(NamedTuple):
    """Statistics of each feature, one number per feature.

    ``centre`` is the median. ``spread`` is the median distance from it among the values that differ from it, or 0
    if all are equal. Both use at most 20,000 documents. ``reach`` is the largest distance from the centre in
    spreads. ``size`` is the root mean square of the values that are not 0, and ``offset`` the absolute mean in
    standard deviations.
    """

    centre: Floats
    spread: Floats
    reach: Floats
    size: Floats
    offset: Floats

    def badly_scaled(self) -> Ints:
        """Return the features whose size differs tenfold from the median feature's, or whose offset exceeds 10."""
        used = self.size > 0
        if not used.any():
            return np.empty(0, np.int64)
        ratio = self.size / np.median(self.size[used])
        is_bad = (ratio > _OTHER_SCALE) | (ratio < 1 / _OTHER_SCALE) | (self.offset > _OTHER_SCALE)
        return np.flatnonzero(used & is_bad)

    def heavy_tailed(self) -> Ints:
        """Return the features with a value more than 30 spreads from the median."""
        return np.flatnonzero(self.reach > _FAR)


def feature_stats(features: Features) -> FeatureStats:
    """Compute statistics of each feature.

    >>> stats = feature_stats(np.float32([[1, 0], [2, 0], [3, 0], [4, 0], [500, 2]]))
    >>> stats.centre, stats.spread, stats.reach
    (array([3., 0.]), array([1.5, 2. ]), array([331.33333333,   1.        ]))
    >>> stats.heavy_tailed(), stats.badly_scaled()
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
    return FeatureStats(centre, spread, reach, size, offset)


def centres_and_spreads(features: Features) -> tuple[Floats, Floats]:
    """Compute the median of each feature, and the median distance from it of the values that differ from it."""
    sample = features[:: -(-len(features) // _MAX_ROWS)]
    n, d = sample.shape
    centre, spread = np.empty(d), np.empty(d)
    width = max(1, _MAX_VALUES // n)
    for first in range(0, d, width):
        columns = slice(first, first + width)
        values = np.ascontiguousarray(sample[:, columns].T, np.float64)
        centre[columns] = np.median(values, axis=1)
        distances = np.sort(np.abs(values - centre[columns, None]), axis=1)
        equal = np.count_nonzero(distances == 0, axis=1)  # do not count for the spread
        middle = [np.minimum(equal + (n - equal - 1 + part) // 2, n - 1) for part in (0, 1)]
        spread[columns] = sum(np.take_along_axis(distances, at[:, None], axis=1)[:, 0] for at in middle) / 2
    return centre, spread


def counted_features(columns: Ints, feature: Callable[[int], str], d: int, verb: str) -> str:
    """Describe some of d features in a sentence, and name the first five.

    >>> counted_features(np.array([0, 4]), "abcdef".__getitem__, 6, "have heavy tails")
    '2 of 6 features have heavy tails (a, e)'
    """
    names = ", ".join(feature(int(column)) for column in columns[:_MAX_NAMED])
    rest = f" and {len(columns) - _MAX_NAMED:,} more" if len(columns) > _MAX_NAMED else ""
    return f"{len(columns):,} of {pluralize(d, 'feature')} {verb} ({names}{rest})"


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
