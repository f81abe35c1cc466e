"""A progress bar for what may be over in a moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

_MOMENT = 1.0  # second


@contextmanager
def passing_bar(what: str, console: Console, *amounts: ProgressColumn) -> Iterator[Callable[[float, int], None]]:
    """A bar that comes if it takes longer than a moment, and goes when done; call it with done and total."""
    bar = Progress(TextColumn(what), BarColumn(), *amounts, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(what)
    begun = time.monotonic()

    def progress(done: float, of: int) -> None:
        bar.update(task, completed=done, total=of)
        if console.is_terminal and time.monotonic() - begun > _MOMENT:
            bar.start()

    try:
        yield progress
    finally:
        if bar.live.is_started:
            bar.stop()
