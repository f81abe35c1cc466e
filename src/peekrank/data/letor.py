"""Reading judged documents with features from text: LETOR and SVMlight files, plain or gzip."""

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
from peekrank._util.validate import check_int
from peekrank.data._lines import after_last_newline
from peekrank.data._numbers import DIGITS, Bytes
from peekrank.data._table import MOST_FEATURES, Groups, ReadOptions, Table
from peekrank.data.dataset import Dataset, check_finite

Progress = Callable[[float, int], None]

_BLOCK = 1 << 22  # bytes read at a time: what is parsed is still in cache, and Ctrl-C is noticed soon
_NEWLINE = ord("\n")
_GZIP = b"\x1f\x8b"  # how gzip files begin
_ARCHIVES = (  # how other files begin, what they are, and what to do
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"BZh", "compressed by bzip2", "bunzip2 it first"),
    (b"\xfd7zXZ", "compressed by xz", "unxz it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unzstd it first"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"PAR1", "a Parquet file", "read it as a table, and use Dataset.of"),
)


def read_letor(
    path: str | PathLike[str],
    *,
    features: int | None = None,
    base: int | None = None,
    relevance: bool = True,
    documents: bool = False,
    progress: Progress = lambda _done, _of: None,
) -> Dataset:
    r"""Read lines ``relevance qid:N id:value id:value ... # comment``.

    Missing features are 0. Documents of one query come together, in the order of the file, wherever they stand. A
    file without ``qid:`` has the number of the query, and nothing else, as comment (Yandex IMAT 2009). Values are
    the nearest float32. What does not fit is a ValueError with its line.

    A file without any ``qid:`` may also have one beside it with the number of documents of each query, a line
    each, as LightGBM and XGBoost do: ``train.txt.query`` or ``train.txt.group``. Queries may have names instead of
    numbers.

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
    relevance
        Whether each line must have relevance; if not, lines may all begin with the query, and relevance is 0.
    documents
        Whether to keep the ids of documents that comments have: ``# docid = GX00-1`` or ``# GX00-1``.
    progress
        Called with the bytes read so far and the size of the file.

    References
    ----------
    Joachims, Making large-scale SVM learning practical, 1999 (the format); Qin and Liu, Introducing LETOR 4.0
    datasets, 2013.
    """
    if features is not None:
        check_int("features", features, 1, MOST_FEATURES)
    if base is not None:
        check_int("base", base, 0, 1)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, such as train.txt")
    table = Table(path.name, features, base, ReadOptions(relevance, documents, _groups_beside(path)))
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for text, end in _blocks(file, path.name, digest):
            done = file.tell() if file.seekable() else 0  # compressed bytes, if they are
            table.add(text, end, done / max(done, size, 1))
            progress(done, max(done, size))
    return table.dataset(digest.hexdigest())


def write_letor(data: Dataset, path: str | PathLike[str]) -> None:
    """Write a data set as text that `read_letor` reads back exactly; compressed, if the name ends in ``.gz``.

    Features that are 0 are left out, but for the first and the last one of the first document, which tell how many
    there are and where ids begin. Ids of documents are comments. Relevance that is not known is written as 0.

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
        What to write.
    path
        Where to; a file there is replaced when all is written.
    """
    check_finite(data, str(path))
    for text in (*data.names, *data.documents):
        if re.search(r"[\s#]", text):
            raise ValueError(f"'{excerpt(text)}': ids of queries and documents must have no blanks and no #")
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
    """The shortest decimal number that is read as this one."""
    return str(number).removesuffix(".0")


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
    for position, part in enumerate(parts):
        if (part.about.base, part.features.shape[1]) != (base, features):
            parts[position] = read_letor(there[position], features=features, base=base, progress=progress)
    return Fold(parts[0], parts[1] if len(parts) > 2 else None, parts[-1])


def _groups_beside(path: Path) -> Groups | None:
    """The sizes of queries in a file beside a text, if there is one."""
    beside = next((file for file in (Path(f"{path}.query"), Path(f"{path}.group")) if file.is_file()), None)
    if beside is None:
        return None
    try:
        lines = beside.read_text(encoding="ascii").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{beside.name}: must hold a whole number in each line, and is not even text") from None
    sizes = []
    for line, text in enumerate(map(str.strip, lines), 1):
        if not text:
            continue
        if not (text.isdigit() and len(text) <= DIGITS and int(text) > 0):
            what = "must be the number of documents of a query, 1 or more"
            raise ValueError(f"{beside.name}, line {line}: '{excerpt(text)}': {what}")
        sizes.append(int(text))
    return Groups(beside.name, np.array(sizes, np.int64))


def _refuse_archives(name: str, start: bytes) -> None:
    for magic, what, do in _ARCHIVES:
        if start.startswith(magic):
            raise ValueError(f"{name}: is {what}, and texts are read plain or compressed by gzip; {do}")


def _plain_or_gzip(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _blocks(file: BufferedReader, name: str, digest: Any) -> Iterator[tuple[Bytes, int]]:
    """Pieces of whole lines, each with its end; a line feed is added where the last line has none."""
    start = file.peek(8)[:8]
    _refuse_archives(name, start)
    source = gzip.GzipFile(fileobj=file) if start[:2] == _GZIP else file
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
        end = after_last_newline(buffer, kept, filled)
        if end:
            yield buffer, end
            buffer[: filled - end] = buffer[end:filled].copy()
        elif filled == len(buffer) - 1:
            buffer = np.concatenate((buffer, np.empty_like(buffer)))
        kept = filled - end
    if kept:
        buffer[kept] = _NEWLINE
        yield buffer, kept + 1
