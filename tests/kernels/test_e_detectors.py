"""Bets against their definitions: fair on average, and bounds of a past that hold."""

from __future__ import annotations

import numpy as np
import pytest
from peekrank.kernels.detectors import (
    HIGH,
    LOW,
    RECENT,
    against_less,
    against_more,
    begin,
    bet,
    forget,
    is_known,
    new_account,
    new_past,
    take,
    worth,
)

from helpers.naive_alarms import Account, Past


@pytest.mark.parametrize("mean", [0.01, 0.3, 0.5, 0.99])
def test_bets_are_fair_where_the_mean_is_what_it_is_said_to_be(mean: float) -> None:
    """Enumerated over two outcomes; a mean on the harmless side loses."""
    for gain in (against_more, against_less):
        assert mean * gain(1.0, mean) + (1 - mean) * gain(0.0, mean) == pytest.approx(0, abs=1e-15)
        assert min(gain(0.0, mean), gain(1.0, mean)) == pytest.approx(-1)
    assert (mean / 2) * against_more(1.0, mean) + (1 - mean / 2) * against_more(0.0, mean) < 0


def test_what_cannot_happen_pays_without_end() -> None:
    assert against_more(0.5, 0.0) == np.inf
    assert against_more(0.0, 0.0) == 0.0
    assert against_less(0.5, 1.0) == np.inf
    account = new_account()
    bet(account, 1.0, np.inf)
    assert worth(account) == pytest.approx(1 + 1e9 * (0.9 + 0.3 + 0.1 + 0.03) / 4)


def test_accounts_are_those_of_the_naive_twin() -> None:
    rng, account, twin = np.random.default_rng(0), new_account(), Account()
    for coin, gain in zip(rng.random(200), rng.uniform(-1.5, 2, 200), strict=True):
        bet(account, coin, gain)
        twin.bet(coin, gain)
    assert account.tolist() == pytest.approx(twin.parts, rel=1e-12)
    assert worth(account) == pytest.approx(sum(twin.parts), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_a_past_are_those_of_the_formula(seed: int) -> None:
    rng, past, twin = np.random.default_rng(seed), new_past(), Past()
    twin.level = 0.02
    begin(past, 0.02)
    assert not is_known(past)
    for x in rng.beta(0.5, 0.5 + seed, 60):
        take(past, x)
        twin.take(float(x))
        assert [past[LOW], past[HIGH]] == pytest.approx([twin.low, twin.high], rel=1e-10)
    assert is_known(past)
    forget(past)
    assert past.tolist() == new_past().tolist()


def test_what_is_recent_begins_with_the_mean() -> None:
    past = new_past()
    begin(past, 0.01)
    for x in (0.0, 1.0, 0.5):
        take(past, x)
    assert past[RECENT] == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
def test_bounds_of_a_past_hold_at_all_times_at_once(mean: float) -> None:
    """Looked at after every number: 400 sequences of 2,000, at most 10 % of which may ever leave the mean out."""
    rng, misses = np.random.default_rng(1), 0
    for _ in range(400):
        past = new_past()
        begin(past, 0.1)
        for x in rng.random(2000) < mean:
            take(past, float(x))
        misses += not past[LOW] <= mean <= past[HIGH]
    assert misses <= 40
