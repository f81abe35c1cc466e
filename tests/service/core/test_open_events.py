"""Events that rest: their records are in the log only, and nobody can tell."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helpers.services import SetClock, service
from helpers.traffic import ALL, live, put_some
from peekrank.service.api.messages import EventReply, FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core import open_events
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.service import Service
from peekrank.service.core.slot_state import SlotState
from peekrank.service.core.snapshots import restore, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.records import Record
from peekrank.service.event_log.sqlite_checks import SLOT


def visits(folder: Path) -> tuple[list[Record], list[EventReply]]:
    """Visits to slots of all kinds, with a restart, and what is in the log and about each event in the end."""
    folder.mkdir()
    it, clock = service(folder, *ALL, snapshot_every=60)
    put_some(it)
    live(it, clock, rounds=30)
    it.close()
    with Service(it.config, clock=clock) as again:
        live(again, clock, rounds=30, seed=1)
        events = [again.event(f"{slot.name}-1-{n}") for slot in ALL for n in range(30)]
        records = [record for slot in ALL for record in again._store.read(slot.name)]
    store = open_log(str(folder / "log.db"))
    assert all(audit.passed for audit in audit_slots(store))
    exported = [export_log(store, slot.name) for slot in ALL if slot.learner in ("doubtsort", "mixed:cells=20")]
    assert all(len(log.events) for log in exported)
    store.close()
    return records, events


def test_nobody_can_tell_which_events_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    awake = visits(tmp_path / "awake")
    monkeypatch.setattr(open_events, "AWAKE", 2)
    assert visits(tmp_path / "resting") == awake


def test_only_the_newest_events_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_events, "AWAKE", 3)
    it, _ = service(tmp_path)
    for n in range(10):
        it.rank("home", RankRequest(event_id=f"e{n}"))

    def resting(state: SlotState) -> list[str]:
        return [event.id for event in state.open.values() if event.rests]

    state = it._manager.slots["home"].state
    oldest = [f"e{n}" for n in range(7)]
    assert resting(state) == oldest
    assert it.event("e0").ranking  # reading wakes nobody
    assert it.rank("home", RankRequest(event_id="e1")).event_id == "e1"
    assert resting(state) == oldest
    assert resting(restore(take_snapshot(state))) == oldest
    assert it.feedback("e2", FeedbackRequest([1])).state == "answered"
    assert resting(state) == [name for name in oldest if name != "e2"]
    with pytest.raises(Problem, match="different feedback"):
        it.feedback("e2", FeedbackRequest([0]))
    it.close()


def test_events_that_wait_for_more_feedback_rest_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_events, "AWAKE", 3)
    it, clock = service(tmp_path, update="on_close", aggregate="mean")
    for n in range(6):
        it.rank("home", RankRequest(event_id=f"e{n}", defer=True))
    assert it.activate("e0").state == "shown"
    first = it.feedback("e0", FeedbackRequest([1, 0]))
    assert it.feedback("e0", FeedbackRequest([1, 0])) == first
    second = it.feedback("e0", FeedbackRequest([0, None]))
    assert (first.state, list(first.grades.values()), list(second.grades.values())) == ("shown", [1, 0], [1, 0])
    state = it._manager.slots["home"].state
    assert state.open["e0"].rests
    clock.now += 200
    it.close_due_events()
    assert it.event("e0").state == "answered"
    it.close()
    assert all(audit.passed for audit in audit_slots(open_log(str(tmp_path / "log.db"))))


def test_snapshots_of_older_versions_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, _ = service(tmp_path)
    for n in range(10):
        it.rank("home", RankRequest(event_id=f"e{n}"))
    it.close()  # with a snapshot that has all records
    monkeypatch.setattr(open_events, "AWAKE", 3)
    (audit,) = audit_slots(open_log(str(tmp_path / "log.db")))
    assert audit.passed
    assert len(audit.equal) == 1
    with Service(it.config, clock=SetClock()) as again:
        again.rank("home", RankRequest(event_id="e10"))
        assert sum(event.rests for event in again._manager.slots["home"].state.open.values()) == 8


def test_a_damaged_record_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_events, "AWAKE", 1)
    it, _ = service(tmp_path)
    for n in range(4):
        it.rank("home", RankRequest(event_id=f"e{n}"))
    assert it._store._writer is not None  # type: ignore[attr-defined]
    with it._store._writer as writer:  # type: ignore[attr-defined]
        writer.execute("UPDATE log SET body = CAST(body || X'00' AS BLOB) WHERE event = 'e0'")
    with pytest.raises(Problem) as error:
        it.feedback("e0", FeedbackRequest([1]))
    assert (error.value.status, error.value.kind) == (503, "store")
    assert it.feedback("e1", FeedbackRequest([1])).learned
    it.close()


@pytest.mark.parametrize("change", ["body = CAST(body || X'00' AS BLOB)", "event = 'other'"])
def test_an_event_whose_record_is_damaged_stays_open(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_events, "AWAKE", 1)
    it, clock = service(tmp_path, snapshot_every=3)
    for n in range(6):
        it.rank("home", RankRequest(event_id=f"e{n}"))
    it.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as log:
        log.execute(f"UPDATE log SET {change} WHERE event = 'e1'")  # noqa: S608
        log.commit()
    for _ in range(2):
        configure_logging("error", messages := io.StringIO())
        with Service(it.config, clock=clock) as again:
            clock.now += 200
            again.close_due_events()
            again.close_due_events()
            assert messages.getvalue().count("event 'e1' stays open") == 1
            assert "record 3 of slot 'home' is" in messages.getvalue()
            assert list(again._manager.slots["home"].state.open) == ["e1"]
            assert again.event("e0").state == "expired"
            assert again.rank("home", RankRequest()).ranking
            assert again.ready()


def test_records_of_events_that_rest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are needed by a start from the last snapshot but one, and by audits."""
    monkeypatch.setattr(open_events, "AWAKE", 1)
    it, clock = service(tmp_path, snapshot_every=10, retention=100.0)
    for n in range(40):
        clock.now += 20
        it.rank("home", RankRequest(event_id=f"e{n}"))
    it.close()
    path = tmp_path / "log.db"
    store = open_log(str(path))
    newest, older = (snapshot.number for snapshot in store.snapshots("home"))
    assert 0 < store.heads()["home"].deleted < older - 5
    assert all(audit.passed for audit in audit_slots(store))
    store.close()
    with closing(sqlite3.connect(path)) as log:
        log.execute("DELETE FROM snapshots WHERE id = ?", (SLOT + newest,))
        log.commit()
    with Service(it.config, clock=clock) as again:
        assert again.rank("home", RankRequest()).ranking
