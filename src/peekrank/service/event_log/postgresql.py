"""The log in a PostgreSQL database, which several machines share. One process at a time owns a slot.

Ownership is an advisory lock of the connection that writes. It ends with the connection, and so with the process.
The lock alone does not suffice, because a process may not yet know that it lost its connection. Therefore each
acquisition also raises the slot's epoch, and every transaction locks the row with its epoch. It either commits
before the epoch is raised, so that the new owner reads its records, or it fails.

The server drops an owner that does not respond for a few seconds, for example because its machine is suspended. An
owner sends a heartbeat more often than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_bytes
from threading import Event, RLock, Thread
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from peekrank.service.config.address import check_address, public_address
from peekrank.service.event_log.chain import (
    DamagedError,
    Head,
    check_extent,
    check_head,
    check_record,
    empty_head,
    seal,
)
from peekrank.service.event_log.records import FORMAT, Record
from peekrank.service.event_log.secret_file import SIZE
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError, store_method

_LOCKS = 0x7065656B  # "peek": first half of the keys of the advisory locks
_TIMEOUT = 8  # seconds without a heartbeat after which the server drops an owner
_HEARTBEAT = 1.5  # seconds
_CHUNK = 1000  # records per read
_DELETED = 10_000  # records per deletion, so that calls do not wait for long
_TABLES = """
CREATE TABLE IF NOT EXISTS peekrank_about (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE IF NOT EXISTS peekrank_slots (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,
    epoch bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL, anchor bytea NOT NULL, last bigint NOT NULL, link bytea NOT NULL, seal bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS peekrank_log (
    slot integer NOT NULL REFERENCES peekrank_slots, number bigint NOT NULL, time bigint NOT NULL,
    kind smallint NOT NULL, event text, body bytea NOT NULL, link bytea NOT NULL, PRIMARY KEY (slot, number)
);
CREATE INDEX IF NOT EXISTS peekrank_events ON peekrank_log (event) WHERE event IS NOT NULL;
CREATE TABLE IF NOT EXISTS peekrank_snapshots (
    slot integer NOT NULL REFERENCES peekrank_slots, number bigint NOT NULL, link bytea NOT NULL,
    about text NOT NULL, body bytea NOT NULL, digest bytea NOT NULL, PRIMARY KEY (slot, number)
);
"""
_SECRETS = "CREATE TABLE IF NOT EXISTS peekrank_secret (id integer PRIMARY KEY, value bytea NOT NULL)"
_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


_method = store_method(psycopg.Error)


class PostgreSQLStore:
    """A store in a database.

    Parameters
    ----------
    url
        ``postgresql://user:password@host/database``, as libpq reads it. Messages never contain the password.
    slots
        Slots that this process acquires. Other processes may own other slots.
    """

    shared = True

    def __init__(self, url: str, slots: Sequence[str]) -> None:
        try:
            check_address(url)
            conninfo_to_dict(url)
        except (ValueError, psycopg.Error):
            raise StoreError(
                "the address of the database cannot be read: it must be postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        self._url, self._names = url, tuple(slots)
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = RLock()
        self._epochs: dict[int, int] = {}  # of the owned slots, by their numbers
        self._ids: dict[str, int] = {}
        self._heads: dict[str, Head] = {}  # of the owned slots, after the last commit
        self._stopped = Event()

    @property
    def name(self) -> str:
        """The address of the log, without the password."""
        return public_address(self._url)

    @property
    def epoch(self) -> int:
        """The largest epoch of the owned slots. 0 for a reader."""
        return max(self._epochs.values(), default=0)

    # Ownership

    @_method
    def acquire(self) -> None:
        """Become the owner of all slots, and check them. Raises NotOwnerError if another process owns one."""
        if self._epochs:
            self._disconnect()
        connection = self._connected()
        self._check_format()
        if self._has_tables():
            self.check()
        if not self._has_tables() or any(self._id(slot) < 0 for slot in self._names):
            self._make_tables(connection)
        for slot in self._names:
            if not self._one("SELECT pg_try_advisory_lock(%s, %s)", (_LOCKS, self._id(slot))):
                connection.execute("SELECT pg_advisory_unlock_all()")
                raise NotOwnerError(f"another process owns slot {slot!r} in {self.name}")
        raised = connection.execute(
            "UPDATE peekrank_slots SET epoch = epoch + 1 WHERE name = ANY(%s) RETURNING id, epoch",
            (list(self._names),),
        )
        self._epochs = {int(slot): int(epoch) for slot, epoch in raised}
        self._heads = {slot: head for slot, head in self.heads().items() if slot in self._names}
        for state in ("idle_session", "idle_in_transaction_session"):
            connection.execute(f"SET {state}_timeout = '{_TIMEOUT}s'")
        self._stopped = Event()
        Thread(target=self._send_heartbeats, args=(self._stopped,), name="peekrank-heartbeat", daemon=True).start()

    def _make_tables(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCKS,))  # one process at a time
            connection.execute(_TABLES)
            connection.execute(
                "INSERT INTO peekrank_about VALUES ('format', %s), ('slots', 0) ON CONFLICT DO NOTHING", (FORMAT,)
            )
            for slot in self._names:
                head = empty_head(slot)
                made = connection.execute(
                    "INSERT INTO peekrank_slots (name, deleted, anchor, last, link, seal) "
                    "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (slot, *head, seal(slot, head)),
                )
                connection.execute(
                    "UPDATE peekrank_about SET value = value + %s WHERE name = 'slots'", (made.rowcount,)
                )

    def _send_heartbeats(self, stopped: Event) -> None:
        """Send heartbeats, so that the server can tell an idle owner from a suspended one."""
        while not stopped.wait(_HEARTBEAT):
            with suppress(StoreError):
                self._send_heartbeat(stopped)

    @_method
    def _send_heartbeat(self, stopped: Event) -> None:
        if self._connection is not None and not stopped.is_set():
            self._connection.execute("SELECT 1")

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction that can commit only before another process raises the epoch of an owned slot."""
        if self._connection is None or not self._epochs:
            raise NotOwnerError(f"{self.name}: this process does not own the log, or lost its connection")
        with self._connection.transaction():
            epochs = self._connection.execute(
                "SELECT id, epoch FROM peekrank_slots WHERE id = ANY(%s) FOR NO KEY UPDATE", (list(self._epochs),)
            )
            if dict(epochs.fetchall()) != self._epochs:
                raise NotOwnerError(f"another process has taken over {self.name}")
            yield self._connection

    # Records

    @_method
    def append(self, records: Sequence[Record]) -> None:
        """Store records in one transaction, if this process still owns their slots."""
        slots, numbers, times, kinds, events, bodies, links = zip(*records, strict=True)
        last = {record.slot: record for record in records}
        heads = self._heads | {
            slot: self._heads[slot]._replace(last=one.number, link=one.link)
            for slot, one in last.items()
            if slot in self._heads
        }
        with self._writing() as connection:
            connection.execute(
                "WITH heads AS (UPDATE peekrank_slots AS one "
                "SET last = new.last, link = new.link, seal = new.seal "
                "FROM unnest(%s::text[], %s::bigint[], %s::bytea[], %s::bytea[]) AS new (name, last, link, seal) "
                "WHERE one.name = new.name) INSERT INTO peekrank_log SELECT * FROM unnest(%s::integer[], "
                "%s::bigint[], %s::bigint[], %s::smallint[], %s::text[], %s::bytea[], %s::bytea[])",
                (
                    [*last],
                    [heads[slot].last for slot in last],
                    [heads[slot].link for slot in last],
                    [seal(slot, heads[slot]) for slot in last],
                    [self._id(slot) for slot in slots],
                    [*numbers],
                    [*times],
                    [*map(int, kinds)],
                    [*events],
                    [*bodies],
                    [*links],
                ),
            )
        self._heads = heads

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Yield the records of a slot after a number, in chunks."""
        while rows := self._read_chunk(slot, after):
            yield from rows
            after = rows[-1].number

    @_method
    def _read_chunk(self, slot: str, after: int) -> list[Record]:
        rows = self._reading().execute(
            "SELECT number, time, kind, event, body, link FROM peekrank_log WHERE slot = %s AND number > %s "
            "ORDER BY number LIMIT %s",
            (self._id(slot), after, _CHUNK),
        )
        return [Record(slot, *row) for row in rows]

    @_method
    def event_records(self, event: str) -> list[Record]:
        """Return all records of an event, in order, after checking them."""
        rows = self._reading().execute(
            "SELECT name, one.number, one.time, one.kind, one.event, one.body, one.link, before.link, deleted, "
            "anchor FROM peekrank_log AS one JOIN peekrank_slots ON id = one.slot "
            "LEFT JOIN peekrank_log AS before ON before.slot = one.slot AND before.number = one.number - 1 "
            "WHERE one.event = %s ORDER BY one.slot, one.number",
            (event,),
        )
        records = []
        for *record, before, deleted, anchor in rows:
            records.append(Record(*record))
            check_record(records[-1], anchor if records[-1].number == deleted + 1 else before)
        return records

    @_method
    def check(self) -> None:
        """Check the head and the extent of each slot's log. The database checks its own files."""
        self.heads()
        rows = self._reading().execute(  # one statement, because other owners may be writing
            "SELECT name, deleted, anchor, last, link, "
            "COALESCE((SELECT min(number) FROM peekrank_log WHERE slot = id), 1), "
            "COALESCE((SELECT max(number) FROM peekrank_log WHERE slot = id), 0) FROM peekrank_slots"
        )
        for name, *head, first, last in rows:
            check_extent(name, Head(*head), first, max(last, head[0]))

    @_method
    def heads(self) -> dict[str, Head]:
        """Return the extent of each slot's log."""
        rows = self._reading().execute(
            "SELECT name, deleted, anchor, last, link, seal FROM peekrank_slots ORDER BY id"
        )
        heads = {}
        for name, *head, own in rows:
            heads[name] = Head(*head)
            check_head(name, heads[name], own)
        count = self._one("SELECT value FROM peekrank_about WHERE name = 'slots'", ())
        if len(heads) != count:
            raise DamagedError(f"{self.name} has {len(heads)} slots, but was written with {count}: rows are lost")
        return heads

    @_method
    def link(self, slot: str, number: int) -> bytes:
        """Return the link of a record, also of the last deleted one, or nothing if there is none."""
        head = self.heads().get(slot)
        if head is None or number == head.deleted:
            return b"" if head is None else head.anchor
        found = self._one(
            "SELECT link FROM peekrank_log WHERE slot = %s AND number = %s", (self._id(slot), number)
        )
        return b"" if found is None else bytes(found)

    @_method
    def ends(self, slot: str) -> tuple[int, int]:
        """Return the numbers of the first and last record."""
        rows = self._reading().execute(
            "SELECT min(number), max(number) FROM peekrank_log WHERE slot = %s", (self._id(slot),)
        )
        low, high = cast("tuple[int | None, int | None]", rows.fetchone())
        return (1, 0) if low is None or high is None else (low, high)

    # Snapshots and retention

    @_method
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot, and keep the one before."""
        slot = self._id(snapshot.slot)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO peekrank_snapshots VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (slot, number) "
                "DO UPDATE SET link = excluded.link, about = excluded.about, body = excluded.body, "
                "digest = excluded.digest",
                (slot, snapshot.number, snapshot.link, snapshot.about, snapshot.body, snapshot.digest),
            )
            connection.execute(
                "DELETE FROM peekrank_snapshots WHERE slot = %(slot)s AND number NOT IN "
                "(SELECT number FROM peekrank_snapshots WHERE slot = %(slot)s ORDER BY number DESC LIMIT 2)",
                {"slot": slot},
            )

    @_method
    def snapshots(self, slot: str) -> list[Snapshot]:
        """Return the snapshots of a slot, newest first."""
        rows = self._reading().execute(
            "SELECT number, link, about, body, digest FROM peekrank_snapshots WHERE slot = %s "
            "ORDER BY number DESC",
            (self._id(slot),),
        )
        return [Snapshot(slot, *row) for row in rows]

    @_method
    def delete_records(self, slot: str, up_to: int, before: int) -> int:
        """Delete old records, at most 10,000 at a time, so that calls do not wait for long."""
        head = self._heads.get(slot, empty_head(slot))
        with self._writing() as connection:
            last = self._one(
                "SELECT max(number) FROM peekrank_log WHERE slot = %s AND number <= %s AND time < %s",
                (self._id(slot), min(up_to, head.deleted + _DELETED), before),
            )
            if last is None:
                return 0
            head = head._replace(deleted=last, anchor=self.link(slot, last))
            deleted = connection.execute(
                "DELETE FROM peekrank_log WHERE slot = %s AND number <= %s", (self._id(slot), last)
            )
            connection.execute(
                "UPDATE peekrank_slots SET deleted = %s, anchor = %s, seal = %s WHERE id = %s",
                (head.deleted, head.anchor, seal(slot, head), self._id(slot)),
            )
        self._heads[slot] = head
        return deleted.rowcount

    @_method
    def secret(self) -> bytes:
        """Return the secret in a table of its own, which all machines share."""
        connection = self._connected()
        connection.execute(_SECRETS)
        connection.execute(
            "INSERT INTO peekrank_secret VALUES (1, %s) ON CONFLICT DO NOTHING", (token_bytes(SIZE),)
        )
        return bytes(self._one("SELECT value FROM peekrank_secret", ()))

    @_method
    def size(self) -> int:
        """Return the size of the tables and their indices."""
        return int(
            self._one(
                "SELECT pg_total_relation_size('peekrank_log') + pg_total_relation_size('peekrank_snapshots')", ()
            )
        )

    def close(self) -> None:
        """Release the slots, and close the connection. Other processes can acquire the slots when this returns."""
        with self._lock:
            if self._connection is not None and self._epochs:
                with suppress(psycopg.Error):
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
            self._disconnect()

    # The connection

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True, **_OPTIONS)  # type: ignore[arg-type]
            # The server must notice a lost connection as soon as this process does, so that it releases the lock.
            for name in ("idle", "interval", "count"):
                setting = sql.Identifier(f"tcp_keepalives_{name}")
                value = sql.Literal(_OPTIONS[f"keepalives_{name}"])
                self._connection.execute(sql.SQL("SET {} = {}").format(setting, value))
            if self._one("SHOW synchronous_commit", ()) == "off":  # acknowledged calls must be durable
                self._connection.execute("SET synchronous_commit = on")
        return self._connection

    def _reading(self) -> psycopg.Connection[Any]:
        connection = self._connected()
        if not self._ids:
            self._check_format()
            if not self._has_tables():
                raise StoreError(f"{self.name} has no log yet")
        return connection

    def _has_tables(self) -> bool:
        """Check whether the tables exist."""
        return self._one("SELECT to_regclass('peekrank_snapshots')", ()) is not None

    def _check_format(self) -> None:
        """Raise StoreError if another version wrote the log."""
        if not self._has_tables():
            return
        version = self._one("SELECT value FROM peekrank_about WHERE name = 'format'", ())
        if version != FORMAT:
            raise StoreError(
                f"{self.name} has format {version}, and this version of peekrank reads format {FORMAT}. Install "
                "the version that wrote it"
            )

    def _id(self, slot: str) -> int:
        """Return the number of a slot, or -1 if the database does not have it."""
        if slot not in self._ids:
            number = self._one("SELECT id FROM peekrank_slots WHERE name = %s", (slot,))
            if number is None:
                return -1
            self._ids[slot] = int(number)
        return self._ids[slot]

    def _one(self, query: str, values: Sequence[Any]) -> Any:
        row = self._connected().execute(query, values).fetchone()
        return None if row is None else row[0]

    def _on_error(self, error: Exception) -> str:
        """Disconnect, which releases the slots, and return the first line of the message. The others quote SQL."""
        self._disconnect()
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        return f"{self.name}: {first}"

    def _disconnect(self) -> None:
        self._stopped.set()
        connection, self._connection = self._connection, None
        self._epochs, self._ids, self._heads = {}, {}, {}
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
