"""The log in a PostgreSQL database: a real server, of the tests' own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

from helpers.postgresql import Server
from helpers.services import Chain
from peekrank.service.event_log.chain import DamagedError, checked
from peekrank.service.event_log.postgresql import PostgreSQLStore
from peekrank.service.event_log.records import FORMAT
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError

pytestmark = [pytest.mark.postgresql, pytest.mark.slow]


@pytest.fixture
def record() -> Chain:
    return Chain()


@pytest.fixture
def store(url: str) -> Iterator[PostgreSQLStore]:
    made = PostgreSQLStore(url, ["home", "search"])
    made.acquire()
    yield made
    made.close()


def test_records_come_back_in_order(record: Chain, store: PostgreSQLStore) -> None:
    store.append([record(n) for n in range(1, 1500)] + [record(1, "search", "e")])
    store.append([record(1500), record(2, "search", "e")])
    assert [r.number for r in store.read("home")] == list(range(1, 1501))
    assert list(store.read("home", 1499)) == [record(1500)]
    assert store.event_records("e") == [record(1, "search", "e"), record(2, "search", "e")]
    assert store.event_records("none") == []
    assert ([*store.heads()], store.ends("home"), store.ends("none")) == (["home", "search"], (1, 1500), (1, 0))
    assert store.size() > 0


def test_all_or_nothing(record: Chain, store: PostgreSQLStore) -> None:
    store.append([record(1)])
    with pytest.raises(StoreError, match="duplicate key"):
        store.append([record(2), record(1)])
    store.acquire()  # after an error the owner has to become it again, and reads what is there
    assert [r.number for r in store.read("home")] == [1]
    store.append([record(2)])


def test_one_owner_per_slot(record: Chain, store: PostgreSQLStore, url: str) -> None:
    second = PostgreSQLStore(url, ["home"])
    with pytest.raises(NotOwnerError, match=r"another process owns slot 'home'"):
        second.acquire()
    assert list(second.read("home")) == []  # reading is allowed
    with pytest.raises(NotOwnerError):
        second.append([record(1)])
    other = PostgreSQLStore(url, ["shop"])  # a slot of its own
    other.acquire()
    other.append([record(1, "shop")])
    other.close()
    store.close()
    second.acquire()
    assert second.epoch == 2
    second.close()


def test_an_owner_that_was_taken_over_cannot_write(record: Chain, store: PostgreSQLStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE peekrank_slots SET epoch = epoch + 1 WHERE name = 'search'")
    for write in (
        lambda: store.append([record(1)]),
        lambda: store.save_snapshot(Snapshot("home", 1, b"", "{}", b"", b"")),
        lambda: store.delete_records("home", 1, 1),
    ):
        with pytest.raises(NotOwnerError, match="taken over"):
            write()
    assert list(store.read("home")) == []


def test_the_epoch_waits_for_a_transaction_that_began_before(store: PostgreSQLStore, url: str) -> None:
    """What an old owner commits is there before the new one reads: it cannot be passed over."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SET lock_timeout = '200ms'")
        with store._writing(), pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("UPDATE peekrank_slots SET epoch = epoch + 1")
        other.execute("UPDATE peekrank_slots SET epoch = epoch + 1")


def test_a_lost_connection_gives_the_slots_up(record: Chain, store: PostgreSQLStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND usename = 'peekrank'"
        )
    with pytest.raises(StoreError):
        store.append([record(1)])
    with pytest.raises(NotOwnerError, match="lost its connection"):
        store.append([record(1)])
    second = PostgreSQLStore(url, ["home"])
    second.acquire()
    with pytest.raises(NotOwnerError, match="another process owns"):
        store.acquire()
    second.close()


_OWN = """
import sys, time
from peekrank.service.event_log.postgresql import PostgreSQLStore
store = PostgreSQLStore(sys.argv[1], ["home"])
store.acquire()
print("owned", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_ends_or_stands_still_loses_its_slots(url: str, end: signal.Signals) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWN, url], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "owned\n"
    second = PostgreSQLStore(url, ["home"])
    with pytest.raises(NotOwnerError):
        second.acquire()
    os.kill(owner.pid, end)
    for _ in range(300):
        try:
            second.acquire()
            break
        except NotOwnerError:
            time.sleep(0.1)
    assert second.epoch == 2
    second.close()
    owner.kill()
    owner.communicate()


def test_the_server_goes_and_comes_back(record: Chain, store: PostgreSQLStore, server: Server) -> None:
    store.append([record(1)])
    server.stop()
    try:
        with pytest.raises(StoreError):
            store.append([record(2)])
        with pytest.raises(StoreError, match=r"^postgresql://"):
            store.acquire()
    finally:
        server.start()
    store.acquire()
    assert [r.number for r in store.read("home")] == [1]
    store.append([record(2)])


def test_a_quiet_owner_stays_the_owner(record: Chain, store: PostgreSQLStore) -> None:
    with store._lock:
        assert store._connection is not None
        store._connection.execute("SET idle_session_timeout = '2s'")
    time.sleep(4)  # longer than that, and more than one sign of life
    store.append([record(1)])


def test_a_newer_log_is_refused(store: PostgreSQLStore, url: str) -> None:
    store.close()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE peekrank_about SET value = %s WHERE name = 'format'", (FORMAT + 1,))
    with pytest.raises(StoreError, match=f"has format {FORMAT + 1}, and this version .* format {FORMAT}"):
        store.acquire()
    reader = PostgreSQLStore(url, ["home"])
    with pytest.raises(StoreError, match="Install the version that wrote it"):
        list(reader.read("home"))
    reader.close()


def test_there_is_no_log_yet(url: str) -> None:
    reader = PostgreSQLStore(url, ["home"])
    with pytest.raises(StoreError, match="has no log yet"):
        reader.heads()
    reader.close()


def test_two_snapshots_are_kept(store: PostgreSQLStore) -> None:
    for number in (5, 9, 7, 12):
        store.save_snapshot(Snapshot("home", number, b"link", "{}", b"body", b"digest"))
    store.save_snapshot(Snapshot("search", 1, b"", "{}", b"", b""))
    assert [s.number for s in store.snapshots("home")] == [12, 9]
    assert store.snapshots("search") == [Snapshot("search", 1, b"", "{}", b"", b"")]
    assert store.snapshots("none") == []


def test_old_records_are_forgotten(record: Chain, store: PostgreSQLStore) -> None:
    store.append([record(n, time=10 * n) for n in range(1, 11)] + [record(1, "search")])
    assert store.delete_records("home", 8, before=55) == 5
    assert store.delete_records("home", 8, before=55) == 0
    assert store.delete_records("home", 7, before=1000) == 2
    assert (store.ends("home"), store.ends("search")) == ((8, 10), (1, 1))


def test_no_password_is_reported() -> None:
    store = PostgreSQLStore("postgresql://me:secret@127.0.0.1:1/shop", ["home"])
    with pytest.raises(StoreError) as caught:
        store.acquire()
    assert "secret" not in str(caught.value)
    assert store.name == "postgresql://127.0.0.1:1/shop"


CHANGES = {
    "body": ("UPDATE peekrank_log SET body = '\\x00' WHERE number = 7", "record 7 of slot 'home' is damaged"),
    "gap": ("DELETE FROM peekrank_log WHERE number = 7", "has a gap: record 8 follows record 6"),
    "tail": (
        "DELETE FROM peekrank_log WHERE number > 7",
        "was cut: it ends with record 7, but record 10 was written",
    ),
    "head": ("UPDATE peekrank_slots SET last = 9 WHERE name = 'home'", "the head of slot 'home' is damaged"),
    "name": ("UPDATE peekrank_slots SET name = 'hom' WHERE name = 'home'", "the head of slot 'hom' is damaged"),
    "slot": ("DELETE FROM peekrank_slots WHERE name = 'search'", "has 1 slots, but was written with 2"),
    "all": ("TRUNCATE peekrank_log, peekrank_slots, peekrank_snapshots", "has 0 slots, but was written with 2"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_named(what: str, record: Chain, store: PostgreSQLStore, url: str) -> None:
    store.append([record(n, event=f"e{n}") for n in range(1, 11)])
    store.close()
    statement, message = CHANGES[what]
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(statement)
    if what in ("body", "gap"):
        store.acquire()
        head = store.heads()["home"]
        with pytest.raises(DamagedError, match=message):
            list(checked(store.read("home"), head.deleted, head.anchor))
    else:
        with pytest.raises(DamagedError, match=message):
            store.acquire()
    if what == "body":
        assert store.event_records("e6")
        with pytest.raises(DamagedError, match=message):
            store.event_records("e7")


def test_records_are_checked_behind_deleted_ones(record: Chain, store: PostgreSQLStore) -> None:
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
