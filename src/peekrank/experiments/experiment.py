"""Experiments, which define learners, stream, measure, horizon and runs, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank._util.validate import check_choice, check_int
from peekrank.engine import problem_shape
from peekrank.games.lower_bounds import lower_bound
from peekrank.learners import learner as learner_named
from peekrank.measures import measure as measure_named
from peekrank.regret import Exponent, fit_exponent
from peekrank.streams import stream as stream_named
from peekrank.types import Floats, Ints, Learner, Measure, RegretKind, Rounds, Shape, Stream

REGRET_NAMES: dict[RegretKind, str] = {
    "static": "regret",
    "pseudo": "pseudo-regret",
    "dynamic": "dynamic regret",
    "none": "loss",
}


class Parts(NamedTuple):
    """The objects that an experiment's specifications describe."""

    stream: Stream
    measure: Measure
    learners: tuple[Learner, ...]


@dataclass(frozen=True)
class Experiment:
    """The definition of an experiment: everything that determines its results, and nothing else.

    Parameters
    ----------
    learners
        Specifications. A specification without measure, horizon or max_grade gets those of the experiment.
    stream
        Specification, or path of a file with orders or ratings.
    measure
        Name of the measure that defines the regret.
    k
        Number of top items whose relevance is revealed.
    horizon
        Number of rounds.
    runs
        Number of runs of each learner.
    seed
        Random seed.
    same_rounds
        Whether all runs have the same rounds, so that only the learner's random numbers differ (as in CT15).
    regret
        What regret compares with: ``static``, ``pseudo``, ``dynamic`` or ``none``, as in `best_values`.

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
    regret: RegretKind = "static"

    def __post_init__(self) -> None:
        for name, low in (("k", 1), ("horizon", 1), ("runs", 1), ("seed", 0)):
            check_int(name, getattr(self, name), low)
            object.__setattr__(self, name, int(getattr(self, name)))  # JSON cannot hold NumPy integers
        learners: object = self.learners
        if isinstance(learners, str):
            raise ValueError(f"learners = '{learners}': must be a tuple, as in ('{learners}',)")
        object.__setattr__(self, "learners", tuple(self.learners))
        if not self.learners:
            raise ValueError("no learners: name at least one, for example rtop1f")
        if len(set(self.learners)) < len(self.learners):
            raise ValueError(f"a learner occurs twice: {' '.join(self.learners)}")
        for learner in self.parts.learners:
            learner.init(problem_shape(learner, m=self.shape.m, k=self.k, d=self.shape.d))
        check_choice("regret", self.regret, RegretKind)
        if (
            self.regret in ("pseudo", "dynamic")
            and self.parts.stream.rounds(1, np.random.default_rng(0)).tails is None
        ):
            raise ValueError(
                f"regret = '{self.regret}': stream '{self.stream}' does not know the distribution of its "
                "relevance; choose 'static' or 'none'"
            )

    @cached_property
    def parts(self) -> Parts:
        """Stream, measure and learners, created once."""
        stream, measure = stream_named(self.stream), measure_named(self.measure)
        defaults = {"measure": measure, "horizon": self.horizon, "max_grade": stream.max_grade}
        return Parts(stream, measure, tuple(learner_named(text, **defaults) for text in self.learners))

    @property
    def shape(self) -> Shape:
        """Number of items, features and feedback positions."""
        return Shape(self.parts.stream.m, self.parts.stream.d, self.k)

    @property
    def lower_bound(self) -> float | None:
        """A regret that no learner with k answers can guarantee to stay below; None if no theorem gives one."""
        if self.regret == "none":
            return None
        m, _, k = self.shape
        return lower_bound(self.parts.measure, m, k, self.horizon, self.parts.stream.max_grade + 1)

    def learner(self, text: str) -> Learner:
        """Return the learner with this specification."""
        return self.parts.learners[self.learners.index(text)]

    def rounds(self, run: int, stream: Stream | None = None) -> Rounds:
        """Draw the rounds of a run, which all its learners share. `stream` replaces the experiment's stream."""
        source = self.parts.stream if stream is None else stream
        return source.rounds(self.horizon, np.random.default_rng(self._seed(0 if self.same_rounds else run, 0)))

    def learner_seed(self, run: int) -> np.random.SeedSequence:
        """Return the random seed of the learners in a run."""
        return self._seed(run, 1)

    def _seed(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=key)


class Summary(NamedTuple):
    """The results of a learner at the horizon, over all runs."""

    learner: str
    regret: float
    spread: float  # standard deviation over runs; NaN for one run
    exponent: Exponent
    bound: float | None
    explored: float  # fraction of rounds
    rounds_per_second: float


class Result(NamedTuple):
    """The curves of all runs: `curves[learner]` has columns run, checkpoints, value, regret, explored.

    `seconds[learner]` is the median duration of a run, or NaN if it is not known.
    """

    experiment: Experiment
    checkpoints: Ints
    curves: dict[str, pl.DataFrame]
    seconds: dict[str, float]

    def regrets(self, learner: str) -> Floats:
        """Return the cumulative regret, one row for each run."""
        return self.curves[learner]["regret"].to_numpy().reshape(-1, len(self.checkpoints))

    def bound(self, learner: str, horizons: Ints) -> Floats | None:
        """Return the proved bound on the learner's expected regret, tuned to each of these horizons.

        Returns None if there is no bound, if the learner is tuned to another measure or horizon, or if regret is
        neither static nor pseudo-regret, which is not larger in expectation.
        """
        if self.experiment.regret not in ("static", "pseudo"):
            return None
        tuned, measure = self.experiment.learner(learner), self.experiment.parts.measure
        if tuned.measure not in (None, measure):
            return None
        if tuned.horizon not in (None, self.experiment.horizon):
            return None
        m, d, k = self.experiment.shape
        shape = problem_shape(tuned, m=m, k=k, d=d)
        bounds = np.array([tuned.bound(shape, int(t)) for t in horizons], dtype=np.float64)
        return bounds if np.isfinite(bounds).all() else None

    def summaries(self) -> Iterator[Summary]:
        """Yield a summary of each learner, in the order of the experiment."""
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
