"""Limits on what is read of untrusted files, which may be devices without an end."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO

from peekrank._util.text import excerpt

MAX_LINE = 1 << 26  # bytes; a line of LETOR with a million features takes half of that
MAX_FILE = 1 << 28  # bytes of a file that is parsed as a whole
_ROOM = 1 << 28  # bytes that every file may take in memory,
_EXPANSION = 256  # and how many times its own size a larger one may take


def check_memory(needed: int, size: int) -> str:
    """Return why a file of this size may not take so many bytes of memory, or an empty text if it may.

    >>> check_memory(5 << 30, 1_300_000)
    'would take more than 332,800,000 bytes of memory, the limit for a file of 1,300,000 bytes'
    """
    limit = max(_ROOM, _EXPANSION * size)
    if needed <= limit:
        return ""
    return f"would take more than {limit:,} bytes of memory, the limit for a file of {size:,} bytes"


def read_whole(path: Path, limit: int = MAX_FILE) -> bytes:
    """Read a file. Raises ValueError if it has more bytes than the limit.

    >>> read_whole(Path("/dev/zero"), limit=1000)
    Traceback (most recent call last):
    ValueError: zero: has more than 1,000 bytes, the most that a file of this kind may have
    """
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(
            f"{excerpt(path.name)}: has more than {limit:,} bytes, the most that a file of this kind may have"
        )
    return content


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a text file as `read_whole` does, with line feeds only. Raises UnicodeDecodeError if it is not text."""
    return TextIOWrapper(BytesIO(read_whole(path)), encoding=encoding).read()


def bounded_lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises ValueError at a line that is too long."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise line_too_long(name, number)
        yield line


def line_too_long(name: str, number: int) -> ValueError:
    """Return the error for a line that is too long.

    >>> line_too_long("zero", 1)
    ValueError('zero, line 1: is longer than 67,108,864 bytes; is this text?')
    """
    return ValueError(f"{excerpt(name)}, line {number}: is longer than {MAX_LINE:,} bytes; is this text?")
