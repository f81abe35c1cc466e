"""Checks that every measure must pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np

from peekrank.checks.common import require, run_all
from peekrank.measures import measure as measure_named
from peekrank.measures.sanity import sorting_is_suboptimal
from peekrank.types import Floats, Ints, LinearMeasure, Measure

_LISTS = [np.array(list(product(range(top + 1), repeat=m))) for m, top in ((1, 1), (2, 2), (4, 1), (3, 2))]


def check_measure(measure: Measure) -> None:
    """Run every check of a measure."""
    run_all(MEASURE_CHECKS, measure)


def _all_rankings(m: int) -> Ints:
    return np.array(list(permutations(range(m))), dtype=np.int64)


def _matrix(measure: Measure, relevance: Any) -> Floats:
    """Return the value of all rankings (rows) on all lists (columns)."""
    rankings = _all_rankings(relevance.shape[1])
    columns = [measure.values(rankings, np.tile(row, (len(rankings), 1))) for row in relevance]
    return np.stack(columns, axis=1)


def name_round_trips(measure: Measure) -> None:
    """Check that parsing a measure's name gives an equal measure."""
    require(measure_named(str(measure)) == measure, f"'{measure}' is parsed as {measure_named(str(measure))}")


def labels_do_not_matter(measure: Measure) -> None:
    """Check that relabelling the items changes no value."""
    for relevance in _LISTS:
        m = relevance.shape[1]
        rankings = np.tile(np.arange(m), (len(relevance), 1))
        for names in _all_rankings(m):
            plain = measure.values(rankings, relevance)
            renamed = measure.values(names[rankings], relevance[:, np.argsort(names)])
            require(np.allclose(plain, renamed, equal_nan=True), f"renaming items by {names} changes values")


def sorting_by_relevance_is_best(measure: Measure) -> None:
    """Check that no ranking is better than the descending order of relevance."""
    for relevance in _LISTS:
        require(not sorting_is_suboptimal(measure, relevance), "a ranking is better than the order of relevance")


def linear_form_holds(measure: Measure) -> None:
    """Check that offset + discount . gain gives the same values, for grades that the measure declares linear."""
    if not isinstance(measure, LinearMeasure):
        return
    for relevance in _LISTS:
        if measure.linear(int(relevance.max())):
            m = relevance.shape[1]
            gains_in_order = measure.gain(relevance)[:, _all_rankings(m)].swapaxes(0, 1)
            form = measure.offset(relevance) + gains_in_order @ measure.discount(m)
            require(
                np.allclose(form, _matrix(measure, relevance), equal_nan=True),
                "values differ from the linear form",
            )


MEASURE_CHECKS: dict[str, Callable[[Measure], None]] = {
    check.__name__: check
    for check in (name_round_trips, labels_do_not_matter, sorting_by_relevance_is_best, linear_form_holds)
}
