"""Best rankings in hindsight against brute force; exponents of known curves."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from peekrank import (
    CT15,
    DCG,
    AveragePrecision,
    Switching,
    Uniform,
    available_items,
    evaluate,
    fixed_items,
    measure,
    simulate,
    stream,
)
from peekrank.regret import best_values, default_checkpoints, fit_exponent, regret
from peekrank.types import Floats, Measure, Rounds


def brute_force(measure: Measure, rounds: Rounds, t: int) -> float:
    """The best sum of single evaluations over the first t rounds, by trying every ranking."""
    relevance = rounds.relevance.reshape(len(rounds.offsets) - 1, -1)[:t]
    sums = [
        np.nansum([evaluate(measure, ranking, row) for row in relevance])
        for ranking in permutations(range(relevance.shape[1]))
    ]
    return float(max(sums) if measure.higher_is_better else min(sums))


@pytest.mark.parametrize(
    "name",
    [
        "sumloss",
        "pairwiseloss",
        "dcg",
        "dcg@2",
        "p@2",
        "ndcg",
        "ndcg@1+skip",
        "ap",
        "ap+norel0",
        "aucloss",
        "aucloss+skip",
    ],
)
@pytest.mark.parametrize("max_grade", [1, 3])
def test_best_value_is_that_of_brute_force(name: str, max_grade: int) -> None:
    rows = np.random.default_rng(3).integers(0, max_grade + 1, size=(12, 4))
    rows[5] = 0
    rounds, checkpoints = fixed_items(rows), np.array([1, 2, 6, 11, 12])
    expected = [brute_force(measure(name), rounds, int(t)) for t in checkpoints]
    np.testing.assert_allclose(best_values(measure(name), rounds, checkpoints), expected, atol=1e-12)


@pytest.mark.parametrize("checkpoints", [range(1, 301), [7, 8, 9, 200, 203, 300], [8, 16, 24], [300]])
def test_best_values_over_several_chunks(checkpoints: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, checkpoints = CT15(m=100).rounds(300, np.random.default_rng(0)), np.array(list(checkpoints))
    monkeypatch.setattr("peekrank.regret._CHUNK", 800)  # 8 rounds each
    sums = np.cumsum(rounds.relevance.reshape(-1, 100), axis=0, dtype=np.float64)
    expected = -np.sort(-sums, axis=1) @ (1 / np.log2(np.arange(2, 102)))
    np.testing.assert_allclose(best_values(DCG(), rounds, checkpoints), expected[checkpoints - 1], rtol=1e-12)


@pytest.mark.parametrize("checkpoints", [[0, 1], [1, 3], [2, 1], []])
def test_checkpoints_outside_the_rounds_are_rejected(checkpoints: list[int]) -> None:
    for name in ("dcg", "ap"):
        with pytest.raises(ValueError, match="checkpoints must hold ascending whole numbers from 1 to 2"):
            best_values(measure(name), fixed_items([[0, 1], [1, 1]]), np.array(checkpoints, dtype=np.int64))


def test_too_many_items_for_a_search() -> None:
    with pytest.raises(ValueError, match="possible for up to 7 items, not for 8"):
        best_values(AveragePrecision(), fixed_items(np.eye(8)), np.array([8]))


@pytest.mark.parametrize("name", ["dcg", "sumloss"])
def test_regret_of_the_first_round_is_not_negative(name: str) -> None:
    rounds = CT15(m=6).rounds(50, np.random.default_rng(1))
    trace = simulate(Uniform(), rounds, k=1, measure=measure(name))
    lost = regret(measure(name), trace, best_values(measure(name), rounds, trace.checkpoints))
    assert lost[0] >= 0
    assert lost[-1] > 0


@pytest.mark.parametrize("horizon", [1, 2, 10, 399, 10_000])
def test_checkpoints_ascend_to_the_horizon(horizon: int) -> None:
    checkpoints = default_checkpoints(horizon)
    assert checkpoints[0] == 1
    assert checkpoints[-1] == horizon
    assert np.all(np.diff(checkpoints) > 0)


def curves(exponent: float, noise: float, runs: int) -> tuple[np.ndarray, Floats]:
    checkpoints = default_checkpoints(50_000)
    factors = 1 + noise * np.random.default_rng(1).standard_normal((runs, 1))
    return checkpoints, factors * 3.0 * checkpoints**exponent


@pytest.mark.parametrize("exponent", [0.5, 2 / 3, 1.0])
def test_exponent_of_a_power_law(exponent: float) -> None:
    fitted = fit_exponent(*curves(exponent, 0.1, 10))
    assert fitted.value == pytest.approx(exponent, abs=1e-9)
    assert fitted.low <= fitted.value <= fitted.high
    assert fitted.high - fitted.low < 1e-9


def test_the_interval_contains_the_value_even_where_the_bootstrap_does_not() -> None:
    checkpoints = np.array([100, 113, 128, 484, 546, 616, 696, 785, 886, 1000])
    regrets = np.ones((7, 10))
    regrets[:, 3:] = np.where(np.eye(7), 1, 1e-9)  # one run missing, as in 99.4 % of samples, lowers the slope
    fitted = fit_exponent(checkpoints, regrets)
    assert fitted.low < fitted.value == fitted.high


def test_the_interval_is_that_of_a_bootstrap_over_runs() -> None:
    checkpoints, rng = np.array([1, 10, 20, 40, 70, 100]), np.random.default_rng(5)
    regrets = np.cumsum(rng.uniform(0.5, 3, size=(6, 6)), axis=1)
    late = checkpoints >= 10
    draws = np.random.default_rng(3).integers(6, size=(1000, 6))
    slopes = [np.polyfit(np.log(checkpoints[late]), np.log(regrets[d][:, late].mean(axis=0)), 1)[0] for d in draws]
    expected = np.polyfit(np.log(checkpoints[late]), np.log(regrets[:, late].mean(axis=0)), 1)[0]
    fitted = fit_exponent(checkpoints, regrets, seed=3)
    np.testing.assert_allclose(fitted, [expected, *np.percentile(slopes, [2.5, 97.5])], rtol=1e-9)


def test_interval_covers_runs_that_differ() -> None:
    checkpoints = default_checkpoints(50_000)
    regrets = np.stack([checkpoints**b for b in (0.5, 0.55, 0.6, 0.65, 0.7)])
    fitted = fit_exponent(checkpoints, regrets)
    assert 0.5 < fitted.low < fitted.value < fitted.high <= 0.7
    assert fitted.high - fitted.low > 0.02


@pytest.mark.parametrize(
    ("regrets", "has_value"), [(np.ones((1, 5)), True), (-np.ones((3, 5)), False), (np.zeros((3, 5)), False)]
)
def test_exponent_where_it_cannot_be_had(regrets: Floats, has_value: bool) -> None:
    fitted = fit_exponent(np.array([1, 10, 20, 50, 100]), regrets)
    assert np.isnan(fitted.value) != has_value
    assert np.isnan(fitted.low)


@pytest.mark.parametrize("name", ["dcg", "sumloss", "p@2", "dcg@1"])
def test_available_items_are_compared_with_the_order_of_mean_gains(name: str) -> None:
    """Each round restricts the order to the available items; it is the best order if all are always available."""
    rng, m = np.random.default_rng(0), 4
    relevance, of = rng.integers(0, 2, (60, m)), measure(name)
    mask = rng.random((60, m)) < 0.6
    mask[np.arange(60), rng.integers(0, m, 60)] = True
    checkpoints = np.array([1, 17, 60])
    means = [relevance[mask[:, i], i].mean() for i in range(m)]
    values = []
    for row, here in zip(relevance, mask, strict=True):
        there = np.flatnonzero(here).tolist()
        ranking = sorted(range(len(there)), key=lambda p: -means[there[p]])
        values.append(evaluate(of, ranking, row[there]))
    found = best_values(of, available_items(relevance, mask), checkpoints)
    np.testing.assert_allclose(found, np.cumsum(values)[checkpoints - 1], rtol=1e-12)
    everyone = available_items(relevance, np.ones((60, m), dtype=bool))
    end = np.array([60])
    np.testing.assert_allclose(
        best_values(of, everyone, end), best_values(of, fixed_items(relevance), end), rtol=1e-12
    )


def test_available_items_need_a_measure_of_items() -> None:
    rounds = available_items([[0, 1, 1]], [[True, True, False]])
    with pytest.raises(ValueError, match="cannot be learned from revealed items one by one"):
        best_values(measure("ndcg"), rounds, np.array([1]))


def _mean_values(measure: Measure, grades: NDArray[np.uint8], chances: Floats) -> Floats:
    """Return the expected value of every ranking, by enumeration of all lists of grades."""
    rankings = np.array(list(permutations(range(grades.shape[1]))))
    return np.array(
        [
            chances @ np.nan_to_num(measure.values(np.tile(ranking, (len(grades), 1)), grades))
            for ranking in rankings
        ]
    )


@pytest.mark.parametrize("name", ["dcg", "sumloss", "p@2", "ap", "rr", "err:max_grade=2", "ndcg", "aucloss"])
def test_pseudo_regret_compares_with_the_order_that_is_best_in_expectation(name: str) -> None:
    """For independent items, against the enumeration of all rankings and all lists of grades."""
    tested = measure(name)
    graded = name in ("dcg", "sumloss", "err:max_grade=2")
    rng = np.random.default_rng(5)
    probabilities = rng.dirichlet([1, 1, 1] if graded else [1, 1], size=4)
    grades = np.array(list(product(range(probabilities.shape[1]), repeat=4)), dtype=np.uint8)
    chances = np.prod([probabilities[i, grades[:, i]] for i in range(4)], axis=0)
    tails = probabilities[:, ::-1].cumsum(axis=1)[:, ::-1].T[1:]
    rounds = fixed_items(grades)._replace(tails=lambda _: tails)
    cumulative = best_values(tested, rounds, np.arange(1, len(grades) + 1), "pseudo")
    expected = chances @ np.diff(cumulative, prepend=0)
    best = max if tested.higher_is_better else min
    assert expected == pytest.approx(best(_mean_values(tested, grades, chances)), abs=1e-12)


def test_dynamic_regret_follows_the_segments() -> None:
    """Without noise the best order of a segment has all relevant items on top, in every round."""
    switching, dcg = Switching(m=6, noise=0, segments=4), DCG()
    rounds = switching.rounds(400, np.random.default_rng(3))
    best = best_values(dcg, rounds, np.array([1, 400]), "dynamic")
    assert best == pytest.approx(np.array([1, 400]) * dcg.discount(6)[:3].sum())
    fixed = [best_values(dcg, rounds, np.array([400]), kind)[0] for kind in ("static", "pseudo")]
    assert fixed[1] <= fixed[0] < best[1]


def test_expected_orders_of_streams_that_know_their_distribution() -> None:
    """The frequencies of grades agree with the tails, and without tails the error says what to choose."""
    for text in ("ct15:noise=0.5", "bernoulli:grade=3", "binomial", "joint:lists=120+001,probabilities=0.75+0.25",
                 "drifting:m=3", "available:m=6,n=3", "switching:m=5,segments=3"):  # fmt: skip
        rounds = stream(text).rounds(6000, np.random.default_rng(1))
        assert rounds.tails is not None
        n = len(rounds.offsets) - 1
        t, items = np.repeat(np.arange(n), np.diff(rounds.offsets)), rounds.items
        columns = np.arange(len(t)) % stream(text).m if items is None else items
        for grade, tail in enumerate(rounds.tails(np.arange(n)), 1):
            expected = np.broadcast_to(tail, (n, tail.shape[-1]))[t, columns]
            excess = np.bincount(columns, weights=(rounds.relevance >= grade) - expected)
            assert np.abs(excess).max() < 5 * np.sqrt(n)
        assert best_values(measure("dcg"), rounds, np.array([n]), "dynamic")[0] > 0
    with pytest.raises(ValueError, match="choose regret = 'static' or 'none'"):
        best_values(measure("dcg"), fixed_items([[0, 1]]), np.array([1]), "pseudo")
    with pytest.raises(ValueError, match="found by trying all rankings"):
        best_values(measure("ap"), fixed_items(np.eye(8)), np.array([1]))
    assert best_values(measure("ap"), fixed_items(np.eye(8)), np.array([1, 8]), "none").tolist() == [0, 0]
