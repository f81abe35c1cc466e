"""Sweeps in folders: one file per finished run, named by a digest of all that determines it.

A run is never done twice: the same sweep goes on where it stopped, and a sweep to which something was added does
only that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank._jit import sources
from peekrank.comparison import compare
from peekrank.experiment import Experiment, Result
from peekrank.files import remove_leftovers, write_whole
from peekrank.regret import checkpoints
from peekrank.runs import (
    CURVE_COLUMNS,
    FORMAT,
    Curve,
    Engine,
    Setting,
    Threads,
    Tick,
    data_digest,
    holds_manifest,
    manifest_of,
    play_run,
    setting_of,
    summary_rows,
    versions,
    write_manifest,
)
from peekrank.spec import text_of
from peekrank.sweep import Sweep, digest_of
from peekrank.types import Stream

CELL = ("stream", "measure", "k", "horizon")
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
    """The cells of a sweep; what each run is; and its digest by cell, learner and run, which names its file."""

    cells: list[Experiment]
    identities: dict[str, dict[str, Any]]
    digests: list[list[list[str]]]

    def names(self) -> Iterator[tuple[_Job, str]]:
        """Every run of every learner, one after the other."""
        for c, cell in enumerate(self.digests):
            for i, learner in enumerate(cell):
                for run, digest in enumerate(learner):
                    yield _Job(c, run, [i]), digest


def run_sweep(
    sweep: Sweep, folder: Path, *, engine: Engine | None = None, progress: Tick = lambda _: None
) -> Finished:
    """Do what is missing of a sweep in a folder, and write its tables.

    A run is written when it is finished, in one step. Its file depends on nothing but what its name is the digest
    of: neither on the engine, nor on interruptions, nor on what else the sweep holds.

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
        curves = _read_runs(plan, folder)
        left = [job for job, digest in plan.names() if digest not in curves]
        progress(sweep.rounds - sum(plan.cells[job.cell].horizon for job in left))
        seconds = _read_timings(folder)
        if left:
            _do(plan, left, folder, Threads() if engine is None else engine, progress, curves, seconds)
        finished = Finished(sweep, [_result(plan, c, curves, seconds) for c in range(len(plan.cells))])
        _write_tables(finished, folder)
    except OSError as error:
        error.add_note(f"what is finished is kept in {folder}; the same sweep goes on from there")
        raise
    return finished


def finished_runs(sweep: Sweep, folder: Path) -> int:
    """How many runs of a sweep are finished in a folder."""
    return sum(_file(folder, digest).exists() for digest in _plan(sweep).identities)


def _plan(sweep: Sweep) -> _Plan:
    code = digest_of(_code())
    cells, digests = sweep.cells(), []
    identities: dict[str, dict[str, Any]] = {}
    streams = {text: _what_is_drawn(cell.make_stream()) for text, cell in {c.stream: c for c in cells}.items()}
    for cell in cells:
        table = []
        for learner in cell.make_learners():
            identity = {
                "learner": text_of(learner),
                **streams[cell.stream],
                "measure": cell.measure,
                "k": cell.k,
                "horizon": cell.horizon,
                "seed": cell.seed,
                "redraw": cell.redraw,
                "code": code,
            }
            row = [{**identity, "run": run} for run in range(cell.runs)]
            table.append([digest_of(one) for one in row])
            identities.update(zip(table[-1], row, strict=True))
        digests.append(table)
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
    earlier: dict[str, Any] = {}
    if holds_manifest(folder):
        earlier = manifest_of(folder, "sweep")
        if earlier["sweep"].get("name") != sweep.name:
            raise ValueError(
                f"{folder} holds results of the sweep '{earlier['sweep'].get('name')}', not of '{sweep.name}'; "
                "choose another folder"
            )
        remove_leftovers(folder)
        remove_leftovers(folder / "runs")
    manifest = {
        "format": FORMAT,
        "sweep": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(sweep).items()},
        "digest": sweep.digest,
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) draws the rounds, (run, 1) is the learner's",
        "code": {**earlier.get("code", {}), digest_of(_code()): _code()},
        "runs": dict(sorted({**earlier.get("runs", {}), **plan.identities}.items())),
    }
    if manifest != earlier:
        write_manifest(folder, manifest)


def _do(
    plan: _Plan,
    left: list[_Job],
    folder: Path,
    engine: Engine,
    progress: Tick,
    curves: dict[str, pl.DataFrame],
    seconds: dict[str, float],
) -> None:
    together: dict[tuple[int, int], list[int]] = {}  # learners of a run play the same rounds, drawn once
    for job in left:
        together.setdefault((job.cell, job.run), []).extend(job.learners)
    jobs = [_Job(cell, run, learners) for (cell, run), learners in together.items()]
    jobs.sort(key=lambda job: -plan.cells[job.cell].horizon)  # long ones first: all workers end at about a time
    drawn: dict[Any, Any] = {}
    settings = {c: setting_of(plan.cells[c], drawn) for c in sorted({job.cell for job in jobs})}

    def keep(job: _Job, curve: Curve) -> None:
        digest, frame, content = plan.digests[job.cell][curve.learner][job.run], curve.frame(), BytesIO()
        # Small files: what takes time is not the bytes. From memory, so that a full disk is an OSError.
        frame.write_parquet(content, compression="lz4", statistics=False)
        write_whole(_file(folder, digest), lambda path: path.write_bytes(content.getbuffer()))
        curves[digest], seconds[digest] = frame, curve.seconds

    try:
        engine.do_all(jobs, partial(_play, settings), keep, progress, lambda job: _name(plan, job))
    finally:
        _write_timings(seconds, folder)


def _play(settings: dict[int, Setting], job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(settings[job.cell], job.run, job.learners, tick)


def _name(plan: _Plan, job: _Job) -> str:
    cell = plan.cells[job.cell]
    where = ", ".join(f"{name} = {getattr(cell, name)}" for name in (*CELL, "seed", "redraw"))
    return f"run {job.run} with {where}"


def _file(folder: Path, digest: str) -> Path:
    return folder / "runs" / f"{digest}.parquet"


def _read_runs(plan: _Plan, folder: Path) -> dict[str, pl.DataFrame]:
    """The runs that are there already: whatever is wrong with one is told before new ones are begun."""
    there = {path.stem for path in (folder / "runs").glob("*.parquet")}
    return {
        digest: _read_run(_file(folder, digest), plan.cells[job.cell])
        for job, digest in plan.names()
        if digest in there
    }


def _read_run(path: Path, cell: Experiment) -> pl.DataFrame:
    again = "remove it to have that run done again"
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {again}") from None
    if dict(frame.schema) != CURVE_COLUMNS or not np.array_equal(frame["at"], checkpoints(cell.horizon)):
        raise ValueError(f"{path} is not that run; {again}")
    return frame


def _result(plan: _Plan, c: int, curves: dict[str, pl.DataFrame], seconds: dict[str, float]) -> Result:
    cell, at = plan.cells[c], checkpoints(plan.cells[c].horizon)
    tables = {}
    for learner, digests in zip(cell.learners, plan.digests[c], strict=True):
        took = [seconds.get(digest, np.nan) for digest in digests]
        tables[learner] = pl.concat(curves[digest] for digest in digests).with_columns(
            run=np.repeat(np.arange(cell.runs), len(at)), seconds=np.repeat(took, len(at))
        )
    return Result(cell, at, tables)


def _read_timings(folder: Path) -> dict[str, float]:
    path = folder / "timings.csv"
    return dict(pl.read_csv(path).rows()) if path.exists() else {}


def _write_timings(seconds: dict[str, float], folder: Path) -> None:
    """How long runs took: apart from them, so that these are the same whenever and wherever they are done."""
    table = pl.DataFrame(sorted(seconds.items()), {"run": pl.String, "seconds": pl.Float64}, orient="row")
    write_whole(folder / "timings.csv", table.write_csv)


def _write_tables(finished: Finished, folder: Path) -> None:
    summary = finished.summary()
    write_whole(folder / "summary.csv", summary.write_csv)
    write_whole(folder / "summary.parquet", summary.write_parquet)
    write_whole(folder / "comparisons.csv", finished.comparisons().write_csv)
