"""An agent's bytes: resume bit for bit, refuse what is foreign, damaged, or of another learner."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

from peekrank import DCG, FTPL, Agent, RTop1F, SumLoss

LEARNER = RTop1F(DCG(), horizon=500)


@pytest.fixture
def agent() -> Agent:
    made = Agent(LEARNER, m=5, k=1, seed=1)
    for t in range(40):
        made.update(made.rank(), [t % 2])
    return made


def test_load_without_a_learner_uses_the_registry(agent: Agent) -> None:
    copy = Agent.load(agent.dump())
    assert copy.learner == LEARNER
    assert copy.shape == agent.shape
    for t in range(100):
        one, two = agent.rank(), copy.rank()
        assert np.array_equal(one.ranking, two.ranking)
        assert np.array_equal(one.token, two.token)
        for a, decision in ((agent, one), (copy, two)):
            a.update(decision, [t % 3 == 0])
    assert agent.dump() == copy.dump()


def test_nothing_is_pickled(agent: Agent) -> None:
    blob = agent.dump()
    with np.load(io.BytesIO(blob[blob.index(b"PK") :]), allow_pickle=False) as arrays:
        assert {"about", "state.scores", "state.sorting.keys"} <= set(arrays)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda blob: b"", "not a saved peekrank agent"),
        (lambda blob: pickle.dumps({}), "not a saved peekrank agent"),
        (lambda blob: blob[:30], "damaged"),
        (lambda blob: blob[:-1], "damaged"),
        (lambda blob: blob[:200] + bytes([blob[200] ^ 1]) + blob[201:], "damaged"),
        (lambda blob: blob[:8] + b"\x00\x63" + blob[10:], "saved in format 99; this peekrank reads format 1"),
    ],
)
def test_foreign_or_damaged_bytes_are_refused(agent: Agent, spoil: object, message: str) -> None:
    assert callable(spoil)
    with pytest.raises(ValueError, match=message):
        Agent.load(spoil(agent.dump()))


def test_another_learner_is_refused(agent: Agent) -> None:
    with pytest.raises(ValueError, match="saved with learner 'rtop1f:measure=dcg,horizon=500', not 'ftpl"):
        Agent.load(agent.dump(), FTPL(SumLoss(), horizon=10))


def test_only_generators_that_can_be_saved_are_dumped() -> None:
    agent = Agent(LEARNER, m=5, k=1, seed=np.random.Generator(np.random.MT19937(1)))
    with pytest.raises(ValueError, match="MT19937 generator cannot be saved"):
        agent.dump()
