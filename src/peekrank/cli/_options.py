"""Options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Items = Annotated[int, typer.Option("--m", help="Number of items.")]
Revealed = Annotated[int, typer.Option("--k", help="Number of items, from the top, whose relevance is revealed.")]
Grades = Annotated[int, typer.Option(help="Number of relevance grades.")]
Seed = Annotated[int, typer.Option(help="Randomness of everything.")]
Workers = Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")]
Folder = Annotated[Path, typer.Option("--out", help="Folder for results; run again to go on.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the answer as JSON.")]

THREADS = os.cpu_count() or 1
