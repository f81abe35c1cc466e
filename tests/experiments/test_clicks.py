"""The script behind the figure of wrong curves: what it assumes, what it counts, and what the record has."""

from __future__ import annotations

from typing import Any

import pytest
import records

from helpers.scripts import load_experiment

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
    wrong, others, *_ = records.read(records.FOLDER / "clicks.json").tables
    assert [str(row[0]).split()[0] for row in wrong.rows] == [f"{strength:g}" for strength in script.STRENGTHS]
    assert [row[0] for row in others.rows] == list(script.PEOPLE)
    assert list(wrong.pictures) == [script.PICTURE.name]
    assert 1_000 < script.PICTURE.stat().st_size < 100_000
