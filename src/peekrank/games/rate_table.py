"""Tables of rates: measures against the number of revealed positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial
from typing import Any, Literal, NamedTuple

from peekrank._util.progress import Progress, no_progress, subprogress
from peekrank._util.validate import check_choice, check_int
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.feedback import Feedback, check_feedback, feedback_theorem
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate, Verdict
from peekrank.measures import ERR
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

Source = Literal["theorem", "definitions", "both"]
_MAX_COLUMNS = 7  # that fit into a narrow terminal
_MAX_OUTCOMES = 500  # for a quick analysis

MEANINGS = {
    Rate.ZERO: "trivial: some action is always best, so no regret is necessary",
    Rate.SQRT: "easy: regret of about sqrt(T), without separate exploration",
    Rate.TWO_THIRDS: "hard: regret of about T^(2/3), with some rounds of exploration",
    Rate.LINEAR: "hopeless: no learner has sublinear regret",
}


class Cell(NamedTuple):
    """The rate of one game, its basis, and its source or sources. The rate is None if it is undecided."""

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
        """Return one dictionary per cell, for JSON or CSV. Its rate holds from ``k`` to ``k_last``.

        >>> tabulate(["dcg@10"], m=1000).rows()[1]
        {'measure': 'dcg@10', 'm': 1000, 'grades': 2, 'k': 10, 'k_last': 1000, 'rate': 'sqrt(T)',
         'basis': 'theorem', 'how': 'theorem'}
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
    """Return the names of all measures of this package. Cut-offs are in the middle of the list, at most ten.

    >>> usual_measures(5)
    ('p@3', 'dcg@3', 'dcg', 'rbp', 'sumloss', 'pairwiseloss', 'aucloss', 'hit@3', 'rr', 'err', 'recall@3', 'ap',
     'ndcg@3', 'ndcg')
    """
    n = min(10, (m + 1) // 2)
    err = str(ERR(max_grade=max(ERR().max_grade, grades - 1)))
    by_item = (f"p@{n}", f"dcg@{n}", "dcg", "rbp", "sumloss", "pairwiseloss", "aucloss")
    return (*by_item, f"hit@{n}", "rr", err, f"recall@{n}", "ap", f"ndcg@{n}", "ndcg")


def tabulate(
    measures: Sequence[Measure | str] | None = None,
    m: int = 5,
    grades: int = 2,
    source: Source = "theorem",
    progress: Progress = no_progress,
    feedback: Feedback = "answers",
) -> Table:
    """Tabulate the rates of measures for every k.

    Parameters
    ----------
    measures
        Measures or names; by default all measures of this package (`usual_measures`).
    m
        Number of items.
    grades
        Number of relevance grades.
    source
        "theorem", which takes no time; "definitions", for a handful of items; or "both". A game that the
        definitions leave undecided counts as agreement.
    progress
        Callback that receives the number of measures analysed and the total.
    feedback
        Kind of feedback on the first k items.

    Raises ArithmeticError if theorem and definitions disagree.

    >>> table = tabulate(["dcg", "ndcg"], m=3, source="both")
    >>> [[str(cell.rate) for cell in row] for row in table.cells]
    [['T^(2/3)', 'sqrt(T)', 'sqrt(T)'], ['T', 'T^(2/3)', 'sqrt(T)']]
    """
    check_int("m", m, 1, 10**9)
    check_int("grades", grades, 2, 256)
    check_choice("source", source, Source)
    check_feedback(feedback)
    named = usual_measures(m, grades) if measures is None else measures
    parsed = [measure_named(measure) if isinstance(measure, str) else measure for measure in named]
    if source != "theorem" or m <= _MAX_COLUMNS:
        spans = [range(k, k + 1) for k in range(1, m + 1)]
    else:
        spans = list(
            _spans(
                m,
                _breaks(parsed, m),
                lambda k: [feedback_theorem(one, m, k, grades, feedback)[:2] for one in parsed],
            )
        )
    rows: list[tuple[Cell, ...]] = []
    for measure in parsed:
        proved = [
            feedback_theorem(measure, m, span[0], grades, feedback) if source != "definitions" else None
            for span in spans
        ]
        analyses: Sequence[Analysis | None] = [None] * len(spans)
        if source != "theorem":
            analyses = _analyses(measure, m, grades, feedback, subprogress(progress, len(rows), len(parsed)))
        problems = [f"{measure}, m = {m}, k = {span[0]}, grades = {grades}" for span in spans]
        rows.append(tuple(map(settle, problems, proved, analyses)))
    return Table(m, grades, tuple(map(str, parsed)), tuple(spans), tuple(rows))


def settle(problem: str, proved: Verdict | None, analysis: Analysis | None) -> Cell:
    """Combine theorem and definitions. Raises ArithmeticError if they disagree."""
    if proved is None or proved.rate is None:
        rate = analysis.rate if analysis else None
        return Cell(rate, "certified" if rate else "undecided", "definitions" if analysis else "theorem")
    if analysis is None or analysis.rate is None:
        return Cell(proved.rate, "theorem", "theorem")
    if proved.rate != analysis.rate:
        raise ArithmeticError(
            f"{problem}: the theorem gives {proved.rate}, the definitions give {analysis.rate}; this is a bug in "
            "peekrank, please report it"
        )
    return Cell(proved.rate, "theorem", "both")


def sensible_source(m: int, grades: int, max_entries: int) -> Source:
    """Return "both" if the loss matrix has at most `max_entries` entries, otherwise "theorem".

    >>> sensible_source(5, 2, max_entries=4000), sensible_source(1000, 2, max_entries=4000)
    ('both', 'theorem')
    """
    small = grades ** min(m, 10) <= _MAX_OUTCOMES and factorial(m) * grades**m <= max_entries
    return "both" if small else "theorem"


def _analyses(measure: Measure, m: int, grades: int, feedback: Feedback, progress: Progress) -> list[Analysis]:
    """Analyse the games of k = 1, 2, ..., m, which share their cells."""
    analyses: list[Analysis] = []
    for k in range(1, m + 1):
        known = analyses[-1].cells if analyses else None
        analyses.append(analyse(ranking_game(measure, m, k, grades, feedback), known, progress))
    return analyses


def _spans(m: int, breaks: Iterable[int], rates_at: Callable[[int], object]) -> Iterator[range]:
    """Yield ranges of k with equal rates. From one break to the next, equal ones are adjacent."""
    starts = sorted({1, m + 1, *(k for k in breaks if 1 < k <= m)})
    last = range(1, 1)
    for first, end in pairwise(starts):
        k = first
        while k < end:
            span = _equal(range(k, end), rates_at)
            if last and rates_at(last[0]) == rates_at(k):
                last = range(last[0], span.stop)
            else:
                yield from [last] * bool(last)
                last = span
            k = span.stop
    yield last


def _breaks(measures: Iterable[Measure], m: int) -> set[int]:
    """Return the k from which a rate may change upwards or downwards."""
    cutoffs = {getattr(measure, "cutoff", None) or m for measure in measures}
    return {2, m // 2 + 1, m - 1, m} | cutoffs | {n + 1 for n in cutoffs}


def _equal(ks: range, rates_at: Callable[[int], object]) -> range:
    value = rates_at(ks[0])
    return ks[: bisect_left(ks, 1, key=lambda k: rates_at(k) != value)]
