"""Slots with rules: what a call may say, what the log keeps, and replay bit for bit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from helpers.services import SetClock, service
from peekrank.engine import Agent
from peekrank.engine.rules import AtMost, Rules
from peekrank.evaluation.log import Log
from peekrank.kernels.philox import fill_uniforms
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankReply, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.records import Ranked

NAMES = [f"i{n}" for n in range(12)]
ALL = RulesConfig(
    explore=0.5,
    explore_at=1,
    pins=((2, "i3"), (9, "i0")),
    blocked=("i1",),
    new=AtMost(1, 2),
    new_below=2,
    group=AtMost(1, 4),
    leash=0.4,
)
SLOT = SlotConfig("home", k=2, feedback_window=100.0, seed=7, rules=ALL)
LEARNERS = {
    "doubtsort": SLOT,
    "greedy": replace(SLOT, learner="greedy"),
    "mixed": replace(SLOT, learner="mixed:cells=40"),
    "ridge": replace(SLOT, learner="ridge", features=3, rules=replace(ALL, new=None)),
    "registry": replace(
        SLOT, learner="ridge", features=3, features_from="registry", item_effects=2, rules=replace(ALL, new=None)
    ),
}


def features(n: int) -> list[float]:
    return [float(n % 3), float(n % 5), n / 7]


def requests(slot: SlotConfig, count: int, seed: int = 0) -> list[RankRequest]:
    """Lists of up to eight items in any order; some have groups, pins and blocked items of their own."""
    rng, calls = np.random.default_rng(seed), []
    for n in range(count):
        numbers = rng.permutation(12)[: rng.integers(5, 9)].tolist()
        items: list[str | Item] = []
        for number in numbers:
            group = f"g{number % 3}" if rng.random() < 0.5 or slot.features_from == "request" else None
            score = float(rng.normal()) if slot.learner.startswith("mixed") and rng.random() < 0.5 else None
            own = features(number) if slot.features and slot.features_from == "request" else None
            group = None if slot.features_from == "registry" else group
            items.append(Item(NAMES[number], own, score, group) if own or score or group else NAMES[number])
        free = [NAMES[number] for number in numbers if number not in (0, 1, 3)]
        pins = {1: free[0]} if rng.random() < 0.3 else None
        blocked = [free[1], "unknown"] if rng.random() < 0.3 else None
        calls.append(RankRequest(event_id=f"e{n}", items=items, pins=pins, blocked=blocked))
    return calls


def live(it: Service, clock: SetClock, calls: list[RankRequest], seed: int = 1) -> list[RankReply]:
    """Rank the lists; answers come at once, some lists later, too late or never."""
    rng, replies, waiting = np.random.default_rng(seed), [], []
    for request in calls:
        replies.append(it.rank("home", request))
        waiting.append(request.event_id)
        clock.now += 7.0
        if rng.random() < 0.8:
            event = waiting.pop(int(rng.integers(len(waiting))))
            try:
                it.feedback(str(event), FeedbackRequest([float(rng.random() < 0.5), None]))
            except Problem as problem:
                assert problem.status == 410  # noqa: PT017 - too late
    return replies


def prepared(path: Path, slot: SlotConfig, **changes: Any) -> tuple[Service, SetClock]:
    """A service whose registry has groups, and features if the slot takes them from there."""
    path.mkdir(exist_ok=True)
    it, clock = service(path, slot, **changes)
    if slot.features_from == "registry":
        it.put_items("home", ItemsRequest([Item(n, features(i), group=f"g{i % 3}") for i, n in enumerate(NAMES)]))
    elif not slot.features:
        it.put_items("home", ItemsRequest([Item(name, group=f"g{n % 3}") for n, name in enumerate(NAMES[:9])]))
    return it, clock


def state_bytes(it: Service) -> bytes:
    return take_snapshot(it._manager.slots["home"].state).body


def body_of(it: Service, event: str) -> Ranked:
    state = it._manager.slots["home"].state
    return (state.open.get(event) or state.recent[event]).body


def names_of(request: RankRequest) -> list[str]:
    return [item if isinstance(item, str) else item.id for item in request.items or []]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("update", ["immediate", "on_close"])
def test_replay_and_restarts_change_nothing(
    tmp_path: Path, learner: str, update: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = replace(LEARNERS[learner], update=update)
    calls = requests(slot, 80)
    whole, clock = prepared(tmp_path / "whole", slot)
    expected = live(whole, clock, calls[:40]) + live(whole, clock, calls[40:], seed=2)
    counts = whole._manager.slots["home"].state.activity.counts
    assert counts.late > 0
    assert counts.relaxed > 0
    assert counts.rejected_updates == 0
    assert take_snapshot(replay(whole._store, "home")[0]).body == state_bytes(whole)

    cut, clock = prepared(tmp_path / "cut", slot)
    found = live(cut, clock, calls[:40])
    monkeypatch.setattr(Service, "_save_final_snapshots", lambda _: None)  # as after a kill
    cut.close()
    cut = Service(cut.config, clock=clock)
    cut.start()
    assert not cut._store.snapshots("home")
    found += live(cut, clock, calls[40:], seed=2)
    assert found == expected
    assert state_bytes(cut) == state_bytes(whole)
    monkeypatch.undo()
    for it in (whole, cut):
        it.close()
        (audit,) = audit_slots(open_log(it.config.store.path))
        assert audit.passed
    again = Service(whole.config, clock=clock)
    again.start()  # from a snapshot
    assert again.slot("home").relaxed == counts.relaxed
    assert state_bytes(again) == state_bytes(cut)
    again.rank("home", msgspec.structs.replace(calls[0], event_id="extra"))
    assert take_snapshot(replay(again._store, "home")[0]).body == state_bytes(again)
    again.close()


@pytest.mark.parametrize("learner", LEARNERS)
def test_lists_obey_the_rules_and_repeated_calls_get_the_same_reply(tmp_path: Path, learner: str) -> None:
    slot = LEARNERS[learner]
    it, clock = prepared(tmp_path, slot)
    calls = requests(slot, 60)
    replies = live(it, clock, calls)
    for request, reply in zip(calls, replies, strict=True):
        names, body = names_of(request), body_of(it, reply.event_id)
        out = {"i1", *(request.blocked or ())}
        assert sorted(reply.ranking) == sorted(name for name in names if name not in out)
        assert reply.blocked == [name for name in names if name in out]
        assert reply.retired == []
        for position, name in (request.pins or {}).items():
            assert reply.ranking[position - 1] == name
        if "i3" in reply.ranking:
            assert reply.ranking[1] == "i3"
        if not body.relaxed and not body.pins:
            groups = Counter(group_of(request, slot, name) for name in reply.ranking[:4])
            assert max(groups.values()) <= 1
        assert it.rank("home", request) == reply
        sums = np.frombuffer(body.propensities).sum()
        assert sums == pytest.approx(2)
    it.close()


def group_of(request: RankRequest, slot: SlotConfig, name: str) -> str:
    number = NAMES.index(name)
    for item in request.items or []:
        if not isinstance(item, str) and item.id == name and item.group:
            return item.group
    registered = slot.features_from == "registry" or (not slot.features and number < 9)
    return f"g{number % 3}" if registered else name


def test_a_slot_ranks_as_an_agent_with_the_same_rules(tmp_path: Path) -> None:
    it, _ = prepared(tmp_path, SLOT)
    agent = Agent(
        SLOT.learner_object, m=9, k=2, rules=Rules(0.5, 1, {2: 3}, [1], AtMost(1, 2), 2, AtMost(1, 4), 0.4)
    )
    items, rng = list(NAMES[:9]), np.random.default_rng(3)
    for n, request in enumerate(requests(SLOT, 60, seed=4)):
        names = names_of(request)
        out = {"i1", *(request.blocked or ())}
        items += [name for name in names if name not in items and name not in out]
        if len(items) > agent.shape.m:
            agent.add(len(items) - agent.shape.m)
        kept = [name for name in names if name in items]
        uniforms = np.empty(1)
        fill_uniforms(it._manager.slots["home"].state.key, n, uniforms)
        decision = agent.rank(
            available=[items.index(name) for name in kept],
            groups=[group_of(request, SLOT, name) for name in kept],
            pins={p: items.index(name) for p, name in (request.pins or {}).items()},
            blocked=[items.index(name) for name in request.blocked or () if name in items],
            uniforms=uniforms,
        )
        reply = it.rank("home", request)
        assert reply.ranking == [items[number] for number in decision.ranking]
        body = body_of(it, reply.event_id)
        assert np.frombuffer(body.propensities).tolist() == np.asarray(decision.propensities).tolist()
        assert decision.applied is not None
        assert (body.relaxed, body.followed) == (decision.applied.relaxed, decision.applied.followed)
        grades: list[float | None] = [float(rng.random() < 0.5) for _ in range(2)]
        it.feedback(reply.event_id, FeedbackRequest(grades))
        agent.update(decision, np.array(grades, float))
    it.close()


@pytest.mark.parametrize("learner", ["doubtsort", "registry"])
def test_a_leash_of_zero_shows_the_order_of_the_call(tmp_path: Path, learner: str) -> None:
    rules = RulesConfig(leash=0.0, blocked=("i4",))
    it, clock = prepared(tmp_path, replace(LEARNERS[learner], rules=rules))
    order = ["i7", "i2", "i4", "i0", "i5"]
    for n in range(10):
        reply = it.rank("home", RankRequest(event_id=f"e{n}", items=list(order)))
        assert reply.ranking == ["i7", "i2", "i0", "i5"]
        it.feedback(reply.event_id, FeedbackRequest([0, 1]))
        clock.now += 1
    with pytest.raises(Problem, match="items is missing: the leash compares with your order of the items"):
        it.rank("home", RankRequest())
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()


def test_all_items_of_the_slot_without_the_blocked_ones(tmp_path: Path) -> None:
    it, _ = service(tmp_path, rules=RulesConfig(blocked=("b", "zz")))
    reply = it.rank("home", RankRequest(event_id="e"))
    assert (sorted(reply.ranking), reply.blocked) == (["a", "c", "d"], ["b"])
    it.retire_items("home", ["c"])
    reply = it.rank("home", RankRequest(items=["c", "a", "d", "b", "b2"], blocked=["b2"]))
    assert (sorted(reply.ranking), reply.blocked, reply.retired) == (["a", "d"], ["b", "b2"], ["c"])
    assert it.slot("home").items == 3  # a blocked item is not registered
    it.close()


@pytest.mark.parametrize(
    ("rules", "request_", "said"),
    [
        ({}, {"pins": {1: "z"}}, "pins: 'z' is pinned to position 1, but is not in the list"),
        ({}, {"pins": {5: "a"}}, "pins: 'a' is pinned to position 5, but the list has 4 items"),
        ({}, {"pins": {1: "a"}, "blocked": ["a"]}, "pins: 'a' is pinned to position 1, but is blocked"),
        ({"blocked": ("a",)}, {"pins": {1: "a"}}, "pins: 'a' is pinned to position 1, but is blocked"),
        ({}, {"pins": {1: "a", 2: "a"}}, "pins: 'a' is pinned to two positions"),
        ({"pins": ((2, "a"),)}, {"pins": {1: "a"}}, "pins: 'a' is pinned to two positions"),
        (
            {"pins": ((1, "b"),)},
            {"pins": {1: "a"}},
            "pins: 'a' is pinned to position 1, and the slot's rules pin 'b' there",
        ),
        ({}, {"blocked": ["a", "b", "c", "d"]}, "blocked: all items of the list are blocked"),
        ({}, {"items": [Item("a", group="x"), "b"]}, "items: this slot has no rule for groups; set rules.group"),
    ],
)
def test_calls_that_contradict_the_rules_are_rejected(
    tmp_path: Path, rules: dict[str, Any], request_: dict[str, Any], said: str
) -> None:
    it, _ = service(tmp_path, rules=RulesConfig(**rules))
    before = state_bytes(it)
    with pytest.raises(Problem) as error:
        it.rank("home", RankRequest(**request_))
    assert error.value.status == 422
    assert said in error.value.detail
    assert state_bytes(it) == before
    it.close()


def test_learners_that_cannot_obey_reject_what_a_call_says(tmp_path: Path) -> None:
    it, _ = service(tmp_path, learner="marginftrl")
    with pytest.raises(Problem, match="pins: marginftrl cannot obey rules other than blocked"):
        it.rank("home", RankRequest(pins={1: "a"}))
    assert sorted(it.rank("home", RankRequest(blocked=["a"])).ranking) == ["b", "c", "d"]
    it.close()
    (tmp_path / "fixed").mkdir()
    it, _ = service(tmp_path / "fixed", learner="blockftrl")
    with pytest.raises(Problem, match="blocked: blockftrl always ranks all of its items"):
        it.rank("home", RankRequest(blocked=["a"]))
    it.close()


def test_new_rules_apply_from_the_next_start_on_and_keep_what_was_learned(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    replies = [it.rank("home", RankRequest(event_id=f"e{n}")) for n in range(20)]
    for reply in replies:
        it.feedback(reply.event_id, FeedbackRequest([0, 1]))
    learned = it._manager.slots["home"].state.agent.n_feedback
    it.close()
    slot = replace(it.config.slots[0], rules=RulesConfig(explore=0.0, pins=((1, "d"),)))
    again = Service(replace(it.config, slots=(slot,)), clock=clock)
    again.start()
    agent = again._manager.slots["home"].state.agent
    assert (agent.n_feedback, agent.rules) == (learned, Rules(explore=0.0))
    assert {again.rank("home", RankRequest()).ranking[0] for _ in range(5)} == {"d"}
    assert again.rank("home", RankRequest(event_id="e3")) == replies[3]
    assert take_snapshot(replay(again._store, "home")[0]).body == state_bytes(again)
    again.close()


def test_shadow_lists_obey_no_rules(tmp_path: Path) -> None:
    slot = replace(SLOT, mode="shadow")
    it, clock = prepared(tmp_path, slot)
    for request in requests(slot, 20):
        baseline = sorted(names_of(request))
        reply = it.rank("home", msgspec.structs.replace(request, baseline=baseline))
        assert (reply.ranking, reply.blocked) == (baseline, [])
        it.feedback(reply.event_id, FeedbackRequest([1, 0]))
        clock.now += 1
    assert it._manager.slots["home"].state.agent.rules is None
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()
    lively = Service(replace(it.config, slots=(SLOT,)), clock=clock)
    lively.start()
    assert lively._manager.slots["home"].state.agent.rules == ALL.limits
    lively.close()


def test_registered_groups_stay_until_they_are_replaced(tmp_path: Path) -> None:
    it, _ = service(tmp_path, rules=RulesConfig(group=AtMost(1, 2)))
    changed = it.put_items(
        "home", ItemsRequest([Item("a", group="x"), Item("b", group="x"), Item("e", group="y")])
    )
    assert (changed.added, changed.changed) == (1, 2)
    assert it.put_items("home", ItemsRequest(["a", Item("b", group="x")])).changed == 0
    assert it.put_items("home", ItemsRequest([Item("b", group="z")])).changed == 1
    assert {item.id: item.group for item in it.items("home").items} == {
        "a": "x",
        "b": "z",
        "c": None,
        "d": None,
        "e": "y",
    }
    it.rank("home", RankRequest(event_id="e", items=["a", Item("b", group="x"), "c", "d"]))
    assert np.frombuffer(body_of(it, "e").groups, "<u4").tolist() == [0, 0, 2, 3]
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()


def test_exports_evaluate_lists_with_rules(tmp_path: Path) -> None:
    for learner, slot in LEARNERS.items():
        it, clock = prepared(tmp_path / learner, slot)
        calls = requests(slot, 30)
        replies = live(it, clock, calls)
        log: Log = export_log(it._store, "home")
        it.close()
        assert log.propensity is not None
        numbers = {name: t for t, name in enumerate(log.events)}
        for request, reply in zip(calls, replies, strict=True):
            rows = slice(*log.offsets[numbers[str(request.event_id)] :][:2])
            names = [log.names[item] for item in log.item[rows]]
            assert [names[row] for row in np.argsort(log.position[rows])] == reply.ranking
            propensities = dict(zip(names, log.propensity[rows], strict=True))
            assert propensities.keys() == set(reply.ranking)
            if "i3" in names:
                assert propensities["i3"] == 1
            assert all(propensities[name] > 0 for name in reply.top_k)
