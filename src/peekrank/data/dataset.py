"""Data sets of judged documents with features, grouped by query, and their descriptions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.text import excerpt, pluralize
from peekrank.data.columns import Column, feature_names
from peekrank.data.feature_stats import feature_stats
from peekrank.types import Features, Ints, Rounds

_MAX_GRADES = 20  # more distinct values of relevance are not counted one by one


@dataclass(frozen=True)
class Provenance:
    """The origin of a data set, and the transformations applied to it.

    Parameters
    ----------
    source
        Name of the file it was read from, or how it was generated.
    digest
        SHA-256 of the uncompressed text; empty for generated data.
    base
        The smallest possible feature id, 0 or 1. Column j holds feature ``base + j``.
    scaling
        Scaling of the features: none, query, global or robust.
    fitted_on
        For global and robust scaling, the digest (or else the source) of the data that the statistics come from.
    rounded
        Whether real-valued relevance was rounded to grades.
    warnings
        Counts of unusual things that the reader found, such as ``blank_lines``.
    columns
        The columns of the table that the features were made of, if they had names.
    """

    source: str
    digest: str = ""
    base: int = 1
    scaling: str = "none"
    fitted_on: str = ""
    rounded: bool = False
    warnings: dict[str, int] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, if the columns had names."""
        return feature_names(self.columns)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. Without named columns, ``columns`` is left out."""
        return {name: value for name, value in asdict(self).items() if name != "columns" or value}

    def feature(self, column: int) -> str:
        """Return the name of a feature, given by its index, or else its id."""
        return f"'{excerpt(self.feature_names[column])}'" if self.columns else str(self.base + column)


class Dataset(NamedTuple):
    """Judged documents. Those of query q are rows ``offsets[q]:offsets[q + 1]`` of features and relevance.

    Relevance is uint8 if all of it is whole numbers from 0 to 255, and float32 otherwise. ``queries`` holds the
    ids of the queries, ordered by first document. If these are not whole numbers of at most 18 digits, ``names``
    holds them, and ``queries`` counts from 1. ``documents`` holds the ids of the documents, if any are known.

    >>> features = np.zeros((3, 2), np.float32)
    >>> relevance, offsets = np.array([1, 0, 2], np.uint8), np.array([0, 2, 3])
    >>> data = Dataset(features, relevance, offsets, np.array([7, 4]), Provenance("x"))
    >>> data.rounds().relevance is data.relevance
    True
    """

    features: Features
    relevance: NDArray[Any]
    offsets: Ints
    queries: Ints
    about: Provenance
    names: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()

    @staticmethod
    def of(
        table: Any,
        relevance: Any = None,
        queries: Any = None,
        *,
        documents: Any = None,
        features: Sequence[str] | None = None,
        categories: Collection[str] = (),
        missing: str = "reject",
        columns: Sequence[Column] = (),
        source: str = "a table",
    ) -> Dataset:
        """Make a data set from arrays or a data frame; see `peekrank.data.tables.dataset_of`.

        ``features``, ``categories``, ``missing`` and ``columns`` are the fields of its ``choice``.

        >>> data = Dataset.of([[0.5, 1], [2, 0], [1, 1]], relevance=[1, 0, 2], queries=["b", "a", "b"])
        >>> data.relevance, data.names
        (array([1, 2, 0], dtype=uint8), ('b', 'a'))
        """
        from peekrank.data.tables import Choice, dataset_of

        choice = Choice(features, categories, missing, columns)
        return dataset_of(table, relevance, queries, documents=documents, choice=choice, source=source)

    def __repr__(self) -> str:
        """Return the source and the sizes, without the data.

        >>> Dataset.of([[0.5, 1], [2, 0], [1, 1]], relevance=[1, 0, 2], queries=["b", "a", "b"])
        <Dataset of a table: 2 queries, 3 documents, 2 features, relevance 0 to 2>
        """
        return f"<Dataset of {excerpt(self.about.source)}: {', '.join(self._sizes())}>"

    def _repr_html_(self) -> str:
        """Return the source and the sizes, for notebooks."""
        rows = "".join(f"<li>{text}</li>" for text in self._sizes())
        return f"<div><b>Dataset</b> of {escape(excerpt(self.about.source))}<ul>{rows}</ul></div>"

    def _sizes(self) -> tuple[str, ...]:
        documents, features = self.features.shape
        return (
            pluralize(len(self.queries), "query", "queries"),
            pluralize(documents, "document"),
            pluralize(features, "feature"),
            f"relevance {self.relevance.min():g} to {self.relevance.max():g}",
        )

    def query_name(self, query: int) -> str:
        """Return the name or id of a query, given by its index."""
        return self.names[query] if self.names else str(self.queries[query])

    def rounds(self) -> Rounds:
        """Return each query as a round, without copying. Raises ValueError if relevance is real-valued."""
        if self.relevance.dtype != np.uint8:
            raise ValueError(
                f"{self.about.source}: relevance is real-valued, but rounds need grades 0 to 255; "
                "call graded() to round it"
            )
        return Rounds(self.features, self.relevance, self.offsets)

    def graded(self) -> Dataset:
        """Round relevance to the nearest grade, halves to the even one. ``about`` records it."""
        if self.relevance.dtype == np.uint8:
            return self
        grades = np.rint(self.relevance)
        if not 0 <= grades.min() <= grades.max() <= 255:
            low, high = self.relevance.min(), self.relevance.max()
            raise ValueError(f"{self.about.source}: relevance from {low:g} to {high:g}: must be within 0 to 255")
        return self._replace(relevance=grades.astype(np.uint8), about=replace(self.about, rounded=True))

    def select(self, queries: Ints) -> Dataset:
        """Return a data set with the queries of these indices, in this order."""
        lengths = np.diff(self.offsets)[queries]
        offsets = np.append(0, np.cumsum(lengths))
        rows = np.repeat(self.offsets[queries] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return self._replace(
            features=self.features[rows],
            relevance=self.relevance[rows],
            offsets=offsets,
            queries=self.queries[queries],
            names=tuple(self.names[query] for query in queries) if self.names else (),
            documents=tuple(self.documents[row] for row in rows) if self.documents else (),
        )


class Description(NamedTuple):
    """Statistics of a data set.

    ``lengths`` are the smallest, the median and the largest number of documents of a query. A feature is used if
    it is not 0 everywhere. ``grades`` counts the documents of each relevance; it is empty if relevance has more
    than 20 distinct values. ``warnings`` are counts. ``heavy_tailed`` and ``badly_scaled`` are indices of columns,
    as defined in `peekrank.data.feature_stats`.
    """

    queries: int
    documents: int
    lengths: tuple[int, float, int]
    features: int
    used: int
    constant: int
    smallest: float
    largest: float
    least_relevance: float
    most_relevance: float
    grades: dict[str, int]
    warnings: dict[str, int]
    heavy_tailed: list[int]
    badly_scaled: list[int]
    about: Provenance

    def as_dict(self) -> dict[str, Any]:
        """Return the description as plain values for JSON."""
        return {**self._asdict(), "about": self.about.as_dict()}


def describe(data: Dataset) -> Description:
    """Count queries, documents, features, grades and warnings.

    >>> features = np.array([[1, 5], [0, 5], [0, 5]], np.float32)
    >>> relevance, offsets = np.array([1, 0, 0], np.uint8), np.array([0, 2, 3])
    >>> description = describe(Dataset(features, relevance, offsets, np.array([7, 4]), Provenance("x")))
    >>> description.documents, description.constant, description.warnings["single_document_queries"]
    (3, 1, 1)
    """
    lengths = np.diff(data.offsets)
    low = np.minimum.reduceat(data.relevance, data.offsets[:-1])
    high = np.maximum.reduceat(data.relevance, data.offsets[:-1])
    least, most = column_ranges(data.features)
    stats = feature_stats(data.features)
    grades, counts = np.unique(data.relevance, return_counts=True)
    return Description(
        queries=len(lengths),
        documents=len(data.relevance),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        features=len(least),
        used=int(np.count_nonzero((least != 0) | (most != 0))),
        constant=int(np.count_nonzero(least == most)),
        smallest=float(least.min()),
        largest=float(most.max()),
        least_relevance=float(grades[0]),
        most_relevance=float(grades[-1]),
        grades={f"{grade:g}": int(count) for grade, count in zip(grades, counts, strict=True)}
        if len(grades) <= _MAX_GRADES
        else {},
        warnings={
            **data.about.warnings,
            "single_document_queries": int(np.count_nonzero(lengths == 1)),
            "all_zero_queries": int(np.count_nonzero(high == 0)),
            "all_equal_queries": int(np.count_nonzero((low == high) & (high > 0) & (lengths > 1))),
            "duplicate_documents": _duplicates(data),
        },
        heavy_tailed=stats.heavy_tailed().tolist(),
        badly_scaled=stats.badly_scaled().tolist(),
        about=data.about,
    )


def check_finite(data: Dataset, name: str) -> None:
    """Raise ValueError naming the first document with a feature or relevance that is not finite.

    >>> features = np.array([[1, 5], [0, np.nan]], np.float32)
    >>> data = Dataset(features, np.array([1, 0], np.uint8), np.array([0, 2]), np.array([7]), Provenance("x"))
    >>> check_finite(data, "x.peek")
    Traceback (most recent call last):
    ValueError: x.peek: query 7, document 2: feature 2 is nan: must be a number up to 3.4e38
    """
    row = _first_not_finite(data.features)
    if row >= 0:
        column = int(np.flatnonzero(~np.isfinite(data.features[row]))[0])
        field, value = f"feature {data.about.feature(column)}", data.features[row, column]
    else:
        rows = np.flatnonzero(~np.isfinite(data.relevance))
        if not len(rows):
            return
        row = int(rows[0])
        field, value = "relevance", data.relevance[row]
    query = int(np.searchsorted(data.offsets, row, side="right")) - 1
    location = f"query {excerpt(data.query_name(query))}, document {row - data.offsets[query] + 1}"
    raise ValueError(f"{name}: {location}: {field} is {value}: must be a number up to 3.4e38")


def column_ranges(features: Features) -> tuple[Features, Features]:
    """Compute the smallest and the largest value of each column."""
    least, most = features[0].copy(), features[0].copy()
    widen_ranges(features, least, most)
    return least, most


@kernel
def widen_ranges(features: Features, least: Features, most: Features) -> None:
    """Extend the range of each column to include all rows."""
    for row in range(len(features)):
        for column in range(len(least)):
            value = features[row, column]
            least[column] = value if value < least[column] else least[column]
            most[column] = value if value > most[column] else most[column]


@kernel
def _first_not_finite(features: Features) -> int:
    """Return the first row with a value that is not finite, or -1."""
    for row in range(len(features)):
        finite = True
        for column in range(features.shape[1]):
            finite &= np.abs(features[row, column]) < np.inf
        if not finite:
            return row
    return -1


def _duplicates(data: Dataset) -> int:
    """Count the documents with the same features as an earlier one of their query."""
    hashes = np.empty(len(data.features), np.uint64)
    _hash_rows(data.features.view(np.uint32), hashes)
    query_index = np.repeat(np.arange(len(data.queries)), np.diff(data.offsets))
    order = np.lexsort((hashes, query_index))
    earlier, later = order[:-1], order[1:]
    alike = np.flatnonzero((hashes[earlier] == hashes[later]) & (query_index[earlier] == query_index[later]))
    same = sum(np.array_equal(data.features[earlier[i]], data.features[later[i]]) for i in alike)
    return int(same)


@kernel
def _hash_rows(words: NDArray[np.uint32], hashes: NDArray[np.uint64]) -> None:
    odd = np.uint64(0x9E3779B97F4A7C15)
    for row in range(len(words)):
        value = np.uint64(0)
        for column in range(words.shape[1]):
            value = (value ^ np.uint64(words[row, column])) * odd
            value ^= value >> np.uint64(29)
        hashes[row] = value
