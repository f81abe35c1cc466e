"""The script behind the figure of wrong curves: what it assumes, what it counts, and what the record has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment
from peekrank.evaluation.position_bias import estimate_curve

script: Any = load_experiment("clicks")


def test_curves_are_powers_of_the_true_one() -> None:
    assert script.assumed(1.0).curve == script.TRUTH
    assert script.assumed(0.0) == script.RAW
    assert script.assumed(2.0).curve.if_relevant == pytest.approx([1, 1 / 4, 1 / 9, 1 / 16, 1 / 25])


def test_random_lists_lose_what_they_must() -> None:
    """The mean of all orders: every item has the mean discount."""
    discount = script.DCG().discount(script.M)
    expected = 1 - discount.mean() * script.MEANS.sum() / (discount @ script.MEANS)
    assert script.lost("uniform", script.TRUTH, None, 0, 6000) == pytest.approx(expected, abs=0.006)


def test_the_record_has_the_tables_and_the_picture() -> None:
    wrong, others, _, intervals, moved = records.read(records.FOLDER / "clicks.json").tables
    assert [str(row[0]).split()[0] for row in wrong.rows] == [f"{strength:g}" for strength in script.STRENGTHS]
    assert [row[0] for row in others.rows] == list(script.PEOPLE)
    assert list(wrong.pictures) == [script.PICTURE.name]
    assert 1_000 < script.PICTURE.stat().st_size < 100_000
    shares = [cell.value for row in intervals.rows for cell in row[2:5] if isinstance(cell, records.Figure)]
    assert len(intervals.rows) == 2 * len(script.FEW)
    assert len(shares) == 3 * len(intervals.rows)
    assert all(isinstance(share, float | int) and share >= 95 for share in shares)
    assert len(moved.rows) == len(script.LEARNED)


@pytest.mark.parametrize(("items", "times"), script.FEW)
def test_intervals_hold_where_items_have_few_decisions(items: int, times: int) -> None:
    """150 logs, in which most items stood at most once at a position; 89 % is three standard errors below."""
    held = []
    for seed in range(150):
        found = estimate_curve(script.few_decisions(items, times, 0.0, seed))
        held.append((found.low <= script.CURVE) & (found.high >= script.CURVE))
    assert np.mean(held, axis=0).min() >= 0.89


def test_logs_with_few_decisions_are_what_they_are_called() -> None:
    log = script.few_decisions(100, 10, 0.0, 1)
    assert np.bincount(log.item).tolist() == [10] * 100
    assert (np.sort(log.position.reshape(-1, 4), axis=1) == np.arange(4)).all()
    relevance = np.random.default_rng([script.FIRST, 1]).uniform(0, 1, 100)
    by_position = [relevance[log.item[log.position == p]].mean() for p in range(4)]
    assert by_position == sorted(by_position, reverse=True)
    clicks = log.feedback[log.position == 0].mean()
    assert clicks == pytest.approx(by_position[0], abs=0.1)
