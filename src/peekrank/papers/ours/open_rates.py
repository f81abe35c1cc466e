"""Rates that the papers leave open, for NDCG, AP and AUC at every k: our theorems against the definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from peekrank.games.rate_table import tabulate
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

MEASURES = ("ndcg", "ap", "aucloss")
MAX_ITEMS = {True: {2: 4, 3: 3}, False: {2: 6, 3: 4}}  # by `Options.quick` and number of grades
STATEMENTS = {
    ("ndcg", 2): "T for k <= m - 2, T^(2/3) for k = m - 1, sqrt(T) for k = m",
    ("ap", 2): "T for k <= m - 2, T^(2/3) for k = m - 1, sqrt(T) for k = m",
    ("aucloss", 2): "T for k <= m - 2 (m even) or m - 3 (m odd), then T^(2/3), sqrt(T) for k = m",
    ("ndcg", 3): "T for k < m, sqrt(T) for k = m",
    ("ap", 3): "as with two grades",
    ("aucloss", 3): "T for k < m, sqrt(T) for k = m",
}


class Checked(NamedTuple):
    """A game with its rates by theorem and from the definitions."""

    measure: str
    grades: int
    m: int
    k: int
    theorem: Rate | None
    definitions: Rate | None


def reproduce(options: Options) -> Results:
    """Analyse every small game."""
    sizes = [(grades, m) for grades, max_m in MAX_ITEMS[options.quick].items() for m in range(2, max_m + 1)]
    checked = []
    for n, (grades, m) in enumerate(sizes):
        rates = tabulate(MEASURES, m, grades, "definitions", options.part(n, len(sizes)).progress)
        for name, cells in zip(rates.measures, rates.cells, strict=True):
            checked += [
                Checked(name, grades, m, k, theorem_of(name, m, k, grades).rate, cell.rate)
                for k, cell in enumerate(cells, 1)
            ]
    rows = [
        (f"`{name}`", grades, m, ", ".join(str(c.definitions) for c in checked if c[:3] == (name, grades, m)))
        for name in MEASURES
        for grades, m in sizes
    ]
    table = Table(("measure", "grades", "m", "rates for k = 1, ..., m"), rows)
    data = pl.DataFrame(
        [{**c._asdict(), "theorem": str(c.theorem), "definitions": str(c.definitions)} for c in checked]
    )
    return Results(list(claims(checked)), {"rates": table}, data={"rates": data})


def claims(checked: list[Checked]) -> Iterator[Claim]:
    """Yield the claims that theorem and definitions agree."""
    for (name, grades), statement in STATEMENTS.items():
        mine = [c for c in checked if (c.measure, c.grades) == (name, grades)]
        wrong = [c for c in mine if c.theorem is None or c.theorem != c.definitions]
        here = f"{count(len(mine) - len(wrong), len(mine))} games, from the definitions"
        if wrong:
            first = wrong[0]
            here += f"; not m = {first.m}, k = {first.k}: {first.definitions}"
        yield Claim(
            f"`{name}`, {grades} grades, m = 2 to {max(c.m for c in mine)}, every k", statement, here, not wrong
        )
