"""``peekrank sweep``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize
from peekrank._util.validate import check_choice
from peekrank.cli._options import THREADS, Folder, Imports, Quiet, Workers, import_all
from peekrank.cli._outputs import echo
from peekrank.cli._progress import rounds_bar
from peekrank.cli._tables import TextTable, compared, group_texts, shown, verdicts_explained, write_paper
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import exponent_text, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.experiments.sweep import Sweep
    from peekrank.experiments.sweep_runs import SweepResult
    from peekrank.jobs.executor import Executor

EXAMPLES = """\
# A file to begin with: save it as example.toml.
peekrank sweep --example
# Run it.
peekrank sweep example.toml"""


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="What to run; --example prints one.", show_default=False),
    ] = None,
    folder: Folder = Path("sweep"),
    executor: Annotated[
        str, typer.Option(help="What does the work: threads, or ray (pip install 'peekrank[ray]').")
    ] = "threads",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster: host:port or auto.", show_default="one on this machine")
    ] = None,
    workers: Workers = THREADS,
    latex: Annotated[bool, typer.Option("--latex", help="Write the tables as LaTeX, too.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the tables as Markdown, too.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print a file to begin with, and stop.")] = False,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Run learners over all combinations of streams, measures, k and horizons, and tell which are better."""
    from peekrank.experiments.sweep import EXAMPLE, read_sweep

    import_all(imports)
    configure_output(quiet=quiet)
    if example:
        echo(Text(EXAMPLE.rstrip()))
        return
    if file is None:
        raise ValueError("no file given; `peekrank sweep --example > example.toml` makes one to begin with")
    chosen = executor_named(executor, address, workers)
    finished = _sweep(read_sweep(file), folder, chosen)
    with interrupt_later():
        _write_papers(finished, folder, latex=latex, markdown=markdown)
        pictures = _write_report(finished, folder)
    echo(*_shown(finished), Text(f"Tables, runs and manifest are in {folder}{os.sep}"), pictures)


def executor_named(name: str, address: str | None, workers: int) -> Executor:
    """The executor that options choose.

    >>> executor_named("threads", None, 2)
    Threads(workers=2)
    """
    from peekrank.jobs.executor import Threads

    check_choice("executor", name, Literal["threads", "ray"])
    if name == "threads":
        if address is not None:
            raise ValueError(f"--address {address} goes with --executor ray")
        return Threads(workers)
    from peekrank.jobs.ray import Ray

    return Ray(address, workers)


def _sweep(sweep: Sweep, folder: Path, executor: Executor) -> SweepResult:
    from peekrank.experiments.sweep_runs import finished_runs, run_sweep

    wanted = len(sweep.settings) * len(sweep.learners) * sweep.runs
    with rounds_bar(sweep.rounds, lambda: f"{finished_runs(sweep, folder)} of {wanted} runs", folder) as tick:
        return run_sweep(sweep, folder, executor=executor, progress=tick)


def _shown(finished: SweepResult) -> list[RenderableType]:
    """The tables of a sweep, and what their columns mean."""
    from peekrank.experiments.sweep_runs import SETTING

    sweep = finished.sweep
    title = f"{sweep.name}: {pluralize(sweep.runs, 'run')}, seed {sweep.seed}" + (
        ", same rounds" if sweep.same_rounds else ""
    )
    said = [*shown(title, _summary(finished), "all are in summary.csv")]
    if len(sweep.learners) > 1:
        title, sheet = "Differences of regret over paired runs", compared(finished.comparisons(), SETTING)
        said += [*shown(title, sheet, "all are in comparisons.csv"), verdicts_explained("paired t test")]
    return said


def _write_papers(finished: SweepResult, folder: Path, *, latex: bool, markdown: bool) -> None:
    """Write both tables, or the first if there is one learner only, as papers and pages have them."""
    from peekrank.experiments.sweep_runs import SETTING

    for outdated in [folder / f"{name}{end}" for name in ("summary", "comparisons") for end in (".tex", ".md")]:
        outdated.unlink(missing_ok=True)
    sheets = {"summary": _summary(finished)}
    if len(finished.sweep.learners) > 1:
        sheets["comparisons"] = compared(finished.comparisons(), SETTING)
    for name, sheet in sheets.items():
        write_paper(
            sheet,
            latex=folder / f"{name}.tex" if latex else None,
            markdown=folder / f"{name}.md" if markdown else None,
        )


def _write_report(finished: SweepResult, folder: Path) -> Text:
    """Write the report, and pictures unless there are too many settings; tell where they are."""
    from peekrank.reports.sweep_page import MOST_PICTURES, write_pictures, write_sweep_report

    report = write_sweep_report(finished, folder / "report.html")
    if write_pictures(finished, folder / "pictures"):
        return Text(f"The report is {report}, its pictures are in {folder / 'pictures'}{os.sep}")
    many = f"{len(finished.results):,} settings, more than {MOST_PICTURES}"
    return Text(f"The report is {report}; no pictures are drawn of {many}")


def _summary(finished: SweepResult) -> TextTable:
    from peekrank.experiments.sweep_runs import SETTING
    from peekrank.regret import Exponent

    heads = [*SETTING, "learner", "regret ± sd", "exponent, 95 %", "bound", "explored"]
    rows = [
        [
            *group_texts(row, SETTING),
            row["learner"],
            f"{number(row['regret'])} ± {number(row['spread'])}",
            exponent_text(Exponent(row["exponent"], row["exponent_low"], row["exponent_high"])),
            number(row["bound"]),
            percent(row["explored"]),
        ]
        for row in finished.summary().iter_rows(named=True)
    ]
    return TextTable(heads, rows, len(SETTING))
