"""Rebuild an agent from its log, and refuse to rebuild it from feedback alone."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from peekrank import DCG, Agent, BlockFTRL, DoubtSort, PermFTRL, Precision, RTop1F, RTopKF, SetFTRL, replay
from peekrank.engine.replay import Log
from peekrank.types import Decision, Learner

CLOCKED: list[Learner] = [
    BlockFTRL(DCG()),
    RTop1F(DCG(), horizon=500),
    SetFTRL(Precision(2)),
    DoubtSort(DCG()),
]


def new(learner: Learner, seed: int = 3) -> Agent:
    return Agent(learner, m=5, k=4, d=2 if learner.contextual else 0, seed=seed)


def life(agent: Agent, rounds: int = 200) -> Log:
    """A log of answers late, in part, in any order and never."""
    rng, waiting = np.random.default_rng(0), []
    log: list[tuple[Decision, ArrayLike | None]] = []
    for t in range(rounds):
        features = rng.random((5, 2)) if agent.learner.contextual else None
        some = sorted(rng.permutation(5)[:4]) if agent.learner.kernels.set_items is not None and t % 2 else None
        waiting.append(agent.rank(features, available=some))
        log.append((waiting[-1], None))
        while waiting and rng.random() < 0.6:
            decision = waiting.pop(int(rng.integers(len(waiting))))
            feedback = np.where(rng.random(4) < 0.2, np.nan, rng.integers(0, 2, 4))
            agent.update(decision, feedback)
            log.append((decision, feedback))
    return log


@pytest.mark.parametrize("learner", [*CLOCKED, PermFTRL(DCG()), RTopKF()], ids=str)
def test_a_log_makes_the_same_agent(learner: Learner) -> None:
    agent = new(learner)
    log = life(agent)
    assert replay(new(learner), log).dump() == agent.dump()


@pytest.mark.parametrize("learner", CLOCKED, ids=str)
def test_feedback_alone_is_rejected_if_the_learner_counts_rounds(learner: Learner) -> None:
    log, other = list(life(new(learner))), new(learner)
    decision, feedback = next((shown, told) for shown, told in log if told is not None)
    before = other.dump()
    with pytest.raises(
        ValueError, match=r"of round \d+, but this agent has ranked 0 times: .* replay rebuilds it"
    ):
        other.update(decision, feedback)
    with pytest.raises(ValueError, match="of round 0"):
        other.update(decision._replace(round=0), feedback)
    assert other.dump() == before


@pytest.mark.parametrize("learner", [PermFTRL(DCG()), RTopKF()], ids=str)
def test_answers_alone_are_enough_for_the_others(learner: Learner) -> None:
    agent, other = new(learner), new(learner)
    for decision, feedback in life(agent):
        if feedback is not None:
            other.update(decision, feedback)
    name = learner.persistent[0]
    assert np.array_equal(getattr(agent.state, name), getattr(other.state, name))


def test_a_log_of_another_agent_is_rejected() -> None:
    log = life(new(BlockFTRL(DCG())))
    with pytest.raises(ValueError, match=r"entry 0 of the log: .* same learner, shape and seed"):
        replay(new(BlockFTRL(DCG()), seed=4), log)
