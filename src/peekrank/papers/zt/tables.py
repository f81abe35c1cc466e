"""ZT Tables 1 to 4: loss differences of neighbours, and rows of their signal matrices, by group.

A group holds the four outcomes that differ only in two items a and b, in the order 00, 01, 10, 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np
import polars as pl

from peekrank.games.analysis import analyse
from peekrank.games.cells import Border
from peekrank.games.game import Game
from peekrank.games.observability import signals, unobservable_change
from peekrank.games.ranking import ranking_game
from peekrank.papers.definitions import MAX_ITEMS, STRICT, Row, groups, types_of_rows
from peekrank.papers.record import Claim, Options, Results, count
from peekrank.reports.markup import Table

ZEROS, ONES = (0, 0, 0, 0), (1, 1, 1, 1)
ONE_OF_TWO = {(1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0), (0, 1, 0, 1)}
PRINTED: dict[int, set[Row]] = {
    1: {ONES, ZEROS},
    2: {(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), ZEROS},
    3: {*ONE_OF_TWO, ZEROS},
    4: {*ONE_OF_TWO, ZEROS},
}
ABOUT = {
    1: "losses with a strictly increasing f, k = m - 2, the last two items swapped",
    2: "the same, k = m - 1, two items above the last swapped",
    3: "the same, k = m - 1, the last two items swapped",
    4: "P@n, k = 1",
}
_SAME = 1e-12


class Pair(NamedTuple):
    """Two neighbours: their loss difference and signal rows in each group, and whether the rows span it."""

    table: int
    measure: str
    m: int
    differences: list[list[float]]
    rows: list[set[Row]]
    spanned: bool

    @property
    def opposite(self) -> bool:
        """Whether the difference is 0, d, -d, 0 in every group, d > 0."""
        return all(d[1] > _SAME and np.allclose(d, [0, d[1], -d[1], 0], atol=_SAME) for d in self.differences)


def reproduce(options: Options) -> Results:
    """Check all neighbours of the first ranking."""
    found = list(pairs(MAX_ITEMS[options.quick], options))
    shown = {
        n: next(p for p in reversed(found) if p.table == n and p.measure in ("sumloss", "p@2+sum"))
        for n in PRINTED
    }
    data = pl.DataFrame(
        [
            {"table": p.table, "measure": p.measure, "m": p.m, "rows": " ".join(map(_word, _in_order(p.rows[0])))}
            for p in found
        ]
    )
    return Results(list(claims(found)), {f"table-{n}": _table(p) for n, p in shown.items()}, data={"rows": data})


def pairs(max_m: int, options: Options) -> Iterator[Pair]:
    """Yield the pairs of every measure, with at least three items, or two for P@n."""
    cases = [(name, m) for m in range(2, max_m + 1) for name in _measures(m)]
    for n, (name, m) in enumerate(cases):
        cells = analyse(ranking_game(name, m, 1), progress=options.part(n, len(cases)).progress).cells
        orders = list(permutations(range(m)))
        for border in cells.borders if cells is not None else ():
            if name in STRICT:
                a = next(p for p in range(m) if orders[border.j][p] != p)
                last = a == m - 2
                yield _pair(3 if last else 2, ranking_game(name, m, m - 1), border, name, m, (a, a + 1))
                if last:
                    yield _pair(1, ranking_game(name, m, m - 2), border, name, m, (a, a + 1))
            else:
                size = int(name.removeprefix("p@").removesuffix("+sum"))
                top, other = set(range(size)), set(orders[border.j][:size])
                (out,), (new,) = top - other, other - top
                yield _pair(4, ranking_game(name, m, 1), border, name, m, (out, new))


def claims(found: list[Pair]) -> Iterator[Claim]:
    """Yield claims on the printed rows, and on the paper's conclusion from each table."""
    for n, printed in PRINTED.items():
        mine = [p for p in found if p.table == n]
        span = f"m = {min(p.m for p in mine)} to {max(p.m for p in mine)}"
        right = [p.opposite and (n < 4 or all(d[1] == 1 for d in p.differences)) for p in mine]
        yield Claim(
            f"Table {n} ({ABOUT[n]}), {span}: difference of losses in a group",
            "0, d, -d, 0 with d > 0" if n < 4 else "0, 1, -1, 0",
            f"so in {count(sum(right), len(right))} pairs",
            all(right),
        )
        wrong = [p for p in mine if any(rows != printed for rows in p.rows)]
        here = f"exactly these in {count(len(mine) - len(wrong), len(mine))} pairs"
        if wrong:
            others = next(rows for rows in wrong[0].rows if rows != printed)
            here += f"; for {wrong[0].measure} at m = {wrong[0].m} {_difference(printed, others)}"
        yield Claim(f"Table {n}, {span}: types of rows of S in a group", _words(printed), here, not wrong)
        inside = sum(p.spanned for p in mine)
        yield Claim(
            f"Table {n}, {span}: the difference is {'not ' if n == 1 else ''}in the span of the rows",
            "in no pair" if n == 1 else "in all pairs",
            f"in {count(inside, len(mine))}",
            inside == (0 if n == 1 else len(mine)),
        )


def _measures(m: int) -> list[str]:
    return [*(STRICT if m > 2 else ()), *(f"p@{n}+sum" for n in range(1, m))]


def _pair(table: int, game: Game, border: Border, name: str, m: int, items: tuple[int, int]) -> Pair:
    difference = game.loss[border.i] - game.loss[border.j]
    spanned = (
        unobservable_change(game, game.difference(border.i, border.j), signals(game, border.neighborhood)) is None
    )
    mine = groups(m, *items)
    rows = [types_of_rows(game, border.neighborhood, group) for group in mine]
    return Pair(table, name, m, [difference[group].tolist() for group in mine], rows, spanned)


def _table(pair: Pair) -> Table:
    heads = (f"{pair.measure}, m = {pair.m}", *(f"R(a) = {x}, R(b) = {y}" for x in (0, 1) for y in (0, 1)))
    difference = [f"{x + 0.0:.3g}" for x in np.round(pair.differences[0], 12)]
    return Table(
        heads, [("difference of losses", *difference), *(("row of S", *r) for r in _in_order(pair.rows[0]))]
    )


def _difference(printed: set[Row], here: set[Row]) -> str:
    parts = [
        f"{word} {_words(rows)}" for word, rows in (("not", printed - here), ("also", here - printed)) if rows
    ]
    return ", ".join(parts)


def _words(rows: set[Row]) -> str:
    return ", ".join(map(_word, _in_order(rows)))


def _word(row: Row) -> str:
    return "".join(map(str, row))


def _in_order(rows: set[Row]) -> list[Row]:
    return sorted(rows, reverse=True)
