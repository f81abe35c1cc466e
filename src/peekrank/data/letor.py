"""Reader and writer of LETOR and SVMlight text files, plain or compressed by gzip."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.atomic import write_whole
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import MAX_LINE, line_too_long, read_text
from peekrank._util.validate import check_int
from peekrank.data._lines import after_last_newline
from peekrank.data._numbers import DIGITS, Bytes
from peekrank.data._table import MAX_FEATURES, Groups, ReadOptions, Table
from peekrank.data.dataset import Dataset, check_finite

Progress = Callable[[float, int], None]

_BLOCK = 1 << 22  # bytes per read: they stay in the cache for the parser, and Ctrl-C works between reads
_NEWLINE = ord("\n")
_GZIP = b"\x1f\x8b"  # first bytes of gzip files
_ARCHIVES = (  # first bytes of other files, their kind, and a remedy
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"BZh", "compressed by bzip2", "bunzip2 it first"),
    (b"\xfd7zXZ", "compressed by xz", "unxz it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unzstd it first"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"PAR1", "a Parquet file", "rename it to *.parquet"),
)


def read_letor(
    path: str | PathLike[str],
    *,
    features: int | None = None,
    base: int | None = None,
    relevance: bool = True,
    documents: bool = False,
    progress: Progress = lambda _done, _size: None,
) -> Dataset:
    r"""Read lines ``relevance qid:N id:value id:value ... # comment``.

    Missing features are 0. The result groups documents by query and keeps their order within a query. Values are
    rounded to the nearest float32. Queries may have names instead of numbers. Raises ValueError with the line if a
    line is invalid.

    A file without ``qid:`` must name its queries in one of two ways. Its comments can hold the number of the query
    and nothing else (Yandex IMAT 2009). Or a file ``train.txt.query`` or ``train.txt.group`` next to it can hold
    the number of documents of each query, one per line, as for LightGBM and XGBoost.

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
        A text file, plain or compressed by gzip. Its name does not matter.
    features
        Number of columns. Set it so that all files of a data set have the same columns; a larger id is then an
        error. The default is the largest id in the file.
    base
        The smallest possible feature id, 0 or 1. The default is 0 if the id 0 occurs, and 1 otherwise. Set it if
        ids start at 0 but a file may lack feature 0.
    relevance
        Whether each line must have relevance. If not, all lines may begin with the query, and relevance is 0.
    documents
        Whether to keep the ids of documents in comments such as ``# docid = GX00-1`` or ``# GX00-1``.
    progress
        Called with the number of bytes read so far and the size of the file.

    References
    ----------
    Joachims, Making large-scale SVM learning practical, 1999 (the format); Qin and Liu, Introducing LETOR 4.0
    datasets, 2013.
    """
    if features is not None:
        check_int("features", features, 1, MAX_FEATURES)
    if base is not None:
        check_int("base", base, 0, 1)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, for example train.txt")
    table = Table(path.name, features, base, ReadOptions(relevance, documents, _read_groups(path)))
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for text, end in _blocks(file, path.name, digest, lambda: table.lines):
            done = file.tell() if file.seekable() else 0  # compressed bytes, for gzip
            table.add(text, end, done / max(done, size, 1))
            progress(done, max(done, size))
    return table.dataset(digest.hexdigest())


def write_letor(data: Dataset, path: str | PathLike[str]) -> None:
    """Write a data set as text that `read_letor` reads back exactly, compressed if the name ends in ``.gz``.

    Features that are 0 are omitted, except for the first and the last one of the first document, which define the
    range of ids. Ids of documents are comments. Unknown relevance is written as 0. Raises ValueError if a number
    is not finite, or if an id contains white space or #.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "out.txt")
    >>> data = Dataset.of([[0.5, 0], [0, 0.1]], relevance=[2, 0], queries=[7, 7], documents=["a", "b"])
    >>> write_letor(data, path)
    >>> print(path.read_text(), end="")
    2 qid:7 1:0.5 2:0 # a
    0 qid:7 2:0.1 # b

    Parameters
    ----------
    data
        The data set.
    path
        The file. An existing file is replaced atomically.
    """
    check_finite(data, str(path))
    for text in (*data.names, *data.documents):
        if re.search(r"[\s#]", text):
            raise ValueError(f"'{excerpt(text)}': ids of queries and documents must not contain white space or #")
    path, ends = Path(path), {0, data.features.shape[1] - 1}

    def lines() -> Iterator[str]:
        for query, (first, end) in enumerate(pairwise(data.offsets)):
            name = data.query_name(query)
            for row in range(first, end):
                columns = {*np.flatnonzero(data.features[row]).tolist(), *(ends if row == 0 else ())}
                values = (f"{data.about.base + c}:{_shortest(data.features[row, c])}" for c in sorted(columns))
                comment = f" # {data.documents[row]}" if data.documents and data.documents[row] else ""
                yield f"{_shortest(data.relevance[row])} qid:{name} {' '.join(values)}".rstrip() + comment + "\n"

    def write(part: Path) -> None:
        with gzip.open(part, "wt") if path.suffix == ".gz" else part.open("w", encoding="utf-8") as file:
            file.writelines(lines())

    write_whole(path, write)


def _shortest(number: Any) -> str:
    """Return the shortest decimal text that is read as this number."""
    return str(number).removesuffix(".0")


class Fold(NamedTuple):
    """The parts of a published split. `validation` is None if the split has none."""

    train: Dataset
    validation: Dataset | None
    test: Dataset


_FOLDS = (  # names of the parts: LETOR and MSLR, Yahoo LTRC set 1, Yandex IMAT 2009
    ("train.txt", "vali.txt", "test.txt"),
    ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
    ("imat2009_learning.txt", "imat2009_test.txt"),
)


def read_fold(folder: str | PathLike[str], *, progress: Progress = lambda _done, _size: None) -> Fold:
    """Read the parts of a published split, all with the same columns.

    The folder is one of ``Fold1`` to ``Fold5`` of MQ2007, MQ2008 or MSLR-WEB10K, or that of Yahoo LTRC set 1 or of
    Yandex IMAT 2009. Files have their published names, with or without ``.gz``.

    Parameters
    ----------
    folder
        The folder with the files.
    progress
        As in `read_letor`, for each file in turn.
    """
    folder = Path(folder)
    paths = next(filter(all, ([_plain_or_gzip(folder, name) for name in names] for names in _FOLDS)), None)
    if paths is None:
        known = "; ".join(" ".join(names) for names in _FOLDS)
        raise ValueError(f"{folder}: has no published split; expected files with the names: {known}")
    files = [path for path in paths if path]
    parts = [read_letor(path, progress=progress) for path in files]
    base = min(part.about.base for part in parts)
    features = max(part.features.shape[1] + part.about.base - base for part in parts)
    for i, part in enumerate(parts):
        if (part.about.base, part.features.shape[1]) != (base, features):
            parts[i] = read_letor(files[i], features=features, base=base, progress=progress)
    return Fold(parts[0], parts[1] if len(parts) > 2 else None, parts[-1])


def _read_groups(path: Path) -> Groups | None:
    """Read the sizes of queries from the group file next to a text, if there is one."""
    group_file = next((file for file in (Path(f"{path}.query"), Path(f"{path}.group")) if file.is_file()), None)
    if group_file is None:
        return None
    try:
        lines = read_text(group_file, "ascii").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{group_file.name}: is not text; expected a whole number in each line") from None
    sizes = []
    for line, text in enumerate(map(str.strip, lines), 1):
        if not text:
            continue
        if not (text.isdigit() and len(text) <= DIGITS and int(text) > 0):
            message = f"'{excerpt(text)}': must be the number of documents of a query, 1 or more"
            raise ValueError(f"{group_file.name}, line {line}: {message}")
        sizes.append(int(text))
    return Groups(group_file.name, np.array(sizes, np.int64))


def _reject_archives(name: str, start: bytes) -> None:
    for magic, kind, remedy in _ARCHIVES:
        if start.startswith(magic):
            raise ValueError(f"{name}: is {kind}, but must be text, plain or compressed by gzip; {remedy}")


def _plain_or_gzip(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _blocks(file: BufferedReader, name: str, digest: Any, lines: Callable[[], int]) -> Iterator[tuple[Bytes, int]]:
    """Read blocks of whole lines, each with its end. Adds a line feed if the last line has none.

    `lines` returns the number of lines that were parsed, for errors.
    """
    start = file.peek(8)[:8]
    _reject_archives(name, start)
    source = gzip.GzipFile(fileobj=file) if start[:2] == _GZIP else file
    buffer = np.empty(_BLOCK, np.uint8)
    kept = 0
    while True:
        try:
            count = source.readinto(buffer[kept:-1].data)  # one byte is reserved for that line feed
        except EOFError:
            raise ValueError(f"{name}: the compressed data ends early; is the file truncated?") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{name}: is damaged, or not entirely gzip: {error}") from None
        if not count:
            break
        digest.update(buffer[kept : kept + count])
        filled = kept + count
        end = after_last_newline(buffer, kept, filled)
        if end:
            yield buffer, end
            buffer[: filled - end] = buffer[end:filled].copy()
        elif filled > MAX_LINE:
            raise line_too_long(name, lines() + 1)
        elif filled == len(buffer) - 1:
            buffer = np.concatenate((buffer, np.empty_like(buffer)))
        kept = filled - end
    if kept:
        buffer[kept] = _NEWLINE
        yield buffer, kept + 1
