"""Run sweeps in results folders. The name of a file is a digest of everything that determines its runs.

No run is computed twice. An interrupted sweep resumes, and an extended sweep computes only the new runs.
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
from peekrank.experiments.run import CURVE_COLUMNS, Curve, RunContext, compile_kernels, play_run, run_context
from peekrank.experiments.runs import SEEDS, data_digest, summary_rows
from peekrank.experiments.sweep import Sweep
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.results_dir import Code, ResultsDir, json_digest, median_seconds, write_table
from peekrank.jobs.run_files import RunFiles, concat_runs, timing_name
from peekrank.regret import default_checkpoints
from peekrank.spec import format_spec
from peekrank.types import Stream

SETTING = ("stream", "measure", "k", "horizon")
_SUMMARY = ("learner", "regret", "spread", "exponent", "exponent_low", "exponent_high", "bound", "explored")


@dataclass(frozen=True)
class SweepResult:
    """The results of a sweep, one for each setting."""

    sweep: Sweep
    results: list[Result]

    def frame(self) -> pl.DataFrame:
        """Return the curves of all runs as one tidy table; ``.to_pandas()`` makes it a table of pandas.

        Its columns are the setting (stream, measure, k, horizon), learner, run, checkpoint (number of rounds), and
        the sums up to there: value of the measure, regret, and rounds spent on exploration.
        """
        return pl.concat(
            frame.select(
                *(pl.lit(getattr(result.experiment, name)).alias(name) for name in SETTING),
                pl.lit(learner).alias("learner"),
                "run",
                pl.col("checkpoints").alias("checkpoint"),
                "value",
                "regret",
                "explored",
            )
            for result in self.results
            for learner, frame in result.curves.items()
        )

    def summary(self) -> pl.DataFrame:
        """Return a table with a row for each setting and learner."""
        return self._summary

    def comparisons(self) -> pl.DataFrame:
        """Compare every two learners of each setting over its runs, with Holm's correction over all settings."""
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
    """A run of a setting that some learners have not finished. All are given by their numbers."""

    setting: int
    run: int
    learners: list[int]


class _Plan(NamedTuple):
    """The settings of a sweep, and the identity of each learner's runs in each setting, with its digest."""

    settings: tuple[Experiment, ...]
    runs: dict[str, dict[str, Any]]  # identity by digest
    code: dict[str, dict[str, Any]]  # by digest
    digests: list[list[str]]

    def read(self, folder: ResultsDir) -> RunFiles:
        """Read the finished runs. Raises ValueError if a file is damaged."""
        files = RunFiles(folder, CURVE_COLUMNS)
        for setting, digests in zip(self.settings, self.digests, strict=True):
            for digest in digests:
                files.read(digest, default_checkpoints(setting.horizon))
        return files

    def missing(self, files: RunFiles) -> list[_Job]:
        """List the missing runs. The learners of a run share a job, because its rounds are drawn once."""
        jobs = [
            _Job(s, run, [i for i, digest in enumerate(digests) if run not in files.curves[digest]])
            for s, digests in enumerate(self.digests)
            for run in range(self.settings[s].runs)
        ]
        return [job for job in jobs if job.learners]

    def rounds(self, jobs: list[_Job]) -> int:
        """Count the rounds of jobs."""
        return sum(self.settings[job.setting].horizon * len(job.learners) for job in jobs)


def run_sweep(
    sweep: Sweep, folder: Path, *, executor: Executor | None = None, progress: Tick = lambda _: None
) -> SweepResult:
    """Compute the missing runs of a sweep in a folder, write its tables, and return the whole result.

    Finished runs are written atomically, within a few seconds. The content of a file depends only on its digest
    and the numbers of its runs, and not on the executor, on interruptions, or on the rest of the sweep.

    Parameters
    ----------
    sweep
        The sweep.
    folder
        The results folder, with manifest.json, runs, summary.csv, summary.parquet, comparisons.csv and
        timings.csv. It may hold results of an earlier version of the sweep, which stay, but not of a sweep with
        another name.
    executor
        The executor; None for one thread.
    progress
        Called with numbers of finished rounds.
    """
    plan = _make_plan(sweep)
    results_dir = _create_dir(sweep, plan, folder)
    files = plan.read(results_dir)
    missing = plan.missing(files)
    progress(sweep.rounds - plan.rounds(missing))
    with results_dir.resumable():
        if missing:
            with _write_always(files):
                _run_jobs(plan, missing, files, Threads() if executor is None else executor, progress)
        seconds = results_dir.seconds()
        result = SweepResult(sweep, [_setting_result(plan, s, files, seconds) for s in range(len(plan.settings))])
        for name, table in (("summary", result.summary()), ("comparisons", result.comparisons())):
            write_table(folder / f"{name}.csv", table)
        write_table(folder / "summary.parquet", result.summary())
    return result


def finished_runs(sweep: Sweep, folder: Path) -> int:
    """Count the finished runs of a sweep in a folder."""
    plan = _make_plan(sweep)
    missing = plan.missing(plan.read(ResultsDir.open(folder, "sweep")))
    return len(plan.settings) * sweep.runs * len(sweep.learners) - sum(len(job.learners) for job in missing)


def _make_plan(sweep: Sweep) -> _Plan:
    settings = sweep.settings
    runs: dict[str, dict[str, Any]] = {}
    codes: dict[str, dict[str, Any]] = {}
    digests: list[list[str]] = []
    streams = {text: _stream_identity(e.parts.stream) for text, e in {e.stream: e for e in settings}.items()}
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
                "regret": e.regret,
                "code": json_digest(made_by),
                "own": code.own,
            }
            digests[-1].append(json_digest(identity))
            runs[digests[-1][-1]] = identity
            codes[identity["code"]] = made_by
    return _Plan(settings, dict(sorted(runs.items())), dict(sorted(codes.items())), digests)


def _stream_identity(stream: Stream) -> dict[str, Any]:
    """Return the fields that identify a stream. A file counts by its content, not by its path."""
    data: Any = stream
    if (content := data_digest(stream)) is not None:
        data = replace(data, path=Path(data.path.name))
    return {"stream": format_spec(data), "data": content}


def _create_dir(sweep: Sweep, plan: _Plan, folder: Path) -> ResultsDir:
    """Create the results folder for the sweep's name, and add its runs and their code to the manifest."""
    about = {"sweep": {**asdict(sweep), "digest": sweep.digest}, "seeds": SEEDS}
    return ResultsDir.create(
        folder, "sweep", about, code=None, by=("name",), more={"code": plan.code, "runs": plan.runs}
    )


@contextmanager
def _write_always(files: RunFiles) -> Iterator[None]:
    """Write all finished runs at the end, also after an error, which a second error must not hide."""
    try:
        yield
    except BaseException as error:
        try:
            files.write_rest()
        except (OSError, ValueError) as second:
            error.add_note(f"cannot write some finished runs: {second}")
        raise
    files.write_rest()


def _run_jobs(plan: _Plan, missing: list[_Job], files: RunFiles, executor: Executor, progress: Tick) -> None:
    if isinstance(executor, Threads):
        compile_kernels(plan.settings[missing[0].setting])
    # longest first, so that all workers end at about the same time
    jobs = sorted(missing, key=lambda job: -plan.settings[job.setting].horizon)
    drawn: dict[Any, Any] = {}
    contexts = {s: run_context(plan.settings[s], drawn=drawn) for s in sorted({job.setting for job in jobs})}

    def save(job: _Job, curve: Curve) -> None:
        digest, runs = plan.digests[job.setting][curve.learner], plan.settings[job.setting].runs
        files.add(digest, job.run, curve.frame(), seconds=curve.seconds, runs=runs)

    executor.run(jobs, partial(_compute_job, contexts), save, progress, lambda job: _name(plan, job))


def _compute_job(contexts: dict[int, RunContext], job: _Job, tick: Tick) -> Iterator[Curve]:
    return play_run(contexts[job.setting], job.run, job.learners, tick)


def _name(plan: _Plan, job: _Job) -> str:
    setting = plan.settings[job.setting]
    fields = ", ".join(
        f"{name} = {getattr(setting, name)}" for name in (*SETTING, "seed", "same_rounds", "regret")
    )
    return f"run {job.run} with {fields}"


def _setting_result(plan: _Plan, s: int, files: RunFiles, durations: dict[str, float]) -> Result:
    e, runs, curves, seconds = plan.settings[s], range(plan.settings[s].runs), {}, {}
    for learner, digest in zip(e.learners, plan.digests[s], strict=True):
        curves[learner] = concat_runs(files.curves[digest], runs)
        seconds[learner] = median_seconds(durations, [timing_name(digest, run) for run in runs])
    return Result(e, default_checkpoints(e.horizon), curves, seconds)
