"""Options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from peekrank.registry import load

Items = Annotated[int, typer.Option("--m", help="Number of items.")]
Revealed = Annotated[int, typer.Option("--k", help="Number of items, from the top, whose relevance is revealed.")]
Grades = Annotated[int, typer.Option(help="Number of relevance grades.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
Workers = Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")]
ResultsDir = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder for results; the same command goes on where it was stopped."
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the answer as JSON; - prints it, and nothing else."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no answer and no progress, only notes and errors.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE.py|MODULE",
        help="Learners, measures, surrogates and streams of your own; can be repeated.",
        show_default=False,
    ),
]

THREADS = os.cpu_count() or 1


def import_all(sources: list[str] | None) -> None:
    """Make known what files and modules define, for the rest of the process."""
    for source in sources or ():
        load(source)
