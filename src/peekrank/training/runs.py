"""Trainings in folders: one file per finished run, and its models, resumed where it stopped."""

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
from peekrank.jobs.results_dir import Belongs, Code, ResultsDir, finished, median_seconds, write_table
from peekrank.regret import default_checkpoints
from peekrank.training.model import save_model
from peekrank.training.no_relevant import NoRelevant, queries_without_relevant
from peekrank.training.result import TrainingResult
from peekrank.training.run import COLUMNS, Done, compile_kernels, content_digest, play_run
from peekrank.training.training import Training, TrainTest

with extra("cli"):
    import polars as pl


def learn(
    training: Training,
    material: TrainTest,
    folder: Path,
    *,
    workers: int = 1,
    progress: Tick = lambda _: None,
) -> TrainingResult:
    """Do what is missing of a training in a folder, and write its tables and models.

    A run is written when it is finished, in one step, after its models. Results do not depend on the number of
    workers, nor on interruptions: the same training goes on, another one is refused.

    Parameters
    ----------
    training
        What to do.
    material
        What to learn from.
    folder
        Where its files are, or will be: manifest.json, runs, models, curves.parquet, summary.csv, timings.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    executor = Threads(workers)
    longest, d = int(np.diff(material.train.offsets).max()), material.preparation.features
    for learner in training.make_learners():
        learner.init(problem_shape(learner, m=longest, k=training.k, d=d))
    claimed = _claim(training, material, folder)
    there = claimed.finished(_parts(training), _belongs(training))
    missing = [
        run for run, part in enumerate(_parts(training)) if not _whole(training, folder, run, there.get(part))
    ]
    progress(training.total_rounds() // training.runs * (training.runs - len(missing)))
    with claimed.resumable():
        if missing:
            compile_kernels(training, material)

            def keep(run: int, done: Done) -> None:
                claimed.check()
                for name, model in zip(training.model_names(), done.models, strict=True):
                    if model is None:
                        model_file(folder, name, run).unlink(missing_ok=True)
                    else:
                        save_model(model, model_file(folder, name, run))
                claimed.save(_part(run), done.curves, done.seconds)
                there[_part(run)] = done.curves

            compute = partial(play_run, training, material)
            executor.run_all_jobs(missing, compute, keep, progress, lambda run: f"run {run} of {training}")
        outcome = _outcome(training, claimed.manifest, there, claimed.seconds())
        write_table(folder / "curves.parquet", outcome.curves)
        write_table(folder / "summary.csv", outcome.summary_table())
    return outcome


def read(folder: Path) -> TrainingResult:
    """Read a finished training."""
    found = ResultsDir.open(folder, "training")
    try:
        training = Training(**found.manifest["training"])
        _source_and_no_relevant(found.manifest)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe a training: {error}") from None
    belongs = _belongs(training)
    frames = {part: found.read(part, belongs) for part in _parts(training)}
    return _outcome(training, found.manifest, frames, found.seconds())


def model_file(folder: Path, name: str, run: int) -> Path:
    """Where the model of a learner, by its plain name, and a run is."""
    return folder / "models" / f"{name}-{run}.json"


def _part(run: int) -> str:
    return f"{run:04d}"


def _parts(training: Training) -> list[str]:
    return [_part(run) for run in range(training.runs)]


def _belongs(training: Training) -> Belongs:
    checkpoints, count = default_checkpoints(training.rounds), len(training.learners)
    learners = [text for text in training.learners for _ in checkpoints]

    def belongs(part: str, frame: pl.DataFrame) -> bool:
        return (
            dict(frame.schema) == COLUMNS
            and frame["run"].unique().to_list() == [int(part)]
            and frame["learner"].to_list() == learners
            and np.array_equal(frame["checkpoints"].to_numpy(), np.tile(checkpoints, count))
        )

    return belongs


def _whole(training: Training, folder: Path, run: int, curves: pl.DataFrame | None) -> bool:
    """Whether a run is finished, and the models that it speaks of are there."""
    if curves is None:
        return False
    finite = dict(curves.select("learner", "finite").unique().iter_rows())
    named = zip(training.learners, training.model_names(), training.make_learners(), strict=True)
    return all(
        model_file(folder, name, run).exists()
        for text, name, learner in named
        if learner.contextual and finite[text]
    )


def _outcome(
    training: Training, manifest: dict[str, Any], frames: dict[str, pl.DataFrame], took: dict[str, float]
) -> TrainingResult:
    parts = _parts(training)
    curves = pl.concat(frames[part] for part in parts)
    source, no_relevant = _source_and_no_relevant(manifest)
    return TrainingResult(
        training, source, default_checkpoints(training.rounds), curves, median_seconds(took, parts), no_relevant
    )


def _source_and_no_relevant(manifest: dict[str, Any]) -> tuple[str, NoRelevant]:
    return str(manifest["data"]["source"]), NoRelevant(
        **(manifest["test"] or manifest["data"])["nothing_relevant"]
    )


def _claim(training: Training, material: TrainTest, folder: Path) -> ResultsDir:
    about = {
        "training": asdict(training),
        "data": _describe(training, material.train, material.preparation.scaling),
        "test": None
        if material.test is None
        else _describe(training, material.test, material.preparation.scaling),
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) orders the queries, (run, 1) is the learners'",
    }
    code = Code.of("peekrank.training.run", values=(*training.make_learners(), training.make_measure()))
    claimed = ResultsDir.create(folder, "training", about, code=code, data=("data", "test"))
    if not finished(folder):
        for model in (folder / "models").glob("*.json"):  # of a run that was never finished
            model.unlink()
    return claimed


def _describe(training: Training, data: Dataset, scaling: str) -> dict[str, Any]:
    """What determines the content of a data set, as it is shown: online scaling is still to come."""
    no_relevant = queries_without_relevant(data, training.make_measure())
    about = {name: value for name, value in asdict(data.about).items() if name != "warnings"}
    sizes = {"queries": len(data.queries), "documents": len(data.features), "features": data.features.shape[1]}
    return {
        **about, "scaling": scaling, "content": content_digest(data), **sizes, "nothing_relevant": no_relevant._asdict(),
    }  # fmt: skip
