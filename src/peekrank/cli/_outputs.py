"""What commands print, and the files they write."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from peekrank._util.atomic import write_whole
from peekrank._util.signals import interrupt_later
from peekrank.cli._verbosity import STANDARD_OUTPUT, VERBOSITY

if TYPE_CHECKING:
    from rich.console import RenderableType

_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def echo(*parts: RenderableType) -> None:
    """Print one after the other. A Text is not wrapped: it may be a command or a path, to be copied.

    Tables are padded to their width; what is copied from a terminal should not end in blanks.
    """
    if not VERBOSITY.get().answers:
        return
    console = Console()
    with console.capture() as printed:
        for part in parts:
            console.print(part, highlight=False, soft_wrap=isinstance(part, Text))
    console.file.write(_TRAILING.sub(r"\1", printed.get()))
    console.file.flush()  # who reads along, through a pipe, should not have to wait


def labelled() -> Table:
    """An empty table of labels and what belongs to them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def write_text(path: Path, text: str) -> None:
    """Write a text and a line's end, whole; Ctrl-C has to wait."""
    with interrupt_later():
        write_whole(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def write_json(path: Path | None, data: dict[str, Any], indent: int | None = 1) -> None:
    """Write an answer as JSON, to standard output if the file is called -; nothing without a file."""
    if path is None:
        return
    text = json.dumps(_finite(data), indent=indent, allow_nan=False)
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text + "\n")
    else:
        write_text(path, text)


def _finite(value: Any) -> Any:
    """The same with null for what is no number, or without bound: JSON has no word for these."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_outputs(*files: Path | None, read: Sequence[Path] = ()) -> None:
    """Raise a ValueError now if one of these files could not be written later, or is one that is read."""
    paths = [path for path in files if path and path != STANDARD_OUTPUT]
    for path in paths:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is no regular file: name one that is, or a new one")
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise ValueError(f"{path} cannot be written: {above} is not a folder that can be written to")
    taken = {path.resolve() for path in read}
    for path in paths:
        if path.resolve() in taken:
            raise ValueError(f"{path}: each output needs a file of its own, and none that is read")
        taken.add(path.resolve())


def check_replaceable(file: Path) -> None:
    """Raise a ValueError if there is a model or a compact data set of this name, which no table should replace."""
    from peekrank.data.peek import is_compact
    from peekrank.training.model import is_model

    if file.exists() and (is_model(file) or is_compact(file)):
        what = "a model" if is_model(file) else "a data set"
        raise ValueError(f"{file}: is {what}, which would be replaced; remove it first, or choose another name")
