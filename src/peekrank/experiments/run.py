"""One run of an experiment, computed in memory. It depends only on the experiment and the number of the run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from peekrank._util.signals import interrupt_later
from peekrank.engine import simulate
from peekrank.experiments.experiment import Experiment
from peekrank.regret import best_values, default_checkpoints, regret
from peekrank.streams import Orders, Ratings
from peekrank.types import Floats, Ints, Learner, Measure, Rounds, Stream, Trace

if TYPE_CHECKING:
    from peekrank.jobs.executor import Tick

CURVE_COLUMNS = {"checkpoints": pl.Int64, "value": pl.Float64, "regret": pl.Float64, "explored": pl.Int64}


def compile_kernels(experiment: Experiment) -> None:
    """Compile the loop of each learner before the first run, so that timings exclude it."""
    rounds, measure = experiment.parts.stream.rounds(1, np.random.default_rng(0)), experiment.parts.measure
    with interrupt_later():
        best_values(measure, rounds, np.array([1]), experiment.regret)
        for learner in experiment.parts.learners:
            simulate(learner, rounds, k=experiment.k, measure=measure)


class RunContext(NamedTuple):
    """Everything that the runs of an experiment share, so that they read no files and repeat no work."""

    experiment: Experiment
    stream: Stream
    learners: tuple[Learner, ...]
    measure: Measure
    checkpoints: Ints
    shared: tuple[Rounds, Floats] | None  # rounds and best values, if all runs have the same rounds


def run_context(
    experiment: Experiment, *, checkpoints: Ints | None = None, drawn: dict[tuple[str, int], Rounds] | None = None
) -> RunContext:
    """Load the data and draw the rounds that the runs of an experiment share.

    Parameters
    ----------
    experiment
        The experiment.
    checkpoints
        Rounds after which curves are recorded. None for `default_checkpoints`.
    drawn
        A cache of rounds that are the same in all runs, by stream and horizon.

    >>> int(run_context(Experiment(("uniform",), "ct15", "dcg", k=1, horizon=1000)).checkpoints[-1])
    1000
    """
    stream, measure = experiment.parts.stream, experiment.parts.measure
    recorded_at = default_checkpoints(experiment.horizon) if checkpoints is None else checkpoints
    source = stream.in_memory() if isinstance(stream, Orders | Ratings) else stream
    shared = None
    if experiment.same_rounds:
        drawn, key = {} if drawn is None else drawn, (experiment.stream, experiment.horizon)
        if key not in drawn:
            drawn[key] = experiment.rounds(0, source)
        shared = drawn[key], best_values(measure, drawn[key], recorded_at, experiment.regret)
    return RunContext(experiment, source, experiment.parts.learners, measure, recorded_at, shared)


class Curve(NamedTuple):
    """The curve of a learner, given by its number, in a run."""

    learner: int
    trace: Trace
    regret: Floats
    seconds: float

    def frame(self) -> pl.DataFrame:
        """Return the curve as a table, without its duration."""
        columns = {**self.trace._asdict(), "regret": self.regret}
        return pl.DataFrame([pl.Series(name, columns[name], dtype) for name, dtype in CURVE_COLUMNS.items()])


def play_run(context: RunContext, run: int, learners: Iterable[int], tick: Tick) -> Iterator[Curve]:
    """Run learners, given by their numbers, one after the other on the rounds of a run."""
    e, stream, all_learners, measure, checkpoints, shared = context
    if shared is None:
        rounds = e.rounds(run, stream)
        shared = rounds, best_values(measure, rounds, checkpoints, e.regret)
    rounds, best = shared
    for i in learners:
        start, seed = time.perf_counter(), e.learner_seed(run)
        try:
            trace = simulate(
                all_learners[i], rounds, k=e.k, measure=measure, seed=seed, checkpoints=checkpoints, progress=tick
            )
        except Exception as error:
            error.add_note(f"learner '{e.learners[i]}'")
            raise
        seconds = time.perf_counter() - start
        yield Curve(i, trace, regret(measure, trace, best), seconds)
