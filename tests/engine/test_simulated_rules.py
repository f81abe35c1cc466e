"""Simulation under rules: the lists are those of an agent, call by call."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank import DCG, Agent, AtMost, DoubtSort, Greedy, Ridge, Rules, Thompson, fixed_items, simulate
from peekrank.engine import run_agents
from peekrank.types import Learner, Rounds

T, M, K = 60, 5, 2
RELEVANCE = (np.random.default_rng(1).random((T, M)) < np.linspace(0.1, 0.9, M)).astype(np.uint8)


def with_features() -> Rounds:
    X = np.random.default_rng(2).normal(size=(T * M, 3)).astype(np.float32)
    return Rounds(X, RELEVANCE.ravel(), np.arange(0, T * M + 1, M))


@pytest.mark.parametrize(
    ("learner", "rules"),
    [
        (DoubtSort(DCG()), Rules(explore=0.1, pins={1: 3}, leash=0.3)),
        (Greedy(DCG(), epsilon=0.5), Rules(explore_at=1, new=AtMost(1, 2), new_below=5)),
        (Ridge(explore_rate=0.5), Rules(explore=0.2, leash=0.1)),
    ],
    ids=str,
)
def test_simulated_lists_are_those_of_an_agent(learner: Learner, rules: Rules) -> None:
    d = 3 if learner.contextual else 0
    rounds = with_features() if d else fixed_items(RELEVANCE)
    agent = Agent(learner, m=M, k=K, d=d, seed=7, rules=rules)
    values, explored = [], []
    for t in range(T):
        X = rounds.features[M * t : M * t + M] if d else None
        decision = agent.rank(X, available=None if d else np.arange(M))
        values.append(DCG().discount(M) @ RELEVANCE[t][decision.ranking])
        explored.append(decision.explored)
        agent.update(decision, RELEVANCE[t][decision.ranking[:K]].astype(float))
    trace = simulate(learner, rounds, k=K, measure=DCG(), seed=7, rules=rules)
    np.testing.assert_allclose(trace.value, np.cumsum(values))
    assert trace.explored.tolist() == np.cumsum(explored).tolist()
    assert 0 < trace.explored[-1] < T


def test_an_agent_with_rules_keeps_them_in_a_loop() -> None:
    rounds, leashed = fixed_items(RELEVANCE), Rules(leash=0.0)
    (trace,) = run_agents([Agent(DoubtSort(DCG()), m=M, k=K, rules=leashed)], rounds, measure=DCG())
    np.testing.assert_allclose(trace.value, np.cumsum(RELEVANCE @ DCG().discount(M)))  # the order as listed
    for learner, rules, said in (
        (DoubtSort(DCG()), Rules(blocked=[1]), "leave blocked out"),
        (DoubtSort(DCG()), Rules(group=AtMost(1, 2)), "leave group out"),
        (Thompson(DCG()), Rules(explore=0.5), "cannot obey rules"),
    ):
        with pytest.raises(ValueError, match=said):
            simulate(learner, rounds, k=K, measure=DCG(), rules=rules)
