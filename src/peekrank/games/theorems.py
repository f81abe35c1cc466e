"""The rate of every ranking game in closed form.

What k answers can tell of two rankings is decided by the terms of their loss difference, one for each set of
items: a term on more than k items can never be estimated. The proofs are on the page docs/games/rates.md.
"""

from __future__ import annotations

from peekrank._util.validate import whole
from peekrank.games.rate import Rate, Verdict
from peekrank.measures import AUC, DCG, NDCG, AveragePrecision, PairwiseLoss, Precision, SumLoss
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

_PROVED = (SumLoss, PairwiseLoss, DCG, Precision, NDCG, AveragePrecision, AUC)


def rate_of(measure: Measure | str, m: int, k: int, grades: int = 2) -> Verdict:
    """Growth of the minimax regret when the answers for the first k of m items are seen, by theorem.

    Parameters
    ----------
    measure
        A measure, or its name. How it scores blank lists, and whether it divides by n, cancels in regret.
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
    whole("m", m, 1)
    whole("k", k, 1, int(m))
    whole("grades", grades, 2)
    m, k, grades = int(m), int(k), int(grades)
    if type(measure) not in _PROVED:
        name = type(measure).__name__
        why = f"No theorem on docs/games/rates.md covers {name}; its game must be analysed by itself."
        return Verdict(None, "undecided", why)
    if m == 1 or (isinstance(measure, Precision) and measure.n >= m):
        return _proved(Rate.ZERO, "All rankings have the same value, so there is nothing to lose", 3)
    if k == m:
        return _proved(Rate.SQRT, "Every answer is seen, so any two rankings can be compared after each round", 1)
    match measure:
        case SumLoss() | DCG() | Precision():
            return _plateau(str(measure), _last_but_one_plateau(measure, m), k)
        case PairwiseLoss():
            if grades == 2:
                return _plateau(f"{measure} (the sum of ranks, for binary relevance)", m - 1, k)
            return _graded_pairs(k)
        case NDCG():
            if grades > 2:
                return _everything_needed(measure, 8)
            if measure.n == 1:
                return _plateau(f"{measure} (which is p@1 for binary relevance)", 1, k)
            return _normalised(measure, 5, needed=m - 1, m=m, k=k)
        case AUC():
            if grades > 2:
                return _everything_needed(measure, 9)
            if m == 3:
                return _plateau(f"{measure} of three items (which is half the pairwise loss)", 2, k)
            return _normalised(measure, 6, needed=m - 1 if m % 2 == 0 else m - 2, m=m, k=k)
        case _:
            return _normalised(measure, 7, needed=m - 1, m=m, k=k)


def _proved(rate: Rate, why: str, theorem: int) -> Verdict:
    return Verdict(rate, "theorem", f"{why} (docs/games/rates.md, Theorem {theorem}).")


def _last_but_one_plateau(measure: SumLoss | DCG | Precision, m: int) -> int:
    if isinstance(measure, Precision):
        return 1
    n = measure.n if isinstance(measure, DCG) else None
    return m - 1 if n is None or n >= m else n


def _plateau(name: str, start: int, k: int) -> Verdict:
    if k >= start:
        why = (
            f"Rankings that compete for the best under {name} differ by an exchange of two items, and each of the "
            f"two is among the first {start} of a competitor: good rankings alone show all that must be known"
        )
        return _proved(Rate.SQRT, why, 3)
    why = (
        f"Every item can be judged by putting it on top, but {name} also tells items apart from position {start} "
        f"on, and only the first {k} are seen: to compare those items, worse rankings must be shown"
    )
    return _proved(Rate.TWO_THIRDS, why, 3)


def _graded_pairs(k: int) -> Verdict:
    if k == 1:
        why = "Which of two items has the higher grade cannot be told from one answer at a time, whatever is shown"
        return _proved(Rate.LINEAR, why, 4)
    why = "Comparing the last two items needs both grades at once, and only worse rankings show both"
    return _proved(Rate.TWO_THIRDS, why, 4)


def _normalised(measure: Measure, theorem: int, needed: int, m: int, k: int) -> Verdict:
    """Games of binary relevance with terms on up to `needed` items."""
    if m == 2:
        return _proved(Rate.SQRT, "With two items, the answer for the one on top is all that matters", theorem)
    if k < needed:
        why = (
            f"{measure} divides by what the whole list has: comparing two rankings needs the answers for {needed} "
            f"items of one round at once, and only {k} are seen"
        )
        return _proved(Rate.LINEAR, why, theorem)
    why = (
        f"{k} answers of a round are enough to compare rankings under {measure}, but the best rankings themselves "
        "hide an item that matters, so worse ones must be shown as well"
    )
    return _proved(Rate.TWO_THIRDS, why, theorem)


def _everything_needed(measure: Measure, theorem: int) -> Verdict:
    why = (
        f"With three or more grades, comparing two rankings under {measure} needs the answers for all items of "
        "one round at once"
    )
    return _proved(Rate.LINEAR, why, theorem)
