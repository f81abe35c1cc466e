"""Run experiments in results folders. Each finished run is a file, and interrupted experiments resume."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.run import CURVE_COLUMNS, Curve, RunContext, compile_kernels, play_run, run_context
from peekrank.jobs.executor import Threads, Tick
from peekrank.jobs.results_dir import Code, ResultsDir, Validator, check_parts, median_seconds, write_table
from peekrank.regret import default_checkpoints
from peekrank.types import FileBacked, Stream

SEEDS = "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's"


class _Job(NamedTuple):
    """A run that some learners, given by their numbers, have not finished yet."""

    run: int
    learners: list[int]


def run(
    experiment: Experiment,
    folder: Path,
    *,
    workers: int = 1,
    progress: Tick = lambda _: None,
) -> Result:
    """Compute the missing runs of an experiment in a folder, and return the whole result.

    Each run is written atomically when it finishes. Results do not depend on the number of workers or on
    interruptions.

    Parameters
    ----------
    experiment
        The experiment.
    folder
        The results folder, with manifest.json, runs and timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of finished rounds.
    """
    executor = Threads(workers)
    results_dir = _create_dir(experiment, folder)
    finished = results_dir.read_finished(_parts(experiment), _validator(experiment))
    missing = [
        _Job(run, learners)
        for run in range(experiment.runs)
        if (learners := [i for i in range(len(experiment.learners)) if _part(i, run) not in finished])
    ]
    progress(experiment.horizon * len(finished))
    if missing:
        compile_kernels(experiment)

        def save(job: _Job, curve: Curve) -> None:
            part, frame = _part(curve.learner, job.run), curve.frame()
            results_dir.save(part, frame, curve.seconds)
            finished[part] = frame

        compute = partial(_compute_job, run_context(experiment))
        with results_dir.resumable():
            executor.run(missing, compute, save, progress, lambda job: f"run {job.run} of {experiment}")
    return _make_result(experiment, finished, results_dir.seconds())


def read(folder: Path) -> Result:
    """Read a finished experiment. Raises ValueError if a run is missing or damaged."""
    results_dir = ResultsDir.open(folder, "experiment")
    with results_dir.described():
        experiment = Experiment(**results_dir.manifest["experiment"])
        check_parts(len(experiment.learners) * experiment.runs)
        is_valid = _validator(experiment)
    frames = {part: results_dir.read(part, is_valid) for part in _parts(experiment)}
    return _make_result(experiment, frames, results_dir.seconds())


def write_tables(result: Result, folder: Path, *, as_csv: bool = False) -> list[Path]:
    """Write all curves as one table, and the summary as another. Return their paths."""
    curves = pl.concat(
        frame.select(pl.lit(name).alias("learner"), "run", *CURVE_COLUMNS) for name, frame in result.curves.items()
    )
    summary = pl.DataFrame(summary_rows(result), schema_overrides={"bound": pl.Float64})
    paths = [folder / ("curves.csv" if as_csv else "curves.parquet"), folder / "summary.csv"]
    write_table(paths[0], curves)
    write_table(paths[1], summary)
    return paths


def summary_rows(result: Result) -> list[dict[str, Any]]:
    """Return the summary of each learner as a row of a table, without its speed."""
    return [
        {
            **{name: value for name, value in s._asdict().items() if name != "rounds_per_second"},
            "exponent": s.exponent.value,
            "exponent_low": s.exponent.low,
            "exponent_high": s.exponent.high,
        }
        for s in result.summaries()
    ]


def data_digest(stream: Stream) -> str | None:
    """Compute the digest of the file that a stream reads. Returns None if it reads none."""
    return hashlib.sha256(stream.path.read_bytes()).hexdigest() if isinstance(stream, FileBacked) else None


def _compute_job(context: RunContext, job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(context, *job, tick)


def _part(learner: int, run: int) -> str:
    return f"{learner:02d}-{run:04d}"


def _parts(experiment: Experiment) -> list[str]:
    return [_part(i, run) for i in range(len(experiment.learners)) for run in range(experiment.runs)]


def _validator(experiment: Experiment) -> Validator:
    checkpoints = default_checkpoints(experiment.horizon)
    return lambda _, frame: (
        dict(frame.schema) == CURVE_COLUMNS and np.array_equal(frame["checkpoints"].to_numpy(), checkpoints)
    )


def _create_dir(experiment: Experiment, folder: Path) -> ResultsDir:
    stream, measure, learners = experiment.parts
    code = Code.of("peekrank.experiments.run", values=(*learners, measure, stream))
    about = {"experiment": asdict(experiment), "data": {"content": data_digest(stream)}, "seeds": SEEDS}
    return ResultsDir.create(folder, "experiment", about, code=code, data=("data",))


def _make_result(experiment: Experiment, frames: dict[str, pl.DataFrame], durations: dict[str, float]) -> Result:
    curves, seconds = {}, {}
    for i, name in enumerate(experiment.learners):
        parts = [_part(i, run) for run in range(experiment.runs)]
        runs = (frames[part].with_columns(run=pl.lit(run, pl.Int64)) for run, part in enumerate(parts))
        curves[name] = pl.concat(runs)
        seconds[name] = median_seconds(durations, parts)
    return Result(experiment, default_checkpoints(experiment.horizon), curves, seconds)
