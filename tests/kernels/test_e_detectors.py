"""Bets against their definitions: fair on average, and bounds of a past that hold."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.naive_alarms import Account, Past
from peekrank.kernels.e_detectors import (
    HIGH,
    LOW,
    RECENT,
    begin,
    bet,
    bet_above,
    bet_below,
    is_known,
    new_e_process,
    new_reference,
    observe,
    reset,
    wealth,
)


@pytest.mark.parametrize("mean", [0.01, 0.3, 0.5, 0.99])
def test_bets_are_fair_where_the_mean_is_what_it_is_said_to_be(mean: float) -> None:
    """Enumerated over two outcomes; a mean on the harmless side loses."""
    for gain in (bet_above, bet_below):
        assert mean * gain(1.0, mean) + (1 - mean) * gain(0.0, mean) == pytest.approx(0, abs=1e-15)
        assert min(gain(0.0, mean), gain(1.0, mean)) == pytest.approx(-1)
    assert (mean / 2) * bet_above(1.0, mean) + (1 - mean / 2) * bet_above(0.0, mean) < 0


def test_what_cannot_happen_pays_without_end() -> None:
    assert bet_above(0.5, 0.0) == np.inf
    assert bet_above(0.0, 0.0) == 0.0
    assert bet_below(0.5, 1.0) == np.inf
    e_process = new_e_process()
    bet(e_process, 1.0, np.inf)
    assert wealth(e_process) == pytest.approx(1 + 1e9 * (0.9 + 0.3 + 0.1 + 0.03) / 4)


def test_accounts_are_those_of_the_naive_twin() -> None:
    rng, e_process, twin = np.random.default_rng(0), new_e_process(), Account()
    for deposit, gain in zip(rng.random(200), rng.uniform(-1.5, 2, 200), strict=True):
        bet(e_process, deposit, gain)
        twin.bet(deposit, gain)
    assert e_process.tolist() == pytest.approx(twin.parts, rel=1e-12)
    assert wealth(e_process) == pytest.approx(sum(twin.parts), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_a_past_are_those_of_the_formula(seed: int) -> None:
    rng, reference, twin = np.random.default_rng(seed), new_reference(), Past()
    twin.level = 0.02
    begin(reference, 0.02)
    assert not is_known(reference)
    for x in rng.beta(0.5, 0.5 + seed, 60):
        observe(reference, x)
        twin.observe(float(x))
        assert [reference[LOW], reference[HIGH]] == pytest.approx([twin.low, twin.high], rel=1e-10)
    assert is_known(reference)
    reset(reference)
    assert reference.tolist() == new_reference().tolist()


def test_what_is_recent_begins_with_the_mean() -> None:
    reference = new_reference()
    begin(reference, 0.01)
    for x in (0.0, 1.0, 0.5):
        observe(reference, x)
    assert reference[RECENT] == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
def test_bounds_of_a_past_hold_at_all_times_at_once(mean: float) -> None:
    """Looked at after every number: 400 sequences of 2,000, at most 10 % of which may ever leave the mean out."""
    rng, misses = np.random.default_rng(1), 0
    for _ in range(400):
        reference = new_reference()
        begin(reference, 0.1)
        for x in rng.random(2000) < mean:
            observe(reference, float(x))
        misses += not reference[LOW] <= mean <= reference[HIGH]
    assert misses <= 40
