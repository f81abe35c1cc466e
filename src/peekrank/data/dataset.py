"""Judged documents with features, query by query, and what there is to say about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.data.feature_stats import feature_stats
from peekrank.types import Features, Ints, Rounds

_MOST_GRADES = 20  # if relevance has more different values, they are not counted one by one


@dataclass(frozen=True)
class Provenance:
    """Where a data set comes from, and what was done to it.

    Parameters
    ----------
    source
        Name of the file it was read from, or how it was generated.
    digest
        SHA-256 of the text that was read, uncompressed; empty for generated data.
    base
        The smallest id a feature can have in the text, 0 or 1: column j holds feature ``base + j``.
    scaling
        What was done to the features: none, query, global or robust.
    fitted_on
        For global and robust scaling, the digest, or else the source, of the data that its statistics come from.
    rounded
        Whether real-valued relevance was rounded to grades.
    warnings
        How often the reader met something worth knowing, such as ``blank_lines``.
    """

    source: str
    digest: str = ""
    base: int = 1
    scaling: str = "none"
    fitted_on: str = ""
    rounded: bool = False
    warnings: dict[str, int] = field(default_factory=dict)


class Dataset(NamedTuple):
    """Judged documents: those of query q are rows ``offsets[q]:offsets[q + 1]`` of features and relevance.

    Relevance is uint8 where all of it is whole numbers from 0 to 255, and float32 otherwise. ``queries`` holds the
    ids of the queries, in the order of their first documents; where these are no whole numbers of 18 digits at
    most, it counts from 1, and ``names`` has them. ``documents`` has the ids of documents, if any are known.

    >>> features = np.zeros((3, 2), np.float32)
    >>> data = Dataset(features, np.array([1, 0, 2], np.uint8), np.array([0, 2, 3]), np.array([7, 4]), Provenance("x"))
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
        table: Any, relevance: Any = None, queries: Any = None, *, documents: Any = None, source: str = "a table"
    ) -> Dataset:
        """A data set from arrays, or from a data frame of pandas or polars; see `peekrank.data.tables.dataset_of`.

        >>> data = Dataset.of([[0.5, 1], [2, 0], [1, 1]], relevance=[1, 0, 2], queries=["b", "a", "b"])
        >>> data.relevance, data.names
        (array([1, 2, 0], dtype=uint8), ('b', 'a'))
        """
        from peekrank.data.tables import dataset_of

        return dataset_of(table, relevance, queries, documents=documents, source=source)

    def query_name(self, query: int) -> str:
        """What the query of this number, from 0, is called."""
        return self.names[query] if self.names else str(self.queries[query])

    def rounds(self) -> Rounds:
        """Each query as a round, in this order, without a copy; real-valued relevance is a ValueError."""
        if self.relevance.dtype != np.uint8:
            raise ValueError(
                f"{self.about.source}: relevance is real-valued, but rounds have grades 0 to 255; "
                "graded() rounds it to these"
            )
        return Rounds(self.features, self.relevance, self.offsets)

    def graded(self) -> Dataset:
        """The same with relevance rounded to the nearest grade, halves to the even one; ``about`` says so."""
        if self.relevance.dtype == np.uint8:
            return self
        grades = np.rint(self.relevance)
        if not 0 <= grades.min() <= grades.max() <= 255:
            low, high = self.relevance.min(), self.relevance.max()
            raise ValueError(f"{self.about.source}: relevance from {low:g} to {high:g}: must be within 0 to 255")
        return self._replace(relevance=grades.astype(np.uint8), about=replace(self.about, rounded=True))

    def select(self, queries: Ints) -> Dataset:
        """Some of the queries, by number from 0, in this order."""
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
    """What `describe` counts.

    ``lengths`` are the smallest, the median and the largest number of documents of a query. A feature is used if
    it is not 0 everywhere. ``grades`` says how many documents have each relevance; it is empty if there are too
    many different ones. The warnings are counts, explained on the page on data. ``heavy_tailed`` and
    ``badly_scaled`` are columns, from 0, of which `peekrank.data.feature_stats` tells more.
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
        """The same as plain values, which JSON can hold."""
        return {**self._asdict(), "about": asdict(self.about)}


def describe(data: Dataset) -> Description:
    """Count queries, documents, features, grades and warnings.

    >>> features = np.array([[1, 5], [0, 5], [0, 5]], np.float32)
    >>> data = Dataset(features, np.array([1, 0, 0], np.uint8), np.array([0, 2, 3]), np.array([7, 4]), Provenance("x"))
    >>> found = describe(data)
    >>> found.documents, found.constant, found.warnings["single_document_queries"]
    (3, 1, 1)
    """
    lengths = np.diff(data.offsets)
    low = np.minimum.reduceat(data.relevance, data.offsets[:-1])
    high = np.maximum.reduceat(data.relevance, data.offsets[:-1])
    least, most = column_ranges(data.features)
    columns = feature_stats(data.features)
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
        if len(grades) <= _MOST_GRADES
        else {},
        warnings={
            **data.about.warnings,
            "single_document_queries": int(np.count_nonzero(lengths == 1)),
            "all_zero_queries": int(np.count_nonzero(high == 0)),
            "all_equal_queries": int(np.count_nonzero((low == high) & (high > 0) & (lengths > 1))),
            "duplicate_documents": _duplicates(data),
        },
        heavy_tailed=columns.heavy_tailed().tolist(),
        badly_scaled=columns.badly_scaled().tolist(),
        about=data.about,
    )


def check_finite(data: Dataset, name: str) -> None:
    """Raise a ValueError that names the first document with a feature or relevance that is not finite.

    >>> features = np.array([[1, 5], [0, np.nan]], np.float32)
    >>> data = Dataset(features, np.array([1, 0], np.uint8), np.array([0, 2]), np.array([7]), Provenance("x"))
    >>> check_finite(data, "x.peek")
    Traceback (most recent call last):
    ValueError: x.peek: query 7, document 2: feature 2 is nan, which is not finite
    """
    row = _first_not_finite(data.features)
    if row >= 0:
        column = int(np.flatnonzero(~np.isfinite(data.features[row]))[0])
        what, value = f"feature {data.about.base + column}", data.features[row, column]
    else:
        strange = np.flatnonzero(~np.isfinite(data.relevance))
        if not len(strange):
            return
        row = int(strange[0])
        what, value = "relevance", data.relevance[row]
    query = int(np.searchsorted(data.offsets, row, side="right")) - 1
    position = f"query {data.query_name(query)}, document {row - data.offsets[query] + 1}"
    raise ValueError(f"{name}: {position}: {what} is {value}, which is not finite")


def column_ranges(features: Features) -> tuple[Features, Features]:
    """The smallest and the largest value of each column."""
    least, most = features[0].copy(), features[0].copy()
    widen_ranges(features, least, most)
    return least, most


@kernel
def widen_ranges(features: Features, least: Features, most: Features) -> None:
    """Make the range of each column include all rows."""
    for row in range(len(features)):
        for column in range(len(least)):
            value = features[row, column]
            least[column] = value if value < least[column] else least[column]
            most[column] = value if value > most[column] else most[column]


@kernel
def _first_not_finite(features: Features) -> int:
    """The first such row, or -1."""
    for row in range(len(features)):
        finite = True
        for column in range(features.shape[1]):
            finite &= np.abs(features[row, column]) < np.inf
        if not finite:
            return row
    return -1


def _duplicates(data: Dataset) -> int:
    """How many documents have the same features as an earlier one of their query."""
    hashes = np.empty(len(data.features), np.uint64)
    _hash_rows(data.features.view(np.uint32), hashes)
    query_of = np.repeat(np.arange(len(data.queries)), np.diff(data.offsets))
    order = np.lexsort((hashes, query_of))
    earlier, later = order[:-1], order[1:]
    alike = np.flatnonzero((hashes[earlier] == hashes[later]) & (query_of[earlier] == query_of[later]))
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
