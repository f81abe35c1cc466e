"""The growing table that lines of LETOR and SVMlight text are parsed into, and error messages for lines."""

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
    FAULT,
    FEATURE,
    FIELDS,
    FROM_ZERO,
    INEXACT,
    LARGE,
    LONGER,
    MISSING,
    MIXED,
    NEED,
    NEGATIVE,
    PRESENT,
    PREVIOUS,
    QUERY,
    QUERY_BY,
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

MAX_FEATURES = 1 << 20  # the table is dense
_FIRST_ROWS = 64
_MARGIN = 1.05  # the estimate of the number of rows may be too low
_GROWTH = 8  # a table grows by at least an eighth in width, and shrinks at the end
_MARK = b"\xef\xbb\xbf"  # byte order mark of some editors
EXAMPLE = "2 qid:7 1:0.5 3:1e-2 # comment"
_MAX_SHOWN = 40  # characters of an invalid token
_DOCID = re.compile(rb"\bdocid\s*[=:]\s*(\S+)", re.I)
_ALONE = re.compile(rb"#\s*(\S+)\s*")


class Groups(NamedTuple):
    """The number of documents of each query, from a group file."""

    name: str
    sizes: Ints


class ReadOptions(NamedTuple):
    """Whether every line needs relevance, whether to keep document ids, and the groups, if there are any."""

    relevance: bool
    documents: bool
    groups: Groups | None


def document_id(comment: bytes) -> str:
    """Extract the id of a document from its comment: after ``docid =``, or the only word. Otherwise, it is empty.

    >>> document_id(b"#docid = GX00-1 inc = 1 prob = 0.5"), document_id(b"# d7"), document_id(b"# a comment")
    ('GX00-1', 'd7', '')
    """
    match = _DOCID.search(comment) or _ALONE.fullmatch(comment)
    return match[1].decode(errors="backslashreplace") if match else ""


class Table:
    """The rows that are read so far, and space for more. Rows of features are `width` numbers long."""

    def __init__(self, name: str, features: int | None, base: int | None, options: ReadOptions) -> None:
        self.name, self.n_features, self.fixed_base, self.options = name, features, base, options
        self.base, self.width = (1 if base is None else base), features or 1
        self.features: Features = np.empty(0, np.float32)
        self.relevance: Features = np.empty(0, np.float32)
        self.queries: Ints = np.empty(0, np.int64)
        self.inexact = np.empty((0, 4), np.int64)  # start, end, row, column (-1 for relevance)
        self.positions = np.empty((0, 2), np.int64)  # of the names of queries
        self.comments = np.empty((0, 2), np.int64)
        self.names: dict[int, str] = {}  # of queries whose id is not a number
        self.documents: list[str] = []
        self.cursor = np.zeros(FIELDS, np.int64)
        self.cursor[UNJUDGED] = not options.relevance
        self.cursor[QUERY_BY] = BY_GROUP if options.groups is not None else 0
        self.expected = 0.0  # estimated number of rows

    @property
    def lines(self) -> int:
        """The number of lines read so far."""
        return int(self.cursor[ROWS] + self.cursor[BLANK] + self.cursor[COMMENTS])

    def add(self, text: Bytes, end: int, part: float) -> None:
        """Parse whole lines. `part` is the fraction of the file that is read after them."""
        if len(self.inexact) < len(text) // 4:  # a number with its separators has at least four bytes
            self.inexact = np.empty((len(text) // 4, 4), np.int64)
        before = self.lines
        self.cursor[AT] = len(_MARK) if not before and text[: len(_MARK)].tobytes() == _MARK else 0
        stop = -1
        while stop != DONE:
            table = (self.features, self.relevance, self.queries, self.positions, self.comments)
            first = int(self.cursor[ROWS])
            stop = parse_lines(text, end, self.width, self.base, *table, self.inexact, self.cursor)
            self._compute_exactly(text, before)
            self._note_names(text, first)
            if stop == LONGER:
                self._lengthen()
            elif stop == WIDER:
                self._widen()
            elif stop == FROM_ZERO and self.fixed_base is None:
                self._count_from_zero()
            elif stop != DONE:
                raise self._error(self.lines + 1, self._describe(stop, text) + self._hint(text, end))
        self.expected = self.cursor[ROWS] / part if part else 0.0

    def dataset(self, digest: str) -> Dataset:
        """Make the data set of all rows."""
        rows, columns = int(self.cursor[ROWS]), self.n_features or int(self.cursor[COLUMNS])
        if not rows or not columns:
            missing = "features" if rows else "documents"
            raise ValueError(f"{self.name}: has no {missing}; expected lines such as '{EXAMPLE}'")
        if columns < self.width:
            narrow_rows(self.features, rows, self.width, columns)
        self._resize(rows, columns)
        features, relevance = self.features.reshape(rows, columns), self.relevance
        by_group = self.cursor[QUERY_BY] == BY_GROUP
        groups = _check_groups(self.options.groups, self.name, rows) if by_group else None
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
            "queries_in_comments": len(queries) if self.cursor[QUERY_BY] == BY_COMMENT else 0,
            "queries_in_group_file": len(queries) if by_group else 0,
            "documents_without_relevance": rows if self.cursor[UNJUDGED] == MISSING else 0,
        }
        about = Provenance(self.name, digest, self.base, warnings=warnings)
        names = tuple(self.names.get(query, str(query)) for query in queries.tolist()) if self.names else ()
        if names:
            queries = np.arange(1, len(names) + 1)
        return Dataset(features, relevance, offsets, queries, about, names, documents)

    def _note_names(self, text: Bytes, first: int) -> None:
        """Store the names of queries and the ids of documents of the rows that were just read."""
        last = int(self.cursor[ROWS])
        for row in first + np.flatnonzero(self.positions[first:last, 0] >= 0):
            name = text[slice(*self.positions[row])].tobytes().decode(errors="backslashreplace")
            if self.names.setdefault(int(self.queries[row]), name) != name:
                raise ValueError(f"{self.name}: the queries '{excerpt(name)}' and another have the same checksum")
        if len(self.comments) and self.cursor[QUERY_BY] != BY_COMMENT:
            ids = (document_id(text[a:b].tobytes()) for a, b in self.comments[first:last].tolist())
            self.documents.extend(ids)

    def _compute_exactly(self, text: Bytes, before: int) -> None:
        """Compute the numbers for which float64 was not exact enough."""
        for first, last, row, column in self.inexact[: self.cursor[INEXACT]].tolist():
            number = text[first:last].tobytes().decode()
            value = nearest_float(number)
            if not abs(value) <= LARGEST:
                raise self._error(before + text[:first].tobytes().count(b"\n") + 1, _too_large(number))
            if column < 0:
                self.relevance[row] = value
            else:
                self.features[row * self.width + column] = value
        self.cursor[INEXACT] = 0

    def _lengthen(self) -> None:
        rows = int(self.cursor[ROWS])
        self._resize(max(_FIRST_ROWS, rows + rows // 2, int(self.expected * _MARGIN)), self.width)

    def _widen(self) -> None:
        need = int(self.cursor[NEED])
        if need > (self.n_features or MAX_FEATURES):
            raise self._error(self.lines + 1, self._too_many(need - 1 + self.base))
        width = min(max(need, self.width + self.width // _GROWTH), MAX_FEATURES)
        self._resize(len(self.relevance), width)
        spread_rows(self.features, int(self.cursor[ROWS]), self.width, width, 0)
        self.width = width

    def _count_from_zero(self) -> None:
        rows, columns = int(self.cursor[ROWS]), int(self.cursor[COLUMNS])
        if self.n_features == columns:
            reason = f"feature id 0 makes ids start at 0, but {columns} was read before; {self._too_many(columns)}"
            raise self._error(self.lines + 1, reason)
        width = self.n_features or self.width + 1
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
            self.comments.resize((rows if self.options.documents else 0, 2), refcheck=False)
        except MemoryError:
            size = rows * width * self.features.itemsize / 1e9
            text = f"{self.name}: about {rows:,} documents of {width:,} features take {size:,.1f} GB of memory"
            raise MemoryError(text) from None

    def _too_many(self, number: int) -> str:
        if self.n_features is None:
            return f"feature id {number} is too large: at most {MAX_FEATURES:,} features are read"
        last = self.n_features - 1 + self.base
        return f"feature id {number} is above {last}: features = {self.n_features} with ids from {self.base}"

    def _describe(self, stop: int, text: Bytes) -> str:
        """Describe the error at the cursor."""
        first = int(self.cursor[FAULT])
        token = re.split(rb"[ \t\r\n#]", text[first : first + 4 * _MAX_SHOWN].tobytes(), maxsplit=1)[0]
        token_text = excerpt(token.decode(errors="backslashreplace"), _MAX_SHOWN)
        number, _, value = token_text.partition(":")
        if stop == RELEVANCE:
            if re.search(r"[,;]", token_text):
                return f"'{token_text}' looks like CSV: give the file a name that ends in .csv"
            if not token_text.startswith("qid:"):
                return f"relevance '{token_text}' is not a finite number; expected a line such as '{EXAMPLE}'"
            return f"relevance is missing before '{token_text}'; only `peekrank rank` accepts documents without it"
        if stop == MIXED:
            if ":" in token_text:
                return "this line has no relevance, but the lines before have"
            return "this line has relevance, but the lines before have none"
        if stop == NEGATIVE:
            return f"relevance '{token_text}' has a minus sign; must be 0 or more"
        if stop == QUERY and number == "qid":
            if value:
                return f"'{token_text}' comes after lines without qid:, whose queries are in a group file"
            return "expected the number or name of the query after qid:"
        if stop == QUERY and self.cursor[QUERY_BY] == BY_COMMENT:
            return "expected the number of the query as the only comment, as in the lines before"
        if stop == QUERY:
            actual = f"'{token_text}'" if token_text else "nothing"
            return f"expected qid:N after the relevance as in '{EXAMPLE}', got {actual}"
        if stop == FEATURE:
            return f"'{token_text}' is not a feature such as 3:0.5, with a whole number as id"
        if stop == VALUE:
            return f"feature {number} has the value '{value}', which is not a finite number"
        if stop == LARGE:
            return _too_large(value or token_text)
        if stop == RETURNED:
            return "the comment continues after a carriage return"
        if stop == FROM_ZERO:
            return "feature id is 0, but base = 1 says that ids start at 1"
        previous = int(self.cursor[PREVIOUS])
        problem = "occurs twice" if int(number) == previous else f"comes after {previous}"
        return f"feature id {number} {problem}; ids must ascend"

    def _hint(self, text: Bytes, end: int) -> str:
        """Return a hint if lines end in a lone carriage return, so that they are read as one line."""
        line = text[self.cursor[AT] : end].tobytes().partition(b"\n")[0]
        has_return = re.search(rb"\r[^ \t\r]", line)
        return "; lines must end in LF or CRLF, but this one contains a lone CR" if has_return else ""

    def _error(self, line: int, message: str) -> ValueError:
        return ValueError(f"{self.name}, line {line}: {message}")


def _too_large(number: str) -> str:
    return f"{number[:_MAX_SHOWN]} is too large for float32, whose maximum is {LARGEST:.4g}"


def _check_groups(groups: Groups | None, name: str, rows: int) -> Ints | None:
    """Return the sizes of the groups. Raises ValueError if they do not add up to the number of documents."""
    if groups is not None and groups.sizes.sum() != rows:
        counts = f"its {len(groups.sizes):,} queries have {groups.sizes.sum():,} documents"
        raise ValueError(f"{groups.name}: {counts}, but {name} has {rows:,}")
    return None if groups is None else groups.sizes


def gather_queries(query_of: Ints) -> tuple[Ints, Ints, Ints | None, int]:
    """Group rows by query.

    Return the queries by first appearance, offsets, the order of rows (None if they are grouped already), and the
    number of scattered queries.
    """
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
