"""Helpers that run an experiment with progress, write its files and build its table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from peekrank._util.text import pluralize
from peekrank.cli._progress import rounds_bar, transient_progress
from peekrank.cli._tables import TerminalTable
from peekrank.reports.numbers import exponent_text, number, percent

if TYPE_CHECKING:
    from peekrank.experiments.experiment import Experiment, Result


def run_experiment(experiment: Experiment, folder: Path, workers: int) -> Result:
    """Run the missing runs of an experiment in a folder, with a progress bar of rounds."""
    from peekrank.experiments import runs
    from peekrank.jobs.results_dir import count_finished

    n_runs = experiment.runs * len(experiment.learners)
    total = experiment.horizon * n_runs
    with rounds_bar(total, lambda: f"{count_finished(folder)} of {pluralize(n_runs, 'run')}", folder) as tick:
        return runs.run(experiment, folder, workers=workers, progress=tick)


def write_first_run(experiment: Experiment, log: Path) -> None:
    """Log the first run of an experiment's only learner, with the same rounds and rankings as in its curve."""
    from rich.progress import MofNCompleteColumn

    from peekrank.engine import Agent
    from peekrank.evaluation.log import write_log
    from peekrank.evaluation.simulated_log import simulate_log

    m, d, k = experiment.shape
    agent = Agent(experiment.parts.learners[0], m=m, k=k, d=d, seed=experiment.learner_seed(0))
    with transient_progress("logging", MofNCompleteColumn()) as progress:
        done = 0

        def tick(n: int) -> None:
            nonlocal done
            done += n
            progress(done, experiment.horizon)

        max_feedback = experiment.parts.stream.max_grade
        write_log(log, simulate_log(agent, experiment.rounds(0), max_feedback=max_feedback, progress=tick))


def write_result(result: Result, folder: Path, *, as_csv: bool = False) -> None:
    """Write the tables and plots of a result."""
    from peekrank.experiments import runs
    from peekrank.reports import plots

    runs.write_tables(result, folder, as_csv=as_csv)
    plots.save(plots.cumulative_regret(result), folder, "regret")
    plots.save(plots.average_regret(result), folder, "average")


def result_table(result: Result) -> TerminalTable:
    """Build the table of a result: regret, exponent, bound, exploration and speed, one row per learner."""
    from peekrank.experiments.experiment import REGRET_NAMES

    experiment = result.experiment
    sizes = f"{pluralize(experiment.horizon, 'round')}, {pluralize(experiment.runs, 'run')}"
    heads = (
        "learner",
        f"{REGRET_NAMES[experiment.regret]} ± sd",
        "exponent, 95% CI",
        "bound",
        "explored",
        "rounds/s",
    )
    rows = [
        (
            s.learner,
            f"{number(s.regret)} ± {number(s.spread)}",
            exponent_text(s.exponent),
            number(s.bound),
            percent(s.explored),
            _speed(s.rounds_per_second),
        )
        for s in result.summaries()
    ]
    title = f"{experiment.measure}, k = {experiment.k}, {sizes}, {experiment.stream}"
    return TerminalTable(title, heads, [("", row) for row in rows])


def limit_text(lowest: float | None, rounds: int) -> list[Text]:
    """Say what no learner can avoid, if a theorem does."""
    words = f"Each learner loses at least {number(lowest)} in {rounds:,} rounds on some i.i.d. stream."
    return [] if lowest is None else [Text(words)]


def _speed(rounds_per_second: float) -> str:
    return f"{rounds_per_second / 1000:,.0f}k" if rounds_per_second >= 10_000 else f"{rounds_per_second:,.0f}"
