"""What is made of the columns of a table: medians, indicators, categories, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from peekrank.data.columns import MAX_CATEGORIES, Column, columns_as_json, columns_from_json, fit_columns
from peekrank.data.dataset import Dataset

SHOP: dict[str, Any] = {
    "qid": [1, 1, 2, 2],
    "price": [10.0, None, 4.0, 1.0],
    "stars": [4.5, 3.0, None, None],
    "brand": ["b", "a", None, "a"],
    "new": [1, 0, 1, 1],
    "sold": [1, 0, 2, 0],
}


def made(frame: Any, **options: Any) -> Dataset:
    return Dataset.of(frame, "sold", "qid", **options)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict])
def test_missing_values_are_refused_by_default_with_column_count_and_row(frame: Any) -> None:
    with pytest.raises(ValueError, match="has missing values") as raised:
        made(frame(SHOP), features=["price", "stars", "new"])
    assert "column 'price' (1, the first in row 2), column 'stars' (2, the first in row 3)" in str(raised.value)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict])
def test_medians_indicators_and_categories_are_those_of_scikit_learn(frame: Any) -> None:
    data = made(frame(SHOP), categories=["brand"], missing="median")
    numbers = np.array([SHOP[name] for name in ("price", "stars", "new")], float).T
    expected = SimpleImputer(strategy="median", add_indicator=True).fit_transform(numbers)
    brands = OneHotEncoder(sparse_output=False).fit_transform([[brand or "~"] for brand in SHOP["brand"]])
    names = data.about.feature_names
    assert names == (
        "price", "price is missing", "stars", "stars is missing",
        "brand = a", "brand = b", "brand is missing", "new",
    )  # fmt: skip
    theirs = dict(zip(("price", "stars", "new", "price is missing", "stars is missing"), expected.T, strict=True))
    theirs |= dict(zip(("brand = a", "brand = b", "brand is missing"), brands.T, strict=True))
    for i, name in enumerate(names):
        assert data.features[:, i].tolist() == theirs[name].tolist(), name
    assert data.about.warnings["filled_values"] == 4


def test_columns_of_the_training_part_are_found_by_name_in_any_order_and_filled_with_its_medians() -> None:
    train = made(SHOP, categories=["brand"], missing="median")
    test = {"new": [None, 1], "brand": ["b", "a"], "more": ["x", "y"], "stars": [1, 2], "price": [None, 7]}
    data = Dataset.of(pl.DataFrame(test), columns=train.about.columns)
    assert data.about.columns == train.about.columns
    assert data.features.tolist() == [[4, 1, 1, 0, 0, 1, 0, 1], [7, 0, 2, 0, 1, 0, 0, 1]]
    del test["price"]
    with pytest.raises(ValueError, match="has no column 'price', a feature of the training part: known: br"):
        Dataset.of(test, columns=train.about.columns)
    with pytest.raises(ValueError, match="column 'stars' does not hold numbers"):
        Dataset.of({**test, "price": [1, 2], "stars": ["1", "2"]}, columns=train.about.columns)


def test_a_category_that_the_training_part_does_not_have_is_reported_and_has_no_feature() -> None:
    train = Dataset.of({"a": ["x", "y", "x"]}, categories=["a"])
    with pytest.warns(UserWarning, match="in 2 rows, first 'z' in row 2; their features are 0"):
        data = Dataset.of({"a": ["y", "z", "z"]}, columns=train.about.columns)
    assert data.features.tolist() == [[0, 1], [0, 0], [0, 0]]
    assert data.about.warnings["unseen_categories"] == 2
    with pytest.raises(ValueError, match=r"column 'a' \(1, the first in row 2\)"):
        Dataset.of({"a": ["y", None]}, columns=train.about.columns)


def test_whole_numbers_are_the_same_category_as_integers_floats_and_texts() -> None:
    columns = Dataset.of({"shop": [7, 12, 7]}, categories=["shop"]).about.columns
    assert columns == (Column("shop", categories=("12", "7")),)
    for shops in ([12, 7], [12.0, 7.0], ["12", "7"]):
        assert Dataset.of({"shop": shops}, columns=columns).features.tolist() == [[1, 0], [0, 1]]


def test_too_many_categories_and_other_choices_are_refused() -> None:
    names = {"id": [f"i{i}" for i in range(MAX_CATEGORIES + 1)]}
    with pytest.raises(ValueError, match="column 'id' has 1,001 categories: must have 1 to 1,000"):
        Dataset.of(names, categories=["id"])
    many = {"id": np.array([f"i{i % MAX_CATEGORIES}" for i in range(200_000)], object)}
    with pytest.raises(ValueError, match=r"would take more than .* bytes of memory.* with so many categories"):
        Dataset.of(many, categories=["id"])
    with pytest.raises(ValueError, match="no feature 'brend' for categories: did you mean 'brand'"):
        made(SHOP, categories=["brend"])
    with pytest.raises(ValueError, match="has no column 'prize' for features: did you mean 'price'"):
        made(SHOP, features=["prize"])
    with pytest.raises(ValueError, match="column 'sold' cannot be a feature: it has another use"):
        made(SHOP, features=["new", "sold"])
    with pytest.raises(ValueError, match="missing = 'zero': must be 'reject' or 'median'"):
        made(SHOP, features=["new"], missing="zero")
    with pytest.raises(ValueError, match="choosing columns by name needs a data frame"):
        Dataset.of([[1.0]], missing="median")
    with pytest.raises(ValueError, match="column 'a' has no value, so there is no median"):
        Dataset.of({"a": [np.nan, np.nan]}, missing="median")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_queries_and_ids_must_be_known_and_of_one_line(frame: Any) -> None:
    table = {"a": [1, 2, 3], "q": ["x", None, "y"], "d": ["m", "n\n", "o"]}
    with pytest.raises(ValueError, match="queries are missing in 1 row, the first is row 2"):
        Dataset.of(frame(table), queries="q", documents="d")
    with pytest.raises(ValueError, match=r"documents: .* in row 2: must be one line of Unicode text"):
        Dataset.of(frame({**table, "q": [1, 1, 1]}), queries="q", documents="d")
    with pytest.raises(ValueError, match=r"relevance must be a number .*; it is nan in row 2"):
        Dataset.of(frame({"a": [1, 2], "r": [1.0, np.nan]}), relevance="r")


def test_numbers_with_gaps_of_pandas_and_of_arrow_are_numbers() -> None:
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([True, False, None], "boolean")}
    )
    for table in (frame, pa.Table.from_pandas(frame)):
        data = Dataset.of(table, missing="median")
        assert data.features.tolist() == [[1, 0, 1, 0], [2, 1, 0, 0], [3, 0, 0.5, 1]]


def test_columns_are_read_from_json_only_if_they_fit() -> None:
    columns = fit_columns({"a": np.array([1, np.nan]), "b": np.array(["x", "y"], object)}, ["b"], "median", "t")
    written = columns_as_json(columns)
    written[1]["categories"] = list(written[1]["categories"])
    assert columns_from_json(written, 4) == columns
    changes: list[dict[str, Any]] = [
        {"name": 3}, {"filled": 1}, {"indicator": None}, {"median": float("nan")}, {"median": 1e39},
        {"median": "0"}, {"categories": []}, {"categories": "ab"}, {"categories": ["x", "x"]},
        {"categories": [1, 2]}, {"more": 1}, {"name": "a"},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(ValueError, match="has columns that"):
            columns_from_json([written[0], {**written[1], **change}], 4)
    values: list[Any] = [None, 3, [3], [[]], [written[0]], {"a": 1}, written[1:]]
    for value in values:
        with pytest.raises(ValueError, match="has columns that"):
            columns_from_json(value, 4)
