"""Comparison of proved bounds, as on our pages."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, log, sqrt

import polars as pl

from peekrank.learners import learner
from peekrank.measures import measure
from peekrank.papers.record import Claim, Options, Results
from peekrank.reports.markup import Table
from peekrank.types import Shape

SHORT, LONG, LONGEST = 10_000, 10**6, 10**9
CASES = (  # learner, measure, horizon; ten items and one answer
    ("rtop1f", "dcg", SHORT),
    ("blockftrl", "dcg", SHORT),
    ("blockftrl", "dcg", LONGEST),
    ("blockftrl:horizon=none", "dcg", LONGEST),
    ("nw2", "p@2+sum", LONG),
    ("setftrl", "p@2+sum", LONG),
    ("setftrl:horizon=none", "p@2+sum", LONG),
)
M, K = 10, 1
NEAR = 0.01  # relative tolerance of a quotient

Found = dict[tuple[str, str, int], float]


def reproduce(options: Options) -> Results:  # noqa: ARG001 - nothing random
    """Compare the bounds of the learners."""
    found = {case: bound(*case) for case in CASES}
    rows = [
        (f"`{name}`", f"`{judge}`", f"{horizon:,}", f"{b:,.0f}") for (name, judge, horizon), b in found.items()
    ]
    data = pl.DataFrame(
        [{"learner": n, "measure": j, "rounds": t, "bound": b} for (n, j, t), b in found.items()],
    )
    table = Table(("learner", "measure", "rounds", f"bound, m = {M}, k = {K}"), rows)
    return Results(list(claims(found)), {"bounds": table}, data={"bounds": data})


def bound(name: str, measure_name: str, horizon: int) -> float:
    """Return the proved bound of a learner.

    >>> round(bound("setftrl", "p@2+sum", 10_000))
    1389
    """
    bounded = learner(name, measure=measure(measure_name), horizon=horizon)
    proved = bounded.bound(Shape(M, 0, K), horizon)
    if proved is None:
        raise ValueError(f"{name} has no bound for {measure_name} with {horizon:,} rounds")
    return proved


def claims(found: Found) -> Iterator[Claim]:
    """Yield the claims of our pages on quotients of bounds."""
    block, rtop1f = found["blockftrl", "dcg", SHORT], found["rtop1f", "dcg", SHORT]
    yield Claim(
        f"`blockftrl` against `rtop1f`, `dcg`, {SHORT:,} rounds",
        "a sixth at most",
        f"{block:,.0f} against {rtop1f:,.0f}: {block / rtop1f:.3f}",
        block / rtop1f <= 1 / 6,
    )
    yield _about(
        f"`blockftrl` without a horizon against one that has it, `dcg`, {LONGEST:,} rounds",
        "(3/2)^(2/3)", 1.5 ** (2 / 3),
        found["blockftrl:horizon=none", "dcg", LONGEST] / found["blockftrl", "dcg", LONGEST],
    )  # fmt: skip
    yield _about(
        f"`setftrl` without a horizon against one that has it, `p@2+sum`, {LONG:,} rounds",
        "sqrt(2)", sqrt(2), found["setftrl:horizon=none", "p@2+sum", LONG] / found["setftrl", "p@2+sum", LONG],
    )  # fmt: skip
    sets, nw2 = found["setftrl", "p@2+sum", LONG], found["nw2", "p@2+sum", LONG]
    yield Claim(
        f"`setftrl`, `p@2+sum`, {LONG:,} rounds: below 2 sqrt(2) n sqrt(m T/k)",
        f"{2 * sqrt(2) * 2 * sqrt(M * LONG / K):,.0f} at most",
        f"{sets:,.0f}",
        sets <= 2 * sqrt(2) * 2 * sqrt(M * LONG / K),
    )
    actions = 2 * comb(M, 2)
    printed = actions * 16 * M * sqrt(LONG * log(actions))
    yield Claim(
        f"`nw2` against what ZT Theorem 14 prints, n C(m, n) 16 m sqrt(T log K), `p@2+sum`, {LONG:,} rounds",
        "below an eightieth",
        f"{nw2:,.0f} against {printed:,.0f}: 1/{printed / nw2:.0f}",
        nw2 < printed / 80,
    )
    yield Claim(
        f"`setftrl` against `nw2`, `p@2+sum`, {LONG:,} rounds",
        "below a twentieth",
        f"{sets:,.0f} against {nw2:,.0f}: 1/{nw2 / sets:.0f}",
        sets < nw2 / 20,
    )


def _about(what: str, words: str, target: float, here: float) -> Claim:
    return Claim(what, f"{words} = {target:.3f}, ± {NEAR:.0%}", f"{here:.3f}", abs(here / target - 1) <= NEAR)
