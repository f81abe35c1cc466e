"""What ``peekrank sweep`` chooses and says: the engine, the tables of all cells, the comparisons of learners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from peekrank.comparison import LEVEL
from peekrank.files import write_whole
from peekrank.parameters import choice
from peekrank.report import chance, interval, number, percent
from peekrank.reproduction.record import Table as PaperTable
from peekrank.runs import Threads
from peekrank.sweep_report import MOST_PICTURES, write_pictures, write_sweep_report
from peekrank.sweep_runs import CELL, Finished

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.runs import Engine

Row = list[str]
_MOST_ROWS = 60  # on a terminal
_WORDS = ("stream", "measure", "learner", "minus", "verdict")


def engine_named(name: str, address: str | None, workers: int) -> Engine:
    """The engine that options choose.

    >>> engine_named("threads", None, 2)
    Threads(workers=2)
    """
    choice("engine", name, Literal["threads", "ray"])
    if name == "threads":
        if address is not None:
            raise ValueError(f"--address {address} goes with --engine ray")
        return Threads(workers)
    from peekrank.ray_engine import Ray

    return Ray(address, workers)


def tell(finished: Finished) -> list[RenderableType]:
    """The tables of a sweep, and what their columns mean."""
    sweep = finished.sweep
    title = f"{sweep.name}: {sweep.runs} runs, seed {sweep.seed}" + (", same rounds" if not sweep.redraw else "")
    said = [*_shown(title, *_summary(finished), "summary.csv")]
    if len(sweep.learners) > 1:
        said += _shown("Differences of regret over paired runs", *_comparisons(finished), "comparisons.csv")
        said.append(
            Text(
                "A verdict is by the adjusted p-value (paired t test, Holm's correction over all rows): chance "
                f"alone makes a wrong one among them with probability {LEVEL:.0%} at most. Intervals are of "
                "single rows."
            )
        )
    return said


def write_papers(finished: Finished, folder: Path, *, latex: bool, markdown: bool) -> None:
    """Write both tables as papers and pages have them."""
    for name, (heads, rows) in (("summary", _summary(finished)), ("comparisons", _comparisons(finished))):
        table = PaperTable(tuple(heads), rows)
        if latex:
            _write(folder / f"{name}.tex", table.latex())
        if markdown:
            _write(folder / f"{name}.md", "\n".join(table.markdown()))


def write_report(finished: Finished, folder: Path) -> Text:
    """Write the report, and pictures unless there are too many cells; tell where they are."""
    report = write_sweep_report(finished, folder / "report.html")
    if write_pictures(finished, folder / "pictures"):
        return Text(f"The report is {report}, its pictures are in {folder / 'pictures'}{os.sep}")
    many = f"{len(finished.results):,} cells, more than {MOST_PICTURES}"
    return Text(f"The report is {report}; no pictures are drawn of {many}")


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def _summary(finished: Finished) -> tuple[Row, list[Row]]:
    heads = [*CELL, "learner", "regret ± sd", "exponent, 95 %", "bound", "explored"]
    rows = [
        [
            *_cell(row),
            row["learner"],
            f"{number(row['regret'])} ± {number(row['spread'])}",
            interval(row["exponent"], row["exponent_low"], row["exponent_high"]),
            number(row["bound"]),
            percent(row["explored"]),
        ]
        for row in finished.summary().iter_rows(named=True)
    ]
    return heads, rows


def _comparisons(finished: Finished) -> tuple[Row, list[Row]]:
    heads = [*CELL, "learner", "minus", "difference, 95 %", "p", "adjusted p", "verdict"]
    rows = [
        [
            *_cell(row),
            row["learner"],
            row["other"],
            interval(row["difference"], row["low"], row["high"]),
            chance(row["p"]),
            chance(row["adjusted"]),
            row["verdict"],
        ]
        for row in finished.comparisons().iter_rows(named=True)
    ]
    return heads, rows


def _cell(row: dict[str, Any]) -> Row:
    return [f"{row[name]:,}" if name == "horizon" else str(row[name]) for name in CELL]


def _shown(title: str, heads: Row, rows: list[Row], file: str) -> Iterator[RenderableType]:
    """A table of what varies; what is the same in all rows is in its title."""
    varies = [len({row[c] for row in rows}) > 1 or c >= len(CELL) for c in range(len(heads))]
    same = [f"{head} {rows[0][c]}" for c, head in enumerate(heads) if not varies[c]]
    table = Table(title=escape(", ".join([title, *same])), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    for c, head in enumerate(heads):
        if varies[c]:
            table.add_column(head, justify="left" if head in _WORDS else "right", overflow="fold")
    for row in rows[:_MOST_ROWS]:
        table.add_row(*(escape(entry) for c, entry in enumerate(row) if varies[c]))
    yield table
    if len(rows) > _MOST_ROWS:
        yield Text(f"{_MOST_ROWS} of {len(rows):,} rows; all are in {file}.")
