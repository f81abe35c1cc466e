"""Scaling of features, against NumPy in float64; constant features, other parts, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from peekrank.streams.dataset import About, Dataset
from peekrank.streams.scaling import fit_standardisation, scale_within_queries, standardise

LENGTHS = [4, 1, 5]
TABLES = hnp.arrays(
    np.float32,
    (10, 6),
    elements=st.one_of(st.sampled_from([0, 0.1, 1, 3.4e38, -3.4e38]), st.floats(-9, 9, width=32)),
)


def dataset(features: np.ndarray, digest: str = "abc") -> Dataset:
    offsets = np.append(0, np.cumsum(LENGTHS))
    return Dataset(features, np.zeros(10, np.uint8), offsets, np.arange(3), About("mine", digest))


@settings(deadline=None)
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


@settings(deadline=None)
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


def test_generated_data_are_named_as_what_was_fitted_on() -> None:
    assert fit_standardisation(dataset(np.ones((10, 2), np.float32), "")).fitted_on == "mine"


def test_scaling_twice_other_widths_and_overflow_are_errors() -> None:
    features = np.arange(20, dtype=np.float32).reshape(10, 2)
    once = scale_within_queries(dataset(features))
    with pytest.raises(ValueError, match=r"mine: is scaled already \(query\)"):
        scale_within_queries(once)
    with pytest.raises(ValueError, match="is scaled already"):
        fit_standardisation(once)
    fitted = fit_standardisation(dataset(features))
    with pytest.raises(ValueError, match="is scaled already"):
        standardise(once, fitted)
    with pytest.raises(ValueError, match="has 1 features, but the scaling was fitted on 2"):
        standardise(dataset(features[:, :1].copy()), fitted)
    tiny = fit_standardisation(dataset(features * np.float32(1e-30)))
    with pytest.raises(ValueError, match="so far from the training part's"):
        standardise(dataset(features * np.float32(1e30)), tiny)
