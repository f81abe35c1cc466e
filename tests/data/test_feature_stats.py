"""Features of wild scale, and those with heavy tails."""

from __future__ import annotations

import numpy as np
import pytest
from peekrank.data.columns import centres_and_spreads, look_at_columns


def naive(values: list[float]) -> tuple[float, float]:
    centre = float(np.median(values))
    others = [abs(value - centre) for value in values if value != centre]
    return centre, float(np.median(others)) if others else 0.0


def test_centres_and_spreads_are_medians() -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((101, 3)).astype(np.float32)
    features[:, 1] = rng.random(101) < 0.1  # a rare flag
    features[:, 2] = 7
    found = np.transpose(centres_and_spreads(features))
    assert np.allclose(found, [naive(column.tolist()) for column in features.T])
    assert found[1].tolist() == [0, 1]
    assert found[2].tolist() == [7, 0]


@pytest.mark.parametrize(
    ("draw", "heavy"),
    [
        ("random", False),
        ("standard_normal", False),
        ("standard_exponential", False),
        ("standard_cauchy", True),
        ("lognormal", True),
    ],
)
def test_heavy_tails(draw: str, heavy: bool) -> None:
    values = getattr(np.random.default_rng(1), draw)(size=(50_000, 1)) * 1e-5
    assert look_at_columns(values.astype(np.float32)).heavy_tailed().tolist() == ([0] if heavy else [])


def test_one_huge_value_among_many_is_seen() -> None:
    features = np.random.default_rng(1).random((60_001, 2), np.float32)
    features[1, 1] = 1e8  # no row that medians are taken of
    assert look_at_columns(features).heavy_tailed().tolist() == [1]


def test_other_scales() -> None:
    rng = np.random.default_rng(1)
    features = rng.random((1_000, 6), np.float32)
    assert look_at_columns(features).of_another_scale().tolist() == []
    features[:, 1] *= 1e-3
    features[:, 2] *= 1e3
    features[:, 3] += 100
    features[:, 4] = rng.random(1_000) < 0.005  # rare, and yet of the size of the others
    features[:, 5] = 0
    assert look_at_columns(features).of_another_scale().tolist() == [1, 2, 3]


def test_nothing_but_zeros() -> None:
    columns = look_at_columns(np.zeros((3, 2), np.float32))
    assert columns.of_another_scale().tolist() == columns.heavy_tailed().tolist() == []
