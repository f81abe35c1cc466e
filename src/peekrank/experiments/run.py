"""The result of one run of an experiment: a function of experiment and number of the run; no file is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from peekrank._util.signals import interrupt_later
from peekrank.engine import simulate
from peekrank.experiments.experiment import Experiment
from peekrank.regret import best_values, checkpoints, regret
from peekrank.streams import Orders, Ratings
from peekrank.types import Floats, Ints, Learner, Measure, Rounds, Stream, Trace

if TYPE_CHECKING:
    from peekrank.jobs.executor import Tick

CURVE_COLUMNS = {"at": pl.Int64, "value": pl.Float64, "regret": pl.Float64, "explored": pl.Int64}


def compile_kernels(experiment: Experiment) -> None:
    """Compile the loop of each learner, once for each process, so that no run is slowed down by it."""
    world, measure = experiment.parts.stream.rounds(1, np.random.default_rng(0)), experiment.parts.measure
    with interrupt_later():
        best_values(measure, world, np.array([1]))
        for learner in experiment.parts.learners:
            simulate(learner, world, k=experiment.k, measure=measure)


class Stage(NamedTuple):
    """All that the runs of an experiment need: they read no file, and make nothing twice."""

    experiment: Experiment
    stream: Stream
    learners: tuple[Learner, ...]
    measure: Measure
    at: Ints
    world: tuple[Rounds, Floats] | None  # rounds and best values of every run, if they are not drawn anew


def stage_of(
    experiment: Experiment, *, at: Ints | None = None, drawn: dict[tuple[str, int], Rounds] | None = None
) -> Stage:
    """Load and draw what the runs of an experiment share.

    Parameters
    ----------
    experiment
        Whose runs.
    at
        Rounds after which curves are recorded; the usual ones, if None.
    drawn
        Rounds that are the same in all runs, by stream and horizon: taken from here, and put here.

    >>> int(stage_of(Experiment(("uniform",), "ct15", "dcg", k=1, horizon=1000)).at[-1])
    1000
    """
    stream, measure = experiment.parts.stream, experiment.parts.measure
    recorded = checkpoints(experiment.horizon) if at is None else at
    held = stream.in_memory() if isinstance(stream, Orders | Ratings) else stream
    world = None
    if not experiment.redraw:
        drawn, key = {} if drawn is None else drawn, (experiment.stream, experiment.horizon)
        if key not in drawn:
            drawn[key] = experiment.rounds(0, held)
        world = drawn[key], best_values(measure, drawn[key], recorded)
    return Stage(experiment, held, experiment.parts.learners, measure, recorded, world)


class Curve(NamedTuple):
    """What a learner, by its number, came to in a run."""

    learner: int
    trace: Trace
    regret: Floats
    seconds: float

    def frame(self) -> pl.DataFrame:
        """The curve as a table, without the seconds."""
        columns = {**self.trace._asdict(), "regret": self.regret}
        return pl.DataFrame([pl.Series(name, columns[name], dtype) for name, dtype in CURVE_COLUMNS.items()])


def play_run(stage: Stage, run: int, learners: Iterable[int], tick: Tick) -> Iterator[Curve]:
    """Let learners, by their numbers, play a run: the same rounds for all, one learner after the other."""
    e, stream, made, measure, at, world = stage
    if world is None:
        rounds = e.rounds(run, stream)
        world = rounds, best_values(measure, rounds, at)
    rounds, best = world
    for i in learners:
        began, seed = time.perf_counter(), e.learner_seed(run)
        try:
            trace = simulate(made[i], rounds, k=e.k, measure=measure, seed=seed, at=at, progress=tick)
        except Exception as error:
            error.add_note(f"learner '{e.learners[i]}'")
            raise
        seconds = time.perf_counter() - began
        yield Curve(i, trace, regret(measure, trace, best), seconds)
