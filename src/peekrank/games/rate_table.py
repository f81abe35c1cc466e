"""The rates of many ranking games at once: measures against the number of revealed positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any, Literal, NamedTuple

from peekrank._util.validate import check_choice, check_int
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import Progress, part_of, silent
from peekrank.games.ranking import ranking_game
from peekrank.games.rate import Rate, Verdict
from peekrank.games.theorems import theorem_of
from peekrank.measures import ERR
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

Source = Literal["theorem", "definitions", "both"]
_MOST_COLUMNS = 7  # fit into a narrow terminal
_MOST_OUTCOMES = 500  # that are quick

MEANINGS = {
    Rate.ZERO: "trivial: some action is always best, so nothing need be lost",
    Rate.SQRT: "easy: regret can be kept to about sqrt(T), learning along the way",
    Rate.TWO_THIRDS: "hard: regret can be kept to about T^(2/3), if some rounds explore",
    Rate.LINEAR: "hopeless: no learner can do better than regret linear in T",
}


class Cell(NamedTuple):
    """The rate of one game, on which basis, and by which way or ways it was found; no rate means undecided."""

    rate: Rate | None
    basis: Literal["theorem", "certified", "undecided"]
    how: Source


@dataclass(frozen=True)
class Table:
    """Cells by measure and k.

    Parameters
    ----------
    m, grades
        Number of items, and of relevance grades, in all the games.
    measures
        Names of the rows.
    spans
        The k of each column: one, or several successive ones with the same rates.
    cells
        One tuple per measure, with one cell per column.
    """

    m: int
    grades: int
    measures: tuple[str, ...]
    spans: tuple[range, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per cell, for JSON or CSV; its rate holds from ``k`` to ``k_last``.

        >>> tabulate(["dcg@10"], m=1000).rows()[1]
        {'measure': 'dcg@10', 'm': 1000, 'grades': 2, 'k': 10, 'k_last': 1000, 'rate': 'sqrt(T)', 'basis':
        'theorem',
         'how': 'theorem'}
        """
        return [
            {
                "measure": name,
                "m": self.m,
                "grades": self.grades,
                "k": span[0],
                "k_last": span[-1],
                "rate": cell.rate and str(cell.rate),
                "basis": cell.basis,
                "how": cell.how,
            }
            for name, cells in zip(self.measures, self.cells, strict=True)
            for span, cell in zip(self.spans, cells, strict=True)
        ]


def usual_measures(m: int, grades: int = 2) -> tuple[str, ...]:
    """All measures of this package; cut-offs are in the middle of the list, ten at most.

    >>> usual_measures(5)
    ('p@3+sum', 'dcg@3', 'dcg', 'rbp', 'sumloss', 'pairwiseloss', 'aucloss', 'hit@3', 'rr', 'err', 'recall@3', 'ap',
     'ndcg@3', 'ndcg')
    """
    n = min(10, (m + 1) // 2)
    err = str(ERR(max_grade=max(ERR().max_grade, grades - 1)))
    by_item = (f"p@{n}+sum", f"dcg@{n}", "dcg", "rbp", "sumloss", "pairwiseloss", "aucloss")
    return (*by_item, f"hit@{n}", "rr", err, f"recall@{n}", "ap", f"ndcg@{n}", "ndcg")


def tabulate(
    measures: Sequence[Measure | str] | None = None,
    m: int = 5,
    grades: int = 2,
    source: Source = "theorem",
    progress: Progress = silent,
) -> Table:
    """The rates of measures for every k.

    Parameters
    ----------
    measures
        Measures or names; None for the usual ones.
    m
        Items.
    grades
        Number of relevance grades.
    source
        The theorems, which take no time; the definitions, for a handful of items; or both, where a difference is
        an ArithmeticError. A game that the definitions leave undecided is no difference.
    progress
        Called with the number of measures done by the definitions, and of all.

    >>> table = tabulate(["dcg", "ndcg"], m=3, source="both")
    >>> [[str(cell.rate) for cell in row] for row in table.cells]
    [['T^(2/3)', 'sqrt(T)', 'sqrt(T)'], ['T', 'T^(2/3)', 'sqrt(T)']]
    """
    check_int("m", m, 1, 10**9)
    check_int("grades", grades, 2, 256)
    check_choice("source", source, Source)
    given = usual_measures(m, grades) if measures is None else measures
    judges = [measure_named(judge) if isinstance(judge, str) else judge for judge in given]
    if source != "theorem" or m <= _MOST_COLUMNS:
        spans = [range(k, k + 1) for k in range(1, m + 1)]
    else:
        spans = list(_spans(m, lambda k: [theorem_of(judge, m, k, grades)[:2] for judge in judges]))
    rows: list[tuple[Cell, ...]] = []
    for judge in judges:
        proved = [theorem_of(judge, m, span[0], grades) if source != "definitions" else None for span in spans]
        found: Sequence[Analysis | None] = [None] * len(spans)
        if source != "theorem":
            found = _analyses(judge, m, grades, part_of(progress, len(rows), len(judges)))
        problems = [f"{judge}, m = {m}, k = {span[0]}, grades = {grades}" for span in spans]
        rows.append(tuple(map(settle, problems, proved, found)))
    return Table(m, grades, tuple(map(str, judges)), tuple(spans), tuple(rows))


def settle(problem: str, proved: Verdict | None, found: Analysis | None) -> Cell:
    """What theorem and definitions say of a problem together; they must not differ."""
    if proved is None or proved.rate is None:
        rate = found.rate if found else None
        return Cell(rate, "certified" if rate else "undecided", "definitions" if found else "theorem")
    if found is None or found.rate is None:
        return Cell(proved.rate, "theorem", "theorem")
    if proved.rate != found.rate:
        raise ArithmeticError(
            f"{problem}: the theorem says {proved.rate}, the definitions say {found.rate}; one of the two has a "
            "mistake, please report it"
        )
    return Cell(proved.rate, "theorem", "both")


def sensible_source(m: int, grades: int, most: int) -> Source:
    """Both ways if the game is small, with at most so many numbers in its loss matrix, else the theorem.

    >>> sensible_source(5, 2, most=4000), sensible_source(1000, 2, most=4000)
    ('both', 'theorem')
    """
    small = grades ** min(m, 10) <= _MOST_OUTCOMES and factorial(m) * grades**m <= most
    return "both" if small else "theorem"


def _analyses(judge: Measure, m: int, grades: int, progress: Progress) -> list[Analysis]:
    """The analyses for k = 1, 2, ..., m, which share their cells."""
    found: list[Analysis] = []
    for k in range(1, m + 1):
        known = found[-1].cells if found else None
        found.append(analyse(ranking_game(judge, m, k, grades), known, progress))
    return found


def _spans(m: int, checkpoints: Callable[[int], object]) -> Iterator[range]:
    """Runs of k with equal values; as rates only fall with k, equal ones are together."""
    k = 1
    while k <= m:
        span = _equal(range(k, m + 1), checkpoints)
        yield span
        k = span.stop


def _equal(ks: range, checkpoints: Callable[[int], object]) -> range:
    value = checkpoints(ks[0])
    return ks[: bisect_left(ks, 1, key=lambda k: checkpoints(k) != value)]
