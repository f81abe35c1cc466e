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
from peekrank.cli._progress import stopped, transient_progress
from peekrank.cli._verbosity import configure_output

if TYPE_CHECKING:
    from peekrank.papers.record import Claim, Reproduction

EXAMPLES = """\
# What can be reproduced, and how long it takes.
peekrank reproduce
# One table of the first paper.
peekrank reproduce ct15-table-1
# A look at everything, half a minute once compiled.
peekrank reproduce --quick"""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="What to reproduce.", show_default="list what there is"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Reproduce everything.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few and short runs; of everything, if no name is given.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for results; the same command goes on where it was stopped.",
            show_default="reproduction, or reproduction-quick",
        ),
    ] = None,
    workers: Workers = THREADS,
    quiet: Quiet = False,
) -> None:
    """Reproduce the figures, tables and claims of the papers, and our own, each with a verdict.

    A verdict may be "differs": that is a finding, not an error.
    """
    from peekrank._util.validate import check_int
    from peekrank.papers import ALL, reproduction

    configure_output(quiet=quiet)
    if not (names or everything or quick):
        echo(_listing(list(ALL.values())))
        return
    if names and everything:
        raise ValueError("--all does not go with names: give either")
    check_int("workers", workers, 1)
    items = [reproduction(name) for name in dict.fromkeys(names or ALL)]
    _make(items, folder or Path("reproduction-quick" if quick else "reproduction"), quick=quick, workers=workers)


def _make(items: Sequence[Reproduction], path: Path, *, quick: bool, workers: int) -> None:
    from peekrank.jobs.executor import InterruptedRunError
    from peekrank.papers.record import Record

    record = Record(path, quick=quick)
    total = differ = 0
    for n, item in enumerate(items):
        try:
            with transient_progress(f"{item.name} ({n + 1} of {len(items)})") as progress:
                kept = record.reproduce(item, workers=workers, progress=progress)
        except (InterruptedRunError, KeyboardInterrupt):
            stopped(f"{n} of {len(items)} are finished; they, and what is done of {item.name}, are kept", path)
        total += len(kept.claims)
        differ += kept.differ
        echo(_verdicts(item, kept.claims))
    said = f"{total} claims: {total - differ} hold, {differ} differ"
    echo(
        Text(said + (" (docs/papers/reproduce.md says why)." if differ else ".")),
        Text(f"Claims, tables and pictures are in {path}{os.sep}"),
    )


def _listing(items: Sequence[Reproduction]) -> Table:
    """What there is, from where, and how long it takes."""
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
        "everything; times are of one core, roughly; one by itself may have to compile first, for 15 s",
        _duration(quick),
        _duration(full),
    )
    return table


def _verdicts(item: Reproduction, claims: Sequence[Claim]) -> Table:
    """What is stated, what came out, and whether it is the same."""
    title = f"{item.name}: {item.source}, {item.statement}"
    table = Table("statement", "here", title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        verdict = claim.verdict if claim.holds else f"[bold]{claim.verdict}[/]"
        table.add_row(escape(f"{claim.what}: {claim.expected}"), escape(claim.here), verdict)
    return table


def _duration(seconds: int) -> str:
    """Seconds or minutes, in whole numbers.

    >>> _duration(45), _duration(800)
    ('45 s', '13 min')
    """
    return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"
