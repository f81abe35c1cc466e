"""``peekrank reproduce``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank.cli._options import THREADS, Quiet, Workers
from peekrank.cli._outputs import echo
from peekrank.cli._progress import exit_interrupted, transient_progress
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from peekrank.papers.record import Claim, Reproduction

EXAMPLES = """\
# List what can be reproduced, with durations.
peekrank reproduce
# Reproduce one table of the first paper.
peekrank reproduce ct15-table-1
# Reproduce everything, quickly: half a minute.
peekrank reproduce --quick"""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Item to reproduce.", show_default="list all names"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Reproduce everything.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use few, short runs. Without a name, reproduce everything.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for results. The same command resumes an interrupted run.",
            show_default="reproduction, or reproduction-quick",
        ),
    ] = None,
    workers: Workers = THREADS,
    quiet: Quiet = False,
) -> None:
    """Reproduce the papers' figures, tables and claims, and ours, with a verdict on each.

    The verdict "differs" is a finding, not an error.
    """
    from peekrank._util.validate import check_int
    from peekrank.papers import ALL, reproduction

    configure_output(quiet=quiet)
    if not (names or everything or quick):
        echo(_listing(list(ALL.values())))
        return
    if names and everything:
        raise ValueError("--all and names exclude each other; give either")
    check_int("workers", workers, 1)
    items = [reproduction(name) for name in dict.fromkeys(names or ALL)]
    _reproduce(
        items, folder or Path("reproduction-quick" if quick else "reproduction"), quick=quick, workers=workers
    )


def _reproduce(items: Sequence[Reproduction], path: Path, *, quick: bool, workers: int) -> None:
    from peekrank.jobs.executor import InterruptedRunError
    from peekrank.papers.record import Record

    record = Record(path, quick=quick)
    total = differ = unclear = 0
    for n, item in enumerate(items):
        try:
            with transient_progress(f"{item.name} ({n + 1} of {len(items)})") as progress:
                result = record.reproduce(item, workers=workers, progress=progress)
        except (InterruptedRunError, KeyboardInterrupt):
            exit_interrupted(f"{n} of {len(items)} are finished; they and the runs of {item.name} are kept", path)
        total += len(result.claims)
        differ += result.differ
        unclear += result.unclear
        echo(_verdicts(item, result.claims))
    summary = f"{total} claims: {total - differ - unclear} hold, {differ} differ"
    summary += f", {unclear} have too few runs to judge" if unclear else ""
    echo(
        Text(summary + (" (docs/papers/reproduce.md explains why)." if differ else ".")),
        Text(f"Wrote claims, tables and plots to {path}{os.sep}"),
    )


def _listing(items: Sequence[Reproduction]) -> Table:
    """Render a table of all items with source and duration."""
    table = Table(
        title="peekrank reproduce NAME ... [--quick]", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("name", no_wrap=True)
    table.add_column("source: statement", overflow="fold")
    for mode in ("quick", "full"):
        table.add_column(mode, justify="right", no_wrap=True)
    for item in items:
        table.add_row(item.name, escape(f"{item.source}: {item.statement}"), *map(_duration, item.seconds))
    quick, full = (sum(seconds) for seconds in zip(*(item.seconds for item in items), strict=True))
    table.add_row(
        "--all",
        "everything; durations are rough, on one core; a single item may first compile for 15 s",
        _duration(quick),
        _duration(full),
    )
    return table


def _verdicts(item: Reproduction, claims: Sequence[Claim]) -> Table:
    """Render a table of claims, our results and verdicts."""
    title = f"{item.name}: {item.source}, {item.statement}"
    table = Table(
        "statement", "result", title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        verdict = f"[bold]{claim.verdict}[/]" if claim.verdict == "differs" else claim.verdict.partition(" to ")[0]
        table.add_row(escape(f"{claim.what}: {claim.expected}"), escape(claim.here), verdict)
    return table


def _duration(seconds: int) -> str:
    """Format a duration in whole seconds or minutes.

    >>> _duration(45), _duration(800)
    ('45 s', '13 min')
    """
    return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"
