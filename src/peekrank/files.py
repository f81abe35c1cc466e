"""Writing files, whole or between marks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write a file so that there never is half of it under its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "new" / "a.txt", lambda path: path.write_text("all of it"))
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'all of it'
    """
    path = path.resolve()  # what a link points to is written, not the link
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def put_into(page: Path, begin: str, lines: Sequence[str]) -> None:
    """Write lines into a page, between the line `begin` and the next ``<!-- end -->``, in place of what is there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder) / "page.md"
    ...     _ = page.write_text("<!-- begin --> old <!-- end -->")
    ...     put_into(page, "<!-- begin -->", ["new"])
    ...     page.read_text().split()
    ['<!--', 'begin', '-->', 'new', '<!--', 'end', '-->']
    """
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    _, end, after = rest.partition("<!-- end -->")
    if not (mark and end):
        raise ValueError(f"{page} has no lines '{begin}' and '<!-- end -->'")
    text = "\n".join([before + begin, "", *lines, "", end]) + after
    write_whole(page, lambda path: path.write_text(text, encoding="utf-8"))
