"""Progress bars and spinners on standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status

from peekrank.cli._errors import print_error
from peekrank.cli._verbosity import VERBOSITY

_DELAY = 1.0  # seconds


def status(what: str) -> Status:
    """Return a spinner for work of unknown duration."""
    return _console().status(what)


def _console() -> Console:
    return Console(stderr=True, quiet=not VERBOSITY.get().progress)


@contextmanager
def transient_progress(what: str, *amounts: ProgressColumn) -> Iterator[Callable[[float, int], None]]:
    """Show a progress bar after the first second, and remove it at the end. Call it with done and total."""
    console = _console()
    columns = amounts or (TaskProgressColumn(),)
    bar = Progress(TextColumn(what), BarColumn(), *columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(what)
    started = time.monotonic()

    def progress(done: float, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if console.is_terminal and time.monotonic() - started > _DELAY:
            bar.start()

    try:
        yield progress
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def rounds_bar(rounds: int, finished: Callable[[], str], folder: Path) -> Iterator[Callable[[int], None]]:
    """Show a progress bar of rounds. On Ctrl-C, print what is finished and exit with code 130."""
    from peekrank.jobs.executor import InterruptedRunError

    columns = TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = _console()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds", total=rounds)
        try:
            yield lambda n: bar.advance(task, n)
        except InterruptedRunError:
            bar.stop()
            exit_interrupted(f"{finished()} are finished and kept", folder)


def exit_interrupted(state: str, folder: Path) -> NoReturn:
    """Print which results an interrupted command has kept, and exit with code 130."""
    print_error(f"stopped; {state} in {folder}{os.sep} - run the same command again to resume")
    raise typer.Exit(130)
