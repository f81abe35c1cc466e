"""``peekrank demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from peekrank.cli._experiments import result_table, run_experiment, write_result
from peekrank.cli._options import THREADS, Workers
from peekrank.cli._outputs import echo

EXAMPLES = """\
# Ten items, six learners; half a minute the first time.
peekrank demo"""


def command(
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the report.")] = Path(
        "peekrank-demo"
    ),
    workers: Workers = THREADS,
) -> None:
    """Compare learners on ten items with one answer per round, and write an HTML report."""
    from peekrank.experiments.experiment import Experiment
    from peekrank.reports.experiment_page import write_report

    experiment = Experiment(
        learners=("doubtsort", "marginftrl", "rtop1f", "rtop1f:order=fixed", "ftpl", "uniform"),
        stream="ct15:m=10,noise=0.25",
        measure="dcg",
        k=1,
        horizon=10_000,
        same_rounds=True,
    )
    result = run_experiment(experiment, folder, workers)
    write_result(result, folder)
    report = write_report(result, folder / "report.html", title="Ranking with top-1 feedback")
    echo(result_table(result), Text(f"Open this page in a browser: {report.resolve().as_uri()}"))
