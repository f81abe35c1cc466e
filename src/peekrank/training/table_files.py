"""Reader of judged documents in tables: CSV, Parquet and JSON lines, which are read in blocks of rows."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn

import numpy as np

from peekrank._util.extras import extra
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import bounded_lines, check_memory
from peekrank._util.untrusted_json import read_json
from peekrank.data.columns import Cells, Column
from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.tables import Choice, check_queries, dataset_of_columns
from peekrank.jobs.parquet import UnreadableError, read_row_groups, read_schema
from peekrank.spec import suggest

with extra("cli"):
    import polars as pl

Progress = Callable[[float, int], None]

_GZIP = b"\x1f\x8b"
_PARQUET = (".parquet", ".pq")
_TEXTS = (".csv", ".tsv")
_LINES = (".jsonl", ".ndjson")
_MAX_COLUMNS = 1 << 16
_CELLS = 1 << 19  # of a block: each takes up to 100 bytes
_BLOCK = 1 << 20  # bytes
_WHOLE = re.compile("0|[1-9][0-9]{0,17}")
_LOGGED = re.compile("(logged_|logging_)?(propensit(y|ies)|position|rank)|pscore|shown", re.I)
_COMMA = re.compile(r"-?[0-9.]*,[0-9]+")
_MAX_NAMED = 5
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_MAX_BITS = 1000  # of a whole number; float64 holds 1,024
_PER_TEXT = 100  # bytes of a text in memory, besides its characters


class TableOptions(NamedTuple):
    """The names of the columns with relevance, query and id; the features, and how they are made of the columns.

    Without ``columns``, the features are all columns of numbers that are not named otherwise, and the categories.
    """

    relevance: str | None = None
    query: str | None = None
    id: str | None = None
    columns: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: str = "reject"


def is_table(path: Path) -> bool:
    """Return whether the name of a file says that it is a table. Texts may be compressed by gzip.

    >>> is_table(Path("a.CSV.gz")), is_table(Path("a.pq")), is_table(Path("a.txt"))
    (True, True, False)
    """
    return _suffix(path) in (*_PARQUET, *_TEXTS, *_LINES)


def read_table(
    path: Path,
    options: TableOptions,
    columns: tuple[Column, ...] = (),
    progress: Progress = lambda _done, _size: None,
) -> Dataset:
    """Read judged documents from a table with a row for each document.

    Raises ValueError naming the file, the column and the row, which counts from 1 without the header.

    Parameters
    ----------
    path
        The file; see `is_table`.
    options
        What the columns are. Of a table that is ranked, only relevance, query and id count.
    columns
        The columns of the training part, if this is another one.
    progress
        Called with the number of bytes read so far and the size of the file.
    """
    wanted = _Wanted(options, columns)
    table = _Growing(path.name, wanted)
    digest = hashlib.sha256()
    try:
        for block in _blocks(path, digest, progress, table):
            table.add(block)
            if why := check_memory(table.size(), path.stat().st_size):
                raise UnreadableError(why)
    except UnreadableError as error:
        raise ValueError(f"{path.name}: {error}") from None
    if not options.query:
        check_queries(table.names, {*wanted.roles(), *wanted.numbers(), *wanted.texts()}, path.name)
    frame = table.finish()
    choice = Choice(columns=columns)
    if not columns:
        features = options.columns or tuple(name for name in frame if name not in wanted.roles())
        choice = Choice(features, options.categories, options.missing)
    fields = {"relevance": options.relevance, "queries": options.query, "documents": options.id}
    return dataset_of_columns(frame, fields, choice, Provenance(path.name, digest.hexdigest()))


class _Wanted(NamedTuple):
    """Options of a table and its columns."""

    options: TableOptions
    columns: tuple[Column, ...]

    def roles(self) -> list[str]:
        """Return the names of the columns that are no features."""
        return [name for name in self.options[:3] if name]

    def fitted(self) -> set[str]:
        """Return the names of the columns of the training part."""
        return {column.name for column in self.columns}

    def texts(self) -> set[str]:
        """Return the names of the columns that hold texts."""
        fitted = (column.name for column in self.columns if column.categories is not None)
        named = (name for name in (self.options.query, self.options.id) if name)
        return {*named, *(fitted if self.columns else self.options.categories)}

    def numbers(self) -> set[str]:
        """Return the names of the columns that must hold numbers."""
        features = (column.name for column in self.columns) if self.columns else self.options.columns
        return {*features, *([self.options.relevance] if self.options.relevance else [])} - self.texts()

    def only_named(self) -> bool:
        """Return whether all features are named."""
        return bool(self.columns or self.options.columns)


class _Block(NamedTuple):
    """Some rows of a table: their number, and the cells by column."""

    rows: int
    cells: dict[str, Any]


class _Growing:
    """Requested columns, filled with the rows read so far."""

    def __init__(self, file: str, wanted: _Wanted) -> None:
        self._file, self._wanted = file, wanted
        self.text_names, self._numbers = wanted.texts(), wanted.numbers()
        self._parts: dict[str, list[Any]] = {}
        self._length: dict[str, int] = {}
        self._seen: dict[str, dict[Any, Any]] = {}
        self._left_out: dict[str, str] = {}
        self.names: dict[str, None] = {}
        self._rows = self._bytes = 0

    def note(self, names: Iterable[str]) -> None:
        """Note which columns there are."""
        self.names.update(dict.fromkeys(names))
        if len(self.names) > _MAX_COLUMNS:
            raise ValueError(f"{self._file}: has more than {_MAX_COLUMNS:,} columns")

    def wants(self, name: str) -> bool:
        """Return whether a column may be wanted."""
        if name in self.text_names or name in self._numbers:
            return True
        return not self._wanted.only_named() and name not in self._left_out

    def leave_out(self, name: str, why: str) -> None:
        """Leave a column out, because it does not hold numbers. Raises ValueError if it must."""
        if name in self._numbers:
            raise ValueError(f"{self._file}: column '{excerpt(name)}' {why}: must be numbers")
        self._left_out[name] = why
        self._parts.pop(name, None)

    def size(self) -> int:
        """Return about how many bytes of memory the columns take, when each has all rows."""
        return 4 * self._rows * (len(self._parts) + len(self.text_names)) + self._bytes

    def add(self, block: _Block) -> None:
        """Add the next rows."""
        for name, cells in block.cells.items():
            if not self.wants(name):
                continue
            if name in self.text_names:
                part: Any = self._as_texts(name, cells)
            else:
                part, fault = _as_numbers(cells)
                if fault is not None:
                    row, text = fault
                    self.leave_out(name, f"has {text} in row {self._rows + row + 1:,}")
                    continue
            self._pad(name, self._rows)
            self._parts[name].append(part)
            self._length[name] += block.rows
        self._rows += block.rows

    def finish(self) -> dict[str, Cells]:
        """Return the columns. Warns of those that are left out."""
        if not self._rows:
            raise ValueError(f"{self._file}: has no rows")
        for name in [*self._wanted.roles(), *sorted(self.text_names | self._numbers)]:
            if name not in self.names:
                role = "a feature of the training part" if name in self._wanted.fitted() else "which is wanted"
                known = suggest(name, self.names)
                raise ValueError(f"{self._file}: has no column '{excerpt(name)}', {role}: {known}")
        frame: dict[str, Cells] = {}
        for name in list(self._parts):
            self._pad(name, self._rows)
            parts = self._parts.pop(name)
            if name in self.text_names:
                frame[name] = _exact(parts)
                continue
            values = np.concatenate(parts)
            if name in self._numbers or not np.isnan(values).all():
                frame[name] = values
            else:
                self._left_out[name] = "has no values"
        if self._wanted.only_named():
            return frame
        for name in filter(_LOGGED.fullmatch, frame):
            if name not in self._wanted.roles():
                what = "is a feature; peekrank evaluate reads logs of what was shown, see docs/evaluation/log.md"
                warn(f"{self._file}: column '{excerpt(name)}' {what}", stacklevel=3)
        if self._left_out:
            some = [f"'{excerpt(name)}' ({why})" for name, why in list(self._left_out.items())[:_MAX_NAMED]]
            more = f" and {len(self._left_out) - _MAX_NAMED:,} more" if len(self._left_out) > _MAX_NAMED else ""
            advice = "; --categories makes features of texts"
            warn(
                f"{self._file}: columns that are no numbers are left out: {', '.join(some)}{more}{advice}",
                stacklevel=3,
            )
        return frame

    def _pad(self, name: str, rows: int) -> None:
        """Add missing values to a column until it has so many rows."""
        gap = rows - self._length.setdefault(name, 0)
        parts = self._parts.setdefault(name, [])
        if gap:
            empty = None if name in self.text_names else np.nan
            parts.append(np.full(gap, empty, object if empty is None else np.float32))
            self._length[name] = rows

    def _as_texts(self, name: str, cells: Any) -> Cells:
        """Return texts and numbers as they are. Equal texts are in memory once, except for ids."""
        if isinstance(cells, pl.Series) and cells.dtype in _INTEGERS and not cells.null_count():
            return cells.cast(pl.Int64).to_numpy()
        values = cells.to_list() if isinstance(cells, pl.Series) else cells
        for row, value in enumerate(values):
            if not isinstance(value, (str, int, float)) and value is not None:
                where = f"has {_shown(value)} in row {self._rows + row + 1:,}"
                raise ValueError(f"{self._file}: column '{excerpt(name)}' {where}: must be a text or a number")
        seen = {} if name == self._wanted.options.id else self._seen.setdefault(name, {})
        for value in values:
            if isinstance(value, str) and value not in seen:
                self._bytes += _PER_TEXT + len(value)
                seen[value] = value
        return _objects([seen.get(value, value) if isinstance(value, str) else value for value in values])


def _as_numbers(cells: Any) -> tuple[Cells, tuple[int, str] | None]:
    """Return cells as numbers, NaN where they are missing, and the first row that holds something else."""
    if not isinstance(cells, pl.Series):
        return _json_numbers(cells)
    if cells.dtype == pl.String:
        texts = cells.str.strip_chars()
        numbers = texts.cast(pl.Float64, strict=False)
        wrong = (numbers.is_null() & (texts != "")).arg_true()
        if len(wrong):
            return np.empty(0), (int(wrong[0]), _shown_text(str(cells[int(wrong[0])])))
        cells = numbers
    return cells.cast(pl.Float32, strict=False).to_numpy(), None


def _json_numbers(cells: list[Any]) -> tuple[Cells, tuple[int, str] | None]:
    for row, value in enumerate(cells):
        if not isinstance(value, (int, float)) and value is not None:
            return np.empty(0), (row, _shown(value))
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return np.empty(0), (row, f"a number of {value.bit_length():,} bits")
    with np.errstate(over="ignore"):
        numbers = np.array([np.nan if value is None else value for value in cells], np.float64)
        return numbers.astype(np.float32), None


def _exact(parts: list[Cells]) -> Cells:
    """Return whole numbers as int64, also those in texts, and everything else unchanged."""
    values = np.concatenate(parts)
    if values.dtype != np.dtype(object):
        return values
    kinds = set(map(type, values))
    if kinds == {str} and all(map(_WHOLE.fullmatch, values)):
        return np.fromiter(map(int, values), np.int64, len(values))
    if kinds == {float} or (kinds == {int} and max(map(abs, values)) < 2**63):
        return np.array(values.tolist())
    return values


def _objects(values: list[Any]) -> Cells:
    cells = np.empty(len(values), object)
    cells[:] = values
    return cells


def _blocks(path: Path, digest: Any, progress: Progress, table: _Growing) -> Iterator[_Block]:
    """Yield the rows of a file."""
    suffix = _suffix(path)
    with path.open("rb") as file:
        if suffix in _PARQUET:
            while part := file.read(_BLOCK):
                digest.update(part)
            yield from _parquet_blocks(path, progress, table)
            return
        size = path.stat().st_size
        lines = _lines(file, path.name, digest)
        blocks = _json_blocks if suffix in _LINES else _csv_blocks
        for block in blocks(lines, path, table):
            progress(file.tell() if file.seekable() else 0, size)
            yield block


def _parquet_blocks(path: Path, progress: Progress, table: _Growing) -> Iterator[_Block]:
    names = []
    schema = read_schema(path)
    table.note(schema)
    for name, kind in schema.items():
        if name not in table.text_names and not (kind.is_numeric() or kind == pl.Boolean):
            if table.wants(name):
                table.leave_out(name, f"holds {excerpt(str(kind))}")
        elif table.wants(name):
            names.append(name)
    rows = 0
    for frame in read_row_groups(path, names) if names else ():
        rows += len(frame)
        progress(rows, rows)
        yield _Block(len(frame), {name: frame[name] for name in names})


def _csv_blocks(lines: Iterator[str], path: Path, table: _Growing) -> Iterator[_Block]:
    first = next(lines, "")
    separator = "\t" if ".tsv" in path.suffixes or ("\t" in first and "," not in first) else ","
    separator = ";" if separator == "," and ";" in first and "," not in first else separator
    reader = csv.reader(chain([first], lines), delimiter=separator, strict=True)
    before = 0  # last line of the row before
    try:
        header = next(reader, [])
        _check_names(header, path.name)
        table.note(filter(None, header))
        for column, name in enumerate(header, 1):
            if not name and table.wants(name):
                table.leave_out(name, f"column {column} has no name")
        wanted = [(column, name) for column, name in enumerate(header) if table.wants(name)]
        rows: list[list[str]] = []
        before = reader.line_num
        for row in reader:
            before = reader.line_num
            if not row:
                continue
            if len(row) != len(header):
                where = f"{path.name}, line {reader.line_num:,}"
                raise ValueError(f"{where}: has {len(row):,} cells: must have {len(header):,}, as the first line")
            rows.append(row)
            if len(rows) * len(header) >= _CELLS:
                yield _csv_block(rows, wanted)
                rows = []
        if rows:
            yield _csv_block(rows, wanted)
    except csv.Error as error:
        where = f"{path.name}, line {before + 1:,}"
        if reader.line_num > before + 1:
            raise ValueError(f'{where}: has a quote (") that no other closes') from None
        raise ValueError(f"{where}: is not CSV ({excerpt(str(error))})") from None


def _csv_block(rows: list[list[str]], wanted: list[tuple[int, str]]) -> _Block:
    columns = list(zip(*rows, strict=True))
    return _Block(len(rows), {name: pl.Series(name, columns[column], pl.String) for column, name in wanted})


def _json_blocks(lines: Iterator[str], path: Path, table: _Growing) -> Iterator[_Block]:
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    file = path.name
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = read_json(line, object_pairs_hook=_unique)
        except ValueError as error:
            raise ValueError(f"{file}, line {number:,}: is not JSON ({excerpt(str(error))})") from None
        if not isinstance(row, dict):
            raise ValueError(f"{file}, line {number:,}: is {_shown(row)}: must be an object, such as {{...}}")
        rows.append(row)
        names.update(dict.fromkeys(row))
        if len(rows) * len(names) >= _CELLS:
            yield _json_block(rows, names, table)
            rows, names = [], {}
    if rows:
        yield _json_block(rows, names, table)


def _json_block(rows: list[dict[str, Any]], names: Collection[str], table: _Growing) -> _Block:
    table.note(names)
    return _Block(len(rows), {name: [row.get(name) for row in rows] for name in names if table.wants(name)})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError if a key occurs twice."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key '{excerpt(twice)}' occurs twice")
    return row


def _lines(file: BufferedReader, name: str, digest: Any) -> Iterator[str]:
    """Yield the lines of a text, plain or compressed by gzip."""
    packed = file.peek(2)[:2] == _GZIP
    source: Any = gzip.GzipFile(fileobj=file) if packed else file
    try:
        for number, line in enumerate(bounded_lines(source, name), 1):
            digest.update(line)
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{name}, line {number:,}: is not UTF-8 text: save the file as UTF-8") from None
    except EOFError:
        raise ValueError(f"{name}: the compressed data ends early; is the file truncated?") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name}: is damaged, or not entirely gzip: {error}") from None


def _check_names(header: list[str], file: str) -> None:
    """Raise ValueError unless there are columns, and each name is there once; several may have none."""
    if not any(header):
        raise ValueError(f"{file}: has no names of columns in its first line")
    seen: set[str] = set()
    for name in filter(None, header):
        if name in seen:
            raise ValueError(f"{file}: column '{excerpt(name)}' occurs twice: give each column a name of its own")
        seen.add(name)


def _shown_text(text: str) -> str:
    hint = " (with a decimal comma: write a point)" if _COMMA.fullmatch(text.strip()) else ""
    return f"'{excerpt(text)}'{hint}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"'{excerpt(value)}'"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return excerpt(str(value))


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(".gz") if not name.endswith((".parquet.gz", ".pq.gz")) else name).suffix
