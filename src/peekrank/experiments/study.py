"""Studies, which measure how the worst regret of learners over a family of streams grows with the horizon.

A study has a game (measure, m, k, grades), learners, horizons and runs. Each stream and horizon is a setting. A
setting is an `Experiment`, so ``peekrank simulate`` can repeat it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from peekrank import learners as all_learners
from peekrank._util.validate import check_int
from peekrank.engine import problem_shape
from peekrank.experiments.experiment import Experiment
from peekrank.experiments.families import Source, family
from peekrank.experiments.run import play_run, run_context
from peekrank.games.minimax import rate_of
from peekrank.games.rates import Rate
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS
from peekrank.spec import format_spec
from peekrank.streams import CT15, Binomial
from peekrank.types import Learner, Stream

if TYPE_CHECKING:
    from peekrank.jobs.executor import Tick

HORIZONS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
COLUMNS = {"learner": pl.String, "stream": pl.String, "horizon": pl.Int64, "run": pl.Int64, "regret": pl.Float64}
_REFERENCES = ("uniform",)
_FINITE_UP_TO = 4  # items: learners that enumerate all rankings can take 200 us a round


def fitting(
    measure: str, m: int, k: int, *, horizons: tuple[int, ...] = HORIZONS, grades: int = 2
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the learners that can play a game at these horizons, and the reasons why the others cannot.

    An anytime learner occurs twice, with known horizon and as ``:horizon=none``. Excluded are uniform and learners
    that need more than k grades. nw2 and feedexp3 are excluded if they would take hours.

    >>> fit, unfit = fitting("dcg", m=3, k=2)
    >>> sorted(fit)[:2], unfit["setftrl"][:50]
    (['blockftrl', 'blockftrl:horizon=none'], 'measure = dcg: setftrl learns which n items to sho')
    """
    target, fit, unfit = measure_named(measure), [], {}
    for name, cls in LEARNERS.items():
        if name in _REFERENCES or cls.contextual or (cls.full_information and k < m):
            continue
        if name in all_learners.FINITE and m > _FINITE_UP_TO:
            unfit[name] = f"slow with more than {_FINITE_UP_TO} items: name it to include it"
            continue
        anytime = any(f.name == "horizon" and f.default is None for f in fields_of(cls))
        try:
            with quiet():
                for horizon in horizons:
                    learner = all_learners.learner(name, measure=target, horizon=horizon, max_grade=grades - 1)
                    learner.init(problem_shape(learner, m=m, k=k))
        except ValueError as error:
            unfit[name] = str(error)
        else:
            fit += [name, f"{name}:horizon=none"] if anytime else [name]
    return tuple(fit), unfit


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about short horizons. The user saw them when the study was created."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortHorizonWarning)
        yield


@dataclass(frozen=True)
class Study:
    """The definition of a study: learners, a game with its family of streams, horizons and runs.

    Parameters
    ----------
    measure
        Name of the measure.
    m
        Number of items.
    k
        Number of top items whose relevance is revealed.
    learners
        Specifications. A specification without measure, horizon or max_grade gets those of the setting.
    grades
        Number of relevance grades.
    horizons
        Numbers of rounds, ascending. Every learner is run and tuned separately for each.
    runs
        Number of runs for each stream and horizon.
    seed
        Random seed.

    >>> study = Study("p@2+sum", m=5, k=1, learners=("setftrl", "rtop1f"), horizons=(1000, 2000), runs=3)
    >>> len(study.settings()), study.rounds
    (50, 450000)
    """

    measure: str
    m: int
    k: int
    learners: tuple[str, ...]
    grades: int = 2
    horizons: tuple[int, ...] = HORIZONS
    runs: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "measure", str(measure_named(self.measure)))
        check_int("m", self.m, 2)
        check_int("k", self.k, 1, self.m)
        check_int("grades", self.grades, 2, 256)
        check_int("runs", self.runs, 1)
        check_int("seed", self.seed, 0)
        object.__setattr__(self, "horizons", tuple(self.horizons))
        for horizon in self.horizons:
            check_int("horizon", horizon, 1)
        if not self.horizons or sorted(set(self.horizons)) != list(self.horizons):
            raise ValueError(
                f"horizons = {','.join(map(str, self.horizons))}: must be one or more ascending numbers of rounds"
            )
        for horizon in self.horizons:
            self._experiment(CT15(self.m) if self.grades == 2 else Binomial(self.m, self.grades - 1), horizon, 0)
        object.__setattr__(self, "learners", tuple(self.learners))

    @property
    def rate(self) -> Rate | None:
        """The minimax regret rate of the game, if a theorem gives it."""
        return rate_of(self.measure, self.m, self.k, self.grades).rate

    @property
    def streams(self) -> tuple[str, ...]:
        """The labels of the streams."""
        return tuple(source.label for source in self._family(self.horizons[0]))

    @property
    def rounds(self) -> int:
        """The total number of rounds of all learners in all runs."""
        return len(self.streams) * sum(self.horizons) * self.runs * len(self.learners)

    def settings(self) -> list[Setting]:
        """Return one experiment for each stream and horizon, ordered by stream."""
        families = {horizon: self._family(horizon) for horizon in self.horizons}
        return [
            Setting(label, self._experiment(families[horizon][s].stream, horizon, s))
            for s, label in enumerate(self.streams)
            for horizon in self.horizons
        ]

    def bound(self, learner: str, horizon: int) -> float | None:
        """Return the proved bound on the expected regret, or None if there is none for this tuning."""
        target = measure_named(self.measure)
        tuned = self._make_learner(learner, horizon)
        if tuned.measure not in (None, target) or tuned.horizon not in (None, horizon):
            return None
        return tuned.bound(problem_shape(tuned, m=self.m, k=self.k), horizon)

    def _make_learner(self, learner: str, horizon: int) -> Learner:
        context = {"measure": measure_named(self.measure), "horizon": horizon, "max_grade": self.grades - 1}
        return all_learners.learner(learner, **context)

    def _family(self, horizon: int) -> list[Source]:
        return family(self.measure, self.m, self.k, horizon, self.grades)

    def _experiment(self, stream: Stream, horizon: int, number: int) -> Experiment:
        """Make the experiment of a setting. Its seed does not depend on the other horizons or on the learners."""
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(number, horizon)).generate_state(1)[0])
        return Experiment(self.learners, format_spec(stream), self.measure, self.k, horizon, self.runs, seed)


class Setting(NamedTuple):
    """A stream with its label at a horizon, as an experiment."""

    label: str
    experiment: Experiment


def play_setting(setting: Setting, progress: Tick = lambda _: None) -> pl.DataFrame:
    """Compute the final regret of all learners in all runs. In each run, all learners have the same rounds."""
    e = setting.experiment
    context = run_context(e, checkpoints=np.array([e.horizon]))
    regrets = np.empty((len(e.learners), e.runs))
    for run in range(e.runs):
        for curve in play_run(context, run, range(len(e.learners)), progress):
            regrets[curve.learner, run] = curve.regret[0]
    columns = {
        "learner": np.repeat(e.learners, e.runs),
        "stream": setting.label,
        "horizon": e.horizon,
        "run": np.tile(np.arange(e.runs), len(e.learners)),
        "regret": regrets.ravel(),
    }
    return pl.DataFrame(columns, COLUMNS)
