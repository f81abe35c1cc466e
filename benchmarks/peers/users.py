"""Task with fixed items for users with features; the top items get feedback."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

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
from peekrank.streams.fixed import fixed_items
from peekrank.types import Ints

USERS, MENU, TRAITS, SEEN = 1000, 20, 16, 5


def users(seed: int) -> Task:
    """Make items whose relevance probability is a logistic function of the user's features.

    A list of peekrank has the user's features once for each item, in columns of its own, and zeros elsewhere.
    """
    rng = drawn(seed)
    people = rng.standard_normal((USERS + TESTED, TRAITS))
    people[:, 0] = 1
    probabilities = 1 / (1 + np.exp(-people @ rng.standard_normal((TRAITS, MENU)) / 2))
    blocks = np.zeros((len(people), MENU, MENU, TRAITS), np.float32)
    blocks[:, range(MENU), range(MENU)] = people[:, None]
    lists = blocks.reshape(len(people), MENU, -1)
    grades = rng.random((USERS, MENU)) < probabilities[:USERS]
    rounds = fixed_items(grades.astype(np.uint8))._replace(features=lists[:USERS].reshape(USERS * MENU, -1))
    title = f"{MENU} items for users with {TRAITS} features, {USERS:,} rounds, the first {SEEN} items are seen"
    return Task(title, rounds, MENU, SEEN, lists[USERS:], probabilities[USERS:], people)


class RiverUsers:
    def __init__(self, task: Task, seed: int) -> None:
        from river import bandit

        self.policy, self.k, self.items = bandit.LinUCBDisjoint(seed=seed), task.k, list(range(task.m))
        self.users = [dict(enumerate(user)) for user in task.users.tolist()]

    def choose(self, t: int) -> Sequence[int]:
        left, seen = self.items.copy(), []
        for _ in range(self.k):
            seen.append(self.policy.pull(left, self.users[t]))
            left.remove(seen[-1])
        return seen

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        for item, relevance in zip(seen, told, strict=True):
            self.policy.update(item, self.users[t], relevance)

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        models = [self.policy._bayes_lin_regs[item] for item in self.items]
        return descending(np.array([[model.predict_one(user) for model in models] for user in self.users[USERS:]]))


class MabwiserUsers:
    """A policy that must be fitted before its first choice, to one grade of each item."""

    def __init__(self, task: Task, seed: int) -> None:
        items, package = list(range(task.m)), import_module("mabwiser.mab")
        self.mab = package.MAB(items, package.LearningPolicy.LinUCB(), seed=seed)
        self.mab.fit(items, task.grades[0], np.repeat(task.users[:1], task.m, axis=0))
        self.users, self.k = task.users, task.k

    def choose(self, t: int) -> Sequence[int]:
        worth = self.mab.predict_expectations(self.users[t : t + 1])
        return sorted(worth, key=worth.__getitem__, reverse=True)[: self.k]

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        self.mab.partial_fit(list(seen), list(told), np.repeat(self.users[t : t + 1], self.k, axis=0))

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        models = self.mab._imp.arm_to_model
        return descending(self.users[USERS:] @ np.array([models[item].beta for item in sorted(models)]).T)


class ContextualUsers:
    """A policy for several items that must be fitted before its first choice, to one grade of each item."""

    def __init__(self, task: Task, seed: int) -> None:
        online = import_module("contextualbandits.online")
        self.policy = online.LinUCB(task.m, fit_intercept=False, random_state=seed + 1)
        self.users, self.k = task.users, task.k
        first = np.repeat(self.users[:1], task.m, axis=0)
        self.policy.partial_fit(first, np.arange(task.m), np.array(task.grades[0], dtype=float))

    def choose(self, t: int) -> Any:
        return self.policy.topN(self.users[t : t + 1], self.k)[0]

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        X = np.repeat(self.users[t : t + 1], self.k, axis=0)
        self.policy.partial_fit(X, np.array(seen), np.array(told, dtype=float))

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        told = self.policy.predict(self.users[USERS:], exploit=True, output_all_scores=True)
        return descending(told["scores"])


class WabbitSlots(Wabbit):
    def __init__(self, task: Task, seed: int) -> None:
        super().__init__(f"--ccb_explore_adf --epsilon {EPSILON} -q ua", seed)
        self.users = ["ccb shared |u " + numbers(user) for user in task.users.tolist()]
        self.items, self.slots = [f"ccb action |a {item}" for item in range(task.m)], ["ccb slot |"] * task.k

    def choose(self, t: int) -> Sequence[int]:
        self.drawn = [slot[0] for slot in self.model.predict([self.users[t], *self.items, *self.slots])]
        return [item for item, _ in self.drawn]

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:  # noqa: ARG002
        slots = [
            f"ccb slot {item}:{-relevance}:{probability:.6g} |"
            for (item, probability), relevance in zip(self.drawn, told, strict=True)
        ]
        self.model.learn([self.users[t], *self.items, *slots])

    def orders(self, log: object) -> Ints:  # noqa: ARG002
        def best(user: str, left: list[int]) -> int:
            (slot,) = self.model.predict([user, *(self.items[i] for i in left), "ccb slot |"])
            return int(max(slot, key=lambda pair: pair[1])[0])

        return np.array([self.in_turn(len(self.items), partial(best, user)) for user in self.users[USERS:]])


def of_users() -> list[Contestant]:
    found = [
        Contestant("peekrank, rtopkf", f"{WHOLE}; one linear model", stepwise(partial(Ours, RTopKF()))),
        Contestant("peekrank, rtopkf, simulated", COMPILED, compiled(RTopKF())),
        Contestant("peekrank, ridge", f"{WHOLE}; one linear model", stepwise(partial(Ours, Ridge()))),
        Contestant("peekrank, ridge, simulated", COMPILED, compiled(Ridge())),
    ]
    if find_spec("contextualbandits"):
        differs = f"picks {SEEN} items by their upper bounds; ridge regressions; one relevance of each told before"
        found.append(Contestant("contextualbandits, LinUCB", differs, stepwise(ContextualUsers)))
    if find_spec("mabwiser"):
        differs = f"picks {SEEN} items by their upper bounds; ridge regressions; one relevance of each told before"
        found.append(Contestant("mabwiser, LinUCB", differs, stepwise(MabwiserUsers)))
    if find_spec("river"):
        differs = f"picks one item, here {SEEN} times among the rest; a Bayesian regression for each item"
        found.append(Contestant("river, LinUCBDisjoint", differs, stepwise(RiverUsers)))
    if find_spec("vowpalwabbit"):
        differs = f"fills {SEEN} slots; reads text; the order is by asking for the best, then the best of the rest"
        found.append(Contestant("Vowpal Wabbit, ccb_explore_adf", differs, stepwise(WabbitSlots)))
    return found
