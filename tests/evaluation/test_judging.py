"""Sampled judgements: by enumeration, a naive twin, simulation, and an independent implementation of measures."""

from __future__ import annotations

from itertools import permutations
from math import log, sqrt
from typing import Any

import ir_measures
import numpy as np
import pytest
from ir_measures import Qrel, ScoredDoc

from peekrank import DCG, NDCG, RBP, Precision, SumLoss
from peekrank.evaluation.judging import Judging, Pool, Sampling, group_by_position, group_by_prediction, make_pool
from peekrank.evaluation.trec import Run
from peekrank.types import Floats

SMALL = {"q": ["a", "b", "c"], "r": ["e", "d"]}, {"q": ["c", "b"], "r": ["d", "e"]}


def _random_pool(rng: np.random.Generator, queries: int, chance: float, length: int = 6) -> tuple[Pool, Any]:
    """Return a pool, and the grades of its pairs."""
    one, other = (
        {str(q): [f"d{i}" for i in rng.permutation(2 * length)[:length]] for q in range(queries)} for _ in range(2)
    )
    pool = make_pool(one, other, DCG(length))
    return pool, (rng.random(len(pool.pairs)) < chance).astype(int)


def _true(pool: Pool, grades: Any) -> Floats:
    first, second = pool.weights @ pool.gains[grades]
    return np.array([first - second, first, second])


def _judge(judging: Judging, grades: Any, sizes: list[int]) -> Judging:
    for size in sizes:
        judging.add([int(grades[i]) for i in judging.draw(size)])
    return judging


@pytest.mark.parametrize("sampling", ["difference", "position", "uniform"])
def test_estimates_are_unbiased(sampling: Any) -> None:
    pool = make_pool(*SMALL, DCG(3), max_grade=2)
    n = len(pool.pairs)
    grades = np.array([2, 0, 1, 0, 2])
    means, total = np.zeros(3), 0.0
    for order in permutations(range(n), 4):
        judging, chance, left = Judging(pool, sampling=sampling), 1.0, list(range(n))
        for part in (order[:2], order[2:]):
            judging.draw(2)
            judging._drawn = np.array(part)
            for i in part:
                chance *= judging._rates[i] / judging._rates[left].sum()
                left.remove(i)
            judging.add([int(grades[i]) for i in part])
        total += chance
        means += chance * np.array([track.totals[1] / track.totals[0] for track in judging._tracks])
    assert total == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(means, _true(pool, grades), atol=1e-12)


def test_pairs_are_drawn_with_their_probabilities() -> None:
    pool = make_pool(*SMALL, DCG(3))
    n, draws = len(pool.pairs), 4000
    first, then = np.zeros(n), np.zeros((n, n))
    for seed in range(draws):
        judging = Judging(pool, seed=seed)
        i, j = judging.draw(2)
        first[i] += 1
        then[i, j] += 1
    rates = judging._rates / judging._rates.sum()
    expected = rates[:, None] * rates / (1 - rates[:, None])
    np.fill_diagonal(expected, 0)
    for found, right in ((first / draws, rates), (then / draws, expected)):
        assert np.all(np.abs(found - right) < 5 * np.sqrt(right * (1 - right) / draws) + 1e-12)


def test_probabilities_are_those_of_the_smallest_variance() -> None:
    rng = np.random.default_rng(4)
    pool, _ = _random_pool(rng, 5, 0.3)
    d = pool.weights[0] - pool.weights[1]
    variance = {}
    samplings: tuple[Sampling, ...] = ("difference", "position", "uniform")
    for sampling in samplings:
        judging = Judging(pool, sampling=sampling, groups=np.zeros(len(d), np.int64))
        judging.draw(1)
        chances = judging._rates / judging._rates.sum()
        variance[sampling] = np.sum(d**2 / chances)  # all gains have the same spread
    assert np.abs(d).sum() ** 2 <= variance["difference"] < 1.03 * np.abs(d).sum() ** 2
    assert variance["difference"] < 0.85 * variance["position"]
    assert variance["difference"] < 0.85 * variance["uniform"]


def test_intervals_are_those_of_a_naive_implementation() -> None:
    rng = np.random.default_rng(7)
    pool, grades = _random_pool(rng, 8, 0.4)
    known = {pool.pairs[i]: int(grades[i]) for i in (0, 3, 9)}
    judging = Judging(pool, known=known, seed=3)
    steps = []
    for size in (5, 20, 30):
        drawn = judging.draw(size)
        steps += [(int(i), judging._rates.copy(), judging._means.copy()) for i in drawn]
        judging.add([int(grades[i]) for i in drawn])
    first, second = pool.weights
    for track, w in zip(judging._tracks, (first - second, first, second), strict=True):
        found = _naive(pool, grades, {0, 3, 9}, steps, w)
        np.testing.assert_allclose(np.array(track.history[1:]), found, atol=1e-9)


def _naive(pool: Pool, grades: Any, done: set[int], steps: Any, w: Floats, alpha: float = 0.05) -> list[Any]:
    """Return estimates and intervals, from lists of all bets."""
    gains, n, needed = pool.gains[grades], len(w) - len(done), log(2 / alpha)
    left = [i for i in range(len(w)) if i not in done]
    lowest, highest = (sum(w[i] * gains[i] for i in done) + sum(f(w[i], 0) for i in left) for f in (min, max))
    bets: list[list[tuple[float, float]]] = [[], []]
    seen: list[tuple[float, float]] = []
    spread, out = 0.0, []
    for t, (i, rates, m) in enumerate(steps):
        share, mass = 1 - t / n, sum(rates[j] for j in left)
        base = sum(w[j] * gains[j] for j in done) + sum(w[j] * m[j] for j in left)
        ends = [base + w[j] * (g - m[j]) * mass / rates[j] for j in left for g in (0, 1)]
        x = base + w[i] * (gains[i] - m[i]) * mass / rates[i]
        precision = sum(v for v, _ in seen) + share**-2
        for side, (sign, limit, top) in enumerate(((1, min(ends), highest), (-1, -max(ends), -lowest))):
            variance = (spread + ((top - limit) / share / 2) ** 2) / (t + 1)
            bet = sqrt(2 * needed / (variance * precision * log(t + 2))) / share**2
            bets[side].append((min(bet, 0.5 / (top - limit)), sign * x))
        middle = sum(v * y for v, y in seen) / (precision - share**-2) if seen else (min(ends) + max(ends)) / 2
        spread += ((x - middle) / share) ** 2
        seen.append((share**-2, x))
        left.remove(i)
        done = done | {i}
        certain = [sum(w[j] * gains[j] for j in done) + sum(f(w[j], 0) for j in left) for f in (min, max)]
        low = min(max(_bound(bets[0], lowest, highest, needed), certain[0]), certain[1])
        high = max(min(-_bound(bets[1], -highest, -lowest, needed), certain[1]), low)
        estimate = sum(v * y for v, y in seen) / precision
        out.append((min(max(estimate, low), high), low, high))
        if high - low < 0.7 * (highest - lowest) and high > low:
            lowest, highest = low, high
    return out


def _bound(bets: list[tuple[float, float]], under: float, over: float, needed: float) -> float:
    def capital(mean: float) -> float:
        return sum(log(1 + bet * (x - mean)) for bet, x in bets)

    if capital(under) < needed:
        return under
    for _ in range(60):
        middle = (under + over) / 2
        under, over = (middle, over) if capital(middle) >= needed else (under, middle)
    return under


@pytest.mark.parametrize("chance", [0.02, 0.5])
def test_intervals_hold_after_every_judgement(chance: float) -> None:
    wrong = 0
    for seed in range(150):
        rng = np.random.default_rng([int(100 * chance), seed])
        pool, grades = _random_pool(rng, 6, chance)
        judging = _judge(Judging(pool, seed=seed), grades, [10, 20, 20])
        history, true = np.array(judging.history), _true(pool, grades)[0]
        wrong += bool(((history[:, 1] > true + 1e-12) | (history[:, 2] < true - 1e-12)).any())
    assert wrong <= 14  # 7.5 are allowed on average


def test_everything_judged_leaves_no_doubt() -> None:
    rng = np.random.default_rng(1)
    pool, grades = _random_pool(rng, 3, 0.5)
    known = {pair: int(grades[i]) for i, pair in enumerate(pool.pairs) if i % 3 == 0}
    judging = _judge(Judging(pool, known=known), grades, [4, 1000])
    assert judging.left == judging.missing == 0
    true = _true(pool, grades)
    for found, value in zip((judging.difference, *judging.values), true, strict=True):
        np.testing.assert_allclose(found, value, atol=1e-12)
    assert judging.known + judging.judged == len(pool.pairs)
    assert judging.verdict == ("higher" if true[0] > 0 else "lower")


def test_parts_of_a_batch_are_the_batch() -> None:
    rng = np.random.default_rng(2)
    pool, grades = _random_pool(rng, 5, 0.4)
    whole, parts = Judging(pool), Judging(pool)
    drawn = whole.draw(20)
    assert list(parts.draw(20)) == list(drawn)
    answers = [int(grades[i]) for i in drawn]
    whole.add(answers)
    for first, last in ((0, 7), (7, 8), (8, 20)):
        assert parts.missing == 20 - first
        parts.add(answers[first:last])
    np.testing.assert_allclose(whole.history, parts.history, atol=1e-12)


def test_values_are_those_of_other_implementations() -> None:
    rng = np.random.default_rng(3)
    runs: list[Run] = [{str(q): [f"d{i}" for i in rng.permutation(9)[:5]] for q in range(4)} for _ in range(2)]
    relevant = {(str(q), f"d{i}") for q in range(4) for i in range(9) if rng.random() < 0.5}
    for measure in (Precision(3), DCG(3), RBP(3, p=0.8)):
        pool = make_pool(runs[0], runs[1], measure)
        grades = np.array([int(pair in relevant) for pair in pool.pairs])
        for run, value in zip(runs, pool.weights @ pool.gains[grades], strict=True):
            ranks = [r for q in run for r, d in enumerate(run[q][:3], 1) if (q, d) in relevant]
            if isinstance(measure, Precision):
                qrels = [Qrel(q, d, int((q, d) in relevant)) for q in run for d in (f"d{i}" for i in range(9))]
                scored = [ScoredDoc(q, d, -r) for q, documents in run.items() for r, d in enumerate(documents)]
                theirs = ir_measures.calc_aggregate([ir_measures.P @ 3], qrels, scored)[ir_measures.P @ 3]
            elif isinstance(measure, DCG):
                theirs = sum(1 / log(r + 1, 2) for r in ranks) / 4
            else:
                theirs = sum(0.2 * 0.8 ** (r - 1) for r in ranks) / 4
            assert value == pytest.approx(theirs, abs=1e-12)


def test_predictions_of_grades_save_judgements() -> None:
    widths: dict[str, list[float]] = {"with": [], "without": []}
    for seed in range(10):
        rng = np.random.default_rng([9, seed])
        pool, grades = _random_pool(rng, 40, 0.2)
        predicted = dict(zip(pool.pairs, grades + rng.normal(size=len(grades)) / 4, strict=True))
        for name, groups in (("with", group_by_prediction(pool, predicted)), ("without", None)):
            judging = _judge(Judging(pool, groups=groups, seed=seed), grades, [30] * 6)
            widths[name].append(judging.difference.high - judging.difference.low)
    assert np.mean(widths["with"]) < 0.8 * np.mean(widths["without"])


def test_groups() -> None:
    pool = make_pool({"q": [*"abcdefghi"]}, {"q": [*"ihgfedcba"]}, DCG())
    assert group_by_position(pool).tolist() == [0, 1, 1, 2, 2, 2, 1, 1, 0]
    predicted = {("q", name): float(i) for i, name in enumerate("abcdefgh")}
    assert group_by_prediction(pool, predicted).tolist() == [*range(8), 8]
    many = make_pool({"q": [str(i) for i in range(80)]}, {"q": [str(-i) for i in range(80)]}, DCG())
    groups = group_by_prediction(many, {pair: float(pair[1]) for pair in many.pairs})
    assert np.bincount(groups).min() >= 19
    assert len(np.bincount(groups)) == 8


def test_what_cannot_be_judged() -> None:
    run = {"q": ["a", "b"]}
    with pytest.raises(ValueError, match="the second run has no query 'r'"):
        make_pool({**run, "r": ["a"]}, run, DCG())
    with pytest.raises(ValueError, match="the first run has no query 'r'"):
        make_pool(run, {**run, "r": ["a"]}, DCG())
    with pytest.raises(ValueError, match="both runs rank alike, as far as dcg@1 counts"):
        make_pool(run, {"q": ["a", "c"]}, DCG(1))
    with pytest.raises(ValueError, match=r"ndcg@5 is not a sum over items .*use dcg@5"):
        make_pool(*SMALL, NDCG(5))
    with pytest.raises(ValueError, match="sumloss does not weigh documents less the lower they stand"):
        make_pool(*SMALL, SumLoss())
    pool = make_pool(*SMALL, DCG())
    with pytest.raises(ValueError, match="sampling = 'best'"):
        Judging(pool, sampling="best")  # type: ignore[arg-type]
    judging = Judging(pool)
    judging.draw(2)
    with pytest.raises(ValueError, match="2 pairs drawn before are not judged"):
        judging.draw(1)
    with pytest.raises(ValueError, match="grade = 2: must be a whole number, from 0 to 1"):
        judging.add([2])
    with pytest.raises(ValueError, match="number of grades = 3"):
        judging.add([1, 1, 1])
