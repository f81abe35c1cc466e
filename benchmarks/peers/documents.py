"""Task with lists of documents with features; the first document gets feedback."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
from peers.playing import (
    COMPILED,
    EPSILON,
    TESTED,
    WHOLE,
    Contestant,
    Ours,
    Task,
    Wabbit,
    compiled,
    descending,
    drawn,
    numbers,
    stepwise,
)

from peekrank import Ridge, RTopKF
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.engine import make_rng
from peekrank.types import Features, Ints, Rounds

DOCUMENTS = DatasetShape(2000 + TESTED, (20, 20), 46, (0.8, 0.13, 0.07))


def documents(seed: int) -> Task:
    """Make lists that occur once, with relevance that is linear in the features plus noise, and test lists."""
    rounds = make_dataset(DOCUMENTS, drawn(seed)).rounds()
    queries, m, d = DOCUMENTS.queries - TESTED, DOCUMENTS.documents[1], DOCUMENTS.features
    rows = queries * m
    learned = Rounds(rounds.features[:rows], rounds.relevance[:rows], rounds.offsets[: queries + 1])
    tests, worth = rounds.features[rows:].reshape(-1, m, d), rounds.relevance[rows:].reshape(-1, m)
    title = f"lists of {m} documents with {d} features, {queries:,} rounds, the first document is seen"
    return Task(title, learned, m, 1, tests, worth.astype(float), np.empty((queries + TESTED, 0)))


class RiverRegression:
    """A regression of relevance with river that explores at random."""

    def __init__(self, task: Task, seed: int) -> None:
        from river import linear_model, preprocessing

        self.model = preprocessing.StandardScaler() | linear_model.LinearRegression()
        self.rng = make_rng(seed)
        self.lists, self.tests = (self._named(lists) for lists in (task.lists, task.tests))

    @staticmethod
    def _named(lists: Features) -> list[list[dict[int, float]]]:
        return [[dict(enumerate(x)) for x in X] for X in lists.tolist()]

    def choose(self, t: int) -> Sequence[int]:
        X = self.lists[t]
        if self.rng.random() < EPSILON:
            return (int(self.rng.integers(len(X))),)
        worth = [self.model.predict_one(x) for x in X]
        return (worth.index(max(worth)),)

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        self.model.learn_one(self.lists[t][seen[0]], told[0])

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        return descending(np.array([[self.model.predict_one(x) for x in X] for X in self.tests]))


class WabbitOne(Wabbit):
    def __init__(self, task: Task, seed: int) -> None:
        super().__init__(f"--cb_explore_adf --epsilon {EPSILON}", seed)
        self.rng = make_rng(seed)
        self.lists, self.tests = (self._texts(lists) for lists in (task.lists, task.tests))

    @staticmethod
    def _texts(lists: Features) -> list[list[str]]:
        return [["| " + numbers(x) for x in X] for X in lists.tolist()]

    def choose(self, t: int) -> Sequence[int]:
        self.probabilities = self.model.predict(self.lists[t])
        return (int(np.searchsorted(np.cumsum(self.probabilities), self.rng.random() * sum(self.probabilities))),)

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        texts, item = self.lists[t].copy(), seen[0]
        texts[item] = f"0:{-told[0]}:{self.probabilities[item]:.6g} {texts[item]}"
        self.model.learn(texts)

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        def best(texts: list[str], left: list[int]) -> int:
            return int(np.argmax(self.model.predict([texts[i] for i in left])))

        return np.array([self.in_turn(len(texts), partial(best, texts)) for texts in self.tests])


def of_documents() -> list[Contestant]:
    found = [
        Contestant("peekrank, rtopkf", WHOLE, stepwise(partial(Ours, RTopKF()))),
        Contestant("peekrank, rtopkf, simulated", COMPILED, compiled(RTopKF())),
        Contestant("peekrank, ridge", WHOLE, stepwise(partial(Ours, Ridge()))),
        Contestant("peekrank, ridge, simulated", COMPILED, compiled(Ridge())),
    ]
    if find_spec("vowpalwabbit"):
        differs = "picks one document; reads text; the order is by asking for the best, then the best of the rest"
        found.append(Contestant("Vowpal Wabbit, cb_explore_adf", differs, stepwise(WabbitOne)))
    if find_spec("river"):
        differs = "picks one document; a regression with exploring put around it here, as river has no such bandit"
        found.append(Contestant("river, StandardScaler | LinearRegression", differs, stepwise(RiverRegression)))
    return found
