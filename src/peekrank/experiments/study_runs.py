"""Studies in folders: one file for each stream and horizon that is finished, resumed where it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import polars as pl

from peekrank.experiments import run
from peekrank.experiments.study import COLUMNS, Setting, Study, play_setting, quiet
from peekrank.experiments.study_result import StudyResult
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.results_dir import Code, ResultsDir, write_table


class _Played(NamedTuple):
    regrets: pl.DataFrame
    seconds: float


def compile_kernels(study: Study) -> None:
    """Compile the loop of each learner, once for each process."""
    with quiet():
        playing.compile_kernels(study.settings()[0].experiment)


def run_study(study: Study, folder: Path, *, workers: int = 1, progress: Tick = lambda _: None) -> StudyResult:
    """Do what is missing of a study in a folder, and write its tables.

    A setting is written when it is finished, in one step. Results do not depend on the number of workers, nor on
    interruptions: the same study goes on, another one is refused.

    Parameters
    ----------
    study
        What to find out.
    folder
        Where its files are, or will be: manifest.json, runs, regrets.parquet, summary.csv, timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    executor = Threads(workers)
    with quiet():
        return _investigate(study, folder, executor, progress)


def _investigate(study: Study, folder: Path, executor: Executor, progress: Tick) -> StudyResult:
    settings = _parts(study)
    claimed = _claim(study, settings, folder)
    there = claimed.finished(settings, lambda part, frame: _belongs(settings[part], frame))
    missing = [part for part in settings if part not in there]
    each = study.runs * len(study.learners)
    progress(study.rounds - each * sum(settings[part].experiment.horizon for part in missing))
    with claimed.resumable():
        if missing:
            playing.compile_kernels(settings[missing[0]].experiment)
            longest_first = sorted(missing, key=lambda part: -settings[part].experiment.horizon)

            def compute(part: str, tick: Tick) -> Iterator[_Played]:
                began = time.perf_counter()
                regrets = play_setting(settings[part], tick)
                yield _Played(regrets, time.perf_counter() - began)

            def keep(part: str, played: _Played) -> None:
                claimed.save(part, *played)
                there[part] = played.regrets

            executor.run_all_jobs(longest_first, compute, keep, progress, lambda part: str(settings[part]))
        frames = pl.concat(there[part] for part in settings)
        order = pl.Enum(study.learners)
        findings = StudyResult(study, frames.sort(pl.col("learner").cast(order), maintain_order=True))
        write_table(folder / "regrets.parquet", findings.regrets)
        write_table(folder / "summary.csv", findings.summary())
    return findings


def _parts(study: Study) -> dict[str, Setting]:
    """The settings by the names of their files: the number of the stream, and the horizon."""
    return {
        f"{i // len(study.horizons):02d}-{setting.experiment.horizon}": setting
        for i, setting in enumerate(study.settings())
    }


def _belongs(setting: Setting, frame: pl.DataFrame) -> bool:
    e = setting.experiment
    whose = {(learner, setting.label, e.horizon, run) for learner in e.learners for run in range(e.runs)}
    return dict(frame.schema) == COLUMNS and set(frame.drop("regret").rows()) == whose and len(frame) == len(whose)


def _claim(study: Study, settings: dict[str, Setting], folder: Path) -> ResultsDir:
    about = {
        "study": asdict(study),
        "seeds": "SeedSequence(seed, spawn_key=(stream from 0, horizon)).generate_state(1)[0] is a setting's",
        "settings": [
            {"stream": s.label, "horizon": s.experiment.horizon, "specification": s.experiment.stream,
             "seed": s.experiment.seed}
            for s in settings.values()
        ],
    }  # fmt: skip
    parts = [setting.experiment.parts for setting in settings.values()]
    values = (*parts[0].learners, parts[0].measure, *(part.stream for part in parts))
    return ResultsDir.create(folder, "study", about, code=Code.of("peekrank.experiments.study", values=values))
