"""The rate of a ranking game: by theorem where one covers it, otherwise from the definitions where it is small."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from peekrank.games.rate import Rate, Verdict
from peekrank.games.theorems import theorem_of
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

if TYPE_CHECKING:
    from peekrank.games.analysis import Analysis
    from peekrank.games.cells import Cells

_QUICK = 4_000  # numbers in a loss matrix that the definitions take a second or two for
_FOUND = {
    Rate.ZERO: "all rankings have the same value",
    Rate.SQRT: "good rankings alone show all that must be known",
    Rate.TWO_THIRDS: "some good rankings can only be compared by showing worse ones",
    Rate.LINEAR: "some good rankings cannot be compared, whatever is shown",
}


def rate_of(measure: Measure | str, m: int, k: int, grades: int = 2) -> Verdict:
    """Growth of the minimax regret when the answers for the first k of m items are seen.

    A theorem says it for all measures of this package and for those of your own that are linear and separable. The
    game of any other is worked out from the definitions if it is small, up to five items for binary relevance, and
    its values are simple fractions. Else the rate is not known.

    Parameters
    ----------
    measure
        A measure, or its name. How it scores lists, and whether it divides by n, cancels in regret.
    m
        Number of items.
    k
        Positions revealed, 1 to m.
    grades
        Number of relevance grades: 2 for binary relevance, g for grades 0 to g - 1.

    >>> rate_of("dcg@10", m=1_000_000, k=10).rate.value
    'sqrt(T)'
    >>> rate_of("ndcg@10", m=1_000_000, k=10).rate.exponent
    1.0
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    proved = theorem_of(measure, m, k, grades)
    if proved.rate is not None:
        return proved
    from peekrank.games.rate_table import sensible_source  # with exact arithmetic, which advice rarely needs

    if sensible_source(m, grades, _QUICK) == "theorem":
        return Verdict(None, "undecided", f"{proved.reason} Its game is too large to be worked out.")
    try:
        found = _worked_out(measure, m, k, grades, _cells(measure, m, grades))
    except ValueError as error:
        return Verdict(None, "undecided", f"{proved.reason} Nor can its game be worked out: {error}.")
    if found.rate is None:
        return Verdict(None, "undecided", f"{proved.reason} The definitions leave it open: {found.undecided}.")
    return Verdict(found.rate, "definitions", f"Worked out for these sizes: {_FOUND[found.rate]}.")


@lru_cache(maxsize=16)
def _cells(measure: Measure, m: int, grades: int) -> Cells | None:
    """The cells of the games for every k; None where they are undecided."""
    return _worked_out(measure, m, 1, grades).cells


def _worked_out(measure: Measure, m: int, k: int, grades: int, known: Cells | None = None) -> Analysis:
    from peekrank.games.analysis import analyse
    from peekrank.games.ranking import ranking_game

    return analyse(ranking_game(measure, m, k, grades), known)
