"""The command ``peekrank reproduce``: every figure, table and claim, and what came out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import TaskProgressColumn
from rich.table import Table

from peekrank.cli._progress import passing_bar

if TYPE_CHECKING:
    from peekrank.papers.record import Claim, Reproduction

_THREADS = os.cpu_count() or 1


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="What to make.", show_default="nothing: list what there is")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Make everything.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look: few and short runs; of everything, if no name is given.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for results; run again to go on.",
            show_default="reproduction, or reproduction-quick",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")] = _THREADS,
) -> None:
    """Make the figures, tables and claims of the papers, and ours: what is stated, what came out, a verdict.

    A verdict may be "differs": that is a finding, no error.
    """
    from peekrank._util.validate import whole
    from peekrank.papers import ALL, reproduction

    out = Console()
    if not (names or everything or quick):
        out.print(listing(list(ALL.values())))
        return
    if names and everything:
        raise ValueError("--all does not go with names: give either")
    whole("workers", workers, 1)
    items = [reproduction(name) for name in dict.fromkeys(names or ALL)]
    _make(
        items, folder or Path("reproduction-quick" if quick else "reproduction"), out, quick=quick, workers=workers
    )


def _make(items: Sequence[Reproduction], path: Path, out: Console, *, quick: bool, workers: int) -> None:
    from peekrank.jobs.executor import InterruptedRunError
    from peekrank.papers.record import Folder

    err = Console(stderr=True)
    folder = Folder(path, quick=quick)
    total = differ = 0
    for n, item in enumerate(items):
        try:
            with passing_bar(f"{item.name} ({n + 1} of {len(items)})", err, TaskProgressColumn()) as progress:
                kept = folder.make(item, workers=workers, progress=progress)
        except (InterruptedRunError, KeyboardInterrupt):
            err.print(
                f"stopped; {n} of {len(items)} are finished; they, and what is done of {item.name}, are kept in "
                f"{path}{os.sep} - the same command goes on from there",
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
        total += len(kept.claims)
        differ += kept.differ
        out.print(verdicts(item, kept.claims))
    said = f"{total} claims: {total - differ} hold, {differ} differ"
    out.print(said + (" (docs/papers/reproduce.md says why)." if differ else "."), highlight=False, soft_wrap=True)
    out.print(f"Claims, tables and pictures are in {path}{os.sep}", highlight=False, soft_wrap=True)


def listing(items: Sequence[Reproduction]) -> Table:
    """What there is, from where, and how long it takes."""
    table = Table(
        title="peekrank reproduce NAME ... [--quick]", title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("name", no_wrap=True)
    table.add_column("source: statement", overflow="fold")
    for mode in ("quick", "full"):
        table.add_column(mode, justify="right", no_wrap=True)
    for item in items:
        table.add_row(item.name, escape(f"{item.source}: {item.statement}"), *map(duration, item.seconds))
    quick, full = (sum(seconds) for seconds in zip(*(item.seconds for item in items), strict=True))
    table.add_row(
        "--all",
        "everything; times are of one core, roughly; one by itself may have to compile first, for 15 s",
        duration(quick),
        duration(full),
    )
    return table


def verdicts(item: Reproduction, claims: Sequence[Claim]) -> Table:
    """What is stated, what came out, and whether it is the same."""
    title = f"{item.name}: {item.source}, {item.statement}"
    table = Table("statement", "here", title=escape(title), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        verdict = claim.verdict if claim.holds else f"[bold]{claim.verdict}[/]"
        table.add_row(escape(f"{claim.what}: {claim.expected}"), escape(claim.here), verdict)
    return table


def duration(seconds: int) -> str:
    """Seconds or minutes, in whole numbers.

    >>> duration(45), duration(800)
    ('45 s', '13 min')
    """
    return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"
