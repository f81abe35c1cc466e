"""How many lists does it take to know which of two rankers is better?

Two orders of n items come with each visit. A coin shows one of them (A/B), or a mixture of both (union). People answer
about the first k items. We look after every visit, and stop when a 95 % interval that holds at all times excludes 0.

    python experiments/comparing.py speed --record       200 tests per row, seeds 0 to 199: ten minutes
    python experiments/comparing.py coverage --record    2,000 comparisons per row, looked at after each list
    python experiments/comparing.py draft --record       team-draft interleaving where it prefers the worse list
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from math import cos, log, pi, sqrt
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
    Evidence,
    Work,
    fill_spread,
    make_evidence,
    make_work,
    observe_list,
    observe_value,
)
from peekrank.kernels.confidence import Interval, log_evidence
from peekrank.kernels.philox import fill_uniforms
from peekrank.kernels.sorting import merge_descending
from peekrank.types import Floats, Ints

TESTS, VISITS, ALPHA = 200, 20_000, 0.05
SWAP, LOT = 0, 1


class World(NamedTuple):
    """Visits: the items and the rankers' orders."""

    n: int
    kind: int  # SWAP: a is the best order, b swaps two of its items. LOT: both see the means with noise
    first: int
    second: int
    per_visit: bool  # whether means are drawn for each visit
    rate: float  # probability of each answer
    equal: bool  # whether all means are 1/2


@kernel
def normal(u: float, v: float) -> float:
    return sqrt(-2 * log(1 - u)) * cos(2 * pi * v)


@kernel
def visit(world: World, u: Floats, means: Floats, space: Space, scores: Floats, ranks: Ints, rows: Ints) -> None:
    """Draw the means and orders of a visit: rows in the order of a, and their ranks in b."""
    n = world.n
    for i in range(n):
        scores[i] = 0.25 + 0.5 * u[i] if world.per_visit else 0.8 - 0.6 * i / max(n - 1, 1)
    merge_descending(scores, rows, space.other)
    for i in range(n):
        means[i] = scores[rows[i]]
    for i in range(n):
        rows[i] = ranks[i] = i
    if world.kind == SWAP:
        ranks[world.first], ranks[world.second] = world.second, world.first
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
    if world.equal:
        means[:] = 0.5


@kernel
def decided(interval: Interval, alpha: float) -> int:
    """Return the sign that the interval excludes 0 with, or 0."""
    needed = log(2 / alpha)
    return int(log_evidence(interval.below, 0.0) >= needed) - int(log_evidence(interval.above, 0.0) >= needed)


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
    alpha: float,
    floats: Floats,
    ints: Ints,
    uniforms: Floats,
    out: Floats,
) -> None:
    """Run one comparison. `out`: lists and sign by DR, and by A/B, then the sum of true differences."""
    n, k = world.n, min(design.k, world.n)
    means, scores, difference, exposure, included, gain = (
        floats[0],
        floats[1],
        floats[2],
        floats[3],
        floats[4],
        floats[5],
    )
    nothing, values = floats[6][:0], 0.0
    ranks, rows, ranking, subject, position = ints[0], ints[1], ints[2], ints[3], ints[4]
    total = weights.sum()
    for t in range(visits):
        fill_uniforms(key, t, uniforms)
        visit(world, uniforms, means, space, scores, ranks, rows)
        for i in range(n):
            subject[i] = 0 if world.per_visit else rows[i]
        own = means if world.kind == SWAP else scores
        if world.kind == LOT:
            for i in range(n):
                own[i] = means[rows[i]]
        fill_difference(weights, ranks, difference)
        fill_spread(e, subject, 1.0, included)
        fill_design(design, difference, ranks, theta, included, space, exposure)
        arm = draw_list(
            design, difference, ranks, theta, uniforms[5 * n : 6 * n + 1], space, exposure, ranking, included
        )
        answered, value = 0, 0.0
        for p in range(n):
            row = ranking[p]
            position[row] = p
            gain[row] = np.nan
            if p < k and uniforms[6 * n + 1 + p] < world.rate:
                gain[row] = 1.0 if uniforms[7 * n + 1 + p] < own[row] else 0.0
                value += weights[p] * gain[row]
                answered += 1
        for i in range(n):
            out[4] += difference[i] * own[i]
        if answered == 0:
            continue
        observe_list(e, subject, difference, exposure, gain, nothing, answered, k, 1.0, total, work)
        values += 1
        if out[1] == 0:
            out[0], out[1] = t + 1, decided(e.difference, alpha)
        if not design.union and out[3] == 0:
            observe_value(e, value * k / answered, arm, 0.0, total * k / answered)
            out[2], out[3] = t + 1, decided(e.check, alpha)
        if out[1] != 0 and (design.union or out[3] != 0):
            break


def compare(
    world: World, design: Design, seeds: Sequence[int], visits: int = VISITS, alpha: float = ALPHA
) -> Floats:
    """Run comparisons: for each seed, lists and sign by DR and by A/B, and the true difference per list."""
    n, k = world.n, min(design.k, world.n)
    weights = DCG(k).discount(n)
    theta = (np.arange(n) < k).astype(np.float64)
    found = []
    for seed in seeds:
        e = make_evidence(1 if world.per_visit else n, 1.0)
        out = np.zeros(5)
        run(
            world, design, weights, theta, e, make_work(n), make_space(n), seed, visits, alpha,
            np.empty((7, n)), np.empty((5, n), np.int64), np.empty(8 * n + 1), out,
        )  # fmt: skip
        out[4] /= max(out[0], out[2])
        found.append(
            [
                *out,
                e.totals[1] / e.totals[0],
                np.sqrt(e.totals[2] / e.totals[0] - (e.totals[1] / e.totals[0]) ** 2),
                e.totals[4] / e.totals[0],
            ]
        )
    return np.array(found)


if __name__ == "__main__":
    import time

    reps = int(sys.argv[1])
    for n, k, kind, pv in [
        (10, 1, SWAP, 0),
        (10, 1, LOT, 0),
        (10, 3, SWAP, 0),
        (10, 3, SWAP, 1),
        (10, 3, LOT, 0),
        (10, 3, LOT, 1),
        (20, 3, SWAP, 0),
        (20, 3, LOT, 0),
        (10, 10, SWAP, 0),
        (10, 10, LOT, 0),
    ]:
        w = World(n, kind, 0, 3, bool(pv), 1.0, False)
        t0 = time.time()
        c = compare(w, Design(k, False, False, 0.0), range(reps))
        u = compare(w, Design(k, True, False, 0.0), range(reps))
        med = np.median
        print(
            n,
            k,
            kind,
            pv,
            "AB",
            med(c[:, 2]),
            "coin",
            med(c[:, 0]),
            "union",
            med(u[:, 0]),
            "ratio %.2f" % (med(u[:, 0]) / med(c[:, 2])),
            "true",
            c[:, 4].mean().round(3),
            u[:, 4].mean().round(3),
            "rule",
            (med(u[:, 0]) / (u[:, 6].mean() / u[:, 4].mean()) ** 2).round(1),
            (med(u[:, 0]) / (u[:, 7].mean() / u[:, 4].mean())).round(1),
            "wrong",
            (c[:, 1] < 0).mean(),
            (u[:, 1] < 0).mean(),
            (c[:, 3] < 0).mean(),
            "t",
            round(time.time() - t0, 1),
            flush=True,
        )
