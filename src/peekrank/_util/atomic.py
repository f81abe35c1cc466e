"""Atomic file writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object], *, durable: bool = False) -> None:
    """Write a file atomically: `write` fills a temporary file, which then replaces the file.

    If `durable`, this waits until the file is on the disk. Raises ValueError if the path is a symbolic link, which
    somebody else may have placed there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "new" / "a.txt", lambda path: path.write_text("all of it"))
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'all of it'
    """
    check_no_link(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        if durable:
            _sync(temporary)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # its own message names the temporary file, or no file
            raise OSError(f"{path} cannot be written: {error.strerror or error}") from None
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_no_link(path: Path) -> None:
    """Raise ValueError if a path is a symbolic link."""
    if path.is_symlink():
        raise ValueError(f"{path} is a symbolic link, and nothing is written through one; name the file itself")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder or one level below.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / f".a.txt.{os.getpid()}-1.part").write_text("I am still writing")
    ...     _ = (Path(folder) / ".a.txt.999999999-1.part").write_text("half of")
    ...     remove_leftovers(Path(folder))
    ...     len(list(Path(folder).iterdir()))
    1
    """
    for path in (*folder.glob(".*.part"), *folder.glob("*/.*.part")):
        writer = path.name.split(".")[-2].partition("-")[0]
        if writer.isdecimal() and not _alive(int(writer)):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True  # on Windows, os.kill would end the process
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
