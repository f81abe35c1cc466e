"""The regret laboratory: how the worst regret over a family of streams grows with the horizon, for every learner.

A study is a value: a game (measure, m, k, grades), learners, horizons, runs. Its cells, one for each stream and
horizon, are experiments of `peekrank.experiments.experiment`, so each can be repeated by ``peekrank simulate``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from functools import lru_cache
from math import factorial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from peekrank import learners as all_learners
from peekrank._util.atomic import write_whole
from peekrank._util.validate import whole
from peekrank.engine import problem_shape, simulate
from peekrank.experiments import runs
from peekrank.experiments.experiment import Experiment
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.certificate import adversaries
from peekrank.games.observability import signals
from peekrank.games.ranking import ranking_game
from peekrank.games.rate import Rate
from peekrank.games.rates import rate_of
from peekrank.jobs.executor import Executor, Threads, Tick
from peekrank.jobs.folder import check_same, claim
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS, origins
from peekrank.regret import Exponent, best_values, regret
from peekrank.spec import text_of
from peekrank.streams import CT15, Graded, Lists, Means, Switching
from peekrank.types import Cutoff, Floats, Learner, Stream

HORIZONS = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
GAPS = (2, 4, 8, 16, 32, 64, 128)  # means differ by one over these
_REFERENCES = ("uniform",)
_FINITE_UP_TO = 4  # items: learners that handle all rankings can take 200 us a round
_CLEARLY = 0.4  # how much better, or worse, than 1/2 an item is that leaves no doubt
_MOST_ENTRIES = 4_000  # losses of a game that is small enough to be analysed at once
_BOOTSTRAPS = 1000
_COLUMNS = {"learner": pl.String, "stream": pl.String, "horizon": pl.Int64, "run": pl.Int64, "regret": pl.Float64}


class Source(NamedTuple):
    """A member of a family of streams: what it is called, and what happens."""

    label: str
    stream: Stream


def family(measure: str, m: int, k: int, horizon: int, grades: int = 2) -> list[Source]:
    """Streams on which learners of a game can fail in different ways; only the last pair depends on the horizon.

    The best items always have the highest indices, so that breaking ties by index does not help.

    - *halves*, for each gap: the n items that count (half of them for measures without n) have the mean
      1/2 + gap/2, the others 1/2 - gap/2.
    - *ladder*: means evenly spaced from 1/2 - gap/2 to 1/2 + gap/2.
    - *last two*: the items of the last position that counts and of the next one have means 1/2 + gap/2 and
      1/2 - gap/2, those above 0.9 and those below 0.1. Where these two positions are not seen, only exploration
      can tell the two items apart.
    - *ct15*, and *switching*, its means dealt anew five times; for more than two grades *graded* instead.
    - *pair*, for small games: two distributions from the proof of the game's lower bound (`lower_bound_pair`).

    Parameters
    ----------
    measure, m, k, grades
        The game.
    horizon
        Rounds that will be played.

    >>> [source.label for source in family("p@2", m=5, k=1, horizon=1000)][-5:]
    ['last two 1/128', 'ct15', 'switching', 'pair p', 'pair q']
    >>> family("p@2", m=5, k=1, horizon=1000)[14].stream.means
    (0.1, 0.1, 0.25, 0.75, 0.9)
    """
    judge = measure_named(measure)
    cutoff = judge.n if isinstance(judge, Cutoff) else None
    counted = min(cutoff or m - 1, m - 1)
    good = counted if cutoff else m // 2
    above, below = np.full(counted - 1, 0.5 + _CLEARLY), np.full(m - counted - 1, 0.5 - _CLEARLY)
    found = []
    for name in ("halves", "ladder", "last two"):
        for parts in GAPS:
            low, high = 0.5 - 0.5 / parts, 0.5 + 0.5 / parts
            means = {
                "halves": np.repeat([low, high], [m - good, good]),
                "ladder": np.linspace(low, high, m),
                "last two": np.r_[below, low, high, above],
            }[name]
            found.append(Source(f"{name} 1/{parts}", Means(tuple(means.round(9).tolist()), grades - 1)))
    if grades == 2:
        found += [Source("ct15", CT15(m)), Source("switching", Switching(m))]
    else:
        found.append(Source("graded", Graded(m, grades - 1)))
    pair = lower_bound_pair(str(judge), m, k, horizon, grades)
    return found + [Source(f"pair {side}", stream) for side, stream in zip("pq", pair, strict=False)]


@lru_cache(maxsize=64)
def lower_bound_pair(measure: str, m: int, k: int, horizon: int, grades: int = 2) -> tuple[Lists, ...]:
    """Two distributions of relevance that are hard to tell apart, and on which different rankings are best.

    P is a point on the border of two neighbouring cells, and D the loss difference of the two rankings. The
    distributions are ``P (1 + eps h)`` and ``P (1 - eps h)``.

    - Rate sqrt(T): h = D, and eps = 1 / (sd of h under P) / sqrt(T): T rounds tell the two apart, just so.
    - Rate T^(2/3): h is the part of D that is not seen: what is left of D after its projection, in L2(P), on what
      the feedback of the rankings shows that are optimal at P. One has to show a worse ranking to tell the two
      apart, and eps = 1 / (sd of h) / T^(1/3).
    - Rate T: the two adversaries of the game's certificate, which no feedback tells apart.

    None, an empty tuple, where the game has more than 4,000 losses, is not decided, or has nothing to learn.

    >>> p, q = lower_bound_pair("p@1", m=2, k=1, horizon=10_000)
    >>> p.lists, [round(a - b, 4) for a, b in zip(p.chances, q.chances)]
    (('00', '10', '01', '11'), [0.0, -0.0071, 0.0071, 0.0])
    """
    if factorial(m) * grades**m > _MOST_ENTRIES or grades > 10:
        return ()
    found = _analysis(measure, m, k, grades)
    outcomes = tuple(name.replace(" ", "")[::-1] for name in found.game.outcomes)  # the best item is the last one
    if found.cells is None or not found.cells.borders or found.rate is None:
        return ()
    if found.rate is Rate.LINEAR:
        sides = _adversaries(measure, m, k, grades)
    else:
        border = found.blind or found.cells.borders[0]
        P = np.array([float(x) for x in border.point])
        P /= P.sum()
        h = found.game.loss[border.j] - found.game.loss[border.i]
        if found.rate is Rate.TWO_THIRDS:
            h = _residual(h, signals(found.game, border.watching).rows.astype(np.float64), P)
        size = min(horizon ** (found.rate.exponent - 1) / np.sqrt(P @ h**2), 1 / np.abs(h).max())
        sides = [P * (1 + sign * size * h) for sign in (1, -1)]
    return tuple(Lists(outcomes, tuple((side / side.sum()).tolist())) for side in sides)


@lru_cache(maxsize=16)
def _analysis(measure: str, m: int, k: int, grades: int) -> Analysis:
    return analyse(ranking_game(measure, m, k, grades))


@lru_cache(maxsize=16)
def _adversaries(measure: str, m: int, k: int, grades: int) -> list[Floats]:
    pair = adversaries(_analysis(measure, m, k, grades))
    return [np.array([float(x) for x in side]) for side in (pair.p, pair.q)]


def _residual(h: Floats, seen: Floats, P: Floats) -> Floats:
    """What is left of h after its projection, in L2(P), on the span of the rows of `seen`."""
    root = np.sqrt(P)
    coefficients = np.linalg.lstsq((seen * root).T, h * root, rcond=None)[0]
    left: Floats = h - coefficients @ seen
    return left


def fitting(
    measure: str, m: int, k: int, *, horizons: tuple[int, ...] = HORIZONS, grades: int = 2
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The learners that can play a game at these horizons, and of the others why they cannot.

    Each learner is there with known horizon and, if it can do without, as ``:horizon=none``. Not asked are uniform
    and learners that see more than k answers; nw2 and feedexp3 are left out where they would take hours.

    >>> fit, unfit = fitting("dcg", m=3, k=2)
    >>> sorted(fit)[:2], unfit["setftrl"][:50]
    (['blockftrl', 'blockftrl:horizon=none'], 'measure = dcg: setftrl learns which n items to sho')
    """
    judge, fit, unfit = measure_named(measure), [], {}
    for name, cls in LEARNERS.items():
        if name in _REFERENCES or cls.contextual or (cls.full_information and k < m):
            continue
        if name in all_learners.FINITE and m > _FINITE_UP_TO:
            unfit[name] = f"slow with more than {_FINITE_UP_TO} items: name it to have it"
            continue
        anytime = any(f.name == "horizon" and f.default is None for f in fields_of(cls))
        try:
            with _quiet():
                for horizon in horizons:
                    made = all_learners.learner(name, measure=judge, horizon=horizon, max_grade=grades - 1)
                    made.init(problem_shape(made, m=m, k=k))
        except ValueError as error:
            unfit[name] = str(error)
        else:
            fit += [name, f"{name}:horizon=none"] if anytime else [name]
    return tuple(fit), unfit


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what learners have to say of their parameters: who makes a study has heard it already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortHorizonWarning)
        yield


@dataclass(frozen=True)
class Study:
    """Which learners play a game against its family of streams, how long and how often.

    Parameters
    ----------
    measure
        Name of the measure.
    m
        Number of items.
    k
        Number of items, from the top, whose relevance is revealed.
    learners
        Specifications; measure, horizon and max_grade are filled in where they leave them open.
    grades
        Number of relevance grades.
    horizons
        Numbers of rounds, ascending. Every learner is run anew, and tuned anew, for each.
    runs
        Number of runs for each stream and horizon.
    seed
        Randomness of everything.

    >>> study = Study("p@2", m=5, k=1, learners=("setftrl", "rtop1f"), horizons=(1000, 2000), runs=3)
    >>> len(study.cells()), study.rounds
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
        whole("m", self.m, 2)
        whole("k", self.k, 1, self.m)
        whole("grades", self.grades, 2, 256)
        whole("runs", self.runs, 1)
        whole("seed", self.seed, 0)
        object.__setattr__(self, "horizons", tuple(self.horizons))
        for horizon in self.horizons:
            whole("horizon", horizon, 1)
        if not self.horizons or sorted(set(self.horizons)) != list(self.horizons):
            raise ValueError(
                f"horizons = {','.join(map(str, self.horizons))}: must be ascending numbers of rounds, one or more"
            )
        for horizon in self.horizons:
            self._experiment(CT15(self.m) if self.grades == 2 else Graded(self.m, self.grades - 1), horizon, 0)
        object.__setattr__(self, "learners", tuple(self.learners))

    @property
    def rate(self) -> Rate | None:
        """How fast the regret of the best learner grows, by theorem."""
        return rate_of(self.measure, self.m, self.k, self.grades).rate

    @property
    def streams(self) -> tuple[str, ...]:
        """Labels of the streams."""
        return tuple(source.label for source in self._family(self.horizons[0]))

    @property
    def rounds(self) -> int:
        """Rounds of all learners in all runs."""
        return len(self.streams) * sum(self.horizons) * self.runs * len(self.learners)

    def cells(self) -> list[Cell]:
        """One experiment for each stream and horizon, stream after stream."""
        families = {horizon: self._family(horizon) for horizon in self.horizons}
        return [
            Cell(label, self._experiment(families[horizon][s].stream, horizon, s))
            for s, label in enumerate(self.streams)
            for horizon in self.horizons
        ]

    def bound(self, learner: str, horizon: int) -> float | None:
        """Proved bound on the expected regret; None for a learner that is tuned to something else, or has none."""
        judge = measure_named(self.measure)
        made = self._make(learner, horizon)
        if made.measure not in (None, judge) or made.horizon not in (None, horizon):
            return None
        return made.bound(problem_shape(made, m=self.m, k=self.k), horizon)

    def _make(self, learner: str, horizon: int) -> Learner:
        context = {"measure": measure_named(self.measure), "horizon": horizon, "max_grade": self.grades - 1}
        return all_learners.learner(learner, **context)

    def _family(self, horizon: int) -> list[Source]:
        return family(self.measure, self.m, self.k, horizon, self.grades)

    def _experiment(self, stream: Stream, horizon: int, number: int) -> Experiment:
        """Each cell has a seed of its own, which depends neither on other horizons nor on the learners."""
        seed = int(np.random.SeedSequence(self.seed, spawn_key=(number, horizon)).generate_state(1)[0])
        return Experiment(self.learners, text_of(stream), self.measure, self.k, horizon, self.runs, seed)


class Cell(NamedTuple):
    """A stream at a horizon."""

    label: str
    experiment: Experiment


class Worst(NamedTuple):
    """A learner's mean regret on the stream that is worst for it, at a horizon.

    That is the stream with the largest mean after two standard errors are taken off: where a few unlucky runs make
    the mean, as they can where the environment changes, chance would otherwise choose the stream.
    """

    horizon: int
    stream: str
    regret: float
    spread: float  # standard deviation over runs; NaN for a single one
    doubt: float  # two standard errors of the mean; NaN for a single run
    bound: float | None

    @property
    def exceeded(self) -> bool:
        """Whether the mean is above the bound by more than luck explains; if not here, then on no stream."""
        return self.bound is not None and self.regret - self.doubt > self.bound

    @property
    def kept(self) -> bool | None:
        """Whether the mean is within the bound, if there is one."""
        return None if self.bound is None else self.regret <= self.bound


class Findings(NamedTuple):
    """The regret of every learner on every stream at every horizon in every run: one row for each."""

    study: Study
    regrets: pl.DataFrame

    def table(self, learner: str) -> Floats:
        """Final regrets, (streams, horizons, runs)."""
        study = self.study
        rows = self.regrets.filter(pl.col("learner") == learner)
        return rows["regret"].to_numpy().reshape(len(study.streams), len(study.horizons), study.runs)

    def worst(self, learner: str) -> list[Worst]:
        """The worst stream at each horizon."""
        found = []
        for horizon, s, regrets in zip(self.study.horizons, *self._worst(learner), strict=True):
            spread = float(regrets.std(ddof=1)) if len(regrets) > 1 else float("nan")
            bound = self.study.bound(learner, horizon)
            found.append(
                Worst(
                    horizon,
                    self.study.streams[s],
                    float(regrets.mean()),
                    spread,
                    2 * spread / np.sqrt(len(regrets)),
                    bound,
                )
            )
        return found

    def exponent(self, learner: str) -> Exponent:
        """Slope of log(worst mean regret) against log(horizon), over all horizons."""
        return fit_over_horizons(self.study.horizons, self._worst(learner)[1])

    def summary(self) -> pl.DataFrame:
        """Everything that is said of the learners: a row for each learner and horizon."""
        rows = []
        for learner in self.study.learners:
            value, low, high = self.exponent(learner)
            exponent = {"exponent": value, "exponent_low": low, "exponent_high": high}
            rows += [{"learner": learner, **w._asdict(), "kept": w.kept, **exponent} for w in self.worst(learner)]
        return pl.DataFrame(rows, schema_overrides={"bound": pl.Float64, "kept": pl.Boolean})

    def _worst(self, learner: str) -> tuple[list[int], Floats]:
        """The worst stream at each horizon, and its regrets, (horizons, runs)."""
        table, n = self.table(learner), self.study.runs
        doubt = 2 * table.std(axis=2, ddof=1) / np.sqrt(n) if n > 1 else 0.0
        worst = (table.mean(axis=2) - doubt).argmax(axis=0)
        return worst.tolist(), table[worst, np.arange(len(worst))]


def fit_over_horizons(horizons: tuple[int, ...], regrets: Floats, *, seed: int = 0) -> Exponent:
    """Slope b of log(mean regret) = a + b log(T) by least squares, every horizon by itself.

    The interval is the bootstrap's, over the runs of each horizon; which stream is the worst is taken as given.

    Parameters
    ----------
    horizons
        Numbers of rounds.
    regrets
        Final regrets, one row for each horizon, one column for each run.
    seed
        Randomness of the bootstrap.

    >>> fit_over_horizons((1000, 2000, 4000), np.outer([10.0, 20.0, 40.0], [1, 1, 1]))
    Exponent(value=1.0, low=1.0, high=1.0)
    """
    runs = regrets.shape[1]
    nothing = float("nan")
    if len(horizons) < 2:
        return Exponent(nothing, nothing, nothing)
    t = np.log(horizons) - np.log(horizons).mean()

    def slope(means: Floats) -> Floats:
        logs = np.log(means, out=np.full(means.shape, np.nan), where=means > 0)
        return np.asarray(logs @ t / (t @ t)).round(12)

    value = float(slope(regrets.mean(axis=1)))
    if runs < 2 or np.isnan(value):
        return Exponent(value, nothing, nothing)
    draws = np.random.default_rng(seed).integers(runs, size=(_BOOTSTRAPS, len(horizons), runs))
    resampled = slope(np.take_along_axis(regrets[None], draws, axis=2).mean(axis=2))
    if np.isnan(resampled).any():
        return Exponent(value, nothing, nothing)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Exponent(value, float(low), float(high))


def compile_kernels(study: Study) -> None:
    """Compile the loop of each learner, once for each process."""
    with _quiet():
        runs.compile_kernels(study.cells()[0].experiment)


def investigate(
    study: Study, folder: Path, *, workers: int = 1, progress: Callable[[int], None] = lambda _: None
) -> Findings:
    """Do what is missing of a study in a folder, and write its tables.

    A cell is written when it is finished, in one step. Results do not depend on the number of workers, nor on
    interruptions: the same study goes on, another one is refused.

    Parameters
    ----------
    study
        What to find out.
    folder
        Where its files are, or will be: manifest.json, cells, regrets.parquet, summary.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    engine = Threads(workers)
    with _quiet():
        return _investigate(study, folder, engine, progress)


def _investigate(study: Study, folder: Path, engine: Executor, progress: Tick) -> Findings:
    cells = study.cells()
    paths = [folder / "cells" / f"{i // len(study.horizons):02d}-{c.experiment.horizon}.parquet"
             for i, c in enumerate(cells)]  # fmt: skip
    manifest = _claim(study, cells, folder)
    missing = [(cell, path) for cell, path in zip(cells, paths, strict=True) if not path.exists()]
    progress(study.rounds - sum(c.experiment.horizon for c, _ in missing) * study.runs * len(study.learners))
    if missing:
        runs.compile_kernels(cells[0].experiment)
        longest_first = sorted(missing, key=lambda job: -job[0].experiment.horizon)

        def keep(job: tuple[Cell, Path], regrets: pl.DataFrame) -> None:
            check_same(folder, "study", manifest)
            write_whole(job[1], regrets.write_parquet)

        engine.do_all(longest_first, _play, keep, progress, lambda job: str(job[0]))
    frames = pl.concat(_read_cell(cell, path) for cell, path in zip(cells, paths, strict=True))
    order = pl.Enum(study.learners)
    findings = Findings(study, frames.sort(pl.col("learner").cast(order), maintain_order=True))
    write_whole(folder / "regrets.parquet", findings.regrets.write_parquet)
    write_whole(folder / "summary.csv", findings.summary().write_csv)
    return findings


def _play(job: tuple[Cell, Path], tick: Tick) -> Iterator[pl.DataFrame]:
    yield play_cell(job[0], tick)


def play_cell(cell: Cell, progress: Callable[[int], None] = lambda _: None) -> pl.DataFrame:
    """Final regrets of all learners in all runs on a stream; the rounds of a run are the same for all learners."""
    e = cell.experiment
    judge, made, at = e.parts.measure, e.parts.learners, np.array([e.horizon])
    regrets = np.empty((len(made), e.runs))
    for run in range(e.runs):
        rounds, seed = e.rounds(run), e.learner_seed(run)
        best = best_values(judge, rounds, at)
        for i, learner in enumerate(made):
            trace = simulate(learner, rounds, k=e.k, measure=judge, seed=seed, at=at, progress=progress)
            regrets[i, run] = regret(judge, trace, best)[0]
    columns = {
        "learner": np.repeat(e.learners, e.runs),
        "stream": cell.label,
        "horizon": e.horizon,
        "run": np.tile(np.arange(e.runs), len(made)),
        "regret": regrets.ravel(),
    }
    return pl.DataFrame(columns, _COLUMNS)


def finished(folder: Path) -> int:
    """How many cells are finished in a folder."""
    return len(list((folder / "cells").glob("[0-9]*.parquet")))


def _read_cell(cell: Cell, path: Path) -> pl.DataFrame:
    again = "remove it to have that cell done again"
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {again}") from None
    e = cell.experiment
    whose = {(learner, cell.label, e.horizon, run) for learner in e.learners for run in range(e.runs)}
    if dict(frame.schema) != _COLUMNS or set(frame.drop("regret").rows()) != whose or len(frame) != len(whose):
        raise ValueError(f"{path} does not belong to this study; {again}")
    return frame


def _claim(study: Study, cells: list[Cell], folder: Path) -> dict[str, Any]:
    about = {
        "study": asdict(study),
        "own": origins(*cells[0].experiment.parts.learners, cells[0].experiment.parts.measure),
        "seeds": "SeedSequence(seed, spawn_key=(stream from 0, horizon)).generate_state(1)[0] is that of a cell",
        "cells": [
            {"stream": c.label, "horizon": c.experiment.horizon, "specification": c.experiment.stream,
             "seed": c.experiment.seed}
            for c in cells
        ],
    }  # fmt: skip
    return claim(folder, "study", about, begun=finished(folder) > 0)
