"""Permutahedron FTRL: its estimates by enumeration, its bound in runs, answers late, missing or never."""

from __future__ import annotations

from itertools import permutations, product
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

from helpers.hard_streams import fair, mean_regret, noisy, switching
from helpers.permutahedron import Outcomes, closed_form
from peekrank import (
    DCG,
    Agent,
    PairwiseLoss,
    Precision,
    RTop1F,
    Shape,
    SumLoss,
    fixed_items,
    measure,
)
from peekrank.checks import LEARNER_CHECKS, check_learner
from peekrank.engine import run_agents
from peekrank.learners._shared import position_weights
from peekrank.learners.permftrl import PermFTRL, PermFTRLState
from peekrank.types import Features, Floats, Ints, LinearMeasure

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)


def show(state: PermFTRLState, uniforms: Floats) -> tuple[Ints, Floats]:
    ranking, token = np.full(len(uniforms), -1, dtype=np.int64), np.full(1 + state.k, np.nan)
    PermFTRL.kernels.rank(state, NO_FEATURES, uniforms, ranking, token)
    assert token[0] == 0  # it never explores
    return ranking, token


def tell(state: PermFTRLState, shown: tuple[Ints, Floats], costs: Any) -> None:
    feedback = np.asarray(costs, dtype=np.float64)[shown[0][: state.k]]
    PermFTRL.kernels.update(state, NO_FEATURES, *shown, feedback)


def with_scores(learner: PermFTRL, shape: Shape, scores: Floats) -> PermFTRLState:
    state = learner.init(shape)
    state.scores[:] = scores
    return state


# --- the estimates


@pytest.mark.parametrize(
    ("of", "m", "k"),
    [
        (SumLoss(), 2, 1),
        (SumLoss(), 3, 2),
        (SumLoss(), 3, 3),
        (PairwiseLoss(), 4, 3),
        (DCG(), 3, 2),
        (DCG(), 4, 3),
        (DCG(2), 4, 2),
        (DCG(2), 4, 3),
        (DCG(1), 4, 1),
        (Precision(2, mean=False), 4, 2),
        (Precision(1, mean=False), 3, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("horizon", [None, 30])
def test_estimates_are_unbiased_and_the_draw_is_the_leader(
    of: LinearMeasure, m: int, k: int, horizon: int | None
) -> None:
    """Over all coins: expected weights, estimates, and the second moments that the theorem bounds."""
    learner, shape, rng = PermFTRL(of, horizon), Shape(m, 0, k), np.random.default_rng([m, k])
    w = position_weights(of, m)
    for scale in (0.0, 1.0, 5.0):
        scores = -rng.random(m) * scale
        state = with_scores(learner, shape, scores)
        rate = state.rate  # in the first round, with or without a horizon
        outcomes = Outcomes(m, lambda uniforms, state=state: show(state, uniforms)[0])  # type: ignore[misc]
        x, seen = np.zeros(m), np.zeros(m)
        for ranking, probability in zip(outcomes.rankings, outcomes.probabilities, strict=True):
            x[ranking] += probability * w
            seen[ranking[:k]] += probability
        seen = np.minimum(seen, 1)  # but for rounding
        np.testing.assert_allclose(x, closed_form(scores, rate, w), atol=1e-12)
        assert (x / seen).sum() <= w.sum() + (m - k) * w[0] + 1e-9
        for costs in product((0.0, 1.0), repeat=m):
            mean = np.zeros(m)
            for ranking, probability in zip(outcomes.rankings, outcomes.probabilities, strict=True):
                state = with_scores(learner, shape, scores)
                token = np.concatenate([[0.0], seen[ranking[:k]]])
                tell(state, (ranking, token), costs)
                mean += probability * (scores - state.scores)
            np.testing.assert_allclose(mean, costs, atol=1e-12)
        state = with_scores(learner, shape, scores)
        for _ in range(20):  # the kernel's own tokens are these probabilities
            ranking, token = show(state, rng.random(m))
            np.testing.assert_allclose(token[1:], seen[ranking[:k]], rtol=1e-12)


def test_feedback_becomes_costs_not_grades() -> None:
    grades = np.array([0, 1, 3, np.nan])
    np.testing.assert_array_equal(PermFTRL(DCG(), max_grade=3).transform_feedback(grades), [7, 6, 0, np.nan])
    np.testing.assert_array_equal(PermFTRL(SumLoss(), max_grade=3).transform_feedback(grades), [3, 2, 0, np.nan])


@pytest.mark.parametrize("text", ["sumloss", "dcg", "dcg@2", "p@2", "pairwiseloss"])
def test_weights_times_costs_are_the_measure_up_to_a_constant(text: str) -> None:
    of: Any = measure(text)
    rng, w = np.random.default_rng(0), position_weights(of, 4)
    sign = -1 if of.higher_is_better else 1
    rankings = np.array(list(permutations(range(4))))
    for _ in range(5):
        relevance = rng.integers(0, 2, 4)
        costs = PermFTRL(of).transform_feedback(relevance)
        difference = sign * of.values(rankings, np.tile(relevance, (24, 1))) - costs[rankings] @ w
        np.testing.assert_allclose(difference, difference[0], atol=1e-12)


def test_the_rate_falls_with_answered_rounds_if_there_is_no_horizon() -> None:
    shape, scores = Shape(3, 0, 3), np.array([0.0, -1.0, -3.0])
    learner, w = PermFTRL(SumLoss()), position_weights(SumLoss(), 3)
    r, V = 2 * log(2), 3 / 4
    for rounds in (0, 3, 99):
        state = with_scores(learner, shape, scores)
        state.rounds[0] = rounds
        show(state, np.zeros(3))
        expected = closed_form(scores, sqrt(r / (V * (rounds + 1))), w)
        np.testing.assert_allclose(state.space.x, expected, rtol=1e-12)


# --- which k


@pytest.mark.parametrize(
    ("of", "m", "needed", "instead"),
    [
        (SumLoss(), 6, 5, "blockftrl"),
        (PairwiseLoss(), 6, 5, "blockftrl"),
        (DCG(), 1000, 999, "blockftrl"),
        (DCG(4), 10, 4, "blockftrl"),
        (DCG(10), 10, 9, "blockftrl"),
        (Precision(3, mean=False), 10, 3, "setftrl"),
    ],
    ids=str,
)
def test_smallest_k(of: LinearMeasure, m: int, needed: int, instead: str) -> None:
    learner = PermFTRL(of, horizon=100)
    for k in (needed, m):
        assert learner.init(Shape(m, 0, k)).k == k
        assert learner.bound(Shape(m, 0, k), 100) is not None
    with pytest.raises(ValueError, match=rf"k = {needed - 1}: .* k >= {needed} .* use {instead}"):
        Agent(learner, m=m, k=needed - 1)
    assert learner.bound(Shape(m, 0, needed - 1), 100) is None


@pytest.mark.parametrize(
    "learner", [PermFTRL(Precision(5, mean=False)), PermFTRL(Precision(5, mean=False), horizon=9)], ids=str
)
@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 1), (5, 5), (3, 2)])
def test_where_all_rankings_are_equal_there_is_nothing_to_lose(learner: PermFTRL, m: int, k: int) -> None:
    assert learner.bound(Shape(m, 0, k), 10) == 0
    agent = Agent(learner, m=m, k=k)
    for _ in range(5):
        agent.update(decision := agent.rank(), np.zeros(k))
        assert sorted(decision.ranking.tolist()) == list(range(m))


@pytest.mark.parametrize("bad", [{"horizon": 0}, {"horizon": 2.5}, {"max_grade": 0}, {"max_grade": 256}], ids=str)
def test_bad_parameters_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        PermFTRL(SumLoss(), **bad)


@pytest.mark.parametrize(("name", "max_grade"), [("ndcg", 1), ("ap", 1), ("aucloss", 1), ("pairwiseloss", 2)])
def test_measures_that_cannot_be_learned(name: str, max_grade: int) -> None:
    unlearnable: Any = measure(name)
    with pytest.raises(ValueError, match=f"{name} cannot be learned"):
        PermFTRL(unlearnable, max_grade=max_grade)


# --- the bound


def test_constants_of_the_bound_by_hand() -> None:
    """SumLoss of three items: w = 2, 1, 0, W = 3, r = 2 ln 2."""
    for k, V in ((2, 3 + 2), (3, 3 / 4)):
        assert PermFTRL(SumLoss(), 50).bound(Shape(3, 0, k), 50) == pytest.approx(sqrt(2 * 2 * log(2) * V * 50))
        assert PermFTRL(SumLoss()).bound(Shape(3, 0, k), 50) == pytest.approx(2 * sqrt(2 * log(2) * V * 50))
        rates = [PermFTRL(SumLoss(), horizon).init(Shape(3, 0, k)).rate for horizon in (50, None)]
        assert rates == pytest.approx([sqrt(4 * log(2) / (V * 50)), sqrt(2 * log(2) / V)])
    graded, binary = (PermFTRL(DCG(), 50, max_grade=top).bound(Shape(5, 0, 4), 50) for top in (3, 1))
    assert graded == pytest.approx(7 * (binary or 0))


@pytest.mark.parametrize("stream", [switching, fair, noisy])
@pytest.mark.parametrize("horizon", [None, 3000])
@pytest.mark.parametrize(
    ("of", "k", "top"),
    [(SumLoss(), 7, 1), (SumLoss(), 8, 1), (PairwiseLoss(), 7, 1), (DCG(), 7, 2), (DCG(), 8, 1), (DCG(3), 3, 1)],
    ids=str,
)
def test_regret_is_below_the_bound(of: LinearMeasure, k: int, top: int, horizon: int | None, stream: Any) -> None:
    learner = PermFTRL(of, horizon, max_grade=top)
    bound = learner.bound(Shape(8, 0, k), 3000)
    assert bound is not None
    assert mean_regret(learner, [stream(3000, 8, top, seed) for seed in range(16)], k) < bound


@pytest.mark.parametrize("of", [SumLoss(), DCG()], ids=str)
@pytest.mark.parametrize("stream", [switching, noisy])
def test_less_regret_than_rtop1f(of: LinearMeasure, stream: Any) -> None:
    rounds = [stream(5000, 10, 1, seed) for seed in range(3)]
    ours, theirs = (mean_regret(cls(of, 5000), rounds, 9) for cls in (PermFTRL, RTop1F))
    assert ours < 0.6 * theirs


# --- every check, also with as many answers as SumLoss needs


@pytest.mark.parametrize(
    "learner",
    [PermFTRL(DCG(2), 4000), PermFTRL(DCG(1), 4000, max_grade=3), PermFTRL(Precision(2, mean=False), 4000)],
    ids=str,
)
def test_passes_every_check(learner: PermFTRL) -> None:
    check_learner(learner)


@pytest.mark.parametrize("k", [5, 6])
@pytest.mark.parametrize(
    "learner",
    [PermFTRL(SumLoss(), 4000), PermFTRL(DCG(), 4000, 2), PermFTRL(PairwiseLoss(), 4000), PermFTRL(DCG())],
    ids=str,
)
def test_passes_every_check_with_more_answers(learner: PermFTRL, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peekrank.checks.learners.problem.K", k)
    for check in LEARNER_CHECKS.values():
        check(learner)


# --- answers late, missing, never


def test_answers_in_any_order_come_to_the_same() -> None:
    """What a decision teaches is in its token: late answers add what they would have added at once."""
    rng = np.random.default_rng(0)
    state = PermFTRL(SumLoss(), 100).init(Shape(5, 0, 4))
    for _ in range(30):
        tell(state, show(state, rng.random(5)), rng.random(5))
    shown = [show(state, rng.random(5)) for _ in range(8)]
    costs = rng.random((8, 5))
    expected = state.scores.copy()
    for (ranking, token), row in zip(shown, costs, strict=True):
        expected[ranking[:4]] -= row[ranking[:4]] / token[1:]
    for i in rng.permutation(8):
        tell(state, shown[i], costs[i])
    np.testing.assert_allclose(state.scores, expected, rtol=1e-13)
    assert state.rounds[0] == 38


def test_a_missing_answer_counts_as_the_mean_of_those_that_came() -> None:
    rng = np.random.default_rng(1)
    state = PermFTRL(DCG()).init(Shape(5, 0, 4))
    first, told = show(state, rng.random(5)), rng.random(5)
    tell(state, first, told)
    expected, (ranking, token) = state.scores.copy(), show(state, rng.random(5))
    costs, silent = np.ones(5), ranking[2]
    costs[silent] = np.nan
    tell(state, (ranking, token), costs)
    assert silent in first[0][:4]
    expected[ranking[:4]] -= np.where(ranking[:4] == silent, told[silent], 1) / token[1:]
    np.testing.assert_allclose(state.scores, expected, rtol=1e-13)
    tell(state, show(state, rng.random(5)), np.full(5, np.nan))
    np.testing.assert_allclose(state.scores, expected, rtol=1e-13)
    assert state.rounds[0] == 2


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.5, np.nan])
def test_foreign_tokens_are_refused(wrong: float) -> None:
    agent = Agent(PermFTRL(SumLoss(), 100), m=4, k=3)
    decision = agent.rank()
    decision.token[2] = wrong
    with pytest.raises(ValueError, match="token"):
        agent.update(decision, [1, 0, 1])


# --- many rounds


@pytest.mark.parametrize(("k", "horizon"), [(2, None), (2, 10**6), (3, 10**6)])
def test_nothing_drifts_in_a_million_rounds(k: int, horizon: int | None) -> None:
    """The estimates stay near the true costs, and the leader exact."""
    T, m, p = 10**6, 3, np.array([0.45, 0.5, 0.55])
    learner = PermFTRL(SumLoss(), horizon)
    costs = np.random.default_rng(4).random((T, m)) < p
    agent = Agent(learner, m=m, k=k, seed=0)
    (trace,) = run_agents(
        [agent], fixed_items(~costs), measure=Precision(1, mean=False), checkpoints=np.array([T // 2, T])
    )
    state = agent._state
    assert state.rounds[0] == T
    if k == m:
        assert np.array_equal(-state.scores, costs.sum(axis=0))
    else:
        assert np.all(abs(-state.scores[:2] / T - p[:2]) < 0.01)
        assert -state.scores[2] / T > 0.5
    rate = state.rate if horizon else state.rate / sqrt(T + 1)
    show(state, np.zeros(m))
    expected = closed_form(state.scores, rate, state.weights)
    np.testing.assert_allclose(state.space.x, expected[state.space.order], rtol=1e-9)
    assert (trace.value[1] - trace.value[0]) / (T / 2) > 0.9 * 0.55 + 0.1 * 0.45  # item 0 is mostly on top


def test_grades_of_any_size() -> None:
    """Gains up to 2^255: estimates and probabilities stay finite."""
    rng = np.random.default_rng(0)
    rounds = fixed_items(rng.choice([0, 255], size=(2000, 5), p=[0.7, 0.3]).astype(np.uint8))
    with pytest.warns(UserWarning, match="a grade g is worth"):
        learner = PermFTRL(DCG(), 2000, max_grade=255)
    assert 0 < mean_regret(learner, [rounds], 4) < (learner.bound(Shape(5, 0, 4), 2000) or 0)
