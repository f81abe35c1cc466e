"""Task with fixed items; the first item gets feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from peers.playing import (
    COMPILED,
    EPSILON,
    WHOLE,
    Contestant,
    Log,
    Ours,
    Task,
    compiled,
    descending,
    drawn,
    stepwise,
)

from peekrank import DCG, BlockFTRL, DoubtSort, Greedy, MarginFTRL, RTop1F, Thompson
from peekrank.streams.synthetic import Bernoulli
from peekrank.types import Ints, Learner

BATCH = 100  # rounds that mabwiser learns from at a time, where it does
ITEMS, COINS = 10, 10_000
ONE_ARM = "picks one item; the order is by the means of what the items told"


def coins(seed: int) -> Task:
    """Make independent items with evenly spaced means in random order."""
    rng = drawn(seed)
    worth = rng.permutation(np.linspace(0.9, 0.1, ITEMS))
    rounds = Bernoulli(means=tuple(worth)).rounds(COINS, rng)
    nothing = np.empty((1, ITEMS, 0), np.float32)
    title = f"a fixed set of {ITEMS} items, {COINS:,} rounds, the first item is seen"
    return Task(title, rounds, ITEMS, 1, nothing, worth[None], np.empty((COINS + 1, 0)))


class Arms:
    """A bandit that shows one item per round. It is ranked by mean feedback; unseen items come last."""

    m: int

    def orders(self, log: Log) -> Ints:
        items, told = np.array([(seen[0], said[0]) for seen, said in log]).T
        counts = np.bincount(items, minlength=self.m)
        return descending(np.bincount(items, told, self.m) / np.maximum(counts, 1))[None]


class RiverArms(Arms):
    def __init__(self, policy: Callable[[int], Any], task: Task, seed: int) -> None:
        self.policy, self.m, self.items = policy(seed), task.m, list(range(task.m))

    def choose(self, t: int) -> Sequence[int]:  # noqa: ARG002
        return (self.policy.pull(self.items),)

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:  # noqa: ARG002
        self.policy.update(seen[0], told[0])


class MabwiserArms(Arms):
    """A bandit that must be fitted before its first choice, to one grade of each item."""

    def __init__(self, policy: Any, batch: int, task: Task, seed: int) -> None:
        items = list(range(task.m))
        self.mab = import_module("mabwiser.mab").MAB(items, policy, seed=seed)
        self.mab.fit(items, task.grades[0])
        self.m, self.batch = task.m, batch
        self.items: list[int] = []
        self.told: list[int] = []

    def choose(self, t: int) -> Sequence[int]:  # noqa: ARG002
        return (self.mab.predict(),)

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:  # noqa: ARG002
        self.items.append(seen[0])
        self.told.append(told[0])
        if len(self.told) == self.batch:
            self.mab.partial_fit(self.items, self.told)
            self.items, self.told = [], []


def of_fixed_items() -> list[Contestant]:
    found = []
    ours: tuple[Learner, ...] = (
        DoubtSort(DCG()), MarginFTRL(DCG()), BlockFTRL(DCG()), RTop1F(DCG(), horizon=COINS), Greedy(DCG()),
        Thompson(DCG()),
    )  # fmt: skip
    for learner in ours:
        found += [
            Contestant(f"peekrank, {learner.name}", WHOLE, stepwise(partial(Ours, learner))),
            Contestant(f"peekrank, {learner.name}, simulated", COMPILED, compiled(learner)),
        ]
    if find_spec("river"):
        from river import bandit, proba

        policies: dict[str, Callable[[int], Any]] = {
            "epsilon-greedy": lambda seed: bandit.EpsilonGreedy(epsilon=EPSILON, seed=seed),
            "UCB": lambda seed: bandit.UCB(delta=1, seed=seed),
            "Thompson": lambda seed: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed),
            "Exp3": lambda seed: bandit.Exp3(gamma=EPSILON, seed=seed),
        }
        found += [
            Contestant(f"river, {name}", ONE_ARM, stepwise(partial(RiverArms, policy)))
            for name, policy in policies.items()
        ]
    if find_spec("mabwiser"):
        known = import_module("mabwiser.mab").LearningPolicy
        first = f"{ONE_ARM}; knows one relevance of each before"
        late = f"the same, and learns every {BATCH} rounds"
        for name, policy in (
            ("epsilon-greedy", known.EpsilonGreedy(EPSILON)),
            ("Thompson", known.ThompsonSampling()),
        ):
            found += [
                Contestant(f"mabwiser, {name}", first, stepwise(partial(MabwiserArms, policy, 1))),
                Contestant(f"mabwiser, {name}, batches", late, stepwise(partial(MabwiserArms, policy, BATCH))),
            ]
    return found
