"""Logs that were changed after they were written: a start says what is wrong, with the slot and the record."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from helpers.services import HOME, reseal, service
from helpers.traffic import CLICKS, live
from peekrank.service.api.messages import RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, sealed, take_snapshot
from peekrank.service.event_log.chain import DamagedError
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.sqlite_checks import SLOT
from peekrank.service.event_log.store import Snapshot, StoreError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of two slots after a stop, without snapshots, so that a start reads all records."""
    it, clock = service(tmp_path, HOME, CLICKS, synchronous="full")
    live(it, clock, rounds=15)
    it.close()
    path = tmp_path / "log.db"
    change(path, "DELETE FROM snapshots")
    return path


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def start(path: Path) -> Service:
    return service(path.parent, HOME, CLICKS, synchronous="full")[0]


_KEY = 2 * SLOT + 7  # record 7 of the second slot

CHANGES = {
    "body": ("UPDATE log SET body = body || X'00' WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "time": ("UPDATE log SET time = time + 1 WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "kind": ("UPDATE log SET kind = 5 - kind WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "event": ("UPDATE log SET event = 'other' WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "type": ("UPDATE log SET event = X'ff' WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "link": ("UPDATE log SET link = X'00' WHERE id = ?", "record 7 of slot 'clicks' is damaged"),
    "gap": ("DELETE FROM log WHERE id = ?", "'clicks' has a gap: record 8 follows record 6"),
    "tail": ("DELETE FROM log WHERE id > ?", "'clicks' was cut: it ends with record 7, but record"),
    "start": ("DELETE FROM log WHERE id < ? AND id > 2199023255552", "'clicks' was cut: it starts with record 7"),
    "slot": ("DELETE FROM slots WHERE name = 'clicks' AND ?", "the log has 1 slots, but was written with 2"),
    "name": ("UPDATE slots SET name = 'clacks' WHERE name = 'clicks' AND ?", "head of slot 'clacks' is damaged"),
    "head": ("UPDATE slots SET last = last - 1 WHERE name = 'clicks' AND ?", "head of slot 'clicks' is damaged"),
    "count": ("UPDATE about SET value = 1 WHERE name = 'slots' AND ?", "has 2 slots, but was written with 1"),
    "format": ("UPDATE about SET value = 1 WHERE name = 'format' AND ?", "has format 1, and this version"),
    "moved": ("UPDATE log SET id = id + 3298534883328 WHERE id >= ?", "'clicks' was cut: it ends with record 6"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_named(what: str, log: Path) -> None:
    statement, message = CHANGES[what]
    change(log, statement, _KEY)
    with pytest.raises((StoreError, DamagedError), match=message):
        start(log)
    try:
        audits = list(audit_slots(open_log(str(log))))
    except ValueError as error:
        assert message in str(error)  # noqa: PT017
    else:
        assert any(message in str(audit) for audit in audits)


def test_a_lost_slot_is_named_by_its_records(log: Path) -> None:
    change(log, "DELETE FROM slots WHERE name = 'clicks'")
    change(log, "UPDATE about SET value = 1 WHERE name = 'slots'")
    with pytest.raises(DamagedError, match="record 1 belongs to slot number 2, which is missing"):
        start(log)


def test_times_that_run_backwards_are_refused(log: Path) -> None:
    change(log, "UPDATE log SET time = 1 WHERE id = ?", _KEY)
    reseal(log)
    with pytest.raises(DamagedError, match="record 7 of slot 'clicks' is dated before record 6"):
        start(log)


def test_an_emptied_log_is_not_begun_anew(log: Path) -> None:
    for table in ("log", "slots", "snapshots"):
        change(log, f"DELETE FROM {table}")  # noqa: S608
    with pytest.raises(DamagedError, match="the log has 0 slots, but was written with 2"):
        start(log)
    log.write_bytes(b"")
    with pytest.raises(DamagedError, match=r"log\.db is empty\. Restore a backup"):
        start(log)
    log.unlink()
    with pytest.raises(StoreError, match=r"was deleted or replaced\. Restore a backup, or delete log\.db-head"):
        start(log)
    Path(f"{log}-head").unlink()
    it = start(log)
    assert it.rank("home", RankRequest()).ranking
    it.close()


def test_a_lost_write_ahead_log_is_noticed(tmp_path: Path) -> None:
    """As after kill -9, when someone copies the database without the files beside it."""
    it, clock = service(tmp_path, synchronous="full")
    live(it, clock, rounds=5)
    (tmp_path / "copy").mkdir()
    for name in ("log.db", "log.db-head"):
        shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    last = it.slot("home").sequence
    it.close()
    with pytest.raises(DamagedError, match=f"'home' ends with record 0, but record {last} was written"):
        service(tmp_path / "copy", synchronous="full")
    it, _ = service(tmp_path, synchronous="full")
    it.close()


def test_an_older_copy_of_the_log_is_noticed(log: Path) -> None:
    older = log.read_bytes()
    it = start(log)
    it.rank("home", RankRequest("new"))
    last = it.slot("home").sequence
    it.close()
    log.write_bytes(older)
    with pytest.raises(
        DamagedError, match=rf"but record {last} was written\. If you have restored a backup, delete"
    ):
        start(log)
    Path(f"{log}-head").unlink()
    it = start(log)
    assert it.slot("home").sequence == last - 1
    it.close()


def test_a_damaged_head_file_stops_nothing(log: Path) -> None:
    Path(f"{log}-head").write_bytes(b"PEEKHEAD and more")
    start(log).close()
    assert all(audit.passed for audit in audit_slots(open_log(str(log))))


def test_a_damaged_page_is_named_and_what_is_intact(log: Path) -> None:
    content = bytearray(log.read_bytes())
    place = content.rindex(b"clicks-0-3")  # in the table or in the index of events
    content[place : place + 10] = b"clicks-9-9"
    log.write_bytes(content)
    with pytest.raises(DamagedError, match="slot 'clicks' is intact up to record"):
        start(log)


def test_a_damaged_record_is_not_served(tmp_path: Path) -> None:
    it, clock = service(tmp_path, synchronous="full")
    live(it, clock, rounds=15)
    it.close()
    change(tmp_path / "log.db", "UPDATE log SET body = body || X'00' WHERE kind = 3 AND event = 'home-0-9'")
    it, _ = service(tmp_path, synchronous="full")  # from the snapshot
    with pytest.raises(Problem, match=r"record \d+ of slot 'home' is damaged"):
        it.event("home-0-9")
    with pytest.raises(Problem, match=r"the log cannot be read: record \d+ of slot 'home' is damaged"):
        it.rank("home", RankRequest("home-0-9"))
    assert it.rank("home", RankRequest("new")).ranking  # everything else goes on
    assert it.ready()
    it.close()


def snapshots_changed(tmp_path: Path, changed: Callable[[Snapshot], Snapshot]) -> tuple[list[str], bool]:
    """Change all snapshots of a slot: why they are skipped, and whether replay gives the same state."""
    it, clock = service(tmp_path, HOME, CLICKS, snapshot_every=20)
    live(it, clock, rounds=30)
    expected = take_snapshot(it._manager.slots["home"].state).body
    snapshots = it._store.snapshots("home")
    for snapshot in snapshots:
        it._store.save_snapshot(changed(snapshot))
    state, skipped = replay(it._store, "home")
    it.close()
    return skipped, take_snapshot(state).body == expected


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda s: s._replace(about=s.about.replace("numba", "Numba")), "is damaged: its checksum does not match"),
        (lambda s: s._replace(link=b"other"), "is damaged: its checksum does not match"),
        (lambda s: sealed(s._replace(link=b"other")), "it belongs to another log"),
        (lambda s: sealed(s._replace(about="[]")), "list indices must be integers"),
        (lambda s: sealed(s._replace(about="{}")), "'format'"),
        (lambda s: sealed(s._replace(body=b"\x90")), "Expected `array` of at least length 8"),
    ],
)
def test_snapshots_that_cannot_be_used_are_skipped(
    changed: Callable[[Snapshot], Snapshot], reason: str, tmp_path: Path
) -> None:
    skipped, is_equal = snapshots_changed(tmp_path, changed)
    assert len(skipped) == 2
    assert reason in skipped[0]
    assert is_equal


def test_a_snapshot_of_another_slot_or_record_is_skipped(tmp_path: Path) -> None:
    it, clock = service(tmp_path, HOME, CLICKS)
    live(it, clock, rounds=10)
    it.close()
    change(tmp_path / "log.db", "DELETE FROM snapshots WHERE id / 1099511627776 = 1")
    change(tmp_path / "log.db", "UPDATE snapshots SET id = id - 1099511627776")
    store = open_log(str(tmp_path / "log.db"))
    assert store.snapshots("home")
    assert "is damaged" in replay(store, "home")[1][0]
    store.close()


def test_a_snapshot_ahead_of_the_log_says_that_the_log_was_cut(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=10)
    ahead = take_snapshot(it._manager.slots["home"].state)
    it.close()
    change(tmp_path / "log.db", "DELETE FROM log WHERE id > 1099511627776 + 10")
    reseal(tmp_path / "log.db")
    with pytest.raises(DamagedError, match=f"ends with record 10, but a snapshot is of record {ahead.number}"):
        service(tmp_path)
