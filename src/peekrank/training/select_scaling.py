"""Which scaling suits a training part: by what its features are like and, where tails are heavy, by a trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np

from peekrank.data.columns import counted_features, look_at_columns
from peekrank.data.dataset import Dataset
from peekrank.engine import Agent
from peekrank.training.model import preparation
from peekrank.training.playing import Lists, play
from peekrank.training.training import Training
from peekrank.types import Floats, Rounds

_USUAL, _OTHERS = "robust", ("query", "global")
_RUNS, _ROUNDS = 3, 2_000  # of learning in a trial
_ANSWERS = 4_000  # for each run, that judge what was learned
_DEPTH = 10
_CLEAR = 2.0  # standard errors


class Choice(NamedTuple):
    """A scaling, and the reason in a sentence."""

    scaling: str
    why: str


def choose_scaling(train: Dataset, training: Training) -> Choice:
    """Choose by the features, and where some have heavy tails by a trial of the learners.

    Features without heavy tails are standardised (global), which costs nothing where they are alike. Heavy tails
    can be noise, or the very thing that counts, and features alone do not tell which. So the learners learn for
    three times 2,000 rounds with each of robust, query and global scaling, and are judged each time by the answers
    for 4,000 documents drawn at random: for one of a list of n, ``n (2^r - 1) / log2(1 + place)`` estimates DCG@10
    without bias. Robust scaling is used unless another is better by two standard errors. None of this counts as
    rounds of the training, and no answers are used but those.

    >>> from peekrank.data.generated import Layout, make_dataset
    >>> layout = Layout(queries=60, documents=(2, 12), features=6, shares=(0.6, 0.3, 0.1))
    >>> data = make_dataset(layout, np.random.default_rng(1))
    >>> choose_scaling(data, Training(("ridge",), rounds=1000))
    Choice(scaling='global', why='no feature has heavy tails')
    >>> data.features[:, 0] = np.exp(10 * data.features[:, 0])
    >>> choose_scaling(data, Training(("ridge",), rounds=1000)).scaling
    'robust'

    Parameters
    ----------
    train
        The training part, as read; one that came scaled is left as it is.
    training
        Learners, k and seed of a trial, which has no more rounds than the training itself.
    """
    if train.about.scaling != "none":
        return Choice("none", f"the file came scaled, {train.about.scaling}")
    columns = look_at_columns(train.features)
    heavy, wild = columns.heavy_tailed(), columns.of_another_scale()
    about = train.about.base, train.features.shape[1]
    if len(heavy):
        scaling, why = _by_trial(train, training)
        return Choice(scaling, f"{counted_features(heavy, *about, 'have heavy tails')}, and {why}")
    if len(wild):
        return Choice("global", counted_features(wild, *about, "are of another scale than the rest"))
    return Choice("global", "no feature has heavy tails")


def _by_trial(train: Dataset, training: Training) -> Choice:
    trial = replace(training, rounds=min(_ROUNDS, training.rounds), regret=False)
    found = {scaling: _estimates(trial, train, scaling) for scaling in (_USUAL, *_OTHERS)}
    better = {scaling: _standard_errors(found[scaling] - found[_USUAL]) for scaling in _OTHERS}
    best = max(_OTHERS, key=lambda scaling: better[scaling])
    values = ", ".join(f"{scaling} {estimates.mean():.3g}" for scaling, estimates in found.items())
    clear = better[best] > _CLEAR
    why = f"after a trial DCG@{_DEPTH} was about: {values}"
    return Choice(best if clear else _USUAL, why if clear else f"{why}, none clearly better than {_USUAL}")


def _standard_errors(differences: Floats) -> float:
    """How many standard errors a mean is above 0."""
    spread = float(differences.std(ddof=1))
    return float(differences.mean()) * sqrt(len(differences)) / spread if spread > 0 else 0.0


def _estimates(trial: Training, train: Dataset, scaling: str) -> Floats:
    """Estimates of DCG@10 of what was learned in several runs, for the same documents whatever the scaling."""
    runs = range(trial.runs, trial.runs + _RUNS)  # those after the last that the training itself plays
    return np.concatenate([_estimates_of_run(trial, train, scaling, run) for run in runs])


def _estimates_of_run(trial: Training, train: Dataset, scaling: str, run: int) -> Floats:
    shown, sequence = np.unique(trial.sequence(run, len(train.queries)), return_inverse=True)
    part = train.select(shown)
    prepared = preparation(part, scaling)
    lists = Lists(prepared.apply(part).rounds(), sequence, prepared)
    rounds, seed = lists.rounds, trial.learner_seed(run)
    played = play(trial, lists, seed, np.array([trial.rounds]))
    rng, lengths = np.random.default_rng(seed), np.diff(rounds.offsets)
    asked = rng.integers(len(lengths), size=_ANSWERS)
    documents = rounds.offsets[asked] + rng.integers(lengths[asked])
    gains = lengths[asked] * (2.0 ** rounds.relevance[documents] - 1)
    discounts = [_discounts(agent, rounds)[documents] for agent in played.agents]
    return np.asarray(gains * np.mean(discounts, axis=0))


def _discounts(agent: Agent, rounds: Rounds) -> Floats:
    """What the place of each document counts, in the order that is best as far as the learner knows."""
    discounts = np.zeros(rounds.offsets[-1])
    for first, last in pairwise(rounds.offsets):
        best = first + agent.order(rounds.features[first:last])[:_DEPTH]
        discounts[best] = 1 / np.log2(2.0 + np.arange(len(best)))
    return discounts
