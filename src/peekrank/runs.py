"""Running experiments: one file per finished run in a folder, written in one step, resumed where it stopped."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import polars as pl

from peekrank.engine import simulate
from peekrank.experiment import Experiment, Result
from peekrank.files import write_whole
from peekrank.interrupts import interrupt_later
from peekrank.manifests import check_same, claim, manifest_of, write_manifest
from peekrank.parameters import whole
from peekrank.regret import best_values, checkpoints, regret
from peekrank.streams import Orders, Ratings
from peekrank.types import Floats, Ints, Learner, Measure, Rounds, Stream, Trace

J = TypeVar("J")
R = TypeVar("R")
Tick = Callable[[int], None]
CURVE_COLUMNS = {"at": pl.Int64, "value": pl.Float64, "regret": pl.Float64, "explored": pl.Int64}
_COLUMNS = {**CURVE_COLUMNS, "seconds": pl.Float64}


class InterruptedRunError(Exception):
    """The user stopped the experiment; what was finished is kept."""


class _CancelledError(Exception):
    pass


def compile_kernels(experiment: Experiment) -> None:
    """Compile the loop of each learner, once for each process, so that no run is slowed down by it."""
    world, measure = experiment.make_stream().rounds(1, np.random.default_rng(0)), experiment.make_measure()
    with interrupt_later():
        best_values(measure, world, np.array([1]))
        for learner in experiment.make_learners():
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
    result = read(folder)
    if missing:
        manifest["seconds"] = manifest.get("seconds", 0.0) + time.perf_counter() - started
        manifest["finished"] = True
        write_manifest(folder, manifest)
    return result


def read(folder: Path) -> Result:
    """Read a finished experiment."""
    experiment = _experiment_of(manifest_of(folder, "experiment"), folder)
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
    learners: list[Learner]
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
    stream, measure, at = experiment.make_stream(), experiment.make_measure(), checkpoints(experiment.horizon)
    held = stream.in_memory() if isinstance(stream, Orders | Ratings) else stream
    world = None
    if not experiment.redraw:
        drawn, key = {} if drawn is None else drawn, (experiment.stream, experiment.horizon)
        if key not in drawn:
            drawn[key] = experiment.rounds(0, held)
        world = drawn[key], best_values(measure, drawn[key], at)
    return Setting(experiment, held, experiment.make_learners(), measure, at, world)


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
    engine: Engine,
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


class Engine(Protocol):
    """What gets many jobs done."""

    def do_all(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, in about this order; the first that fails, or Ctrl-C, ends all.

        Parameters
        ----------
        jobs
            What is to be done.
        compute
            Does one, giving its results one by one, and calls what it is given with numbers of rounds done. It
            depends on the job alone, and touches no file: it may be called on another machine.
        keep
            Takes each result as soon as it is there; called in this process, perhaps from several threads.
        progress
            Called in this process, perhaps from several threads, with numbers of rounds done.
        name
            What to call a job in the note of an error.
        """
        ...


@dataclass(frozen=True)
class Threads:
    """The engine of this machine: compiled code lets go of Python's lock.

    Parameters
    ----------
    workers
        Number of threads.

    >>> squares = []
    >>> Threads(2).do_all(
    ...     [1, 2], lambda x, tick: [x * x], lambda x, y: squares.append(y), lambda n: None, str
    ... )
    >>> sorted(squares)
    [1, 4]
    """

    workers: int = 1

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1)

    def do_all(
        self,
        jobs: Sequence[J],
        compute: Callable[[J, Tick], Iterable[R]],
        keep: Callable[[J, R], None],
        progress: Tick,
        name: Callable[[J], str],
    ) -> None:
        """Do jobs, as `Engine` says."""
        stop = threading.Event()

        def tick(rounds: int) -> None:
            if stop.is_set():
                raise _CancelledError
            progress(rounds)

        def work(job: J) -> None:
            for result in compute(job, tick):
                keep(job, result)

        with ThreadPoolExecutor(self.workers) as pool:
            futures = {pool.submit(work, job): job for job in jobs}
            done: SimpleQueue[Future[None]] = SimpleQueue()
            try:
                for future in futures:
                    future.add_done_callback(done.put)
                for _ in futures:
                    future = _next(done)
                    error = future.exception()
                    if isinstance(error, Exception):
                        error.add_note(f"in {name(futures[future])}")
                    future.result()
            except KeyboardInterrupt:
                raise InterruptedRunError from None
            finally:
                stop.set()  # whatever is still running, if anything, has no reader any more
                pool.shutdown(wait=True, cancel_futures=True)


def _next(done: SimpleQueue[Future[None]]) -> Future[None]:
    while True:
        with suppress(Empty):
            return done.get(timeout=0.2)  # a wait without end hears Ctrl-C only when a job ends


def finished(folder: Path) -> int:
    """How many runs are finished in a folder."""
    return len(list((folder / "runs").glob("[0-9]*.parquet")))


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
        "data": {"content": data_digest(experiment.make_stream())},
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's",
        "finished": False,
    }
    return claim(folder, "experiment", about, begun=finished(folder) > 0, parts=("data",))


def data_digest(stream: Stream) -> str | None:
    """Of the content of the file that a stream reads, if it reads one."""
    path = getattr(stream, "path", None)
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def _experiment_of(manifest: dict[str, Any], folder: Path) -> Experiment:
    try:
        return Experiment(**manifest["experiment"])
    except TypeError as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe an experiment: {error}") from None
