"""Sweeps in folders: files of finished runs, named by a digest of all that determines them.

A run is never done twice: the same sweep goes on where it stopped, and a sweep to which something was added does
only that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank._jit import sources
from peekrank._util.atomic import write_whole
from peekrank.experiments.comparison import compare
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.run_files import RunFiles, table
from peekrank.experiments.runs import Curve, Setting, data_digest, play_run, setting_of, summary_rows
from peekrank.experiments.sweep import Sweep, digest_of
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.folder import FORMAT, holds_manifest, manifest_of, versions, write_manifest
from peekrank.registry import origins
from peekrank.regret import checkpoints
from peekrank.spec import text_of
from peekrank.types import Stream

CELL = ("stream", "measure", "k", "horizon")
_TIMINGS = {"digest": pl.String, "run": pl.Int64, "seconds": pl.Float64}
_SUMMARY = ("learner", "regret", "spread", "exponent", "exponent_low", "exponent_high", "bound", "explored")


@dataclass(frozen=True)
class Finished:
    """A sweep and its results, one for each cell."""

    sweep: Sweep
    results: list[Result]

    def summary(self) -> pl.DataFrame:
        """What each learner came to in each cell."""
        return self._summary

    def comparisons(self) -> pl.DataFrame:
        """Every two learners of a cell, compared over its runs, with Holm's correction over all cells."""
        return self._comparisons

    @cached_property
    def _summary(self) -> pl.DataFrame:
        rows = []
        for result in self.results:
            cell = {name: getattr(result.experiment, name) for name in CELL}
            rows += [{**cell, **{name: row[name] for name in _SUMMARY}} for row in summary_rows(result)]
        return pl.DataFrame(rows, schema_overrides={"bound": pl.Float64}, infer_schema_length=None)

    @cached_property
    def _comparisons(self) -> pl.DataFrame:
        return compare(
            [
                (
                    {name: getattr(result.experiment, name) for name in CELL},
                    {learner: result.regrets(learner)[:, -1] for learner in result.experiment.learners},
                )
                for result in self.results
            ]
        )


class _Job(NamedTuple):
    """Learners, by their numbers, that have still to play a run of a cell."""

    cell: int
    run: int
    learners: list[int]


class _Plan(NamedTuple):
    """The cells of a sweep; what each learner does in each; and the digest of that, by cell and learner."""

    cells: list[Experiment]
    identities: dict[str, dict[str, Any]]
    digests: list[list[str]]

    def read(self, folder: Path) -> RunFiles:
        """The runs that are there already: whatever is wrong with a file is told before new ones are begun."""
        there = RunFiles(folder / "runs")
        for cell, digests in zip(self.cells, self.digests, strict=True):
            for digest in digests:
                there.read(digest, checkpoints(cell.horizon))
        return there

    def missing(self, there: RunFiles) -> list[_Job]:
        """What is still to do. Learners of a run go together: they play the same rounds, which are drawn once."""
        jobs = [
            _Job(c, run, [i for i, digest in enumerate(digests) if run not in there.curves[digest]])
            for c, digests in enumerate(self.digests)
            for run in range(self.cells[c].runs)
        ]
        return [job for job in jobs if job.learners]

    def rounds(self, jobs: list[_Job]) -> int:
        """Of all learners of jobs."""
        return sum(self.cells[job.cell].horizon * len(job.learners) for job in jobs)


def run_sweep(
    sweep: Sweep, folder: Path, *, engine: Executor | None = None, progress: Tick = lambda _: None
) -> Finished:
    """Do what is missing of a sweep in a folder, and write its tables.

    Finished runs are written in one step, at the latest some seconds after they were. What is in a file depends
    on nothing but its digest and the numbers of its runs: neither on the engine, nor on interruptions, nor on what
    else the sweep holds.

    Parameters
    ----------
    sweep
        What to run.
    folder
        Where its files are, or will be: manifest.json, runs, summary.csv, summary.parquet, comparisons.csv,
        timings.csv. Results of a sweep of another name are refused; those of an earlier state of this one stay.
    engine
        What does the work; None for one thread.
    progress
        Called with numbers of rounds done.
    """
    plan = _plan(sweep)
    _open_folder(sweep, plan, folder)
    try:
        there = plan.read(folder)
        left = plan.missing(there)
        progress(sweep.rounds - plan.rounds(left))
        seconds = _read_timings(folder)
        if left:
            with _written_whatever_happens(there, seconds, folder):
                _do(plan, left, there, seconds, Threads() if engine is None else engine, progress)
        finished = Finished(sweep, [_result(plan, c, there, seconds) for c in range(len(plan.cells))])
        _write_tables(finished, folder)
    except OSError as error:
        if not isinstance(error, ConnectionError):
            error.add_note(f"what was written is kept in {folder}; the same sweep goes on from there")
        raise
    return finished


def finished_runs(sweep: Sweep, folder: Path) -> int:
    """How many runs of a sweep are finished in a folder."""
    plan = _plan(sweep)
    left = plan.missing(plan.read(folder))
    return len(plan.cells) * sweep.runs * len(sweep.learners) - sum(len(job.learners) for job in left)


def _plan(sweep: Sweep) -> _Plan:
    code = digest_of(_code())
    cells = list(sweep.settings)
    digests: list[list[str]] = []
    identities: dict[str, dict[str, Any]] = {}
    streams = {text: _what_is_drawn(cell.parts.stream) for text, cell in {c.stream: c for c in cells}.items()}
    for cell in cells:
        digests.append([])
        for learner in cell.parts.learners:
            identity = {
                "learner": text_of(learner),
                **streams[cell.stream],
                "measure": cell.measure,
                "k": cell.k,
                "horizon": cell.horizon,
                "seed": cell.seed,
                "redraw": cell.redraw,
                "code": code,
                "own": origins(learner, cell.parts.measure, cell.parts.stream),
            }
            digests[-1].append(digest_of(identity))
            identities[digests[-1][-1]] = identity
    return _Plan(cells, identities, digests)


def _code() -> dict[str, Any]:
    return {"versions": versions(), "sources": sources()}


def _what_is_drawn(stream: Stream) -> dict[str, Any]:
    """A stream as far as results depend on it: of a file the content, not the place."""
    data: Any = stream
    if (content := data_digest(stream)) is not None:
        data = replace(data, path=Path(data.path.name))
    return {"stream": text_of(data), "data": content}


def _open_folder(sweep: Sweep, plan: _Plan, folder: Path) -> None:
    """Make sure that the folder is ours, and say in its manifest what will be in it."""
    earlier: dict[str, Any] = {"code": {}, "runs": {}}
    if holds_manifest(folder):
        earlier = manifest_of(folder, "sweep")
        if earlier["sweep"].get("name") != sweep.name:
            raise ValueError(
                f"{folder} holds results of the sweep '{earlier['sweep'].get('name')}', not of '{sweep.name}'; "
                "choose another folder"
            )
        if not all(isinstance(earlier.get(name), dict) for name in ("code", "runs")):
            raise ValueError(f"{folder / 'manifest.json'} does not say what its runs are; choose another folder")
    manifest = {
        "format": FORMAT,
        "sweep": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(sweep).items()},
        "digest": sweep.digest,
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's",
        "code": {**earlier["code"], digest_of(_code()): _code()},
        "runs": dict(sorted({**earlier["runs"], **plan.identities}.items())),
    }
    if manifest != earlier:
        write_manifest(folder, manifest)


@contextmanager
def _written_whatever_happens(
    there: RunFiles, seconds: dict[tuple[str, int], float], folder: Path
) -> Iterator[None]:
    """Write what is finished; what fails then must not hide why all ended."""

    def write() -> None:
        there.write_rest()
        _write_timings(seconds, folder)

    try:
        yield
    except BaseException as error:
        try:
            write()
        except (OSError, ValueError) as another:
            error.add_note(f"some finished runs could not be written: {another}")
        raise
    write()


def _do(
    plan: _Plan,
    left: list[_Job],
    there: RunFiles,
    seconds: dict[tuple[str, int], float],
    engine: Executor,
    progress: Tick,
) -> None:
    jobs = sorted(
        left, key=lambda job: -plan.cells[job.cell].horizon
    )  # long first: all workers end at about a time
    drawn: dict[Any, Any] = {}
    settings = {c: setting_of(plan.cells[c], drawn) for c in sorted({job.cell for job in jobs})}

    def keep(job: _Job, curve: Curve) -> None:
        digest = plan.digests[job.cell][curve.learner]
        there.add(digest, job.run, curve, plan.cells[job.cell].runs)
        seconds[digest, job.run] = curve.seconds

    engine.do_all(jobs, partial(_play, settings), keep, progress, lambda job: _name(plan, job))


def _play(settings: dict[int, Setting], job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(settings[job.cell], job.run, job.learners, tick)


def _name(plan: _Plan, job: _Job) -> str:
    cell = plan.cells[job.cell]
    where = ", ".join(f"{name} = {getattr(cell, name)}" for name in (*CELL, "seed", "redraw"))
    return f"run {job.run} with {where}"


def _result(plan: _Plan, c: int, there: RunFiles, seconds: dict[tuple[str, int], float]) -> Result:
    cell, at, runs = plan.cells[c], checkpoints(plan.cells[c].horizon), range(plan.cells[c].runs)
    curves = {}
    for learner, digest in zip(cell.learners, plan.digests[c], strict=True):
        took = [seconds.get((digest, run), np.nan) for run in runs]
        curves[learner] = table(there.curves[digest], runs).with_columns(seconds=np.repeat(took, len(at)))
    return Result(cell, at, curves)


def _read_timings(folder: Path) -> dict[tuple[str, int], float]:
    path = folder / "timings.csv"
    if not path.exists():
        return {}
    try:
        return {(digest, run): took for digest, run, took in pl.read_csv(path, schema=_TIMINGS).iter_rows()}
    except (pl.exceptions.PolarsError, OSError) as error:
        why = str(error).partition("\n")[0]  # polars goes on with advice
        raise ValueError(f"{path} cannot be read ({why}); remove it, only how long runs took is lost") from None


def _write_timings(seconds: dict[tuple[str, int], float], folder: Path) -> None:
    """How long runs took: apart from them, so that these are the same whenever and wherever they are done."""
    rows = sorted((*key, took) for key, took in seconds.items())
    write_whole(folder / "timings.csv", pl.DataFrame(rows, _TIMINGS, orient="row").write_csv)


def _write_tables(finished: Finished, folder: Path) -> None:
    summary = finished.summary()
    write_whole(folder / "summary.csv", summary.write_csv)
    write_whole(folder / "summary.parquet", summary.write_parquet)
    write_whole(folder / "comparisons.csv", finished.comparisons().write_csv)
