"""The demonstration that calibrated surrogates cannot be learned from the top, in small, and its table."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import records

from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.papers.ours import calibrated
from peekrank.surrogates import NDCGSquared
from peekrank.types import Floats, Shape


@pytest.mark.parametrize("cell", calibrated.CELLS, ids=str)
def test_no_k_answers_tell_the_adversaries_apart(cell: Any) -> None:
    relevance, p, q, gap = calibrated.pair_of(cell)
    for seen in combinations(range(cell.m), cell.k):
        _, answers = np.unique(relevance[:, seen], axis=0, return_inverse=True)
        np.testing.assert_allclose(np.bincount(answers.ravel(), p), np.bincount(answers.ravel(), q), atol=1e-12)
    assert gap > 0.002


@pytest.mark.parametrize("cell", calibrated.CELLS, ids=str)
def test_the_gap_is_the_least_loss_over_all_scores(cell: Any) -> None:
    relevance, p, q, gap = calibrated.pair_of(cell)

    def value(scores: Floats, probabilities: Floats) -> float:
        return float(probabilities @ [NDCGSquared().value(scores, row) for row in relevance.astype(float)])

    best_p, best_q = (calibrated.best_scores(relevance, side) for side in (p, q))
    least = value(best_p, p) + value(best_q, q)
    middle, rng = (best_p + best_q) / 2, np.random.default_rng(0)
    assert value(middle, p + q) - least == pytest.approx(gap)
    for _ in range(100):
        assert value(middle + rng.normal(scale=0.1, size=cell.m), p + q) - least >= gap


def test_only_the_learner_of_the_surrogate_that_sees_all_learns() -> None:
    said: list[str] = []
    results = calibrated.play(calibrated.CELLS[0], np.array([1000, 2000, 4000]), 2, said.append)
    assert len(said) == len(results) == len(calibrated.LEARNERS)
    for r in results:
        if r.learner == "ndcgsquared, sees all":
            assert r.exponent < 0.6
            assert r.a_round.sum(axis=0).mean() < r.gap
        else:
            assert r.exponent > 0.7
            assert r.a_round.sum(axis=0).mean() >= r.gap - 1e-12
    table = calibrated.table(results).markdown()
    assert len(table) == 2 + len(results)
    assert table[2].startswith("| m = 3, k = 1, certificate of `ndcg` | 0.0311 | squared | ")


def test_a_learner_that_plays_can_be_ended() -> None:
    beats: list[int] = []

    def alive() -> None:
        beats.append(0)
        if len(beats) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        calibrated.play(calibrated.CELLS[0], np.array([10_000]), 1, alive=alive)


@pytest.mark.parametrize("cell", calibrated.CELLS, ids=str)
def test_squared_loses_as_much_by_its_aim_even_if_it_sees_all(cell: Any) -> None:
    """It comes to E R, at the distance |E R - E y|^2 from what is best."""
    learner, sees_all = calibrated.LEARNERS["squared, sees all"]
    assert sees_all
    assert learner is not None
    relevance, p, *_ = calibrated.pair_of(cell)
    lists = relevance[np.random.default_rng(0).choice(len(relevance), size=20_000, p=p)]
    best, checkpoints = calibrated.best_scores(relevance, p), np.array([4_000, 20_000])
    early, late = calibrated.regret_of(learner, cell.m, lists, best, checkpoints, seed=0)
    assert (late - early) / 16_000 == pytest.approx(np.sum((p @ relevance - best) ** 2), rel=0.2)


def test_the_learner_that_sees_all_descends_the_gradient() -> None:
    learner, rng, w = RTopKF(NDCGSquared(), horizon=100, step="theorem"), np.random.default_rng(0), np.zeros(3)
    assert learner.full_information
    state, ranking = learner.init(Shape(6, 3, 6)), np.empty(6, dtype=np.int64)
    token = np.zeros(learner.token_size(Shape(6, 3, 6)))
    for t in range(100):
        n = 1 + t % 6
        X = rng.normal(size=(n, 3)).astype(np.float32)
        relevance = rng.integers(0, 3, n).astype(np.float64) * (t % 5 > 0)  # some lists without a relevant item
        learner.kernels.rank(state, X, rng.random(7), ranking[:n], token)
        learner.kernels.update(state, X, ranking[:n], token, relevance[ranking[:n]])
        w -= 100 ** (-1 / 2) * X.astype(np.float64).T @ NDCGSquared().gradient(X @ w, relevance)
        np.testing.assert_allclose(state.w, w, atol=1e-5)


def test_the_record_has_every_row() -> None:
    (table,) = records.read(records.FOLDER / "surrogates.json").tables
    assert table.columns == list(calibrated.table([]).heads)
    expected = [
        [str(cell), records.parse_cell(f"{calibrated.pair_of(cell).gap:.4f}"), str(learner)]
        for cell in calibrated.CELLS
        for learner in calibrated.LEARNERS
    ]
    assert [row[:3] for row in table.rows] == expected


def test_verdicts_follow_what_was_played() -> None:
    def played(cell: calibrated.Cell, **regret: tuple[float, float]) -> list[calibrated.PairResult]:
        """Regret a round on each side and its power of T, by learner."""
        checkpoints, luck, found = np.array([1_000, 2_000]), np.array([0.99, 1.0, 1.01]), []
        for name, (a_round, power) in regret.items():
            one = a_round * checkpoints * (checkpoints / checkpoints[-1]) ** (power - 1)
            both = np.tile(np.outer(one, luck), (2, 1, 1))
            found.append(calibrated.PairResult(cell, 0.03, names[name], checkpoints, both))
        return found

    names = {"unobservable_pair": "squared", "elsewhere": calibrated.AIMS_ELSEWHERE, "told": calibrated.KNOWS}
    cell = calibrated.CELLS[0]
    half = calibrated.far_off(calibrated.pair_of(cell)) / 2

    def differing(**regret: tuple[float, float]) -> list[int]:
        claims = calibrated.claims(played(cell, **regret))
        return [n for n, claim in enumerate(claims) if not claim.holds]

    good = {"unobservable_pair": (0.05, 1.0), "elsewhere": (half, 1.0), "told": (0.01, 0.5)}
    assert differing(**good) == []
    assert differing(**{**good, "unobservable_pair": (0.01, 1.0)}) == [2]
    assert differing(**{**good, "elsewhere": (half / 2, 1.0)}) == [3]
    assert differing(**{**good, "told": (0.01, 1.0)}) == [4]


def test_another_pair_is_told_from_the_certified_one() -> None:
    cell = calibrated.CELLS[0]
    pair = calibrated.pair_of(cell)
    assert [claim.holds for claim in calibrated.pair_claims(cell, pair)] == [True, True]
    moved = pair._replace(p=np.roll(pair.p, 1))
    assert not next(claim.holds for claim in calibrated.pair_claims(cell, moved))
    assert [claim.holds for claim in calibrated.pair_claims(cell, pair._replace(gap=0.04))] == [True, False]
