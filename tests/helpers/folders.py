"""The five kinds of results that folders keep, each small, for tests of what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.runs import run
from peekrank.experiments.study import Study
from peekrank.experiments.study_runs import run_study
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import run_sweep
from peekrank.jobs.executor import Threads, Tick
from peekrank.papers.record import Claim, Options, Record, Reproduction, Results
from peekrank.training.runs import run_training
from peekrank.training.training import Training, prepare_data

EXPERIMENT = Experiment(("rtop1f", "uniform"), "ct15:m=6", "dcg", k=1, horizon=60, runs=3, seed=11)
SWEEP = Sweep("small", ("rtop1f", "uniform"), ("ct15:m=5",), ("dcg",), k=(1, 2), horizons=(60,), runs=3)
STUDY = Study("p@1+sum", m=3, k=1, learners=("setftrl", "uniform"), horizons=(20,), runs=1, seed=7)
TRAINING = Training(("rtopkf", "uniform"), k=1, rounds=50, runs=4)
_LISTS = DatasetShape(queries=12, documents=(2, 5), features=3, shares=(0.5, 0.5))


class Kind(NamedTuple):
    """What makes the results in a folder, and something that differs from it, by a word of the refusal."""

    name: str
    make: Callable[[Path, Tick], object]
    other: Callable[[Path], object]
    differs: str
    within: str = "."  # the folder of parts

    def __str__(self) -> str:
        return self.name


def _train(folder: Path, tick: Tick, training: Training = TRAINING) -> None:
    run_training(training, prepare_data(make_dataset(_LISTS, np.random.default_rng(1))), folder, progress=tick)


def _reproduce(folder: Path, tick: Tick, *, quick: bool = True) -> None:
    def make(options: Options) -> Results:
        def part(number: int) -> Callable[[Any], pl.DataFrame]:
            def compute(_: object) -> pl.DataFrame:
                tick(1)
                return pl.DataFrame({"n": [number]})

            return compute

        found = options.frames({f"part-{i}": part(i) for i in range(4)})
        total = sum(frame["n"].sum() for frame in found.values())
        return Results(
            [Claim("the sum", "6", str(total), holds=total == 6)], data={"numbers": pl.concat(found.values())}
        )

    item = Reproduction("mine", "nobody", "a sum", (1, 1), make)
    Record(folder, quick=quick).reproduce(item, workers=1, progress=lambda *_: None)


KINDS = (
    Kind(
        "experiment",
        lambda folder, tick: run(EXPERIMENT, folder, progress=tick),
        lambda folder: run(replace(EXPERIMENT, seed=12), folder),
        "seed",
    ),
    Kind(
        "sweep",
        lambda folder, tick: run_sweep(SWEEP, folder, executor=Threads(), progress=tick),
        lambda folder: run_sweep(replace(SWEEP, name="other"), folder),
        "name",
    ),
    Kind(
        "study",
        lambda folder, tick: run_study(STUDY, folder, progress=tick),
        lambda folder: run_study(replace(STUDY, runs=3), folder),
        "runs",
    ),
    Kind("training", _train, lambda folder: _train(folder, lambda _: None, replace(TRAINING, k=2)), "k"),
    Kind(
        "record", _reproduce, lambda folder: _reproduce(folder, lambda _: None, quick=False), "mode", within="mine"
    ),
)


def made(kind: Kind, folder: Path, tick: Tick = lambda _: None) -> dict[str, bytes]:
    """Make the results, and give the bytes of all files but the timings."""
    kind.make(folder, tick)
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files but the timings."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "timings.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
