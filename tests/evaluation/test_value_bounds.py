"""What an order that was never varied tells: limits hold, and what was not seen is not guessed."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank import DCG, Agent, BlockFTRL, DoubtSort, MarginFTRL, Ridge, SumLoss
from peekrank.evaluation.value_bounds import bound_value


def test_limits_hold_for_every_order() -> None:
    means, rng = np.array([0.8, 0.5, 0.3, 0.9]), np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        n = np.array([400, 100, 0, 0])
        sums = rng.binomial(n, means).astype(np.float64)
        for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
            found = bound_value(DCG(), order, sums, n)
            value = float(DCG().discount(4) @ means[order])
            wrong += not found.low <= value <= found.high
            assert found.high - found.low == pytest.approx(found.sampling + found.unseen)
    assert wrong <= 0.05 * 200


def test_what_was_never_seen_can_be_worth_anything() -> None:
    found = bound_value(SumLoss(), [0, 1], np.array([500.0, 0.0]), [1000, 0])
    assert found.unknown.tolist() == [1]
    assert found.unseen == pytest.approx(2.0)  # the second position counts 2
    assert found.may_explore
    assert not bound_value(DCG(), [0, 1], np.array([1.0, 1.0]), [2, 2]).may_explore
    assert "none" in str(bound_value(DCG(), [0, 1], np.array([1.0, 1.0]), [2, 2]))


@pytest.mark.parametrize("learner", [DoubtSort(DCG()), MarginFTRL(DCG()), Ridge()], ids=str)
def test_learners_learn_from_what_the_app_shows(learner: DoubtSort | MarginFTRL | Ridge) -> None:
    agent, X = Agent(learner, m=3, k=2, d=3 if learner.contextual else 0), np.eye(3)
    for _ in range(50):
        decision = agent.override(agent.rank(X if learner.contextual else None), [2, 1, 0])
        agent.update(decision, [0, 1])
    assert decision.propensities is not None
    assert decision.propensities.tolist() == [0, 1, 1]
    order = agent.best_ranking(X if learner.contextual else None).tolist()
    assert order.index(1) < order.index(2)


def test_some_items_only() -> None:
    agent = Agent(DoubtSort(DCG()), m=5, k=1)
    decision = agent.override(agent.rank(available=[1, 4]), [4, 1])
    agent.update(decision, [1])
    assert agent.summary().n_feedback.tolist() == [0, 0, 0, 0, 1]


def test_bad_orders_and_learners_are_refused() -> None:
    fixed, known = Agent(BlockFTRL(DCG()), m=3, k=1), Agent(DoubtSort(DCG()), m=3, k=1)
    with pytest.raises(ValueError, match="blockftrl learns from its own rankings only"):
        fixed.override(fixed.rank(), [0, 1, 2])
    with pytest.raises(ValueError, match="must hold the items of the decision, each once"):
        known.override(known.rank(), [0, 1, 1])
