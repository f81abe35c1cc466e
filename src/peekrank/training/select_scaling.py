"""Automatic choice of the scaling, from the distribution of the features and, for heavy tails, from a trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np

from peekrank.data.dataset import Dataset
from peekrank.data.feature_stats import counted_features, feature_stats
from peekrank.engine import Agent
from peekrank.training.base_scores import is_mixed
from peekrank.training.model import preparation
from peekrank.training.run import Lists, run_learners
from peekrank.training.training import DEFAULT_LEARNER, Training
from peekrank.types import Floats, Rounds

_DEFAULT, _OTHERS = "robust", ("query", "global")
_RUNS, _ROUNDS = 3, 2_000  # of training in a trial
_SAMPLES = 4_000  # documents per run to evaluate a trial
_DEPTH = 10
_SIGNIFICANT = 2.0  # standard errors


class Choice(NamedTuple):
    """A scaling, and the reason for it in words."""

    scaling: str
    reason: str


def choose_scaling(train: Dataset, training: Training) -> Choice:
    """Choose a scaling from the features and, if some have heavy tails, from a trial of the learners.

    Features without heavy tails are standardised (global), which does no harm if they are on one scale already.
    Heavy tails can be noise or signal, and the features alone do not show which. So the trial trains the learners
    three times for 2,000 rounds with each of robust, query and global scaling. Each run is evaluated on 4,000
    random documents: for a document in a list of n, ``n (2^r - 1) / log2(1 + position)`` is an unbiased estimate
    of DCG@10. Robust scaling is used unless another one is better by two standard errors. The trial does not count
    as rounds of the training, and it uses no other grades.

    >>> from peekrank.data.generated import DatasetShape, make_dataset
    >>> shape = DatasetShape(queries=60, documents=(2, 12), features=6, shares=(0.6, 0.3, 0.1))
    >>> data = make_dataset(shape, np.random.default_rng(1))
    >>> choose_scaling(data, Training(("ridge",), rounds=1000))
    Choice(scaling='global', reason='no feature has heavy tails')
    >>> data.features[:, 0] = np.exp(10 * data.features[:, 0])
    >>> choose_scaling(data, Training(("ridge",), rounds=1000)).scaling
    'robust'

    Parameters
    ----------
    train
        The training part. If it is scaled already, the choice is none.
    training
        Learners, k and seed of the trial, which has at most as many rounds as the training itself. ridge stands in
        for mixed.
    """
    if train.about.scaling != "none":
        return Choice("none", f"the file is scaled already ({train.about.scaling})")
    stats = feature_stats(train.features)
    heavy, badly_scaled = stats.heavy_tailed(), stats.badly_scaled()
    about = train.about.feature, train.features.shape[1]
    if len(heavy):
        scaling, reason = _choose_by_trial(train, training)
        return Choice(scaling, f"{counted_features(heavy, *about, 'have heavy tails')}, and {reason}")
    if len(badly_scaled):
        return Choice("global", counted_features(badly_scaled, *about, "have a different scale from the rest"))
    return Choice("global", "no feature has heavy tails")


def _choose_by_trial(train: Dataset, training: Training) -> Choice:
    learners = tuple(text for text in training.learners if not is_mixed(text)) or (DEFAULT_LEARNER,)
    trial = replace(training, learners=learners, rounds=min(_ROUNDS, training.rounds), regret=False, score=None)
    estimates = {scaling: _estimate_dcg(trial, train, scaling) for scaling in (_DEFAULT, *_OTHERS)}
    better = {scaling: _standard_errors(estimates[scaling] - estimates[_DEFAULT]) for scaling in _OTHERS}
    best = max(_OTHERS, key=lambda scaling: better[scaling])
    values = ", ".join(f"{scaling} {sample.mean():.3g}" for scaling, sample in estimates.items())
    is_significant = better[best] > _SIGNIFICANT
    reason = f"a trial gave DCG@{_DEPTH} of about {values}"
    if is_significant:
        return Choice(best, reason)
    return Choice(_DEFAULT, f"{reason}, none significantly better than {_DEFAULT}")


def _standard_errors(differences: Floats) -> float:
    """Compute by how many standard errors a mean is above 0."""
    spread = float(differences.std(ddof=1))
    return float(differences.mean()) * sqrt(len(differences)) / spread if spread > 0 else 0.0


def _estimate_dcg(trial: Training, train: Dataset, scaling: str) -> Floats:
    """Estimate DCG@10 after training in several runs, on documents that do not depend on the scaling."""
    runs = range(trial.runs, trial.runs + _RUNS)  # after the last run of the training itself
    return np.concatenate([_estimate_dcg_in_run(trial, train, scaling, run) for run in runs])


def _estimate_dcg_in_run(trial: Training, train: Dataset, scaling: str, run: int) -> Floats:
    shown, sequence = np.unique(trial.sequence(run, len(train.queries)), return_inverse=True)
    part = train.select(shown)
    prepared = preparation(part, scaling)
    lists = Lists(prepared.apply(part).rounds(), sequence, prepared)
    rounds, seed = lists.rounds, trial.learner_seed(run)
    trained = run_learners(trial, lists, seed, np.array([trial.rounds]))
    rng, lengths = np.random.default_rng(seed), np.diff(rounds.offsets)
    sampled = rng.integers(len(lengths), size=_SAMPLES)
    documents = rounds.offsets[sampled] + rng.integers(lengths[sampled])
    gains = lengths[sampled] * (2.0 ** rounds.relevance[documents] - 1)
    discounts = [_discounts(agent, rounds)[documents] for agent in trained.agents]
    return np.asarray(gains * np.mean(discounts, axis=0))


def _discounts(agent: Agent, rounds: Rounds) -> Floats:
    """Compute the position discount of each document in the learner's best ranking."""
    discounts = np.zeros(rounds.offsets[-1])
    for first, last in pairwise(rounds.offsets):
        best = first + agent.best_ranking(rounds.features[first:last])[:_DEPTH]
        discounts[best] = 1 / np.log2(2.0 + np.arange(len(best)))
    return discounts
