"""Data sets from NumPy arrays, pandas and polars data frames, and pyarrow tables. None of these is required."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peekrank._util.text import excerpt
from peekrank.data._table import gather_queries
from peekrank.data.dataset import Dataset, Provenance, check_finite
from peekrank.spec import suggest
from peekrank.types import Features

_QUERY = re.compile("qid|quer(y|ies)|(query|search|session|srch)_?id", re.I)  # names of columns


def dataset_of(
    table: Any, relevance: Any = None, queries: Any = None, *, documents: Any = None, source: str = "a table"
) -> Dataset:
    """Make a data set from a table with a row for each document.

    The result groups documents by query and keeps their order within a query.

    >>> features = np.array([[0.5, 1], [2, 0], [1, 1]])
    >>> data = dataset_of(features, relevance=[1, 0, 2], queries=[7, 4, 7], documents=["x", "y", "z"])
    >>> data.features
    array([[0.5, 1. ],
           [1. , 1. ],
           [2. , 0. ]], dtype=float32)
    >>> data.relevance, data.queries, data.documents
    (array([1, 2, 0], dtype=uint8), array([7, 4]), ('x', 'z', 'y'))

    Parameters
    ----------
    table
        The features, as a 2-D array or a data frame. Of a LazyFrame, all columns are computed.
    relevance, queries, documents
        The relevance of each document, 0 or more (None: unknown, treated as 0), its query, a number or a string
        (None: one query), and its id (None: no ids). Each is an array, or the name of a column of the data frame,
        which is then not a feature.
    source
        Name of the table in messages.
    """
    fields = {"relevance": relevance, "queries": queries, "documents": documents}
    columns = {name: value for name, value in fields.items() if isinstance(value, str)}
    frame = columns_of(table)
    features = _extract_features(table, frame, columns, source)
    if frame and queries is None:
        _check_queries(frame, columns.values(), source)
    rows = len(features)
    known = {
        name: _check_column(frame[value] if frame and name in columns else np.asarray(value), name, rows, source)
        for name, value in fields.items()
        if value is not None
    }
    numbers, names = _number_queries(known.get("queries", np.zeros(rows, np.int64)), source)
    ids, offsets, order, scattered = gather_queries(numbers)
    order = np.arange(rows) if order is None else order
    warnings = {"scattered_queries": scattered, "documents_without_relevance": 0 if "relevance" in known else rows}
    data = Dataset(
        np.ascontiguousarray(features[order]),
        _as_relevance(known.get("relevance", np.zeros(rows)), source)[order],
        offsets,
        np.arange(1, len(ids) + 1) if names else ids,
        Provenance(source, warnings=warnings),
        tuple(names[query] for query in ids) if names else (),
        tuple(str(known["documents"][row]) for row in order) if "documents" in known else (),
    )
    check_finite(data, source)
    return data


def columns_of(table: Any) -> dict[str, NDArray[Any]] | None:
    """Return the columns of a data frame of pandas, polars or pyarrow by name, or None for other values."""
    if isinstance(table, dict):
        return {str(name): np.asarray(values) for name, values in table.items()}
    if hasattr(table, "collect_schema"):  # polars; it computes a LazyFrame
        table = table.lazy().collect()
    if hasattr(table, "column_names"):  # pyarrow
        return {name: table.column(i).to_numpy() for i, name in enumerate(table.column_names)}
    if hasattr(table, "columns"):
        return {str(name): np.asarray(table[name]) for name in table.columns}
    return None


def _extract_features(
    table: Any, frame: dict[str, NDArray[Any]] | None, columns: dict[str, str], source: str
) -> Features:
    """Return the columns that are features, as float32."""
    if frame is not None:
        for field, name in columns.items():
            if name not in frame:
                raise ValueError(f"{source}: has no column '{excerpt(name)}' for {field}: {suggest(name, frame)}")
        parts = {name: values for name, values in frame.items() if name not in columns.values()}
        for name, values in parts.items():
            if values.dtype.kind not in "biuf":
                problem = f"column '{excerpt(name)}' does not hold numbers"
                raise ValueError(f"{source}: {problem}; remove it, or name it as queries or documents")
        features = np.column_stack(list(parts.values())) if parts else np.empty((0, 0))
    elif columns:
        field, name = next(iter(columns.items()))
        raise ValueError(
            f"{source}: {field} = '{excerpt(name)}' names a column, but the table is not a data frame"
        )
    else:
        features = np.asarray(table)
    if features.ndim != 2 or not features.size or features.dtype.kind not in "biuf":
        shape = " x ".join(map(str, features.shape)) or "a single value"
        raise ValueError(f"{source}: features are {shape} of {features.dtype}: must be a table of numbers")
    with np.errstate(over="ignore"):
        return features.astype(np.float32)


def _check_queries(frame: dict[str, NDArray[Any]], used: Collection[str], source: str) -> None:
    """Raise ValueError if a column that is not used otherwise looks like the query of each document."""
    for name in frame:
        if name not in used and _QUERY.fullmatch(name):
            raise ValueError(
                f"{source}: no queries are given, but column '{excerpt(name)}' looks like the query of each "
                f"document: pass queries='{excerpt(name)}', or rename the column if it is a feature"
            )


def _check_column(values: NDArray[Any], name: str, rows: int, source: str) -> NDArray[Any]:
    if values.shape != (rows,):
        shape = " x ".join(map(str, values.shape)) or "a single value"
        raise ValueError(f"{source}: {name} are {shape}: must be {rows}, one for each document")
    return values


def _number_queries(queries: NDArray[Any], source: str) -> tuple[NDArray[np.int64], list[str]]:
    """Return queries as numbers, and their names if they were not whole numbers."""
    if queries.dtype.kind in "iu" and queries.min() >= 0 and queries.max() < 2**63:
        return queries.astype(np.int64), []
    if queries.dtype.kind == "f":
        raise ValueError(f"{source}: queries are {queries.dtype}: must be whole numbers or strings")
    numbers: dict[str, int] = {}
    coded = np.array([numbers.setdefault(str(query), len(numbers)) for query in queries], np.int64)
    return coded, list(numbers)


def _as_relevance(values: NDArray[Any], source: str) -> NDArray[Any]:
    if values.dtype.kind not in "biuf" or not np.all(values >= 0):
        raise ValueError(f"{source}: relevance must be a number for every document, 0 or more")
    whole = values.max() <= 255 and np.array_equal(values, np.rint(values))
    return values.astype(np.uint8 if whole else np.float32)
