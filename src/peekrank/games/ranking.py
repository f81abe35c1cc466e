"""Ranking games, as in the papers: rank m items, see the relevance of the first k, pay a measure."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import permutations, product
from math import factorial, isfinite, lcm

import numpy as np

from peekrank._util.validate import check_int
from peekrank.games.exact.numbers import Exact, base_and_power, rational, shortest
from peekrank.games.feedback import Feedback, check_feedback, observe
from peekrank.games.game import Game
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
from peekrank.types import Ints, Measure

_EXACT = (
    SumLoss, PairwiseLoss, Precision, AUCLoss, AveragePrecision, DCG, NDCG, RBP, ReciprocalRank, ERR, Recall, Hit,
)  # fmt: skip
Scales = tuple[tuple[Fraction, ...], ...]


def ranking_game(measure: Measure | str, m: int, k: int, grades: int = 2, feedback: Feedback = "answers") -> Game:
    """Return the game with all m! rankings as actions and all grades^m relevance vectors as outcomes.

    Actions and outcomes are in lexicographic order. A symbol is the tuple of the k revealed relevances, unless
    another kind of feedback is given. Gains become losses by a change of sign. Every relabelling of the items is a
    symmetry of the game.

    Parameters
    ----------
    measure
        A measure, or its name. The values of a user-defined measure must be fractions with denominators up to
        10,000, up to rounding. For any other measure, give the losses exactly, with `Game.of`.
    m
        Number of items.
    k
        Number of revealed positions.
    grades
        Number of relevance grades: 0, 1, ..., grades - 1.
    feedback
        Kind of feedback about the first k items: "answers", "order", "choice", "first", "sum" or "any".

    >>> game = ranking_game("sumloss", m=3, k=1)
    >>> game.actions[1], game.outcomes[3], float(game.loss[1, 3])
    ('0 2 1', '0 1 1', 5.0)
    >>> ranking_game("sumloss", m=3, k=2, feedback="choice").symbols
    (1, 2)

    References
    ----------
    CT15 sections 5 and 9 (Tables 1 and 2), ZT section 5.
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1)
    check_int("k", k, 1, m)
    check_int("grades", grades, 2, 256)
    _check_memory(m, grades)
    rankings = np.array(list(permutations(range(m))), dtype=np.int64)
    relevance = np.array(list(product(range(grades), repeat=m)), dtype=np.int64)
    numerators, bases, scales, column = losses(measure, rankings, relevance)
    shown = observe(check_feedback(feedback), relevance.T[rankings[:, :k]].transpose(0, 2, 1))
    return Game(
        numerators=numerators,
        signals=shown.signals,
        symbols=shown.symbols,
        actions=tuple(" ".join(map(str, ranking)) for ranking in rankings),
        outcomes=tuple(" ".join(map(str, row)) for row in relevance),
        bases=bases,
        scales=scales,
        column=column,
        symmetries=_relabellings(rankings, relevance),
    )


def losses(measure: Measure, rankings: Ints, relevance: Ints) -> tuple[Exact, tuple[int, ...], Scales, Ints]:
    """Return numerators, bases, scales and columns of the `Game` with these rankings and relevance vectors."""
    m = rankings.shape[1]
    plain = np.zeros(len(relevance), dtype=np.int64)
    shown = relevance.T[rankings].transpose(0, 2, 1)  # (actions, outcomes, positions)
    known = measure if type(measure) in _EXACT else None  # a subclass may override its values
    match known:
        case SumLoss():
            return (shown @ np.arange(1, m + 1))[None], (2,), _one(1), plain
        case PairwiseLoss():
            return _wrong_pairs(shown)[None], (2,), _one(1), plain
        case Precision(n, mean):
            hits = np.count_nonzero(shown[:, :, :n], axis=2)
            return -hits[None], (2,), _one(n if mean else 1), plain
        case AUCLoss(no_relevant):
            pairs = np.count_nonzero(relevance[:, :, None] < relevance[:, None, :], axis=(1, 2))
            common = lcm(*(int(n) for n in pairs if n))
            constant = common * (no_relevant == "1")
            wrong = _wrong_pairs(shown).astype(np.int64 if common < 2**31 else object)
            wrong = np.where(pairs > 0, wrong * (common // np.maximum(pairs.astype(wrong.dtype), 1)), constant)
            return wrong[None], (2,), _one(common), plain
        case AveragePrecision(no_relevant):
            hits, common = shown > 0, lcm(*range(1, m + 1))
            s = np.count_nonzero(relevance, axis=1)
            precision = (hits.cumsum(axis=2) * hits) @ (common // np.arange(1, m + 1))
            constant = common**2 * (no_relevant == "1")
            return (
                -np.where(s > 0, precision * (common // np.maximum(s, 1)), constant)[None],
                (2,),
                _one(common**2),
                plain,
            )
        case DCG() | NDCG():
            return _discounted(known, shown, relevance)
        case RBP(n, p):
            a, q = rational(p).as_integer_ratio()
            weights = shortest([(q - a) * a**i * q ** (m - 1 - i) for i in range(m)])
            return -(np.sign(shown[:, :, :n]) @ weights[:n])[None], (2,), _one(q**m), plain
        case ReciprocalRank(n):
            hits, common = shown[:, :, :n] > 0, lcm(*range(1, m + 1))
            values = np.where(hits.any(axis=2), common // (1 + hits.argmax(axis=2)), 0)
            return -values[None], (2,), _one(common), plain
        case ERR(n, max_grade):
            known.check_grade(int(relevance.max()))
            return _cascade(shown[:, :, :n], 2**max_grade, plain)
        case Recall(n, no_relevant):
            common, s = lcm(*range(1, m + 1)), np.count_nonzero(relevance, axis=1)
            share = np.count_nonzero(shown[:, :, :n], axis=2) * (common // np.maximum(s, 1))
            return -np.where(s > 0, share, common * (no_relevant == "1"))[None], (2,), _one(common), plain
        case Hit(n):
            return -np.any(shown[None, :, :, :n] > 0, axis=3).astype(np.int64), (2,), _one(1), plain
    values_by_ranking = [measure.values(np.tile(ranking, (len(relevance), 1)), relevance) for ranking in rankings]
    exact = [[_fraction(measure, float(value)) for value in row] for row in values_by_ranking]
    common, sign = lcm(*(x.denominator for row in exact for x in row)), -1 if measure.higher_is_better else 1
    return shortest([[[sign * int(x * common) for x in row] for row in exact]]), (2,), _one(common), plain


def _discounted(measure: DCG | NDCG, shown: Ints, relevance: Ints) -> tuple[Exact, tuple[int, ...], Scales, Ints]:
    """Compute DCG and NDCG. Position p has weight u_b / e, where 1 + p = b^e."""
    m = relevance.shape[1]
    counted = [base_and_power(1 + p) for p in range(1, min(measure.cutoff or m, m) + 1)]
    bases, common = tuple(sorted({2} | {b for b, _ in counted})), lcm(*(e for _, e in counted))
    weight = np.zeros((len(bases), m), dtype=np.int64)
    for p, (b, e) in enumerate(counted):
        weight[bases.index(b), p] = common // e
    gains = [grade if measure.gains == "linear" else 2**grade - 1 for grade in range(int(relevance.max()) + 1)]
    gain = shortest(np.array(gains, dtype=object))
    numerators = -np.moveaxis(gain[shown] @ weight.T, 2, 0)
    if isinstance(measure, DCG):
        return (
            numerators,
            bases,
            ((Fraction(common), *[Fraction(0)] * (len(bases) - 1)),),
            np.zeros(len(relevance), dtype=np.int64),
        )
    best = gain[-np.sort(-relevance, axis=1)] @ weight.T  # the numerator of the largest DCG, (outcomes, units)
    no_relevant = ~relevance.any(axis=1)
    best[no_relevant, 0] = 1
    numerators[0, :, no_relevant] = -(measure.no_relevant == "1")
    numbers: dict[tuple[int, ...], int] = {}
    column = np.array([numbers.setdefault(tuple(row), len(numbers)) for row in best.tolist()])
    return numerators, bases, tuple(tuple(map(Fraction, row)) for row in numbers), column


def _cascade(shown: Ints, G: int, plain: Ints) -> tuple[Exact, tuple[int, ...], Scales, Ints]:
    """Compute ERR. The item at position p satisfies the reader with probability (2^grade - 1) / G."""
    depth = shown.shape[2]
    common = lcm(*range(1, depth + 1))
    probability = np.array([2**grade - 1 for grade in range(int(shown.max()) + 1)], dtype=object)[shown]
    before = np.concatenate([np.full_like(probability[:, :, :1], G), G - probability[:, :, :-1]], axis=2)
    going_on = np.cumprod(before, axis=2)  # the probability that the p - 1 items above do not satisfy, times G^p
    weights = np.array([common // p * G ** (depth - p) for p in range(1, depth + 1)], dtype=object)
    satisfied = (probability * going_on) @ weights
    return shortest(-satisfied[None]), (2,), _one(common * G ** (depth + 1)), plain


def _fraction(measure: Measure, value: float) -> Fraction:
    """Return the simple fraction that equals a value up to rounding. Raises ValueError if there is none."""
    nearby = Fraction(value).limit_denominator(10_000) if isfinite(value) else None
    if nearby is None or abs(nearby - Fraction(value)) > 1e-15 * max(1, abs(value)):
        raise ValueError(
            f"{measure} has the value {value!r}, which is not a fraction with a denominator up to 10,000: "
            "give its losses exactly, with Game.of"
        )
    return nearby


def _wrong_pairs(shown: Ints) -> Ints:
    wrong = np.zeros(shown.shape[:2], dtype=np.int64)
    for above in range(shown.shape[2]):
        wrong += np.count_nonzero(shown[:, :, above, None] < shown[:, :, above + 1 :], axis=2)
    return wrong


def _relabellings(rankings: Ints, relevance: Ints) -> tuple[tuple[Ints, Ints], ...]:
    """Return two generators of the symmetric group, acting on the indices of rankings and relevance vectors."""
    m = rankings.shape[1]
    if m == 1:
        return ()
    numbers = {row.tobytes(): i for i, row in enumerate(rankings)}
    outcome_numbers = {row.tobytes(): i for i, row in enumerate(relevance)}
    generators = []
    for new in (np.r_[1, 0, 2:m], np.r_[1:m, 0]):  # item i becomes item new[i]
        old = np.argsort(new)
        actions = np.array([numbers[row.tobytes()] for row in new[rankings]])
        outcomes = np.array([outcome_numbers[np.ascontiguousarray(row).tobytes()] for row in relevance[:, old]])
        generators.append((actions, outcomes))
    return tuple(generators)


def _check_memory(m: int, grades: int) -> None:
    needed = factorial(m) * grades**m * 8 * (m + 4) if m < 100 else float("inf")
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    if needed > available:
        amount = f"about {needed / 1e9:,.0f} GB" if needed < 1e15 else "more than a petabyte"
        raise ValueError(
            f"m = {m}: matrices for {grades} grades need {amount} of memory, more than half of this machine's; "
            "use the closed forms instead, which have no such limit (rate_of, peekrank advise)"
        )


def _one(value: int) -> Scales:
    return ((Fraction(value),),)
