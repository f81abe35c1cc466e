"""Learning from judged documents: learners that see k answers a round pass over a data set, and become models.

A run is a random order of queries, pass after pass, the same for all learners, which share one way through memory.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from peekrank._util.atomic import write_whole
from peekrank._util.signals import interrupt_later
from peekrank._util.validate import whole
from peekrank.data.dataset import Dataset
from peekrank.data.scaling import standardise_online
from peekrank.engine import Agent, drive, problem_shape
from peekrank.engine.scoring import values_of_lists
from peekrank.jobs.executor import Threads, Tick
from peekrank.jobs.folder import check_same, claim, finished, manifest_of
from peekrank.learners.rtopkf import RTopKF
from peekrank.measures import measure as measure_named
from peekrank.registry import LEARNERS, origins
from peekrank.regret import checkpoints
from peekrank.spec import build, text_of
from peekrank.surrogates import Squared, Surrogate
from peekrank.surrogates import surrogate as surrogate_named
from peekrank.training.hindsight import Best, best_fixed, loss_along
from peekrank.training.model import Model, Preparation, Ranked, preparation, save_model
from peekrank.types import Floats, Ints, Learner, Measure, Rounds, Weighted

_DATA = ("data", "test")  # fields of the manifest
_LATE = 0.9  # part of the rounds after which the last ones begin
_CURVE = {"at": pl.Int64, "value": pl.Float64, "counted": pl.Int64, "explored": pl.Int64}
_ENDS = {
    "seconds": pl.Float64, "finite": pl.Boolean, "held_out": pl.Float64, "loss": pl.Float64, "best": pl.Float64,
    "gap": pl.Float64,
}  # fmt: skip
_COLUMNS = {"run": pl.Int64, "learner": pl.String, **_CURVE, **_ENDS}


@dataclass(frozen=True)
class AsPrinted:
    """The paper's algorithm with the paper's parameters, as a specification: ``as_printed:surrogate=kl``."""

    horizon: int
    surrogate: Surrogate = field(default=Squared(), metadata={"read": surrogate_named})
    name: ClassVar[str] = "as_printed"


def _fitting() -> dict[str, type[Any]]:
    """The learners for lists with features."""
    known = {name: cls for name, cls in LEARNERS.items() if cls.any_length}
    return {**known, AsPrinted.name: AsPrinted}


def make_learner(text: str, rounds: int) -> Learner:
    """The learner that a specification names, for lists with features.

    >>> make_learner("as_printed:surrogate=kl", 1000).gamma.__round__(3)
    0.1
    """
    name, known = text.partition(":")[0], _fitting()
    if name in LEARNERS and name not in known:
        raise ValueError(
            f"learner '{text}': {name} learns about a fixed set of items, not from features; "
            f"use {' or '.join(known)}"
        )
    made: Any = build("learner", known, text, horizon=rounds)
    learner: Learner = made
    return RTopKF.as_printed(made.surrogate, made.horizon) if isinstance(made, AsPrinted) else learner


@dataclass(frozen=True)
class Training:
    """Which learners learn from a data set, how long and how often.

    Parameters
    ----------
    learners
        Specifications of rtopkf, of as_printed (the paper's presets), or uniform.
    k
        Number of documents, from the top, whose relevance is revealed; of a shorter list all.
    rounds
        Number of rounds T, filled in as horizon where a learner needs one.
    measure
        Name of the measure of quality.
    runs
        Number of runs, each with an order of queries of its own.
    seed
        Randomness of everything.
    regret
        Whether to compute regret in the surrogate, for convex ones: every run is repeated step by step.

    >>> Training(("rtopkf", "as_printed:surrogate=ranksvm"), k=1, rounds=1000)
    Traceback (most recent call last):
    ValueError: k = 1: as_printed:surrogate=ranksvm needs k = 2 at least
    """

    learners: tuple[str, ...]
    k: int = 1
    rounds: int = 100_000
    measure: str = "ndcg@10"
    runs: int = 5
    seed: int = 0
    regret: bool = False

    def __post_init__(self) -> None:
        for name, low in (("k", 1), ("rounds", 1), ("runs", 1), ("seed", 0)):
            whole(name, getattr(self, name), low)
        object.__setattr__(self, "measure", str(measure_named(self.measure)))
        object.__setattr__(self, "learners", tuple(self.learners))
        if not self.learners:
            raise ValueError("no learner given: name at least one, for instance rtopkf")
        if len(set(self.learners)) < len(self.learners):
            raise ValueError(f"a learner is given twice: {' '.join(self.learners)}")
        for text, made in zip(self.learners, self.make_learners(), strict=True):
            if self.k < made.min_k:
                raise ValueError(f"k = {self.k}: {text} needs k = {made.min_k} at least")

    def make_learners(self) -> list[Learner]:
        """The learners."""
        return [make_learner(text, self.rounds) for text in self.learners]

    def make_measure(self) -> Measure:
        """The measure."""
        return measure_named(self.measure)

    def sequence(self, run: int, queries: int) -> Ints:
        """The query of each round of a run: all in random order, then all in another, and so on."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(run, 0)))
        passes = [rng.permutation(queries) for _ in range(-(-self.rounds // queries))]
        return np.concatenate(passes)[: self.rounds]

    def learner_seed(self, run: int) -> np.random.SeedSequence:
        """Randomness of the learners in a run."""
        return np.random.SeedSequence(self.seed, spawn_key=(run, 1))

    def model_names(self) -> list[str]:
        """What the files of the learners' models begin with: specifications without signs, numbered if needed."""
        plain = [re.sub(r"[^A-Za-z0-9.]+", "-", text) for text in self.learners]
        return [name if plain.count(name) == 1 else f"{name}-{i}" for i, name in enumerate(plain)]

    def replayed(self) -> list[str]:
        """The learners whose regret is computed."""
        made = zip(self.learners, self.make_learners(), strict=True)
        return [text for text, learner in made if self.regret and _convex(learner)]


def _convex(learner: Learner) -> bool:
    return isinstance(learner, RTopKF) and learner.surrogate.convex


class Material(NamedTuple):
    """What is learned from, prepared, and what the result is held against, if anything.

    With online scaling both are not scaled yet: every run has an order, and so statistics, of its own.
    """

    train: Dataset
    test: Dataset | None
    preparation: Preparation


def gather(train: Dataset, test: Dataset | None = None, *, scaling: str = "none") -> Material:
    """Prepare a training part, and a test part in the same way.

    Parameters
    ----------
    train, test
        As read. Relevance that is real-valued is rounded to grades.
    scaling
        none, query, global, which is fitted on the training part, or online, fitted on the way.
    """
    prepared = preparation(train, scaling)
    return Material(prepared.apply(train), None if test is None else prepared.apply(test), prepared)


class Summary(NamedTuple):
    """What a learner came to, means and standard deviations (NaN for a single run) over runs.

    Quality is the mean of the measure over the rounds that it counts: of all rounds, of the last tenth, and of the
    final weights on the test part. Regret is in the surrogate; its true value is up to `gap` higher.
    """

    learner: str
    quality: float
    quality_sd: float
    late: float
    late_sd: float
    held_out: float | None
    held_out_sd: float | None
    explored: float  # share of rounds
    regret: float | None
    regret_sd: float | None
    gap: float | None
    finite: int  # runs whose weights did not diverge
    rounds_per_second: float  # of one thread, for all learners together


class Outcome(NamedTuple):
    """The curves of all runs: a row for each learner, run and number of rounds."""

    training: Training
    source: str
    at: Ints
    curves: pl.DataFrame

    def qualities(self, learner: str) -> Floats:
        """Mean quality of the first t rounds, one row for each run; NaN before the first that counts."""
        return _ratio(self._table(learner, "value"), self._table(learner, "counted"))

    def held_out(self, learner: str) -> Floats:
        """Quality of the final weights on the test part, for each run; NaN where there is none."""
        return self._table(learner, "held_out")[:, -1]

    def summaries(self) -> list[Summary]:
        """One for each learner, in the order given."""
        return [self._summary(learner) for learner in self.training.learners]

    def _table(self, learner: str, column: str) -> Floats:
        rows = self.curves.filter(pl.col("learner") == learner)
        table: Floats = rows[column].cast(pl.Float64).to_numpy().reshape(-1, len(self.at))
        return table

    def _summary(self, learner: str) -> Summary:
        T, count = self.training.rounds, len(self.training.learners)
        values, counted = self._table(learner, "value"), self._table(learner, "counted")
        early = np.flatnonzero(self.at <= _LATE * T)
        before = (values[:, early[-1]], counted[:, early[-1]]) if len(early) else (0.0, 0.0)
        late = _ratio(values[:, -1] - before[0], counted[:, -1] - before[1])
        ends = {name: self._table(learner, name)[:, -1] for name in (*_ENDS, "explored")}
        known = {name: None if np.isnan(ends[name]).all() else ends[name] for name in ("held_out", "loss")}
        held_out, held_out_sd = _mean_and_sd(known["held_out"])
        regret, regret_sd = _mean_and_sd(None if known["loss"] is None else ends["loss"] - ends["best"])
        gap = None if known["loss"] is None else float(np.nanmax(ends["gap"]))
        return Summary(
            learner,
            *_mean_and_sd(self.qualities(learner)[:, -1]),
            *_mean_and_sd(late),
            held_out,
            held_out_sd,
            float(ends["explored"].mean()) / T,
            regret,
            regret_sd,
            gap,
            int(ends["finite"].sum()),
            count * T / float(np.median(ends["seconds"])),
        )


def _ratio(value: Floats, counted: Floats) -> Floats:
    return np.where(counted > 0, value / np.maximum(counted, 1), np.nan)


def _mean_and_sd(values: Floats | None) -> tuple[Any, Any]:
    """Over the runs that have a value: one that diverged has none."""
    if values is None:
        return None, None
    there = values[~np.isnan(values)]
    mean = float(there.mean()) if len(there) else float("nan")
    return mean, float(there.std(ddof=1)) if len(there) > 1 else float("nan")


def compile_kernels(training: Training, material: Material) -> None:
    """Compile the loop of each learner, once for each process, so that no run is slowed down by it."""
    lists = _Lists(material.train.rounds(), np.zeros(1, np.int64), material.preparation)
    with interrupt_later():
        _play(training, lists, training.learner_seed(0), np.ones(1, np.int64))


def learn(
    training: Training,
    material: Material,
    folder: Path,
    *,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> Outcome:
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
        Where its files are, or will be: manifest.json, runs, models, curves.parquet, summary.csv.
    workers
        Number of threads.
    progress
        Called from the threads with numbers of rounds done.
    """
    engine = Threads(workers)
    longest, d = int(np.diff(material.train.offsets).max()), material.preparation.features
    for learner in training.make_learners():
        learner.init(problem_shape(learner, m=longest, k=training.k, d=d))
    manifest = _claim(training, material, folder)
    at = checkpoints(training.rounds)
    missing = [run for run in range(training.runs) if not _finished(training, folder, run, at)]
    progress(rounds_of(training) // training.runs * (training.runs - len(missing)))
    if missing:
        compile_kernels(training, material)

        def keep(run: int, done: _Done) -> None:
            check_same(folder, "training", manifest, _DATA)
            for name, model in zip(training.model_names(), done.models, strict=True):
                if model is None:
                    model_file(folder, name, run).unlink(missing_ok=True)
                else:
                    save_model(model, model_file(folder, name, run))
            write_whole(_file(folder, run), done.curves.write_parquet)

        compute = partial(_run_once, training, material)
        engine.do_all(missing, compute, keep, progress, lambda run: f"run {run} of {training}")
    outcome = read(folder)
    write_whole(folder / "curves.parquet", outcome.curves.write_parquet)
    summary = pl.DataFrame(outcome.summaries(), {name: _type(name) for name in Summary._fields}, orient="row")
    write_whole(folder / "summary.csv", summary.write_csv)
    return outcome


def read(folder: Path) -> Outcome:
    """Read a finished training."""
    manifest = manifest_of(folder, "training")
    try:
        training, source = Training(**manifest["training"]), str(manifest["data"]["source"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'manifest.json'} does not describe a training: {error}") from None
    at = checkpoints(training.rounds)
    frames = [_read_run(training, folder, run, at) for run in range(training.runs)]
    return Outcome(training, source, at, pl.concat(frames))


def rounds_of(training: Training) -> int:
    """Rounds of all learners in all runs, those that are repeated for the sake of regret counted twice."""
    return training.runs * training.rounds * (len(training.learners) + len(training.replayed()))


def model_file(folder: Path, name: str, run: int) -> Path:
    """Where the model of a learner, by its plain name, and a run is."""
    return folder / "models" / f"{name}-{run}.json"


class _Lists(NamedTuple):
    """The lists of a run, the one that each round shows, and how other data become like the last ones."""

    rounds: Rounds
    sequence: Ints
    preparation: Preparation


def _lists(training: Training, material: Material, run: int) -> _Lists:
    train, prepared = material.train, material.preparation
    sequence = training.sequence(run, len(train.queries))
    if prepared.scaling != "online":
        return _Lists(train.rounds(), sequence, prepared)
    rounds, shown, fitted = standardise_online(train, sequence)
    seen = min(len(sequence), len(train.queries))
    origin = f"{fitted.fitted_on}, {seen} queries in the order of seed {training.seed}, run {run}"
    fitted = fitted._replace(fitted_on=origin)
    return _Lists(rounds, shown, prepared._replace(fitted_on=origin, standardisation=fitted))


class _Played(NamedTuple):
    agents: list[Agent]
    curves: list[pl.DataFrame]
    seconds: float


def _play(
    training: Training,
    lists: _Lists,
    seed: np.random.SeedSequence,
    at: Ints,
    progress: Callable[[int], None] = lambda _: None,
) -> _Played:
    """Let fresh agents of all learners go over a sequence of queries, in turns."""
    rounds, sequence, _ = lists
    measure = training.make_measure()
    m, d = int(np.diff(rounds.offsets).max()), rounds.features.shape[1]
    agents = [Agent(learner, m=m, k=training.k, d=d, seed=seed) for learner in training.make_learners()]
    began = time.perf_counter()
    traces = drive(
        agents, rounds, measure=measure, sequence=sequence, at=at, progress=lambda n: progress(n * len(agents))
    )
    seconds = time.perf_counter() - began
    any_order = np.concatenate([np.arange(n) for n in np.diff(rounds.offsets)])
    counts = ~np.isnan(values_of_lists(measure, any_order, rounds.relevance, rounds.offsets))
    counted = np.cumsum(counts[sequence])[at - 1]
    return _Played(agents, [pl.DataFrame({**t._asdict(), "counted": counted}, _CURVE) for t in traces], seconds)


class _Done(NamedTuple):
    """The curves of all learners in a run, and their models; None for one without finite weights."""

    curves: pl.DataFrame
    models: list[Model | None]


def _run_once(training: Training, material: Material, run: int, progress: Tick) -> Iterator[_Done]:
    lists, seed = _lists(training, material, run), training.learner_seed(run)
    played = _play(training, lists, seed, checkpoints(training.rounds), progress)
    regrets = _Regrets(training, lists, seed)
    frames, models = [], []
    for text, agent, curve in zip(training.learners, played.agents, played.curves, strict=True):
        learner, finite, model = agent.learner, not agent.trouble(), None
        if isinstance(learner, Weighted) and finite:
            train = material.train.about
            model = Model(
                learner.weights(agent.state).copy(), lists.preparation, text_of(learner), training.k,
                training.measure, training.rounds, training.seed, run, train.source,
                train.digest or _digest(material.train),
            )  # fmt: skip
        loss, best = regrets.of(learner, progress) if training.regret and finite else (None, None)
        ends = {
            "seconds": played.seconds,
            "finite": finite,
            "held_out": _held_out(training, material.test, agent, model, seed) if finite else None,
            "loss": loss,
            "best": best and best.loss,
            "gap": best and best.gap,
        }
        columns = [pl.lit(run, pl.Int64).alias("run"), pl.lit(text).alias("learner"), *map(pl.col, _CURVE)]
        frames.append(curve.select(*columns, *(pl.lit(ends[n], _ENDS[n]).alias(n) for n in _ENDS)))
        models.append(model)
    yield _Done(pl.concat(frames), models)


def _held_out(
    training: Training, test: Dataset | None, agent: Agent, model: Model | None, seed: np.random.SeedSequence
) -> float | None:
    """Quality of the final weights on the test part, or of what a learner without weights shows there."""
    if test is None:
        return None
    measure = training.make_measure()
    if model is not None:
        return model.rank(test).quality(measure)
    m = int(np.diff(test.offsets).max())
    fresh = Agent(agent.learner, m=m, k=min(training.k, m), d=agent.shape.d, seed=seed)
    rankings = [
        fresh.rank(test.features[a:b]).ranking for a, b in zip(test.offsets, test.offsets[1:], strict=False)
    ]
    return Ranked(test, np.concatenate(rankings), np.empty(0)).quality(measure)


class _Regrets:
    """What learners lost in their surrogates in a run; the best weights are sought once for each surrogate."""

    def __init__(self, training: Training, lists: _Lists, seed: np.random.SeedSequence) -> None:
        self.rounds, self.sequence, self.seed, self.k = lists.rounds, lists.sequence, seed, training.k
        self.counts = np.bincount(lists.sequence, minlength=len(lists.rounds.offsets) - 1)
        self.best: dict[tuple[str, float | None], Best] = {}

    def of(self, learner: Learner, progress: Callable[[int], None]) -> tuple[float | None, Best | None]:
        if not isinstance(learner, RTopKF) or not learner.surrogate.convex:
            return None, None
        loss = loss_along(learner, self.rounds, self.sequence, k=self.k, seed=self.seed, progress=progress)
        problem = (str(learner.surrogate), learner.radius)
        if problem not in self.best:
            self.best[problem] = best_fixed(learner.surrogate, self.rounds, self.counts, learner.radius)
        return loss, self.best[problem]


def _type(name: str) -> Any:
    return {"learner": pl.String, "finite": pl.Int64}.get(name, pl.Float64)


def _file(folder: Path, run: int) -> Path:
    return folder / "runs" / f"{run:04d}.parquet"


def _finished(training: Training, folder: Path, run: int, at: Ints) -> bool:
    """Whether the file of a run is there, and the models that it speaks of."""
    if not _file(folder, run).exists():
        return False
    finite = dict(_read_run(training, folder, run, at).select("learner", "finite").unique().iter_rows())
    named = zip(training.learners, training.model_names(), training.make_learners(), strict=True)
    return all(
        model_file(folder, name, run).exists()
        for text, name, learner in named
        if isinstance(learner, RTopKF) and finite[text]
    )


def _read_run(training: Training, folder: Path, run: int, at: Ints) -> pl.DataFrame:
    path, again = _file(folder, run), "remove it to have that run done again"
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: the training is not finished") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {again}") from None
    if (
        dict(frame.schema) != _COLUMNS
        or frame["run"].unique().to_list() != [run]
        or frame["learner"].to_list() != [text for text in training.learners for _ in at]
        or not np.array_equal(frame["at"].to_numpy(), np.tile(at, len(training.learners)))
    ):
        raise ValueError(f"{path} does not belong to this training; {again}")
    return frame


def _claim(training: Training, material: Material, folder: Path) -> dict[str, Any]:
    about = {
        "training": asdict(training),
        "data": _describe(material.train, material.preparation.scaling),
        "own": origins(*training.make_learners(), training.make_measure()),
        "test": None if material.test is None else _describe(material.test, material.preparation.scaling),
        "seeds": "SeedSequence(seed, spawn_key=(run, 0)) orders the queries, (run, 1) is the learners'",
    }
    begun = finished(folder) > 0
    manifest = claim(folder, "training", about, begun=begun, parts=_DATA)
    if not begun:
        for model in (folder / "models").glob("*.json"):  # of a run that was never finished
            model.unlink()
    return manifest


def _describe(data: Dataset, scaling: str) -> dict[str, Any]:
    """What determines the content of a data set, as it is shown: online scaling is still to come."""
    about = {name: value for name, value in asdict(data.about).items() if name != "oddities"}
    sizes = {"queries": len(data.queries), "documents": len(data.features), "features": data.features.shape[1]}
    return {**about, "scaling": scaling, "content": _digest(data), **sizes}


def _digest(data: Dataset) -> str:
    """Of the arrays, whatever they say they were read from."""
    digest = hashlib.sha256()
    for array in (data.features, data.relevance, data.offsets):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
