"""The minimax rate of a ranking game, by theorem or, for a small game, from the definitions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from peekrank.games.feedback import Feedback, feedback_theorem
from peekrank.games.rates import Rate, Verdict
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

if TYPE_CHECKING:
    from peekrank.games.analysis import Analysis
    from peekrank.games.cells import Cells

_QUICK = 4_000  # entries of a loss matrix that the definitions handle within a second or two
_REASONS = {
    Rate.ZERO: "all rankings have the same value",
    Rate.SQRT: "good rankings alone reveal everything a learner needs",
    Rate.TWO_THIRDS: "comparing some good rankings requires showing worse ones",
    Rate.LINEAR: "no sequence of rankings can compare some of the good ones",
}


def rate_of(measure: Measure | str, m: int, k: int, grades: int = 2, feedback: Feedback = "answers") -> Verdict:
    """Return the growth rate of the minimax regret if the relevance of the first k of m items is revealed.

    Theorems cover all measures of this package and every user-defined measure that is linear and separable. For
    any other measure, the function analyses the game from the definitions if the game is small (up to five items
    for binary relevance) and its values are simple fractions. Otherwise the verdict has no rate.

    Parameters
    ----------
    measure
        A measure, or its name. Constant offsets and a division by n cancel in regret.
    m
        Number of items.
    k
        Number of revealed positions, 1 to m.
    grades
        Number of relevance grades: 2 for binary relevance, g for grades 0 to g - 1.
    feedback
        Kind of feedback on the first k items: "answers" (the relevance of each), "order", "choice", "first", "sum"
        or "any" (docs/games/feedback.md).

    >>> rate_of("dcg@10", m=1_000_000, k=10).rate.value
    'sqrt(T)'
    >>> rate_of("ndcg@10", m=1_000_000, k=10).rate.exponent
    1.0
    >>> [rate_of("dcg", m=10, k=k, feedback="sum").rate.value for k in (9, 10)]
    ['T^(2/3)', 'T']
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    proved = feedback_theorem(measure, m, k, grades, feedback)
    if proved.rate is not None:
        return proved
    from peekrank.games.rate_table import sensible_source  # loads exact arithmetic, which advice rarely needs

    if sensible_source(m, grades, _QUICK) == "theorem":
        return Verdict(None, "undecided", f"{proved.reason} Its game is too large to analyse.")
    try:
        analysis = _analyse(measure, m, k, grades, feedback, _cells(measure, m, grades))
    except ValueError as error:
        return Verdict(None, "undecided", f"{proved.reason} Analysing its game failed: {error}.")
    if analysis.rate is None:
        return Verdict(None, "undecided", f"{proved.reason} The definitions leave it open: {analysis.undecided}.")
    return Verdict(analysis.rate, "definitions", f"Computed for these sizes: {_REASONS[analysis.rate]}.")


@lru_cache(maxsize=16)
def _cells(measure: Measure, m: int, grades: int) -> Cells | None:
    """Return the cells, which the games of all k and kinds of feedback share, or None if they are undecided."""
    return _analyse(measure, m, 1, grades, "answers").cells


def _analyse(
    measure: Measure, m: int, k: int, grades: int, feedback: Feedback, known: Cells | None = None
) -> Analysis:
    from peekrank.games.analysis import analyse
    from peekrank.games.ranking import ranking_game

    return analyse(ranking_game(measure, m, k, grades, feedback), known)
