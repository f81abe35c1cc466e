"""One run of a training, computed in memory. It depends only on the training, the data and the run's number."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from peekrank._util.extras import extra
from peekrank._util.signals import interrupt_later
from peekrank.data.dataset import Dataset
from peekrank.data.scaling import standardise_online
from peekrank.engine import Agent, run_agents
from peekrank.engine.scoring import values_of_lists
from peekrank.learners.mixed.learner import Mixed
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.regret import default_checkpoints
from peekrank.spec import format_spec
from peekrank.training import base_scores
from peekrank.training.hindsight import Best, best_fixed, loss_along
from peekrank.training.model import Model, Preprocessor, Ranked
from peekrank.training.training import Training, TrainTest
from peekrank.types import Ints, Learner, LinearScorer, Rounds, Trace, linear_in_features

with extra("cli"):
    import polars as pl

if TYPE_CHECKING:
    from peekrank.jobs.executor import Tick

_CURVE = {"checkpoints": pl.Int64, "value": pl.Float64, "counted": pl.Int64, "explored": pl.Int64}
ENDS = {
    "finite": pl.Boolean, "held_out": pl.Float64, "loss": pl.Float64, "best": pl.Float64, "gap": pl.Float64,
}  # fmt: skip
COLUMNS = {"run": pl.Int64, "learner": pl.String, **_CURVE, **ENDS}


def compile_kernels(training: Training, data: TrainTest) -> None:
    """Compile the loop of each learner before the first run, so that timings exclude it."""
    lists = Lists(data.train.rounds(), np.zeros(1, np.int64), data.preparation)
    with interrupt_later():
        run_learners(training, lists, training.learner_seed(0), np.ones(1, np.int64))


class Lists(NamedTuple):
    """The lists of a run, the list of each round, and the preprocessing after the last round."""

    rounds: Rounds
    sequence: Ints
    preparation: Preprocessor


def make_lists(training: Training, data: TrainTest, run: int) -> Lists:
    """Make the lists of a run."""
    train, prepared = data.train, data.preparation
    sequence = training.sequence(run, len(train.queries))
    if prepared.scaling != "online":
        return Lists(train.rounds(), sequence, prepared)
    rounds, lists, fitted = standardise_online(train, sequence)
    n_queries = min(len(sequence), len(train.queries))
    origin = f"{fitted.fitted_on}, {n_queries} queries in the order of seed {training.seed}, run {run}"
    fitted = fitted._replace(fitted_on=origin)
    return Lists(rounds, lists, prepared._replace(fitted_on=origin, standardisation=fitted))


class Trained(NamedTuple):
    """The agents after their last round, a curve for each, and the total duration."""

    agents: list[Agent]
    curves: list[pl.DataFrame]
    seconds: float


def fresh_agents(training: Training, rounds: Rounds, seed: np.random.SeedSequence) -> list[Agent]:
    """Make agents of all learners before their first round."""
    m, d, made = int(np.diff(rounds.offsets).max()), rounds.features.shape[1], []
    for learner in training.make_learners(max(1, int(rounds.relevance.max()))):
        if isinstance(learner, Mixed):
            without = d - (training.score is not None)
            made.append(base_scores.make_agent(learner, len(rounds.features), without, training.k, seed))
        else:
            made.append(Agent(learner, m=m, k=training.k, d=d, seed=seed))
    return made


def rounds_for(learner: Learner, training: Training, rounds: Rounds) -> Rounds:
    """Return the rounds of a learner: mixed takes one column for the app's score, and documents for items."""
    return base_scores.with_scores(rounds, training.score) if isinstance(learner, Mixed) else rounds


def run_learners(
    training: Training,
    lists: Lists,
    seed: np.random.SeedSequence,
    checkpoints: Ints,
    progress: Tick = lambda _: None,
) -> Trained:
    """Run new agents of all learners over a sequence of queries."""
    rounds, sequence, _ = lists
    measure, agents = training.make_measure(), fresh_agents(training, rounds, seed)
    start = time.perf_counter()
    traces: dict[int, Trace] = {}
    for by_item in (False, True):
        alike = [i for i, agent in enumerate(agents) if isinstance(agent.learner, Mixed) is by_item]
        if not alike:
            continue
        found = run_agents(
            [agents[i] for i in alike],
            rounds_for(agents[alike[0]].learner, training, rounds),
            measure=measure,
            sequence=sequence,
            checkpoints=checkpoints,
            progress=partial(_scaled, progress, len(alike)),
        )
        traces |= zip(alike, found, strict=True)
    seconds = time.perf_counter() - start
    any_order = np.concatenate([np.arange(n) for n in np.diff(rounds.offsets)])
    counts = ~np.isnan(values_of_lists(measure, any_order, rounds.relevance, rounds.offsets))
    counted = np.cumsum(counts[sequence])[checkpoints - 1]
    curves = [pl.DataFrame({**traces[i]._asdict(), "counted": counted}, _CURVE) for i in range(len(agents))]
    return Trained(agents, curves, seconds)


def _scaled(progress: Tick, factor: int, rounds: int) -> None:
    progress(factor * rounds)


class RunResult(NamedTuple):
    """The curves of all learners in a run, their models (None if the weights diverged), and its duration."""

    curves: pl.DataFrame
    models: list[Model | None]
    seconds: float


def play_run(training: Training, data: TrainTest, run: int, progress: Tick) -> Iterator[RunResult]:
    """Train all learners in a run, and make their models."""
    lists, seed = make_lists(training, data, run), training.learner_seed(run)
    trained = run_learners(training, lists, seed, default_checkpoints(training.rounds), progress)
    regrets = _Regrets(training, lists, seed)
    frames, models = [], []
    for text, agent, curve in zip(training.learners, trained.agents, trained.curves, strict=True):
        learner, finite, model = agent.learner, not agent.failure(), None
        if (learner.contextual or isinstance(learner, Mixed)) and finite:
            model = make_model(agent, lists.preparation, training, run, data.train)
        loss, best = regrets.compute(learner, progress) if training.regret and finite else (None, None)
        ends = {
            "finite": finite,
            "held_out": _held_out_quality(training, data.test, agent, model, seed) if finite else None,
            "loss": loss,
            "best": best and best.loss,
            "gap": best and best.gap,
        }
        columns = [pl.lit(run, pl.Int64).alias("run"), pl.lit(text).alias("learner"), *map(pl.col, _CURVE)]
        frames.append(curve.select(*columns, *(pl.lit(ends[n], ENDS[n]).alias(n) for n in ENDS)))
        models.append(model)
    yield RunResult(pl.concat(frames), models, trained.seconds)


def make_model(agent: Agent, prepared: Preprocessor, training: Training, run: int, train: Dataset) -> Model:
    """Make the model of an agent that was trained on a training part."""
    learner, weights = agent.learner, np.empty(0, np.float32)
    if isinstance(learner, LinearScorer) and linear_in_features(learner):
        weights = learner.weights(agent.state).copy()
    return Model(
        weights, prepared, format_spec(learner), training.k, training.measure, training.rounds, training.seed, run,
        train.about.source, train.about.digest or content_digest(train), agent.dump(),
        training.score if isinstance(learner, Mixed) else None,
    )  # fmt: skip


def _held_out_quality(
    training: Training, test: Dataset | None, agent: Agent, model: Model | None, seed: np.random.SeedSequence
) -> float | None:
    """Compute the quality on the test part of the model, or of the rankings of a learner without one."""
    if test is None:
        return None
    measure = training.make_measure()
    if model is not None:
        return model.rank(test).quality(measure)
    lists = [test.features[a:b] for a, b in pairwise(test.offsets)]
    m = int(np.diff(test.offsets).max())
    new_agent = Agent(agent.learner, m=m, k=min(training.k, m), d=agent.shape.d, seed=seed)
    rankings = [new_agent.rank(X).ranking for X in lists]
    return Ranked(test, np.concatenate(rankings), np.empty(0)).quality(measure)


class _Regrets:
    """The surrogate losses of a run. It computes the best weights once for each surrogate."""

    def __init__(self, training: Training, lists: Lists, seed: np.random.SeedSequence) -> None:
        self.rounds, self.sequence, self.seed, self.k = lists.rounds, lists.sequence, seed, training.k
        self.counts = np.bincount(lists.sequence, minlength=len(lists.rounds.offsets) - 1)
        self.best: dict[tuple[str, float | None], Best] = {}

    def compute(self, learner: Learner, progress: Tick) -> tuple[float | None, Best | None]:
        if not isinstance(learner, RTopKF) or not learner.surrogate.convex:
            return None, None
        loss = loss_along(learner, self.rounds, self.sequence, k=self.k, seed=self.seed, progress=progress)
        problem = (str(learner.surrogate), learner.radius)
        if problem not in self.best:
            self.best[problem] = best_fixed(learner.surrogate, self.rounds, self.counts, learner.radius)
        return loss, self.best[problem]


def content_digest(data: Dataset) -> str:
    """Compute the digest of the arrays of a data set, independent of its provenance."""
    digest = hashlib.sha256()
    for array in (data.features, data.relevance, data.offsets):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
