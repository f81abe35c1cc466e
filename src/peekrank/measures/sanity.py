"""Test whether a measure prefers relevant items on top, as learners and advice assume."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from peekrank.types import Ints, LinearMeasure, Measure

_SIZES = (2, 3)  # lengths of the lists whose rankings are all tried


def prefers_relevant_first(measure: Measure, m: int, max_grade: int) -> bool:
    """Return whether descending relevance is the best order: by form if the measure is linear, else by trial.

    >>> from peekrank.measures import DCG, SumLoss
    >>> prefers_relevant_first(DCG(), 10, 1), prefers_relevant_first(SumLoss(), 10, 1)
    (True, True)
    """
    if isinstance(measure, LinearMeasure) and measure.linear(max_grade):
        sign = 1 if measure.higher_is_better else -1
        gains = measure.gain(np.arange(max_grade + 1.0)) if measure.separable else np.zeros(1)
        return bool(np.all(np.diff(sign * measure.discount(m)) <= 0) and np.all(np.diff(gains) >= 0))
    lists = (
        np.array(list(product(range(min(max_grade, 2) + 1), repeat=n))) for n in _SIZES if n <= max(m, _SIZES[0])
    )
    return not any(sorting_is_suboptimal(measure, relevance) for relevance in lists)


def sorting_is_suboptimal(measure: Measure, relevance: Ints) -> bool:
    """Return whether some ranking of some list (a row) is better than the descending order of relevance."""
    n, m = relevance.shape
    sign = 1 if measure.higher_is_better else -1
    best = sign * measure.values(np.argsort(-relevance, axis=1, kind="stable").astype(np.int64), relevance)
    for ranking in permutations(range(m)):
        rankings = np.tile(np.array(ranking, dtype=np.int64), (n, 1))
        if np.any(sign * measure.values(rankings, relevance) > best + 1e-12):
            return True
    return False
