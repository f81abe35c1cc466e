"""Measure the loss of doubtsort and baselines with little feedback, and with items that come and go.

Losses are expectations: the difference, by the items' true means, between the best order of the available items
and the shown order. Each figure is a mean over runs with its standard deviation. Every run has new items, rounds
and random numbers.

    python experiments/doubt.py                                print all tables (a quarter of an hour)
    python experiments/doubt.py few newcomer --runs 3          some of them
    python experiments/doubt.py --sushi sushi.soc              with real orders, whose items are hidden at random
    python experiments/doubt.py --record                       write records/doubtsort.json and its picture
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import records
from matplotlib.figure import Figure

from peekrank import (
    DCG,
    Agent,
    Available,
    Bernoulli,
    DoubtSort,
    Orders,
    Precision,
    Rounds,
    available_items,
    simulate,
)
from peekrank.learners import learner as learner_named
from peekrank.reports import plots
from peekrank.types import Decision, Floats, Grades, Ints, Learner, LinearMeasure

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "doubtsort-shown.svg"
TUTORIAL = (0.6, 0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)
LEARNERS = ("doubtsort", "doubtsort:variant=cautious", "greedy", "thompson", "marginftrl")
VISITS, LONG = 50_000, 100_000
LATE = 500  # rounds
RUNS = 5
FIRST = 1000  # number of the first run: no figure is from a run that anything was tried on
# Runs of the new best item, whose median needs many; written here before the first of them was played
NEWCOMERS, FIRST_NEWCOMER = 200, 50_000


class World(NamedTuple):
    """Rounds, and the mean gain of every item, which evaluates orders."""

    rounds: Rounds
    means: Floats
    measure: LinearMeasure

    def lists(self) -> Iterator[tuple[Ints, Grades]]:
        """Yield the items and the relevance of each round."""
        items = self.rounds.items
        for first, last in pairwise(self.rounds.offsets):
            here = np.arange(last - first) if items is None else items[first:last]
            yield here, self.rounds.relevance[first:last]


class Lost:
    """A measure: the expected loss of an order by the true means, for rounds in order."""

    name: ClassVar[str] = "lost"
    higher_is_better: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        items = world.rounds.items
        known = np.arange(len(world.means)) if items is None else items
        n = int(world.rounds.offsets[1])
        self._means = np.resize(world.means[known], (len(world.rounds.offsets) - 1, n))
        self._discount, self._done = world.measure.discount(n), 0

    def values(self, rankings: Ints, relevance: Floats) -> Floats:  # noqa: ARG002
        """Return the loss of each ranking of the next rounds."""
        means = self._means[self._done : self._done + len(rankings)]
        self._done += len(rankings)
        lacking = np.sort(means, axis=1)[:, ::-1] - np.take_along_axis(means, rankings, axis=1)
        return np.asarray(lacking @ self._discount)


def lost(learner: Learner, world: World, k: int, run: int) -> float:
    """Measure the loss of a run with immediate and complete feedback."""
    end = np.array([len(world.rounds.offsets) - 1])
    return float(simulate(learner, world.rounds, k=k, measure=Lost(world), seed=run, checkpoints=end).value[0])


class Live(NamedTuple):
    """A run with realistic feedback: the loss of each round, and the items shown first."""

    lost: Floats
    first: Ints


def live(learner: Learner, world: World, k: int, run: int, *, rates: Floats | float = 1.0, delay: int = 0) -> Live:
    """Run an agent. Each explored item gets feedback with its response rate, `delay` rounds late."""
    agent, rng = Agent(learner, m=len(world.means), k=k, seed=run), np.random.default_rng([run, 9])
    propensities = np.broadcast_to(rates, world.means.shape)
    waiting: deque[tuple[int, Decision, Floats]] = deque()
    discount, lost, first = world.measure.discount(len(world.means)), [], []
    for t, (here, relevance) in enumerate(world.lists()):
        decision = agent.rank() if world.rounds.items is None else agent.rank(available=here)
        means = world.means[decision.ranking]
        lost.append(discount[: len(means)] @ (np.sort(means)[::-1] - means))
        first.append(decision.ranking[0])
        seen = decision.ranking[:k]
        told = relevance[np.searchsorted(here, seen)].astype(np.float64)
        told[rng.random(k) >= propensities[seen]] = np.nan
        waiting.append((t + delay, decision, told))
        while waiting and waiting[0][0] <= t:
            agent.update(*waiting.popleft()[1:])
    return Live(np.array(lost), np.array(first))


def tutorial(run: int) -> World:
    """Make rounds of the tutorial's ten items in random order."""
    rng = np.random.default_rng([run, 1])
    means = rng.permutation(TUTORIAL)
    return World(Bernoulli(tuple(means)).rounds(VISITS, rng), means, DCG())


def drawn(stream: Available, run: int, measure: LinearMeasure, rounds: int = LONG) -> World:
    """Make rounds of a stream, with the mean gains that it draws first."""
    means = stream.means(np.random.default_rng([run, 2]))
    gain = float(measure.gain(np.array([stream.grade], dtype=np.uint8))[0])
    return World(stream.rounds(rounds, np.random.default_rng([run, 2])), gain * means, measure)


def part(world: World, first: int, last: int) -> World:
    """Return some of the rounds."""
    features, relevance, offsets, items = world.rounds[:4]
    rows = slice(offsets[first], offsets[last])
    cut = Rounds(
        features[rows], relevance[rows], offsets[first : last + 1] - offsets[first],
        None if items is None else items[rows],
    )  # fmt: skip
    return world._replace(rounds=cut)


def few(runs: Sequence[int]) -> records.Table:
    """Measure late and unequal feedback on the tutorial's ten items."""
    unequal = np.linspace(0.05, 1, 10)
    ways: dict[str, Callable[[int], dict[str, object]]] = {
        f"{LATE} rounds late": lambda _: {"delay": LATE},
        "5 % to 100 %, by item": lambda run: {"rates": np.random.default_rng([run, 3]).permutation(unequal)},
    }
    rows = []
    for name in (*LEARNERS, "blockftrl"):
        made = learner_named(name, measure=DCG())
        found = [
            [float(live(made, tutorial(run), 1, run, **how(run)).lost.mean()) for run in runs]  # type: ignore[arg-type]
            for how in ways.values()
        ]
        rows.append([f"`{name}`", *(figure(values, 4) for values in found)])
    return table("Late and unequal answers", "", ["learner", *ways], rows)


def compared(
    title: str, measure: LinearMeasure, k: int, worlds: Sequence[World], runs: Sequence[int]
) -> list[str]:
    """Return a row of a table: the loss of each learner in the same rounds with complete feedback."""
    found = []
    for name in LEARNERS:
        made = learner_named(name, measure=measure, max_grade=int(worlds[0].rounds.relevance.max()))
        found.append([lost(made, world, k, run) for world, run in zip(worlds, runs, strict=True)])
    return [title, *(figure(values) for values in found)]


def sets(runs: Sequence[int], k: int) -> list[str]:
    """Measure five fixed sets of ten items, with as many rounds per item as in the random lists."""
    found: list[list[float]] = [[] for _ in LEARNERS]
    for run in runs:
        means = drawn(Available(), run, DCG(), 1).means
        rng = np.random.default_rng([run, 4])
        worlds = [
            World(Bernoulli(tuple(means[ten])).rounds(LONG // 5, rng), means[ten], DCG())
            for ten in rng.permutation(50).reshape(5, 10)
        ]
        for values, name in zip(found, LEARNERS, strict=True):
            values.append(sum(lost(learner_named(name, measure=DCG()), world, k, run) for world in worlds))
    return [f"five fixed sets of 10, k = {k}", *(figure(values) for values in found)]


def lists(runs: Sequence[int]) -> records.Table:
    """Measure lists of available items, for every rule of availability."""
    rows = []
    for k in (1, 3):
        random = [drawn(Available(), run, DCG()) for run in runs]
        rows += [compared(f"10 of 50 at random, k = {k}", DCG(), k, random, runs), sets(runs, k)]
    settings = (
        ("100 blocks of 10 of 50", Available(rule="blocks"), DCG(), 1),
        ("10 of 50, the better the rarer", Available(rule="rare"), DCG(), 1),
        ("one of 20 replaced every 500 rounds", Available(m=219, n=20, rule="churn"), DCG(), 1),
        ("10 of 50 at random, grades 0 and 3", Available(grade=3), DCG(), 1),
        ("10 of 50 at random, p@3+sum, k = 1", Available(), Precision(3, mean=False), 1),
        ("10 of 50 at random, p@3+sum, k = 5", Available(), Precision(3, mean=False), 5),
    )
    for title, stream, measure, k in settings:
        rows.append(compared(title, measure, k, [drawn(stream, run, measure) for run in runs], runs))
    for title, how in (("20 % answer", {"rates": 0.2}), (f"answers {LATE} rounds late", {"delay": LATE})):
        found = [
            [live(learner_named(name, measure=DCG()), drawn(Available(), run, DCG()), 1, run, **how).lost.sum()
             for run in runs]
            for name in LEARNERS
        ]  # fmt: skip
        rows.append([f"10 of 50 at random, k = 1, {title}", *(figure(values) for values in found)])
    text = f"Regret after {LONG:,} rounds; DCG and k = 1 unless stated."
    return table("Items that come and go", text, ["lists", *(f"`{name}`" for name in LEARNERS)], rows)


def newcomer(runs: Sequence[int]) -> records.Table:
    """Count the rounds until a new best item reaches the top among 49 known ones."""
    early, late, longest = 20_000, 6000, 20
    joined = range(FIRST_NEWCOMER, FIRST_NEWCOMER + NEWCOMERS * len(runs) // RUNS)
    rows = []
    for title, rate in (("all answer", 1.0), ("20 % answer", 0.2)):
        row = [title]
        for name in LEARNERS[:3]:
            needed = []
            for run in joined:
                rng = np.random.default_rng([run, 5])
                means = np.append(rng.permutation(np.linspace(0.9, 0.05, 49)), 0.95)
                others = np.argsort(rng.random((early + late, 49)), axis=1)[:, :10]
                others[early:, 9] = 49
                mask = np.zeros((early + late, 50), dtype=bool)
                np.put_along_axis(mask, others, values=True, axis=1)
                world = World(available_items(rng.random(mask.shape) < means, mask), means, DCG())
                shown = live(learner_named(name, measure=DCG()), world, 1, run, rates=rate).first[early:] == 49
                often = np.convolve(shown, np.ones(longest), "valid") >= 0.75 * longest
                needed.append(int(often.argmax()) if often.any() else late)
            row.append(
                f"{np.median(needed):,.0f} ({np.quantile(needed, 0.25):,.0f} to {np.quantile(needed, 0.75):,.0f})"
            )
        rows.append(row)
    text = (
        f"A new item with mean 0.95 joins 49 known ones (0.05 to 0.9) after {early:,} rounds with 10 of them: the "
        "number of its rounds before it is shown first in 15 of 20."
    )
    return table("A new best item", text, ["", *(f"`{name}`" for name in LEARNERS[:3])], rows)


def replaced(runs: Sequence[int]) -> records.Table:
    """Compare replacing two of ten items with a cold start on the same ten."""
    rows = []
    for name in LEARNERS:
        warm, cold = [], []
        for run in runs:
            world = drawn(Available(m=12, n=10, rule="replaced"), run, DCG(), 40_000)
            made = learner_named(name, measure=DCG())
            warm.append(float(live(made, part(world, 0, 21_000), 1, run).lost[20_000:].sum()))
            cold.append(float(live(made, part(world, 20_000, 21_000), 1, run).lost.sum()))
        rows.append([f"`{name}`", figure(warm, 1), figure(cold, 1), f"{np.mean(warm) / np.mean(cold):.2f}"])
    return table("Two of ten replaced", "", ["learner", "goes on", "cold start", "ratio"], rows)


def orders(path: Path, runs: Sequence[int]) -> records.Table:
    """Measure orders of real people, with each item hidden with probability 1/2, against the order of means."""
    rows = []
    for measure, k in ((DCG(), 1), (DCG(), 3), (Precision(3, mean=False), 1)):
        worlds = []
        for run in runs:
            rng = np.random.default_rng([run, 6])
            relevance = Orders(path).rounds(VISITS, rng).relevance.reshape(VISITS, -1)
            m = relevance.shape[1]
            mask = np.zeros(relevance.shape, dtype=bool)
            np.put_along_axis(mask, np.argsort(rng.random(mask.shape), axis=1)[:, : m // 2], values=True, axis=1)
            means = measure.gain(relevance).mean(axis=0)
            worlds.append(World(available_items(relevance, mask), means, measure))
        rows.append(compared(f"{measure}, k = {k}", measure, k, worlds, runs))
    text = f"Half of the ten kinds are hidden at random in each of {VISITS:,} rounds: regret."
    return table("Orders of sushi", text, ["", *(f"`{name}`" for name in LEARNERS)], rows)


def figure(values: Sequence[float], digits: int = 0) -> str:
    """Format mean and standard deviation."""
    return f"{np.mean(values):,.{digits}f} ± {np.std(values, ddof=1):,.{digits}f}"


def table(title: str, text: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> records.Table:
    """Make a table of the record. Without a text, the record keeps its own."""
    cells = [[records.parse_cell(cell) for cell in row] for row in rows]
    return records.Table(title, [text] if text else [], list(names), cells)


class Shown:
    """A measure that stores all rankings."""

    name: ClassVar[str] = "shown"
    higher_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.rankings: list[Ints] = []

    def values(self, rankings: Ints, relevance: Floats) -> Floats:  # noqa: ARG002
        """Store the rankings and return zeros."""
        self.rankings.append(rankings.copy())
        return np.zeros(len(rankings))


def picture(run: int, parts: int = 120) -> Figure:
    """Draw which items were shown when, while items come and go."""
    stream, horizon = Available(m=40, n=10, rule="churn"), 24_000
    world, shown = drawn(stream, run, DCG(), horizon), Shown()
    simulate(DoubtSort(DCG()), world.rounds, k=1, measure=shown, seed=run, checkpoints=np.array([horizon]))
    rankings, items = np.concatenate(shown.rankings), np.asarray(world.rounds.items).reshape(horizon, stream.n)
    who = np.take_along_axis(items, rankings, axis=1)
    sums, counts = np.zeros((2, stream.m, parts))
    for position in range(stream.n):
        columns = np.arange(horizon) * parts // horizon
        np.add.at(sums, (who[:, position], columns), position + 1.0)
        np.add.at(counts, (who[:, position], columns), 1.0)
    positions = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    title = "doubtsort, k = 1: ten items at a time,\none of them replaced every 774 rounds"
    return plots.shown_when(positions[np.argsort(-world.means)], horizon, title)


TABLES: dict[str, Callable[[Sequence[int]], records.Table]] = {
    "few": few, "lists": lists, "newcomer": newcomer, "replaced": replaced,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into the record."""
    parser = argparse.ArgumentParser(description="Doubtsort where few answer, and where items come and go.")
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="which of them; all if none is named")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--sushi", type=Path, help="a file of orders")
    records.add_option(parser, "doubtsort")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    runs, tables = range(FIRST, FIRST + options.runs), []
    for name in options.tables or TABLES:
        tables.append(TABLES[name](runs))
        sys.stderr.write(f"{name} done\n")
    if options.sushi:
        tables.append(orders(options.sushi, runs))
    if options.record:
        records.update(options.record, tables)
        plots.save_as(picture(FIRST), options.picture)
    else:
        print(records.show(tables))


if __name__ == "__main__":
    main()
