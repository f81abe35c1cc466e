"""Reader of untrusted Parquet files: their memory is bounded beforehand, and polars' panics become errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from peekrank._util.extras import extra
from peekrank._util.fork import check_polars
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import check_memory

with extra("cli"):
    import polars as pl

_MAGIC = b"PAR1"
_TAIL = 8  # bytes after the footer: its length and the magic
_ROWS = 1 << 17  # at least so many are read at a time
_CELL = 16  # bytes of a value in memory, at most, besides the text that it may refer to
_MAX_WHY = 160  # characters of another library's reason
_MAX_DEPTH = 16  # levels of structs and lists

# Field numbers of parquet.thrift
_FILE_ROWS, _FILE_GROUPS = 3, 4
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
_CHUNK_ABOUT = 3
_ABOUT_VALUES, _ABOUT_SIZE, _ABOUT_STORED, _ABOUT_DATA, _ABOUT_DICTIONARY = 5, 6, 7, 9, 11
_PAGE_SIZE, _PAGE_STORED, _PAGE_DATA, _PAGE_DICTIONARY, _PAGE_DATA_2 = 2, 3, 5, 7, 8
_PAGE_VALUES = 1


class UnreadableError(ValueError):
    """Why a Parquet file cannot be read, without the name of the file."""


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a Parquet file. Raises FileNotFoundError, or UnreadableError with the reason.

    The sizes in its footer and in the headers of its pages say how much memory it takes. They are checked first,
    because a file of one megabyte can hold a billion values.
    """
    with _readable(path):
        return pl.read_parquet(path, glob=False)


def read_schema(path: Path) -> pl.Schema:
    """Return the names and types of the columns. Raises errors as `read_parquet`."""
    with _readable(path):
        return pl.scan_parquet(path, glob=False).collect_schema()


def read_row_groups(path: Path, columns: list[str]) -> Iterator[pl.DataFrame]:
    """Yield some columns of a Parquet file by groups of rows, small ones together.

    So no more than a group is in memory. Raises errors as `read_parquet`.
    """
    with _readable(path) as sizes:
        first = rows = 0
        for i, size in enumerate(sizes):
            rows += size
            if rows and (rows >= _ROWS or i == len(sizes) - 1):
                yield pl.scan_parquet(path, glob=False).select(columns).slice(first, rows).collect()
                first, rows = first + rows, 0


def count_rows(path: Path) -> int:
    """Return the number of rows. Raises errors as `read_parquet`."""
    with _readable(path) as sizes:
        return sum(sizes)


def read_slices(
    path: Path, rows: int, *, first: int = 0, columns: list[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Yield at most `rows` rows of a Parquet file at a time, from row `first` on.

    Raises errors as `read_parquet`.
    """
    with _readable(path) as sizes:
        table = pl.scan_parquet(path, glob=False)
        if columns is not None:
            table = table.select(columns)
        for start in range(first, sum(sizes), rows):
            yield table.slice(start, rows).collect()


@contextmanager
def _readable(path: Path) -> Iterator[list[int]]:
    """Check the footer and the pages, yield the sizes of the groups of rows, and translate polars' errors."""
    check_polars()
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            sizes = _check_memory(data)
        yield sizes
    except (FileNotFoundError, UnreadableError):
        raise
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        why = excerpt(" ".join(str(error).split()), _MAX_WHY)
        raise UnreadableError(f"is not a Parquet file, or it is damaged ({why})") from None
    except BaseException as error:
        if not isinstance(error, pl.exceptions.PanicException):
            raise
        raise UnreadableError("is damaged: polars cannot read it") from None


def _check_memory(data: mmap) -> list[int]:
    """Return the sizes of the groups of rows.

    Raises UnreadableError if the values and pages take much more memory than the file.
    """
    size = len(data)
    if size < len(_MAGIC) + _TAIL or data[-len(_MAGIC) :] != _MAGIC:
        raise UnreadableError("is not a Parquet file, or it is damaged (no footer)")
    end = size - _TAIL
    length = int.from_bytes(data[end : end + 4], "little")
    if length > end - len(_MAGIC):
        raise UnreadableError("is not a Parquet file, or it is damaged (no footer)")
    footer = data[end - length : end]
    needed = 0
    try:
        about = _Thrift(footer).struct()
        for part in _memory_of_parts(data, about):
            needed += part
            if why := check_memory(needed, size):
                raise UnreadableError(why)
        return [group[_GROUP_ROWS] for group in about[_FILE_GROUPS]]
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError):
        raise UnreadableError("is not a Parquet file, or it is damaged (invalid footer or page)") from None


def _memory_of_parts(data: mmap, about: dict[int, Any]) -> Iterator[int]:
    """Yield bytes in memory: of the rows, and of each column of each group of rows."""
    groups = about[_FILE_GROUPS]
    yield _CELL * max(_natural(about[_FILE_ROWS]), sum(_natural(group[_GROUP_ROWS]) for group in groups))
    columns = [chunk[_CHUNK_ABOUT] for group in groups for chunk in group[_GROUP_COLUMNS]]
    if sum(_natural(column[_ABOUT_STORED]) for column in columns) > len(data):
        raise IndexError  # columns overlap, so that walking through their pages could take very long
    for column in columns:
        values, size = 0, 0
        for page in _pages(data, column):
            values += page.values
            size += page.size
        yield _CELL * max(values, _natural(column[_ABOUT_VALUES])) + max(size, _natural(column[_ABOUT_SIZE]))


class _Page(NamedTuple):
    """Number of values, and size without compression."""

    values: int
    size: int


def _pages(data: mmap, column: dict[int, Any]) -> Iterator[_Page]:
    """Yield the pages of a column in a group of rows."""
    at = _natural(column.get(_ABOUT_DICTIONARY, column[_ABOUT_DATA]))
    end = at + _natural(column[_ABOUT_STORED])
    if end > len(data):
        raise IndexError
    while at < end:
        header = _Thrift(data, at)
        page = header.struct()
        about = page.get(_PAGE_DATA) or page.get(_PAGE_DATA_2) or page.get(_PAGE_DICTIONARY) or {}
        yield _Page(_natural(about.get(_PAGE_VALUES, 0)), _natural(page[_PAGE_SIZE]))
        at = header.at + _natural(page[_PAGE_STORED])


def _natural(number: int) -> int:
    if number < 0:
        raise OverflowError
    return number


class _Thrift:
    """Parser of the compact protocol of Thrift: structs become dictionaries by field number."""

    def __init__(self, data: bytes | mmap, at: int = 0) -> None:
        self._data, self.at = data, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Parse a struct. Raises IndexError if it is cut off or nested too deeply."""
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._signed()
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise IndexError
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):  # list, set
            return self._list(depth)
        if kind in (4, 5, 6):  # integers
            return self._signed()
        if kind == 8:  # bytes
            size = self._unsigned()
            self.at += size
            return None
        if kind in (1, 2, 3, 7):  # booleans in lists and bytes; doubles
            self.at += 8 if kind == 7 else 1
            return None
        raise TypeError

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        kind, size = head & 15, head >> 4
        size = self._unsigned() if size == 15 else size
        if size > len(self._data) - self.at:  # each element takes a byte
            raise IndexError
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise IndexError

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
