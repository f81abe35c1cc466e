"""Descriptions of data sets, against counting by hand; grades and rounds."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from peekrank.data.dataset import Dataset, Provenance, check_finite, describe


def dataset(features: object, relevance: object, lengths: list[int]) -> Dataset:
    offsets = np.append(0, np.cumsum(lengths))
    return Dataset(
        np.asarray(features, np.float32),
        np.asarray(relevance),
        offsets,
        np.arange(len(lengths)),
        Provenance("mine"),
    )


def test_description_by_hand() -> None:
    features = [[0, 5, 1], [0, 5, 2], [0, 5, 1], [0, 5, -3], [0, 5, 2], [0, 5, 2], [0, 5, 2]]
    found = describe(dataset(features, np.array([0, 0, 0, 3, 2, 2, 0], np.uint8), [3, 1, 2, 1]))
    assert found.queries == 4
    assert found.documents == 7
    assert found.lengths == (1, 1.5, 3)
    assert (found.features, found.used, found.constant) == (3, 2, 2)
    assert (found.smallest, found.largest) == (-3, 5)
    assert (found.least_relevance, found.most_relevance) == (0, 3)
    assert found.grades == {"0": 4, "2": 2, "3": 1}
    assert found.warnings == {
        "single_document_queries": 2,
        "all_zero_queries": 2,
        "all_equal_queries": 1,
        "duplicate_documents": 2,
    }
    assert json.loads(json.dumps(found.as_dict()))["about"]["source"] == "mine"


def test_many_different_values_are_given_as_a_range() -> None:
    found = describe(dataset(np.ones((30, 1)), np.linspace(0, 1, 30, dtype=np.float32), [30]))
    assert found.grades == {}
    assert (found.least_relevance, found.most_relevance) == (0, 1)


@given(hnp.arrays(np.float32, (12, 3), elements=st.sampled_from([0, 1, 0.5])), st.integers(1, 11))
def test_duplicates_against_counting(features: np.ndarray, cut: int) -> None:
    rows = [tuple(row) for row in features.tolist()]
    expected = sum(sum(Counter(part).values()) - len(Counter(part)) for part in (rows[:cut], rows[cut:]))
    found = describe(dataset(features, np.zeros(12, np.uint8), [cut, 12 - cut]))
    assert found.warnings["duplicate_documents"] == expected


def test_grades_are_rounded_within_bounds_only() -> None:
    data = dataset(np.ones((3, 1)), np.array([0.5, 1.5, 254.6], np.float32), [3])
    assert data.graded().relevance.tolist() == [0, 2, 255]
    assert data.graded().graded().about.rounded
    with pytest.raises(ValueError, match="relevance from 0 to 256: must be within 0 to 255"):
        dataset(np.ones((2, 1)), np.array([0, 256], np.float32), [2]).graded()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_number_that_is_not_finite_is_named(value: float) -> None:
    data = dataset(np.ones((6, 3)), np.zeros(6, np.float32), [2, 3, 1])._replace(queries=np.array([9, 5, 7]))
    check_finite(data, "x")
    data.relevance[5] = value
    with pytest.raises(ValueError, match=f"^x: query 7, document 1: relevance is {value}: must be"):
        check_finite(data, "x")
    data.features[4, 1] = data.features[4, 2] = data.features[5, 0] = value
    with pytest.raises(ValueError, match=f"^x: query 5, document 3: feature 2 is {value}: must be"):
        check_finite(data, "x")
    named = data._replace(features=np.ones((6, 3), np.float32), names=("a", "b", "\x1b" + "(" * 5000))
    with pytest.raises(ValueError, match=r"^x: query \\x1b(\(){50,59}\.\.\., document 1: relevance"):
        check_finite(named, "x")
