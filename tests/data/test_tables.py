"""Data sets from arrays and data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from peekrank.data.dataset import Dataset

COLUMNS: dict[str, Any] = {
    "price": [1.5, 2.0, 0.5],
    "qid": ["b", "a", "b"],
    "sold": [1, 0, 2],
    "new": [True, False, True],
    "sku": ["x", "y", "z"],
}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict])
def test_data_frames(frame: Any) -> None:
    data = Dataset.of(frame(COLUMNS), relevance="sold", queries="qid", documents="sku", source="shop")
    assert data.features.tolist() == [[1.5, 1], [0.5, 1], [2, 0]]
    assert data.features.dtype == np.float32
    assert data.relevance.tolist() == [1, 2, 0]
    assert (data.names, data.documents) == (("b", "a"), ("x", "z", "y"))
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.about.source == "shop"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_beside_the_frame(frame: Any) -> None:
    table = frame({"a": [1.0, 2.0], "b": [0, 1]})
    data = Dataset.of(table, relevance=np.array([0.5, 1]), queries=np.array([3, 3]))
    assert data.features.tolist() == [[1, 0], [2, 1]]
    assert data.relevance.dtype == np.float32
    assert data.queries.tolist() == [3]


def test_forgotten_queries_are_noticed() -> None:
    table = {"qid": [7, 4, 7], "price": [1.0, 2.0, 3.0], "sold": [1, 0, 2]}
    with pytest.raises(ValueError, match="column 'qid' looks like the query of each document: pass queries='qid'"):
        Dataset.of(table, relevance="sold")
    assert Dataset.of(table, relevance="sold", queries="qid").features.shape == (3, 1)
    assert Dataset.of(table, relevance="sold", queries=[1, 1, 2]).features.shape == (3, 2)  # then it is a feature


def test_columns_of_the_same_name_are_refused() -> None:
    tables = (
        pa.table([[1], [2], [3]], names=["sold", "x", "x"]),
        pd.DataFrame([[1, 2, 3]], columns=["sold", "x", "x"]),
        pd.DataFrame([[1, 2, 3]], columns=["sold", 1, "1"]),
    )
    for table in tables:
        with pytest.raises(ValueError, match=r"column '[x1]' occurs twice: give each column a name of its own"):
            Dataset.of(table, "sold")


@pytest.mark.parametrize("frame", [pa.table, pl.LazyFrame, pd.DataFrame])
def test_errors_do_not_print_the_data(frame: Any) -> None:
    columns = {f"name{i}": [f"secret{i}"] * 50 for i in range(200)}
    with pytest.raises(ValueError, match="has no column 'sold' for relevance") as raised:
        Dataset.of(frame(columns), relevance="sold")
    assert "secret" not in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 1000


def test_a_data_set_is_shown_by_its_sizes() -> None:
    data = Dataset.of([[1, 2], [3, 4]], [0, 2], source="<b>&")
    assert repr(data) == "<Dataset of <b>&: 1 query, 2 documents, 2 features, relevance 0 to 2>"
    assert "<b>Dataset</b> of &lt;b&gt;&amp;" in data._repr_html_()


def test_without_queries_and_relevance() -> None:
    data = Dataset.of([[1, 2], [3, 4]])
    assert data.queries.tolist() == [0]
    assert data.about.warnings["documents_without_relevance"] == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([1.0, 2.0],), "a table: features are 2 of float64: must be a table of numbers"),
        (([["x"]],), "must be a table of numbers"),
        ((np.empty((0, 2)),), "must be a table of numbers"),
        (([[1.0]], [1, 2]), "a table: relevance are 2: must be 1, one for each document"),
        (([[1.0]], [-1]), "relevance must be a number for every document, 0 or more"),
        (([[1.0]], [np.nan]), "relevance must be a number for every document, 0 or more"),
        (([[1.0]], [1], [1.5]), "queries are float64: must be whole numbers or strings"),
        (([[np.inf]], [1], [1]), "a table: query 1, document 1: feature 1 is inf: must be a number up to 3.4e38"),
        (([[1e300]], [1], [1]), "feature 1 is inf"),
        (([[1.0]], "sold"), "relevance = 'sold' names a column, but the table is not a data frame"),
        ((pd.DataFrame(COLUMNS), "sald"), "has no column 'sald' for relevance: .*sold"),
        (
            (pl.DataFrame(COLUMNS), "sold", "qid"),
            "column 'sku' does not hold numbers; remove it, or name it",
        ),
    ],
)
def test_what_does_not_fit(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Dataset.of(*given)
