"""Writing files whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` write a file so that there never is half of it under its name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "new" / "a.txt", lambda path: path.write_text("all of it"))
    ...     (Path(folder) / "new" / "a.txt").read_text()
    'all of it'
    """
    if path.is_symlink():
        path = path.resolve()  # what a link points to is written, not the link
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        write(temporary)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # it was opened, and the message says not which
            reason = error.strerror or "writing failed"
            raise OSError(f"{path}: cannot be written: {reason}; is the disk full?") from None
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what processes killed while `write_whole` was writing have left in a folder, or one level below.

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
        return True  # elsewhere asking is ending it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
