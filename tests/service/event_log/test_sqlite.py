"""The log in a SQLite file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.services import Chain
from peekrank.service.event_log.chain import checked
from peekrank.service.event_log.records import FORMAT
from peekrank.service.event_log.sqlite import SQLiteStore
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError


@pytest.fixture
def record() -> Chain:
    return Chain()


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    made = SQLiteStore(tmp_path / "log.db", "normal")
    made.acquire()
    return made


def test_records_come_back_in_order(record: Chain, store: SQLiteStore) -> None:
    store.append([record(n) for n in range(1, 1500)] + [record(1, "search", "e")])
    store.append([record(1500), record(2, "search", "e")])
    assert [r.number for r in store.read("home")] == list(range(1, 1501))
    assert list(store.read("home", 1499)) == [record(1500)]
    assert list(store.read("search")) == [record(1, "search", "e"), record(2, "search", "e")]
    assert store.event_records("e") == [record(1, "search", "e"), record(2, "search", "e")]
    assert store.event_records("none") == []
    assert ([*store.heads()], store.ends("home"), store.ends("none")) == (["home", "search"], (1, 1500), (1, 0))
    store.close()


def test_all_or_nothing(record: Chain, store: SQLiteStore) -> None:
    store.append([record(1)])
    with pytest.raises(StoreError):
        store.append([record(2), record(1)])
    assert [r.number for r in store.read("home")] == [1]
    store.append([record(2)])
    store.close()


def test_one_owner_at_a_time(record: Chain, store: SQLiteStore) -> None:
    second = SQLiteStore(store.path)
    with pytest.raises(NotOwnerError, match="in use by another peekrank process"):
        second.acquire()
    assert list(second.read("home")) == []  # reading is allowed
    with pytest.raises(NotOwnerError):
        second.append([record(1)])
    store.close()
    second.acquire()
    assert second.epoch == 2
    second.close()


def test_another_process_is_refused(store: SQLiteStore) -> None:
    code = (
        "import sys; from peekrank.service.event_log.sqlite import SQLiteStore; SQLiteStore(sys.argv[1]).acquire()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.path)], capture_output=True, text=True, check=False
    )
    assert "in use by another peekrank process" in done.stderr
    store.close()


def test_an_owner_that_was_taken_over_cannot_write(record: Chain, store: SQLiteStore) -> None:
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE about SET value = value + 1 WHERE name = 'epoch'")
    other.close()
    with pytest.raises(NotOwnerError, match="taken over"):
        store.append([record(1)])
    with pytest.raises(NotOwnerError, match="taken over"):
        store.save_snapshot(Snapshot("home", 1, b"", "{}", b"", b""))
    store.close()


def test_a_newer_log_is_refused(store: SQLiteStore) -> None:
    store.close()
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE about SET value = ? WHERE name = 'format'", (FORMAT + 1,))
    other.close()
    with pytest.raises(
        StoreError, match=f"has format {FORMAT + 1}, and this version of peekrank reads format {FORMAT}"
    ):
        store.acquire()
    with pytest.raises(StoreError, match="Install the version that wrote it"):
        list(SQLiteStore(store.path).read("home"))


def test_files_that_are_no_log(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database, but some text that is long enough to be read as one")
    with pytest.raises(StoreError, match="is not the log of a service"):
        SQLiteStore(tmp_path / "text").acquire()
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StoreError, match="is a database, but not the log"):
        SQLiteStore(tmp_path / "other.db").acquire()
    with pytest.raises(StoreError, match="no such file"):
        SQLiteStore(tmp_path / "none.db").heads()


def test_two_snapshots_are_kept(record: Chain, store: SQLiteStore) -> None:
    store.append([record(1), record(1, "search")])
    for number in (5, 9, 7, 12):
        store.save_snapshot(Snapshot("home", number, b"link", "{}", b"body", b"digest"))
    store.save_snapshot(Snapshot("search", 1, b"", "{}", b"", b""))
    assert [s.number for s in store.snapshots("home")] == [12, 9]
    assert [s.number for s in store.snapshots("search")] == [1]
    assert store.snapshots("none") == []
    store.close()


def test_old_records_are_forgotten(record: Chain, store: SQLiteStore) -> None:
    store.append([record(n, time=10 * n) for n in range(1, 11)] + [record(1, "search")])
    assert store.delete_records("home", 8, before=55) == 5
    assert store.delete_records("home", 8, before=55) == 0
    assert store.delete_records("home", 7, before=1000) == 2
    assert store.ends("home") == (8, 10)
    assert store.ends("search") == (1, 1)
    store.close()


def test_a_backup_is_a_log(record: Chain, store: SQLiteStore, tmp_path: Path) -> None:
    store.append([record(1)])
    store.backup(tmp_path / "copy.db")
    store.append([record(2)])
    copy = SQLiteStore(tmp_path / "copy.db")
    assert [r.number for r in copy.read("home")] == [1]
    copy.acquire()
    copy.append([record(2)])
    copy.close()
    assert store.size() > 0
    assert sorted(path.name for path in tmp_path.glob(".*")) == []
    store.close()


def test_records_are_checked_behind_deleted_ones(record: Chain, store: SQLiteStore) -> None:
    store.append([record(n, event=f"e{n}") for n in range(1, 11)])
    assert store.delete_records("home", 8, before=6) == 5
    head = store.heads()["home"]
    assert (head.deleted, head.last, store.link("home", 5)) == (5, 10, head.anchor)
    assert [one.number for one in store.event_records("e6")] == [6]
    assert len(list(checked(store.read("home"), head.deleted, head.anchor))) == 5
    store.append([record(11)])
    store.close()
    store.acquire()
    assert store.heads()["home"].last == 11
    store.close()


def test_only_the_owner_can_read_the_files(record: Chain, store: SQLiteStore, tmp_path: Path) -> None:
    store.append([record(1)])
    store.backup(tmp_path / "copy.db")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    for name in ("log.db", "log.db-wal", "log.db-head", "copy.db"):
        assert modes[name] == 0o600
    store.close()
