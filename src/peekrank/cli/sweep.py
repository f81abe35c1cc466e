"""What ``peekrank sweep`` chooses and says: the engine, the tables of all cells, the comparisons of learners."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from peekrank._util.text import counted
from peekrank._util.validate import choice
from peekrank.cli._tables import Sheet, cell_texts, compared, shown, verdicts_explained, write_paper
from peekrank.experiments.sweep_runs import CELL, Finished
from peekrank.jobs.executor import Threads
from peekrank.regret import Exponent
from peekrank.reports.experiment_page import exponent_text, number, percent
from peekrank.reports.sweep_page import MOST_PICTURES, write_pictures, write_sweep_report

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.jobs.executor import Executor


def engine_named(name: str, address: str | None, workers: int) -> Executor:
    """The engine that options choose.

    >>> engine_named("threads", None, 2)
    Threads(workers=2)
    """
    choice("engine", name, Literal["threads", "ray"])
    if name == "threads":
        if address is not None:
            raise ValueError(f"--address {address} goes with --engine ray")
        return Threads(workers)
    from peekrank.jobs.ray import Ray

    return Ray(address, workers)


def tell(finished: Finished) -> list[RenderableType]:
    """The tables of a sweep, and what their columns mean."""
    sweep = finished.sweep
    title = f"{sweep.name}: {counted(sweep.runs, 'run')}, seed {sweep.seed}" + (
        ", same rounds" if not sweep.redraw else ""
    )
    said = [*shown(title, _summary(finished), "all are in summary.csv")]
    if len(sweep.learners) > 1:
        title, sheet = "Differences of regret over paired runs", compared(finished.comparisons(), CELL)
        said += [*shown(title, sheet, "all are in comparisons.csv"), verdicts_explained("paired t test")]
    return said


def write_papers(finished: Finished, folder: Path, *, latex: bool, markdown: bool) -> None:
    """Write both tables, or the first if there is one learner only, as papers and pages have them."""
    for outdated in [folder / f"{name}{end}" for name in ("summary", "comparisons") for end in (".tex", ".md")]:
        outdated.unlink(missing_ok=True)
    sheets = {"summary": _summary(finished)}
    if len(finished.sweep.learners) > 1:
        sheets["comparisons"] = compared(finished.comparisons(), CELL)
    for name, sheet in sheets.items():
        write_paper(
            sheet,
            latex=folder / f"{name}.tex" if latex else None,
            markdown=folder / f"{name}.md" if markdown else None,
        )


def write_report(finished: Finished, folder: Path) -> Text:
    """Write the report, and pictures unless there are too many cells; tell where they are."""
    report = write_sweep_report(finished, folder / "report.html")
    if write_pictures(finished, folder / "pictures"):
        return Text(f"The report is {report}, its pictures are in {folder / 'pictures'}{os.sep}")
    many = f"{len(finished.results):,} cells, more than {MOST_PICTURES}"
    return Text(f"The report is {report}; no pictures are drawn of {many}")


def _summary(finished: Finished) -> Sheet:
    heads = [*CELL, "learner", "regret ± sd", "exponent, 95 %", "bound", "explored"]
    rows = [
        [
            *cell_texts(row, CELL),
            row["learner"],
            f"{number(row['regret'])} ± {number(row['spread'])}",
            exponent_text(Exponent(row["exponent"], row["exponent_low"], row["exponent_high"])),
            number(row["bound"]),
            percent(row["explored"]),
        ]
        for row in finished.summary().iter_rows(named=True)
    ]
    return Sheet(heads, rows, len(CELL))
