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

import polars as pl

from peekrank.experiments.comparison import compare
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.run import CURVE_COLUMNS, Curve, RunContext, play_run, run_context
from peekrank.experiments.runs import SEEDS, data_digest, summary_rows
from peekrank.experiments.sweep import Sweep
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.results_dir import Code, ResultsDir, digest_of, median_seconds, write_table
from peekrank.jobs.run_files import RunFiles, table, timed
from peekrank.regret import default_checkpoints
from peekrank.spec import format_spec
from peekrank.types import Stream

SETTING = ("stream", "measure", "k", "horizon")
_SUMMARY = ("learner", "regret", "spread", "exponent", "exponent_low", "exponent_high", "bound", "explored")


@dataclass(frozen=True)
class SweepResult:
    """A sweep and its results, one for each setting."""

    sweep: Sweep
    results: list[Result]

    def summary(self) -> pl.DataFrame:
        """What each learner came to in each setting."""
        return self._summary

    def comparisons(self) -> pl.DataFrame:
        """Every two learners of a setting, compared over its runs, with Holm's correction over all settings."""
        return self._comparisons

    @cached_property
    def _summary(self) -> pl.DataFrame:
        rows = []
        for result in self.results:
            setting = {name: getattr(result.experiment, name) for name in SETTING}
            rows += [{**setting, **{name: row[name] for name in _SUMMARY}} for row in summary_rows(result)]
        return pl.DataFrame(rows, schema_overrides={"bound": pl.Float64}, infer_schema_length=None)

    @cached_property
    def _comparisons(self) -> pl.DataFrame:
        return compare(
            [
                (
                    {name: getattr(result.experiment, name) for name in SETTING},
                    {learner: result.regrets(learner)[:, -1] for learner in result.experiment.learners},
                )
                for result in self.results
            ]
        )


class _Job(NamedTuple):
    """Learners, by their numbers, that have still to play a run of a setting, by its number."""

    setting: int
    run: int
    learners: list[int]


class _Plan(NamedTuple):
    """The settings of a sweep, what each learner does in each, and the digest of that, by setting and learner."""

    settings: tuple[Experiment, ...]
    runs: dict[str, dict[str, Any]]  # what digests stand for
    code: dict[str, dict[str, Any]]
    digests: list[list[str]]

    def read(self, folder: ResultsDir) -> RunFiles:
        """The runs that are there already: whatever is wrong with a file is told before new ones are begun."""
        there = RunFiles(folder, CURVE_COLUMNS)
        for setting, digests in zip(self.settings, self.digests, strict=True):
            for digest in digests:
                there.read(digest, default_checkpoints(setting.horizon))
        return there

    def missing(self, there: RunFiles) -> list[_Job]:
        """What is still to do. Learners of a run go together: they play the same rounds, which are drawn once."""
        jobs = [
            _Job(s, run, [i for i, digest in enumerate(digests) if run not in there.curves[digest]])
            for s, digests in enumerate(self.digests)
            for run in range(self.settings[s].runs)
        ]
        return [job for job in jobs if job.learners]

    def rounds(self, jobs: list[_Job]) -> int:
        """Total rounds these jobs will play."""
        return sum(self.settings[job.setting].horizon * len(job.learners) for job in jobs)


def run_sweep(
    sweep: Sweep, folder: Path, *, executor: Executor | None = None, progress: Tick = lambda _: None
) -> SweepResult:
    """Do what is missing of a sweep in a folder, and write its tables.

    Finished runs are written in one step, at the latest some seconds after they were. What is in a file depends
    on nothing but its digest and the numbers of its runs: neither on the executor, nor on interruptions, nor on
    what else the sweep holds.

    Parameters
    ----------
    sweep
        What to run.
    folder
        Where its files are, or will be: manifest.json, runs, summary.csv, summary.parquet, comparisons.csv,
        timings.csv. Results of a sweep of another name are refused; those of an earlier state of this one stay.
    executor
        What does the work; None for one thread.
    progress
        Called with numbers of rounds done.
    """
    plan = _plan(sweep)
    claimed = _claim(sweep, plan, folder)
    there = plan.read(claimed)
    left = plan.missing(there)
    progress(sweep.rounds - plan.rounds(left))
    with claimed.resumable():
        if left:
            with _written_whatever_happens(there):
                _do(plan, left, there, Threads() if executor is None else executor, progress)
        seconds = claimed.seconds()
        finished = SweepResult(sweep, [_result(plan, s, there, seconds) for s in range(len(plan.settings))])
        for name, table_ in (("summary", finished.summary()), ("comparisons", finished.comparisons())):
            write_table(folder / f"{name}.csv", table_)
        write_table(folder / "summary.parquet", finished.summary())
    return finished


def finished_runs(sweep: Sweep, folder: Path) -> int:
    """How many runs of a sweep are finished in a folder."""
    plan = _plan(sweep)
    left = plan.missing(plan.read(ResultsDir.open(folder, "sweep")))
    return len(plan.settings) * sweep.runs * len(sweep.learners) - sum(len(job.learners) for job in left)


def _plan(sweep: Sweep) -> _Plan:
    settings = sweep.settings
    runs: dict[str, dict[str, Any]] = {}
    codes: dict[str, dict[str, Any]] = {}
    digests: list[list[str]] = []
    streams = {text: _what_is_drawn(e.parts.stream) for text, e in {e.stream: e for e in settings}.items()}
    for e in settings:
        digests.append([])
        for learner in e.parts.learners:
            code = Code.of("peekrank.experiments.run", values=(learner, e.parts.measure, e.parts.stream))
            made_by = {"versions": code.versions, "sources": code.sources}
            identity = {
                "learner": format_spec(learner),
                **streams[e.stream],
                "measure": e.measure,
                "k": e.k,
                "horizon": e.horizon,
                "seed": e.seed,
                "same_rounds": e.same_rounds,
                "code": digest_of(made_by),
                "own": code.own,
            }
            digests[-1].append(digest_of(identity))
            runs[digests[-1][-1]] = identity
            codes[identity["code"]] = made_by
    return _Plan(settings, dict(sorted(runs.items())), dict(sorted(codes.items())), digests)


def _what_is_drawn(stream: Stream) -> dict[str, Any]:
    """What identifies a stream's results: a file counts by its content, not its path."""
    data: Any = stream
    if (content := data_digest(stream)) is not None:
        data = replace(data, path=Path(data.path.name))
    return {"stream": format_spec(data), "data": content}


def _claim(sweep: Sweep, plan: _Plan, folder: Path) -> ResultsDir:
    """A folder holds results of one name; which runs these are, and of which code, is added to its manifest."""
    about = {"sweep": {**asdict(sweep), "digest": sweep.digest}, "seeds": SEEDS}
    return ResultsDir.create(
        folder, "sweep", about, code=None, by=("name",), more={"code": plan.code, "runs": plan.runs}
    )


@contextmanager
def _written_whatever_happens(there: RunFiles) -> Iterator[None]:
    """Write what is finished; what fails then must not hide why all ended."""
    try:
        yield
    except BaseException as error:
        try:
            there.write_rest()
        except (OSError, ValueError) as another:
            error.add_note(f"some finished runs could not be written: {another}")
        raise
    there.write_rest()


def _do(plan: _Plan, left: list[_Job], there: RunFiles, executor: Executor, progress: Tick) -> None:
    # long first: all workers end at about a time
    jobs = sorted(left, key=lambda job: -plan.settings[job.setting].horizon)
    drawn: dict[Any, Any] = {}
    stages = {s: run_context(plan.settings[s], drawn=drawn) for s in sorted({job.setting for job in jobs})}

    def keep(job: _Job, curve: Curve) -> None:
        digest, runs = plan.digests[job.setting][curve.learner], plan.settings[job.setting].runs
        there.add(digest, job.run, curve.frame(), seconds=curve.seconds, runs=runs)

    executor.run_all_jobs(jobs, partial(_play, stages), keep, progress, lambda job: _name(plan, job))


def _play(stages: dict[int, RunContext], job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(stages[job.setting], job.run, job.learners, tick)


def _name(plan: _Plan, job: _Job) -> str:
    setting = plan.settings[job.setting]
    where = ", ".join(f"{name} = {getattr(setting, name)}" for name in (*SETTING, "seed", "same_rounds"))
    return f"run {job.run} with {where}"


def _result(plan: _Plan, s: int, there: RunFiles, took: dict[str, float]) -> Result:
    e, runs, curves, seconds = plan.settings[s], range(plan.settings[s].runs), {}, {}
    for learner, digest in zip(e.learners, plan.digests[s], strict=True):
        curves[learner] = table(there.curves[digest], runs)
        seconds[learner] = median_seconds(took, [timed(digest, run) for run in runs])
    return Result(e, default_checkpoints(e.horizon), curves, seconds)
