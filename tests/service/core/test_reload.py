"""The configuration changes while the service runs: what may, what may not, and the log that has it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from helpers.services import HOME, service
from peekrank.engine.rules import AtMost
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, KeyConfig, LimitsConfig, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.config.compare import CompareConfig
from peekrank.service.config.holdout import HoldoutConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.audit import audit_slot
from peekrank.service.core.reload import changes
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.store import StoreError


def visit(it: Service, event: str, grade: int = 1) -> None:
    shown = it.rank("home", RankRequest(event_id=event))
    it.feedback(event, FeedbackRequest({shown.top_k[0]: grade}))


def with_slot(it: Service, **changed: Any) -> Config:
    return replace(it.config, slots=(replace(it.config.slots[0], **changed),))


def digest(it: Service) -> bytes:
    return take_snapshot(it._manager.slots["home"].state).digest


SAFE: dict[str, Any] = {
    "new_items": "reject",
    "retired_items": "reject",
    "max_list_length": 50,
    "items": ("a", "b", "c", "d", "e"),
    "feedback_window": 7.0,
    "missing_feedback": 0,
    "update": "on_close",
    "aggregate": "max",
    "mode": "shadow",
    "feedback": "click = 1",
    "seed": 11,
    "holdout": HoldoutConfig(0.1),
    "sticky": 60.0,
    "alpha": 0.1,
    "max_visitors": 5,
    "rules": RulesConfig(blocked=("a",), new=AtMost(1, 2)),
}
UNSAFE: dict[str, Any] = {
    "learner": "greedy",
    "measure": "p@1",
    "k": 1,
    "max_grade": 3,
    "features": 2,
    "context": 1,
    "features_from": "registry",
    "item_effects": 1,
    "compare": CompareConfig(),
}


def test_every_field_of_a_slot_is_decided_about() -> None:
    """A new field fails here until somebody has decided."""
    ours = {"name", *SAFE, *UNSAFE}
    assert {field.name for field in fields(SlotConfig)} <= ours
    for name, value in (SAFE | UNSAFE).items():
        found = changes(Config((HOME,)), Config((replace(HOME, **{name: value}),)))
        assert found, name
        assert all(change.field.startswith(f"slots.home.{name}") for change in found)
        assert all(bool(change.obstacle) == (name in UNSAFE) for change in found), name


def test_what_is_not_in_the_log_of_a_slot_is_decided_about() -> None:
    key = KeyConfig("web", "app", "sha256:" + "0" * 64)
    before = Config((HOME,), keys=(key,))
    cases = {
        "server.port: 8000 -> 9000": (False, replace(before, server=ServerConfig(port=9000))),
        "store.path: 'peekrank.db' -> 'b.db'": (False, replace(before, store=StoreConfig("b.db"))),
        "store.url: changed": (False, replace(before, store=StoreConfig(url="postgresql://u:geheim@h/d"))),
        "store.synchronous: 'full' -> 'normal'": (False, replace(before, store=StoreConfig(synchronous="normal"))),
        "store.retention: 0.0 -> 9.0": (True, replace(before, store=StoreConfig(retention=9.0))),
        "limits.max_items: 10000 -> 5": (True, replace(before, limits=LimitsConfig(max_items=5))),
        "keys.web: changed": (True, replace(before, keys=(replace(key, role="admin"),))),
        "keys.eye: added": (True, replace(before, keys=(key, replace(key, name="eye")))),
        "keys.web: removed": (False, replace(before, keys=())),
        "slots.more: added": (False, replace(before, slots=(HOME, replace(HOME, name="more")))),
    }
    for text, (may, after) in cases.items():
        assert [(one.text, not one.obstacle) for one in changes(before, after)] == [(text, may)]
    two = replace(before, slots=(HOME, replace(HOME, name="more")))
    assert [one.text for one in changes(two, before) if one.obstacle] == ["slots.more: removed"]
    assert changes(before, replace(before)) == []


def test_the_log_has_the_change_between_the_calls_and_a_restart_goes_on(tmp_path: Path) -> None:
    it, clock = service(tmp_path, update="on_close", snapshot_every=100)
    for n in range(30):
        visit(it, f"a{n}", n % 2)
    clock.now += 200
    after = replace(
        with_slot(it, update="immediate", feedback_window=30.0, items=("a", "b", "c", "d", "e")),
        limits=replace(it.config.limits, max_open_events=3),
    )
    assert it.reload(after) == [
        "limits.max_open_events: 100000 -> 3",
        "slots.home.items: ('a', 'b', 'c', 'd') -> ('a', 'b', 'c', 'd', 'e')",
        "slots.home.feedback_window: 100.0 -> 30.0",
        "slots.home.update: 'on_close' -> 'immediate'",
    ]
    assert it.reload(after) == []
    assert it.slot("home").items == 5
    number = it.slot("home").sequence
    for n in range(150):
        visit(it, f"b{n}", n % 2)
    for n in range(3):
        it.rank("home", RankRequest(event_id=f"c{n}"))
    with pytest.raises(Problem, match="3 open events"):
        it.rank("home", RankRequest(event_id="c3"))
    clock.now += 31
    it.close_due_events()
    assert it.event("c0").state == "expired"
    ours = digest(it)
    audit = audit_slot(open_log(str(tmp_path / "log.db")), "home")
    assert audit.passed
    assert audit.equal
    assert take_snapshot(replay(it._store, "home")[0]).digest == ours
    it.close()
    again = Service(after, clock=clock)
    with again:
        assert digest(again) == ours  # the configuration is the one in the log, so that a start writes no record
        assert again.slot("home").sequence > number
        visit(again, "d0")


def test_events_that_wait_for_the_end_of_their_window_close_after_a_change_to_immediate_updates(
    tmp_path: Path,
) -> None:
    it, clock = service(tmp_path, update="on_close", missing_feedback=0)
    visit(it, "answered")
    it.rank("home", RankRequest(event_id="silent"))
    it.reload(with_slot(it, update="immediate", missing_feedback="missing"))
    shown = it.event("answered")
    again = it.feedback("answered", FeedbackRequest({shown.top_k[0]: 1}))  # a repetition
    assert (again.state, again.learned) == ("shown", False)
    clock.now += 101
    it.close_due_events()
    assert (it.event("answered").state, it.event("answered").learned) == ("answered", True)
    assert (it.event("silent").state, it.event("silent").learned) == ("expired", False)
    it.close()
    assert audit_slot(open_log(str(tmp_path / "log.db")), "home").passed


def test_a_refused_change_changes_nothing_and_names_every_field(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    visit(it, "a")
    before, state = it.config, digest(it)
    after = replace(with_slot(it, k=1, feedback_window=9.0), limits=LimitsConfig(max_items=7))
    after = replace(after, store=replace(after.store, path="elsewhere.db"))
    with pytest.raises(Problem) as refused:
        it.reload(after)
    assert (refused.value.kind, refused.value.status) == ("needs-restart", 409)
    assert refused.value.detail == (
        "store.path needs a restart: the service opens its address and its log once; "
        "slots.home.k needs a restart: the learner would start from scratch. Nothing was changed"
    )
    assert it.config is before
    assert digest(it) == state
    it.close()


def test_rules_take_effect_at_once_and_replay_exactly(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    for n in range(20):
        visit(it, f"a{n}")
    it.reload(with_slot(it, rules=RulesConfig(blocked=("b",), pins=((1, "c"),))))
    for n in range(20):
        reply = it.rank("home", RankRequest(event_id=f"b{n}"))
        assert reply.ranking[0] == "c"
        assert "b" not in reply.ranking
    it.reload(with_slot(it, rules=RulesConfig()))
    assert {len(it.rank("home", RankRequest()).ranking) for _ in range(20)} == {4}
    it.close()
    assert audit_slot(open_log(str(tmp_path / "log.db")), "home").passed


def test_a_share_of_the_holdout_changes_and_replays_exactly(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    held = []
    for share in (0.0, 0.5, 0.2, 0.0):
        it.reload(with_slot(it, holdout=HoldoutConfig(share, ("a", "b", "c", "d") if share else ())))
        for n in range(60):
            shown = it.rank("home", RankRequest())
            it.feedback(shown.event_id, FeedbackRequest(dict.fromkeys(shown.top_k, n % 2)))
        held.append(it.slot("home").holdout)
    assert [one and (one.share, one.lists) for one in held] == [None, (0.5, 60), (0.2, 120), (0.0, 120)]
    it.close()
    audit = audit_slot(open_log(str(tmp_path / "log.db")), "home")
    assert audit.passed


def test_calls_during_reloads_are_answered_and_replay_exactly(tmp_path: Path) -> None:
    it, _ = service(tmp_path, update="immediate")
    failures: list[BaseException] = []

    def run(call: Callable[[int], object], times: int) -> None:
        try:
            for n in range(times):
                call(n)
        except BaseException as error:
            failures.append(error)

    def reload(n: int) -> None:
        it.reload(with_slot(it, feedback_window=50.0 + n % 3, aggregate=("last", "max")[n % 2]))

    callers = [
        threading.Thread(target=run, args=(lambda n, name=name: visit(it, f"{name}-{n}", n % 2), 60))
        for name in ("one", "two", "three")
    ]
    threads = [*callers, threading.Thread(target=run, args=(reload, 30))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert it.slot("home").answered == 180
    ours = digest(it)
    it.close()
    store = open_log(str(tmp_path / "log.db"))
    assert audit_slot(store, "home").passed
    assert take_snapshot(replay(store, "home")[0]).digest == ours


def test_a_reload_that_cannot_be_written_leaves_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, _ = service(tmp_path)
    visit(it, "a")
    before, append = it.config, it._store.append

    def broken(records: object) -> None:
        monkeypatch.setattr(it._store, "append", append)
        raise StoreError("disk full")

    monkeypatch.setattr(it._store, "append", broken)
    with pytest.raises(Problem, match="the log cannot be written"):
        it.reload(with_slot(it, feedback_window=9.0))
    assert it.config is before
    for _ in range(200):
        if it.ready():
            break
        threading.Event().wait(0.05)
    assert it._manager.slots["home"].state.config.feedback_window == 100.0
    it.reload(with_slot(it, feedback_window=9.0))
    assert it._manager.slots["home"].state.config.feedback_window == 9.0
    it.close()
