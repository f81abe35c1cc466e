"""Tasks, and two ways to run them: step by step for any package, and by the compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple, Protocol

import numpy as np
from clock import timed

from peekrank import DCG, NDCG, Agent, evaluate
from peekrank.engine import run_agents
from peekrank.types import Features, Floats, Ints, Learner, Rounds

QUALITY = NDCG(10, gains="linear", no_relevant="skip")
ON_TOP = DCG(1, gains="linear")  # the relevance of the first item
EPSILON = 0.1
TESTED = 500  # lists

WHOLE = "shows a whole list, and its order is what counts"
COMPILED = "the same, the rounds being known before: a compiled loop, equal bit for bit"

Log = Sequence[tuple[Sequence[int], Sequence[int]]]  # what was seen and told, round by round


class Task(NamedTuple):
    """Rounds for training, and test lists for the final order."""

    title: str
    rounds: Rounds
    m: int
    k: int
    tests: Features  # lists x items x features
    worth: Floats  # lists x items: relevance, or its expectation where that is known
    users: Floats  # the user's features in each round, then for each test list; no columns where there are none

    @property
    def grades(self) -> list[list[int]]:
        table: list[list[int]] = self.rounds.relevance.reshape(-1, self.m).tolist()
        return table

    @property
    def lists(self) -> Features:
        return self.rounds.features.reshape(len(self.rounds.offsets) - 1, self.m, self.rounds.features.shape[1])


class Player(Protocol):
    def choose(self, t: int) -> Sequence[int]:
        """Return the items with feedback in round t, from the top."""

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None: ...

    def orders(self, log: Log) -> Ints:
        """Return the scores of the items of each test list, given the logged feedback."""


class Result(NamedTuple):
    seconds: float
    on_top: float
    quality: float


class Contestant(NamedTuple):
    name: str
    differs: str
    play: Callable[[Task, int], Result]


def drawn(seed: int) -> np.random.Generator:
    """Make the generator of a task, which differs from that of the players for the same seed."""
    return np.random.default_rng((seed, 1))


def stepwise(make: Callable[[Task, int], Player]) -> Callable[[Task, int], Result]:
    """Run one round after the other."""

    def play(task: Task, seed: int) -> Result:
        player, grades = make(task, seed), task.grades

        def learn() -> Log:
            log = []
            for t, row in enumerate(grades):
                seen = player.choose(t)
                told = [row[i] for i in seen]
                player.learn(t, seen, told)
                log.append((seen, told))
            return log

        took, log = timed(learn)
        return Result(took, float(np.mean([told[0] for _, told in log])), quality(task, player.orders(log)))

    return play


def compiled(learner: Learner) -> Callable[[Task, int], Result]:
    """Run the compiled loop like `simulate`, and keep the agent."""

    def play(task: Task, seed: int) -> Result:
        player, end = Ours(learner, task, seed), np.array([len(task.rounds.offsets) - 1])
        took, (trace,) = timed(partial(run_agents, [player.agent], task.rounds, measure=ON_TOP, checkpoints=end))
        return Result(took, float(trace.value[-1] / end[0]), quality(task, player.orders(())))

    return play


def quality(task: Task, orders: Ints) -> float:
    return float(np.nanmean(evaluate(QUALITY, orders, task.worth)))


def at_random(task: Task) -> float:
    """Measure the quality of random orders."""
    many = task._replace(worth=np.resize(task.worth, (TESTED, task.m)))
    return quality(many, descending(drawn(0).random(many.worth.shape)))


def descending(scores: Floats) -> Ints:
    return np.argsort(-scores, axis=-1, kind="stable")


class Ours:
    def __init__(self, learner: Learner, task: Task, seed: int) -> None:
        d = task.lists.shape[2]
        self.lists: Sequence[Features | None] = list(task.lists) if d else [None] * len(task.lists)
        self.tests, self.k = task.tests, task.k
        self.agent = Agent(learner, m=task.m, k=task.k, d=d, seed=seed)

    def choose(self, t: int) -> Sequence[int]:
        self.decision = self.agent.rank(self.lists[t])
        seen: list[int] = self.decision.ranking[: self.k].tolist()
        return seen

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:  # noqa: ARG002
        self.agent.update(self.decision, told)

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        learner, state = self.agent.learner, self.agent.state
        lists, m, d = self.tests.shape
        return descending(learner.scores(state, self.tests.reshape(lists * m, d)).reshape(lists, m))


def numbers(x: Sequence[float]) -> str:
    """Format features for Vowpal Wabbit."""
    return " ".join(f"{f}:{value:.6g}" for f, value in enumerate(x))


class Wabbit:
    """Vowpal Wabbit, which chooses its best item, then the best of the others, and so on."""

    def __init__(self, options: str, seed: int) -> None:
        self.model = import_module("vowpalwabbit").Workspace(f"{options} --quiet --random_seed {seed + 1}")

    def in_turn(self, m: int, best: Callable[[list[int]], int]) -> list[int]:
        """Return the items that QUALITY evaluates, then the others."""
        left = list(range(m))
        found = [left.pop(best(left)) for _ in range(min(m, QUALITY.cutoff or m))]
        return found + left
