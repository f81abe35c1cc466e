"""Propensities to be seen are exact: all that a round's randomness can come to is enumerated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.enumeration import outcomes
from helpers.rounds import NextRound
from peekrank import (
    DCG,
    FTPL,
    NW2,
    Agent,
    BlockFTRL,
    FeedExp3,
    PermFTRL,
    Precision,
    Ridge,
    RTop1F,
    RTopKF,
    SetFTRL,
    SumLoss,
    Uniform,
)
from peekrank.surrogates import KL, RankSVM
from peekrank.types import Features, Floats, Learner

D = 3
GRID = {1: 4000, 2: 600, 3: 200}  # points at which a uniform is tried, by the number of uniforms


def lived(learner: Learner, m: int, k: int, rounds: int) -> Agent:
    """An agent after some rounds, in which not all was answered."""
    agent, rng = Agent(learner, m=m, k=k, d=D if learner.contextual else 0, seed=5), np.random.default_rng(6)
    for _ in range(rounds):
        decision = agent.rank(features(learner, m))
        relevant = (rng.random(m) < np.linspace(0.9, 0.1, m)).astype(np.float64)
        answers = relevant[decision.ranking[: agent.shape.k]]
        answers[rng.random(len(answers)) < 0.1] = np.nan
        agent.update(decision, answers)
    return agent


def features(learner: Learner, m: int) -> Features:
    table = np.random.default_rng(4).normal(size=(m, D)).astype(np.float32)
    return table if learner.contextual else table[:, :0]


def enumerated(agent: Agent, X: Features) -> tuple[Floats, Floats]:
    """The propensities of the next round, by enumeration and by the kernel."""
    this, k, exact = NextRound(agent, X), min(agent.shape.k, len(X)), np.zeros(len(X))

    def outcome(uniforms: Floats) -> frozenset[Any]:
        return frozenset(this.rank(uniforms)[:k].tolist())

    for seen, probability in outcomes(outcome, this.draws, GRID.get(this.draws, 48)).items():
        exact[list(seen)] += probability  # type: ignore[call-overload]
    outcome(np.random.default_rng(1).random(this.draws))
    return exact, this.propensities()


CASES: list[Learner] = [
    Uniform(),
    FTPL(DCG(), horizon=100),
    PermFTRL(DCG(1), horizon=100),
    PermFTRL(Precision(1, mean=False)),
    BlockFTRL(DCG(), horizon=60),
    BlockFTRL(SumLoss()),
    BlockFTRL(DCG(1), horizon=200, decay=0.9),
    SetFTRL(Precision(2, mean=False), horizon=100),
    SetFTRL(Precision(1, mean=False)),
    RTopKF(),
    RTopKF(KL(), gamma=0.3, temperature=0.5, unseen_order="random"),
    RTopKF(KL(), temperature=0.0),
    Ridge(),
    Ridge(explore_rate=0.2, expand=3),
]


@pytest.mark.parametrize(("m", "rounds"), [(2, 3), (4, 0), (4, 17)])
@pytest.mark.parametrize("learner", CASES, ids=str)
def test_propensities_are_what_enumeration_finds(learner: Learner, m: int, rounds: int) -> None:
    for k in range(1, m + 1):
        agent = lived(learner, m, k, rounds)
        exact, said = enumerated(agent, features(learner, m))
        assert exact.sum() == pytest.approx(agent.shape.k, abs=1e-9)
        np.testing.assert_allclose(said, exact, atol=1e-9)
        assert said.sum() == pytest.approx(agent.shape.k, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 8, 40])
@pytest.mark.parametrize(
    "learner", [BlockFTRL(DCG(), horizon=400), BlockFTRL(SumLoss()), PermFTRL(DCG(1)), RTopKF()], ids=str
)
def test_propensities_of_five_items(learner: Learner, rounds: int) -> None:
    for k in range(1, 6):
        exact, said = enumerated(lived(learner, 5, k, rounds), features(learner, 5))
        np.testing.assert_allclose(said, exact, atol=1e-9)


@pytest.mark.parametrize("rounds", [0, 10])
@pytest.mark.parametrize(
    ("learner", "m", "k"),
    [
        (NW2(Precision(2, mean=False), horizon=10_000), 4, 1),
        (NW2(Precision(2, mean=False), horizon=10_000), 4, 3),
        (NW2(Precision(1, mean=False)), 3, 2),
        (NW2(Precision(2, mean=False), horizon=10_000, paper_rate=True), 4, 2),
        (NW2(DCG(), horizon=10_000), 3, 2),
        (FeedExp3(DCG(), horizon=10_000), 3, 1),
        (FeedExp3(DCG()), 3, 2),
        (FeedExp3(Precision(2, mean=False)), 4, 3),
        (RTopKF(RankSVM()), 4, 2),
    ],
    ids=str,
)
def test_propensities_of_learners_with_needs(learner: Learner, m: int, k: int, rounds: int) -> None:
    agent = lived(learner, m, k, rounds)
    exact, said = enumerated(agent, features(learner, m))
    np.testing.assert_allclose(said, exact, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_shorter_lists_have_propensities_too(n: int) -> None:
    for k in (1, 2, 3):
        for learner in (Uniform(), RTopKF(gamma=0.2)):
            agent = lived(learner, 3, k, 9)
            exact, said = enumerated(agent, features(learner, n))
            np.testing.assert_allclose(said, exact, atol=1e-9)


def test_decisions_carry_propensities_that_cannot_be_changed() -> None:
    decision = Agent(Uniform(), m=4, k=1).rank()
    assert decision.propensities is not None
    assert decision.propensities.tolist() == [0.25] * 4
    with pytest.raises(ValueError, match="read-only"):
        decision.propensities[0] = 1


def test_a_perturbed_leader_cannot_say() -> None:
    assert Agent(RTop1F(DCG(), horizon=100), m=4, k=1).rank().propensities is None


def test_many_items_that_share_position_k_are_too_many_to_say() -> None:
    agent = Agent(BlockFTRL(DCG(), horizon=10**6), m=200, k=3)
    assert agent.rank().propensities is None
    for seed in (128, 127):
        propensities = Agent(BlockFTRL(DCG(), horizon=10**6), m=seed, k=3).rank().propensities
        assert propensities is not None
        assert propensities.sum() == pytest.approx(3)


def test_overflowed_scores_leave_nothing_to_propensity() -> None:
    agent = Agent(RTopKF(), m=3, k=1, d=1)
    agent._state.w[:] = 3e38
    decision = agent.rank(np.full((3, 1), 1e15))
    assert decision.ranking.tolist() == [0, 1, 2]
    assert decision.propensities is not None
    assert decision.propensities.tolist() == [1, 0, 0]
    assert np.isfinite(decision.token).all()
