"""Data sets from tables in memory: NumPy arrays, and data frames of pandas or polars, which are not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peekrank._util.text import excerpt
from peekrank.data._table import gather_queries
from peekrank.data.dataset import Dataset, Provenance, check_finite
from peekrank.spec import suggest
from peekrank.types import Features


def dataset_of(
    table: Any, relevance: Any = None, queries: Any = None, *, documents: Any = None, source: str = "a table"
) -> Dataset:
    """Make a data set of a table, a row for each document.

    Documents of one query come together, in the order of the table, wherever they stand.

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
        Features: a 2-D array, or a data frame.
    relevance, queries, documents
        Relevance of each document, 0 or more (None: not known, 0); the query of each, numbers or texts (None: all
        are of one); and their ids, if they have any. Each is an array, or the name of a column of the data frame,
        which is then no feature.
    source
        What messages call it.
    """
    given = {"relevance": relevance, "queries": queries, "documents": documents}
    columns = {name: value for name, value in given.items() if isinstance(value, str)}
    features = _features(table, columns, source)
    rows = len(features)
    known = {
        name: _column(np.asarray(table[value] if isinstance(value, str) else value), name, rows, source)
        for name, value in given.items()
        if value is not None
    }
    numbers, names = _numbered(known.get("queries", np.zeros(rows, np.int64)), source)
    ids, offsets, order, scattered = gather_queries(numbers)
    order = np.arange(rows) if order is None else order
    warnings = {"scattered_queries": scattered, "documents_without_relevance": 0 if "relevance" in known else rows}
    data = Dataset(
        np.ascontiguousarray(features[order]),
        _relevance(known.get("relevance", np.zeros(rows)), source)[order],
        offsets,
        np.arange(1, len(ids) + 1) if names else ids,
        Provenance(source, warnings=warnings),
        tuple(names[query] for query in ids) if names else (),
        tuple(str(known["documents"][row]) for row in order) if "documents" in known else (),
    )
    check_finite(data, source)
    return data


def _features(table: Any, columns: dict[str, str], source: str) -> Features:
    """The columns that are features, as numbers."""
    if hasattr(table, "columns"):
        there = list(map(str, table.columns))
        for what, name in columns.items():
            if name not in there:
                raise ValueError(f"{source}: has no column '{name}' for {what}: {suggest(name, there)}")
        named = [name for name in table.columns if str(name) not in columns.values()]
        parts = {name: np.asarray(table[name]) for name in named}
        for name, values in parts.items():
            if values.dtype.kind not in "biuf":
                what = f"column '{excerpt(str(name))}' does not hold numbers"
                raise ValueError(f"{source}: {what}; leave it out, or name it as queries or documents")
        features = np.column_stack(list(parts.values())) if parts else np.empty((0, 0))
    elif columns:
        what, name = next(iter(columns.items()))
        raise ValueError(f"{source}: {what} = '{name}' names a column, but the table is no data frame")
    else:
        features = np.asarray(table)
    if features.ndim != 2 or not features.size or features.dtype.kind not in "biuf":
        shape = " x ".join(map(str, features.shape)) or "a single value"
        raise ValueError(f"{source}: features are {shape} of {features.dtype}: must be a table of numbers")
    with np.errstate(over="ignore"):
        return features.astype(np.float32)


def _column(values: NDArray[Any], name: str, rows: int, source: str) -> NDArray[Any]:
    if values.shape != (rows,):
        shape = " x ".join(map(str, values.shape)) or "a single value"
        raise ValueError(f"{source}: {name} are {shape}: must be {rows}, one for each document")
    return values


def _numbered(queries: NDArray[Any], source: str) -> tuple[NDArray[np.int64], list[str]]:
    """Queries as numbers, and the names that these stand for, if they were no whole numbers."""
    if queries.dtype.kind in "iu" and queries.min() >= 0 and queries.max() < 2**63:
        return queries.astype(np.int64), []
    if queries.dtype.kind == "f":
        raise ValueError(f"{source}: queries are {queries.dtype}: must be whole numbers or texts")
    numbers: dict[str, int] = {}
    coded = np.array([numbers.setdefault(str(query), len(numbers)) for query in queries], np.int64)
    return coded, list(numbers)


def _relevance(values: NDArray[Any], source: str) -> NDArray[Any]:
    if values.dtype.kind not in "biuf" or not np.all(values >= 0):
        raise ValueError(f"{source}: relevance must be numbers, 0 or more, and known for every document")
    whole = values.max() <= 255 and np.array_equal(values, np.rint(values))
    return values.astype(np.uint8 if whole else np.float32)
