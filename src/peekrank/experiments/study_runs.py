"""Run studies in results folders. Each finished setting is a file, and interrupted studies resume."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import polars as pl

from peekrank.experiments.run import compile_kernels
from peekrank.experiments.study import COLUMNS, Setting, Study, play_setting, quiet
from peekrank.experiments.study_result import StudyResult
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.results_dir import Code, ResultsDir, write_table


class _SettingResult(NamedTuple):
    regrets: pl.DataFrame
    seconds: float


def run_study(study: Study, folder: Path, *, workers: int = 1, progress: Tick = lambda _: None) -> StudyResult:
    """Compute the missing settings of a study in a folder, write its tables, and return the whole result.

    Each setting is written atomically when it finishes. Results do not depend on the number of workers or on
    interruptions.

    Parameters
    ----------
    study
        The study.
    folder
        The results folder, with manifest.json, runs, regrets.parquet, summary.csv and timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of finished rounds.
    """
    executor = Threads(workers)
    with quiet():
        return _run(study, folder, executor, progress)


def _run(study: Study, folder: Path, executor: Executor, progress: Tick) -> StudyResult:
    settings = _parts(study)
    results_dir = _create_dir(study, settings, folder)
    finished = results_dir.read_finished(settings, lambda part, frame: _is_valid(settings[part], frame))
    missing = [part for part in settings if part not in finished]
    each = study.runs * len(study.learners)
    progress(study.rounds - each * sum(settings[part].experiment.horizon for part in missing))
    with results_dir.resumable():
        if missing:
            compile_kernels(settings[missing[0]].experiment)
            longest_first = sorted(missing, key=lambda part: -settings[part].experiment.horizon)

            def compute(part: str, tick: Tick) -> Iterator[_SettingResult]:
                start = time.perf_counter()
                regrets = play_setting(settings[part], tick)
                yield _SettingResult(regrets, time.perf_counter() - start)

            def save(part: str, result: _SettingResult) -> None:
                results_dir.save(part, *result)
                finished[part] = result.regrets

            executor.run(longest_first, compute, save, progress, lambda part: str(settings[part]))
        frames = pl.concat(finished[part] for part in settings)
        order = pl.Enum(study.learners)
        result = StudyResult(study, frames.sort(pl.col("learner").cast(order), maintain_order=True))
        write_table(folder / "regrets.parquet", result.regrets)
        write_table(folder / "summary.csv", result.summary())
    return result


def _parts(study: Study) -> dict[str, Setting]:
    """Return the settings by the names of their files, which are made of stream number and horizon."""
    return {
        f"{i // len(study.horizons):02d}-{setting.experiment.horizon}": setting
        for i, setting in enumerate(study.settings())
    }


def _is_valid(setting: Setting, frame: pl.DataFrame) -> bool:
    e = setting.experiment
    keys = {(learner, setting.label, e.horizon, run) for learner in e.learners for run in range(e.runs)}
    return dict(frame.schema) == COLUMNS and set(frame.drop("regret").rows()) == keys and len(frame) == len(keys)


def _create_dir(study: Study, settings: dict[str, Setting], folder: Path) -> ResultsDir:
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
