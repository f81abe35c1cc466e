"""Bars and other signs that something is under way, on standard error."""

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

_MOMENT = 1.0  # second


def status(what: str) -> Status:
    """A sign that turns while something goes on whose end cannot be foreseen."""
    return _console().status(what)


def _console() -> Console:
    return Console(stderr=True, quiet=not VERBOSITY.get().progress)


@contextmanager
def transient_progress(what: str, *amounts: ProgressColumn) -> Iterator[Callable[[float, int], None]]:
    """A bar that comes if it takes longer than a moment, and goes when done; call it with done and total."""
    console = _console()
    columns = amounts or (TaskProgressColumn(),)
    bar = Progress(TextColumn(what), BarColumn(), *columns, TimeRemainingColumn(), console=console, transient=True)
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


@contextmanager
def rounds_bar(rounds: int, finished: Callable[[], str], folder: Path) -> Iterator[Callable[[int], None]]:
    """A bar of rounds; Ctrl-C says what is finished, and ends with code 130."""
    from peekrank.jobs.executor import InterruptedRunError

    columns = TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = _console()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds", total=rounds)
        try:
            yield lambda n: bar.advance(task, n)
        except InterruptedRunError:
            bar.stop()
            stopped(f"{finished()} are finished and kept", folder)


def stopped(kept: str, folder: Path) -> NoReturn:
    """Say what is kept of work that was stopped, and end with code 130."""
    print_error(f"stopped; {kept} in {folder}{os.sep} - the same command goes on from there")
    raise typer.Exit(130)
