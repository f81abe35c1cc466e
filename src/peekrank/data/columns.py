"""The feature columns of tables: their names, what replaces missing values, and their categories."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from peekrank._util.text import excerpt, pluralize
from peekrank._util.untrusted_files import check_memory
from peekrank.spec import suggest
from peekrank.types import Features

MAX_CATEGORIES = 1000  # of a column; each is a feature
_MAX_COLUMNS = 1 << 20  # features are dense
_LARGEST = float(np.finfo(np.float32).max)
_MAX_NAMED = 5  # columns that a message names
Cells = NDArray[Any]


@dataclass(frozen=True)
class Column:
    """A column of a table, and the features that are made of it.

    Parameters
    ----------
    name
        Its name.
    filled
        Whether it may have missing values: numbers become the median, and texts no category.
    median
        The median of the training part, if it is filled.
    indicator
        Whether a second feature is 1 where the value is missing. It exists if the training part has such rows.
    categories
        If the column holds texts: those of the training part, each a feature that is 0 or 1.
    """

    name: str
    filled: bool = False
    median: float = 0.0
    indicator: bool = False
    categories: tuple[str, ...] | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features.

        >>> Column("stars", filled=True, indicator=True).features, Column("brand", categories=("a", "b")).features
        (('stars', 'stars is missing'), ('brand = a', 'brand = b'))
        """
        values = (self.name,) if self.categories is None else (f"{self.name} = {c}" for c in self.categories)
        return (*values, *((f"{self.name} is missing",) if self.indicator else ()))


class Filled(NamedTuple):
    """Features, and how many values were missing and were replaced, and how many had no known category."""

    features: Features
    filled: int
    unseen: int


def fit_columns(
    parts: dict[str, Cells], categories: Collection[str], missing: str, source: str
) -> tuple[Column, ...]:
    """Decide how to convert the columns of a training part. With ``missing="median"``, compute the medians.

    >>> fit_columns({"a": np.array([1, np.nan, 4, 9])}, (), "median", "x")
    (Column(name='a', filled=True, median=4.0, indicator=True, categories=None),)
    """
    if missing not in ("reject", "median"):
        raise ValueError(f"missing = '{excerpt(str(missing))}': must be 'reject' or 'median'")
    made = []
    for name, values in parts.items():
        gaps, filled = missing_cells(values), missing == "median"
        found: dict[str, Any] = {"filled": filled, "indicator": filled and bool(gaps.any())}
        if name in categories:
            known = {_category(value) for value in values[~gaps].tolist()}
            if not 1 <= len(known) <= MAX_CATEGORIES:
                raise ValueError(
                    f"{source}: column '{excerpt(name)}' has {len(known):,} categories: must have 1 to "
                    f"{MAX_CATEGORIES:,}; merge rare ones, or leave it out"
                )
            found["categories"] = tuple(sorted(known))
        elif filled:
            found["median"] = _median(values[~gaps] if gaps.any() else values, name, source)
        made.append(Column(name, **found))
    return tuple(made)


def make_features(parts: dict[str, Cells], columns: Sequence[Column], source: str) -> Filled:
    """Make the features of all rows. Empties `parts`, so that a column is in memory once.

    Raises ValueError if values are missing in columns that are not filled. Warns of categories that are not known.
    """
    rows = len(next(iter(parts.values())))
    width = sum(len(column.features) for column in columns)
    if why := check_memory(4 * rows * width, sum(parts[column.name].nbytes for column in columns)):
        raise ValueError(f"{source}: its {width:,} features {why}, with so many categories")
    _reject_gaps(parts, columns, source)
    features = np.zeros((rows, width), np.float32)
    at, filled, unseen = 0, 0, 0
    for column in columns:
        values = parts.pop(column.name)
        gaps = missing_cells(values)
        filled += int(np.count_nonzero(gaps))
        if column.categories is None:
            with np.errstate(over="ignore"):
                features[:, at] = values
            features[gaps, at] = column.median
        else:
            unseen += _fill_categories(features[:, at : at + len(column.categories)], values, gaps, column, source)
        at += len(column.features)
        if column.indicator:
            features[:, at - 1] = gaps
    return Filled(features, filled, unseen)


def select_columns(parts: dict[str, Cells], columns: Sequence[Column], source: str) -> dict[str, Cells]:
    """Return the columns of the training part, in its order. Raises ValueError if one is missing or of no use."""
    for column in columns:
        if column.name not in parts:
            raise ValueError(
                f"{source}: has no column '{excerpt(column.name)}', a feature of the training part: "
                f"{suggest(column.name, parts)}"
            )
    check_numbers(parts, [column.name for column in columns if column.categories is None], source)
    return {column.name: parts[column.name] for column in columns}


def check_numbers(parts: dict[str, Cells], names: Iterable[str], source: str) -> None:
    """Raise ValueError if one of the columns does not hold numbers."""
    for name in names:
        if parts[name].dtype.kind not in "biuf":
            problem = f"column '{excerpt(name)}' does not hold numbers"
            raise ValueError(
                f"{source}: {problem}; remove it, or name it as queries, documents or one of the categories"
            )


def missing_cells(values: Cells) -> NDArray[np.bool_]:
    """Return which values are missing: NaN in numbers, None, NaN or nothing in texts.

    >>> missing_cells(np.array([1, np.nan])), missing_cells(np.array(["a", None, ""], object))
    (array([False,  True]), array([False,  True,  True]))
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "biu":
        return np.zeros(len(values), np.bool_)
    return np.fromiter((_is_missing(value) for value in values.tolist()), np.bool_, len(values))


def feature_names(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of the features of all columns, in order."""
    return tuple(name for column in columns for name in column.features)


def columns_as_json(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Return columns as plain values."""
    return [asdict(column) for column in columns]


def columns_from_json(value: Any, features: int) -> tuple[Column, ...]:
    """Read the columns of a file with so many features. Raises ValueError unless all fields have their types."""
    try:
        columns = tuple(_column_from_json(part) for part in value)
    except (TypeError, KeyError):
        raise ValueError("has columns that are not valid") from None
    names = [column.name for column in columns]
    if columns and (len(set(names)) < len(names) or len(feature_names(columns)) != features):
        raise ValueError(f"has columns that occur twice, or that are not {features} features")
    return columns


def _column_from_json(part: dict[str, Any]) -> Column:
    """Return a column. Raises TypeError or KeyError if a field is missing or wrong."""
    name, filled, median, indicator, categories = (part[field] for field in Column.__dataclass_fields__)
    texts = [] if categories is None else categories
    fits = (
        len(part) == len(Column.__dataclass_fields__)
        and type(filled) is type(indicator) is bool
        and type(median) in (int, float)
        and abs(median) <= _LARGEST
        and isinstance(texts, list)
        and all(isinstance(text, str) for text in (name, *texts))
        and len(texts) <= MAX_CATEGORIES
        and len(set(texts)) == len(texts)
        and categories != []
    )
    if not fits:
        raise TypeError
    return Column(name, filled, median, indicator, None if categories is None else tuple(texts))


def _reject_gaps(parts: dict[str, Cells], columns: Sequence[Column], source: str) -> None:
    """Raise ValueError naming the columns with missing values that are not filled, how many, and the first row."""
    found = []
    for column in columns:
        if not column.filled and (gaps := missing_cells(parts[column.name])).any():
            where = f"{np.count_nonzero(gaps):,}, the first in row {int(gaps.argmax()) + 1:,}"
            found.append(f"column '{excerpt(column.name)}' ({where})")
    if found:
        more = f" and {len(found) - _MAX_NAMED:,} more" if len(found) > _MAX_NAMED else ""
        raise ValueError(
            f"{source}: has missing values (empty, null or NaN) in {', '.join(found[:_MAX_NAMED])}{more}; "
            'fill them in, leave the column out, or set missing = "median" (--missing median) to train'
        )


def _fill_categories(features: Features, values: Cells, gaps: Cells, column: Column, source: str) -> int:
    """Set the feature of each row's category to 1. Return how many rows have a category that is not known."""
    number = {category: i for i, category in enumerate(column.categories or ())}
    codes = np.array([number.get(_category(value), -1) for value in values.tolist()], np.int64)
    codes[gaps] = -1
    known = np.flatnonzero(codes >= 0)
    features[known, codes[known]] = 1
    unseen = np.flatnonzero((codes < 0) & ~gaps)
    if len(unseen):
        example = excerpt(_category(values[unseen[0]]))
        warn(
            f"{source}: column '{excerpt(column.name)}' has categories that the training part does not have in "
            f"{pluralize(len(unseen), 'row')}, first '{example}' in row {unseen[0] + 1:,}; their features are 0",
            stacklevel=2,
        )
    return len(unseen)


def _median(values: Cells, name: str, source: str) -> float:
    if not len(values):
        raise ValueError(f"{source}: column '{excerpt(name)}' has no value, so there is no median; leave it out")
    with np.errstate(over="ignore"):
        median = float(str(np.median(values.astype(np.float32))))  # with as many digits as float32 has
    if not abs(median) <= _LARGEST:
        raise ValueError(
            f"{source}: the median of column '{excerpt(name)}' is {median}, which float32 cannot hold"
        )
    return median


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _category(value: Any) -> str:
    """Return a value as a category. A whole number is the same as an integer and as a float.

    >>> _category(3), _category(3.0), _category(0.5), _category("a")
    ('3', '3', '0.5', 'a')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
