"""Mutants of saved agents with valid checksums, and a few rounds with the agents that load."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from fuzz.mutations import json_bytes, json_mutant, mutant, pool
from peekrank.engine import Agent
from peekrank.engine.rules import AtMost, Rules
from peekrank.learners import learner

# What is saved of every learner, in shapes that take each of its ways: specification, m, d, k, rounds played
SAVED = (
    ("uniform", 4, 0, 2, 3),
    ("ftpl:measure=dcg,horizon=100", 5, 0, 5, 20),
    ("ftpl:measure=sumloss,horizon=100", 40, 0, 40, 5),
    ("rtop1f:measure=dcg,horizon=300", 5, 0, 1, 33),
    ("rtop1f:measure=sumloss,horizon=300,order=fixed", 7, 0, 3, 50),
    ("permftrl:measure=dcg@2", 5, 0, 2, 30),
    ("permftrl:measure=p@1+sum,horizon=500", 6, 0, 3, 40),
    ("blockftrl:measure=dcg,horizon=1000", 6, 0, 1, 80),
    ("blockftrl:measure=sumloss", 5, 0, 2, 47),
    ("blockftrl:measure=p@2+sum,horizon=500,decay=0.5", 8, 0, 3, 60),
    ("blockftrl:measure=dcg", 40, 0, 4, 90),
    ("marginftrl:measure=dcg", 5, 0, 1, 60),
    ("marginftrl:measure=p@2+sum", 6, 0, 3, 60),
    ("setftrl:measure=p@2+sum", 5, 0, 1, 30),
    ("setftrl:measure=p@3+sum,horizon=1000", 6, 0, 5, 30),
    ("nw2:measure=p@2+sum,horizon=100000", 4, 0, 1, 25),
    ("nw2:measure=p@1+sum", 3, 0, 2, 25),
    ("feedexp3:measure=dcg,horizon=100000", 3, 0, 2, 25),
    ("feedexp3:measure=p@2+sum", 4, 0, 2, 25),
    ("doubtsort:measure=dcg", 5, 0, 1, 30),
    ("doubtsort:measure=p@2+sum,variant=safe,max_grade=2", 6, 0, 3, 30),
    ("doubtsort:measure=dcg,decay=0.9", 40, 0, 2, 60),
    ("greedy:measure=dcg", 5, 0, 2, 20),
    ("thompson:measure=dcg", 4, 0, 1, 20),
    ("ucb:measure=dcg", 5, 0, 2, 20),
    ("rtopkf", 5, 3, 1, 25),
    ("rtopkf:surrogate=kl,estimator=doubly_robust", 4, 2, 2, 25),
    ("rtopkf:surrogate=ranksvm,gamma=0.2,radius=2.0", 6, 3, 3, 25),
    ("ridge", 5, 3, 1, 25),
    ("ridge:explore=sampling", 4, 2, 2, 25),
    ("ridge:expand=6,decay=0.9", 6, 5, 3, 40),
    ("mixed", 5, 0, 2, 40),
    ("mixed:cells=6,safe=true,high=2.0", 6, 0, 3, 60),
    ("champion:measure=dcg", 5, 0, 1, 60),
    ("champion:measure=dcg@2,members=[greedy;doubtsort],share=2.0", 6, 0, 2, 300),
    ("auto:expand=3", 5, 3, 2, 40),
)
RULES = (
    ("doubtsort:measure=dcg", 6, 3, Rules(explore=0.5, explore_at=2, new=AtMost(1, 3), group=AtMost(1, 2))),
    ("mixed:cells=6", 6, 2, Rules(explore=0.3, leash=0.2, new=AtMost(1, 2), new_below=3)),
)
_HEAD, _LENGTH = 42, 4  # bytes before the body, and of the length of its description
_ROUNDS = 12
_FLOATS = (
    *(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 2.0**40, -(2.0**40), 2.0**53, 5e-324),
    *(1e-300, 1e-100, 1e100, -1e100, 9e99, 1e101, 1e300, -1e300, 1.7e308),
)
_INTS = (*range(-2, 10), 39, 40, 41, 64, 1000, 2**31, 2**40, 2**53, 2**63 - 1, -(2**40), -(2**63))


class Parts(NamedTuple):
    """The parts of a saved agent: head, description and arrays."""

    head: bytes
    about: dict[str, Any]
    arrays: list[np.ndarray[Any, Any]]


def samples() -> tuple[bytes, ...]:
    """Make saved agents after some rounds."""
    ruled = (_played(text, m, 0, k, 40, rules).dump() for text, m, k, rules in RULES)
    return (*(_played(*each).dump() for each in SAVED), *ruled)


def mutate(rng: Random, parts: list[Parts]) -> bytes:
    """Mutate the arrays, the description or the bytes of a saved agent."""
    head, about, arrays = rng.choice(parts)
    arrays = [array.copy() for array in arrays]
    kind = rng.random()
    if kind < 0.85:
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            change_numbers(rng, rng.choice(arrays))
    if kind > 0.8:
        about = json_mutant(rng, about)
    if kind > 0.98:
        arrays = arrays[: rng.randrange(len(arrays) + 1)]
    blob = _sealed(head, json_bytes(about), b"".join(array.tobytes() for array in arrays))
    return mutant(rng, pool([blob])) if kind > 0.99 else blob


def parts_of(blob: bytes, agent: Agent) -> Parts:
    """Split a saved agent into its parts."""
    end = _HEAD + _LENGTH + int.from_bytes(blob[_HEAD : _HEAD + _LENGTH], "big")
    about = json.loads(blob[_HEAD + _LENGTH : end])
    arrays, state = [], agent.state
    for name in about["persistent"]:
        array: Any = agent._counts if not name.startswith("state.") else state
        for part in name.removeprefix("state.").split("."):
            array = getattr(array, part)
        arrays.append(np.frombuffer(blob, array.dtype, array.size, end).copy())
        end += array.nbytes
    assert end == len(blob)
    return Parts(blob[: _HEAD - hashlib.sha256().digest_size], about, arrays)


def _sealed(head: bytes, text: bytes, numbers: bytes) -> bytes:
    body = len(text).to_bytes(_LENGTH, "big") + text + numbers
    return head + hashlib.sha256(body).digest() + body


def change_numbers(rng: Random, array: np.ndarray[Any, Any]) -> None:
    """Change one number of an array, or permute or overwrite it."""
    if not array.size:
        return
    numbers: Any = _FLOATS if array.dtype.kind == "f" else _INTS
    value = rng.choice(numbers)
    array = array.reshape(-1)  # a view
    i, j = rng.randrange(array.size), rng.randrange(array.size)
    change = rng.randrange(8)
    with np.errstate(all="ignore"):
        if change == 0:
            array[:] = value
        elif change == 1:
            array[i], array[j] = array[j], array[i]
        elif change == 2:
            array[i] = array[j]
        elif change == 3:
            array[:] = array[list(rng.sample(range(array.size), array.size))]
        elif change == 4:
            array[i] += rng.choice((-1, 1))
        else:
            array[i] = value


def read(path: Path) -> Agent:
    """Load an agent. Errors name the file."""
    try:
        return Agent.load(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def use(agent: Agent) -> None:
    """Run some rounds, with missing and late feedback, and inspect and save the agent in between."""
    rng = np.random.default_rng(0)
    _, d, k = agent.shape
    n = min(agent.shape.m, 50)
    features = rng.normal(size=(n, d)).astype(np.float32) if d or n < agent.shape.m else None
    by_item = agent.learner.kernels.set_items is not None
    late = []
    for t in range(_ROUNDS):
        if by_item and t == _ROUNDS // 2:
            agent.add(2)
            agent.retire([0])
        available = [n - 1, 0] if by_item and t == 1 and n > 1 else None
        decision = agent.rank(features, available=available, **_said(agent, available, rng))
        n = len(decision.ranking)
        shown = np.arange(n) if decision.items is None else decision.items
        assert sorted(decision.ranking.tolist()) == shown.tolist(), f"{decision.ranking} is no ranking"
        if decision.propensities is not None:
            assert np.all((decision.propensities >= 0) & (decision.propensities <= 1 + 1e-9)), (
                "these are no propensities"
            )
        late.append((decision, rng.integers(0, 2, min(k, n)).astype(np.float64)))
        if t % 3 == 2:
            late[0][1][rng.random(len(late[0][1])) < 0.3] = np.nan
            agent.update(*late.pop())
        if t % 2:
            agent.update(*late.pop(0))
    order = agent.best_ranking(features)
    assert len(order) == len(set(order.tolist())) == n, f"{order} is no order"
    str(agent.summary()), repr(agent), agent.failure()
    again = agent.dump()
    Agent.load(again)


def _said(agent: Agent, available: list[int] | None, rng: np.random.Generator) -> dict[str, Any]:
    """Return a key, scores, with odd ones, and groups for an agent that uses them."""
    said: dict[str, Any] = {}
    if agent.learner.kernels.set_scores is not None:
        n = int(np.sum(agent._counts.retired[: agent.shape.m] == 0)) if available is None else len(available)
        said["scores"] = rng.choice([0.0, 1.0, np.nan, np.inf, -np.inf, 1e300, -0.5], n)
    if agent.rules is not None and agent.rules.group is not None:
        n = int(np.sum(agent._counts.retired[: agent.shape.m] == 0)) if available is None else len(available)
        said["groups"] = rng.integers(0, 3, n)
    if agent.learner.kernels.set_key is not None:
        said["key"] = int(rng.integers(9))
    return said


def _played(text: str, m: int, d: int, k: int, rounds: int, rules: Rules | None = None) -> Agent:
    rng = np.random.default_rng(1)
    agent = Agent(learner(text), m=m, d=d, k=k, rules=rules)
    features = rng.normal(size=(m, d)) if d else None
    for _ in range(rounds):
        decision = agent.rank(features, **_said(agent, None, rng))
        if rng.random() < 0.9:
            agent.update(decision, rng.integers(0, 2, agent.shape.k))
    return agent
