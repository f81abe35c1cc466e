"""Training of mixed on judged documents, from the scores of another ranker if there are any."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from peekrank.data.dataset import Dataset
from peekrank.data.tables import columns_of
from peekrank.engine import Agent, run_agents
from peekrank.engine.scoring import values_of_lists
from peekrank.learners.mixed.learner import Mixed
from peekrank.measures import DCG
from peekrank.registry import LEARNERS
from peekrank.spec import parse, suggest
from peekrank.types import Features, Floats, Ints, Learner, Measure, Rounds

_NEW = (
    1024  # the first numbers of items: no document of the training part has them, so they stand for new documents
)


def is_mixed(learner: str) -> bool:
    """Return whether a specification is one of mixed."""
    return learner.partition(":")[0] == Mixed.name


def column_of(base: object, X: Any) -> int | None:
    """Return which column of X holds the scores, or None if a ranker computes them.

    >>> column_of("bm25", {"length": [3, 5], "bm25": [0.5, 0.1]}), column_of(-1, [[3, 0.5], [5, 0.1]])
    (1, 1)
    """
    if hasattr(base, "predict") and not isinstance(base, type):
        return None
    names = columns_of(X)
    if isinstance(base, str):
        if names is None or base not in names:
            hint = suggest(base, names) if names else "X has no names of columns; give its number"
            raise ValueError(f"base_score = {base!r}: X has no such column; {hint}")
        return list(names).index(base)
    if isinstance(base, bool) or not isinstance(base, int | np.integer):
        raise TypeError(f"base_score = {base!r}: must be a column of X, or a fitted ranker with predict")
    width = len(names) if names is not None else np.shape(X)[1]
    if not -width <= base < width:
        raise ValueError(f"base_score = {base}: X has {width} columns, which count from 0")
    return int(base) % width


def split_scores(base: Any, X: Any, data: Dataset, order: Ints) -> tuple[Features, Floats | None]:
    """Return the features without the column of scores, and the scores in the order of the data.

    Parameters
    ----------
    base
        A column of X, a fitted ranker, or None for no scores.
    X, data
        The table, and the data set made from it.
    order
        The row of X of each document of the data set.
    """
    if base is None:
        return data.features, None
    column, features = column_of(base, X), data.features
    if column is None:
        scores = np.asarray(base.predict(X), np.float64)
        if scores.shape != (len(features),):
            raise ValueError(f"predict of base_score returned shape {scores.shape}: must be ({len(features)},)")
        return features, scores[order]
    names = columns_of(X)
    values = np.asarray(X)[:, column] if names is None else list(names.values())[column]
    return np.ascontiguousarray(np.delete(features, column, axis=1)), values.astype(np.float64)[order]


def train(
    learner: str, lists: tuple[Dataset, Features, Floats | None], k: int, sequence: Ints, seed: Any
) -> Agent:
    """Train mixed on graded lists (the data, their features and scores), with an item for each document.

    Answers range up to the largest grade, unless the specification sets ``high``.
    """
    agent = agent_for(learner, lists, k, seed)
    data, features, scores = lists
    rounds = data.rounds()._replace(features=features, items=_items(len(features)), scores=scores)
    run_agents([agent], rounds, measure=DCG(), sequence=sequence, checkpoints=np.array([len(sequence)]))
    return agent


def agent_for(learner: str, lists: tuple[Dataset, Features, Floats | None], k: int, seed: Any) -> Agent:
    """Make an agent for lists, whose largest grade is that of answers unless the specification says another."""
    data, features, _ = lists
    made = parse("learner", {Mixed.name: LEARNERS[Mixed.name]}, learner, high=max(1, int(data.relevance.max())))
    return make_agent(made, len(features), features.shape[1], k, seed)


def make_agent(learner: Learner, documents: int, d: int, k: int, seed: Any) -> Agent:
    """Make an agent with numbers for new documents and for those that it learns from."""
    return Agent(learner, m=_NEW + documents, k=k, d=d, seed=seed)


def _items(documents: int) -> Ints:
    """Return the numbers of the documents to learn from."""
    return np.arange(_NEW, _NEW + documents)


def score_column(data: Dataset, name: str) -> int:
    """Return the index of the feature that a name, or a number in files without names, stands for.

    Raises ValueError if there is none.
    """
    about, width = data.about, data.features.shape[1]
    if about.columns:
        if name not in about.feature_names:
            hint = suggest(name, about.feature_names)
            raise ValueError(f"score = {name}: {about.source} has no such feature; {hint}")
        return about.feature_names.index(name)
    if not name.isdecimal() or not 0 <= int(name) - about.base < width:
        last = about.base + width - 1
        raise ValueError(f"score = {name}: the features of {about.source} are numbers from {about.base} to {last}")
    return int(name) - about.base


def without_column(features: Features, column: int | None) -> tuple[Features, Floats | None]:
    """Return the features without the column of scores, and the scores."""
    if column is None:
        return features, None
    return np.ascontiguousarray(np.delete(features, column, axis=1)), features[:, column].astype(np.float64)


def with_scores(rounds: Rounds, column: int | None) -> Rounds:
    """Return rounds with the scores in their place, and an item for each document."""
    features, scores = without_column(rounds.features, column)
    return rounds._replace(features=features, items=_items(len(features)), scores=scores)


def quality_alone(data: Dataset, column: int, measure: Measure) -> float:
    """Return the mean value of the lists in the order of the scores, over those that the measure does not skip."""
    scores = data.features[:, column]
    rankings = [np.argsort(-scores[first:last], kind="stable") for first, last in pairwise(data.offsets)]
    values = values_of_lists(measure, np.concatenate(rankings), data.relevance, data.offsets)
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def train_once(agent: Agent, lists: tuple[Dataset, Features, Floats | None], first: int) -> None:
    """Continue training with one round for each list. The documents are items from number `first` on."""
    data, features, scores = lists
    for begin, end in pairwise(data.offsets):
        decision = agent.rank(
            features[begin:end] if features.shape[1] else None,
            available=np.arange(first + begin, first + end),
            scores=None if scores is None else scores[begin:end],
        )
        shown = decision.ranking[: agent.shape.k] - first
        agent.update(decision, data.relevance[shown])


def predict(agent: Agent, features: Features, offsets: Ints, scores: Floats | None) -> Floats:
    """Return the mean gain of each document, as of a new one."""
    learner, state, means = agent.learner, agent.state, np.empty(len(features))
    if features.shape[1] != agent.shape.d:
        raise ValueError(f"{features.shape[1]} features: must be {agent.shape.d}, as in training")
    for first, last in pairwise(offsets):
        for begin in range(first, last, _NEW):
            rows = slice(begin, min(last, begin + _NEW))
            means[rows] = learner.scores(state, features[rows])
        if scores is not None and isinstance(learner, Mixed):
            means[first:last] += learner.gains_from_scores(state, scores[first:last])
    return means
