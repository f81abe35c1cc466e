"""Holdouts and visitors: exact propensities, replay, the verdict, and the same verdict from the exported log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.services import HOME, SetClock, service
from helpers.traffic import CLICKS, FEATURES, REGISTRY, SCORED, put_some
from peekrank.evaluation.holdout import holdout_of_log
from peekrank.evaluation.log import read_log, write_log
from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest
from peekrank.service.config import SlotConfig
from peekrank.service.config.holdout import HoldoutConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.records import Ranked, decode

HELD = HoldoutConfig(0.25)
SLOTS = tuple(replace(slot, holdout=HELD, sticky=40.0) for slot in (HOME, FEATURES, REGISTRY, CLICKS, SCORED))
LIKED = {"a": 0.9, "b": 0.7, "c": 0.4, "d": 0.2, "e": 0.1}
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


@pytest.mark.parametrize("slot", [*SLOTS, RULED], ids=lambda slot: f"{slot.name}{'-ruled' * (slot is RULED)}")
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
        assert told.two_samples is not None
        for part, reply in ((verdict.difference, told.difference), (verdict.two_samples, told.two_samples)):
            np.testing.assert_allclose(part, (reply.mean, reply.low, reply.high), rtol=1e-9)
    it.close()
    assert all(audit.passed for audit in audit_slots(it._store))
    resumed, _ = service(tmp_path, slot, snapshot_every=100)
    assert resumed.slot(name).holdout == told
    resumed.close()
