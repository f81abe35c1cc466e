"""Rounds a second beside river, mabwiser, contextualbandits and Vowpal Wabbit, and what each learned in them.

Three tasks: a fixed set of items; lists of documents with features of their own; a fixed set of items for users
with features. In each of them all see the relevance of as many items a round, and the same loop plays them step by
step. They take turns, one for each seed; times are of the processor, on one thread, the best of the turns. Speed
without learning is no comparison, so each row also says how relevant the item on top was while learning, and how
good the order of all items is that came out: NDCG@10, means and standard deviations over the seeds. Packages are
used as they come, but for the rate of exploring by chance, which is the same for all. Of peekrank's learners,
rtop1f alone is told the number of rounds. Without one of the packages, which are not required, its rows are
missing.

    python benchmarks/peers/rounds.py
    python benchmarks/peers/rounds.py items --seeds 20
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[1]))  # where clock.py is

import numpy as np
from clock import timed, two_digits
from rich.console import Console
from rich.table import Table

from peekrank import (
    DCG,
    NDCG,
    Agent,
    BlockFTRL,
    DoubtSort,
    Greedy,
    MarginFTRL,
    Ridge,
    RTop1F,
    Thompson,
    evaluate,
)
from peekrank.data.generated import Layout, make_dataset
from peekrank.engine import drive, generator
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.streams.fixed import fixed_items
from peekrank.streams.synthetic import Means
from peekrank.types import Features, Floats, Ints, Learner, Rounds

SEEDS = 5
QUALITY = NDCG(10, gains="linear", blank="skip")
ON_TOP = DCG(1, gains="linear")  # the relevance of the first item
EPSILON = 0.1
BATCH = 100  # rounds that mabwiser learns from at a time, where it does
TESTED = 500  # lists
ITEMS, COINS = 10, 10_000
DOCUMENTS = Layout(2000 + TESTED, (20, 20), 46, (0.8, 0.13, 0.07))
USERS, MENU, TRAITS, SEEN = 1000, 20, 16, 5

WHOLE = "shows a whole list, and its order is what counts"
COMPILED = "the same, the rounds being known before: a compiled loop, equal bit for bit"
ONE_ARM = "picks one item; the order is by the means of what the items told"


Log = Sequence[tuple[Sequence[int], Sequence[int]]]  # what was seen and told, round by round


class Task(NamedTuple):
    """Rounds to learn from, and lists that the order which comes out is held against."""

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
        """The items that are seen in round t, from the top."""

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None: ...

    def orders(self, log: Log) -> Ints:
        """Of the items of each test list; what was seen and told is there for those who need it."""


class Result(NamedTuple):
    seconds: float
    on_top: float
    quality: float


class Contestant(NamedTuple):
    name: str
    differs: str
    play: Callable[[Task, int], Result]


def drawn(seed: int) -> np.random.Generator:
    """For tasks: another one than players make of the seed."""
    return np.random.default_rng((seed, 1))


def stepwise(make: Callable[[Task, int], Player]) -> Callable[[Task, int], Result]:
    """One round after the other."""

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
    """What `simulate` does, with the agent at hand afterwards."""

    def play(task: Task, seed: int) -> Result:
        player, end = Ours(learner, task, seed), np.array([len(task.rounds.offsets) - 1])
        took, (trace,) = timed(partial(drive, [player.agent], task.rounds, measure=ON_TOP, at=end))
        return Result(took, float(trace.value[-1] / end[0]), quality(task, player.orders(())))

    return play


def quality(task: Task, orders: Ints) -> float:
    return float(np.nanmean(evaluate(QUALITY, orders, task.worth)))


def by_chance(task: Task) -> float:
    """Quality of random orders."""
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


def coins(seed: int) -> Task:
    """Independent coins, their chances evenly spread, in random order."""
    rng = drawn(seed)
    worth = rng.permutation(np.linspace(0.9, 0.1, ITEMS))
    rounds = Means(means=tuple(worth)).rounds(COINS, rng)
    nothing = np.empty((1, ITEMS, 0), np.float32)
    title = f"a fixed set of {ITEMS} items, {COINS:,} rounds, the first item is seen"
    return Task(title, rounds, ITEMS, 1, nothing, worth[None], np.empty((COINS + 1, 0)))


class Arms:
    """One item a round, ordered in the end by the means of what they told; those never seen come last."""

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
    """It must have been fitted before it chooses: to one answer of each item."""

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
        first = f"{ONE_ARM}; is told one relevance of each before"
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


def documents(seed: int) -> Task:
    """Lists that come once each, relevance being linear in the features up to noise; others are for the test."""
    rounds = make_dataset(DOCUMENTS, drawn(seed)).rounds()
    queries, m, d = DOCUMENTS.queries - TESTED, DOCUMENTS.documents[1], DOCUMENTS.features
    rows = queries * m
    learned = Rounds(rounds.features[:rows], rounds.relevance[:rows], rounds.offsets[: queries + 1])
    tests, worth = rounds.features[rows:].reshape(-1, m, d), rounds.relevance[rows:].reshape(-1, m)
    title = f"lists of {m} documents with {d} features, {queries:,} rounds, the first document is seen"
    return Task(title, learned, m, 1, tests, worth.astype(float), np.empty((queries + TESTED, 0)))


class RiverRegression:
    """A regression of relevance that the user of river puts together, exploring by chance."""

    def __init__(self, task: Task, seed: int) -> None:
        from river import linear_model, preprocessing

        self.model = preprocessing.StandardScaler() | linear_model.LinearRegression()
        self.rng = generator(seed)
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


def numbers(x: Sequence[float]) -> str:
    """As Vowpal Wabbit reads them."""
    return " ".join(f"{f}:{value:.6g}" for f, value in enumerate(x))


class Wabbit:
    """Vowpal Wabbit, asked for its best item, then for the best of the others, and so on."""

    def __init__(self, options: str, seed: int) -> None:
        self.model = import_module("vowpalwabbit").Workspace(f"{options} --quiet --random_seed {seed + 1}")

    def in_turn(self, m: int, best: Callable[[list[int]], int]) -> list[int]:
        """The items that QUALITY looks at, then the others."""
        left = list(range(m))
        found = [left.pop(best(left)) for _ in range(min(m, QUALITY.n or m))]
        return found + left


class WabbitOne(Wabbit):
    def __init__(self, task: Task, seed: int) -> None:
        super().__init__(f"--cb_explore_adf --epsilon {EPSILON}", seed)
        self.rng = generator(seed)
        self.lists, self.tests = (self._texts(lists) for lists in (task.lists, task.tests))

    @staticmethod
    def _texts(lists: Features) -> list[list[str]]:
        return [["| " + numbers(x) for x in X] for X in lists.tolist()]

    def choose(self, t: int) -> Sequence[int]:
        self.chances = self.model.predict(self.lists[t])
        return (int(np.searchsorted(np.cumsum(self.chances), self.rng.random() * sum(self.chances))),)

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        texts, item = self.lists[t].copy(), seen[0]
        texts[item] = f"0:{-told[0]}:{self.chances[item]:.6g} {texts[item]}"
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


def users(seed: int) -> Task:
    """Each item is relevant with a chance that depends on the user: a logistic function of the user's features.

    A list of peekrank has the user's features once for each item, in columns of its own, and zeros elsewhere.
    """
    rng = drawn(seed)
    people = rng.standard_normal((USERS + TESTED, TRAITS))
    people[:, 0] = 1
    chances = 1 / (1 + np.exp(-people @ rng.standard_normal((TRAITS, MENU)) / 2))
    blocks = np.zeros((len(people), MENU, MENU, TRAITS), np.float32)
    blocks[:, range(MENU), range(MENU)] = people[:, None]
    lists = blocks.reshape(len(people), MENU, -1)
    grades = rng.random((USERS, MENU)) < chances[:USERS]
    rounds = fixed_items(grades.astype(np.uint8))._replace(features=lists[:USERS].reshape(USERS * MENU, -1))
    title = f"{MENU} items for users with {TRAITS} features, {USERS:,} rounds, the first {SEEN} items are seen"
    return Task(title, rounds, MENU, SEEN, lists[USERS:], chances[USERS:], people)


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
    """It must have been fitted before it chooses: to one answer of each item."""

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
    """It must have been fitted before it chooses several: to one answer of each item."""

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
            f"ccb slot {item}:{-relevance}:{chance:.6g} |"
            for (item, chance), relevance in zip(self.drawn, told, strict=True)
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


def compare(make: Callable[[int], Task], contestants: Sequence[Contestant], seeds: int) -> Table:
    """All of them, seed after seed; the first one is what the others are held against."""
    tasks = [make(seed) for seed in range(seeds)]
    for contestant in contestants:
        if contestant.name.startswith("peekrank"):
            contestant.play(tasks[0], 0)  # pays for compiling
    results: dict[str, list[Result]] = {contestant.name: [] for contestant in contestants}
    for seed, task in enumerate(tasks):
        for contestant in contestants:
            results[contestant.name].append(contestant.play(task, seed))
    table = Table(
        "who", "rounds a second", "time a round, first line = 1", "relevance on top", "NDCG at the end",
        "how the task differs", title=tasks[0].title,
        caption=f"NDCG of random orders: {np.mean([by_chance(task) for task in tasks]):.4f}",
    )  # fmt: skip
    rounds = len(tasks[0].rounds.offsets) - 1
    base = min(result.seconds for result in results[contestants[0].name])
    for contestant in contestants:
        best = min(result.seconds for result in results[contestant.name])
        on_top, at_end = (
            f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"
            for values in zip(*((r.on_top, r.quality) for r in results[contestant.name]), strict=True)
        )
        table.add_row(
            contestant.name, f"{rounds / best:,.0f}", two_digits(best / base), on_top, at_end, contestant.differs
        )
    return table


TASKS = {"items": (coins, of_fixed_items), "documents": (documents, of_documents), "users": (users, of_users)}


def main(seeds: int = SEEDS, tasks: Sequence[str] = tuple(TASKS)) -> None:
    warnings.simplefilter("ignore")
    for make, contestants in (TASKS[name] for name in tasks):
        Console(width=200).print(compare(make, contestants(), seeds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rounds beside other packages.")
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], help="which of them; all if none is named")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    main(options.seeds, options.tasks or tuple(TASKS))
