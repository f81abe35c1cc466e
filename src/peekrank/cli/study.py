"""``peekrank study``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from peekrank._util.validate import check_int
from peekrank.cli._experiments import limit_text
from peekrank.cli._options import (
    THREADS,
    Folder,
    Grades,
    Imports,
    Items,
    Quiet,
    Revealed,
    Seed,
    Workers,
    import_all,
)
from peekrank.cli._outputs import echo
from peekrank.cli._progress import rounds_bar, status
from peekrank.cli._tables import TerminalTable
from peekrank.cli._verbosity import configure_output
from peekrank.reports.numbers import bound_text, exponent_text, regret_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peekrank.experiments.study import Study
    from peekrank.experiments.study_result import StudyResult

EXAMPLES = """\
# Measure how fast the regret of two learners grows.
peekrank study dcg marginftrl rtop1f --m 4 --k 1 --horizons 1000,4000,16000"""


def command(
    measure: Annotated[str, typer.Argument(help="Measure of rankings: dcg, p@3+sum, sumloss ...")],
    m: Items,
    k: Revealed,
    learners: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LEARNER",
            help="Learner, such as rtop1f or setftrl:horizon=none.",
            show_default="all that fit",
        ),
    ] = None,
    grades: Grades = 2,
    horizons: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of rounds.")
    ] = "2000,4000,8000,16000,32000,64000,128000",
    runs: Annotated[int, typer.Option(help="Number of runs per stream and horizon.")] = 10,
    seed: Seed = 0,
    workers: Workers = THREADS,
    folder: Folder = Path("study"),
    quiet: Quiet = False,
    imports: Imports = None,
) -> None:
    """Measure how the worst regret over a family of streams grows with the horizon."""
    from peekrank.experiments.study import Study
    from peekrank.reports import plots

    import_all(imports)
    configure_output(quiet=quiet)
    lengths = parse_horizons(horizons)
    with status("selecting learners"):
        chosen, unfit = choose(learners, measure, m, k, grades=grades, horizons=lengths)
    result = _run(Study(measure, m, k, chosen, grades, lengths, runs, seed), folder, workers)
    plots.save(plots.worst_regret(result), folder, "rates")
    echo(*_render(result, unfit), Text(f"Wrote tables, plot and manifest to {folder}{os.sep}"))


def _run(study: Study, folder: Path, workers: int) -> StudyResult:
    from peekrank.experiments.study_runs import run_study
    from peekrank.jobs.results_dir import count_finished

    n_settings = len(study.streams) * len(study.horizons)
    with rounds_bar(study.rounds, lambda: f"{count_finished(folder)} of {n_settings} settings", folder) as tick:
        return run_study(study, folder, workers=workers, progress=tick)


def parse_horizons(text: str) -> tuple[int, ...]:
    """Parse horizons, such as 2000,4000.

    >>> parse_horizons("2000,4000")
    (2000, 4000)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"horizons = '{text}': must be whole numbers separated by commas, as in 2000,4000"
        ) from None


def choose(
    named: Sequence[str] | None, measure: str, m: int, k: int, *, grades: int, horizons: tuple[int, ...]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the named learners or all that fit, and why others do not. Raises ValueError if none fits."""
    if named:
        return tuple(named), {}
    from peekrank.experiments.study import fitting

    for horizon in horizons:
        check_int("horizons", horizon, 1)
    check_int("m", m, 2)
    check_int("k", k, 1, m)
    check_int("grades", grades, 2, 256)
    fit, unfit = fitting(measure, m, k, grades=grades, horizons=horizons)
    if not fit:
        raise ValueError(
            f"no learner fits {measure} at m = {m}, k = {k}, grades = {grades}; name some to run them anyway, "
            f"for example uniform or blockftrl:measure=dcg. {_reasons(unfit)}"
        )
    return fit, unfit


def _render(result: StudyResult, unfit: Mapping[str, str]) -> list[RenderableType]:
    """Render the table of a study, the meaning of its columns, and why learners are missing."""
    from peekrank.games.lower_bounds import lower_bound

    study = result.study
    last = study.horizons[-1]
    horizons = sorted({study.horizons[0], last})
    where = f"worst at {last:,}"
    heads = [
        "learner",
        *(f"T = {horizon:,}" for horizon in horizons),
        "exponent, 95% CI",
        f"bound at {last:,}",
        where,
    ]
    rows = []
    for learner in study.learners:
        worst = {w.horizon: w for w in result.worst(learner)}
        cells = [
            learner,
            *(regret_text(worst[horizon]) for horizon in horizons),
            exponent_text(result.exponent(learner)),
            bound_text(worst[last]),
            worst[last].stream,
        ]
        rows.append(("", cells))
    parts: list[RenderableType] = [TerminalTable(_title(study), heads, rows, names=["learner", where])]
    runs = f"mean ± standard deviation of {study.runs} runs" if study.runs > 1 else "a single run"
    parts.append(Text(f"Regret on the worst of {len(study.streams)} streams, {runs}; bounds hold in expectation."))
    parts += limit_text(lower_bound(study.measure, study.m, study.k, last, study.grades), last)
    if study.runs > 1:
        parts.append(Text("The worst stream has the largest mean minus two standard errors."))
    parts += [Text(f"without {learner}: {reason}") for learner, reason in unfit.items()]
    return parts


def _reasons(unfit: Mapping[str, str]) -> str:
    return " ".join(f"Not {learner}: {reason}." for learner, reason in unfit.items())


def _title(study: Study) -> str:
    grades = "" if study.grades == 2 else f", grades 0 to {study.grades - 1}"
    rate = "unknown" if study.rate is None else str(study.rate)
    return f"{study.measure}, m = {study.m}, k = {study.k}{grades}: rate of the game {rate}"
