"""Rounds of fixed items, generated streams, and the registry."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.stats import binom, chisquare, norm

from peekrank.registry import STREAMS
from peekrank.spec import format_spec
from peekrank.streams import (
    CT15,
    Adversary,
    Available,
    Bernoulli,
    Binomial,
    Clicks,
    Drifting,
    Joint,
    Orders,
    Ratings,
    Switching,
    fixed,
    fixed_items,
    stream,
)
from peekrank.streams.clicks import DependentClick
from peekrank.streams.feedback_rules import parse_rules
from peekrank.types import Grades, Rounds, Stream

GENERATORS: list[Stream] = [
    CT15(m=7, noise=0.5),
    Bernoulli((0.2, 0.9, 0.5)),
    Joint(("013", "100", "020"), (0.5, 0.25, 0.25)),
    Binomial(m=6, max_grade=3),
    Switching(m=6, segments=3),
    Drifting(m=5, periods=2.5),
]
SPECIFICATIONS = [
    *GENERATORS,
    CT15(),
    CT15(noise=0),
    Bernoulli(),
    Bernoulli((0.2, 0.9), grade=4),
    Orders(Path("votes.toc"), rule="quantile4"),
    Ratings(Path("data/ratings.csv"), rule="above-2.5", complete=True),
    Adversary(Path("proof.json"), side="q"),
    Available(m=20, n=5, rule="churn", grade=2),
    Clicks(CT15(4, 0.5), DependentClick((0.5, 0.25)), parse_rules("click = 1; curve 1 0.5")),
]
Z = 4.5  # a false alarm once in 150,000 comparisons, and the seeds are fixed


def table(source: Stream, n: int, seed: int = 0) -> Grades:
    return source.rounds(n, np.random.default_rng(seed)).relevance.reshape(n, -1)


def assert_mean(sample: NDArray[Any], mean: float) -> None:
    """z-test of the mean of coins; exact when they are certain."""
    error = abs(sample.mean() - mean)
    assert error <= Z * np.sqrt(mean * (1 - mean) / sample.size)


def overhead(make: Callable[[], Rounds]) -> int:
    """Bytes at the peak besides those of the result."""
    tracemalloc.start()
    try:
        rounds = make()
        return tracemalloc.get_traced_memory()[1] - sum(part.nbytes for part in rounds[:3])
    finally:
        tracemalloc.stop()


# --- fixed items


def test_fixed_items_by_hand() -> None:
    rounds = fixed_items([[0, 1, 4], [255, 0, 2]])
    assert rounds.relevance.tolist() == [0, 1, 4, 255, 0, 2]
    assert rounds.offsets.tolist() == [0, 3, 6]
    assert rounds.features.shape == (6, 0)
    assert [str(part.dtype) for part in rounds[:3]] == ["float32", "uint8", "int64"]


@given(
    hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.integers(0, 255)),
    st.sampled_from(["u1", "i2", "i8", "u8", "f4", "f8"]),
    st.booleans(),
)
def test_fixed_items_keeps_every_grade(grades: NDArray[np.int64], dtype: str, fortran: bool) -> None:
    given_as = np.asarray(grades, dtype=dtype, order="F" if fortran else "C")
    rounds = fixed_items(given_as)
    n, m = grades.shape
    assert rounds.relevance.flags.c_contiguous
    for t in range(n):
        assert rounds.relevance[rounds.offsets[t] : rounds.offsets[t + 1]].tolist() == grades[t].tolist()
    assert len(rounds.offsets) == n + 1
    assert rounds.features.shape == (n * m, 0)


@given(
    st.integers(0, 2999), st.integers(0, 99), st.sampled_from([-1, 256, 0.5, np.nan, np.inf, -np.inf, 1e300, -0.1])
)
def test_fixed_items_says_where_a_grade_is_wrong(row: int, column: int, value: float) -> None:
    grades = np.ones((3000, 100), np.float64)  # three chunks
    grades[row, column] = value
    with pytest.raises(
        ValueError, match=f"row {row}, column {column} is .*: grades are whole numbers from 0 to 255"
    ):
        fixed_items(grades)


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        ([1, 0], r"shape \(2,\): it must be 2-dimensional, \(rounds, items\)"),
        (3, r"shape \(\): it must be 2-dimensional"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\): it must be 2-dimensional"),
        (np.zeros((0, 3)), r"shape \(0, 3\): it needs at least one round and one item"),
        (np.zeros((3, 0)), r"shape \(3, 0\): it needs at least one round and one item"),
        ([["a", "b"]], "type <U1: grades are whole numbers from 0 to 255"),
        ([[1j]], "type complex128: grades are whole numbers"),
        (np.array([[-1]]), "row 0, column 0 is -1: grades"),
        (np.array([[0, 2**63]], np.uint64), f"row 0, column 1 is {2**63}: grades"),
    ],
)
def test_fixed_items_rejects(relevance: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fixed_items(relevance)


def test_fixed_items_takes_bytes_over_without_a_copy() -> None:
    grades = np.ones((3, 4), np.uint8)
    assert np.shares_memory(fixed_items(grades).relevance, grades)
    assert not np.shares_memory(fixed_items(grades[:, ::2]).relevance, grades)
    assert fixed_items(grades > 0).relevance.tolist() == [1] * 12


def test_fixed_items_needs_little_memory_besides_its_result() -> None:
    grades = np.ones((50_000, 100))
    assert overhead(lambda: fixed_items(grades)) < 2**20


# --- what all generators share


@pytest.mark.parametrize("source", GENERATORS, ids=format_spec)
def test_rounds_are_well_formed_and_repeatable(source: Stream) -> None:
    rounds = source.rounds(501, np.random.default_rng(3))
    assert rounds.offsets.tolist() == list(range(0, 501 * source.m + 1, source.m))
    assert rounds.features.shape == (501 * source.m, source.d) == (501 * source.m, 0)
    assert set(rounds.relevance) == set(range(source.max_grade + 1))
    assert np.array_equal(table(source, 501, 3), table(source, 501, 3))
    assert not np.array_equal(table(source, 501, 3), table(source, 501, 4))


@pytest.mark.parametrize("source", GENERATORS, ids=format_spec)
def test_chunks_leave_no_trace(source: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(source, 101)
    monkeypatch.setattr(fixed, "_CELLS", 2 * source.m)
    assert np.array_equal(table(source, 101), whole)


@pytest.mark.parametrize("text", ["ct15:m=100", "binomial:m=100", "switching:m=100", "drifting:m=100"])
def test_memory_is_that_of_the_result(text: str) -> None:
    # The same bound for 10^6 rounds of 100 items: 100 MB of grades, 8 MB of offsets, and one chunk of floats.
    assert overhead(lambda: stream(text).rounds(100_000, np.random.default_rng(0))) < 2**22


@pytest.mark.parametrize("source", GENERATORS, ids=format_spec)
@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_the_number_of_rounds_is_checked(source: Stream, n: int) -> None:
    with pytest.raises(ValueError, match=f"n = {n}: must be a whole number, at least 1"):
        source.rounds(n, np.random.default_rng(0))


@pytest.mark.parametrize("source", GENERATORS, ids=format_spec)
def test_a_single_round(source: Stream) -> None:
    assert table(source, 1).shape == (1, source.m)


# --- one by one


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.25, 0.5, 3.0])
@pytest.mark.parametrize("m", [2, 7, 10])
def test_ct15_flips_as_the_normal_distribution_says(m: int, noise: float) -> None:
    grades = table(CT15(m, noise), 40_000, seed=1)
    relevant = grades.mean(axis=0) > 0.5
    assert relevant.sum() == m // 2
    flip = norm.sf(0.5, scale=noise) if noise else 0.0
    for item in range(m):
        assert_mean(grades[:, item] != relevant[item], flip)


def test_ct15_draws_are_independent() -> None:
    flips = table(CT15(m=4, noise=0.5), 100_000)
    correlation = np.corrcoef(np.hstack([flips[:-1], flips[1:]]), rowvar=False)  # items now, items next round
    assert np.abs(correlation - np.eye(8)).max() < Z / np.sqrt(100_000)


def test_ct15_hides_which_items_are_relevant() -> None:
    halves = np.array([table(CT15(m=6, noise=0), 1, seed)[0] for seed in range(2000)])
    assert (halves.sum(axis=1) == 3).all()
    _, counts = np.unique(halves, axis=0, return_counts=True)
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 1e-4


def test_means_are_the_means() -> None:
    means = (0.0, 0.03, 0.5, 0.97, 1.0)
    grades = table(Bernoulli(means), 50_000)
    for item, mean in enumerate(means):
        assert_mean(grades[:, item], mean)


def test_means_may_have_another_grade() -> None:
    source = Bernoulli((0.25, 0.5), grade=3)
    grades = table(source, 50_000)
    assert source.max_grade == 3
    assert np.unique(grades).tolist() == [0, 3]
    assert_mean(grades[:, 0] == 3, 0.25)
    assert_mean(grades[:, 1] == 3, 0.5)


def test_lists_come_as_often_as_their_probabilities_say() -> None:
    source = Joint(("0120", "3001", "0000"), (0.5, 0.375, 0.125))
    rows = table(source, 40_000)
    assert (source.m, source.max_grade) == (4, 3)
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    found = {"".join(map(str, kind)): int(count) for kind, count in zip(kinds, counts, strict=True)}
    assert set(found) == set(source.lists)
    assert (
        chisquare([found[digits] for digits in source.lists], np.array(source.probabilities) * 40_000).pvalue
        > 1e-4
    )


@pytest.mark.parametrize("max_grade", [1, 3, 255])
def test_graded_is_binomial_with_even_levels(max_grade: int) -> None:
    n = 20_000
    grades = table(Binomial(m=5, max_grade=max_grade), n, seed=2)
    order = np.argsort(grades.mean(axis=0))
    assert order.tolist() != sorted(order)
    for item, level in zip(order, [0.1, 0.3, 0.5, 0.7, 0.9], strict=True):
        expected = binom.pmf(np.arange(max_grade + 1), max_grade, level) * n
        seen = np.bincount(grades[:, item], minlength=max_grade + 1)
        cell = np.where(expected > 5, np.arange(max_grade + 1), expected.argmax())  # pool the rare grades
        pooled = np.bincount(cell, expected)
        used = pooled > 0
        assert chisquare(np.bincount(cell, seen)[used], pooled[used]).pvalue > 1e-4


def test_switching_changes_at_the_borders_only() -> None:
    grades = table(Switching(m=8, noise=0, segments=4), 12, seed=5).reshape(4, 3, 8)
    assert (grades == grades[:, :1]).all()
    assert (grades.sum(axis=2) == 4).all()
    assert len(np.unique(grades[:, 0], axis=0)) == 4


def test_switching_with_segments_that_do_not_divide_the_rounds() -> None:
    grades = table(Switching(m=50, noise=0, segments=2), 7)  # floor(2 t / 7) = 0 0 0 0 1 1 1
    assert (grades[1:] != grades[:-1]).any(axis=1).tolist() == [False, False, False, True, False, False]


def test_switching_flips_like_ct15_and_needs_no_round_for_each_segment() -> None:
    grades = table(Switching(m=4, noise=0.5, segments=2), 80_000)
    for half in grades.reshape(2, 40_000, 4):
        relevant = half.mean(axis=0) > 0.5
        assert relevant.sum() == 2
        assert_mean(half != relevant, float(norm.cdf(-1)))
    assert table(Switching(segments=5), 3).shape == (3, 10)


def test_drifting_follows_its_sinusoids() -> None:
    n, windows = 100_000, 50
    grades = table(Drifting(m=4, periods=2), n, seed=9)
    phase = np.random.default_rng(9).random(4)
    means = 0.5 + 0.4 * np.sin(2 * np.pi * (2 * np.arange(n)[:, None] / n + phase))
    excess = (grades - means).reshape(windows, -1, 4).sum(axis=1)
    deviation = np.sqrt((means * (1 - means)).reshape(windows, -1, 4).sum(axis=1))
    assert np.abs(excess / deviation).max() < Z
    for item in range(4):  # two full periods: as often relevant as not
        assert_mean(grades[:, item], 0.5)


# --- specifications


@pytest.mark.parametrize("source", SPECIFICATIONS, ids=format_spec)
def test_specification_round_trip(source: Stream) -> None:
    assert stream(format_spec(source)) == source
    assert hash(stream(format_spec(source))) == hash(source)


def test_specifications_of_every_name_are_covered() -> None:
    assert {source.name for source in SPECIFICATIONS} == set(STREAMS.built_in)


def test_specification_by_hand() -> None:
    assert stream("ct15:m=4,noise=0.5") == CT15(4, 0.5)
    assert stream("bernoulli:means=0.9+0.5") == Bernoulli((0.9, 0.5))
    assert stream("some/votes.SOI") == Orders(Path("some/votes.SOI"))
    assert stream("ratings.csv") == Ratings(Path("ratings.csv"))
    assert stream("orders:path=votes.soc,rule=top5") == Orders(Path("votes.soc"), rule="top5")
    assert format_spec(Bernoulli(tuple(np.array([0.25, 0.5])))) == "bernoulli:means=0.25+0.5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ct16", "unknown stream 'ct16': did you mean 'ct15'"),
        ("votes.txt", "unknown stream 'votes.txt'"),
        ("orders", "needs path"),
        ("ct15:m=1", "m = 1: must be a whole number, at least 2"),
        ("ct15:noise=-0.1", "noise = -0.1: must be a finite standard deviation, at least 0"),
        ("bernoulli:means=0.5", r"means = \(0.5,\): must be two probabilities or more"),
        ("bernoulli:means=0.5+1.5", r"means\[1\] = 1.5: must be a probability, from 0 to 1"),
        ("bernoulli:grade=0", "grade = 0: must be a whole number, from 1 to 255"),
        ("joint:lists=01+1,probabilities=0.5+0.5", r"lists\[1\] = '1': must be a digit for each item"),
        ("joint:lists=0+1,probabilities=0.5+0.5", r"lists\[0\] = '0': must be a digit for each item, two or more"),
        ("joint:lists=01+1x,probabilities=0.5+0.5", r"lists\[1\] = '1x': must be a digit"),
        ("joint:lists=01+10+11", "2 probabilities for 3 lists: must be one for each"),
        ("joint:probabilities=0.5+0.6", r"probabilities = \(0.5, 0.6\): must be probabilities that add up to 1"),
        ("joint:probabilities=1.5+-0.5", r"probabilities = \(1.5, -0.5\): must be probabilities"),
        ("binomial:m=1", "m = 1: must be"),
        ("binomial:max_grade=0", "max_grade = 0: must be a whole number, from 1 to 255"),
        ("binomial:max_grade=256", "max_grade = 256: must be a whole number, from 1 to 255"),
        ("switching:m=1", "m = 1: must be"),
        ("switching:noise=-1", "noise = -1.0: must be"),
        ("switching:segments=0", "segments = 0: must be a whole number, at least 1"),
        ("drifting:m=0", "m = 0: must be"),
        ("drifting:periods=0", "periods = 0.0: must be a positive number"),
    ],
)
def test_bad_parameters_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream(text)


def test_numbers_that_are_none_are_rejected() -> None:
    with pytest.raises(ValueError, match="noise = nan"):
        CT15(noise=float("nan"))
    with pytest.raises(ValueError, match="periods = inf"):
        Drifting(periods=float("inf"))
    with pytest.raises(ValueError, match=r"means\[0\] = nan"):
        Bernoulli((float("nan"), 0.5))
