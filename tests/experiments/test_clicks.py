"""The script behind the figure of wrong curves: what it assumes, what it counts, and what the page has."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.scripts import ROOT, load_experiment

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


def test_the_page_has_the_table_and_the_picture() -> None:
    page = (ROOT / "docs" / "evidence" / "clicks.md").read_text(encoding="utf-8")
    inside = page.partition(script.BEGIN)[2].partition("<!-- end -->")[0]
    assert "(silence taken for 0)" in inside
    assert "(the truth)" in inside
    assert all(f"| {people} |" in inside for people in script.PEOPLE)
    assert 1_000 < script.PICTURE.stat().st_size < 100_000
