"""Rates of ranking games in closed form.

The loss difference of two rankings has one term for each set of items, and k answers per round cannot estimate a
term on more than k items. The proofs are on docs/theory/rates.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from peekrank._util.validate import check_int
from peekrank.games.rates import Rate, Verdict
from peekrank.measures import (
    DCG,
    ERR,
    NDCG,
    RBP,
    AUCLoss,
    AveragePrecision,
    Hit,
    PairwiseLoss,
    Precision,
    Recall,
    ReciprocalRank,
    SumLoss,
)
from peekrank.measures import measure as measure_named
from peekrank.types import LinearMeasure, Measure

_PROVED = (
    SumLoss, PairwiseLoss, DCG, Precision, NDCG, AveragePrecision, AUCLoss, RBP, ReciprocalRank, ERR, Recall, Hit,
)  # fmt: skip
_SAME = 1e-12  # relative difference below which discounts count as equal


class Plateaus(NamedTuple):
    """Runs of positions that count alike.

    ``last_but_one`` is the first position of the last but one, ``end_of_second`` the last position of the second,
    and ``number`` says how many there are. With one plateau, the two positions are 0 and m.
    """

    last_but_one: int
    end_of_second: int
    number: int


def theorem_of(measure: Measure | str, m: int, k: int, grades: int = 2) -> Verdict:
    """Return the growth rate of the minimax regret if the first k of m items are revealed, by theorem alone.

    Theorems cover the measures of this package and every user-defined measure that is linear and separable (the
    plateau theorem). The verdict on any other measure has no rate.

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

    >>> theorem_of("dcg@10", m=1_000_000, k=10).rate.value
    'sqrt(T)'
    >>> theorem_of("ndcg@10", m=1_000_000, k=10).rate.exponent
    1.0
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1)
    check_int("k", k, 1, int(m))
    check_int("grades", grades, 2)
    m, k, grades = int(m), int(k), int(grades)
    if type(measure) not in _PROVED:  # a subclass may override its values
        return _user_defined(measure, m, k, grades)
    if isinstance(measure, ERR):
        measure.check_grade(grades - 1)
    if m == 1 or (isinstance(measure, Precision | Recall | Hit) and measure.cutoff >= m):
        return _proved(Rate.ZERO, "All rankings have the same value, so no regret is possible", 3)
    if k == m:
        return _proved(
            Rate.SQRT, "Every answer is revealed, so the learner can compare any two rankings after each round", 1
        )
    match measure:
        case SumLoss() | DCG() | RBP() | Precision():
            return _plateau(str(measure), plateaus(measure, m).last_but_one, k)
        case PairwiseLoss():
            if grades == 2:
                return _plateau(f"{measure} (the sum of ranks, for binary relevance)", m - 1, k)
            return _graded_pairs(k)
        case NDCG():
            if grades > 2:
                return _everything_needed(measure, 8)
            if measure.cutoff == 1:
                return _plateau(f"{measure} (which is p@1 for binary relevance)", 1, k)
            return _normalised(measure, 5, needed=m - 1, m=m, k=k)
        case AUCLoss():
            if grades > 2:
                return _everything_needed(measure, 9)
            if m == 3:
                return _plateau(f"{measure} of three items (which is half the pairwise loss)", 2, k)
            return _normalised(measure, 6, needed=m - 1 if m % 2 == 0 else m - 2, m=m, k=k)
        case ReciprocalRank(n) | ERR(n) | Hit(n):
            return _cascade(measure, min(n or m, m - 1), k)
        case Recall():
            return _recall(measure, m, k)
        case _:
            return _normalised(measure, 7, needed=m - 1, m=m, k=k)


def _proved(rate: Rate, why: str, theorem: int) -> Verdict:
    return Verdict(rate, "theorem", f"{why} (docs/theory/rates.md, Theorem {theorem}).")


def _user_defined(measure: Measure, m: int, k: int, grades: int) -> Verdict:
    """Return the verdict on a user-defined measure."""
    if isinstance(measure, LinearMeasure) and measure.separable and measure.linear(grades - 1):
        found = _measured_plateaus(measure, m)
        if found is not None and found.number == 1:
            return _proved(Rate.ZERO, "All rankings have the same value, so no regret is possible", 3)
        if found is not None:
            return _plateau(str(measure), found.last_but_one, k)
        obstacle = "its discounts are not monotone, or grade 1 gains no more than grade 0"
    else:
        obstacle = f"it is not a sum over items of discount(rank) x gain(relevance) for grades 0 to {grades - 1}"
    return Verdict(None, "undecided", f"No theorem on docs/theory/rates.md covers {measure}: {obstacle}.")


@lru_cache(maxsize=64)
def _measured_plateaus(measure: LinearMeasure, m: int) -> Plateaus | None:
    """Return the plateaus of the discounts, or None if no theorem applies."""
    nothing, something = measure.gain(np.array([0.0, 1.0]))
    f = np.asarray(measure.discount(m)) * np.sign(something - nothing)
    if measure.higher_is_better:
        f = -f
    step = np.diff(f)
    apart = np.abs(step) > _SAME * np.maximum(np.abs(f[1:]), np.abs(f[:-1]))
    if something == nothing or not np.all(np.isfinite(f)) or np.any(step[apart] < 0):
        return None
    starts = [1, *(int(p) + 2 for p in np.flatnonzero(apart))]
    end = starts[2] - 1 if len(starts) > 2 else m
    return Plateaus(starts[-2] if len(starts) > 1 else 0, end, len(starts))


def plateaus(measure: Measure, m: int) -> Plateaus:
    """Return the plateaus of positions under a measure that a theorem covers, with different rankings.

    >>> plateaus(DCG(), 10), plateaus(DCG(3), 10), plateaus(Precision(3), 10)
    (Plateaus(last_but_one=9, end_of_second=2, number=10), Plateaus(last_but_one=3, end_of_second=2, number=4),
     Plateaus(last_but_one=1, end_of_second=10, number=2))
    """
    if type(measure) not in _PROVED and isinstance(measure, LinearMeasure):
        found = _measured_plateaus(measure, m)
        if found is None:
            raise ValueError(f"no theorem covers {measure}")
        return found
    if isinstance(measure, Precision | Recall | Hit):
        return Plateaus(1, m, 2)
    single = min(getattr(measure, "cutoff", None) or m, m - 1)
    return Plateaus(single, 2 if single > 1 else m, single + 1)


def _plateau(name: str, start: int, k: int) -> Verdict:
    if k >= start:
        why = (
            f"Neighbouring rankings under {name} differ by an exchange of two items, and each of the two is among "
            f"the first {start} of one of them: good rankings alone reveal everything a learner needs"
        )
        return _proved(Rate.SQRT, why, 3)
    why = (
        f"Putting an item on top reveals its relevance, but {name} also distinguishes items from position {start} "
        f"on, and only the first {_revealed(k)} revealed: comparing those items requires showing worse rankings"
    )
    return _proved(Rate.TWO_THIRDS, why, 3)


def _revealed(k: int) -> str:
    return "one is" if k == 1 else f"{k} are"


def _cascade(measure: Measure, n: int, k: int) -> Verdict:
    """Return the verdict on a measure of a reader who scans the list and stops after at most n items."""
    if k >= n:
        why = (
            f"The first {n} answers determine the value of a ranking under {measure}: every shown ranking reveals "
            "its own value"
        )
        return _proved(Rate.SQRT, why, 10)
    why = (
        f"The contribution of an item to {measure} depends on all items above it: comparing two rankings needs "
        f"the answers for {n} items of the same round, and only {_revealed(k)} revealed"
    )
    return _proved(Rate.LINEAR, why, 10)


def _recall(measure: Measure, m: int, k: int) -> Verdict:
    if k < m - 1:
        why = (
            f"{measure} divides by a sum over the whole list: comparing two rankings needs the answers for "
            f"{m - 1} items of the same round, and only {_revealed(k)} revealed"
        )
        return _proved(Rate.LINEAR, why, 11)
    why = (
        f"To compare two rankings that exchange two items under {measure}, all answers except one of the two "
        "are enough, and good rankings reveal them: the order below the cut-off does not count, so it can be last"
    )
    return _proved(Rate.SQRT, why, 11)


def _graded_pairs(k: int) -> Verdict:
    if k == 1:
        why = "One answer per round never reveals which of two items has the higher grade"
        return _proved(Rate.LINEAR, why, 4)
    why = "Comparing the last two items needs both grades of the same round, and only worse rankings reveal both"
    return _proved(Rate.TWO_THIRDS, why, 4)


def _normalised(measure: Measure, theorem: int, needed: int, m: int, k: int) -> Verdict:
    """Return the verdict on a game of binary relevance with terms on up to `needed` items."""
    if m == 2:
        return _proved(Rate.SQRT, "With two items, the answer for the one on top suffices", theorem)
    if k < needed:
        why = (
            f"{measure} divides by a sum over the whole list: comparing two rankings needs the answers for "
            f"{needed} items of the same round, and only {_revealed(k)} revealed"
        )
        return _proved(Rate.LINEAR, why, theorem)
    why = (
        f"{k} answers per round are enough to compare rankings under {measure}, but the best rankings hide an "
        "item that matters, so the learner must also show worse ones"
    )
    return _proved(Rate.TWO_THIRDS, why, theorem)


def _everything_needed(measure: Measure, theorem: int) -> Verdict:
    why = (
        f"With three or more grades, comparing two rankings under {measure} needs the answers for all items of "
        "the same round"
    )
    return _proved(Rate.LINEAR, why, theorem)
