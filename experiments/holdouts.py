"""Measure holdouts: lists until a verdict, and how often a verdict is wrong if visitors come back.

    python experiments/holdouts.py lists --record       200 tests per row
    python experiments/holdouts.py visitors --record    10,000 logs per row

Run r of a row has seed r. We look after every list, or after every visitor, and stop when an interval that holds
at all times excludes 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import log
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
from peekrank.evaluation.holdout import (
    MAX_VISITS,
    TOTALS,
    mix_orders,
    observe_cluster,
    observe_plain,
)
from peekrank.kernels.confidence import Interval, log_evidence
from peekrank.kernels.philox import fill_uniforms
from peekrank.types import Floats, Ints

N, TESTS, LISTS, LOGS, VISITORS, MOST = 10, 200, 40_000, 10_000, 500, 20
SHARE, EXPLORED = 0.05, 0.1
SWAP, TOP, NOISE = range(3)  # how the app's order differs from the best one
ORDERS = {SWAP: "items 1 and 4 swapped", TOP: "the first three reversed", NOISE: "means with noise"}
TASTES = {1.0: "changes with each visit", 0.5: "changes with every second visit", 0.0: "stays"}


class Statistics(NamedTuple):
    """Answers so far, and what they say."""

    sums: Floats  # of gains, by item
    counts: Floats
    overall: Floats
    totals: Floats
    difference: Interval
    plain: Interval
    predicted: Floats
    space: Floats


def statistics(n: int) -> Statistics:
    """Return the statistics before the first list."""
    return Statistics(
        np.zeros(n), np.zeros(n), np.array([0.5, 1.0]), np.zeros(TOTALS), Interval.fresh(1.0, growing=True),
        Interval.fresh(1.0, growing=True), np.zeros(n), np.empty((2, 16)),
    )  # fmt: skip


@kernel
def add(
    s: Statistics, difference: Floats, propensity: Floats, k: int, rows: Ints, gains: Floats, visits: int
) -> None:
    """Add the visits of a cluster, as `HoldoutEvidence` does."""
    average = min(s.overall[0] / s.overall[1], 1.0)
    for i in range(len(difference)):
        s.predicted[i] = min((s.sums[i] + average) / (s.counts[i] + 1), 1.0)
    observe_cluster(
        difference, propensity, s.predicted, 1.0, k, rows, gains, visits, s.totals, s.difference, s.space
    )


@kernel
def learn(s: Statistics, rows: Ints, gains: Floats) -> None:
    """Add answers to what predicts the next ones."""
    for j in range(len(rows)):
        s.sums[rows[j]] += gains[j]
        s.counts[rows[j]] += 1
        s.overall[0] += gains[j]
        s.overall[1] += 1


@kernel
def decided(interval: Interval, alpha: float) -> int:
    """Return the sign with which the interval excludes 0, or 0."""
    needed = log(2 / alpha)
    return int(log_evidence(interval.below, 0.0) >= needed) - int(log_evidence(interval.above, 0.0) >= needed)


@kernel
def visitors(key: int, changes: float, liking: float, alpha: float, ways: tuple[Statistics, ...], u: Floats,
             rows: Ints, gains: Floats, d: Floats, p: Floats, decisions: Ints) -> None:  # fmt: skip
    """Simulate a log of visitors, each of whom sees one of two items at all visits.

    `ways` are clusters, visits as if they were independent, and first visits only; `decisions` are filled with the
    number of visitors until each excludes 0.
    """
    for visitor in range(VISITORS):
        fill_uniforms(key, visitor, u)
        shown, taste, count = int(u[0] < 0.5), u[1] < liking, 0
        while True:
            if count > 0 and u[2 + 4 * count] < changes:
                taste = u[3 + 4 * count] < liking
            rows[count] = shown
            gains[count] = 1.0 if u[4 + 4 * count] < (0.9 if taste == (shown == 0) else 0.1) else 0.0
            count += 1
            if count == MOST or u[1 + 4 * count] < 0.2:
                break
        some = min(count, MAX_VISITS)
        for w in range(3):
            s = ways[w]
            if w == 1:
                for visit in range(count):
                    add(s, d, p, 1, rows[visit : visit + 1], gains[visit : visit + 1], 1)
                    learn(s, rows[visit : visit + 1], gains[visit : visit + 1])
                    if decisions[w] == 0 and decided(s.difference, alpha) != 0:
                        decisions[w] = visitor + 1
            else:
                last = some if w == 0 else 1
                add(s, d, p, 1, rows[:last], gains[:last], last)
                learn(s, rows[:last], gains[:last])
                if decisions[w] == 0 and decided(s.difference, alpha) != 0:
                    decisions[w] = visitor + 1


def logs_of_visitors(logs: int) -> records.Table:
    """Count the logs in which the interval ever excluded 0 although nothing differs, and measure the speed."""
    rows: list[list[records.Cell]] = []
    half, d = np.array([0.5, 0.5]), np.array([1.0, -1.0])
    u, shown, gains = np.empty(4 * MOST + 4), np.zeros(MOST, np.int64), np.zeros(MOST)
    for changes, name in TASTES.items():
        found = []
        for liking, count in ((0.5, logs), (0.59375, max(1, logs // 50))):
            table = np.zeros((count, 3), np.int64)
            for seed in range(count):
                ways = (statistics(2), statistics(2), statistics(2))
                visitors(seed, changes, liking, 0.05, ways, u, shown, gains, d, half, table[seed])
            found.append(table)
        wrong, decided_after = (found[0] > 0).mean(0), np.where(found[1] > 0, found[1], VISITORS + 1)
        medians = np.median(decided_after, axis=0)
        cells: list[records.Cell] = [records.Figure(round(100 * float(share), 2), digits=2) for share in wrong]
        cells += [round(float(medians[w])) if medians[w] <= VISITORS else f">{VISITORS}" for w in (0, 2)]
        rows.append([name, *cells])
        sys.stderr.write(f"{rows[-1]}\n")
    columns = ["taste", "clusters: wrong, %", "visits as if independent: wrong, %", "first visits: wrong, %",
               "clusters: visitors", "first visits: visitors"]  # fmt: skip
    runs = (
        f"{logs:,} logs per row, {VISITORS} visitors each with 4.9 visits (at most {MOST}), a look after each; "
        f"visitors until a verdict about a difference of 0.15: medians of {max(1, logs // 50)} logs"
    )
    return records.Table("Visitors who come back", columns=columns, rows=rows, runs=runs)


@kernel
def run(key: int, k: int, mixed: bool, share: float, own: Ints, means: Floats, weights: Floats,
        propensity: Floats, expected: Floats, s: Statistics, space: Space, u: Floats, ranking: Ints,
        floats: Floats, out: Floats) -> None:  # fmt: skip
    """Run one holdout. `own` are the ranks in the app's order of the items in the learner's order.

    The learner shows the items in order and, in some lists, a random one from below k at position k. The own
    order, or the mixture, takes a share. `out` gets the lists until the verdict, those of two samples, and both
    signs.
    """
    n = len(own)
    difference, exposure, included, pure = floats[0], floats[1], floats[2], floats[3]
    design, theta = Design(k, mixed, False, 0.0), floats[5]
    fill_difference(weights, own, pure)
    for i in range(n):
        included[i], theta[i] = 1.0, 1.0 if i < k else 0.0
    fill_design(design, pure, own, theta, included, space, exposure)
    for i in range(n):
        difference[i] = expected[i] - weights[own[i]]
        held_chance = exposure[i] if mixed else (1.0 if own[i] < k else 0.0)
        floats[4][i] = (1 - share) * propensity[i] + share * held_chance
    for t in range(LISTS):
        fill_uniforms(key, t, u)
        held = u[0] < share
        for i in range(n):
            ranking[i] = i
        if held and mixed:
            u[n + 4] = 0.0  # in the learner's order
            draw_list(design, pure, own, theta, u[n + 4 : 2 * n + 5], space, exposure, ranking, included)
        elif held:
            for i in range(n):
                ranking[own[i]] = i
        elif u[1] < EXPLORED:
            ranking[k - 1] = k + int(u[2] * (n - k))
        gains = floats[6][:k]
        for p in range(k):
            gains[p] = 1.0 if u[3 + p] < means[ranking[p]] else 0.0
        add(s, difference, floats[4], k, ranking[:k], gains, 1)
        if not mixed:
            observe_plain(weights[:k], gains, 1, 1.0, share, int(held), s.totals, s.plain)
        learn(s, ranking[:k], gains)
        if out[0] == 0 and decided(s.difference, ALPHA / 2) != 0:
            out[0], out[2] = t + 1, decided(s.difference, ALPHA / 2)
        if not mixed and out[1] == 0 and decided(s.plain, ALPHA / 2) != 0:
            out[1], out[3] = t + 1, decided(s.plain, ALPHA / 2)
        if out[0] > 0 and (mixed or out[1] > 0):
            return


ALPHA = 0.05


def own_order(kind: int, means: Floats, seed: int) -> Ints:
    """Return the rank in the app's order of each item in the best order."""
    ranks = np.arange(N)
    if kind == SWAP:
        ranks[[0, 3]] = 3, 0
    elif kind == TOP:
        ranks[:3] = 2, 1, 0
    else:
        noisy = means + np.random.default_rng([27, seed]).normal(0, 0.35, N)
        ranks[np.argsort(-noisy, kind="stable")] = np.arange(N)
    return ranks


def until_verdict(tests: int) -> records.Table:
    """Measure the lists until a verdict, for the estimate over all lists, for two samples, and for a mixture."""
    rows: list[list[records.Cell]] = []
    means = np.linspace(0.8, 0.2, N)
    for k, kind in ((3, SWAP), (3, TOP), (3, NOISE), (1, SWAP)):
        weights = DCG(k).discount(N).astype(float)
        propensity = np.where(np.arange(N) < k, 1.0, EXPLORED / (N - k))
        propensity[k - 1] = 1 - EXPLORED
        top = weights.copy()
        top[k - 1] *= 1 - EXPLORED
        expected = np.where(np.arange(N) < k, top, weights[k - 1] * EXPLORED / (N - k))
        found: dict[bool, list[Floats]] = {False: [], True: []}
        for seed in range(tests):
            own = own_order(kind, means, seed)
            loss = float(means @ (weights - weights[own]))
            for mixed in (False, True):
                share = SHARE if not mixed else equal_share(own, means, weights, expected, k, SHARE * loss)
                out = np.zeros(4)
                run(seed, k, mixed, share, own, means, weights, propensity, expected, statistics(N), make_space(N),
                    np.empty(2 * N + 5), np.empty(N, np.int64), np.zeros((7, N)), out)  # fmt: skip
                found[mixed].append(np.append(out, [np.sign(expected @ means - weights[own] @ means), share]))
        whole, mix = np.array(found[False]), np.array(found[True])
        wrong = [int((table[:, at] * table[:, 4] < 0).sum()) for table, at in ((whole, 2), (whole, 3), (mix, 2))]
        lists = [np.where(part == 0, LISTS, part) for part in (whole[:, 0], whole[:, 1], mix[:, 0])]
        ratio = np.median(lists[1]) / np.median(lists[0])
        rows.append(
            [k, ORDERS[kind], *(_count(part) for part in lists[:2]),
             f"{'>' if np.median(lists[1]) >= LISTS else ''}{ratio:.1f}", _count(lists[2]),
             records.Figure(round(float(np.median(mix[:, 5])), 2), digits=2), sum(wrong)]
        )  # fmt: skip
        sys.stderr.write(f"{rows[-1]}\n")
    columns = ["k", "the app's order", "all lists together", "two samples", "ratio", "mixture",
               "share of the mixture", "wrong signs"]  # fmt: skip
    runs = f"{tests} tests per row: median (90 % quantile) of the lists until a verdict"
    return records.Table("Lists until the verdict of a holdout", columns=columns, rows=rows, runs=runs)


def equal_share(own: Ints, means: Floats, weights: Floats, expected: Floats, k: int, loss: float) -> float:
    """Return the share of mixed lists that costs as much as a holdout, at most one half."""
    best, lost, order = float(means @ weights), [], np.empty(N, np.int64)
    order[own] = np.arange(N)
    for u in (np.arange(400) + 0.5) / 400:
        ranking, _ = mix_orders(expected, order, weights[:k], u)
        lost.append(best - float(weights[:k] @ means[ranking[:k]]))
    mean = float(np.mean(lost))
    return min(0.5, loss / mean) if mean > loss / 0.5 else 0.5


def _count(lists: Floats) -> str:
    median, high = (
        f"{round(v):,}" if v < LISTS else f">{LISTS:,}" for v in (np.median(lists), np.quantile(lists, 0.9))
    )
    return f"{median} ({high})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Lists until the verdict of a holdout, and wrong verdicts.")
    parser.add_argument("part", choices=("lists", "visitors"))
    parser.add_argument("--runs", type=int, help=f"tests per row: {TESTS}, and {LOGS:,} logs for visitors")
    records.add_option(parser, "holdout")
    options = parser.parse_args(arguments)
    if options.part == "lists":
        table = until_verdict(options.runs or TESTS)
    else:
        table = logs_of_visitors(options.runs or LOGS)
    table.command = f"python experiments/holdouts.py {options.part}"
    sys.stdout.write(records.show([table]))
    if options.record:
        records.update(options.record, [table])


if __name__ == "__main__":
    main()
