"""Holdouts and visitors: exact propensities, replay, the verdict, and the same verdict from the exported log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from helpers.services import HOME, SetClock, service
from helpers.traffic import CLICKS, FEATURES, REGISTRY, SCORED, put_some
from peekrank.evaluation.holdout import holdout_of_log
from peekrank.evaluation.log import Log, read_log, write_log
from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.config.file import Document
from peekrank.service.config.holdout import HoldoutConfig
from peekrank.service.config.model import parse_config
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.holdout import SlotHoldout
from peekrank.service.core.service import Service
from peekrank.service.core.slots import Slot
from peekrank.service.core.snapshots import replay, restore, take_snapshot
from peekrank.service.event_log.records import Ranked, decode, read_floats, read_numbers
from peekrank.types import Floats

HELD = HoldoutConfig(0.25)
SLOTS = tuple(replace(slot, holdout=HELD, sticky=40.0) for slot in (HOME, FEATURES, REGISTRY, CLICKS, SCORED))
LIKED = {"a": 0.9, "b": 0.7, "c": 0.4, "d": 0.2, "e": 0.1}
MIXED = HoldoutConfig(0.25, mode="union")
MIXTURES = tuple(replace(slot, holdout=MIXED) for slot in (SLOTS[0], SLOTS[1], SLOTS[4]))
RULED = replace(
    HOME,
    holdout=HELD,
    sticky=40.0,
    rules=RulesConfig(explore=0.5, explore_at=1, pins=((2, "a"),), blocked=("d",), leash=0.3),
)


def request(slot: SlotConfig, n: int, rng: np.random.Generator) -> RankRequest:
    more: dict[str, Any] = {"event_id": f"{slot.name}-{n}", "visitor": f"person {rng.integers(6)}"}
    if slot.name in ("home", "clicks"):
        names = rng.permutation(["a", "b", "c", "d", *(["e"] if n % 3 == 0 else [])]).tolist()
        return RankRequest(items=names, **more)
    if slot.name == "search":
        names = ["x", "y", "z", "w"][: rng.integers(3, 5)]
        items: Sequence[str | Item] = [Item(name, rng.normal(size=3).tolist()) for name in names]
    elif slot.name == "scored":
        names, items = list("abcd"), [Item(name, score=float(rng.normal())) for name in "abcd"]
    else:
        names = items = [f"s{i}" for i in range(6)]
        more["context"] = [0.0, 1.0]
    if n % 2:
        more["baseline"] = rng.permutation(names).tolist()
    return RankRequest(items=list(items), **more)


def traffic(it: Service, clock: SetClock, n: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for visit in range(n):
        clock.now += float(rng.integers(1, 12))
        for slot in it.config.slots:
            asked = request(slot, 1000 * seed + visit, rng)
            shown = it.rank(slot.name, asked)
            if rng.random() < 0.9:
                grades = {name: float(rng.random() < LIKED.get(name, 0.5)) for name in shown.top_k}
                it.feedback(shown.event_id, FeedbackRequest(dict(grades)))


def records(it: Service, slot: str) -> list[Ranked]:
    bodies = [decode(record) for record in it._store.read(slot, 0)]
    return [body for body in bodies if isinstance(body, Ranked)]


def named(slot: SlotConfig) -> str:
    return f"{slot.name}{'-ruled' * (slot.rules.leash is not None)}-{slot.holdout.mode}"


@pytest.mark.parametrize("slot", [*SLOTS, *MIXTURES, RULED], ids=named)
def test_replay_and_audit_are_equal_and_the_log_has_the_same_verdict(slot: SlotConfig, tmp_path: Path) -> None:
    it, clock = service(tmp_path, slot, snapshot_every=100)
    if slot.name == "shop":
        put_some(it)
    traffic(it, clock, 150)
    clock.now += 1000
    name = slot.name
    traffic(it, clock, 1, seed=1)  # all earlier lists are closed, and all stays are over
    live = it._manager.slots[name].state
    again, _ = replay(it._store, name)
    assert take_snapshot(again).body == take_snapshot(live).body
    assert again.activity.counts.replay_mismatches == 0
    told = it.slot(name).holdout
    assert told is not None
    assert told.difference is not None
    assert 0 < told.held < told.lists < 151
    repeats = [body for body in records(it, name) if body.first]
    assert len(repeats) > (2 if slot is RULED else 30)  # a leash follows the order of each call
    assert any(body.whole for body in repeats)
    log = export_log(it._store, name)
    write_log(tmp_path / "log.parquet", log)
    write_log(tmp_path / "log.jsonl", log)
    closed = log.select(np.arange(len(log.k)) < len(log.k) - 1)
    for one in (closed, *(read_log(tmp_path / f"log.{kind}") for kind in ("parquet", "jsonl"))):
        verdict = holdout_of_log(one.select(np.arange(len(one.k)) < len(closed.k)))
        assert verdict is not None
        assert (verdict.lists, verdict.held) == (told.lists, told.held)
        assert (told.two_samples is None) == (slot.holdout is MIXED)
        for part, reply in ((verdict.difference, told.difference), (verdict.two_samples, told.two_samples)):
            if reply is not None:
                np.testing.assert_allclose(part, (reply.mean, reply.low, reply.high), rtol=1e-9)
    it.close()
    assert all(audit.passed for audit in audit_slots(it._store))
    resumed, _ = service(tmp_path, slot, snapshot_every=100)
    assert resumed.slot(name).holdout == told
    resumed.close()


@pytest.mark.parametrize("slot", [replace(one, sticky=0.0) for one in (*SLOTS, *MIXTURES, RULED)], ids=named)
def test_propensities_are_those_of_both_kinds_of_lists(
    slot: SlotConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank the same list for many values of the first uniform, in both arms."""
    it, clock = service(tmp_path, slot)
    if slot.name == "shop":
        put_some(it)
    traffic(it, clock, 40)
    saved, grid = take_snapshot(it._manager.slots[slot.name].state), 150
    asked = structs.replace(request(slot, 9, np.random.default_rng(1)), event_id=None, visitor=None)
    bodies: list[tuple[float, Ranked]] = []
    for arm, chance in ((0.0, HELD.share), (0.999, 1 - HELD.share)):
        for u in (np.arange(grid) + 0.5) / grid:
            state = restore(saved)
            state.open.records = it._store.event_records

            def fill(_key: int, _number: int, out: Floats, u: float = u, arm: float = arm) -> None:
                out[:] = u
                out[-2 if slot.holdout.mode == "union" else -1] = arm

            monkeypatch.setattr(state, "_fill_uniforms", fill)
            taker = Slot(state, it.config.limits)
            taker.now = it._manager.slots[slot.name].now
            taker.rank(asked)
            body = decode(taker.pending[-1])
            assert isinstance(body, Ranked)
            assert body.held == (arm == 0)
            bodies.append((chance / grid, body))
    items = np.sort(read_numbers(bodies[0][1].ranking))
    seen = sum(chance * np.isin(items, read_numbers(body.ranking)[: slot.k]) for chance, body in bodies)
    for _, body in bodies:
        np.testing.assert_allclose(read_floats(body.propensities), seen, atol=2 / grid)
    if slot is not RULED:
        assert len({body.ranking for _, body in bodies}) > 1
    it.close()


def test_visitors_get_the_same_order_for_some_time(tmp_path: Path) -> None:
    it, clock = service(tmp_path, sticky=50.0, learner="greedy:epsilon=1.0", k=1)

    def ranking(visitor: str | None, *items: str) -> list[str]:
        return it.rank("home", RankRequest(visitor=visitor, items=list(items or "abcd"))).ranking

    first = {name: ranking(name) for name in ("ann", "bob", "cid", "dan", "eve")}
    assert len({tuple(order) for order in first.values()}) > 1
    clock.now += 49
    for name, order in first.items():
        assert ranking(name) == order
        assert ranking(name, "b", "d", "new", "a") == [*(item for item in order if item != "c"), "new"]
    assert len({tuple(ranking(None)) for _ in range(20)}) > 1
    clock.now += 1
    assert [ranking(name) for name in first] != list(first.values())
    it.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as log:
        content = b"".join(row[0] for row in log.execute("SELECT body FROM log"))
    assert not any(name.encode() in content for name in first)
    assert sum(len(body.visitor) == 16 for body in records(it, "home")) == 20


def test_the_earliest_visitors_are_forgotten_beyond_the_limit(tmp_path: Path) -> None:
    it, _ = service(tmp_path, sticky=50.0, max_visitors=2)
    for name in ("ann", "bob", "cid", "ann", "cid", "bob"):
        it.rank("home", RankRequest(visitor=name))
    assert [body.first for body in records(it, "home")] == [0, 0, 0, 0, 4, 0]
    it.close()


def test_a_new_configuration_forgets_visitors(tmp_path: Path) -> None:
    it, _ = service(tmp_path, sticky=50.0)
    it.rank("home", RankRequest(visitor="ann"))
    it.close()
    again, _ = service(tmp_path, sticky=50.0, feedback_window=200.0)
    again.rank("home", RankRequest(visitor="ann"))
    again.rank("home", RankRequest(visitor="ann"))
    assert [bool(body.first) for body in records(again, "home")] == [False, False, True]
    again.close()


def test_rules_about_positions_are_kept_in_repeated_lists(tmp_path: Path) -> None:
    it, _ = service(tmp_path, sticky=50.0, rules=RulesConfig(pins=((1, "c"),), explore=0.0))
    assert it.rank("home", RankRequest(visitor="ann", items=list("abcd"))).ranking[0] == "c"
    shorter = it.rank("home", RankRequest(visitor="ann", items=list("abd")))  # a new order: the pin has no effect
    pinned = it.rank("home", RankRequest(visitor="ann", items=list("abcd"), pins={2: "d"}))
    assert len(shorter.ranking) == 3
    assert pinned.ranking[:2] == ["c", "d"]
    assert [body.first for body in records(it, "home")] == [0, 0, 0]
    it.close()


def test_the_own_order_is_the_baseline_or_the_configured_one_or_that_of_the_call(tmp_path: Path) -> None:
    whole = HoldoutConfig(0.5)

    def own(body: Ranked, state: Any) -> list[str]:
        return state.items.names(read_numbers(body.baseline).tolist())  # type: ignore[no-any-return]

    for holdout, call, expected in (
        (whole, RankRequest(items=list("dbac"), baseline=list("abcd")), "abcd"),
        (whole, RankRequest(items=list("dbac")), "dbac"),
        (HoldoutConfig(0.5, ("c", "a")), RankRequest(items=list("dbac")), "cadb"),
        (HoldoutConfig(0.5, ("c", "a")), RankRequest(), "cabd"),
    ):
        it, _ = service(tmp_path / f"{expected}{len(holdout.order)}{call.items is None}", holdout=holdout)
        for _ in range(12):
            reply = it.rank("home", call)
            body = records(it, "home")[-1]
            assert own(body, it._manager.slots["home"].state) == list(expected)
            assert not body.held or (reply.ranking == list(expected) and not reply.explored)
        assert {body.held for body in records(it, "home")} == {True, False}
        it.close()
    it, _ = service(tmp_path / "none", holdout=whole)
    with pytest.raises(Problem, match="send it as baseline"):
        it.rank("home", RankRequest())
    with pytest.raises(Problem, match="must contain the items"):
        it.rank("home", RankRequest(items=list("ab"), baseline=["a"]))
    it.close()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("holdout = 0.7", "share from 0 to 0.5"),
        ("holdout = { part = 0.1 }", "unknown"),
        ("holdout = 0.1\nmode = 'shadow'", "remove mode"),
        ("holdout = { share = 0.1, mode = 'mixed' }", "must be 'whole' or 'union'"),
        ("holdout = { share = 0.1, mode = 'union' }\n[slots.home.rules]\nleash = 0.1", "mixtures obey no pins"),
        ("holdout = 0.1\nlearner = 'thompson'", "thompson cannot have a holdout"),
        ("sticky = '1 week'", "must be a time"),
        ("alpha = 0.0", "must be a probability between 0 and 1"),
        ("sticky = '1 day'\nlearner = 'blockftrl'\nitems = ['a', 'b']", "lists that it showed before"),
    ],
)
def test_what_cannot_be_is_rejected(lines: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_config(Document(f"[slots.home]\nk = 2\n{lines}", "service.toml"))


def test_a_holdout_finds_the_better_order(tmp_path: Path) -> None:
    it, clock = service(tmp_path, holdout=HoldoutConfig(0.2), k=1)
    rng = np.random.default_rng(3)
    for _ in range(1500):
        clock.now += 1
        reply = it.rank("home", RankRequest(items=list("dcba")))
        it.feedback(reply.event_id, FeedbackRequest([float(rng.random() < LIKED[reply.top_k[0]])]))
    told = it.slot("home").holdout
    assert told is not None
    assert (told.better, told.agrees, told.remaining) == ("learner", True, None)
    assert told.verdict.startswith("The learner is better")
    assert told.difference is not None
    assert told.two_samples is not None
    assert 0.4 < told.difference.low < 0.7 < told.difference.high
    assert told.difference.high - told.difference.low < told.two_samples.high - told.two_samples.low
    it.close()
    again, _ = service(tmp_path, holdout=HoldoutConfig(0.2), k=1, alpha=0.005)  # wider, from the same evidence
    wider = again.slot("home").holdout
    assert wider is not None
    assert wider.difference is not None
    assert (wider.alpha, wider.lists, wider.difference.mean) == (0.005, told.lists, told.difference.mean)
    assert wider.difference.low < told.difference.low < told.difference.high < wider.difference.high
    assert "(99.5 %:" in wider.verdict
    again.close()


def test_mixtures_obey_no_pins_and_plain_means_are_those_of_whole_lists(tmp_path: Path) -> None:
    def live(it: Service, clock: SetClock) -> None:
        for n in range(40):
            clock.now += 1
            reply = it.rank("home", RankRequest(items=list("dcba")))
            it.feedback(reply.event_id, FeedbackRequest([float(n % 2)] * 2))

    it, clock = service(tmp_path, holdout=HELD)
    live(it, clock)
    it.close()
    it, clock = service(tmp_path, holdout=MIXED)
    clock.now += 100
    with pytest.raises(Problem, match="obey no pins"):
        it.rank("home", RankRequest(items=list("dcba"), pins={1: "a"}))
    live(it, clock)
    told = it.slot("home").holdout
    assert told is not None
    assert told.two_samples is not None
    assert (told.lists, told.two_samples.n, told.mode, told.agrees) == (80, 40, "union", True)
    mixed = {body.ranking for body in records(it, "home") if body.mixture and body.held}
    assert len(mixed) > 1
    log = export_log(it._store, "home")
    verdict = holdout_of_log(log)
    assert verdict is not None
    assert (verdict.lists, verdict.plain) == (80, 40)
    it.close()


def test_snapshots_from_before_there_were_mixtures_can_be_restored(tmp_path: Path) -> None:
    it, clock = service(tmp_path, SLOTS[0])
    traffic(it, clock, 60)
    holdout = it._manager.slots["home"].state.holdout
    saved = holdout.snapshot()
    assert saved is not None
    arrays = list(saved.arrays)
    arrays[3] = arrays[3][:-8]
    again = SlotHoldout.restore(structs.replace(saved, arrays=arrays), SLOTS[0], None)
    assert again.verdict() == holdout.verdict()
    it.close()


def test_the_value_of_a_log_counts_each_visitor_once(tmp_path: Path) -> None:
    it, clock = service(tmp_path, SLOTS[0])
    traffic(it, clock, 60)
    log: Log = export_log(it._store, "home")
    assert log.repeats.sum() > 5
    assert np.isin(log.propensity[np.repeat(log.repeats, log.lengths)], (0, 1)).all()
    assert log.clusters is not None
    assert set(log.clusters.drop_nulls()) <= set(log.events.filter(~log.clusters.is_not_null()))
    it.close()
