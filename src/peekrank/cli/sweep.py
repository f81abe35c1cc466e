"""``peekrank sweep``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.signals import interrupt_later
from peekrank._util.text import pluralize
from peekrank.cli._options import (
    THREADS,
    Address,
    ExecutorName,
    Folder,
    Imports,
    Quiet,
    Workers,
    executor_named,
    import_all,
)
from peekrank.cli._outputs import echo
from peekrank.cli._progress import rounds_bar
from peekrank.cli._tables import TextTable, compared, group_texts, render, verdicts_explained, write_paper
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import exponent_text, number, percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.experiments.sweep import Sweep
    from peekrank.experiments.sweep_runs import SweepResult
    from peekrank.jobs.executor import Executor

EXAMPLES = """\
# Print an example; save it as example.toml.
peekrank sweep --example
# Run it.
peekrank sweep example.toml"""


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="Sweep to run; --example prints one.", show_default=False),
    ] = None,
    folder: Folder = Path("sweep"),
    executor: ExecutorName = "threads",
    address: Address = None,
    workers: Workers = THREADS,
    latex: Annotated[bool, typer.Option("--latex", help="Also write the tables as LaTeX.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Also write the tables as Markdown.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Print an example file and exit.")] = False,
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Run learners on all combinations of streams, measures, k and horizons, and compare them."""
    from peekrank.experiments.sweep import EXAMPLE, read_sweep

    import_all(imports)
    configure_output(quiet=quiet)
    if example:
        echo(Text(EXAMPLE.rstrip()))
        return
    if file is None:
        raise ValueError("FILE.toml is missing; `peekrank sweep --example > example.toml` writes an example")
    chosen = executor_named(executor, address, workers)
    result = _run(read_sweep(file), folder, chosen)
    with interrupt_later():
        _write_papers(result, folder, latex=latex, markdown=markdown)
        report = _write_report(result, folder)
    echo(*_render(result), Text(f"Wrote tables, runs and manifest to {folder}{os.sep}"), report)


def _run(sweep: Sweep, folder: Path, executor: Executor) -> SweepResult:
    from peekrank.experiments.sweep_runs import finished_runs, run_sweep

    n_runs = len(sweep.settings) * len(sweep.learners) * sweep.runs
    with rounds_bar(sweep.rounds, lambda: f"{finished_runs(sweep, folder)} of {n_runs} runs", folder) as tick:
        return run_sweep(sweep, folder, executor=executor, progress=tick)


def _render(result: SweepResult) -> list[RenderableType]:
    """Render the tables of a sweep and the meaning of their columns."""
    from peekrank.experiments.experiment import REGRET_NAMES
    from peekrank.experiments.sweep_runs import SETTING

    sweep = result.sweep
    title = f"{sweep.name}: {pluralize(sweep.runs, 'run')}, seed {sweep.seed}" + (
        ", same rounds" if sweep.same_rounds else ""
    )
    parts = [*render(title, _summary(result), "all are in summary.csv")]
    if len(sweep.learners) > 1:
        what = REGRET_NAMES[sweep.regret]
        title, sheet = f"Differences in {what} over paired runs", compared(result.comparisons(), SETTING)
        parts += [*render(title, sheet, "all are in comparisons.csv"), verdicts_explained("paired t test")]
    return parts


def _write_papers(result: SweepResult, folder: Path, *, latex: bool, markdown: bool) -> None:
    """Write both tables as LaTeX and Markdown, or only the first if there is one learner."""
    from peekrank.experiments.sweep_runs import SETTING

    for outdated in [folder / f"{name}{end}" for name in ("summary", "comparisons") for end in (".tex", ".md")]:
        outdated.unlink(missing_ok=True)
    sheets = {"summary": _summary(result)}
    if len(result.sweep.learners) > 1:
        sheets["comparisons"] = compared(result.comparisons(), SETTING)
    for name, sheet in sheets.items():
        write_paper(
            sheet,
            latex=folder / f"{name}.tex" if latex else None,
            markdown=folder / f"{name}.md" if markdown else None,
        )


def _write_report(result: SweepResult, folder: Path) -> Text:
    """Write the report, and plots unless there are too many settings. Return a line that says where they are."""
    from peekrank.reports.sweep_page import MOST_PICTURES, write_pictures, write_sweep_report

    report = write_sweep_report(result, folder / "report.html")
    if write_pictures(result, folder / "pictures"):
        return Text(f"Wrote the report {report}, with plots in {folder / 'pictures'}{os.sep}")
    many = f"{len(result.results):,} settings, more than {MOST_PICTURES}"
    return Text(f"Wrote the report {report} without plots, because there are {many}")


def _summary(result: SweepResult) -> TextTable:
    from peekrank.experiments.experiment import REGRET_NAMES
    from peekrank.experiments.sweep_runs import SETTING
    from peekrank.regret import Exponent

    regret = f"{REGRET_NAMES[result.sweep.regret]} ± sd"
    heads = [*SETTING, "learner", regret, "exponent, 95% CI", "bound", "explored"]
    rows = [
        [
            *group_texts(row, SETTING),
            row["learner"],
            f"{number(row['regret'])} ± {number(row['spread'])}",
            exponent_text(Exponent(row["exponent"], row["exponent_low"], row["exponent_high"])),
            number(row["bound"]),
            percent(row["explored"]),
        ]
        for row in result.summary().iter_rows(named=True)
    ]
    return TextTable(heads, rows, len(SETTING))
