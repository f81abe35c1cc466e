"""Running experiments: one file per finished run in a folder, written in one step, resumed where it stopped."""

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
from peekrank.jobs.results_dir import Belongs, Code, ResultsDir, median_seconds, write_table
from peekrank.regret import default_checkpoints
from peekrank.types import FileBacked, Stream

SEEDS = "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's"


class _Job(NamedTuple):
    """Learners, by their numbers, that have still to play a run."""

    run: int
    learners: list[int]


def run(
    experiment: Experiment,
    folder: Path,
    *,
    workers: int = 1,
    progress: Tick = lambda _: None,
) -> Result:
    """Do what is missing of an experiment in a folder, and read the whole result.

    A run is written when it is finished, in one step, under its final name. Results do not depend on the number of
    workers, nor on interruptions.

    Parameters
    ----------
    experiment
        What to run.
    folder
        Where its files are, or will be: manifest.json, runs, timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    executor = Threads(workers)
    claimed = _claim(experiment, folder)
    there = claimed.finished(_parts(experiment), _belongs(experiment))
    missing = [
        _Job(run, learners)
        for run in range(experiment.runs)
        if (learners := [i for i in range(len(experiment.learners)) if _part(i, run) not in there])
    ]
    progress(experiment.horizon * len(there))
    if missing:
        compile_kernels(experiment)

        def keep(job: _Job, curve: Curve) -> None:
            part, frame = _part(curve.learner, job.run), curve.frame()
            claimed.save(part, frame, curve.seconds)
            there[part] = frame

        play = partial(_play, run_context(experiment))
        with claimed.resumable():
            executor.run_all_jobs(missing, play, keep, progress, lambda job: f"run {job.run} of {experiment}")
    return _result(experiment, there, claimed.seconds())


def read(folder: Path) -> Result:
    """Read a finished experiment."""
    found = ResultsDir.open(folder, "experiment")
    try:
        experiment = Experiment(**found.manifest["experiment"])
    except TypeError as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe an experiment: {error}") from None
    belongs = _belongs(experiment)
    return _result(experiment, {part: found.read(part, belongs) for part in _parts(experiment)}, found.seconds())


def write_tables(result: Result, folder: Path, *, as_csv: bool = False) -> list[Path]:
    """Write all curves in one table, and the summary."""
    curves = pl.concat(
        frame.select(pl.lit(name).alias("learner"), "run", *CURVE_COLUMNS) for name, frame in result.curves.items()
    )
    summary = pl.DataFrame(summary_rows(result), schema_overrides={"bound": pl.Float64})
    paths = [folder / ("curves.csv" if as_csv else "curves.parquet"), folder / "summary.csv"]
    write_table(paths[0], curves)
    write_table(paths[1], summary)
    return paths


def summary_rows(result: Result) -> list[dict[str, Any]]:
    """The summaries of all learners, each as a row of a table; how long they took is no result."""
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
    """Digest of the content of the file that a stream reads, if it reads one."""
    return hashlib.sha256(stream.path.read_bytes()).hexdigest() if isinstance(stream, FileBacked) else None


def _play(stage: RunContext, job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(stage, *job, tick)


def _part(learner: int, run: int) -> str:
    return f"{learner:02d}-{run:04d}"


def _parts(experiment: Experiment) -> list[str]:
    return [_part(i, run) for i in range(len(experiment.learners)) for run in range(experiment.runs)]


def _belongs(experiment: Experiment) -> Belongs:
    checkpoints = default_checkpoints(experiment.horizon)
    return lambda _, frame: (
        dict(frame.schema) == CURVE_COLUMNS and np.array_equal(frame["checkpoints"].to_numpy(), checkpoints)
    )


def _claim(experiment: Experiment, folder: Path) -> ResultsDir:
    stream, measure, learners = experiment.parts
    code = Code.of("peekrank.experiments.run", values=(*learners, measure, stream))
    about = {"experiment": asdict(experiment), "data": {"content": data_digest(stream)}, "seeds": SEEDS}
    return ResultsDir.create(folder, "experiment", about, code=code, data=("data",))


def _result(experiment: Experiment, frames: dict[str, pl.DataFrame], took: dict[str, float]) -> Result:
    curves, seconds = {}, {}
    for i, name in enumerate(experiment.learners):
        parts = [_part(i, run) for run in range(experiment.runs)]
        runs = (frames[part].with_columns(run=pl.lit(run, pl.Int64)) for run, part in enumerate(parts))
        curves[name] = pl.concat(runs)
        seconds[name] = median_seconds(took, parts)
    return Result(experiment, default_checkpoints(experiment.horizon), curves, seconds)
