"""Saved agents: they resume bit for bit, and foreign, damaged, forged or mismatched bytes are rejected."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from peekrank import DCG, FTPL, Agent, BlockFTRL, RTop1F, SumLoss
from peekrank.learners import learner
from peekrank.learners.rtopkf.learner import RTopKF
from peekrank.types import Shape

LEARNER = RTop1F(DCG(), horizon=500)
HEADER = 42  # bytes before the body: a mark, the format, a checksum


@pytest.fixture
def agent() -> Agent:
    made = Agent(LEARNER, m=5, k=1, seed=1)
    for t in range(40):
        made.update(made.rank(), [t % 2])
    return made


def sealed(body: bytes, blob: bytes) -> bytes:
    """A body with a checksum that fits."""
    return blob[:10] + hashlib.sha256(body).digest() + body


def described_otherwise(blob: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The same numbers under another description."""
    body = blob[HEADER:]
    end = 4 + int.from_bytes(body[:4], "big")
    about = json.loads(body[4:end])
    change(about)
    text = json.dumps(about).encode()
    return sealed(len(text).to_bytes(4, "big") + text + body[end:], blob)


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
    assert (copy.rounds, copy.n_feedback) == (140, 140)


def test_the_file_holds_a_description_and_the_memory_only(agent: Agent) -> None:
    body = agent.dump()[HEADER:]
    end = 4 + int.from_bytes(body[:4], "big")
    names = ["rounds", "answers", "retired", *(f"state.{name}" for name in RTop1F.persistent)]
    assert json.loads(body[4:end])["persistent"] == names
    assert len(body) - end == 8 * (1 + 5 + 5 + 5 + 5 + 5 + 4 + 5 + 5)
    assert np.frombuffer(body, "<i8", 1, end).tolist() == [40]


def test_a_state_is_made_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    made, init = [], RTop1F.init

    def noted(self: RTop1F, shape: Shape) -> Any:
        made.append(shape)
        return init(self, shape)

    monkeypatch.setattr(RTop1F, "init", noted)
    Agent.load(agent.dump())
    assert len(made) == 1


def test_a_loaded_copy_can_be_reseeded(agent: Agent) -> None:
    same, other, again = (Agent.load(agent.dump()) for _ in range(3))
    other.reseed(7)
    again.reseed(7)
    shown = [[a.rank().ranking.tolist() for _ in range(20)] for a in (agent, same, other, again)]
    assert shown[0] == shown[1] != shown[2] == shown[3]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda blob: b"", "not a saved peekrank agent"),
        (lambda blob: pickle.dumps({}), "not a saved peekrank agent"),
        (lambda blob: blob[:30], "damaged"),
        (lambda blob: blob[:-1], "damaged"),
        (lambda blob: blob[:200] + bytes([blob[200] ^ 1]) + blob[201:], "damaged"),
        (lambda blob: blob[:8] + b"\x00\x63" + blob[10:], "saved in format 99; this .* reads formats 2 and 3"),
        (lambda blob: blob[:8] + b"\x00\x01" + blob[10:], "saved in format 1; this .* reads formats 2 and 3"),
        (lambda blob: sealed(b"", blob), "its description is not JSON"),
        (lambda blob: sealed(b"\x00\x00\x00\x02[]", blob), "must have learner, shape, generator, persistent"),
        (lambda blob: sealed(b"\xff\xff\xff\xff" + b"[" * 100_000, blob), "its description is not JSON"),
        (lambda blob: sealed(blob[HEADER:] + b"x", blob), "does not fit learner"),
        (lambda blob: sealed(blob[HEADER:-8], blob), "does not fit learner"),
    ],
)
def test_foreign_or_damaged_bytes_are_rejected(agent: Agent, spoil: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Agent.load(spoil(agent.dump()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": 3}, "its learner is not a text"),
        ({"learner": "rtop2f"}, "cannot be restored: unknown learner 'rtop2f': did you mean"),
        ({"learner": "ftpl:measure=dcg,horizon=500"}, "does not fit learner 'ftpl:measure=dcg,horizon=500'"),
        ({"shape": [5, 0]}, "its shape must be three numbers"),
        ({"shape": "505"}, "its shape must be three numbers"),
        ({"shape": [5.0, 0, 1]}, "m = 5.0: must be a whole number"),
        ({"shape": [True, 0, 1]}, "m = True: must be a whole number"),
        ({"shape": [10**15, 0, 1]}, "m = 1000000000000000: must be a whole number, from 1 to"),
        ({"shape": [5, 0, 6]}, "k = 6: must be a whole number, from 1 to 5"),
        ({"shape": [4, 0, 1]}, "does not fit learner"),
        ({"generator": {}}, "its generator is not a PCG64"),
        ({"generator": {"state": -1, "inc": 1, "has_uint32": 0, "uinteger": 0}}, "its generator is not"),
        ({"generator": {"state": 2**200, "inc": 1, "has_uint32": 0, "uinteger": 0}}, "its generator is not"),
        ({"persistent": None}, "its arrays have no names"),
        ({"persistent": ["scores"]}, "does not fit learner"),
    ],
)
def test_invalid_descriptions_are_rejected(agent: Agent, changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Agent.load(described_otherwise(agent.dump(), lambda about: about.update(changes)))


def test_a_forged_length_of_lists_takes_no_memory() -> None:
    blob = Agent(RTopKF(), m=4, k=1, d=3).dump()
    with pytest.raises(ValueError, match="m = 1000000000: must be a whole number, from 1 to 16777216"):
        Agent.load(described_otherwise(blob, lambda about: about.update(shape=[10**9, 3, 1])))


def test_a_clock_beyond_its_block_is_rejected() -> None:
    """Compiled code would read questions that are not there."""
    agent = Agent(BlockFTRL(DCG(), horizon=10_000), m=10, k=1)
    agent.rank()
    agent._state.clock[:] = 2**40
    with pytest.raises(ValueError, match="its clock must leave a round for each exploration"):
        Agent.load(agent.dump())


def test_another_learner_is_rejected(agent: Agent) -> None:
    with pytest.raises(ValueError, match="saved with learner 'rtop1f:measure=dcg,horizon=500', not 'ftpl"):
        Agent.load(agent.dump(), FTPL(SumLoss(), horizon=10))


def test_only_generators_that_can_be_saved_are_dumped() -> None:
    agent = Agent(LEARNER, m=5, k=1, seed=np.random.Generator(np.random.MT19937(1)))
    with pytest.raises(ValueError, match="MT19937 generator cannot be saved"):
        agent.dump()


@pytest.mark.parametrize("name", ["doubtsort", "greedy"])
@pytest.mark.filterwarnings("ignore:max_grade")
def test_what_the_largest_grades_leave_can_be_loaded(name: str) -> None:
    agent = Agent(learner(f"{name}:measure=dcg,max_grade=255"), m=3, k=2)
    for _ in range(5):
        agent.update(agent.rank(), [255, 255])  # gains of 2^255
    assert Agent.load(agent.dump()).best_ranking().tolist() == agent.best_ranking().tolist()
