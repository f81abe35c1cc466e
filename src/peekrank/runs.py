"""Running experiments: one file per finished run in a folder, written in one step, resumed where it stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from peekrank.engine import simulate
from peekrank.experiment import Experiment, Result
from peekrank.files import write_whole
from peekrank.parameters import whole
from peekrank.regret import best_values, checkpoints, regret
from peekrank.types import Floats, Ints, Rounds

J = TypeVar("J")
FORMAT = 1
_COLUMNS = {"at": pl.Int64, "value": pl.Float64, "regret": pl.Float64, "explored": pl.Int64, "seconds": pl.Float64}


class InterruptedRunError(Exception):
    """The user stopped the experiment; what was finished is kept."""


class _CancelledError(Exception):
    pass


def compile_kernels(experiment: Experiment) -> None:
    """Compile the loop of each learner, once for each process, so that no run is slowed down by it."""
    world, measure = experiment.make_stream().rounds(1, np.random.default_rng(0)), experiment.make_measure()
    best_values(measure, world, np.array([1]))
    for learner in experiment.make_learners():
        simulate(learner, world, k=experiment.k, measure=measure)


def run(
    experiment: Experiment,
    folder: Path,
    *,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
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
    whole("workers", workers, 1)
    started = time.perf_counter()
    manifest = _open_folder(experiment, folder)
    at = checkpoints(experiment.horizon)
    missing = {
        run: learners
        for run in range(experiment.runs)
        if (learners := [i for i in range(len(experiment.learners)) if not _file(folder, i, run).exists()])
    }
    progress(experiment.horizon * (experiment.runs * len(experiment.learners) - sum(map(len, missing.values()))))
    if missing:
        compile_kernels(experiment)
        _do(experiment, folder, at, missing, workers, progress)
    result = read(folder)
    if missing:
        manifest["seconds"] = manifest.get("seconds", 0.0) + time.perf_counter() - started
        manifest["finished"] = True
        write_manifest(folder, manifest)
    return result


def read(folder: Path) -> Result:
    """Read a finished experiment."""
    experiment = _experiment_of(_read_manifest(folder), folder)
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
    rows = [
        {
            **s._asdict(),
            "exponent": s.exponent.value,
            "exponent_low": s.exponent.low,
            "exponent_high": s.exponent.high,
        }
        for s in result.summaries()
    ]
    summary = pl.DataFrame(rows, schema_overrides={"bound": pl.Float64})
    paths = [folder / ("curves.csv" if as_csv else "curves.parquet"), folder / "summary.csv"]
    write_whole(paths[0], curves.write_csv if as_csv else curves.write_parquet)
    write_whole(paths[1], summary.write_csv)
    return paths


def _do(
    experiment: Experiment,
    folder: Path,
    at: Ints,
    missing: dict[int, list[int]],
    workers: int,
    progress: Callable[[int], None],
) -> None:
    learners, measure = experiment.make_learners(), experiment.make_measure()

    def world(run: int) -> tuple[Rounds, Floats]:
        rounds = experiment.rounds(run)
        return rounds, best_values(measure, rounds, at)

    shared = None if experiment.redraw else world(0)

    def work(run: int, tick: Callable[[int], None]) -> None:
        rounds, best = shared or world(run)
        for i in missing[run]:
            seed, k = experiment.learner_seed(run), experiment.k
            began = time.perf_counter()
            trace = simulate(learners[i], rounds, k=k, measure=measure, seed=seed, at=at, progress=tick)
            seconds = np.full(len(at), time.perf_counter() - began)
            columns = {**trace._asdict(), "regret": regret(measure, trace, best), "seconds": seconds}
            frame = pl.DataFrame(columns, _COLUMNS)
            write_whole(_file(folder, i, run), frame.write_parquet)

    do_all(list(missing), work, workers, progress, lambda run: f"run {run} of {experiment}")


def do_all(
    jobs: Sequence[J],
    work: Callable[[J, Callable[[int], None]], None],
    workers: int,
    progress: Callable[[int], None],
    name: Callable[[J], str],
) -> None:
    """Do jobs on threads, in this order; the first that fails, or Ctrl-C, ends all.

    Parameters
    ----------
    jobs
        What is to be done.
    work
        Does one, and calls what it is given with numbers of rounds done.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    name
        What to call a job in the note of an error.
    """
    stop = threading.Event()

    def tick(rounds: int) -> None:
        if stop.is_set():
            raise _CancelledError
        progress(rounds)

    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(work, job, tick): job for job in jobs}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if isinstance(error, Exception):
                    error.add_note(f"in {name(futures[future])}")
                future.result()
        except KeyboardInterrupt:
            raise InterruptedRunError from None
        finally:
            stop.set()  # whatever is still running, if anything, has no reader any more
            pool.shutdown(wait=True, cancel_futures=True)


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


def _open_folder(experiment: Experiment, folder: Path) -> dict[str, Any]:
    if holds_manifest(folder):
        manifest = _read_manifest(folder)
        other = _experiment_of(manifest, folder)
        if finished(folder):
            _check_same(other, experiment, folder)
            _check_origin(manifest, _origin(experiment), folder)
            return manifest
    manifest = {
        "format": FORMAT,
        "experiment": asdict(experiment),
        **_origin(experiment),
        "python": platform.python_version(),
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's",
        "finished": False,
    }
    write_manifest(folder, manifest)
    return manifest


def holds_manifest(folder: Path) -> bool:
    """Whether results are there already; a ValueError if something else is."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: results need a folder")
    if (folder / "manifest.json").exists():
        return True
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty and holds no manifest.json; choose another folder")
    return False


def manifest_of(folder: Path, kind: str) -> dict[str, Any]:
    """The manifest of a folder, which must be that of a study or of a training."""
    manifest = _read_manifest(folder)
    if not isinstance(manifest.get(kind), dict):
        raise ValueError(f"{folder / 'manifest.json'} is not the manifest of a {kind}; choose another folder")
    return manifest


def check_same(
    folder: Path, kind: str, old: dict[str, Any], new: dict[str, Any], parts: Sequence[str] = ()
) -> None:
    """Refuse a folder with the manifest of another study or training, or of other data (`parts`) or code."""
    differ = [name for name in new[kind] if old[kind].get(name) != new[kind][name]]
    for part in parts:
        was, now = old.get(part) or {}, new[part] or {}
        differ += [f"{name} of the {part}" for name in {**was, **now} if was.get(name) != now.get(name)]
    code = {"versions": "versions of packages", "sources": "code of peekrank"}
    differ += [what for name, what in code.items() if not differ and old.get(name) != new[name]]
    if differ:
        raise ValueError(
            f"{folder} holds results of another {kind}, with different {', '.join(differ)}; choose another folder"
        )


def _check_same(other: Experiment, experiment: Experiment, folder: Path) -> None:
    differ = [f.name for f in fields(experiment) if getattr(other, f.name) != getattr(experiment, f.name)]
    if differ:
        raise ValueError(
            f"{folder} holds results of another experiment, with different {', '.join(differ)}; "
            "choose another folder"
        )


def _origin(experiment: Experiment) -> dict[str, Any]:
    """What the results depend on besides the experiment: versions, and the content of a file that is read."""
    path = getattr(experiment.make_stream(), "path", None)
    return {
        "versions": {name: version(name) for name in ("peekrank", "numpy", "numba")},
        "data": None if path is None else hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _check_origin(manifest: dict[str, Any], origin: dict[str, Any], folder: Path) -> None:
    for name, what in (
        ("versions", "with other versions of packages"),
        ("data", "from another content of its file"),
    ):
        if manifest.get(name) != origin[name]:
            raise ValueError(
                f"{folder} holds results computed {what} ({manifest.get(name)}, now {origin[name]}); "
                "choose another folder"
            )


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, in one step."""
    write_whole(folder / "manifest.json", lambda path: path.write_text(json.dumps(manifest, indent=2) + "\n"))


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no manifest.json: it is not a folder of results") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if type(manifest) is not dict or manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is not a manifest of format {FORMAT}")
    return manifest


def _experiment_of(manifest: dict[str, Any], folder: Path) -> Experiment:
    try:
        return Experiment(**manifest["experiment"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe an experiment: {error}") from None
