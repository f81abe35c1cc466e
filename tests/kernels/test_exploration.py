"""Doubts against all pairs, prices against moved lists, and the lemma against all orders."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from peekrank.kernels.doubt import asked, doubt_space, fill_doubts, fill_prices, fill_questions

from helpers import naive_doubt
from peekrank.types import Floats

Rng = np.random.Generator


def random_list(rng: Rng, n: int) -> tuple[Floats, Floats, Floats]:
    """Descending means, widths and descending weights; with many ties, or wide and narrow widths, or neither."""
    kind = rng.integers(3)
    means, widths, weights = rng.random(n), rng.random(n) * rng.choice([0.02, 0.3, 1]), rng.random(n)
    if kind == 0:
        means, widths = rng.integers(0, 4, n) / 4, rng.integers(0, 3, n) / 8
        weights = rng.integers(0, 3, n) / 2
    elif kind == 1:
        widths = widths**4
    return np.sort(means)[::-1].copy(), widths, np.sort(weights)[::-1].copy()


def doubts_of(means: Floats, widths: Floats, weights: Floats, spare: int = 0) -> Floats:
    found, space = np.full(len(means), np.nan), doubt_space(len(means) + spare)
    fill_doubts(means, widths, weights, found, space)
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 33, 128, 129])
def test_doubts_are_those_of_all_pairs(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(100):
        means, widths, weights = random_list(rng, n)
        expected = naive_doubt.doubts(means.tolist(), widths.tolist(), weights.tolist())
        for spare in (0, 40):  # a list that is shorter than the memory
            assert doubts_of(means, widths, weights, spare).tolist() == expected


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_sorting_loses_at_most_twice_width_times_doubt(n: int) -> None:
    """The lemma: no order of the true means, wherever within their intervals, is better by more than that."""
    rng = np.random.default_rng([1, n])
    orders = np.array(list(permutations(range(n))))
    tightest = np.inf
    for _ in range(2000):
        means, widths, weights = random_list(rng, n)
        true = means + widths * rng.choice([-1, 0, 1, rng.uniform(-1, 1)], n)
        lost = float((true[orders] @ weights).max() - true @ weights)
        most = float(2 * widths @ doubts_of(means, widths, weights))
        assert lost <= most + 1e-12
        if lost > 0:
            tightest = min(tightest, most / lost)
    assert tightest < 1.5  # and the lemma is not loose beyond reason


def test_less_known_neighbours_are_not_the_better_known_ones_business() -> None:
    means, widths = np.array([0.5, 0.5]), np.array([0.01, 0.4])
    assert doubts_of(means, widths, np.array([1.0, 0.0])).tolist() == [0, 1]


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_prices_are_what_moving_costs(n: int) -> None:
    rng = np.random.default_rng([2, n])
    for _ in range(100):
        means, _, weights = random_list(rng, n)
        for k in range(1, n + 1):
            prices = np.full(n, np.nan)
            fill_prices(means, weights, k, prices)
            expected = [naive_doubt.price(means.tolist(), weights.tolist(), k, p) for p in range(k, n)]
            np.testing.assert_allclose(prices, [0.0] * k + expected, atol=1e-12)
            assert prices.min() >= 0


def test_questions() -> None:
    """A share of the doubt over the price; 1 at most; 0 without doubt; together a half at most."""
    doubts, widths = np.array([9.0, 0.5, 0.0, 0.5, 1.0]), np.full(5, 0.1)
    prices, chances = np.array([9.0, 0.5, 0.0, 0.25, 1.0]), np.full(5, np.nan)
    total = fill_questions(doubts, widths, prices, 1, 1.0, chances)
    assert chances == pytest.approx([0, 0.1, 0, 0.2, 0.1])
    assert total == pytest.approx(0.4)
    assert fill_questions(doubts, widths, 0 * prices, 1, 1.0, chances) == 0.5
    assert chances == pytest.approx([0, 1 / 6, 0, 1 / 6, 1 / 6])
    assert fill_questions(doubts, widths, prices, 5, 1.0, chances) == 0
    assert not chances.any()


def test_who_is_asked_about() -> None:
    chances = np.array([0.7, 0.125, 0.0, 0.25])  # the first is not among those that may be asked about
    corners = [0.0, 0.125, 0.375, 1.0]
    for (low, high), place in zip(pairwise(corners), (1, 3, -1), strict=True):
        assert asked(chances, 1, low) == asked(chances, 1, np.nextafter(high, 0)) == place
