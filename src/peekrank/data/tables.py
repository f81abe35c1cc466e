"""Data sets from NumPy arrays, pandas and polars data frames, and pyarrow tables. None of these is required."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._util.text import excerpt, pluralize
from peekrank.data._table import gather_queries
from peekrank.data.columns import (
    Cells,
    Column,
    Filled,
    check_numbers,
    fit_columns,
    make_features,
    missing_cells,
    select_columns,
)
from peekrank.data.dataset import Dataset, Provenance, check_finite
from peekrank.spec import suggest
from peekrank.types import Features

_TEXT = re.compile("[^\n\ud800-\udfff]*")
_QUERY = re.compile("qid|quer(y|ies)|(query|search|session|srch)_?id", re.I)  # names of columns


class Choice(NamedTuple):
    """Which columns of a table are features, and how they are made; see `dataset_of`."""

    features: Sequence[str] | None = None
    categories: Collection[str] = ()
    missing: str = "reject"
    columns: Sequence[Column] = ()


def dataset_of(
    table: Any,
    relevance: Any = None,
    queries: Any = None,
    *,
    documents: Any = None,
    choice: Choice = Choice(),  # noqa: B008 - immutable
    source: str = "a table",
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
    >>> shoes = {"price": [10, None], "brand": ["a", "b"], "sold": [1, 0]}
    >>> data = dataset_of(shoes, "sold", choice=Choice(categories=["brand"], missing="median"))
    >>> data.about.feature_names, data.features.tolist()
    (('price', 'price is missing', 'brand = a', 'brand = b'), [[10.0, 0.0, 1.0, 0.0], [10.0, 1.0, 0.0, 1.0]])

    Parameters
    ----------
    table
        The features, as a 2-D array or a data frame. Of a LazyFrame, all columns are computed.
    relevance, queries, documents
        The relevance of each document, 0 or more (None: unknown, treated as 0), its query, a number or a string
        (None: one query), and its id (None: no ids). Each is an array, or the name of a column of the data frame,
        which is then not a feature.
    choice
        The columns that are features (by default all that are not named otherwise); which of them hold categories;
        and whether missing values are rejected, or replaced by the median with a feature that says so. Or the
        columns of a training part, ``train.about.columns``, which are found by name.
    source
        Name of the table in messages.
    """
    fields = {"relevance": relevance, "queries": queries, "documents": documents}
    frame = columns_of(table)
    if frame is not None:
        return dataset_of_columns(frame, fields, choice, Provenance(source))
    for field, name in fields.items():
        if isinstance(name, str):
            raise ValueError(
                f"{source}: {field} = '{excerpt(name)}' names a column, but the table is not a data frame"
            )
    if choice != Choice():
        raise ValueError(f"{source}: choosing columns by name needs a data frame")
    return _grouped(Filled(_as_features(np.asarray(table), source), 0, 0), fields, Provenance(source))


def dataset_of_columns(
    frame: dict[str, Cells], fields: dict[str, Any], choice: Choice, about: Provenance
) -> Dataset:
    """Make a data set from columns by name, and remove them from `frame`; see `dataset_of`."""
    source = about.source
    named = {name: value for name, value in fields.items() if isinstance(value, str)}
    for field, name in [*named.items(), *(("features", name) for name in choice.features or ())]:
        if name not in frame:
            raise ValueError(f"{source}: has no column '{excerpt(name)}' for {field}: {suggest(name, frame)}")
    if fields.get("queries") is None:
        check_queries(frame, {*named.values(), *(choice.features or ())}, source)
    fields = {**fields, **{field: frame[name] for field, name in named.items()}}
    parts = {name: values for name, values in frame.items() if name not in named.values()}
    frame.clear()
    if choice.columns:
        columns = tuple(choice.columns)
        parts = select_columns(parts, columns, source)
    else:
        parts, columns = _fit(parts, choice, source)
    filled = make_features(parts, columns, source)
    return _grouped(filled, fields, replace(about, columns=columns))


def _fit(parts: dict[str, Cells], choice: Choice, source: str) -> tuple[dict[str, Cells], tuple[Column, ...]]:
    """Return the feature columns, and how to convert each of them."""
    chosen = list(parts) if choice.features is None else list(dict.fromkeys(choice.features))
    for name in chosen:
        if name not in parts:
            raise ValueError(f"{source}: column '{excerpt(name)}' cannot be a feature: it has another use")
    if not chosen:
        raise ValueError(f"{source}: no column is left for features; texts can be named as categories")
    for name in choice.categories:
        if name not in chosen:
            raise ValueError(f"{source}: no feature '{excerpt(name)}' for categories: {suggest(name, chosen)}")
    parts = {name: parts[name] for name in chosen}
    check_numbers(parts, [name for name in chosen if name not in choice.categories], source)
    sizes = {len(values) for values in parts.values()}
    if len(sizes) != 1 or sizes == {0}:
        shape = f"{len(parts)} columns of {' or '.join(map(str, sorted(sizes))) or 0} rows"
        raise ValueError(f"{source}: features are {shape}: must be a table of numbers")
    return parts, fit_columns(parts, choice.categories, choice.missing, source)


def _grouped(made: Filled, fields: dict[str, Any], about: Provenance) -> Dataset:
    """Group rows by query."""
    features, rows, source = made.features, len(made.features), about.source
    known = {
        name: _check_column(np.asarray(value), name, rows, source)
        for name, value in fields.items()
        if value is not None
    }
    numbers, names = _number_queries(known.get("queries", np.zeros(rows, np.int64)), source)
    ids, offsets, order, scattered = gather_queries(numbers)
    relevance = _as_relevance(known.get("relevance", np.zeros(rows)), source)
    documents = tuple(map(str, known["documents"])) if "documents" in known else ()
    if order is not None:
        features, relevance = features[order], relevance[order]
        documents = tuple(documents[row] for row in order) if documents else ()
    warnings = {
        "scattered_queries": scattered,
        "documents_without_relevance": 0 if "relevance" in known else rows,
        "filled_values": made.filled,
        "unseen_categories": made.unseen,
    }
    data = Dataset(
        features,
        relevance,
        offsets,
        np.arange(1, len(ids) + 1) if names else ids,
        replace(about, warnings=warnings),
        tuple(names[query] for query in ids) if names else (),
        documents,
    )
    check_finite(data, source)
    return data


def columns_of(table: Any) -> dict[str, Cells] | None:
    """Return the columns of a data frame of pandas, polars or pyarrow by name, or None for other values."""
    if isinstance(table, dict):
        return {str(name): _as_cells(np.asarray(values)) for name, values in table.items()}
    if hasattr(table, "collect_schema"):  # polars; it computes a LazyFrame
        return {name: _as_cells(values.to_numpy()) for name, values in table.lazy().collect().to_dict().items()}
    if hasattr(table, "column_names"):  # pyarrow
        _check_names(table.column_names)
        return {name: _as_cells(table.column(i).to_numpy()) for i, name in enumerate(table.column_names)}
    if hasattr(table, "columns"):
        _check_names(table.columns)
        return {str(name): _as_cells(np.asarray(table[name])) for name in table.columns}
    return None


def _check_names(names: Iterable[Any]) -> None:
    """Raise ValueError if two columns have the same name."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise ValueError(f"a table: column '{excerpt(name)}' occurs twice: give each column a name of its own")
        seen.add(name)


def _as_cells(values: Cells) -> Cells:
    """Return a column. Numbers among which some are None or pandas' NA become floats, with NaN for these."""
    if values.dtype != np.dtype(object) or values.ndim != 1:
        return values
    cells = [None if type(value).__name__ == "NAType" else value for value in values.tolist()]
    if all(value is None or isinstance(value, (int, float)) for value in cells) and cells.count(None) < len(cells):
        return np.array([np.nan if value is None else value for value in cells], np.float64)
    values = np.empty(len(cells), object)
    values[:] = cells
    return values


def _as_features(features: Cells, source: str) -> Features:
    if features.ndim != 2 or not features.size or features.dtype.kind not in "biuf":
        shape = " x ".join(map(str, features.shape)) or "a single value"
        raise ValueError(f"{source}: features are {shape} of {features.dtype}: must be a table of numbers")
    with np.errstate(over="ignore"):
        return features.astype(np.float32, order="C")


def check_queries(names: Iterable[str], used: Collection[str], source: str) -> None:
    """Raise ValueError if a column that is not used otherwise looks like the query of each document."""
    for name in names:
        if name not in used and _QUERY.fullmatch(name):
            raise ValueError(
                f"{source}: no queries are given, but column '{excerpt(name)}' looks like the query of each "
                f"document: pass queries='{excerpt(name)}', or rename the column if it is a feature"
            )


def _check_column(values: NDArray[Any], name: str, rows: int, source: str) -> NDArray[Any]:
    if values.shape != (rows,):
        shape = " x ".join(map(str, values.shape)) or "a single value"
        raise ValueError(f"{source}: {name} are {shape}: must be {rows}, one for each document")
    if name != "relevance" and (gaps := missing_cells(values)).any():
        where = f"{pluralize(int(gaps.sum()), 'row')}, the first is row {gaps.argmax() + 1:,}"
        raise ValueError(f"{source}: {name} are missing in {where}: fill them in, or remove the rows")
    if name != "relevance" and values.dtype.kind in "OU":
        for row, value in enumerate(values.tolist()):
            if isinstance(value, str) and not _TEXT.fullmatch(value):
                text = excerpt(repr(value))
                raise ValueError(f"{source}: {name}: {text} in row {row + 1:,}: must be one line of Unicode text")
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
        rule = "relevance must be a number for every document, 0 or more"
        wrong = ~(values >= 0) if values.dtype.kind in "biuf" else np.ones(1, np.bool_)
        row = int(wrong.argmax())
        raise ValueError(f"{source}: {rule}; it is {excerpt(str(values[row]))} in row {row + 1:,}")
    whole = values.max() <= 255 and np.array_equal(values, np.rint(values))
    return values.astype(np.uint8 if whole else np.float32)
