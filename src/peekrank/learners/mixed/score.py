"""The two columns of a score: its rank in the list, and its quantile among recent scores, as normal quantiles."""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.quantiles import keep_number, normal_quantile, recent_quantile
from peekrank.kernels.sorting import sort_descending
from peekrank.learners.mixed.state import MixedState
from peekrank.types import Floats, Ints

RING = 512  # recent scores kept
_ENOUGH = 64  # recent scores from which on they are used


@kernel
def set_scores(s: MixedState, scores: Floats, listed: Ints) -> None:
    """Set the score of each row of the next list (no scores: none), and the rows in the order of the app's list.

    NaN stands for a missing score, and counts as the middle. Ties keep the order of the app's list.
    """
    n, given = len(listed), 0
    s.scored[0] = len(scores) > 0
    for p in range(n):
        row = listed[p]
        s.app[p], s.columns[row, 0], s.columns[row, 1] = row, 0.0, 0.0
        if s.scored[0] == 1:
            s.kept[row] = scores[row]
            if not np.isnan(scores[row]):
                s.keys[given], s.indices[given] = scores[row], row
                given += 1
    if given == 0:
        return
    sort_descending(s.keys[:given], s.order[:given], s.sorting)
    begin = 0
    while begin < given:
        score = s.keys[s.order[begin]]
        end = begin + 1
        while end < given and s.keys[s.order[end]] == score:
            end += 1
        rank = normal_quantile((given - (begin + end) / 2) / given)
        quantile = rank
        if s.recent.total[0] >= _ENOUGH:
            quantile = normal_quantile(recent_quantile(s.recent, score))
        for p in range(begin, end):
            row = s.indices[s.order[p]]
            s.columns[row, 0], s.columns[row, 1] = rank, quantile
        begin = end
    for p in range(n):
        s.keys[p] = s.columns[listed[p], 0]
    sort_descending(s.keys[:n], s.order[:n], s.sorting)
    for p in range(n):
        s.app[p] = listed[s.order[p]]


@kernel
def keep_score(s: MixedState, n: int, uniform: float) -> None:
    """Keep one random score of the list."""
    if s.scored[0] == 1:
        score = s.kept[min(n - 1, int(uniform * n))]
        if not np.isnan(score):
            keep_number(s.recent, score)
