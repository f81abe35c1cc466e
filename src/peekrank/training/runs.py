"""Run trainings in results folders. Each finished run is a file with its models, and trainings resume."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from peekrank._util.extras import extra
from peekrank.data.dataset import Dataset
from peekrank.engine import problem_shape
from peekrank.jobs.executor import Threads, Tick
from peekrank.jobs.results_dir import (
    Code,
    ResultsDir,
    Validator,
    check_parts,
    count_finished,
    median_seconds,
    write_table,
)
from peekrank.regret import default_checkpoints
from peekrank.training.model import save_model
from peekrank.training.no_relevant import NoRelevant, queries_without_relevant
from peekrank.training.result import TrainingResult
from peekrank.training.run import COLUMNS, RunResult, compile_kernels, content_digest, play_run
from peekrank.training.training import Training, TrainTest

with extra("cli"):
    import polars as pl


def run_training(
    training: Training,
    data: TrainTest,
    folder: Path,
    *,
    workers: int = 1,
    progress: Tick = lambda _: None,
) -> TrainingResult:
    """Compute the missing runs of a training in a folder, write its tables and models, and return the result.

    Each run is written atomically when it finishes, after its models. Results do not depend on the number of
    workers or on interruptions.

    Parameters
    ----------
    training
        The training.
    data
        The data, with a test part or without.
    folder
        The results folder, with manifest.json, runs, models, curves.parquet, summary.csv and timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of finished rounds.
    """
    executor = Threads(workers)
    longest, d = int(np.diff(data.train.offsets).max()), data.preparation.features
    for learner in training.make_learners():
        learner.init(problem_shape(learner, m=longest, k=training.k, d=d))
    results_dir = _create_dir(training, data, folder)
    finished = results_dir.read_finished(_parts(training), _validator(training))
    missing = [
        run
        for run, part in enumerate(_parts(training))
        if not _is_complete(training, folder, run, finished.get(part))
    ]
    progress(training.total_rounds() // training.runs * (training.runs - len(missing)))
    with results_dir.resumable():
        if missing:
            compile_kernels(training, data)

            def save(run: int, result: RunResult) -> None:
                results_dir.check()
                for name, model in zip(training.model_names(), result.models, strict=True):
                    if model is None:
                        model_file(folder, name, run).unlink(missing_ok=True)
                    else:
                        save_model(model, model_file(folder, name, run))
                results_dir.save(_part(run), result.curves, result.seconds)
                finished[_part(run)] = result.curves

            compute = partial(play_run, training, data)
            executor.run(missing, compute, save, progress, lambda run: f"run {run} of {training}")
        result = _make_result(training, results_dir.manifest, finished, results_dir.seconds())
        write_table(folder / "curves.parquet", result.curves)
        write_table(folder / "summary.csv", result.summary_table())
    return result


def read_training(folder: Path) -> TrainingResult:
    """Read a finished training. Raises ValueError if a run is missing or damaged."""
    results_dir = ResultsDir.open(folder, "training")
    with results_dir.described():
        training = Training(**results_dir.manifest["training"])
        _source_and_no_relevant(results_dir.manifest)
        check_parts(training.runs)
        is_valid = _validator(training)
    frames = {part: results_dir.read(part, is_valid) for part in _parts(training)}
    return _make_result(training, results_dir.manifest, frames, results_dir.seconds())


def model_file(folder: Path, name: str, run: int) -> Path:
    """Return the path of the model of a learner, given by its plain name, in a run."""
    return folder / "models" / f"{name}-{run}.json"


def _part(run: int) -> str:
    return f"{run:04d}"


def _parts(training: Training) -> list[str]:
    return [_part(run) for run in range(training.runs)]


def _validator(training: Training) -> Validator:
    checkpoints, count = default_checkpoints(training.rounds), len(training.learners)
    learners = [text for text in training.learners for _ in checkpoints]

    def is_valid(part: str, frame: pl.DataFrame) -> bool:
        return (
            dict(frame.schema) == COLUMNS
            and frame["run"].unique().to_list() == [int(part)]
            and frame["learner"].to_list() == learners
            and np.array_equal(frame["checkpoints"].to_numpy(), np.tile(checkpoints, count))
        )

    return is_valid


def _is_complete(training: Training, folder: Path, run: int, curves: pl.DataFrame | None) -> bool:
    """Return whether a run is finished, and its models exist."""
    if curves is None:
        return False
    finite = dict(curves.select("learner", "finite").unique().iter_rows())
    named = zip(training.learners, training.model_names(), training.make_learners(), strict=True)
    return all(
        model_file(folder, name, run).exists()
        for text, name, learner in named
        if learner.contextual and finite[text]
    )


def _make_result(
    training: Training, manifest: dict[str, Any], frames: dict[str, pl.DataFrame], durations: dict[str, float]
) -> TrainingResult:
    parts = _parts(training)
    curves = pl.concat(frames[part] for part in parts)
    source, no_relevant = _source_and_no_relevant(manifest)
    seconds = median_seconds(durations, parts)
    return TrainingResult(training, source, default_checkpoints(training.rounds), curves, seconds, no_relevant)


def _source_and_no_relevant(manifest: dict[str, Any]) -> tuple[str, NoRelevant]:
    return str(manifest["data"]["source"]), NoRelevant(**(manifest["test"] or manifest["data"])["no_relevant"])


def _create_dir(training: Training, data: TrainTest, folder: Path) -> ResultsDir:
    about = {
        "training": asdict(training),
        "data": _describe(training, data.train, data.preparation.scaling),
        "test": None if data.test is None else _describe(training, data.test, data.preparation.scaling),
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) orders the queries, (run, 1) is the learners'",
    }
    code = Code.of("peekrank.training.run", values=(*training.make_learners(), training.make_measure()))
    results_dir = ResultsDir.create(folder, "training", about, code=code, data=("data", "test"))
    if not count_finished(folder):
        for model in (folder / "models").glob("*.json"):  # of a run that did not finish
            model.unlink()
    return results_dir


def _describe(training: Training, data: Dataset, scaling: str) -> dict[str, Any]:
    """Describe the content of a data set before online scaling."""
    no_relevant = queries_without_relevant(data, training.make_measure())
    about = {name: value for name, value in data.about.as_dict().items() if name != "warnings"}
    sizes = {"queries": len(data.queries), "documents": len(data.features), "features": data.features.shape[1]}
    digest = {"scaling": scaling, "content": content_digest(data)}
    return {**about, **digest, **sizes, "no_relevant": no_relevant._asdict()}
