"""Holdouts by enumeration: the estimate is unbiased, clusters need frozen predictions, and intervals cover."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from helpers.enumeration import outcomes
from peekrank import DCG, Precision, SumLoss
from peekrank.engine.ruled import top_weights
from peekrank.evaluation.holdout import (
    PLAIN_SUM,
    SUM,
    HoldoutEvidence,
    clusters_of,
    holdout_of_log,
    make_gains,
    mix_orders,
)
from peekrank.evaluation.log import log_from_records
from peekrank.types import Floats, Ints

RELEVANCE = (0.9, 0.6)


def one_visit(evidence: HoldoutEvidence, seen: Ints, gains: Floats, **case: Any) -> tuple[float, float]:
    """What a cluster adds to the sums of both estimates."""
    before = evidence.totals.copy()
    evidence.observe(visits=[(seen, gains)] * case.pop("visits", 1), **case)
    return float(evidence.totals[SUM] - before[SUM]), float(evidence.totals[PLAIN_SUM] - before[PLAIN_SUM])


@pytest.mark.parametrize("seed", range(6))
def test_both_estimates_are_right_in_the_mean_whatever_the_predictions(seed: int) -> None:
    """The learner draws one of three orders; some lists are in the app's own order."""
    rng, n, k, share = np.random.default_rng(seed), 5, 2, 0.2
    measure = (DCG(), SumLoss())[seed % 2]
    weights, names = top_weights(measure, n, k), [f"i{i}" for i in range(n)]
    orders = [rng.permutation(n) for _ in range(3)]
    chances, own = rng.dirichlet(np.ones(3)), rng.permutation(n)
    relevance = rng.random(n)

    def by_rank(order: Ints) -> Floats:
        out = np.zeros(n)
        out[order[:k]] = weights
        return out

    expected = sum(q * by_rank(order) for q, order in zip(chances, orders, strict=True))
    difference = expected - by_rank(own)
    lists = [((1 - share) * q, order, False) for q, order in zip(chances, orders, strict=True)]
    lists.append((share, own, True))
    propensity = sum(q * np.isin(np.arange(n), order[:k]) for q, order, _ in lists)
    evidence = HoldoutEvidence(1.0)
    for _ in range(30):  # some past, so that predictions differ
        order = rng.permutation(n)
        one_visit(
            evidence, order[:k], rng.random(k), names=names, difference=difference, propensity=np.ones(n),
            weights=weights, share=share, held=bool(rng.random() < share),
        )  # fmt: skip
    sums, counts, overall, totals = (
        part.copy() for part in (evidence.sums, evidence.counts, evidence.overall, evidence.totals)
    )
    found = np.zeros(2)
    for chance, order, held in lists:
        evidence.sums, evidence.counts, evidence.overall, evidence.totals = (
            part.copy() for part in (sums, counts, overall, totals)
        )
        found += chance * np.array(
            one_visit(
                evidence, order[:k], relevance[order[:k]], names=names, difference=difference,
                propensity=propensity, weights=weights, share=share, held=held, visits=3,
            )
        )  # fmt: skip
    np.testing.assert_allclose(found / 3, difference @ relevance, rtol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_mixtures_have_exact_propensities_and_unbiased_estimates(seed: int) -> None:
    """The learner's lists, of which some explore, and mixtures of its order with the app's own."""
    rng, n, k, share = np.random.default_rng(seed), 5, 1 + seed % 3, 0.3
    measure = (DCG(), SumLoss(), Precision(3, mean=False), DCG(2))[seed % 4]
    weights, names = top_weights(measure, n, k), [f"i{i}" for i in range(n)]
    best, own, relevance = rng.permutation(n), rng.permutation(n), rng.random(n)
    explored = [np.r_[best[: k - 1], best[i], np.delete(best[k - 1 :], i - k + 1)] for i in range(k, n)]
    lists = [((1 - share) * 0.8, best, False)]
    lists += [((1 - share) * 0.2 / len(explored), order, False) for order in explored]
    expected, propensity = np.zeros(n), np.zeros(n)
    for chance, order, _ in lists:
        expected[order[:k]] += chance / (1 - share) * weights
        propensity[order[:k]] += chance
    mixed = outcomes(lambda u: tuple(mix_orders(expected, own, weights, float(u[0]))[0].tolist()), 1, 40)
    found = np.zeros(n)
    allowed = {*best[:k].tolist(), *own[:k].tolist()}
    for ranking, chance in mixed.items():
        assert isinstance(ranking, tuple)
        shown = np.array(ranking)
        assert set(ranking[:k]) <= allowed
        seen = [best.tolist().index(item) for item in ranking[:k] if item in best[:k]]
        assert seen == sorted(seen) or (weights == weights[0]).all()
        found[shown[:k]] += chance
        lists.append((share * chance, shown, True))
    np.testing.assert_allclose(found, mix_orders(expected, own, weights, 0.3)[1], atol=1e-10)
    propensity += share * found
    difference = expected.copy()
    difference[own[:k]] -= weights
    evidence, total = HoldoutEvidence(1.0), 0.0
    for chance, order, held in lists:
        evidence = HoldoutEvidence(1.0)
        total += chance * one_visit(
            evidence, order[:k], relevance[order[:k]], names=names, difference=difference,
            propensity=propensity, weights=weights, share=share, held=held, mixture=True,
        )[0]  # fmt: skip
    assert total == pytest.approx(difference @ relevance, abs=1e-9)
    verdict = evidence.verdict(measure)
    assert (verdict.lists, verdict.plain, verdict.held, verdict.agrees) == (1, 0, 1, True)


def test_mixtures_favour_the_learner_if_answers_depend_on_the_position() -> None:
    """Equal items, with effects of positions that the estimate ignores: the mean over all orders of the app."""
    n, k, share, effects = 5, 3, 0.1, np.array([1.0, 0.8, 0.6, 0.0, 0.0])
    weights, found = top_weights(DCG(k), n, k), np.zeros((2, 120))
    expected, grid = np.append(weights, np.zeros(n - k)), (np.arange(40) + 0.5) / 40
    for case, order in enumerate(permutations(range(n))):
        own, by_own = np.array(order), np.zeros(n)
        difference = expected.copy()
        difference[own[:k]] -= weights
        by_own[own] = effects
        drawn = [mix_orders(expected, own, weights, u) for u in grid]
        mixed = np.mean([effects[np.argsort(ranking)] for ranking, _ in drawn], axis=0)
        included = (np.isin(np.arange(n), own[:k]).astype(float), drawn[0][1])
        for i, (seen, held) in enumerate(zip((by_own, mixed), included, strict=True)):
            propensity = (1 - share) * (np.arange(n) < k) + share * held
            counts = difference != 0
            seen = (1 - share) * effects + share * seen
            found[i, case] = 0.5 * (difference[counts] * seen[counts] / propensity[counts]).sum()
    whole, mixture = found.mean(axis=1)
    assert abs(whole) < 0.03
    assert mixture > 0.08


def test_predictions_must_be_frozen_at_the_first_visit() -> None:
    """Two items, two visits with the same list, a fair coin between the two orders: the truth is 2 x 0.3."""

    def expected_sum(update: str) -> float:
        total = 0.0
        for first, one, two in product((0, 1), (0, 1), (0, 1)):  # item seen, and its answers
            chance = 0.5 * np.prod([RELEVANCE[first] if r else 1 - RELEVANCE[first] for r in (one, two)])
            others = (first, 1 - first) if update == "other" else (first,)
            for other, answer in product(others, (0, 1)):
                weight = (0.8 if other == first else 0.2) if update == "other" else 1.0
                weight *= RELEVANCE[other] if answer else 1 - RELEVANCE[other]
                predicted = np.array([0.5, 0.5])
                for visit, reply in enumerate((one, two)):
                    if visit and update != "frozen":
                        new = one if update == "own" else answer
                        predicted[other] = (2 * predicted[other] + new) / 3
                    sign = 1 - 2 * first
                    x = predicted[0] - predicted[1] + sign * (reply - predicted[first]) / 0.5
                    total += chance * weight * x
        return float(total)

    assert [round(expected_sum(update), 4) for update in ("frozen", "own", "other")] == [0.6, 0.55, 0.57]
    total = 0.0  # the same from the evidence
    for first, one, two in product((0, 1), (0, 1), (0, 1)):
        evidence = HoldoutEvidence(1.0)
        visits = [(np.array([first]), np.array([float(reply)])) for reply in (one, two)]
        half = np.array([0.5, 0.5])
        evidence.observe(["a", "b"], np.array([1.0, -1.0]), half, np.array([1.0]), 0.5, visits, held=first == 1)
        chance = 0.5 * np.prod([RELEVANCE[first] if r else 1 - RELEVANCE[first] for r in (one, two)])
        total += chance * evidence.totals[SUM]
    assert total == pytest.approx(0.6)


def test_intervals_cover_if_visitors_come_again_and_again() -> None:
    """Visitors like one of two items for good, see one list for all visits, and nothing differs in truth."""
    wrong, rng = np.zeros(2), np.random.default_rng(0)
    for _ in range(60):
        clusters, alone = HoldoutEvidence(1.0), HoldoutEvidence(1.0)
        missed = np.zeros(2, np.bool_)
        for visitor in range(120):
            likes, held = int(rng.integers(2)), bool(rng.random() < 0.5)
            seen = np.array([int(held)])
            visits = [(seen, np.array([float(likes == held)]))] * int(rng.integers(1, 6))
            case: dict[str, Any] = {
                "names": ["a", "b"],
                "difference": np.array([1.0, -1.0]),
                "propensity": np.array([0.5, 0.5]),
                "weights": np.array([1.0]),
                "share": 0.5,
                "held": held,
            }
            clusters.observe(visits=visits, **case)
            for visit in visits:
                alone.observe(visits=[visit], **case)
            if visitor % 10 == 9:
                for i, evidence in enumerate((clusters, alone)):
                    _, low, high = evidence.verdict(DCG()).difference
                    missed[i] |= not low <= 0 <= high
        wrong += missed
    assert wrong[0] == 0
    assert wrong[1] > 4


def decision(event: str, order: list[str], **more: Any) -> dict[str, Any]:
    names = sorted(order)
    known = {"event": event, "k": 1, "candidates": names, "position": [order.index(name) for name in names]}
    return (
        known
        | {"propensity": [0.8, 0.2], "feedback": [1.0 if order[0] == name else None for name in names]}
        | more
    )


ARM = {"share": 0.2, "own": [1, 0], "expected": [1.0, 0.0], "learner": "doubtsort:measure=dcg @ 1"}


def test_repeated_lists_count_with_their_first_one() -> None:
    log = log_from_records([
        decision("1", ["a", "b"], arm="learner", **ARM),
        decision("2", ["a", "b"], cluster="1", propensity=[1.0, 0.0]),
        decision("3", ["b", "a"], arm="own", **ARM),
        decision("4", ["b", "a"], cluster="9", propensity=[0.0, 1.0]),  # the log lacks its first one
        {**decision("5", ["a", "c"], propensity=[1.0, 0.0]), "cluster": "1"},  # other items
    ])  # fmt: skip
    assert clusters_of(log).tolist() == [0, 0, 2, -1, -1]
    verdict = holdout_of_log(log, DCG())
    assert verdict is not None
    assert (verdict.lists, verdict.held, verdict.visitors) == (3, 1, 2)
    assert holdout_of_log(log_from_records([decision("1", ["a", "b"])])) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"arm": "both"}, "must be 'learner' or 'own'"),
        ({"share": None}, "share.*is missing"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"own": [0, 0]}, "own.*each number"),
        ({"own": [0, -5]}, "own.*each number"),
        ({"expected": [1e9, 0.0]}, "expected.*number up to"),
        ({"expected": [1.0]}, "1 numbers for 2 candidates"),
        ({"propensity": None}, "propensity.*is missing"),
        ({"propensity": [1.0, 0.0]}, "at least the share"),
        ({"cluster": 5}, "must be a string"),
    ],
)
def test_columns_of_a_holdout_are_checked(change: dict[str, Any], problem: str) -> None:
    record = decision("1", ["a", "b"], arm="learner", **ARM) | change
    with pytest.raises(ValueError, match=problem):
        log_from_records([{name: value for name, value in record.items() if value is not None}])


def test_real_grades_have_linear_gains() -> None:
    gains = make_gains(DCG(), -1.0, 3.0, whole=False)
    np.testing.assert_allclose(gains.of(np.array([-1.0, 0.5, 3.0])), [0.0, 1.5, 4.0])
    assert gains.span == 4.0
    assert make_gains(DCG(), 0, 2, whole=True).of(np.array([0.0, 1.0, 2.0])).tolist() == [0, 1, 3]
