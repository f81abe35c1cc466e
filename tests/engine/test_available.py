"""Lists of any known items: all drivers agree bit for bit, and a round costs only as much as its own list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.naive_exploration import Naive
from peekrank import (
    DCG,
    UCB,
    Agent,
    Available,
    BlockFTRL,
    DoubtSort,
    Greedy,
    MarginFTRL,
    Precision,
    SumLoss,
    Thompson,
    Uniform,
    available_items,
    play,
    simulate,
)
from peekrank.engine import run_agents
from peekrank.engine.serialization import arrays_of
from peekrank.types import Decision, Rounds

LEARNERS: list[Any] = [
    DoubtSort(DCG()),
    DoubtSort(Precision(2), variant="safe"),
    DoubtSort(SumLoss(), variant="cautious", decay=0.99),
    Greedy(DCG()),
    Thompson(DCG()),
    UCB(DCG()),
    MarginFTRL(DCG()),
    MarginFTRL(Precision(2), decay=0.99),
]


def some_rounds(T: int, m: int, seed: int) -> Rounds:
    """Lists of any length from 1 to m."""
    rng = np.random.default_rng(seed)
    mask = rng.random((T, m)) < rng.random((T, 1))
    mask[np.arange(T), rng.integers(0, m, T)] = True
    return available_items(rng.integers(0, 2, (T, m)), mask)


def same_memory(learner: Any, one: Agent, two: Agent) -> bool:
    first, second = dict(arrays_of(one.state)), dict(arrays_of(two.state))
    return all(np.array_equal(first[name][: len(second[name])], second[name]) for name in learner.persistent)


@pytest.mark.parametrize("learner", [*LEARNERS, Uniform()], ids=str)
@pytest.mark.parametrize("k", [1, 3])
def test_all_drivers_agree(learner: Any, k: int) -> None:
    """Also with the rounds in another sequence, and with chunks and turns that cut them."""
    measure = learner.measure or DCG()
    for rounds in (some_rounds(200, 7, seed=1), Available(m=9, n=4).rounds(200, np.random.default_rng(0))):
        sequence = np.random.default_rng(2).integers(0, 200, 300)
        one, two = (
            run(learner, rounds, k=k, measure=measure, seed=3, sequence=sequence) for run in (play, simulate)
        )
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_run_agents_equals_rank_and_update(learner: Any) -> None:
    rounds, agents = some_rounds(120, 6, seed=4), [Agent(learner, m=6, k=2, seed=5) for _ in range(2)]
    run_agents(agents[:1], rounds, measure=DCG())
    items = rounds.items
    assert items is not None
    for first, last in zip(rounds.offsets[:-1], rounds.offsets[1:], strict=True):
        here = items[first:last]
        decision = agents[1].rank(available=here)
        grades = dict(zip(here.tolist(), rounds.relevance[first:last].tolist(), strict=True))
        agents[1].update(decision, [grades[int(item)] for item in decision.ranking[:2]])
    assert same_memory(learner, *agents)
    assert agents[0].rounds == agents[1].rounds == 120
    assert np.array_equal(agents[0].summary().n_feedback, agents[1].summary().n_feedback)
    assert np.array_equal(agents[0].rank().ranking, agents[1].rank().ranking)


def test_doubtsort_over_subsets_is_its_definition() -> None:
    weights = (1 / np.log2(np.arange(2, 10))).tolist()
    twin, agent, rng = Naive(weights, 2, 1.0), Agent(DoubtSort(DCG()), m=8, k=2, seed=0), np.random.default_rng(0)
    draws = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))
    state, set_items = agent._state, DoubtSort.kernels.set_items
    assert set_items is not None
    for _ in range(300):
        here = np.flatnonzero(rng.random(8) < 0.5)
        if len(here):
            decision = agent.rank(available=rng.permutation(here))
            assert decision.ranking.tolist() == twin.rank(here.tolist(), draws.random())
            for item in decision.ranking[:2]:
                gain = float(rng.random())  # no two means are equal, so that rounding decides nothing
                twin.learn(int(item), gain)
                ranking, feedback = np.array([0]), np.array([gain])
                set_items(state, np.array([item]))
                DoubtSort.kernels.update(state, np.empty((1, 0), np.float32), ranking, np.zeros(1), feedback)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_only_the_available_are_touched(learner: Any) -> None:
    """Entries of items that are not available, of 50,000, are neither read nor written."""
    m, here = 50_000, np.array([3, 17, 400, 41_000])
    agents = [Agent(learner, m=m, k=2, seed=1) for _ in range(2)]
    others = np.setdiff1d(np.arange(m), here)
    for name, array in arrays_of(agents[1]._state):
        if name.startswith("items.") and len(array) == m and name != "items.rows":
            array[others] = np.nan
    shown = [[agent.rank(available=here) for _ in range(30)] for agent in agents]
    for one, two in zip(*shown, strict=True):
        assert np.array_equal(one.ranking, two.ranking)
    for decisions, agent in zip(shown, agents, strict=True):
        for decision in decisions:
            agent.update(decision, [1, np.nan])
    for (name, one), (_, two) in zip(*(arrays_of(agent._state) for agent in agents), strict=True):
        if name.startswith("items.") and len(one) == m and name != "items.rows":
            assert np.array_equal(one[here], two[here])
            assert np.isnan(two[others]).all()
        elif len(one) >= m:  # workspace for lists of four
            assert np.count_nonzero(one != two) == 0
    untouched = Agent(learner, m=m, k=2, seed=1)
    for (name, one), (_, two) in zip(arrays_of(agents[0]._state), arrays_of(untouched._state), strict=True):
        if len(one) >= m:
            assert np.count_nonzero(one != two) <= 16, name


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_added_items_change_nothing_for_those_there_are(learner: Any) -> None:
    """An agent that grows from 2 to 40 items, one at a time, is one that had them all, bit for bit."""
    growing, grown = Agent(learner, m=2, k=1, seed=1), Agent(learner, m=40, k=1, seed=1)
    rng, known = np.random.default_rng(0), 2
    for _ in range(300):
        if known < 40 and rng.random() < 0.3:
            assert growing.add().tolist() == [known]
            known += 1
        here = np.flatnonzero(rng.random(known) < 0.5)
        if len(here) == 0:
            continue
        answer = [int(rng.integers(0, 2))]
        decisions = [agent.rank(available=here) for agent in (growing, grown)]
        assert np.array_equal(decisions[0].ranking, decisions[1].ranking)
        if decisions[0].propensities is not None:
            assert np.array_equal(decisions[0].propensities, np.asarray(decisions[1].propensities))
        for agent, decision in zip((growing, grown), decisions, strict=True):
            agent.update(decision, answer)
    assert known == growing.shape.m == 40
    assert same_memory(learner, growing, grown)


def test_growing_is_amortised() -> None:
    agent, made = Agent(DoubtSort(DCG()), m=1, k=1), 0
    state = agent._state
    for _ in range(1000):
        agent.add()
        made += agent._state is not state
        state = agent._state
    assert made <= 11
    assert agent.shape.m == 1001
    assert sorted(agent.rank().ranking.tolist()) == list(range(1001))


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_retired_items_are_left_out(learner: Any) -> None:
    agent = Agent(learner, m=5, k=1, seed=0)
    early = agent.rank()
    agent.retire([1, 3])
    for _ in range(10):
        decision = agent.rank()
        assert sorted(decision.ranking.tolist()) == [0, 2, 4]
        assert decision.items is not None
        assert decision.items.tolist() == [0, 2, 4]
        agent.update(decision, [1])
    agent.update(early, [1])  # whoever it was about
    assert agent.n_feedback == 11
    assert sorted(agent.best_ranking().tolist()) == [0, 2, 4]
    assert agent.add(2).tolist() == [5, 6]
    assert sorted(agent.rank().ranking.tolist()) == [0, 2, 4, 5, 6]
    with pytest.raises(ValueError, match=r"available = \[0 3\]: item 3 has retired"):
        agent.rank(available=[0, 3])
    with pytest.raises(ValueError, match="item 1 has retired"):
        agent.retire([1])
    agent.retire([0, 2, 4, 5, 6])
    with pytest.raises(ValueError, match="all items have retired"):
        agent.rank()


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_dump_keeps_who_is_known_and_who_has_retired(learner: Any) -> None:
    agent = Agent(learner, m=2, k=1, seed=0)
    agent.add(3)
    agent.retire([0])
    still_open = agent.rank(available=[1, 2, 4])
    copy = Agent.load(agent.dump())
    assert copy.shape == agent.shape
    for one in (agent, copy):
        one.update(still_open, [1])
        one.add()
    for available in (None, [1, 5], None):
        shown = agent.rank(available=available).ranking
        assert np.array_equal(shown, copy.rank(available=available).ranking)
        assert 0 not in shown
    assert agent.dump() == copy.dump()


def test_decisions_from_before_items_came_can_be_answered() -> None:
    agent = Agent(DoubtSort(DCG()), m=3, k=1, seed=0)
    decision = agent.rank()
    agent.add(4)
    agent.update(decision, [1])
    assert agent.state.items.answers[: agent.shape.m].sum() == 1
    assert agent.summary().n_feedback[decision.ranking[0]] == 1


@pytest.mark.parametrize(
    ("available", "what"),
    [
        ([], "at least one"),
        ([0.5], "numbers of items"),
        ([[0, 1]], "numbers of items"),
        ([0, 0], "each item once"),
        ([0, 5], "from 0 to 4"),
        ([-1, 0], "from 0 to 4"),
        ("all", "numbers of items"),
    ],
)
def test_bad_available_is_rejected(available: Any, what: str) -> None:
    agent = Agent(DoubtSort(DCG()), m=5, k=1, seed=0)
    before = agent.dump()
    with pytest.raises(ValueError, match=f"available = .*{what}"):
        agent.rank(available=available)
    with pytest.raises(ValueError, match=f"items = .*{what}"):
        agent.retire(available)
    assert agent.dump() == before


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"items": np.array([0, 1, 2])}, "each item of"),
        ({"items": np.array([3, 1, 0])}, "ascending"),
        ({"items": np.array([0, 1, 9])}, "known items"),
        ({"items": np.array([], dtype=np.int64)}, "known items"),
        ({"items": np.array([0, 1])}, "must be of shape"),
        ({"items": None}, "once"),
        ({"ranking": np.array([0, 0, 1])}, "once"),
        ({"ranking": np.array([0, 1, 2])}, "each item of"),
        ({"ranking": np.array([0.0, 1.0, 3.0])}, "whole numbers"),
        ({"token": np.array([np.nan])}, "token"),
    ],
)
def test_foreign_decisions_are_rejected(change: dict[str, Any], what: str) -> None:
    agent = Agent(DoubtSort(DCG()), m=5, k=1, seed=0)
    decision: Decision = agent.rank(available=[0, 1, 3])
    before = agent.dump()
    with pytest.raises(ValueError, match=what):
        agent.update(decision._replace(**change), [1])
    assert agent.dump() == before


def test_learners_of_fixed_sets_say_that_they_are() -> None:
    agent, what = Agent(BlockFTRL(DCG()), m=4, k=1), "blockftrl ranks a fixed set of items"
    with pytest.raises(ValueError, match=what):
        agent.rank(available=[0, 1])
    with pytest.raises(ValueError, match=what):
        agent.best_ranking(available=[0, 1])
    with pytest.raises(ValueError, match=what):
        agent.add()
    with pytest.raises(ValueError, match=what):
        agent.retire([0])
    for run in (play, simulate):
        with pytest.raises(ValueError, match=what):
            run(BlockFTRL(DCG()), some_rounds(5, 4, seed=0), k=1, measure=DCG())


def test_rounds_about_unknown_or_retired_items_are_rejected() -> None:
    rounds = some_rounds(20, 4, seed=0)
    with pytest.raises(ValueError, match="made for 3 items"):
        run_agents([Agent(DoubtSort(DCG()), m=3, k=1)], rounds, measure=DCG())
    agent = Agent(DoubtSort(DCG()), m=4, k=1)
    agent.retire([2])
    with pytest.raises(ValueError, match="lists of up to 4 items"):
        run_agents([agent], rounds, measure=DCG())


def test_order_of_the_available() -> None:
    agent = Agent(DoubtSort(DCG()), m=4, k=4, seed=0)
    for _ in range(20):
        decision = agent.rank()
        agent.update(decision, [int(item in (1, 3)) for item in decision.ranking])
    assert agent.best_ranking(available=[2, 3]).tolist() == [3, 2]
    assert set(agent.best_ranking()[:2].tolist()) == {1, 3}
