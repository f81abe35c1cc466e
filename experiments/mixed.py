"""Measure mixed behind a score: what lists lose, beside the score alone and doubtsort, which cannot use it.

A world has N items with normal qualities z, mean answers 1/(1 + exp(0.5 - 1.2 z)), and scores of correlation rho
with z. A list of 20 items (10 of 20) is drawn at random in each of 4,000 rounds. The loss of a list is the
difference in DCG, by the means, between the best order and the one shown. Figures are means and standard errors
over runs. Bold marks a mean loss more than 0.01 above the score alone in some tenth of the run where the score is
informative (rho of at least 0.3), and one of more than 1.05 of doubtsort's in the last tenths where it is not.

    python experiments/mixed.py                          print all tables (an hour)
    python experiments/mixed.py stable --runs 4          one of them, with fewer runs
    python experiments/mixed.py --record                 write records/mixed.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import records

from peekrank import DCG, Agent, DoubtSort, simulate
from peekrank.learners import learner as learner_named
from peekrank.regret import best_values, regret
from peekrank.streams import stream
from peekrank.types import Decision, Floats, Ints, Learner, Rounds

FIRST, RUNS, ROUNDS, TENTHS = 5000, 20, 4000, 10  # nothing was chosen by seeds from FIRST on
ALLOWED, RATIO = 0.01, 1.05


@dataclass(frozen=True)
class World:
    """What a run draws: `kind` says how scores are shown or change half-way."""

    items: int
    rho: float
    kind: str = ""
    n: int = 20
    k: int = 1
    answering: float = 1.0  # share of the lists that are answered
    spread: float = 0.0  # standard deviation of real-valued answers; 0 for yes and no
    late: int = 0  # rounds until answers arrive
    rounds: int = ROUNDS
    versioned: bool = False  # whether the app says half-way that its score is a new one
    option: str = "mixed"

    @property
    def name(self) -> str:
        """Return the differences from the defaults."""
        parts = [f"{self.items:,}", f"rho {self.rho:g}", self.kind, f"k = {self.k}" if self.k > 1 else ""]
        parts += [f"{self.answering:.0%} answer" if self.answering < 1 else "", "real" if self.spread else ""]
        parts += [
            f"{self.late:,} late" if self.late else "",
            "versions" if self.versioned else "",
            "" if self.n == 20 else f"lists of {self.n}",
        ]
        parts += [f"{self.rounds:,} rounds" if self.rounds != ROUNDS else "", self.option.partition(":")[2]]
        return ", ".join(part for part in parts if part)


class Drawn(NamedTuple):
    """Items, scores and means of all lists, and the coins of the answers."""

    items: Ints
    scores: Floats
    means: Floats
    coins: Floats
    answered: Floats


def drawn(world: World, seed: int) -> Drawn:
    """Draw a world; the items, means and answers are the same for all scores."""
    rng, half = np.random.default_rng([seed, world.items]), world.rounds // 2
    items = rng.integers(world.items, size=(world.rounds, world.n))
    if world.items <= 10 * world.n:
        items = np.argsort(rng.random((world.rounds, world.items)), axis=1)[:, : world.n]
    items = np.sort(items, axis=1)
    while len(twice := np.flatnonzero((np.diff(items, axis=1) == 0).any(axis=1))):
        items[twice] = np.sort(rng.integers(world.items, size=(len(twice), world.n)), axis=1)
    z, noise = rng.standard_normal((2, 2, world.items))
    now = np.repeat([0, int(world.kind == "drawn anew")], half)
    means = (1 / (1 + np.exp(0.5 - 1.2 * z)))[now[:, None], items]
    rho = np.full((world.rounds, 1), world.rho)
    if world.kind == "turns useful":
        rho[:half] = 0
    if world.kind == "turns useless":
        rho[half:] = 0
    seen = z[now[:, None], items]
    scores = rho * seen + np.sqrt(1 - rho**2) * noise[now[:, None], items]
    if world.kind == "reversed":
        scores = -scores
    elif world.kind == "flips":
        scores[half:] *= -1
    elif world.kind == "steep":
        scores = np.exp(3 * scores)
    elif world.kind == "rescaled":
        scores[half:] = 100 + 50 * scores[half:]
    elif world.kind == "three values":
        scores = np.clip(np.round(scores), -1, 1)
    elif world.kind == "constant":
        scores[:] = 1
    return Drawn(items, scores, means, rng.random(items.shape), rng.random(world.rounds))


def answer(world: World, world_drawn: Drawn, t: int, rows: Ints) -> Floats:
    """Return what people answer about rows of a list."""
    mean, coin = world_drawn.means[t, rows], world_drawn.coins[t, rows]
    told: Floats = (coin < mean).astype(np.float64)
    if world.spread:
        told = np.clip(mean + world.spread * np.sqrt(12) * (coin - 0.5), 0, 1)
    return told


def losses(means: Floats, order: Ints) -> Floats:
    """Return the loss of each list, by position of its rows."""
    weights = DCG().discount(means.shape[1])
    return (np.sort(means, axis=1)[:, ::-1] - np.take_along_axis(means, order, axis=1)) @ weights


def play(made: Learner, world: World, seed: int, *, scored: bool) -> Floats:
    """Return the loss of each list of a learner."""
    agent, life = Agent(made, m=world.items, k=world.k, seed=seed), drawn(world, seed)
    order, waiting = np.empty_like(life.items), deque[tuple[int, Decision, Floats]]()
    for t, items in enumerate(life.items):
        said: dict[str, Any] = {"scores": life.scores[t]} if scored else {}
        if scored and world.versioned:
            said["version"] = int(t >= world.rounds // 2)
        decision = agent.rank(available=items, **said)
        order[t] = np.searchsorted(items, decision.ranking)
        if life.answered[t] < world.answering:
            waiting.append((t + world.late, decision, answer(world, life, t, order[t, : world.k])))
        while waiting and waiting[0][0] <= t:
            _, old, told = waiting.popleft()
            agent.update(old, told if scored else told > life.answered[old.round - 1] if world.spread else told)
    if "fit" in getattr(agent.state, "_fields", ()):
        RESTARTS[-1] += int(agent.state.fit[4])
    return losses(life.means, order)


RESTARTS = [0]


def tenths(values: Floats) -> Floats:
    """Return the means of the tenths of runs."""
    found: Floats = values.reshape(len(values), TENTHS, -1).mean(axis=2)
    return found


def of_score(world: World, runs: Sequence[int]) -> Floats:
    """Return the losses of the app's order."""
    worlds = [drawn(world, run) for run in runs]
    return tenths(np.array([losses(w.means, np.argsort(-w.scores, axis=1, kind="stable")) for w in worlds]))


@lru_cache
def of_doubtsort(world: World, runs: tuple[int, ...]) -> Floats:
    """Return the losses of doubtsort, which does not see the scores."""
    return tenths(np.array([play(DoubtSort(DCG()), world, run, scored=False) for run in runs]))


def spread(values: Floats, digits: int = 3) -> str:
    """Format mean and standard error over runs."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"


def row(world: World, runs: tuple[int, ...]) -> list[str]:
    """Compare mixed with the score alone, and with doubtsort."""
    RESTARTS.append(0)
    alone = of_score(world, runs)
    mixed = tenths(np.array([play(learner_named(world.option), world, run, scored=True) for run in runs]))
    kind = world.kind if world.kind == "drawn anew" else ""
    plain = replace(world, rho=0.0, kind=kind, option="mixed")
    doubt = of_doubtsort(plain, runs)
    excess = mixed - alone
    worst = int(np.argmax(excess.mean(axis=0)))
    informative = abs(world.rho) >= 0.3 and world.kind not in ("reversed", "constant")
    cells = [
        spread(alone.mean(axis=1)), spread(mixed[:, 0]), spread(mixed[:, -2:].mean(axis=1)),
        spread(excess[:, worst]), f"{excess.max():.3f}", spread(doubt[:, 0]), spread(doubt[:, -2:].mean(axis=1)),
        str(RESTARTS[-1]),
    ]  # fmt: skip
    if informative and excess.mean(axis=0)[worst] > ALLOWED:
        cells[3] = f"**{cells[3]}**"
    if not informative and mixed[:, -3:].mean() > RATIO * doubt[:, -3:].mean():
        cells[2] = f"**{cells[2]}**"
    return [world.name, *cells]


NAMES = [
    "items and score",
    "score alone",
    "mixed, first tenth",
    "last fifth",
    "worst tenth over the score",
    "of any run",
]
NAMES += ["doubtsort, first tenth", "doubtsort, last fifth", "restarts"]
STABLE = [World(N, rho, n=10 if N == 20 else 20) for N in (20, 200, 2000, 20_000) for rho in (0.9, 0.6, 0.3, 0.0)]
KINDS = [
    World(N, rho, kind)
    for kind, rho in (
        ("reversed", 0.6), ("steep", 0.9), ("rescaled", 0.9), ("three values", 0.9), ("constant", 0.9),
        ("flips", 0.9), ("turns useless", 0.9), ("turns useful", 0.9), ("drawn anew", 0.6),
    )
    for N in (200, 2000)
]  # fmt: skip
ANSWERS = [
    World(N, rho, **options)
    for options in (
        {"k": 3}, {"answering": 0.2}, {"answering": 0.05}, {"k": 3, "answering": 0.2}, {"spread": 0.1},
        {"late": 1000},
    )
    for N in (200, 2000)
    for rho in (0.9, 0.6)
]  # fmt: skip
OPTIONS = [
    replace(world, option=option)
    for option in ("mixed:safe=true", "mixed:floor=0.005,earned=0.5")
    for world in (World(20, 0.6, n=20), *(World(N, rho) for N in (200, 2000) for rho in (0.9, 0.6, 0.0)))
]
OTHERS = [World(20, 0.6, n=20), World(20, 0.3, n=20), World(2000, 0.6, n=50), World(200, 0.9, n=5)]
MARKS = {"loses": "more than 0.01 above the score, 1.05 of doubtsort's loss, or 1.1 of the better one's with keys"}
FIXED = {
    "tutorial": (0.6, 0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1),
    "0.9 to 0.05": tuple(np.linspace(0.9, 0.05, 10).round(3).tolist()),
    "steps of 0.02": tuple(np.linspace(0.59, 0.41, 10).round(3).tolist()),
}
LONG, KEYS_RATIO = 20_000, 1.1
TABLES: dict[str, tuple[str, list[World]]] = {
    "stable": ("Stable worlds", STABLE),
    "kinds": ("Scores of other kinds, and change half-way", KINDS),
    "answers": ("Other answers", ANSWERS),
    "options": ("Other ways to pay for exploration", OPTIONS),
    "others": ("Other lists", OTHERS),
}


def fixed_items(runs: tuple[int, ...]) -> records.Table:
    """Compare mixed without a score to doubtsort on ten items that are always available."""
    cells = []
    for label, means in FIXED.items():
        lost = {}
        for name, made in (("mixed", learner_named("mixed")), ("doubtsort", DoubtSort(DCG()))):
            found = []
            for run in runs:
                rounds = stream(f"bernoulli:means={'+'.join(map(str, means))}").rounds(
                    LONG, np.random.default_rng(run)
                )
                end = np.array([LONG])
                trace = simulate(made, rounds, k=1, measure=DCG(), seed=run, checkpoints=end)
                found.append(regret(DCG(), trace, best_values(DCG(), rounds, end))[0] / LONG)
            lost[name] = np.array(found)
        texts = [spread(lost["mixed"], 4), spread(lost["doubtsort"], 4)]
        if lost["mixed"].mean() > RATIO * lost["doubtsort"].mean():
            texts[0] = f"**{texts[0]}**"
        sys.stderr.write(f"{label}: {texts}\n")
        cells.append([label, *map(records.parse_cell, texts)])
    text = f"Loss per list over {LONG:,} rounds against the best fixed order, k = 1, no score."
    return records.Table("Ten fixed items", [text], ["means", "mixed", "doubtsort"], cells, marks=MARKS)


def keys(runs: tuple[int, ...]) -> records.Table:
    """Compare keys in one learner to no keys, and to a doubtsort for each key."""
    cells = []
    for common, own in ((1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.0, 1.0)):
        found = np.array([of_keys(common, own, run) for run in runs])
        texts = [spread(column) for column in found.T]
        if found[:, 0].mean() > KEYS_RATIO * min(found[:, 1].mean(), found[:, 2].mean()):
            texts[0] = f"**{texts[0]}**"
        sys.stderr.write(f"{common}: {texts}\n")
        cells.append([f"{common:g} : {own:g}", *map(records.parse_cell, texts)])
    names = ["variance, common : own", "mixed with keys", "mixed without", "a doubtsort per key"]
    text = f"Mean loss of {ROUNDS:,} lists of 20 items with one of 50 keys each, k = 1, no score."
    return records.Table("Keys", [text], names, cells, marks=MARKS)


def of_keys(common: float, own: float, run: int) -> list[float]:
    """Return the mean losses with keys, without, and with a learner for each key."""
    rng = np.random.default_rng([run, 50])
    z = np.sqrt(common) * rng.standard_normal(20) + np.sqrt(own) * rng.standard_normal((50, 20))
    table, which = 1 / (1 + np.exp(0.5 - 1.2 * z)), rng.integers(50, size=ROUNDS)
    coins, found = rng.random((ROUNDS, 20)), []
    for name in ("mixed:cells=1000", "mixed", "doubtsort:measure=dcg"):
        agents = [
            Agent(learner_named(name), m=20, k=1, seed=1000 * run + j) for j in range(50 if "doubt" in name else 1)
        ]
        order = np.empty((ROUNDS, 20), np.int64)
        for t, key in enumerate(which):
            agent = agents[key % len(agents)]
            decision = agent.rank(key=int(key)) if "cells" in name else agent.rank()
            order[t] = decision.ranking
            first = order[t, 0]
            agent.update(decision, [float(coins[t, first] < table[key, first])])
        found.append(float(losses(table[which], order).mean()))
    return found


def cost(runs: tuple[int, ...]) -> records.Table:
    """Measure the processor time of a list in a simulation, answer and evaluation included: the least of five."""
    cells: list[list[records.Cell]] = []
    for name, items, n, d in (
        ("doubtsort:measure=dcg", 200, 20, 0), ("mixed", 200, 20, 0), ("mixed", 20_000, 20, 0),
        ("mixed:cells=5000", 200, 20, 0), ("mixed", 200, 50, 0), ("mixed", 200, 100, 0), ("mixed", 200, 20, 5),
        ("ridge", 20, 20, 5), ("mixed", 200, 20, 40), ("ridge", 20, 20, 40), ("mixed", 1_000_000, 50, 0),
    ):  # fmt: skip
        rng, T = np.random.default_rng(runs[0]), LONG
        listed = np.sort((rng.integers(items, size=(T, 1)) + np.arange(n) * (items // n)) % items, axis=1).ravel()
        z = rng.standard_normal(items)
        rounds = Rounds(
            rng.standard_normal((T * n, d)).astype(np.float32),
            (rng.random(T * n) < 1 / (1 + np.exp(0.5 - 1.2 * z[listed]))).astype(np.uint8),
            np.arange(0, T * n + 1, n),
            None if name == "ridge" else listed,
            scores=(z + rng.standard_normal(items))[listed],
            keys=rng.integers(50, size=T),
        )
        made, times = learner_named(name), []
        for count in (100, *[T] * 5):
            start = time.process_time()
            simulate(made, rounds, k=1, measure=DCG(), sequence=np.arange(count))
            times.append((time.process_time() - start) / count * 1e6)
        sys.stderr.write(f"{name} {items} {n} {d}: {min(times[1:]):.1f}\n")
        cells.append([f"`{name}`", items, n, d, round(min(times[1:]), 1)])
    text = "Processor time of a list in `simulate`, learning from one answer included; mixed gets scores."
    return records.Table("Time of a list", [text], ["learner", "items", "in a list", "features", "µs"], cells)


def table(name: str, runs: tuple[int, ...]) -> records.Table:
    """Measure all worlds of a table."""
    title, worlds = TABLES[name]
    cells = []
    for world in worlds:
        found = row(world, runs)
        sys.stderr.write(f"{' | '.join(found)}\n")
        cells.append([records.parse_cell(cell) for cell in found])
    return records.Table(title, [], NAMES, cells, marks=MARKS)


OWN: dict[str, Callable[[tuple[int, ...]], records.Table]] = {"fixed": fixed_items, "keys": keys, "cost": cost}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or write each into the record."""
    parser = argparse.ArgumentParser(description="Mixed beside a score and doubtsort.")
    parser.add_argument(
        "tables", nargs="*", choices=[*TABLES, *OWN, []], help="which of them; all if none is named"
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--first", type=int, default=FIRST)
    records.add_option(parser, "mixed")
    options = parser.parse_args(arguments)
    runs = tuple(range(options.first, options.first + options.runs))
    for name in options.tables or [*TABLES, *OWN]:
        found = OWN[name](runs) if name in OWN else table(name, runs)
        if options.record:
            records.update(options.record, [found], title="mixed beside a score")
        else:
            print(records.show([found]))


if __name__ == "__main__":
    main()
