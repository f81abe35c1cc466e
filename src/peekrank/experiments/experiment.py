"""An experiment is a value: which learners run on what, how long, how often. A result is all their curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank._util.validate import check_int
from peekrank.engine import problem_shape
from peekrank.learners import learner as learner_named
from peekrank.measures import measure as measure_named
from peekrank.regret import Exponent, fit_exponent
from peekrank.streams import stream as stream_named
from peekrank.types import Floats, Ints, Learner, Measure, Rounds, Shape, Stream


class Parts(NamedTuple):
    """The values that the specifications of an experiment name."""

    stream: Stream
    measure: Measure
    learners: tuple[Learner, ...]


@dataclass(frozen=True)
class Experiment:
    """Which learners run on what, how long, how often: everything that determines the results, and nothing else.

    Parameters
    ----------
    learners
        Specifications; measure, horizon and max_grade are filled in where they leave them open.
    stream
        Specification, or the path of a file with orders or ratings.
    measure
        Name of the measure that regret is computed for.
    k
        Number of items, from the top, whose relevance is revealed.
    horizon
        Number of rounds.
    runs
        Number of runs of each learner.
    seed
        Randomness of everything.
    same_rounds
        Whether each run has rounds of its own; otherwise only the learner's randomness differs (as in CT15).

    >>> Experiment(("rtop1f",), "ct15", "dcg", k=1, horizon=1000, runs=2).shape
    Shape(m=10, d=0, k=1)
    """

    learners: tuple[str, ...]
    stream: str
    measure: str
    k: int
    horizon: int
    runs: int = 10
    seed: int = 0
    same_rounds: bool = False

    def __post_init__(self) -> None:
        for name, low in (("k", 1), ("horizon", 1), ("runs", 1), ("seed", 0)):
            check_int(name, getattr(self, name), low)
            object.__setattr__(self, name, int(getattr(self, name)))  # NumPy's integers are no JSON
        learners: object = self.learners
        if isinstance(learners, str):
            raise ValueError(f"learners = '{learners}': must be several, as in ('{learners}',)")
        object.__setattr__(self, "learners", tuple(self.learners))
        if not self.learners:
            raise ValueError("no learner given: name at least one, for instance rtop1f")
        if len(set(self.learners)) < len(self.learners):
            raise ValueError(f"a learner is given twice: {' '.join(self.learners)}")
        for learner in self.parts.learners:
            learner.init(problem_shape(learner, m=self.shape.m, k=self.k, d=self.shape.d))

    @cached_property
    def parts(self) -> Parts:
        """Stream, measure and learners, made once; what a learner's specification leaves open is filled in."""
        stream, measure = stream_named(self.stream), measure_named(self.measure)
        open_fields = {"measure": measure, "horizon": self.horizon, "max_grade": stream.max_grade}
        return Parts(stream, measure, tuple(learner_named(text, **open_fields) for text in self.learners))

    @property
    def shape(self) -> Shape:
        """Size of the problem."""
        return Shape(self.parts.stream.m, self.parts.stream.d, self.k)

    def learner(self, text: str) -> Learner:
        """The learner with this specification, one of those given."""
        return self.parts.learners[self.learners.index(text)]

    def rounds(self, run: int, stream: Stream | None = None) -> Rounds:
        """The rounds of a run, the same for all its learners; `stream` is the stream, where it is made already."""
        source = self.parts.stream if stream is None else stream
        return source.rounds(self.horizon, np.random.default_rng(self._seed(run * self.same_rounds, 0)))

    def learner_seed(self, run: int) -> np.random.SeedSequence:
        """Randomness of the learners in a run."""
        return self._seed(run, 1)

    def _seed(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=key)


class Summary(NamedTuple):
    """What a learner came to at the horizon, over runs."""

    learner: str
    regret: float
    spread: float  # standard deviation over runs; NaN for a single one
    exponent: Exponent
    bound: float | None
    explored: float  # share of rounds
    rounds_per_second: float


class Result(NamedTuple):
    """The curves of all runs: `curves[learner]` has columns run, at, value, regret, explored.

    `seconds[learner]` is the median time of a run, NaN if it is not known.
    """

    experiment: Experiment
    checkpoints: Ints
    curves: dict[str, pl.DataFrame]
    seconds: dict[str, float]

    def regrets(self, learner: str) -> Floats:
        """Cumulative regret, one row for each run."""
        return self.curves[learner]["regret"].to_numpy().reshape(-1, len(self.checkpoints))

    def bound(self, learner: str, horizons: Ints) -> Floats | None:
        """Upper bound on the expected regret of this learner tuned to each of these horizons, if one is proved.

        There is none for a learner that was tuned to another measure or horizon than it is judged by.
        """
        made, measure = self.experiment.learner(learner), self.experiment.parts.measure
        if made.measure not in (None, measure):
            return None
        if made.horizon not in (None, self.experiment.horizon):
            return None
        m, d, k = self.experiment.shape
        shape = problem_shape(made, m=m, k=k, d=d)
        bounds = np.array([made.bound(shape, int(t)) for t in horizons], dtype=np.float64)
        return bounds if np.isfinite(bounds).all() else None

    def summaries(self) -> Iterator[Summary]:
        """One summary for each learner, in the order given."""
        horizon = self.experiment.horizon
        for name in self.experiment.learners:
            regrets = self.regrets(name)
            explored = self.curves[name]["explored"].to_numpy()[len(self.checkpoints) - 1 :: len(self.checkpoints)]
            bound = self.bound(name, np.array([horizon]))
            yield Summary(
                learner=name,
                regret=float(regrets[:, -1].mean()),
                spread=float(regrets[:, -1].std(ddof=1)) if len(regrets) > 1 else float("nan"),
                exponent=fit_exponent(self.checkpoints, regrets),
                bound=None if bound is None else float(bound[0]),
                explored=float(explored.mean()) / horizon,
                rounds_per_second=horizon / self.seconds[name],
            )
