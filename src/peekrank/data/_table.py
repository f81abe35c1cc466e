"""A table that lines of LETOR and SVMlight text are read into, and what is wrong with a line."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from peekrank._util.text import excerpt
from peekrank.data._lines import (
    AT,
    BLANK,
    BY_COMMENT,
    BY_GROUP,
    COLUMNS,
    COMMENTS,
    DONE,
    DOUBTFUL,
    FAULT,
    FEATURE,
    FIELDS,
    FROM_ZERO,
    LARGE,
    LONGER,
    MISSING,
    MIXED,
    NEED,
    NEGATIVE,
    PLACE,
    PRESENT,
    PREVIOUS,
    QUERY,
    RELEVANCE,
    RETURNED,
    ROWS,
    UNJUDGED,
    VALUE,
    WIDER,
    narrow_rows,
    parse_lines,
    spread_rows,
)
from peekrank.data._numbers import LARGEST, Bytes, nearest_float
from peekrank.data.dataset import Dataset, Provenance
from peekrank.types import Features, Ints

MOST_FEATURES = 1 << 20  # every document gets a number for each
_FIRST_ROWS = 64
_MARGIN = 1.05  # room is made by the bytes that rows took so far; later ones may be shorter
_GROWTH = 8  # a table that gets wider gets so by an eighth at least, and loses the rest in the end
_MARK = b"\xef\xbb\xbf"  # how texts of some editors begin
EXAMPLE = "2 qid:7 1:0.5 3:1e-2 # comment"
_SHOWN = 40  # characters of what is wrong
_DOCID = re.compile(rb"\bdocid\s*[=:]\s*(\S+)", re.I)
_ALONE = re.compile(rb"#\s*(\S+)\s*")


class Groups(NamedTuple):
    """How many documents each query has, by a file beside the text."""

    name: str
    sizes: Ints


class ReadOptions(NamedTuple):
    """What a reader wants: relevance in every line, ids of documents; and groups, if there is a file of them."""

    relevance: bool
    documents: bool
    groups: Groups | None


def document_id(comment: bytes) -> str:
    """The id of a document in the comment behind it: after ``docid =``, or the only word; else nothing.

    >>> document_id(b"#docid = GX00-1 inc = 1 prob = 0.5"), document_id(b"# d7"), document_id(b"# a comment")
    ('GX00-1', 'd7', '')
    """
    found = _DOCID.search(comment) or _ALONE.fullmatch(comment)
    return found[1].decode(errors="backslashreplace") if found else ""


class Table:
    """What is read so far, and room for more; rows of features are `width` apart."""

    def __init__(self, name: str, features: int | None, base: int | None, wants: ReadOptions) -> None:
        self.name, self.wanted, self.given, self.wants = name, features, base, wants
        self.base, self.width = (1 if base is None else base), features or 1
        self.features: Features = np.empty(0, np.float32)
        self.relevance: Features = np.empty(0, np.float32)
        self.queries: Ints = np.empty(0, np.int64)
        self.doubtful = np.empty((0, 4), np.int64)  # first and last byte, row, column or -1 for the relevance
        self.positions = np.empty((0, 2), np.int64)  # of the names of queries
        self.comments = np.empty((0, 2), np.int64)
        self.names: dict[int, str] = {}  # of queries whose id is no number
        self.documents: list[str] = []
        self.cursor = np.zeros(FIELDS, np.int64)
        self.cursor[UNJUDGED] = not wants.relevance
        self.cursor[PLACE] = BY_GROUP if wants.groups is not None else 0
        self.expected = 0.0  # rows in all

    @property
    def lines(self) -> int:
        """Number of lines that are read."""
        return int(self.cursor[ROWS] + self.cursor[BLANK] + self.cursor[COMMENTS])

    def add(self, text: Bytes, end: int, part: float) -> None:
        """Parse whole lines; with them, this part of the file is read."""
        if len(self.doubtful) < len(text) // 4:  # with its separators none is shorter than four bytes
            self.doubtful = np.empty((len(text) // 4, 4), np.int64)
        before = self.lines
        self.cursor[AT] = len(_MARK) if not before and text[: len(_MARK)].tobytes() == _MARK else 0
        stop = -1
        while stop != DONE:
            table = (self.features, self.relevance, self.queries, self.positions, self.comments)
            first = int(self.cursor[ROWS])
            stop = parse_lines(text, end, self.width, self.base, *table, self.doubtful, self.cursor)
            self._settle(text, before)
            self._note_names(text, first)
            if stop == LONGER:
                self._lengthen()
            elif stop == WIDER:
                self._widen()
            elif stop == FROM_ZERO and self.given is None:
                self._count_from_zero()
            elif stop != DONE:
                raise self._wrong(self.lines + 1, self._fault(stop, text) + self._hint(text, end))
        self.expected = self.cursor[ROWS] / part if part else 0.0

    def dataset(self, digest: str) -> Dataset:
        """All that was read."""
        rows, columns = int(self.cursor[ROWS]), self.wanted or int(self.cursor[COLUMNS])
        if not rows or not columns:
            what = "features" if rows else "documents"
            raise ValueError(f"{self.name}: holds no {what}; its lines must be like '{EXAMPLE}'")
        if columns < self.width:
            narrow_rows(self.features, rows, self.width, columns)
        self._resize(rows, columns)
        features, relevance = self.features.reshape(rows, columns), self.relevance
        by_group = self.cursor[PLACE] == BY_GROUP
        groups = _checked_groups(self.wants.groups, self.name, rows) if by_group else None
        if groups is not None:
            self.queries = np.repeat(np.arange(1, len(groups) + 1), groups)
        queries, offsets, order, scattered = gather_queries(self.queries)
        documents = tuple(self.documents) if any(self.documents) else ()
        if order is not None:
            features, relevance = features[order], relevance[order]
            documents = tuple(documents[row] for row in order) if documents else ()
        if relevance.max() <= 255 and np.array_equal(relevance, np.rint(relevance)):
            relevance = relevance.astype(np.uint8)
        warnings = {
            "blank_lines": int(self.cursor[BLANK]),
            "comment_lines": int(self.cursor[COMMENTS]),
            "missing_values": rows * columns - int(self.cursor[PRESENT]),
            "scattered_queries": scattered,
            "queries_in_comments": len(queries) if self.cursor[PLACE] == BY_COMMENT else 0,
            "queries_in_group_file": len(queries) if by_group else 0,
            "documents_without_relevance": rows if self.cursor[UNJUDGED] == MISSING else 0,
        }
        about = Provenance(self.name, digest, self.base, warnings=warnings)
        names = tuple(self.names.get(query, str(query)) for query in queries.tolist()) if self.names else ()
        if names:
            queries = np.arange(1, len(names) + 1)
        return Dataset(features, relevance, offsets, queries, about, names, documents)

    def _note_names(self, text: Bytes, first: int) -> None:
        """Keep the names of queries, and ids of documents, of the rows that were just read."""
        last = int(self.cursor[ROWS])
        for row in first + np.flatnonzero(self.positions[first:last, 0] >= 0):
            name = text[slice(*self.positions[row])].tobytes().decode(errors="backslashreplace")
            if self.names.setdefault(int(self.queries[row]), name) != name:
                raise ValueError(f"{self.name}: the queries '{excerpt(name)}' and another have the same checksum")
        if len(self.comments) and self.cursor[PLACE] != BY_COMMENT:
            ids = (document_id(text[a:b].tobytes()) for a, b in self.comments[first:last].tolist())
            self.documents.extend(ids)

    def _settle(self, text: Bytes, before: int) -> None:
        """Work out the numbers that float64 leaves in doubt."""
        for first, last, row, column in self.doubtful[: self.cursor[DOUBTFUL]].tolist():
            number = text[first:last].tobytes().decode()
            value = nearest_float(number)
            if not abs(value) <= LARGEST:
                raise self._wrong(before + text[:first].tobytes().count(b"\n") + 1, _too_large(number))
            if column < 0:
                self.relevance[row] = value
            else:
                self.features[row * self.width + column] = value
        self.cursor[DOUBTFUL] = 0

    def _lengthen(self) -> None:
        rows = int(self.cursor[ROWS])
        self._resize(max(_FIRST_ROWS, rows + rows // 2, int(self.expected * _MARGIN)), self.width)

    def _widen(self) -> None:
        need = int(self.cursor[NEED])
        if need > (self.wanted or MOST_FEATURES):
            raise self._wrong(self.lines + 1, self._too_many(need - 1 + self.base))
        width = min(max(need, self.width + self.width // _GROWTH), MOST_FEATURES)
        self._resize(len(self.relevance), width)
        spread_rows(self.features, int(self.cursor[ROWS]), self.width, width, 0)
        self.width = width

    def _count_from_zero(self) -> None:
        rows, columns = int(self.cursor[ROWS]), int(self.cursor[COLUMNS])
        if self.wanted == columns:
            reason = (
                f"feature id 0 makes ids start there, but {columns} was read before; {self._too_many(columns)}"
            )
            raise self._wrong(self.lines + 1, reason)
        width = self.wanted or self.width + 1
        self._resize(len(self.relevance), width)
        spread_rows(self.features, rows, self.width, width, 1)
        self.base, self.width = 0, width
        self.cursor[COLUMNS] += columns > 0

    def _resize(self, rows: int, width: int) -> None:
        try:
            self.features.resize(rows * width, refcheck=False)
            self.relevance.resize(rows, refcheck=False)
            self.queries.resize(rows, refcheck=False)
            self.positions.resize((rows, 2), refcheck=False)
            self.comments.resize((rows if self.wants.documents else 0, 2), refcheck=False)
        except MemoryError:
            size = rows * width * self.features.itemsize / 1e9
            text = f"{self.name}: about {rows:,} documents of {width:,} features take {size:,.1f} GB of memory"
            raise MemoryError(text) from None

    def _too_many(self, number: int) -> str:
        if self.wanted is None:
            return f"feature id {number} is too large: at most {MOST_FEATURES:,} features are read"
        last = self.wanted - 1 + self.base
        return f"feature id {number} is above {last}: features = {self.wanted} with ids from {self.base}"

    def _fault(self, stop: int, text: Bytes) -> str:
        """What is wrong at the cursor."""
        first = int(self.cursor[FAULT])
        token = re.split(rb"[ \t\r\n#]", text[first : first + 4 * _SHOWN].tobytes(), maxsplit=1)[0]
        shown = excerpt(token.decode(errors="backslashreplace"), _SHOWN)
        number, _, value = shown.partition(":")
        if stop == RELEVANCE:
            if re.search(r"[,;]", shown):
                return f"'{shown}' looks like a line of a table: read it with pandas or polars, and use Dataset.of"
            if not shown.startswith("qid:"):
                return f"relevance '{shown}' is not a finite number; a line is like '{EXAMPLE}'"
            return f"there is no relevance before '{shown}'; only `peekrank rank` takes documents without"
        if stop == MIXED:
            has = (
                "has no relevance, and those before have"
                if ":" in shown
                else "has relevance, and those before do not"
            )
            return f"this line {has}"
        if stop == NEGATIVE:
            return f"relevance '{shown}' has a minus sign; it must be 0 or more"
        if stop == QUERY and number == "qid":
            if value:
                return f"'{shown}' comes after lines without qid:, whose queries are in a group file"
            return "there is nothing after qid:, where the number or name of the query must be"
        if stop == QUERY and self.cursor[PLACE] == BY_COMMENT:
            return "expected nothing but the number of the query as comment, as in the lines before"
        if stop == QUERY:
            found = f"'{shown}'" if shown else "nothing"
            return f"expected qid:N after the relevance, found {found}; a line is like '{EXAMPLE}'"
        if stop == FEATURE:
            return f"'{shown}' is not a feature like 3:0.5, with a whole number as id"
        if stop == VALUE:
            return f"feature {number} has the value '{value}', which is not a finite number"
        if stop == LARGE:
            return _too_large(value or shown)
        if stop == RETURNED:
            return "the comment goes on after a carriage return"
        if stop == FROM_ZERO:
            return "feature id 0, but base = 1 says that ids start from 1"
        previous = int(self.cursor[PREVIOUS])
        fault = "comes twice" if int(number) == previous else f"comes after {previous}"
        return f"feature id {number} {fault}; ids must ascend"

    def _hint(self, text: Bytes, end: int) -> str:
        """What to say of lines that end in a carriage return alone, and are read as one line."""
        line = text[self.cursor[AT] : end].tobytes().partition(b"\n")[0]
        returned = re.search(rb"\r[^ \t\r]", line)
        return "; lines must end in LF or CRLF, and here is a CR alone" if returned else ""

    def _wrong(self, line: int, what: str) -> ValueError:
        return ValueError(f"{self.name}, line {line}: {what}")


def _too_large(number: str) -> str:
    return f"{number[:_SHOWN]} is too large for float32, which ends at {LARGEST:.4g}"


def _checked_groups(groups: Groups | None, name: str, rows: int) -> Ints | None:
    """The sizes of the groups, if they are those of so many documents."""
    if groups is not None and groups.sizes.sum() != rows:
        there = f"its {len(groups.sizes):,} queries have {groups.sizes.sum():,} documents"
        raise ValueError(f"{groups.name}: {there}, but {name} has {rows:,}")
    return None if groups is None else groups.sizes


def gather_queries(query_of: Ints) -> tuple[Ints, Ints, Ints | None, int]:
    """Ids of queries by first appearance, offsets, the order that brings each together, and how many need it."""
    starts = np.concatenate(([0], np.flatnonzero(query_of[1:] != query_of[:-1]) + 1))
    ends = np.append(starts[1:], len(query_of))
    runs = query_of[starts]
    queries, first, which, count = np.unique(runs, return_index=True, return_inverse=True, return_counts=True)
    if len(queries) == len(runs):
        return runs, np.append(0, ends), None, 0
    by_appearance = np.argsort(first)
    position = np.empty_like(by_appearance)
    position[by_appearance] = np.arange(len(first))
    position_of = np.repeat(position[which], ends - starts)
    offsets = np.append(0, np.cumsum(np.bincount(position_of)))
    order = np.argsort(position_of, kind="stable")
    return queries[by_appearance], offsets, order, int(np.count_nonzero(count > 1))
