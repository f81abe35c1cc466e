"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from peekrank.registry import load

Items = Annotated[int, typer.Option("--m", help="Number of items.")]
Revealed = Annotated[int, typer.Option("--k", help="Number of top items whose relevance is revealed per round.")]
Grades = Annotated[int, typer.Option(help="Number of relevance grades.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Workers = Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")]
Folder = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder for results. The same command resumes an interrupted run."
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result as JSON to FILE, or to standard output if FILE is `-`."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only notes and errors.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE.py|MODULE",
        help="Import your own learners, measures, surrogates and streams. Repeatable.",
        show_default=False,
    ),
]

THREADS = os.cpu_count() or 1


def import_all(sources: list[str] | None) -> None:
    """Import files and modules, which register their classes for the rest of the process."""
    for source in sources or ():
        load(source)
