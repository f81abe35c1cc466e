"""Sorting, shuffling and moving items, against plain twins and by enumeration."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import permutations, product
from math import factorial, lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers import naive
from peekrank.kernels.sorting import (
    _COUNT_UP_TO,
    SortSpace,
    _sort_by_buckets,
    _sort_by_counting,
    merge_descending,
    move_to_front,
    resort_descending,
    shuffle,
    sort_descending,
    sort_space,
)
from peekrank.types import Floats, Ints

Rng = np.random.Generator


def _one_ahead(distance: float) -> Callable[[int, Rng], Floats]:
    def make(m: int, rng: Rng) -> Floats:
        scores = rng.random(m)
        scores[rng.integers(m)] += distance
        return scores

    return make


def _denormal(m: int, rng: Rng) -> Floats:
    return np.asarray(rng.integers(0, 50, m) * 5e-324)


def _clustered(m: int, rng: Rng) -> Floats:
    """Three far-away crowds, each with a small spread."""
    return np.asarray(rng.choice([0.0, 1e3, 1e9], m) + rng.random(m))


def _sorted(m: int, rng: Rng) -> Floats:
    return np.sort(rng.random(m))


def _mixed_signs(m: int, rng: Rng) -> Floats:
    return np.asarray(rng.choice([-1.0, -0.0, 0.0, 1.0], m))


KINDS: dict[str, Callable[[int, Rng], Floats]] = {
    "random": lambda m, rng: rng.random(m),
    "normal": lambda m, rng: rng.standard_normal(m),
    "heavy-tailed": lambda m, rng: np.exp(20 * rng.standard_normal(m)),
    "all equal": lambda m, rng: np.full(m, 0.3),
    "all zero": lambda m, rng: np.zeros(m),
    "two values": lambda m, rng: rng.integers(2, size=m).astype(np.float64),
    "few values": lambda m, rng: rng.choice(np.linspace(0, 0.5, 6), m),
    "signs": _mixed_signs,
    "one ahead": _one_ahead(1e3),
    "one far ahead": _one_ahead(1e300),
    "one far behind": _one_ahead(-1e300),
    "denormals": _denormal,
    "tiny": lambda m, rng: rng.random(m) * 1e-307,
    "huge": lambda m, rng: rng.random(m) * 1.7e308,
    "huge offset": lambda m, rng: 1e15 + rng.random(m),
    "clustered": _clustered,
    "ascending": _sorted,
    "descending": lambda m, rng: _sorted(m, rng)[::-1].copy(),
    "saw": lambda m, rng: np.arange(float(m)) % 7,
}
SIZES = range(1, 301)
every_kind = pytest.mark.parametrize("kind", KINDS)


def cases(kind: str) -> list[Floats]:
    rng = np.random.default_rng(len(kind))
    return [KINDS[kind](m, rng) for m in SIZES]


def sort(way: Callable[[Floats, Ints, SortSpace], object], scores: Floats) -> tuple[list[int], object]:
    """A ranking made in memory that is full of leftovers, and what the sort returned."""
    ranking = np.full(len(scores), -7, dtype=np.int64)
    space = sort_space(len(scores))
    for memory in space:
        memory[:] = 3
    before = scores.copy()
    returned = way(scores, ranking, space)
    assert np.array_equal(scores, before)
    return ranking.tolist(), returned


def by_counting(scores: Floats, ranking: Ints, space: SortSpace) -> None:
    _sort_by_counting(scores, ranking, space.bucket_of)


def by_merging(scores: Floats, ranking: Ints, space: SortSpace) -> None:
    merge_descending(scores, ranking, space.bucket_of)


@every_kind
@pytest.mark.parametrize("way", [sort_descending, by_counting, by_merging])
def test_sorting_is_stable_and_right(kind: str, way: Callable[[Floats, Ints, SortSpace], object]) -> None:
    for scores in cases(kind):
        assert sort(way, scores)[0] == naive.stable_descending(scores)


@every_kind
def test_buckets_sort_right_or_say_that_they_gave_up(kind: str) -> None:
    for scores in cases(kind):
        ranking, done = sort(_sort_by_buckets, scores)
        assert not done or ranking == naive.stable_descending(scores)


def test_every_way_of_sorting_is_taken() -> None:
    """Spread scores go through the buckets, crowded ones fall back to merging, short lists are counted."""
    spread = KINDS["random"](300, np.random.default_rng(0))
    crowded = _one_ahead(1e300)(300, np.random.default_rng(0))
    assert SIZES.start <= _COUNT_UP_TO < SIZES.stop - 1
    assert sort(_sort_by_buckets, spread)[1]
    assert not sort(_sort_by_buckets, crowded)[1]
    assert sort(sort_descending, crowded)[0] == naive.stable_descending(crowded)


@pytest.mark.parametrize("kind", ["all equal", "denormals", "one far ahead", "one far behind"])
def test_crowds_make_the_buckets_give_up(kind: str) -> None:
    assert not sort(_sort_by_buckets, cases(kind)[-1])[1]


@pytest.mark.parametrize("kind", ["random", "normal", "two values", "ascending", "descending", "huge"])
def test_harmless_scores_stay_in_the_buckets(kind: str) -> None:
    assert sort(_sort_by_buckets, cases(kind)[-1])[1]


@given(hnp.arrays(np.float64, st.integers(1, 80), elements=st.floats(-1e300, 1e300)))
def test_sorting_anything(scores: Floats) -> None:
    assert sort(sort_descending, scores)[0] == naive.stable_descending(scores)


EXTREMES = """
import numpy as np
from peekrank.kernels.sorting import sort_descending, sort_space
for high, low in [(1.7e308, -1.7e308), (np.inf, 0.0), (0.0, -np.inf), (np.inf, -np.inf)]:
    for m in (8, 40, 300):
        scores = np.arange(float(m))
        scores[3], scores[5] = high, low
        ranking = np.empty(m, np.int64)
        sort_descending(scores, ranking, sort_space(m))
        assert np.array_equal(ranking, np.argsort(-scores, kind="stable")), (high, low, m)
"""


def test_spans_beyond_the_largest_number() -> None:
    """In a process of its own: a bucket computed from inf * 0 lies outside of the array."""
    done = subprocess.run([sys.executable, "-c", EXTREMES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- shuffle


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
def test_shuffle_reaches_every_ranking_by_one_cell_of_uniforms(m: int) -> None:
    """Uniform i has m - i cells of equal width; over all combinations each ranking comes exactly once."""
    grids = [[(j + 0.5) / (m - i) for j in range(m - i)] for i in range(m - 1)]
    ranking = np.empty(m, dtype=np.int64)
    counts: Counter[tuple[int, ...]] = Counter()
    for uniforms in product(*grids):
        shuffle(np.array(uniforms), ranking)
        counts[tuple(ranking.tolist())] += 1
    assert counts == dict.fromkeys(permutations(range(m)), 1)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_shuffle_is_uniform_on_one_grid_for_all(m: int) -> None:
    fine = lcm(*range(1, m + 1))
    grid = [(j + 0.5) / fine for j in range(fine)]
    ranking = np.empty(m, dtype=np.int64)
    counts: Counter[tuple[int, ...]] = Counter()
    for uniforms in product(grid, repeat=m - 1):
        shuffle(np.array(uniforms), ranking)
        counts[tuple(ranking.tolist())] += 1
    assert counts == dict.fromkeys(permutations(range(m)), fine ** (m - 1) // factorial(m))


@pytest.mark.parametrize("m", [1, 2, 3, 5, 7, 100, 1000])
@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1, 0)])
def test_shuffle_at_the_ends_of_the_interval(m: int, uniform: float) -> None:
    ranking = np.full(m, -1, dtype=np.int64)
    shuffle(np.full(m - 1, uniform), ranking)
    assert sorted(ranking) == list(range(m))
    assert ranking[0] == (0 if uniform == 0 else m - 1)


# --- move_to_front


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_move_to_front(m: int) -> None:
    for order in permutations(range(m)):
        for first in range(m):
            for last in range(first, m + 2):  # the last cell may reach beyond the last item
                ranking = np.array(order)
                move_to_front(ranking, first, last, np.full(m, -1))
                assert ranking.tolist() == naive.on_top(range(first, last), order)


@pytest.mark.parametrize("m", [1, 2, 7, 40, 300])
def test_mending_an_order_is_sorting_or_gives_up(m: int) -> None:
    rng = np.random.default_rng(m)
    scores, space = rng.integers(0, m, m).astype(np.float64), sort_space(m)
    ranking, expected = np.arange(m), np.empty(m, dtype=np.int64)
    mended = 0
    for change in (0.0, 0.0, 1.0, 1.0, 1.0, 1e6, 0.0):
        scores += np.rint(change * rng.normal(size=m))
        sort_descending(scores, expected, space)
        if resort_descending(scores, ranking):
            mended += 1
            assert np.array_equal(ranking, expected)
        else:
            assert m > 7
            assert np.array_equal(np.sort(ranking), np.arange(m))
            ranking[:] = expected
    assert mended >= 5
