"""Comparisons of learners against SciPy's test and Holm's procedure written down word by word."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from peekrank.experiments.comparison import LEVEL, Group, compare, holm
from peekrank.types import Floats


def holm_by_hand(p: list[float]) -> list[bool]:
    """Which hypotheses Holm's procedure rejects, in his words: test the smallest at level/n, the next at ..."""
    rejected = [False] * len(p)
    for i, which in enumerate(sorted(range(len(p)), key=lambda j: p[j])):
        if p[which] > LEVEL / (len(p) - i):
            break
        rejected[which] = True
    return rejected


@pytest.mark.parametrize("seed", range(20))
def test_holm_rejects_what_the_procedure_rejects(seed: int) -> None:
    p = np.random.default_rng(seed).random(12) ** 4
    assert (holm(p) <= LEVEL).tolist() == holm_by_hand(p.tolist())


def test_holm_of_nothing_and_of_what_could_not_be_tested() -> None:
    assert holm(np.array([])).tolist() == []
    found = holm(np.array([0.01, np.nan, 0.04]))
    assert found[[0, 2]].tolist() == [0.02, 0.04]
    assert np.isnan(found[1])


def test_each_row_is_the_paired_test_of_scipy() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=9)
    outcomes = {name: shared + rng.normal(shift, 0.5, 9) for name, shift in (("a", 0), ("b", 1), ("c", 0.1))}
    for row in compare([({"k": 2}, outcomes)]).iter_rows(named=True):
        expected = stats.ttest_rel(outcomes[row["learner"]], outcomes[row["other"]])
        interval = expected.confidence_interval(1 - LEVEL)
        assert row["k"] == 2
        assert row["runs"] == 9
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-12)
        assert [row["low"], row["high"]] == pytest.approx([interval.low, interval.high], rel=1e-12)


def test_the_test_for_folds_is_as_computed_by_hand() -> None:
    """Differences 1, 2, 3, 6: mean 3, variance 14/3. With test/train = 1/3, t = 3 / sqrt(14/3 (1/4 + 1/3))."""
    other = np.array([5.0, 1.0, 4.0, 2.0])
    groups: list[Group] = [({}, {"a": other + np.array([1, 2, 3, 6]), "b": other})]
    row = compare(groups, overlap=1 / 3).row(0, named=True)
    error = math.sqrt(14 / 3 * (1 / 4 + 1 / 3))
    x = 3 / error / math.sqrt(3)  # Student's distribution with three degrees of freedom is elementary
    assert row["p"] == pytest.approx(1 - 2 / math.pi * (x / (1 + x * x) + math.atan(x)), rel=1e-10)
    assert [row["low"], row["high"]] == pytest.approx([3 - 3.182446 * error, 3 + 3.182446 * error], rel=1e-6)


@pytest.mark.parametrize("overlap", [-0.1, math.nan, math.inf])
def test_an_overlap_is_a_number_from_0_on(overlap: float) -> None:
    with pytest.raises(ValueError, match=f"overlap = {overlap}: must be a number, at least 0"):
        compare([({}, {"a": np.ones(3), "b": np.ones(3)})], overlap=overlap)


def test_false_alarms_over_folds_that_share_data() -> None:
    """Differences with the correlation that the test assumes: it is right for them, and the plain one is not."""
    rng, folds, overlap, trials = np.random.default_rng(7), 5, 1 / 3, 2000
    shared, own = rng.normal(size=(trials, 1)), rng.normal(size=(trials, folds))
    correlation = overlap / (1 + overlap)
    differences = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    groups: list[Group] = [({}, {"a": d, "b": np.zeros(folds)}) for d in differences]
    corrected, plain = ((compare(groups, overlap=x)["p"] <= LEVEL).sum() for x in (overlap, 0))
    low, high = (float(stats.binom.ppf(q, trials, LEVEL)) for q in (0.001, 0.999))
    assert low <= corrected <= high
    assert plain > 2 * high


def test_a_missing_outcome_leaves_its_comparisons_open_and_no_others() -> None:
    runs = np.array([1.0, 2.0, 4.0])
    table = compare([({}, {"a": runs, "b": np.array([1.0, np.nan, 2.0]), "c": runs + np.array([5, 5, 6])})])
    assert table["verdict"].to_list() == ["no outcome: cannot tell", "a is better", "no outcome: cannot tell"]
    assert table["adjusted"][1] == table["p"][1]


def test_the_correction_is_over_all_groups() -> None:
    rng = np.random.default_rng(4)
    groups: list[Group] = [({"cell": c}, {"a": rng.normal(size=6), "b": rng.normal(c, 1, 6)}) for c in range(5)]
    table = compare(groups)
    assert table["cell"].to_list() == [0, 1, 2, 3, 4]
    called = (table["adjusted"] <= LEVEL).to_list()
    assert called == holm_by_hand(table["p"].to_list())
    assert {*called} == {True, False}
    assert table["adjusted"][0] != compare(groups[:1])["adjusted"][0]


@pytest.mark.parametrize(("lower", "better"), [(True, "a"), (False, "b")])
def test_verdicts_name_the_better_one(lower: bool, better: str) -> None:
    noise = np.random.default_rng(5).normal(size=10)
    groups: list[Group] = [({}, {"a": noise, "b": noise + 5 + noise**2}), ({}, {"a": noise, "b": noise[::-1]})]
    table = compare(groups, lower_is_better=lower)
    assert table["verdict"].to_list() == [f"{better} is better", "no difference shown"]


def test_degenerate_runs() -> None:
    same = np.array([1.0, 2.0, 3.0, 4.0])
    table = compare([({}, {"a": same, "b": same, "c": same + 1})])
    assert table["p"][0] == 1
    assert table["p"][1:].is_nan().all()
    unspread = "the same in all runs: cannot tell"
    assert table["verdict"].to_list() == ["no difference shown", unspread, unspread]
    rounding = compare([({}, {"a": same, "b": same * (1 + np.array([2e-16, 4e-16, 3e-16, 2e-16]))})])
    assert rounding["p"].to_list() == [1]
    single = compare([({}, {"a": same[:1], "b": same[1:2]})])
    assert single["verdict"].to_list() == ["one run: cannot tell"]
    assert single["difference"].to_list() == [-1]
    assert len(compare([({}, {"a": same})])) == 0


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Without any difference, about one family of comparisons in twenty has a wrong verdict, never many more."""
    rng, families = np.random.default_rng(6), 600

    def family() -> pl.DataFrame:
        outcomes: dict[str, Floats] = dict(zip("abc", rng.normal(size=(3, 10)) + rng.normal(size=10), strict=True))
        pairs = {"d": rng.normal(size=10), "e": rng.normal(size=10)}
        return compare([({}, outcomes), ({}, pairs)])

    alarms = sum(bool((family()["adjusted"] <= LEVEL).any()) for _ in range(families))
    low, high = (float(stats.binom.ppf(q, families, LEVEL)) for q in (0.001, 0.999))
    assert low * 0.6 <= alarms <= high  # pairs of the same learners depend on each other: Holm is on the safe side
