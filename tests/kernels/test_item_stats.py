"""Statistics of items against NumPy's, whatever the order of answers."""

from __future__ import annotations

from math import e, log, sqrt

import numpy as np
import pytest

from peekrank.kernels.item_stats import average, confidence_width, mean, new_stats, update, variance


def test_statistics_are_those_of_the_answers() -> None:
    rng = np.random.default_rng(0)
    items, answers = new_stats(4), [rng.integers(0, 8, size).astype(float) for size in (0, 1, 5, 40)]
    for i, gains in enumerate(answers):
        items.rounds[i] = 10 * i
        for gain in gains:
            update(items, i, gain, 1.0)
    prior = (np.mean(answers[1]) + np.mean(answers[2]) + np.mean(answers[3]) + 3.5) / 4
    assert average(items, 7.0) == pytest.approx(prior, rel=1e-13)
    for i, gains in enumerate(answers):
        n = len(gains)
        spread = (n * np.var(gains) if n else 0) + 49 / 2
        assert mean(items, i, prior) == pytest.approx((gains.sum() + prior) / (n + 1), rel=1e-13)
        assert variance(items, i, 7.0) == pytest.approx(spread / (n + 2), rel=1e-13)
        expected = sqrt(spread / (n + 2) * log(e + 10 * i) / (n + 1))
        assert confidence_width(items, i, 7.0) == pytest.approx(expected, rel=1e-13)


def test_decay_is_a_weighted_mean() -> None:
    gains, items = [0.0, 3.0, 1.0, 7.0], new_stats(1)
    for gain in gains:
        update(items, 0, gain, 0.5)
    ages = np.array([0.125, 0.25, 0.5, 1.0])
    assert items.answers[0] == ages.sum()
    assert items.sums[0] == ages @ gains
    assert items.squares[0] == ages @ np.square(gains)
    assert items.pool.tolist() == pytest.approx([ages @ gains / ages.sum(), 1])


def test_the_order_of_answers_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    told = [(int(i), float(2**g - 1)) for i, g in zip(rng.integers(0, 3, 60), rng.integers(0, 5, 60), strict=True)]
    one, two = new_stats(3), new_stats(3)
    for i, gain in told:
        update(one, i, gain, 1.0)
    for j in rng.permutation(60):
        i, gain = told[j]
        update(two, i, gain, 1.0)
    for name in ("sums", "squares", "answers"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.pool == pytest.approx(two.pool, rel=1e-13)


def test_equal_answers_have_no_variance_but_that_of_the_prior() -> None:
    items = new_stats(1)
    for _ in range(1000):
        update(items, 0, 0.1, 1.0)  # no exact number
    assert variance(items, 0, 1.0) == pytest.approx(0.5 / 1002, rel=1e-9)
