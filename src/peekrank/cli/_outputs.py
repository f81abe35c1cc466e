"""Output of commands: text on the terminal, and files."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from peekrank._util.atomic import check_no_link, write_whole
from peekrank._util.signals import interrupt_later
from peekrank.cli._verbosity import STANDARD_OUTPUT, VERBOSITY

if TYPE_CHECKING:
    from rich.console import RenderableType

_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def echo(*parts: RenderableType) -> None:
    """Print parts in order. A `Text` is not wrapped, so that a command or path in it can be copied.

    Trailing blanks, which pad tables, are removed.
    """
    if not VERBOSITY.get().results:
        return
    console = Console()
    with console.capture() as printed:
        for part in parts:
            console.print(part, highlight=False, soft_wrap=isinstance(part, Text))
    console.file.write(_TRAILING.sub(r"\1", printed.get()))
    console.file.flush()  # so that a reader of the pipe gets it now


def labelled() -> Table:
    """Return an empty table with a column of labels and a column of texts."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def write_text(path: Path, text: str) -> None:
    """Write a text and a line break atomically. Ctrl-C takes effect afterwards."""
    with interrupt_later():
        write_whole(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def write_json(
    path: Path | None, data: dict[str, Any] | Callable[[], dict[str, Any]], indent: int | None = 1
) -> None:
    """Write a result as JSON to a file, or to standard output if the path is ``-``.

    `data` may be a function that returns the result; without a path it is not called.
    """
    if path is None:
        return
    text = json.dumps(_finite(data() if callable(data) else data), indent=indent, allow_nan=False)
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text + "\n")
    else:
        write_text(path, text)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by null, because JSON has no such numbers."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_outputs(*files: Path | None, read: Sequence[Path] = ()) -> None:
    """Check that files can be written later. Raises ValueError if one cannot, or is also an input."""
    paths = [path for path in files if path and path != STANDARD_OUTPUT]
    for path in paths:
        check_no_link(path)
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is not a regular file; choose another name")
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise ValueError(f"{path} cannot be written: {above} is not a writable folder")
    used = {path.resolve() for path in read}
    for path in paths:
        if path.resolve() in used:
            raise ValueError(f"{path} is also an input or another output; each output needs its own file")
        used.add(path.resolve())


def check_replaceable(file: Path) -> None:
    """Check that a file may be replaced. Raises ValueError if it is a model or a compact data set."""
    from peekrank.data.peek import is_compact
    from peekrank.training.model import is_model

    if file.exists() and (is_model(file) or is_compact(file)):
        what = "a model" if is_model(file) else "a data set"
        raise ValueError(f"{file} is {what} and would be overwritten; remove it first, or choose another name")
