"""Scaling of features, against NumPy in float64; constant features, other parts, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.scaling import fit_standardisation, scale_within_queries, standardise, standardise_online

LENGTHS = [4, 1, 5]
TABLES = hnp.arrays(
    np.float32,
    (10, 6),
    elements=st.one_of(st.sampled_from([0, 0.1, 1, 3.4e38, -3.4e38]), st.floats(-9, 9, width=32)),
)


def dataset(features: np.ndarray, digest: str = "abc") -> Dataset:
    offsets = np.append(0, np.cumsum(LENGTHS))
    return Dataset(features, np.zeros(10, np.uint8), offsets, np.arange(3), Provenance("mine", digest))


@given(TABLES)
def test_within_queries_against_numpy(features: np.ndarray) -> None:
    parts = []
    for part in np.split(features.astype(np.float64), np.cumsum(LENGTHS)[:-1]):
        low, span = part.min(axis=0), np.ptp(part, axis=0)
        parts.append(np.where(span > 0, (part - low) / np.where(span > 0, span, 1), 0))
    before = features.copy()
    scaled = scale_within_queries(dataset(features))
    np.testing.assert_array_equal(scaled.features, np.concatenate(parts).astype(np.float32))
    np.testing.assert_array_equal(features, before)
    assert 0 <= scaled.features.min() <= scaled.features.max() <= 1
    assert scaled.about.scaling == "query"


@given(TABLES, TABLES)
def test_standardisation_against_numpy(train: np.ndarray, test: np.ndarray) -> None:
    fitted = fit_standardisation(dataset(train))
    mean = train.astype(np.float64).mean(axis=0)
    deviation = np.where(np.ptp(train.astype(np.float64), axis=0) > 0, train.astype(np.float64).std(axis=0), 0)
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-12, atol=1e-12 * np.abs(train).max(initial=1))
    np.testing.assert_allclose(fitted.deviation, deviation, rtol=1e-9)
    there = fitted.deviation > 0
    expected = np.zeros((10, 6))
    expected[:, there] = (test[:, there].astype(np.float64) - fitted.mean[there]) / fitted.deviation[there]
    if np.abs(expected).max() > 3e38:
        return
    scaled = standardise(dataset(test), fitted)
    np.testing.assert_array_equal(scaled.features, expected.astype(np.float32))
    assert (scaled.about.scaling, scaled.about.fitted_on) == ("global", "abc")


def test_a_constant_feature_is_0_though_its_mean_is_rounded() -> None:
    features = np.full((10, 2), 0.1, np.float32)
    features[0, 0] = 0.2
    fitted = fit_standardisation(dataset(features))
    assert fitted.deviation[1] == 0
    np.testing.assert_array_equal(standardise(dataset(features), fitted).features[:, 1], 0)


def moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = features.astype(np.float64)
    return wide.mean(axis=0), np.where(np.ptp(wide, axis=0) > 0, wide.std(axis=0), 0)


def scaled_by(features: np.ndarray, shown: np.ndarray) -> np.ndarray:
    mean, deviation = moments(shown)
    return np.where(deviation > 0, (features - mean) / np.where(deviation > 0, deviation, 1), 0)


@given(TABLES, st.permutations(range(3)), st.permutations(range(3)), st.integers(1, 8))
def test_online_against_moments_of_prefixes(
    features: np.ndarray, one: list[int], two: list[int], rounds: int
) -> None:
    """A first pass, a part of it, later passes: every list against NumPy on what was shown so far."""
    order = np.array([*one, *two, *one][:rounds])
    parts = np.split(features, np.cumsum(LENGTHS)[:-1])
    online = standardise_online(dataset(features), order)
    assert len(online.rounds.offsets) == 7
    for t, (query, position) in enumerate(zip(order, online.sequence, strict=True)):
        assert (position == query) == (t < 3)
        shown = np.concatenate([parts[q] for q in order[: min(t + 1, 3)]])
        here = slice(online.rounds.offsets[position], online.rounds.offsets[position + 1])
        expected = scaled_by(parts[query], shown)
        np.testing.assert_allclose(online.rounds.features[here], expected, rtol=1e-5, atol=1e-5)
    shown = np.concatenate([parts[q] for q in order[:3]])
    mean, deviation = moments(shown)
    np.testing.assert_allclose(online.fitted.mean, mean, rtol=1e-12, atol=1e-12 * np.abs(shown).max(initial=1))
    np.testing.assert_allclose(online.fitted.deviation, deviation, rtol=1e-9)
    assert online.fitted.fitted_on == "abc"


def test_online_a_feature_that_was_constant_so_far_is_0() -> None:
    features = np.full((10, 2), 0.1, np.float32)
    features[9, 0] = 0.2  # the last document of the last query
    online = standardise_online(dataset(features), np.array([0, 1, 2, 0]))
    np.testing.assert_array_equal(online.rounds.features[:5], 0)
    np.testing.assert_allclose(online.rounds.features[9, 0], 3, rtol=1e-5)
    np.testing.assert_allclose(online.rounds.features[10:14, 0], -1 / 3, rtol=1e-5)
    np.testing.assert_array_equal(online.rounds.features[:, 1], 0)
    assert online.fitted.deviation[1] == 0


def test_online_relevance_goes_with_its_documents() -> None:
    data = dataset(np.arange(20, dtype=np.float32).reshape(10, 2))._replace(
        relevance=np.arange(10).astype(np.uint8)
    )
    rounds, sequence, _ = standardise_online(data, np.array([2, 0, 1, 1]))
    shown = [rounds.relevance[rounds.offsets[q] : rounds.offsets[q + 1]].tolist() for q in sequence]
    assert shown == [[5, 6, 7, 8, 9], [0, 1, 2, 3], [4], [4]]


def test_generated_data_are_named_as_what_was_fitted_on() -> None:
    assert fit_standardisation(dataset(np.ones((10, 2), np.float32), "")).fitted_on == "mine"


def test_scaling_twice_other_widths_and_overflow_are_errors() -> None:
    features = np.arange(20, dtype=np.float32).reshape(10, 2)
    once = scale_within_queries(dataset(features))
    with pytest.raises(ValueError, match=r"mine: is scaled already \(query\)"):
        scale_within_queries(once)
    with pytest.raises(ValueError, match="is scaled already"):
        fit_standardisation(once)
    with pytest.raises(ValueError, match="is scaled already"):
        standardise_online(once, np.arange(3))
    fitted = fit_standardisation(dataset(features))
    with pytest.raises(ValueError, match="is scaled already"):
        standardise(once, fitted)
    with pytest.raises(ValueError, match="has 1 features, but the scaling was fitted on 2"):
        standardise(dataset(features[:, :1].copy()), fitted)
    tiny = fit_standardisation(dataset(features * np.float32(1e-30)))
    with pytest.raises(ValueError, match="too far from the training part"):
        standardise(dataset(features * np.float32(1e30)), tiny)
