"""Training of mixed on judged documents, from the scores of another ranker if there are any."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from peekrank.data.dataset import Dataset
from peekrank.data.tables import columns_of
from peekrank.engine import Agent, run_agents
from peekrank.learners.mixed.learner import Mixed
from peekrank.measures import DCG
from peekrank.registry import LEARNERS
from peekrank.spec import parse, suggest
from peekrank.types import Features, Floats, Ints

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
    agent = make_agent(learner, lists, k, seed)
    data, features, scores = lists
    items = np.arange(_NEW, agent.shape.m)
    rounds = data.rounds()._replace(features=features, items=items, scores=scores)
    run_agents([agent], rounds, measure=DCG(), sequence=sequence, checkpoints=np.array([len(sequence)]))
    return agent


def make_agent(learner: str, lists: tuple[Dataset, Features, Floats | None], k: int, seed: Any) -> Agent:
    """Make an agent with numbers for new documents and for those of the lists."""
    data, features, _ = lists
    made = parse("learner", {Mixed.name: LEARNERS[Mixed.name]}, learner, high=max(1, int(data.relevance.max())))
    return Agent(made, m=_NEW + len(features), k=k, d=features.shape[1], seed=seed)


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
    for first, last in pairwise(offsets):
        for begin in range(first, last, _NEW):
            rows = slice(begin, min(last, begin + _NEW))
            means[rows] = learner.scores(state, features[rows])
        if scores is not None and isinstance(learner, Mixed):
            means[first:last] += learner.gains_from_scores(state, scores[first:last])
    return means
