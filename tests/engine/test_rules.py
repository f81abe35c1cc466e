"""Rules in lists: exact propensities by enumeration, rules that are kept, and the limit on losses."""

from __future__ import annotations

import hashlib
import json
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.naive_rules import could_lose, law, obey
from peekrank import (
    DCG,
    UCB,
    Agent,
    AtMost,
    Decision,
    DoubtSort,
    Greedy,
    Mixed,
    Precision,
    Ridge,
    Rules,
    SumLoss,
    Thompson,
    replay,
)
from peekrank.engine.entry_points import no_counts
from peekrank.engine.rule_kernels import FREE, rule_memory
from peekrank.engine.rule_kernels import obey as obey_kernel
from peekrank.engine.serialization import arrays_of
from peekrank.learners import learner as learner_named
from peekrank.registry import LEARNERS as REGISTRY
from peekrank.types import Learner, LinearMeasure

M = 5
FEATURES = np.random.default_rng(3).normal(size=(M, 2))
LEARNERS: list[Learner] = [
    DoubtSort(DCG()),
    DoubtSort(Precision(3, mean=False), variant="cautious"),
    DoubtSort(SumLoss(), variant="safe"),
    Greedy(DCG(), epsilon=0.6),
    Ridge(explore_rate=0.2),
    Mixed(),
    Mixed(safe=True, floor=0.05),
]
RULES = {
    "none": Rules(),
    "pin": Rules(pins={1: 4}),
    "pins": Rules(pins={2: 3, 4: 0}),
    "group": Rules(group=AtMost(1, 2)),
    "groups-and-pin": Rules(group=AtMost(1, 3), pins={3: 1}),
    "share": Rules(explore=0.02),
    "first": Rules(explore_at=1),
    "first-share-pin": Rules(explore_at=1, explore=0.1, pins={1: 2}),
    "leash": Rules(leash=0.05),
    "short-leash": Rules(leash=0.0),
    "leash-and-all": Rules(leash=0.1, explore_at=1, pins={2: 2}, group=AtMost(2, 4)),
}
BY_ITEM_RULES = {
    "new": Rules(new=AtMost(1, 2), new_below=3),
    "blocked": Rules(blocked=[1, 3]),
    "blocked-new-leash": Rules(blocked=[0], new=AtMost(0, 3), new_below=2, leash=0.2),
}
GROUPS = [0, 1, 0, 2, 1]


def is_by_item(learner: Learner) -> bool:
    return learner.kernels.set_items is not None


def call_of(learner: Learner, rules: Rules) -> dict[str, Any]:
    """What a call needs, in an order that differs from what is learned."""
    call: dict[str, Any] = {} if is_by_item(learner) else {"features": FEATURES}
    if rules.leash is not None and is_by_item(learner):
        call["available"] = [3, 0, 4, 2, 1]
    if learner.kernels.set_scores is not None:
        call["scores"] = [0.5, 0.9, 0.1, np.nan, 0.3]
    if rules.group is not None:
        call["groups"] = GROUPS
    return call


def lived(learner: Learner, k: int, rules: Rules, rounds: int) -> Agent:
    """An agent after some rounds, some of them without answers."""
    agent = Agent(learner, m=M, k=k, d=0 if is_by_item(learner) else 2, seed=5, rules=rules)
    rng, call = np.random.default_rng(rounds), call_of(learner, rules)
    for _ in range(rounds):
        decision = agent.rank(**call)
        answers = (rng.random(M) < np.linspace(0.9, 0.1, M)).astype(float)[decision.ranking[:k]]
        answers[rng.random(len(answers)) < 0.2] = np.nan
        agent.update(decision, answers)
    return agent


def own_order(call: dict[str, Any]) -> tuple[int, ...]:
    """The app's own order; a missing score is in the middle."""
    listed = np.array(call.get("available", range(M)))
    if "scores" not in call:
        return tuple(listed.tolist())
    scores = np.array(call["scores"])
    known = scores[~np.isnan(scores)]
    middle = [1 / 2 if np.isnan(s) else np.mean([(known < s).mean(), (known <= s).mean()]) for s in scores]
    return tuple(listed[np.argsort(-np.array(middle), kind="stable")].tolist())


def measure_of(learner: Learner) -> LinearMeasure:
    measure: LinearMeasure = learner.measure or DCG()
    return measure


def groups_of(call: dict[str, Any]) -> dict[int, int]:
    return dict(zip(call.get("available", range(M)), GROUPS, strict=True))


def answers_of(agent: Agent, n: int = M) -> dict[int, int]:
    counted = agent._counts.answers
    return dict(enumerate(counted.tolist() if len(counted) == n else [0] * n))


def cases() -> list[Any]:
    return [
        pytest.param(learner, rules, id=f"{learner}-{name}")
        for learner in LEARNERS
        for name, rules in (RULES | (BY_ITEM_RULES if is_by_item(learner) else {})).items()
    ]


@pytest.mark.parametrize(("learner", "rules"), cases())
def test_propensities_and_expected_weights_under_rules_are_what_enumeration_finds(
    learner: Learner, rules: Rules
) -> None:
    """The expected weights are those of a measure that ends at position k."""
    call = call_of(learner, rules)
    for k, rounds in ((1, 0), (2, 4), (3, 25), (M, 7)):
        if rules.explore_at is not None and rules.explore_at > k:
            continue
        agent, items = lived(learner, k, rules, rounds), [item for item in range(M) if item not in rules.blocked]
        expected = np.empty(len(items))
        found, decisions = law(agent, **call, expected=expected)
        assert sum(found.values()) == pytest.approx(1)
        for decision in decisions:
            shown_items = decision.items if decision.items is not None else np.arange(M)
            exact = [sum(p for shown, p in found.items() if item in shown[:k]) for item in shown_items]
            assert decision.propensities is not None
            np.testing.assert_allclose(decision.propensities, exact, atol=1e-9)
            check_obeyed(agent, decision, rules, call)
        assert sum(p for shown, p in found.items() if explored(decisions, shown)) <= rules.explore + 1e-9
        measure = measure_of(learner)
        weights = measure.discount(len(items)).astype(float)
        weights[:k] -= 0.0 if measure.higher_is_better else float(weights[min(k, len(items) - 1)])
        exact = [
            sum(p * weights[shown.index(item)] for shown, p in found.items() if item in shown[:k])
            for item in items
        ]
        np.testing.assert_allclose(expected, exact, atol=1e-9)


def random_case(seed: int) -> tuple[Learner, int, Rules, dict[str, Any], int]:
    """A learner with random rules, all of which may hold at once, on lists of seven items in any order."""
    rng, n = np.random.default_rng(seed), 7
    learner = (DoubtSort(DCG()), Greedy(DCG(), epsilon=0.7), DoubtSort(Precision(3, mean=False)))[seed % 3]
    k = int(rng.integers(1, 5))
    pinned = rng.permutation(n)[: rng.integers(0, 3)].tolist()
    rules = Rules(
        explore=float(rng.choice([1.0, 0.2])),
        explore_at=None if rng.random() < 0.5 else int(rng.integers(1, k + 1)),
        pins={int(p): int(i) for p, i in zip(rng.permutation(n) + 1, pinned, strict=False)},
        new=AtMost(int(rng.integers(0, 3)), int(rng.integers(1, 6))) if rng.random() < 0.5 else None,
        new_below=int(rng.integers(1, 9)),
        group=AtMost(int(rng.integers(1, 3)), int(rng.integers(1, 8))) if rng.random() < 0.7 else None,
        leash=float(rng.choice([0.0, 0.05, 0.2, 0.5])) if rng.random() < 0.4 else None,
    )
    call: dict[str, Any] = {"available": rng.permutation(n).tolist()}
    if rules.group:
        call["groups"] = rng.integers(-3, 2**62, 3)[rng.integers(0, 3, n)]
    return learner, k, rules, call, int(rng.integers(0, 40))


@pytest.mark.parametrize("seed", range(90))
def test_any_rules_together_have_the_propensities_that_enumeration_finds(seed: int) -> None:
    learner, k, rules, call, rounds = random_case(seed)
    agent, n = Agent(learner, m=7, k=k, seed=seed, rules=rules), 7
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.rank(**call)
        agent.update(decision, (rng.random(n) < np.linspace(0.9, 0.1, n))[decision.ranking[:k]].astype(float))
    found, decisions = law(agent, **call)
    groups = dict(zip(call["available"], np.asarray(call.get("groups", range(n))).tolist(), strict=True))
    own = obey(tuple(call["available"]), rules, groups, answers_of(agent, n))[0]
    for decision in decisions:
        exact = [sum(p for shown, p in found.items() if item in shown[:k]) for item in range(n)]
        np.testing.assert_allclose(decision.propensities, exact, atol=1e-9)  # type: ignore[arg-type]
        shown = tuple(decision.ranking.tolist())
        assert decision.applied is not None
        assert obey(shown, rules, groups, answers_of(agent, n)) == (shown, decision.applied.relaxed)
        if rules.leash is not None:
            assert could_lose(shown, own, measure_of(learner)) <= rules.leash + 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_the_leash_takes_the_first_step_that_obeys(seed: int) -> None:
    """The list without exploration is the one that sorting all items anew at each step finds."""
    rng, n = np.random.default_rng(seed), 9
    measure, leash = (DCG(), SumLoss())[seed % 2], float(rng.choice([0.02, 0.1, 0.3]))
    group = AtMost(1, 3) if seed % 3 == 0 else None
    rules = Rules(explore=0.0, leash=leash, pins={2: 4} if seed % 4 == 0 else {}, group=group)
    free, agent = Agent(DoubtSort(measure), m=n, k=n), Agent(DoubtSort(measure), m=n, k=n, rules=rules)
    for _ in range(20):
        ranking = rng.permutation(n)
        answers = (rng.random(n) < np.linspace(0.9, 0.1, n))[ranking].astype(float)
        for one in (free, agent):
            groups = np.arange(n) % 4 if one is agent and group else None
            order = range(n) if one is agent else None
            one.update(one.override(one.rank(available=order, groups=groups), ranking), answers)
    own, by_item = tuple(rng.permutation(n).tolist()), {item: item % 4 for item in range(n)}
    learned, answers_by_item = tuple(free.best_ranking().tolist()), answers_of(agent, n)
    app = obey(own, rules, by_item, answers_by_item)[0]
    for step in range(8, -1, -1):
        place = {item: step * learned.index(item) + (8 - step) * app.index(item) for item in app}
        wanted = learned if step == 8 else tuple(sorted(app, key=place.__getitem__))
        expected, relaxed = obey(wanted, rules, by_item, answers_by_item)
        if could_lose(expected, app, measure) <= leash + 1e-12:
            break
    decision = agent.rank(available=own, groups=[item % 4 for item in own] if group else None)
    assert tuple(decision.ranking.tolist()) == expected
    assert decision.applied is not None
    assert (decision.applied.followed, decision.applied.relaxed) == (step / 8, relaxed)


def explored(decisions: list[Decision], shown: tuple[int, ...]) -> bool:
    return any(d.explored for d in decisions if tuple(d.ranking.tolist()) == shown)


def check_obeyed(agent: Agent, decision: Decision, rules: Rules, call: dict[str, Any]) -> None:
    """A shown list is one that the rules do not change, and loses no more than the leash for any relevance."""
    shown = tuple(decision.ranking.tolist())
    groups, answers = groups_of(call), answers_of(agent)
    assert set(shown).isdisjoint(rules.blocked)
    if not rules.only_block:
        assert decision.applied is not None
        assert obey(shown, rules, groups, answers) == (shown, decision.applied.relaxed)
    if rules.leash is not None:
        own = obey(tuple(i for i in own_order(call) if i not in rules.blocked), rules, groups, answers)[0]
        assert could_lose(shown, own, measure_of(agent.learner)) <= rules.leash + 1e-12


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("name", ["none", "group", "new"])
def test_the_law_is_the_learners_own_with_each_list_changed(learner: Learner, name: str) -> None:
    """Rules that do not change the exploration map the lists of an agent without rules."""
    rules = (RULES | BY_ITEM_RULES)[name]
    if rules.new is not None and not is_by_item(learner):
        return
    call = call_of(learner, rules)
    agent = lived(learner, 2, rules, 12)
    free = Agent(learner, m=M, k=2, d=agent.shape.d)
    for mine, theirs in zip(state_of(free), state_of(agent), strict=True):
        mine[...] = theirs
    expected: dict[tuple[int, ...], float] = {}
    for shown, p in law(free, **{name: call[name] for name in call if name != "groups"})[0].items():
        changed = obey(shown, rules, groups_of(call), answers_of(agent))[0]
        expected[changed] = expected.get(changed, 0) + p
    found = law(agent, **call)[0]
    assert found.keys() == expected.keys()
    for shown, p in expected.items():
        assert found[shown] == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize(("pins", "place"), [({1: 4}, 2), ({2: 3}, 1), ({1: 4, 2: 3}, 0), ({3: 1}, 2)])
def test_what_is_explored_stands_at_the_last_position_without_a_pin(
    learner: Learner, pins: dict[int, int], place: int
) -> None:
    rules = Rules(pins=pins)
    agent = lived(learner, 2, rules, 12)
    decisions = law(agent, **call_of(learner, rules))[1]
    base = next(tuple(d.ranking.tolist()) for d in decisions if not d.explored)
    asked = [tuple(d.ranking.tolist()) for d in decisions if d.explored]
    assert all(base.index(shown[place - 1]) >= place for shown in asked)
    assert (len(asked) == 0) == (place == 0)


def test_items_that_pins_push_below_k_are_explored() -> None:
    agent = Agent(DoubtSort(DCG()), m=4, k=2, rules=Rules(pins={1: 3}))
    decision = agent.rank()
    assert decision.propensities is not None
    assert decision.propensities.min() > 0


def state_of(agent: Agent) -> list[Any]:
    arrays = dict(arrays_of(agent._state))
    return [*(arrays[name] for name in agent.learner.persistent), *agent._counts]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_exploring_higher_up_puts_the_explored_item_there_at_its_price(learner: Learner) -> None:
    rules = Rules(explore_at=1)
    agent = lived(learner, 3, rules, 12)
    found, decisions = law(agent, **call_of(learner, rules))
    best = next(shown for shown in found if not explored(decisions, shown))
    asked = {shown: p for shown, p in found.items() if explored(decisions, shown)}
    assert all(best.index(shown[0]) >= 3 for shown in asked)
    state = agent._state
    if isinstance(learner, Mixed):  # the costs that the learner computed are those of position 1
        means, weights = state.sorted_means, state.weights
        for p in range(3, M):
            cost = (weights[:p] - weights[1 : p + 1]) @ means[:p] - (weights[0] - weights[p]) * means[p]
            assert state.costs[p] == pytest.approx(max(0, cost))


lists = st.integers(1, 9).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "wanted": st.permutations(range(n)),
            "groups": st.lists(st.integers(0, min(n, 3) - 1), min_size=n, max_size=n),
            "answers": st.lists(st.integers(0, 4), min_size=n, max_size=n),
            "pins": st.dictionaries(st.integers(1, n), st.integers(0, n - 1), max_size=2),
            "group": st.none() | st.tuples(st.integers(1, 3), st.integers(1, 10)),
            "new": st.none() | st.tuples(st.integers(0, 3), st.integers(1, 10)),
        }
    )
)


def run(case: dict[str, Any], wanted: Any) -> tuple[tuple[int, ...], int]:
    n = len(wanted)
    memory, counts, out = rule_memory(n, np.ones(n)), no_counts(n, n), np.empty(n, np.int64)
    counts.answers[:] = case["answers"]
    memory.groups[:], memory.pins[:] = case["groups"], FREE
    for position, item in case["pins"].items():
        memory.pins[position - 1] = item
    memory.numbers[:] = (
        0,
        max(case["pins"], default=0),
        *(case["group"] or (0, 0)),
        *(case["new"] or (0, 0)),
        2,
        0,
        0,
        0,
    )
    relaxed = obey_kernel(memory, counts, np.arange(n), np.array(wanted, np.int64), n, out)
    return tuple(out.tolist()), int(relaxed)


@settings(max_examples=300, deadline=None)
@given(lists)
def test_rules_are_idempotent_stable_and_kept(case: dict[str, Any]) -> None:
    pins = case["pins"]
    case["pins"] = {p: item for p, item in pins.items() if list(pins.values()).count(item) == 1}
    rules = Rules(pins=case["pins"], new_below=2)
    rules = replace(
        rules,
        group=AtMost(*case["group"]) if case["group"] else None,
        new=AtMost(*case["new"]) if case["new"] else None,
    )
    groups, answers = dict(enumerate(case["groups"])), dict(enumerate(case["answers"]))
    wanted = tuple(case["wanted"])
    shown, relaxed = run(case, wanted)
    assert (shown, relaxed) == obey(wanted, rules, groups, answers)
    assert run(case, shown) == (shown, relaxed)  # idempotent
    assert sorted(shown) == sorted(wanted)
    assert all(shown[position - 1] == item for position, item in rules.pinned.items())
    if not relaxed and not rules.pins:
        if rules.group:
            top = [groups[item] for item in shown[: rules.group.within]]
            assert max(map(top.count, top)) <= rules.group.n
        if rules.new:
            assert sum(answers[item] < 2 for item in shown[: rules.new.within]) <= rules.new.n
    below = [item for item in shown if item not in rules.pinned.values()]
    if not (rules.group or rules.new):
        assert below == [item for item in wanted if item in below]  # stable


@pytest.mark.parametrize("leash", [0.0, 0.02, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("measure", [DCG(), DCG(2), SumLoss(), Precision(2, mean=False)], ids=str)
def test_no_relevance_makes_a_list_lose_more_than_the_leash(measure: LinearMeasure, leash: float) -> None:
    """The theorem of docs/theory/rules.md, for all 0/1 relevances, whatever was learned before."""
    rng = np.random.default_rng(int(100 * leash))
    far = 0.0
    for m in (2, 3, 4, 5):
        agent = Agent(DoubtSort(measure), m=m, k=min(2, m), rules=Rules(leash=leash), seed=m)
        for _ in range(40):
            own = rng.permutation(m)
            decision = agent.rank(available=own)
            shown = tuple(decision.ranking.tolist())
            loss = could_lose(shown, tuple(own.tolist()), measure)
            assert loss <= leash + 1e-12
            far = max(far, loss)
            agent.update(decision, (decision.ranking[: min(2, m)] >= m / 2).astype(float))
    assert far > 0 or leash < 1


def test_a_pinned_order_of_the_app_is_compared_under_the_same_pins() -> None:
    agent = Agent(DoubtSort(DCG()), m=4, k=1, rules=Rules(leash=0, pins={1: 3}))
    for _ in range(20):
        decision = agent.rank(available=[2, 0, 1, 3])
        assert decision.ranking.tolist() == [3, 2, 0, 1]
        agent.update(decision, [1])


def test_the_leash_stretches_as_far_as_it_can() -> None:
    followed = []
    for leash in (0.0, 0.05, 0.1, 0.2, 1.0):
        agent = Agent(DoubtSort(DCG()), m=5, k=5, rules=Rules(leash=leash), seed=0)
        for _ in range(30):
            agent.update(agent.rank(available=range(5)), [0, 0, 0, 0, 0])
            agent.update(agent.override(agent.rank(available=range(5)), [4, 3, 2, 1, 0]), [1, 0, 0, 0, 0])
        decision = agent.rank(available=range(5))
        assert decision.applied is not None
        followed.append(decision.applied.followed)
    assert followed[0] < 0.2
    assert followed[-1] == 1
    assert followed == sorted(followed)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_what_was_shown_is_what_is_learned(learner: Learner) -> None:
    """An answer under rules has the effect of the same answer to the same list chosen by another policy."""
    rules = Rules(pins={1: 4, 2: 3})
    agent, call = lived(learner, 2, rules, 6), call_of(learner, rules)
    other = Agent(learner, m=M, k=2, d=agent.shape.d)
    for mine, theirs in zip(state_of(other), state_of(agent), strict=True):
        mine[...] = theirs
    uniforms = np.full(agent.n_uniforms(), 0.99)
    decision = agent.rank(**call, uniforms=uniforms)
    assert decision.ranking[:2].tolist() == [4, 3]
    agent.update(decision, [1, 0])
    theirs = other.override(other.rank(**call, uniforms=uniforms), decision.ranking, decision.propensities)
    assert np.array_equal(theirs.token, decision.token)
    other.update(theirs, [1, 0])
    assert all(np.array_equal(a, b) for a, b in zip(state_of(agent), state_of(other), strict=True))


def test_rules_of_a_call_add_to_those_of_the_agent() -> None:
    agent = Agent(DoubtSort(DCG()), m=5, k=1, rules=Rules(pins={1: 4}, blocked=[0]))
    decision = agent.rank(pins={2: 1}, blocked=[3])
    assert decision.ranking.tolist() == [4, 1, 2]
    assert decision.applied is not None
    assert decision.applied.pins == ((1, 4), (2, 1))
    assert sorted(agent.rank(available=[0, 1, 2, 3]).ranking.tolist()) == [1, 2, 3]  # the pinned item is not there
    free = Agent(DoubtSort(DCG()), m=3, k=1)
    assert free.rank(pins={3: 0}).ranking[2] == 0
    assert free.rank().applied is None


def test_blocked_items_take_their_features_and_scores_with_them() -> None:
    agent = Agent(Mixed(), m=4, k=1, d=1, rules=Rules(blocked=[2]))
    decision = agent.rank([[3], [2], [0]], available=[3, 2, 0], scores=[0.1, 0.9, 0.5])
    assert decision.items is not None
    assert decision.items.tolist() == [0, 3]
    assert decision.features.tolist() == [[0], [3]]
    assert decision.ranking.tolist() == [0, 3]
    assert decision.scores is not None
    assert decision.scores.tolist() == [0.1, 0.5]


@pytest.mark.parametrize("learner", [Thompson(DCG()), UCB(DCG())], ids=str)
def test_every_learner_with_statistics_per_item_can_block(learner: Learner) -> None:
    agent = Agent(learner, m=4, k=1, rules=Rules(blocked=[1]))
    assert sorted(agent.rank().ranking.tolist()) == [0, 2, 3]
    with pytest.raises(ValueError, match="cannot obey rules other than blocked"):
        agent.rank(pins={1: 2})


def test_limits_that_cannot_be_met_are_relaxed_from_the_bottom_and_counted() -> None:
    agent = Agent(Greedy(DCG(), epsilon=1e-9), m=4, k=1, rules=Rules(group=AtMost(1, within=4)))
    decision = agent.rank(groups=["a", "a", "b", "b"])
    assert decision.ranking.tolist() == [0, 2, 1, 3]
    assert decision.applied is not None
    assert decision.applied.relaxed == 2
    assert agent.n_relaxed == 1


def test_pins_may_exceed_limits() -> None:
    rules = Rules(group=AtMost(1, 3), new=AtMost(1, 3), pins={1: 0, 2: 1})
    decision = Agent(DoubtSort(DCG()), m=4, k=1, rules=rules).rank(groups=[0, 0, 0, 1])
    assert decision.ranking.tolist() == [0, 1, 2, 3]
    assert decision.applied is not None
    assert decision.applied.relaxed == 1


def test_groups_are_numbers_or_names() -> None:
    cases: list[Any] = [
        [2**62, -1, 2**62, 5],
        np.array([7, 0, 7, 1], np.uint8),
        ["a", "b", "a", None],
        (1.5, 2, 1.5, 0),
    ]
    for groups in cases:
        agent = Agent(Greedy(DCG(), epsilon=1e-9), m=4, k=1, rules=Rules(group=AtMost(1, 3)))
        assert agent.rank(groups=groups).ranking.tolist() == [0, 1, 3, 2]


def test_new_rules_apply_to_the_next_list_and_keep_what_was_learned() -> None:
    agent = Agent(DoubtSort(DCG()), m=4, k=1)
    agent.update(agent.rank(), [1])
    agent.rules = Rules(pins={1: 3}, group=AtMost(1, 4))
    assert agent.rank(groups=[0, 0, 1, 1]).ranking[0] == 3
    assert (agent.n_feedback, agent.n_relaxed, agent.rounds) == (1, 1, 2)
    agent.rules = None
    assert agent.rank().applied is None
    assert agent.n_relaxed == 1
    with pytest.raises(ValueError, match="at most k = 1"):
        agent.rules = Rules(explore_at=2)
    assert agent.rules is None


@pytest.mark.parametrize("own", [[0.5, 0.9, 0.1, 0.9, 0.3], [np.inf, -np.inf, np.nan, 0.0, np.nan], [np.nan] * 5])
def test_a_leash_compares_with_the_order_of_the_scores(own: list[float]) -> None:
    agent = Agent(Mixed(), m=5, k=1, rules=Rules(leash=0.0))
    call: dict[str, Any] = {"available": [3, 1, 4, 0, 2], "scores": own}
    assert tuple(agent.rank(**call).ranking.tolist()) == own_order(call)


OTHERS = (
    "uniform",
    "ftpl:measure=dcg,horizon=100",
    "rtop1f:measure=dcg,horizon=10000",
    "permftrl:measure=dcg@1",
    "blockftrl:measure=dcg",
    "marginftrl:measure=dcg",
    "setftrl:measure=p@2+sum",
    "nw2:measure=p@2+sum,horizon=100000",
    "feedexp3:measure=p@2+sum",
    "thompson:measure=dcg",
    "ucb:measure=dcg",
    "rtopkf",
    "ridge:explore=sampling",
    "champion:measure=dcg,members=[doubtsort;greedy]",
    "auto:measure=dcg",
)


@pytest.mark.parametrize("name", OTHERS)
def test_other_learners_reject_rules(name: str) -> None:
    learner = learner_named(name)
    with pytest.raises(
        ValueError, match=r"cannot obey rules other than blocked: its lists are not a mixture of a few"
    ):
        Agent(learner, m=4, k=learner.min_k, d=2 if learner.contextual else 0, rules=Rules(explore=0.1))


def test_every_learner_is_enumerated_or_rejects_rules() -> None:
    assert {learner.name for learner in LEARNERS} | {name.partition(":")[0] for name in OTHERS} == set(REGISTRY)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pins": {1: 2}, "blocked": [2]}, "item 2 is pinned and blocked"),
        ({"pins": {1: 2, 3: 2}}, "an item has two positions"),
        ({"pins": [(1, 2), (1, 3)]}, "two items have the same position"),
        ({"pins": {0: 2}}, "position of a pin = 0"),
        ({"pins": 3}, "must map positions to items"),
        ({"blocked": 3}, "must be numbers of items"),
        ({"explore": 1.5}, "must be a share from 0 to 1"),
        ({"leash": float("nan")}, "must be a share from 0 to 1"),
        ({"explore_at": 0}, "explore_at = 0"),
        ({"group": AtMost(0, 3)}, "group.n = 0"),
        ({"new": (1,)}, "must be AtMost"),
    ],
    ids=str,
)
def test_rules_that_contradict_each_other_are_rejected(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Rules(**fields)


@pytest.mark.parametrize(
    ("rules", "call", "reason"),
    [
        (Rules(leash=0.1), {}, "the leash needs the app's own order"),
        (Rules(group=AtMost(1, 2)), {}, "pass the group of each item"),
        (Rules(), {"groups": [0, 0, 0]}, "no rule for groups"),
        (Rules(group=AtMost(1, 2)), {"groups": [0, 0]}, "groups of shape"),
        (Rules(pins={1: 0}), {"pins": {1: 1}}, "position 1 is pinned to items 0 and 1"),
        (Rules(pins={1: 0}), {"pins": {2: 0}}, "an item has two positions"),
        (Rules(pins={1: 0}), {"blocked": [0]}, "item 0 is pinned and blocked"),
        (Rules(), {"pins": {1: 7}}, "the list has no such item"),
        (Rules(), {"pins": {4: 0}}, "the list has 3 items"),
        (Rules(), {"blocked": [0, 1, 2]}, "all items are blocked"),
    ],
    ids=str,
)
def test_calls_that_contradict_the_rules_are_rejected(rules: Rules, call: dict[str, Any], reason: str) -> None:
    agent = Agent(DoubtSort(DCG()), m=3, k=1, rules=rules)
    with pytest.raises(ValueError, match=reason):
        agent.rank(**call)
    assert agent.rounds == 0


def test_agents_reject_rules_that_they_cannot_keep() -> None:
    for rules, reason in (
        (Rules(explore_at=2), "at most k = 1"),
        (Rules(blocked=[1]), "leave them out of the list"),
        (Rules(new=AtMost(1, 2)), "does not count the answers of single items"),
    ):
        with pytest.raises(ValueError, match=reason):
            Agent(Ridge(), m=3, k=1, d=1, rules=rules)


def test_agents_with_rules_are_saved_with_them() -> None:
    rules = Rules(explore=0.5, pins={2: 1}, blocked=[0], new=AtMost(2, 3), group=AtMost(1, 2), leash=0.3)
    agent = Agent(DoubtSort(DCG()), m=6, k=1, rules=rules, seed=3)
    call: dict[str, Any] = {"available": [5, 3, 1, 0, 2], "groups": [0, 1, 2, 2, 1]}
    for _ in range(10):
        agent.update(agent.rank(**call), [1])
    for again in (Agent.load(agent.dump()), copy(agent)):
        assert again.rules == rules
        shown = [one.rank(**call).ranking.tolist() for one in (again, Agent.load(agent.dump()))]
        assert shown[0] == shown[1]


def test_logs_of_agents_with_rules_can_be_replayed() -> None:
    rules = Rules(explore=0.5, blocked=[0], group=AtMost(1, 2), leash=0.3)
    for learner in (DoubtSort(DCG()), Mixed()):
        agents = [Agent(learner, m=6, k=1, rules=rules, seed=3) for _ in range(2)]
        log: list[Any] = []
        for t in range(30):
            scores: dict[str, Any] = {"scores": [0.3, 0.1, 0.2, 0.9, 0.5]} if learner.name == "mixed" else {}
            decision = agents[0].rank(
                available=[5, 3, 1, 0, 2], groups=[0, 1, 2, 2, 1], pins={3: 1 + t % 2}, **scores
            )
            agents[0].update(decision, [t % 2])
            log += [(decision, None), (decision, [t % 2])]
        assert replay(agents[1], log).dump() == agents[0].dump()


@pytest.mark.parametrize(
    "forged",
    [
        5,
        [],
        {"unknown": 1},
        {"pins": [[1, 2, 3]]},
        {"pins": [[{}, 1]]},
        {"pins": {"1": 2}},
        {"pins": [[1, 2**70]]},
        {"blocked": [-1]},
        {"blocked": [2**70]},
        {"new": {"a": 1, "b": 2}},
        {"group": 5},
        {"group": [1, 2**64]},
        {"explore": float("nan")},
        {"leash": "0.1"},
        {"leash": [0.1]},
        {"explore_at": 9},
        {"new_below": True},
        None,
    ],
    ids=str,
)
def test_forged_rules_of_saved_agents_are_rejected(forged: Any) -> None:
    saved = Agent(DoubtSort(DCG()), m=3, k=1, rules=Rules(explore=0.5)).dump()
    length = int.from_bytes(saved[42:46], "big")
    about, arrays = json.loads(saved[46 : 46 + length]), saved[46 + length :]
    about["rules"] = forged
    if forged is None:
        del about["rules"]
    text = json.dumps(about).encode()
    body = len(text).to_bytes(4, "big") + text + arrays
    with pytest.raises(ValueError, match=r"rules|saved|pin|explore_at|item"):
        Agent.load(saved[:10] + hashlib.sha256(body).digest() + body)
