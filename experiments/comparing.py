"""Measure how many lists it takes to tell which of two rankers is better.

Two orders of n items come with each visit, and people answer about the first k items shown. A coin shows one
order (A/B), or a mixture of both (union). We look after every list, and stop when a 95 % interval that holds at
all times excludes 0. Run r of a row has seed r.

    python experiments/comparing.py speed --record       200 tests per row: two minutes
    python experiments/comparing.py coverage --record    2,000 comparisons per row: two minutes
    python experiments/comparing.py draft --record       team-draft interleaving against both
    python experiments/comparing.py betting --record     betting intervals in short tests
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import cos, log, pi, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import records

from peekrank import DCG
from peekrank._jit import kernel
from peekrank.evaluation.comparison.designs import (
    Design,
    Space,
    draw_list,
    fill_design,
    fill_difference,
    make_space,
)
from peekrank.evaluation.comparison.evidence import (
    COUNT,
    SCALE,
    SQUARES,
    SUM,
    Evidence,
    Work,
    fill_spread,
    make_evidence,
    make_work,
    observe_list,
    observe_value,
)
from peekrank.evaluation.comparison.forecast import forecast
from peekrank.evaluation.comparison.settings import Settings
from peekrank.kernels.confidence import Interval, log_evidence, observe_tightly
from peekrank.kernels.philox import fill_uniforms
from peekrank.kernels.sorting import merge_descending
from peekrank.types import Floats, Ints

TESTS, VISITS, ALPHA = 200, 20_000, 0.05
SWAP, NOISE = 0, 1
LISTS, SIGN, PLAIN_LISTS, PLAIN_SIGN, TRUTH, WRONG = range(6)  # of a result


class World(NamedTuple):
    """Visits: items and the orders of both rankers."""

    n: int
    kind: int  # SWAP: a is the best order, b swaps items 1 and 4. NOISE: both see the means with noise
    per_visit: bool  # means are drawn for each visit, and answers are predicted by the mean of all
    rate: float = 1.0  # probability of each answer
    low: float = 0.2  # means are from low to high
    high: float = 0.8


@kernel
def normal(u: float, v: float) -> float:
    """Return a normal number made of two uniforms (Box and Muller)."""
    return sqrt(-2 * log(1 - u)) * cos(2 * pi * v)


@kernel
def visit(
    world: World, u: Floats, means: Floats, space: Space, scores: Floats, ranks: Ints, rows: Ints, own: Floats
) -> None:
    """Draw a visit: `rows` are the items in the order of a, `ranks` their ranks in b, `own` their means."""
    n, span = world.n, world.high - world.low
    for i in range(n):
        scores[i] = world.low + (0.08 + 0.83 * u[i]) * span if world.per_visit else world.high - span * i / (n - 1)
    merge_descending(scores, rows, space.other)
    for i in range(n):
        means[i] = scores[rows[i]]
    for i in range(n):
        rows[i] = ranks[i] = i
    if world.kind == SWAP:
        last = min(3, n - 1)
        ranks[0], ranks[last] = last, 0
    else:
        for i in range(n):
            scores[i] = means[i] + 0.12 * normal(u[n + i], u[2 * n + i])
        merge_descending(scores, rows, space.other)
        for i in range(n):
            scores[i] = means[i] + 0.35 * normal(u[3 * n + i], u[4 * n + i])
        merge_descending(scores, space.order, space.other)
        for p in range(n):
            space.home[space.order[p]] = p
        for i in range(n):
            ranks[i] = space.home[rows[i]]
    for i in range(n):
        own[i] = means[rows[i]]


@kernel
def decided(interval: Interval, alpha: float) -> int:
    """Return the sign with which the interval excludes 0, or 0."""
    needed = log(2 / alpha)
    return int(log_evidence(interval.below, 0.0) >= needed) - int(log_evidence(interval.above, 0.0) >= needed)


@kernel
def excludes(interval: Interval, mean: float, alpha: float) -> bool:
    """Return whether the interval does not hold a mean."""
    needed = log(2 / alpha)
    return log_evidence(interval.below, mean) >= needed or log_evidence(interval.above, -mean) >= needed


@kernel
def run(
    world: World,
    design: Design,
    weights: Floats,
    theta: Floats,
    e: Evidence,
    work: Work,
    space: Space,
    key: int,
    visits: int,
    stop: bool,
    floats: Floats,
    ints: Ints,
    u: Floats,
    out: Floats,
) -> None:
    """Run one comparison, until it is decided if `stop`, and fill the columns of a result."""
    n, k = world.n, min(design.k, world.n)
    means, scores, difference, exposure = floats[0], floats[1], floats[2], floats[3]
    included, gain, own, nothing = floats[4], floats[5], floats[6], floats[7][:0]
    ranks, rows, ranking, subject = ints[0], ints[1], ints[2], ints[3]
    total, truth = weights.sum(), 0.0
    for t in range(visits):
        fill_uniforms(key, t, u)
        visit(world, u, means, space, scores, ranks, rows, own)
        for i in range(n):
            subject[i] = 0 if world.per_visit else rows[i]
            gain[i] = np.nan
        fill_difference(weights, ranks, difference)
        fill_spread(e, subject, 1.0, included)
        fill_design(design, difference, ranks, theta, included, space, exposure)
        arm = draw_list(design, difference, ranks, theta, u[5 * n :], space, exposure, ranking, included)
        answered, value = 0, 0.0
        for p in range(k):
            row = ranking[p]
            if u[6 * n + 1 + p] < world.rate:
                gain[row] = 1.0 if u[7 * n + 1 + p] < own[row] else 0.0
                value += weights[p] * gain[row]
                answered += 1
        if answered == 0:
            continue
        observe_list(e, subject, difference, exposure, gain, nothing, answered, k, 1.0, total, work)
        for i in range(n):
            truth += difference[i] * own[i]
        out[TRUTH] = truth / e.totals[COUNT]
        if e.totals[SCALE] > 0 and excludes(e.difference, out[TRUTH] / e.totals[SCALE], ALPHA):
            out[WRONG] = 1
        if out[SIGN] == 0:
            out[LISTS], out[SIGN] = t + 1, decided(e.difference, ALPHA)
        if not design.union and out[PLAIN_SIGN] == 0:
            observe_value(e, value * k / answered, arm, 0.0, total * k / answered)
            out[PLAIN_LISTS], out[PLAIN_SIGN] = t + 1, decided(e.check, ALPHA)
        if stop and out[SIGN] != 0 and (design.union or out[PLAIN_SIGN] != 0):
            break


def results(
    world: World, design: Design, seeds: Sequence[int], visits: int = VISITS, *, stop: bool = True
) -> tuple[Floats, float]:
    """Run comparisons. Return a row for each seed, and the ratio of the standard deviation to the difference."""
    n = world.n
    weights = (DCG() if design.outside else DCG(min(design.k, n))).discount(n)
    theta, found, ratios = (np.arange(n) < design.k).astype(np.float64), [], []
    for seed in seeds:
        e, out = make_evidence(1 if world.per_visit else n, 1.0), np.zeros(WRONG + 1)
        run(
            world, design, weights, theta, e, make_work(n), make_space(n), seed, visits, stop,
            np.empty((8, n)), np.empty((4, n), np.int64), np.empty(8 * n + 1), out,
        )  # fmt: skip
        found.append(out)
        mean = e.totals[SUM] / e.totals[COUNT]
        ratios.append(e.totals[SQUARES] / e.totals[COUNT] - mean**2)
    table = np.array(found)
    return table, float(np.sqrt(np.mean(ratios)) / max(abs(table[:, TRUTH].mean()), 1e-9))


def orders(world: World, lists: int) -> Iterator[Ints]:
    """Yield the ranks in b of lists in the order of a."""
    n, space, floats = world.n, make_space(world.n), np.empty((3, world.n))
    for t in range(lists):
        u, ranks = np.empty(5 * n), np.empty((2, n), np.int64)
        fill_uniforms(10**6, t, u)
        visit(world, u, floats[0], space, floats[1], ranks[0], ranks[1], floats[2])
        yield ranks[0]


def _lists(found: Floats) -> str:
    median, high = np.median(found), np.quantile(found, 0.9)
    return " ".join([_count(median), f"({_count(high)})"])


def _count(lists: float) -> str:
    return f"{round(lists):,}" if lists < VISITS else f">{VISITS:,}"


def _named(world: World) -> str:
    kind = "swap of items 1 and 4" if world.kind == SWAP else "both with noise"
    return f"{kind}, {'means per visit' if world.per_visit else 'fixed means'}"


def speed(tests: int) -> records.Table:
    """Measure the lists until a decision, for the plain A/B value, and for coin and union with this estimate."""
    rows: list[list[records.Cell]] = []
    cells = [*product((10, 20), (1, 3, 10), (SWAP, NOISE), (False, True), (1.0,))]
    cells += [*product((10,), (3,), (SWAP, NOISE), (False, True), (0.2,))]
    for n, k, kind, per_visit, rate in cells:
        world = World(n, kind, per_visit, rate)
        coin, _ = results(world, Design(k, union=False, clicks=False, outside=0.0), range(tests))
        union, relative = results(world, Design(k, union=True, clicks=False, outside=0.0), range(tests))
        planned = forecast(Settings(DCG(k), k), orders(world, 2_000)).ratio
        plain, own = np.median(coin[:, PLAIN_LISTS]), np.median(union[:, LISTS])
        ratio = f"{own / plain:.2f}" if plain < VISITS else f"<{own / VISITS:.2f}"
        columns = (coin[:, PLAIN_LISTS], coin[:, LISTS], union[:, LISTS])
        wrong = sum(int((found[:, at] * found[:, TRUTH] < 0).sum()) for found, at in (
            (coin, PLAIN_SIGN), (coin, SIGN), (union, SIGN)))  # fmt: skip
        answers = "" if rate == 1 else f", {rate:.0%} answered"
        numbers = [
            *map(_lists, columns),
            ratio,
            f"{planned:.2f}",
            f"{own / relative**2 * (1 - (1 - rate) ** k):.1f}",
            wrong,
        ]
        rows.append([n, k, _named(world) + answers, *map(records.parse_cell, numbers)])
        sys.stderr.write(f"{rows[-1]}\n")
    heads = [
        "n", "k", "rankers", "A/B, lists", "coin, lists", "union, lists", "union : A/B", "forecast",
        "lists (difference/sd)^2", "wrong signs",
    ]  # fmt: skip
    return records.Table("Lists until a decision", columns=heads, rows=rows, runs=f"{tests} tests per row")


def coverage(comparisons: int, visits: int = 300) -> records.Table:
    """Count the comparisons whose interval ever excluded the mean difference so far, after any list."""
    rows: list[list[records.Cell]] = []
    ends = {"0.5": (0.5, 0.5), "0.02 to 0.1": (0.02, 0.1), "0.9 to 0.98": (0.9, 0.98), "0.2 to 0.8": (0.2, 0.8)}
    for k, (name, (low, high)), (kind, union, outside, rate) in product(
        (1, 2, 3),
        ends.items(),
        ((SWAP, True, 0.0, 1.0), (NOISE, True, 0.1, 1.0), (NOISE, True, 0.0, 0.1), (SWAP, False, 0.0, 0.1)),
    ):
        world, design = World(5, kind, False, rate, low, high), Design(k, union, False, outside)
        found, _ = results(world, design, range(comparisons), visits, stop=False)
        way = f"{'union' if union else 'coin'}{', 0.1 outside' if outside else ''}"
        wrong = 100 * found[:, WRONG].mean()
        rows.append([k, name, way, f"{rate:.0%}", records.Figure(round(float(wrong), 2), digits=2)])
        sys.stderr.write(f"{rows[-1]}\n")
    heads = ["k", "means", "design", "answered", "ever wrong, %"]
    runs = f"{comparisons:,} comparisons per row, {visits} visits each, a look after every list"
    return records.Table("Intervals that were ever wrong", columns=heads, rows=rows, runs=runs)


def team_draft(a: Sequence[int], b: Sequence[int], k: int, coins: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first k items by team-draft interleaving, and the team of each: 1 for a, -1 for b."""
    shown: list[int] = []
    teams = []
    for i in range(k):
        side = coins[i // 2] if i % 2 == 0 else 1 - coins[i // 2]
        shown.append(next(item for item in (a, b)[side] if item not in shown))
        teams.append(1 - 2 * side)
    return shown, teams


def draft(tests: int, visits: int = 5_000) -> records.Table:
    """Count the tests in which team-draft interleaving prefers the worse list, and those of a comparison."""
    rows: list[list[records.Cell]] = []
    cases = {
        4: ((0, 1, 2, 3), (3, 2, 1, 0), (0.9, 0.1, 0.9, 0.3)),
        3: ((0, 1, 2, 3), (1, 3, 2, 0), (0.9, 0.9, 0.1, 0.3)),
    }
    for k, (a, b, means) in cases.items():
        weights, half = DCG(k).discount(4), (k + 1) // 2
        better = float(sum(weights[p] * (means[a[p]] - means[b[p]]) for p in range(4)))
        outcomes = [team_draft(a, b, k, coins) for coins in product((0, 1), repeat=half)]
        credit = float(np.mean([sum(t * means[i] for i, t in zip(*outcome, strict=True)) for outcome in outcomes]))
        lists, signs = [], []
        for seed in range(tests):
            rng, interval = np.random.default_rng([27, seed]), Interval.fresh(half / 2, growing=True)
            count = 0
            while count < visits:
                count += 1
                shown, teams = outcomes[rng.integers(len(outcomes))]
                x = sum(team * float(rng.random() < means[i]) for i, team in zip(shown, teams, strict=True))
                observe_tightly(interval.below, x, -half)
                observe_tightly(interval.above, -x, -half)
                if sign := decided(interval, ALPHA):
                    break
            lists.append(count)
            signs.append(sign)
        rows.append([k, "team draft, credit", *_outcome(better, credit, lists, signs)])
        rank = np.array([b.index(item) for item in a])
        for union in (False, True):
            found = [compared(rank, np.array([means[item] for item in a]), k, seed, visits, union=union)
                     for seed in range(tests)]  # fmt: skip
            way = "Comparison, union" if union else "Comparison, coin"
            rows.append([k, way, *_outcome(better, better, *zip(*found, strict=True))])
    heads = ["k", "way", "difference of DCG@k", "expected", "lists", "right", "wrong"]
    return records.Table("Team-draft interleaving", columns=heads, rows=rows, runs=f"{tests} tests per row")


def compared(ranks: Ints, means: Floats, k: int, seed: int, visits: int, *, union: bool) -> tuple[int, int]:
    """Return the number of lists and the sign of a `Comparison`."""
    from peekrank import Comparison

    comparison, rng = (
        Comparison(DCG(k), k=k, mode="union" if union else "coin", seed=seed),
        np.random.default_rng(seed),
    )
    a, b = [0, 1, 2, 3], np.argsort(ranks).tolist()
    for t in range(visits):
        shown = comparison.rank(a, b)
        comparison.update(shown.event, [float(rng.random() < means[int(item)]) for item in shown.items[:k]])
        verdict = comparison.verdict()
        if verdict.better != "undecided":
            return t + 1, 1 if verdict.better == "a" else -1
    return visits, 0


def betting(tests: int, visits: int = 1_000) -> records.Table:
    """Measure the lists until a decision by betting, which is valid if the difference never changes."""
    from peekrank import Comparison
    from peekrank.evaluation.evaluation import evaluate_log
    from peekrank.evaluation.jsonl import LogWriter
    from peekrank.evaluation.log import read_log
    from peekrank.evaluation.policies import policy

    rows: list[list[records.Cell]] = []
    swapped = [3, 1, 2, 0, *range(4, 10)]
    for n, k, b in ((10, 3, swapped), (10, 10, swapped), (4, 4, [3, 2, 1, 0])):
        means = np.array([0.9, 0.1, 0.9, 0.3]) if n == 4 else np.linspace(0.8, 0.2, n)
        found: list[list[int]] = [[], []]
        for seed in range(tests):
            comparison, rng = Comparison(DCG(k), k=k, seed=seed), np.random.default_rng([27, seed])
            with TemporaryDirectory() as folder:
                path, decided_at = Path(folder, "log.jsonl"), 0
                with LogWriter(path, comparison.settings.name) as writer:
                    for t in range(visits):
                        shown = comparison.rank(range(n), b)
                        event = writer.log_decision(shown.decision, k=k)
                        answers = [float(rng.random() < means[int(item)]) for item in shown.items[:k]]
                        writer.log_feedback(event, answers)
                        comparison.update(shown.event, answers)
                        if decided_at == 0 and comparison.verdict().better != "undecided":
                            decided_at = t + 1
                        if decided_at > 0 and t >= 5 * decided_at:
                            break
                log = read_log(path)
            found[0].append(decided_at or visits)
            for t in (*range(20, len(log.k), 20), visits):
                part = log.select(np.arange(len(log.k)) < t)
                policies = [policy(f"feature:{i}", part, measure=DCG(k), seed=0) for i in (1, 2)]
                low, high = evaluate_log(part, policies, DCG(k), regression="items").differences[0].betting
                if t == visits or not low <= 0 <= high:
                    found[1].append(t)
                    break
        kind = "first and last reversed" if n == 4 else "items 1 and 4 swapped"
        rows.append([n, k, kind, *(records.parse_cell(_lists(np.array(lists))) for lists in found)])
        sys.stderr.write(f"{rows[-1]}\n")
    heads = ["n", "k", "rankers", "union, lists", "union with betting, lists"]
    runs = f"{tests} tests per row; betting looks after every 20 lists"
    return records.Table("Betting intervals in short tests", columns=heads, rows=rows, runs=runs)


def _outcome(better: float, expected: float, lists: Sequence[int], signs: Sequence[int]) -> list[records.Cell]:
    right = np.sign(better)
    counts = [int((np.array(signs) == sign).sum()) for sign in (right, -right)]
    return [round(better, 3), round(float(expected), 3), records.parse_cell(_lists(np.array(lists))), *counts]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Count the lists until a comparison has a verdict.")
    parser.add_argument("part", choices=("speed", "coverage", "draft", "betting"))
    parser.add_argument("--runs", type=int, help="tests per row: 200, and 2,000 for coverage")
    records.add_option(parser, "compare")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[int], records.Table]] = {
        "speed": speed, "coverage": coverage, "draft": draft, "betting": betting,
    }  # fmt: skip
    table = parts[options.part](options.runs or (2_000 if options.part == "coverage" else TESTS))
    table.command = f"python experiments/comparing.py {options.part}"
    sys.stdout.write(records.show([table]))
    if options.record:
        records.update(options.record, [table])


if __name__ == "__main__":
    main()
