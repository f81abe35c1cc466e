"""Running experiments: one file per finished run in a folder, written in one step, resumed where it stopped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank._util.atomic import write_whole
from peekrank._util.signals import interrupt_later
from peekrank.engine import simulate
from peekrank.experiments.experiment import Experiment, Result
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.folder import check_same, claim, finished, manifest_of, write_manifest
from peekrank.registry import origins
from peekrank.regret import best_values, checkpoints, regret
from peekrank.streams import Orders, Ratings
from peekrank.types import Floats, FromFile, Ints, Learner, Measure, Rounds, Stream, Trace

CURVE_COLUMNS = {"at": pl.Int64, "value": pl.Float64, "regret": pl.Float64, "explored": pl.Int64}
_COLUMNS = {**CURVE_COLUMNS, "seconds": pl.Float64}


def compile_kernels(experiment: Experiment) -> None:
    """Compile the loop of each learner, once for each process, so that no run is slowed down by it."""
    world, measure = experiment.parts.stream.rounds(1, np.random.default_rng(0)), experiment.parts.measure
    with interrupt_later():
        best_values(measure, world, np.array([1]))
        for learner in experiment.parts.learners:
            simulate(learner, world, k=experiment.k, measure=measure)


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
        Where its files are, or will be.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    engine, started = Threads(workers), time.perf_counter()
    manifest = _claim(experiment, folder)
    missing = {
        run: learners
        for run in range(experiment.runs)
        if (learners := [i for i in range(len(experiment.learners)) if not _file(folder, i, run).exists()])
    }
    progress(experiment.horizon * (experiment.runs * len(experiment.learners) - sum(map(len, missing.values()))))
    if missing:
        compile_kernels(experiment)
        _do(experiment, folder, manifest, missing, engine, progress)
    result = _read(experiment, folder)
    if missing:
        manifest["seconds"] = manifest.get("seconds", 0.0) + time.perf_counter() - started
        manifest["finished"] = True
        write_manifest(folder, manifest)
    return result


def read(folder: Path) -> Result:
    """Read a finished experiment."""
    return _read(_experiment_of(manifest_of(folder, "experiment"), folder), folder)


def _read(experiment: Experiment, folder: Path) -> Result:
    at = checkpoints(experiment.horizon)
    curves = {}
    for i, name in enumerate(experiment.learners):
        runs = [_read_run(_file(folder, i, run), at) for run in range(experiment.runs)]
        curves[name] = pl.concat(frame.with_columns(run=pl.lit(run, pl.Int64)) for run, frame in enumerate(runs))
    return Result(experiment, at, curves)


def write_tables(result: Result, folder: Path, *, as_csv: bool = False) -> list[Path]:
    """Write all curves in one table, and the summary."""
    curves = pl.concat(
        frame.select(pl.lit(name).alias("learner"), "run", *_COLUMNS) for name, frame in result.curves.items()
    )
    summary = pl.DataFrame(summary_rows(result), schema_overrides={"bound": pl.Float64})
    paths = [folder / ("curves.csv" if as_csv else "curves.parquet"), folder / "summary.csv"]
    write_whole(paths[0], curves.write_csv if as_csv else curves.write_parquet)
    write_whole(paths[1], summary.write_csv)
    return paths


def summary_rows(result: Result) -> list[dict[str, Any]]:
    """The summaries of all learners, each as a row of a table."""
    return [
        {
            **s._asdict(),
            "exponent": s.exponent.value,
            "exponent_low": s.exponent.low,
            "exponent_high": s.exponent.high,
        }
        for s in result.summaries()
    ]


class Setting(NamedTuple):
    """All that the runs of an experiment need: they read no file, and make nothing twice."""

    experiment: Experiment
    stream: Stream
    learners: tuple[Learner, ...]
    measure: Measure
    at: Ints
    world: tuple[Rounds, Floats] | None  # rounds and best values of every run, if they are not drawn anew


def setting_of(experiment: Experiment, drawn: dict[tuple[str, int], Rounds] | None = None) -> Setting:
    """Load and draw what the runs of an experiment share.

    Parameters
    ----------
    experiment
        Whose runs.
    drawn
        Rounds that are the same in all runs, by stream and horizon: taken from here, and put here.

    >>> int(setting_of(Experiment(("uniform",), "ct15", "dcg", k=1, horizon=1000)).at[-1])
    1000
    """
    stream, measure, at = experiment.parts.stream, experiment.parts.measure, checkpoints(experiment.horizon)
    held = stream.in_memory() if isinstance(stream, Orders | Ratings) else stream
    world = None
    if not experiment.redraw:
        drawn, key = {} if drawn is None else drawn, (experiment.stream, experiment.horizon)
        if key not in drawn:
            drawn[key] = experiment.rounds(0, held)
        world = drawn[key], best_values(measure, drawn[key], at)
    return Setting(experiment, held, experiment.parts.learners, measure, at, world)


class Curve(NamedTuple):
    """What a learner, by its number, came to in a run."""

    learner: int
    trace: Trace
    regret: Floats
    seconds: float

    def frame(self) -> pl.DataFrame:
        """As a table, without the seconds."""
        columns = {**self.trace._asdict(), "regret": self.regret}
        return pl.DataFrame([pl.Series(name, columns[name], dtype) for name, dtype in CURVE_COLUMNS.items()])


def play_run(setting: Setting, run: int, learners: Iterable[int], tick: Tick) -> Iterator[Curve]:
    """Let learners, by their numbers, play a run: the same rounds for all, one learner after the other."""
    e, stream, made, measure, at, world = setting
    if world is None:
        rounds = e.rounds(run, stream)
        world = rounds, best_values(measure, rounds, at)
    rounds, best = world
    for i in learners:
        began, seed = time.perf_counter(), e.learner_seed(run)
        try:
            trace = simulate(made[i], rounds, k=e.k, measure=measure, seed=seed, at=at, progress=tick)
        except Exception as error:
            error.add_note(f"learner '{e.learners[i]}'")
            raise
        seconds = time.perf_counter() - began
        yield Curve(i, trace, regret(measure, trace, best), seconds)


def _do(
    experiment: Experiment,
    folder: Path,
    manifest: dict[str, Any],
    missing: dict[int, list[int]],
    engine: Executor,
    progress: Tick,
) -> None:
    def keep(job: tuple[int, list[int]], curve: Curve) -> None:
        check_same(folder, "experiment", manifest, ("data",))
        frame = curve.frame().with_columns(seconds=pl.lit(curve.seconds, pl.Float64)).select(*_COLUMNS)
        write_whole(_file(folder, curve.learner, job[0]), frame.write_parquet)

    engine.do_all(
        list(missing.items()),
        partial(_play, setting_of(experiment)),
        keep,
        progress,
        lambda job: f"run {job[0]} of {experiment}",
    )


def _play(setting: Setting, job: tuple[int, list[int]], tick: Tick) -> Iterator[Curve]:
    return play_run(setting, *job, tick)


def _file(folder: Path, learner: int, run: int) -> Path:
    return folder / "runs" / f"{learner:02d}-{run:04d}.parquet"


def _read_run(path: Path, at: Ints) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the experiment is not finished") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); remove it to have that run done again") from None
    if dict(frame.schema) != _COLUMNS or not np.array_equal(frame["at"].to_numpy(), at):
        raise ValueError(f"{path} does not belong to this experiment; remove it to have that run done again")
    return frame


def _claim(experiment: Experiment, folder: Path) -> dict[str, Any]:
    about = {
        "experiment": asdict(experiment),
        "data": {"content": data_digest(experiment.parts.stream)},
        "own": origins(*experiment.parts.learners, experiment.parts.measure, experiment.parts.stream),
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's",
        "finished": False,
    }
    return claim(folder, "experiment", about, begun=finished(folder) > 0, parts=("data",))


def data_digest(stream: Stream) -> str | None:
    """Of the content of the file that a stream reads, if it reads one."""
    return hashlib.sha256(stream.path.read_bytes()).hexdigest() if isinstance(stream, FromFile) else None


def _experiment_of(manifest: dict[str, Any], folder: Path) -> Experiment:
    try:
        return Experiment(**manifest["experiment"])
    except TypeError as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe an experiment: {error}") from None
