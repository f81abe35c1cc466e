"""Measure mixed without a score beside learners and algorithms that it could replace, and the time of its calls.

    python experiments/mixed_beside.py                                  print all tables (some minutes)
    python experiments/mixed_beside.py users items --runs 5             two of them, with fewer runs
    python experiments/mixed_beside.py judged --mq2008 FOLDER --yandex FOLDER
    python experiments/mixed_beside.py few users items judged calls --record     write records/mixed.json

Judged documents are read from where they are, as in `ridge.py`. Without these options, their rows are missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import records
import ridge
from mixed import World, of_score, play, spread, tenths
from records import parse_cell

from peekrank import Agent, Mixed, Ridge
from peekrank.learners import learner as learner_named
from peekrank.types import Features, Floats, Ints

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from peers.items import coins
from peers.playing import EPSILON, Log, Result, Task, compiled, descending, stepwise
from peers.users import users

FIRST, RUNS = 5000, 20  # nothing was chosen by seeds from FIRST on
CLOSE, LEVEL = 0.005, 0.0005  # NDCG@10 behind that counts as a loss, on judged documents and on tasks of peers
CALLS = 2000
Runs = Sequence[int]
Player = Callable[[Task, int], Result]
Words = tuple[str, str]  # title and text of a table


class LinUCB:
    """LinUCB with a ridge regression for each item, in NumPy; it shows the items with the largest upper bounds."""

    def __init__(self, task: Task, seed: int) -> None:  # noqa: ARG002 - it is deterministic
        d = task.users.shape[1]
        self.users, self.k, self.tests = task.users, task.k, len(task.tests)
        self.inverse, self.sums = np.tile(np.eye(d), (task.m, 1, 1)), np.zeros((task.m, d))
        self.weights = np.zeros((task.m, d))

    def choose(self, t: int) -> Sequence[int]:
        x = self.users[t]
        bounds = self.weights @ x + np.sqrt(np.einsum("i,mij,j->m", x, self.inverse, x))
        seen: list[int] = np.argsort(-bounds, kind="stable")[: self.k].tolist()
        return seen

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:
        x = self.users[t]
        for i, answer in zip(seen, told, strict=True):
            v = self.inverse[i] @ x
            self.inverse[i] -= np.outer(v, v) / (1 + x @ v)
            self.sums[i] += answer * x
            self.weights[i] = self.inverse[i] @ self.sums[i]

    def orders(self, log: Log) -> Ints:  # noqa: ARG002
        return descending(self.users[-self.tests :] @ self.weights.T)


class EpsilonGreedy:
    """Show a random item with probability 0.1, and else the best by its mean answer."""

    def __init__(self, task: Task, seed: int) -> None:
        self.rng, self.sums = np.random.default_rng(seed), np.zeros((2, task.m))

    def _means(self) -> Floats:
        means: Floats = self.sums[1] / np.maximum(self.sums[0], 1)
        return means

    def choose(self, t: int) -> Sequence[int]:  # noqa: ARG002
        means = self._means()
        best = np.flatnonzero(means == means.max())
        return [int(self.rng.choice(len(means) if self.rng.random() < EPSILON else best))]

    def learn(self, t: int, seen: Sequence[int], told: Sequence[int]) -> None:  # noqa: ARG002
        self.sums[:, seen[0]] += 1, told[0]

    def orders(self, log: Log) -> Ints:  # noqa: ARG002
        return descending(self._means())[None]


def few(runs: Runs) -> records.Table:
    """Measure scores of few items that are in every list."""
    base = World(20, 0.0, n=20)
    found = {
        name: tenths(np.array([play(learner_named(name), base, run, scored=False) for run in runs]))
        for name in ("mixed", "doubtsort:measure=dcg")
    }
    cells = []
    for rho in (0.9, 0.6, 0.3, 0.0):
        world = World(20, rho, n=20)
        scored = tenths(np.array([play(learner_named("mixed"), world, run, scored=True) for run in runs]))
        shown = [scored, *found.values()]
        texts = [spread(of_score(world, runs).mean(axis=1))]
        for part in (slice(None), slice(-2, None)):
            means = [values[:, part].mean(axis=1) for values in shown]
            best = min(values.mean() for values in means)
            texts += [f"**{spread(v)}**" if v.mean() > 1.05 * best else spread(v) for v in means]
        sys.stderr.write(f"{rho}: {texts}\n")
        cells.append([f"rho {rho:g}", *map(parse_cell, texts)])
    shown_as = ("`mixed`", "`mixed`, no score", "`doubtsort`")
    names = ["score", "score alone", *(f"{name}, {part}" for part in ("all", "last fifth") for name in shown_as)]
    text = "Loss per list of 20 items that are in all 4,000 lists, k = 1, as in the stable worlds."
    marks = {"loses": "more than 1.05 of the smallest loss of the three"}
    return records.Table("Few items, all in every list", [text], names, cells, marks=marks)


def contest(words: Words, make: Callable[[int], Task], players: dict[str, Player], runs: Runs) -> records.Table:
    """Play a task of benchmarks/peers."""
    results = {name: [player(make(run), run) for run in runs] for name, player in players.items()}
    ends = {name: np.array([one.quality for one in found]) for name, found in results.items()}
    best, cells = max(values.mean() for values in ends.values()), []
    for name, found in results.items():
        on_top, end = spread(np.array([one.on_top for one in found])), spread(ends[name], 4)
        end = f"**{end}**" if ends[name].mean() < best - LEVEL else end
        sys.stderr.write(f"{words[0]}: {name} {on_top} {end}\n")
        cells.append([name, parse_cell(on_top), parse_cell(end)])
    marks = {"loses": f"more than {LEVEL} below the best"}
    columns = ["algorithm", "relevance on top", "NDCG@10 at the end"]
    return records.Table(words[0], [words[1]], columns, cells, marks=marks)


def of_users(runs: Runs) -> records.Table:
    """Compare with LinUCB on its task."""
    players = {
        "`mixed`": compiled(Mixed()), "`ridge`": compiled(Ridge()),
        "`ridge:explore=sampling`": compiled(Ridge("sampling")), "LinUCB": stepwise(LinUCB),
    }  # fmt: skip
    text = (
        "20 items for users with 16 features, k = 5, 1,000 rounds; the order for 500 other users. Learners get "
        "20 x 16 features, LinUCB a regression for each item."
    )
    return contest(("LinUCB's task", text), users, players, runs)


def of_items(runs: Runs) -> records.Table:
    """Compare with epsilon-greedy on ten fixed items."""
    names = ("mixed", "doubtsort:measure=dcg", "greedy:measure=dcg")
    players = {f"`{name.partition(':')[0]}`": compiled(learner_named(name)) for name in names}
    players["epsilon-greedy, shows one item"] = stepwise(EpsilonGreedy)
    text = "Ten items with means from 0.9 to 0.1, 10,000 rounds, k = 1; the order of all by what was learned."
    return contest(("Ten items beside epsilon-greedy", text), coins, players, runs)


def of_judged(runs: Runs, options: argparse.Namespace) -> records.Table:
    """Compare with ridge on judged documents."""
    cells: list[list[records.Cell]] = []
    for name, folder in (("MQ2008", options.mq2008), ("Yandex", options.yandex)):
        if folder is None:
            continue
        whole = ridge.yandex(folder) if name == "Yandex" else None
        for rounds in (500, 2000, 20_000):
            found = np.empty((len(runs), 2, 2))
            for i, run in enumerate(runs):
                split = whole or ridge.mq2008(folder, run)
                found[i] = [ridge.play(made, split, 1, rounds, run) for made in (Ridge(), Mixed())]
            texts = [[spread(values) for values in found[:, i].T] for i in range(2)]
            if found[:, 1, 0].mean() < found[:, 0, 0].mean() - CLOSE:
                texts[1][0] = f"**{texts[1][0]}**"
            sys.stderr.write(f"{name} {rounds}: {texts}\n")
            cells.append([name, rounds, *(parse_cell("; ".join(pair)) for pair in texts)])
    text = "NDCG@10 of lists not learned from, and the relevance of the first item while learning; k = 1."
    marks = {"loses": f"more than {CLOSE} below `ridge`"}
    return records.Table("Judged documents", [text], ["lists", "rounds", "`ridge`", "`mixed`"], cells, marks=marks)


class SharedLinUCB:
    """LinUCB with one regression for all items, for the time of its calls."""

    def __init__(self, d: int) -> None:
        self.inverse, self.sums, self.weights = np.eye(d), np.zeros(d), np.zeros(d)

    def rank(self, X: Features) -> Ints:
        bounds = X @ self.weights + np.sqrt(np.einsum("ij,jl,il->i", X, self.inverse, X))
        return np.argsort(-bounds, kind="stable")

    def update(self, x: Floats, answer: float) -> None:
        v = self.inverse @ x
        self.inverse -= np.outer(v, v) / (1 + x @ v)
        self.sums += answer * x
        self.weights = self.inverse @ self.sums


def timed(name: str, m: int, n: int, d: int, seed: int) -> tuple[float, float]:
    """Return the mean microseconds of a call that ranks n of m items, and of one that learns an answer."""
    rng = np.random.default_rng(seed)
    plain = SharedLinUCB(d) if name == "LinUCB" else None
    agent = None if plain else Agent(learner_named(name), m=m, k=1, d=d, seed=seed)
    spent, clock = [0.0, 0.0], time.process_time
    for t in range(CALLS + 100):
        items, X = np.sort(rng.choice(m, n, replace=False)), rng.standard_normal((n, d)).astype(np.float32)
        scores, answer = rng.standard_normal(n), float(rng.random() < 0.5)
        start = clock()
        if plain is not None:
            first = X[plain.rank(X)[0]]
            middle = clock()
            plain.update(first, answer)
        elif agent is not None:
            decision = agent.rank(
                X if d else None,
                available=None if agent.learner.variable_length else items,
                scores=scores if name.startswith("mixed") else None,
            )
            middle = clock()
            agent.update(decision, [answer])
        if t >= 100:
            spent[0] += middle - start
            spent[1] += clock() - middle
    return spent[0] / CALLS * 1e6, spent[1] / CALLS * 1e6


def calls(runs: Runs) -> records.Table:
    """Measure the processor time of calls of an agent."""
    cells: list[list[records.Cell]] = []
    for name, m, n, d in (
        ("doubtsort:measure=dcg", 200, 20, 0), ("mixed", 200, 20, 0), ("mixed", 1_000_000, 50, 0),
        ("ridge", 200, 20, 40), ("mixed", 200, 20, 40), ("LinUCB", 200, 20, 40),
    ):  # fmt: skip
        best = np.min([timed(name, m, n, d, run) for run in runs[:3]], axis=0)
        label = "LinUCB in NumPy" if name == "LinUCB" else f"`{name.partition(':')[0]}`"
        sys.stderr.write(f"{label} {m} {n} {d}: {best.round(1)}\n")
        cells.append([label, m, n, d, *(round(one) for one in best.tolist())])
    text = (
        f"Mean processor time of `Agent.rank` and `Agent.update` over {CALLS:,} lists, the least of three runs, "
        "on a busy machine; `mixed` gets scores. Checks in Python take most of it."
    )
    columns = ["learner", "items", "in a list", "features", "µs a list", "µs an answer"]
    return records.Table("Time of a call", [text], columns, cells)


def tables(options: argparse.Namespace) -> Iterator[records.Table]:
    """Yield the tables that were asked for."""
    runs = range(options.first, options.first + options.runs)
    made: dict[str, Callable[[Runs], records.Table]] = {"few": few, "users": of_users, "items": of_items}
    made["calls"] = calls
    for name in options.tables or [*made, "judged"]:
        if name in made:
            yield made[name](runs)
        elif options.mq2008 or options.yandex:
            yield of_judged(runs, options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write each into the record."""
    parser = argparse.ArgumentParser(description="Mixed beside what it could replace.")
    parser.add_argument("tables", nargs="*", choices=["few", "users", "items", "judged", "calls", []])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--mq2008", type=Path)
    parser.add_argument("--yandex", type=Path)
    records.add_option(parser, "mixed")
    options = parser.parse_args(arguments)
    for table in tables(options):
        if options.record:
            records.update(options.record, [table])
        else:
            print(records.show([table]))


if __name__ == "__main__":
    main()
