"""Confidence sequences: equal to their definitions, supermartingales by enumeration, right as promised."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import naive_confidence as naive
from peekrank.kernels.confidence import (
    Bets,
    Bound,
    Interval,
    bet_bound,
    interval_of_mean,
    log_evidence,
    lower_mean,
    next_bet,
    observe,
    observe_bet,
    observe_between,
)
from peekrank.types import Floats

RNG = np.random.default_rng(11)
CASES = {
    "coins": ((RNG.random(60) < 0.3) * 1.0, np.zeros(60), 1.0),
    "rare and large": ((RNG.random(80) < 0.1) * 10.0, np.zeros(80), 1.0),
    "limits that move": (RNG.normal(size=50).clip(-1, 1) * np.arange(1, 51) / 10, -np.arange(1, 51) / 10, 2.0),
    "all alike": (np.full(30, 0.5), np.zeros(30), 1.0),
    "one": (np.array([2.0]), np.array([0.0]), 5.0),
}


def bounds_of(x: Floats, low: Floats, scale: float, *, growing: bool = False) -> Bound:
    bound = Bound.fresh(scale, growing=growing)
    for value, least in zip(x, low, strict=True):
        observe(bound, value, least)
    return bound


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize(("x", "low", "scale"), CASES.values(), ids=CASES)
def test_the_bound_is_where_the_definition_has_it(x: Floats, low: Floats, scale: float, growing: bool) -> None:
    bound = bounds_of(x, low, scale, growing=growing)
    for alpha in (0.5, 0.05, 1e-6):
        mean = lower_mean(bound, alpha)
        expected = naive.lower(list(x), list(low), scale, alpha, growing=growing)
        assert mean == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert log_evidence(bound, mean) == pytest.approx(log(1 / alpha), rel=1e-9)


@given(st.floats(-1, 50), st.floats(0, 0.99))
def test_the_inequality_of_fan_grama_and_liu(y: float, s: float) -> None:
    assert s * y + (np.log1p(-s) + s) * y * y <= np.log1p(s * y) + 1e-12 if s * y > -1 else y == -1


@pytest.mark.parametrize("growing", [False, True])
def test_the_evidence_is_a_supermartingale_whatever_the_past_does(growing: bool) -> None:
    """All paths of six observations, whose distribution, limit and mean depend on the path so far."""

    def law(path: tuple[float, ...]) -> tuple[list[float], list[float], float]:
        rest = sum(path) % 1.0
        values = [-rest, 0.5, 4.0 + len(path)]
        weights = [0.6 - 0.1 * rest, 0.3, 0.1 + 0.1 * rest]
        return values, weights, -rest

    expected = [0.0] * 6
    for choice in product(range(3), repeat=6):
        path: tuple[float, ...] = ()
        lows: list[float] = []
        means: list[float] = []
        probability = 1.0
        for t, which in enumerate(choice):
            values, weights, low = law(path)
            means.append(float(np.dot(values, weights)))
            lows.append(low)
            path = (*path, values[which])
            probability *= weights[which]
            if all(later == 0 for later in choice[t + 1 :]):  # each beginning counts once
                own = exp(naive.log_evidence(path, lows, means, 1.0, growing=growing))
                expected[t] += probability * own
    assert all(value <= 1 for value in expected)
    assert all(later <= sooner + 1e-12 for sooner, later in zip([1.0, *expected[:-1]], expected, strict=True))


@pytest.mark.parametrize(("x", "low", "scale"), CASES.values(), ids=CASES)
def test_bets_are_those_of_the_definition(x: Floats, low: Floats, scale: float) -> None:
    highest = float(np.max(low)) + scale
    bets = Bets.fresh(-20.0, highest)
    for value, least in zip(x, low, strict=True):
        observe_bet(bets, value, least, 0.05)
    found = bet_bound(bets, 0.05)
    if found == -20.0:
        assert naive.capital(list(x), list(low), -20.0, highest, 0.05) < 20
    else:
        assert naive.capital(list(x), list(low), found, highest, 0.05) == pytest.approx(20, rel=1e-6)


def test_bets_never_lose_more_than_half() -> None:
    def played(x: Floats) -> list[float]:
        bets, made = Bets.fresh(0.0, 3.0), []
        for value in x:
            made.append(next_bet(bets, 0.0, 0.05))
            observe_bet(bets, value, 0.0, 0.05)
        return made

    x = RNG.exponential(size=500)
    before = played(x)
    assert max(before) * 3.0 <= 0.5
    x[200:] = 1e6
    after = played(x)
    assert after[:201] == before[:201]  # from the past only
    assert after[202] < before[202] / 100


def test_nothing_observed_says_nothing() -> None:
    assert interval_of_mean(Interval.fresh(1.0), 0.05) == (-np.inf, np.inf)
    assert bet_bound(Bets.fresh(0.0, 1.0), 0.05) == 0.0


def test_scales_must_be_positive() -> None:
    with pytest.raises(ValueError, match="scale = 0"):
        Bound.fresh(0.0)


def misses(mean: Floats, draw: Floats, alpha: float) -> bool:
    """Whether the interval ever fails to hold the running mean of the means."""
    interval, sums = Interval.fresh(1.0), np.cumsum(mean) / np.arange(1, len(mean) + 1)
    for t, x in enumerate(draw):
        observe_between(interval, x, 0.0, 1.0)
        low, high = interval_of_mean(interval, alpha)
        if not low <= sums[t] <= high:
            return True
    return False


def test_it_is_right_at_all_times_even_if_means_move_with_the_past() -> None:
    """1,000 runs of 200 rounds, looked at after each; at alpha = 0.2 at most 200 may be wrong."""
    wrong = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        draw, mean, level = np.empty(200), np.empty(200), 0.5
        for t in range(200):
            mean[t] = level
            draw[t] = rng.random() < level
            level = 0.9 if draw[t] == 1 and level < 0.6 else 0.2 if draw[t] == 0 else level
        wrong += misses(mean, draw, 0.2)
    assert wrong <= 200


def test_a_wide_interval_is_not_the_price() -> None:
    """After 10,000 coins it is at most two and a half times as wide as the usual one, for one look."""
    x = (np.random.default_rng(5).random(10_000) < 0.3) * 1.0
    interval = Interval.fresh(1.0)
    for value in x:
        observe_between(interval, value, 0.0, 1.0)
    low, high = interval_of_mean(interval, 0.05)
    usual = 2 * 1.96 * x.std() / 100
    assert usual < high - low < 2.5 * usual


def test_huge_numbers_do_no_harm() -> None:
    bound = Bound.fresh(1.0)
    for x in (1e12, 0.0, 1e-12, 5.0):
        observe(bound, x, 0.0)
    assert np.isfinite(lower_mean(bound, 0.05))
    assert exp(min(log_evidence(bound, 1e13), 0.0)) <= 1
