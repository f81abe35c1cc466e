"""Auto is a champion of ridge, its feature map and rtopkf."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank import DCG, Agent, Auto, Champion, Ridge, Rounds, RTopKF
from peekrank.engine import run_agents


def products(lists: int, seed: int) -> Rounds:
    """Lists of six items whose relevance is the sign of a product of two features: no linear order is good."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(lists * 6, 3)).astype(np.float32)
    return Rounds(X, (X[:, 0] * X[:, 1] > 0).astype(np.uint8), np.arange(0, lists * 6 + 1, 6))


def test_it_is_the_champion_of_its_members() -> None:
    auto = Auto(max_grade=1, expand=6)
    same = Champion(DCG(10), (Ridge(), Ridge(expand=6), RTopKF()), max_grade=1)
    rounds = products(400, 1)
    one, two = (run_agents([Agent(who, m=6, k=2, d=3)], rounds, measure=DCG())[0] for who in (auto, same))
    np.testing.assert_array_equal(one.value, two.value)


@pytest.mark.parametrize("k", [1, 3])
def test_a_feature_map_takes_over_where_relevance_is_a_product(k: int) -> None:
    auto = Auto(max_grade=1, expand=6)
    agent = Agent(auto, m=6, k=k, d=3)
    run_agents([agent], products(12_000, 2), measure=DCG())
    assert auto.champion(agent.state) == Ridge(expand=6)
    X = np.array([[1, 1, 0], [1, -1, 0], [-1, -1, 0], [-1, 1, 0]], np.float32)
    assert set(np.argsort(-auto.scores(agent.state, X))[:2].tolist()) == {0, 2}


def test_lists_of_all_lengths_and_a_long_pool_have_propensities() -> None:
    agent, rng = Agent(Auto(expand=3), m=7, k=2, d=2), np.random.default_rng(0)
    for n in (1, 2, 3, 7, 5):
        decision = agent.rank(rng.normal(size=(n, 2)))
        assert decision.propensities is not None
        assert decision.propensities.sum() == pytest.approx(min(2, n))
        agent.update(decision, rng.integers(0, 5, min(2, n)))
