"""Options that several commands share."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from peekrank._util.validate import check_choice
from peekrank.registry import load

if TYPE_CHECKING:
    from peekrank.jobs.executor import Executor
    from peekrank.training.table_files import TableOptions

Items = Annotated[int, typer.Option("--m", help="Number of items.")]
Revealed = Annotated[int, typer.Option("--k", help="Number of top items whose relevance is revealed per round.")]
Grades = Annotated[int, typer.Option(help="Number of relevance grades.")]
FeedbackKind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Kind of feedback on the first k items: answers (the relevance of each), order, choice (the best "
        "one), first (the first relevant one), sum (one number for all) or any (whether any is relevant).",
        show_default="answers",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Workers = Annotated[int, typer.Option(help="Number of threads.", show_default="one per core")]
ExecutorName = Annotated[
    str, typer.Option("--executor", help="Executor: threads, or ray, which needs the extra ray.")
]
Address = Annotated[str | None, typer.Option(help="Ray cluster: host:port or auto.", show_default="a local one")]
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

Relevance = Annotated[
    str | None,
    typer.Option(
        "--relevance", metavar="COLUMN", help="Of a table: the column with relevance.", show_default=False
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="COLUMN", help="Of a table: the column with the query.", show_default="one query"
    ),
]
Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Of a table: column of the document's id.")]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN,COLUMN",
        help="Of a table: the features, separated by commas.",
        show_default="all other numbers",
    ),
]
Categories = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN,COLUMN",
        help="Of a table: features that are texts; each value becomes a feature of its own.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="Of a table: reject missing values, or replace them by the median, and add a feature that says so."
    ),
]

DOCUMENTS = "LETOR or SVMlight text, or a .csv, .parquet, .jsonl or .peek file."

THREADS = os.cpu_count() or 1


def table_options(
    relevance: str | None,
    query: str | None,
    document: str | None,
    columns: str | None = None,
    categories: str | None = None,
    missing: str = "reject",
) -> TableOptions:
    """Return what the options say of a table. Lists of columns are lines of CSV."""
    from peekrank.training.table_files import TableOptions

    texts = tuple(_listed(categories))
    chosen = (*_listed(columns), *texts) if columns else ()
    return TableOptions(relevance, query, document, tuple(dict.fromkeys(chosen)), texts, missing)


def _listed(text: str | None) -> list[str]:
    """Return the names in a line of CSV.

    >>> _listed('price,"a,b"')
    ['price', 'a,b']
    """
    return next(csv.reader([text])) if text else []


def executor_named(name: str, address: str | None, workers: int) -> Executor:
    """Return the executor that the options choose.

    >>> executor_named("threads", None, 2)
    Threads(workers=2)
    """
    from peekrank.jobs.executor import Threads

    check_choice("executor", name, Literal["threads", "ray"])
    if name == "threads":
        if address is not None:
            raise ValueError(f"--address {address} needs --executor ray")
        return Threads(workers)
    from peekrank.jobs.ray import Ray

    return Ray(address, workers)


def import_all(sources: list[str] | None) -> None:
    """Import files and modules, which register their classes for the rest of the process."""
    for source in sources or ():
        load(source)
