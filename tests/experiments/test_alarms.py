"""The script behind the tables of alarms: faults are what they are called, and the record has the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment

script: Any = load_experiment("alarms")


@pytest.fixture(scope="module")
def made() -> Any:
    return script.played("greedy:epsilon=0.1", 300, 1)


def test_decisions_are_those_of_the_learner(made: Any) -> None:
    assert made.propensities.sum(axis=1) == pytest.approx(np.full(300, script.K))
    assert np.sort(made.positions, axis=1).tolist() == np.tile(np.arange(script.M), (300, 1)).tolist()
    assert np.isnan(made.answers[made.positions >= script.K]).all()


@pytest.mark.parametrize("fault", script.FAULTS)
def test_after_a_fault_lists_are_still_lists_and_only_what_is_seen_is_answered_for(made: Any, fault: str) -> None:
    bad = script.FAULTS[fault][0](made, np.random.default_rng(0))
    assert np.sort(bad.positions, axis=1).tolist() == np.tile(np.arange(script.M), (300, 1)).tolist()
    assert np.isnan(bad.answers[bad.positions >= script.K]).all()
    changed = not np.array_equal(bad.positions, made.positions)
    lost = not np.array_equal(bad.answers, made.answers, equal_nan=True)
    assert changed or lost


def test_healthy_logs_are_what_they_are_called() -> None:
    t = np.arange(7000)
    assert script.by_position(t).tolist() == [1.0, 0.6, 0.35]
    day = script.cycle(1000, 0.8)(t)
    assert day.min() / day.max() == pytest.approx(0.8, rel=1e-4)
    assert day[:1000] == pytest.approx(day[1000:2000])
    made = script.played("uniform", 4000, 1, script.by_position)
    rates = [np.mean(~np.isnan(made.answers[made.positions == p])) for p in range(3)]
    assert rates == pytest.approx([0.3, 0.18, 0.105], abs=0.03)
    turned = script._turned(made)
    assert (turned.positions[:2000] == made.positions[:2000]).all()
    assert ((turned.positions < 3) == (made.positions < 3)).all()
    assert (turned.positions[2000:][made.positions[2000:] == 0] == 2).all()


def test_delays_are_reported_in_words() -> None:
    assert script._told([5, 7, 9]) == "7 (9)"
    assert script._told([5, 7, script.BAD + 1]) == "7 (not in 5,000)"
    assert script._told([script.BAD + 1]) == "not in 5,000"


def test_the_record_has_all_tables() -> None:
    false, healthy, delays, *_ = records.read(records.FOLDER / "monitoring.json").tables
    assert [row[0] for row in false.rows] == [f"`{name}`" for name in script.LEARNERS]
    assert [row[0] for row in delays.rows] == list(script.FAULTS)
    assert [row[0] for row in healthy.rows[: len(script.HEALTHY)]] == list(script.HEALTHY)
    assert [row[1] for row in healthy.rows[: len(script.HEALTHY)]] == [0] * len(script.HEALTHY)
