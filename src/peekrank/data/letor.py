"""Reading judged documents with features from text: LETOR and SVMlight files, plain or gzip."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.text import excerpt
from peekrank._util.validate import whole
from peekrank.data.dataset import About, Dataset
from peekrank.types import Features, Ints

Bytes = NDArray[np.uint8]
Progress = Callable[[float, int], None]

_BLOCK = 1 << 22  # bytes read at a time: what is parsed is still in cache, and Ctrl-C is noticed soon
_MOST_FEATURES = 1 << 20  # every document gets a number for each
_FIRST_ROWS = 64
_MARGIN = 1.05  # room is made by the bytes that rows took so far; later ones may be shorter
_GROWTH = 8  # a table that gets wider gets so by an eighth at least, and loses the rest in the end
_GZIP, _MARK = b"\x1f\x8b", b"\xef\xbb\xbf"  # how gzip files begin, and texts of some editors
_EXAMPLE = "2 qid:7 1:0.5 3:1e-2 # comment"
_SHOWN = 40  # characters of what is wrong
_LARGEST = float(np.finfo(np.float32).max)
_TOO_LARGE = _LARGEST + 2.0**103  # half way to what would be the next float32: from here on all is infinite

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON = b"\t\n\r #+-.0:"
_UPPER_E, _LOWER_E, _Q, _I, _D = b"Eeqid"
_DIGITS = 18  # that surely fit in 64 bits
_EXACT = 1 << 53  # whole numbers up to this are float64
_FARTHEST = 60  # powers of ten in the table; float32 ends at 38, but a mantissa may have many digits
_POWERS = np.array([float(f"1e{power}") for power in range(-_FARTHEST, _FARTHEST + 1)])
_BELOW, _ABOVE = 1 - 2.0**-50, 1 + 2.0**-50

# What parsing moves along, all in one array: next byte, rows, feature values, columns that the largest id needs,
# numbers to be worked out exactly, blank lines, lines with nothing but a comment, where a row has its query (0 if
# not known), columns needed to go on, first byte of a fault, feature id before the fault.
_AT, _ROWS, _PRESENT, _COLUMNS, _DOUBTFUL, _BLANK, _COMMENTS, _PLACE, _NEED, _FAULT, _PREVIOUS, _FIELDS = range(12)
_BY_QID, _BY_COMMENT = 1, 2

# Why parsing stops: all is read, the table must change, or there is a fault.
_DONE, _LONGER, _WIDER, _FROM_ZERO = range(4)
_RELEVANCE, _NEGATIVE, _QUERY, _FEATURE, _VALUE, _ORDER, _LARGE, _RETURNED = range(4, 12)


def read_letor(
    path: str | PathLike[str],
    *,
    features: int | None = None,
    base: int | None = None,
    progress: Progress = lambda _done, _of: None,
) -> Dataset:
    r"""Read lines ``relevance qid:N id:value id:value ... # comment``.

    Missing features are 0. Documents of one query come together, in the order of the file, wherever they stand. A
    file without ``qid:`` has the number of the query, and nothing else, as comment (Yandex IMAT 2009). Values are
    the nearest float32. What does not fit is a ValueError with its line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 3:1e-2\n0 qid:4\n1 qid:7 2:1 # late\n")
    >>> data = read_letor(path)
    >>> data.features
    array([[0.5 , 0.  , 0.01],
           [0.  , 1.  , 0.  ],
           [0.  , 0.  , 0.  ]], dtype=float32)
    >>> data.relevance, data.offsets, data.queries
    (array([2, 1, 0], dtype=uint8), array([0, 2, 3]), array([7, 4]))

    Parameters
    ----------
    path
        A text file, or one compressed by gzip, whatever its name.
    features
        Number of columns, so that files of one data set fit together; a larger id is then an error. By default as
        many as the largest id needs.
    base
        The smallest id a feature can have, 0 or 1. By default 0 if that occurs, else 1: give it where a file of a
        data set with ids from 0 may happen to have none.
    progress
        Called with the bytes read so far and the size of the file.

    References
    ----------
    Joachims, Making large-scale SVM learning practical, 1999 (the format); Qin and Liu, Introducing LETOR 4.0
    datasets, 2013.
    """
    if features is not None:
        whole("features", features, 1, _MOST_FEATURES)
    if base is not None:
        whole("base", base, 0, 1)
    path = Path(path)
    table = _Table(path.name, features, base)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for text, end in _blocks(file, path.name, digest):
            done = file.tell() if file.seekable() else 0  # compressed bytes, if they are
            table.add(text, end, done / max(done, size, 1))
            progress(done, max(done, size))
    return table.dataset(digest.hexdigest())


class Fold(NamedTuple):
    """The parts of a published split; `validation` is None where there is none."""

    train: Dataset
    validation: Dataset | None
    test: Dataset


_FOLDS = (  # names of the parts: LETOR and MSLR, Yahoo LTRC set 1, Yandex IMAT 2009
    ("train.txt", "vali.txt", "test.txt"),
    ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
    ("imat2009_learning.txt", "imat2009_test.txt"),
)


def read_fold(folder: str | PathLike[str], *, progress: Progress = lambda _done, _of: None) -> Fold:
    """Read the parts of a split as published, all with the same columns.

    The folder is one of ``Fold1`` to ``Fold5`` of MQ2007, MQ2008 or MSLR-WEB10K, or that of Yahoo LTRC set 1 or of
    Yandex IMAT 2009, with file names as they came, or those with ``.gz`` behind.

    Parameters
    ----------
    folder
        Where the files are.
    progress
        As in `read_letor`, for each file in turn.
    """
    folder = Path(folder)
    paths = next(filter(all, ([_plain_or_gzip(folder, name) for name in names] for names in _FOLDS)), None)
    if paths is None:
        known = "; ".join(" ".join(names) for names in _FOLDS)
        raise ValueError(f"{folder}: holds no published split; its files must be named as one of: {known}")
    there = [path for path in paths if path]
    parts = [read_letor(path, progress=progress) for path in there]
    base = min(part.about.base for part in parts)
    features = max(part.features.shape[1] + part.about.base - base for part in parts)
    for place, part in enumerate(parts):
        if (part.about.base, part.features.shape[1]) != (base, features):
            parts[place] = read_letor(there[place], features=features, base=base, progress=progress)
    return Fold(parts[0], parts[1] if len(parts) > 2 else None, parts[-1])


def _plain_or_gzip(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _blocks(file: BufferedReader, name: str, digest: Any) -> Iterator[tuple[Bytes, int]]:
    """Pieces of whole lines, each with its end; a line feed is added where the last line has none."""
    source = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file
    buffer = np.empty(_BLOCK, np.uint8)
    kept = 0
    while True:
        try:
            count = source.readinto(buffer[kept:-1].data)  # one byte is left for that line feed
        except EOFError:
            raise ValueError(f"{name}: the compressed data ends early; is the file truncated?") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{name}: is damaged, or not wholly gzip: {error}") from None
        if not count:
            break
        digest.update(buffer[kept : kept + count])
        filled = kept + count
        end = _after_last_newline(buffer, kept, filled)
        if end:
            yield buffer, end
            buffer[: filled - end] = buffer[end:filled].copy()
        elif filled == len(buffer) - 1:
            buffer = np.concatenate((buffer, np.empty_like(buffer)))
        kept = filled - end
    if kept:
        buffer[kept] = _NEWLINE
        yield buffer, kept + 1


class _Table:
    """What is read so far, and room for more; rows of features are `width` apart."""

    def __init__(self, name: str, features: int | None, base: int | None) -> None:
        self.name, self.wanted, self.given = name, features, base
        self.base, self.width = (1 if base is None else base), features or 1
        self.features: Features = np.empty(0, np.float32)
        self.relevance: Features = np.empty(0, np.float32)
        self.queries: Ints = np.empty(0, np.int64)
        self.doubtful = np.empty((0, 4), np.int64)  # first and last byte, row, column or -1 for the relevance
        self.cursor = np.zeros(_FIELDS, np.int64)
        self.expected = 0.0  # rows in all

    @property
    def lines(self) -> int:
        """Number of lines that are read."""
        return int(self.cursor[_ROWS] + self.cursor[_BLANK] + self.cursor[_COMMENTS])

    def add(self, text: Bytes, end: int, part: float) -> None:
        """Parse whole lines; with them, this part of the file is read."""
        if len(self.doubtful) < len(text) // 4:  # with its separators none is shorter than four bytes
            self.doubtful = np.empty((len(text) // 4, 4), np.int64)
        before = self.lines
        self.cursor[_AT] = len(_MARK) if not before and text[: len(_MARK)].tobytes() == _MARK else 0
        stop = -1
        while stop != _DONE:
            table = (self.features, self.relevance, self.queries)
            stop = _parse(text, end, self.width, self.base, *table, self.doubtful, self.cursor)
            self._settle(text, before)
            if stop == _LONGER:
                self._lengthen()
            elif stop == _WIDER:
                self._widen()
            elif stop == _FROM_ZERO and self.given is None:
                self._count_from_zero()
            elif stop != _DONE:
                raise self._wrong(self.lines + 1, self._fault(stop, text) + self._hint(text, end))
        self.expected = self.cursor[_ROWS] / part if part else 0.0

    def dataset(self, digest: str) -> Dataset:
        """All that was read."""
        rows, columns = int(self.cursor[_ROWS]), self.wanted or int(self.cursor[_COLUMNS])
        if not rows or not columns:
            what = "features" if rows else "documents"
            raise ValueError(f"{self.name}: holds no {what}; its lines must be like '{_EXAMPLE}'")
        if columns < self.width:
            _narrow(self.features, rows, self.width, columns)
        self._resize(rows, columns)
        features, relevance = self.features.reshape(rows, columns), self.relevance
        queries, offsets, order, scattered = _gather(self.queries)
        if order is not None:
            features, relevance = features[order], relevance[order]
        if relevance.max() <= 255 and np.array_equal(relevance, np.rint(relevance)):
            relevance = relevance.astype(np.uint8)
        oddities = {
            "blank_lines": int(self.cursor[_BLANK]),
            "comment_lines": int(self.cursor[_COMMENTS]),
            "missing_values": rows * columns - int(self.cursor[_PRESENT]),
            "scattered_queries": scattered,
            "queries_in_comments": len(queries) if self.cursor[_PLACE] == _BY_COMMENT else 0,
        }
        about = About(self.name, digest, self.base, oddities=oddities)
        return Dataset(features, relevance, offsets, queries, about)

    def _settle(self, text: Bytes, before: int) -> None:
        """Work out the numbers that float64 leaves in doubt."""
        for first, last, row, column in self.doubtful[: self.cursor[_DOUBTFUL]].tolist():
            number = text[first:last].tobytes().decode()
            value = _nearest(number)
            if not abs(value) <= _LARGEST:
                raise self._wrong(before + text[:first].tobytes().count(b"\n") + 1, _too_large(number))
            if column < 0:
                self.relevance[row] = value
            else:
                self.features[row * self.width + column] = value
        self.cursor[_DOUBTFUL] = 0

    def _lengthen(self) -> None:
        rows = int(self.cursor[_ROWS])
        self._resize(max(_FIRST_ROWS, rows + rows // 2, int(self.expected * _MARGIN)), self.width)

    def _widen(self) -> None:
        need = int(self.cursor[_NEED])
        if need > (self.wanted or _MOST_FEATURES):
            raise self._wrong(self.lines + 1, self._too_many(need - 1 + self.base))
        width = min(max(need, self.width + self.width // _GROWTH), _MOST_FEATURES)
        self._resize(len(self.relevance), width)
        _spread(self.features, int(self.cursor[_ROWS]), self.width, width, 0)
        self.width = width

    def _count_from_zero(self) -> None:
        rows, columns = int(self.cursor[_ROWS]), int(self.cursor[_COLUMNS])
        if self.wanted == columns:
            reason = (
                f"feature id 0 makes ids start there, but {columns} was read before; {self._too_many(columns)}"
            )
            raise self._wrong(self.lines + 1, reason)
        width = self.wanted or self.width + 1
        self._resize(len(self.relevance), width)
        _spread(self.features, rows, self.width, width, 1)
        self.base, self.width = 0, width
        self.cursor[_COLUMNS] += columns > 0

    def _resize(self, rows: int, width: int) -> None:
        try:
            self.features.resize(rows * width, refcheck=False)
            self.relevance.resize(rows, refcheck=False)
            self.queries.resize(rows, refcheck=False)
        except MemoryError:
            size = rows * width * self.features.itemsize / 1e9
            text = f"{self.name}: about {rows:,} documents of {width:,} features take {size:,.1f} GB of memory"
            raise MemoryError(text) from None

    def _too_many(self, number: int) -> str:
        if self.wanted is None:
            return f"feature id {number} is too large: at most {_MOST_FEATURES:,} features are read"
        last = self.wanted - 1 + self.base
        return f"feature id {number} is above {last}: features = {self.wanted} with ids from {self.base}"

    def _fault(self, stop: int, text: Bytes) -> str:
        """What is wrong at the cursor."""
        first = int(self.cursor[_FAULT])
        token = re.split(rb"[ \t\r\n#]", text[first : first + 4 * _SHOWN].tobytes(), maxsplit=1)[0]
        shown = excerpt(token.decode(errors="backslashreplace"), _SHOWN)
        number, _, value = shown.partition(":")
        if stop == _RELEVANCE:
            return f"relevance '{shown}' is not a finite number; a line is like '{_EXAMPLE}'"
        if stop == _NEGATIVE:
            return f"relevance '{shown}' has a minus sign; it must be 0 or more"
        if stop == _QUERY and number == "qid":
            return f"'{shown}' does not have a whole number of at most {_DIGITS} digits after qid:"
        if stop == _QUERY and self.cursor[_PLACE] == _BY_COMMENT:
            return "expected nothing but the number of the query as comment, as in the lines before"
        if stop == _QUERY:
            found = f"'{shown}'" if shown else "nothing"
            return f"expected qid:N after the relevance, found {found}; a line is like '{_EXAMPLE}'"
        if stop == _FEATURE:
            return f"'{shown}' is not a feature like 3:0.5, with a whole number as id"
        if stop == _VALUE:
            return f"feature {number} has the value '{value}', which is not a finite number"
        if stop == _LARGE:
            return _too_large(value or shown)
        if stop == _RETURNED:
            return "the comment goes on after a carriage return"
        if stop == _FROM_ZERO:
            return "feature id 0, but base = 1 says that ids start from 1"
        previous = int(self.cursor[_PREVIOUS])
        fault = "comes twice" if int(number) == previous else f"comes after {previous}"
        return f"feature id {number} {fault}; ids must ascend"

    def _hint(self, text: Bytes, end: int) -> str:
        """What to say of lines that end in a carriage return alone, and are read as one line."""
        line = text[self.cursor[_AT] : end].tobytes().partition(b"\n")[0]
        returned = re.search(rb"\r[^ \t\r]", line)
        return "; lines must end in LF or CRLF, and here is a CR alone" if returned else ""

    def _wrong(self, line: int, what: str) -> ValueError:
        return ValueError(f"{self.name}, line {line}: {what}")


def _too_large(number: str) -> str:
    return f"{number[:_SHOWN]} is too large for float32, which ends at {_LARGEST:.4g}"


def _nearest(number: str) -> np.float32:
    """The float32 nearest to a decimal number; of two equally near, the even one.

    >>> float(_nearest("16777217")), float(_nearest("16777217.0000000001"))
    (16777216.0, 16777218.0)
    """
    double = float(number)
    if abs(double) == _TOO_LARGE and Decimal(number).copy_abs() < Decimal(_TOO_LARGE):
        return np.float32(np.copysign(_LARGEST, double))
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(double)
        other = np.nextafter(single, np.float32(np.inf if double > float(single) else -np.inf))
    if np.isinf(single) or (float(single) + float(other)) / 2 != double:
        return single
    exact, middle = Decimal(number), Decimal(double)
    if exact == middle:
        return single
    return max(single, other) if exact > middle else min(single, other)


def _gather(query_of: Ints) -> tuple[Ints, Ints, Ints | None, int]:
    """Ids of queries by first appearance, offsets, the order that brings each together, and how many need it."""
    starts = np.concatenate(([0], np.flatnonzero(query_of[1:] != query_of[:-1]) + 1))
    ends = np.append(starts[1:], len(query_of))
    runs = query_of[starts]
    queries, first, which, count = np.unique(runs, return_index=True, return_inverse=True, return_counts=True)
    if len(queries) == len(runs):
        return runs, np.append(0, ends), None, 0
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(len(first))
    place_of = np.repeat(place[which], ends - starts)
    offsets = np.append(0, np.cumsum(np.bincount(place_of)))
    order = np.argsort(place_of, kind="stable")
    return queries[by_appearance], offsets, order, int(np.count_nonzero(count > 1))


@kernel
def _after_last_newline(text: Bytes, start: int, end: int) -> int:
    """Where the last line that ends in this part ends; 0 if none does."""
    for at in range(end - 1, start - 1, -1):
        if text[at] == _NEWLINE:
            return at + 1
    return 0


@kernel
def _spread(features: Features, rows: int, old: int, new: int, shift: int) -> None:
    """Make rows wider, in place, with zeros: `shift` columns before what is there, the others behind."""
    kept = min(old, new - shift)
    for row in range(rows - 1, -1, -1):
        for column in range(kept - 1, -1, -1):
            features[row * new + shift + column] = features[row * old + column]
        for column in range(shift):
            features[row * new + column] = 0
        for column in range(shift + kept, new):
            features[row * new + column] = 0


@kernel
def _narrow(features: Features, rows: int, old: int, new: int) -> None:
    """Keep the first columns of each row, in place."""
    for row in range(rows):
        for column in range(new):
            features[row * new + column] = features[row * old + column]


@kernel
def _digit(byte: np.uint8) -> int:
    """0 to 9; anything else is no digit."""
    return int(np.int64(byte) - _ZERO)


@kernel
def _more_digits(text: Bytes, at: int, number: int) -> tuple[int, int]:
    """Where the digits that begin here end, and the number with them appended; too many of them overflow."""
    digit = _digit(text[at])
    while 0 <= digit <= 9:
        number = number * 10 + digit
        at += 1
        digit = _digit(text[at])
    return at, number


@kernel
def _number(text: Bytes, at: int) -> tuple[int, np.float32, int]:
    """Where a decimal number ends, its float32, and whether that is sure: 1 yes, 0 no, -1 if it is no number.

    Mantissa times power of ten in float64 is within 4 x 2^-53 of the number, relatively. If all within 2^-50 of it
    rounds to one float32, that is the right one.
    """
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    first = at
    at, mantissa = _more_digits(text, at, 0)
    digits = at - first
    scale = 0
    if text[at] == _POINT:
        point = at + 1
        at, mantissa = _more_digits(text, point, mantissa)
        scale = point - at
        digits -= scale
    if digits == 0:
        return at, np.float32(0), -1
    if digits > _DIGITS:
        mantissa, scale = _long_mantissa(text, first)
    if text[at] == _LOWER_E or text[at] == _UPPER_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        first = at
        power = 0
        while True:
            digit = _digit(text[at])
            if digit < 0 or digit > 9:
                break
            power = min(power * 10 + digit, 1 << 40)
            at += 1
        if at == first:
            return at, np.float32(0), -1
        scale += -power if down else power
    if mantissa == 0:
        return at, np.float32(-0.0 if minus else 0.0), 1
    value, sure = np.float32(0), 0
    if -_FARTHEST <= scale <= _FARTHEST:
        near = np.float64(mantissa) * _POWERS[scale + _FARTHEST]
        value = np.float32(near * _BELOW)
        sure = int(value == np.float32(near * _ABOVE))
    if sure == 0:
        while scale < 0 and mantissa % 10 == 0:  # 16777217.000 is half way between two float32, exactly
            mantissa //= 10
            scale += 1
        if scale == 0 and mantissa <= _EXACT and digits <= _DIGITS:
            value, sure = np.float32(np.float64(mantissa)), 1
    return at, -value if minus else value, sure


@kernel
def _long_mantissa(text: Bytes, at: int) -> tuple[int, int]:
    """The first 18 digits of a number from its first one that is not 0, and the power of ten they are to have."""
    mantissa = scale = kept = 0
    fraction = False
    while True:
        digit = _digit(text[at])
        if text[at] == _POINT and not fraction:
            fraction = True
        elif digit < 0 or digit > 9:
            return mantissa, scale
        elif kept < _DIGITS:
            mantissa = mantissa * 10 + digit
            kept += int(mantissa > 0)
            scale -= int(fraction)
        else:
            scale += int(not fraction)
        at += 1


@kernel
def _whole(text: Bytes, at: int) -> tuple[int, int]:
    """Where a whole number ends, and its value; -1 if it has no digits, or too many."""
    first = at
    value = 0
    while True:
        digit = _digit(text[at])
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        at += 1
    return at, value if 0 < at - first <= _DIGITS else -1


@kernel
def _blank(byte: np.uint8) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@kernel
def _ends(byte: np.uint8) -> bool:
    """Whether a token ends before this byte."""
    return byte in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@kernel
def _end_of_comment(text: Bytes, at: int) -> int:
    """Where its line ends; -1 if there is text after a carriage return, which is a line that would be lost."""
    while text[at] != _NEWLINE:
        if text[at] == _RETURN and not _blank(text[at + 1]) and text[at + 1] != _NEWLINE:
            return -1
        at += 1
    return at


@kernel
def _parse(
    text: Bytes,
    end: int,
    width: int,
    base: int,
    features: Features,
    relevance: Features,
    queries: Ints,
    doubtful: Ints,
    cursor: Ints,
) -> int:
    """Parse whole lines up to `end`, where the last one ends; at a stop the cursor is at the start of its line."""
    at, rows, place = cursor[_AT], cursor[_ROWS], cursor[_PLACE]
    room = min(len(relevance), len(features) // width)
    while at < end:
        cursor[_AT], cursor[_ROWS] = at, rows
        unsure, present = cursor[_DOUBTFUL], cursor[_PRESENT]
        while _blank(text[at]):
            at += 1
        if text[at] == _NEWLINE:
            cursor[_BLANK] += 1
            at += 1
            continue
        if text[at] == _HASH:
            cursor[_FAULT] = at
            at = _end_of_comment(text, at)
            if at < 0:
                return _RETURNED
            cursor[_COMMENTS] += 1
            at += 1
            continue
        if rows == room:
            return _LONGER

        cursor[_FAULT] = at
        start = at
        at, value, sure = _number(text, at)
        if sure < 0 or not _ends(text[at]):
            return _RELEVANCE
        if text[start] == _MINUS:
            return _NEGATIVE
        if value > _LARGEST:
            return _LARGE
        relevance[rows] = value
        if sure == 0:
            doubtful[unsure, 0], doubtful[unsure, 1] = start, at
            doubtful[unsure, 2], doubtful[unsure, 3] = rows, -1
            unsure += 1
        while _blank(text[at]):
            at += 1

        cursor[_FAULT] = second = at
        query = -1
        if place != _BY_COMMENT and text[at] == _Q:
            if text[at + 1] == _I and text[at + 2] == _D and text[at + 3] == _COLON:
                at, query = _whole(text, at + 4)
            if query < 0 or not _ends(text[at]):
                return _QUERY
            place = _BY_QID
            while _blank(text[at]):
                at += 1
        elif place == _BY_QID:
            return _QUERY

        row = rows * width
        filled = 0
        while text[at] != _NEWLINE and text[at] != _HASH:
            cursor[_FAULT] = at
            at, number = _whole(text, at)
            if number < 0 or text[at] != _COLON:
                return _FEATURE
            column = number - base
            if column < filled:
                if column < 0:
                    return _FROM_ZERO
                cursor[_PREVIOUS] = filled - 1 + base
                return _ORDER
            if column >= width:
                cursor[_NEED] = column + 1
                return _WIDER
            start = at + 1
            at, value, sure = _number(text, start)
            if sure < 0 or not _ends(text[at]):
                return _VALUE
            if not -_LARGEST <= value <= _LARGEST:
                return _LARGE
            for gap in range(filled, column):
                features[row + gap] = 0
            features[row + column] = value
            if sure == 0:
                doubtful[unsure, 0], doubtful[unsure, 1] = start, at
                doubtful[unsure, 2], doubtful[unsure, 3] = rows, column
                unsure += 1
            filled = column + 1
            present += 1
            while _blank(text[at]):
                at += 1
        for gap in range(filled, width):
            features[row + gap] = 0

        if query < 0:
            cursor[_FAULT] = second
            if text[at] == _HASH:
                at += 1
                while _blank(text[at]):
                    at += 1
                at, query = _whole(text, at)
                while _blank(text[at]):
                    at += 1
            if query < 0 or text[at] != _NEWLINE:
                return _QUERY
            place = _BY_COMMENT
        at = _end_of_comment(text, at)
        if at < 0:
            return _RETURNED
        at += 1
        queries[rows] = query
        rows += 1
        cursor[_DOUBTFUL], cursor[_PRESENT], cursor[_PLACE] = unsure, present, place
        cursor[_COLUMNS] = max(cursor[_COLUMNS], filled)
    cursor[_AT], cursor[_ROWS] = at, rows
    return _DONE
