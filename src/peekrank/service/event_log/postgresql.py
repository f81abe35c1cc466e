"""The log in a PostgreSQL database: several machines share it, and one of them at a time owns a slot.

Ownership is an advisory lock, held by the connection that writes: it ends with the process, whatever ends it, and
with the connection. A lock alone would not be enough, since a process that lost its connection may not know it
yet. So each acquisition also raises the slot's epoch, and every transaction that writes holds the row of the epoch
it was promised: it either commits before the epoch is raised, and the new owner reads what it wrote, or it fails.

An owner that stands still (a machine that is suspended, say) is dropped by the server after a few seconds: whoever
owns a slot sends a sign of life more often than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from peekrank.service.event_log.records import FORMAT, Record
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError, store_method

_LOCKS = 0x7065656B  # "peek": the first half of the keys of our advisory locks
_SILENCE = 8  # seconds after which the server drops an owner that says nothing
_BEAT = 1.5  # seconds between signs of life
_CHUNK = 1000  # records that are read at a time
_TABLES = """
CREATE TABLE IF NOT EXISTS peekrank_about (name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE IF NOT EXISTS peekrank_slots (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS peekrank_log (
    slot integer NOT NULL REFERENCES peekrank_slots, number bigint NOT NULL, time bigint NOT NULL,
    kind smallint NOT NULL, event text, body bytea NOT NULL, PRIMARY KEY (slot, number)
);
CREATE INDEX IF NOT EXISTS peekrank_events ON peekrank_log (event) WHERE event IS NOT NULL;
CREATE TABLE IF NOT EXISTS peekrank_snapshots (
    slot integer NOT NULL REFERENCES peekrank_slots, number bigint NOT NULL, about text NOT NULL,
    body bytea NOT NULL, digest bytea NOT NULL, PRIMARY KEY (slot, number)
);
"""
_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}


_method = store_method(psycopg.Error)


class PostgreSQLStore:
    """A `Store` in a database.

    Parameters
    ----------
    url
        ``postgresql://user:password@host/database``, as libpq takes it. What is printed never has the password.
    slots
        The slots that this process would own. Others may be owned by other processes.
    """

    shared = True

    def __init__(self, url: str, slots: Sequence[str]) -> None:
        self._url, self._names = url, tuple(slots)
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = RLock()
        self._epochs: dict[int, int] = {}  # of the slots that are owned, by their numbers
        self._ids: dict[str, int] = {}
        self._stopped = Event()

    @property
    def name(self) -> str:
        """Where the log is, for people: without the password."""
        parts = urlsplit(self._url)
        return f"postgresql://{parts.hostname or ''}{parts.path}"

    @property
    def epoch(self) -> int:
        """How often the slots were acquired, the most often acquired one; 0 for a store that only reads."""
        return max(self._epochs.values(), default=0)

    # Ownership

    @_method
    def acquire(self) -> None:
        """Become the owner of all slots, or of none: NotOwnerError if another process owns one of them."""
        if self._epochs:
            self._let_go()
        connection = self._connected()
        self._check_format()
        if not self._there() or any(self._id(slot) < 0 for slot in self._names):
            self._make_tables(connection)
        for slot in self._names:
            if not self._one("SELECT pg_try_advisory_lock(%s, %s)", (_LOCKS, self._id(slot))):
                connection.execute("SELECT pg_advisory_unlock_all()")
                raise NotOwnerError(f"slot {slot!r} in {self.name} is owned by another process")
        raised = connection.execute(
            "UPDATE peekrank_slots SET epoch = epoch + 1 WHERE name = ANY(%s) RETURNING id, epoch",
            (list(self._names),),
        )
        self._epochs = {int(slot): int(epoch) for slot, epoch in raised}
        for state in ("idle_session", "idle_in_transaction_session"):
            connection.execute(f"SET {state}_timeout = '{_SILENCE}s'")
        self._stopped = Event()
        Thread(target=self._live, args=(self._stopped,), name="peekrank sign of life", daemon=True).start()

    def _make_tables(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCKS,))  # by one process at a time
            connection.execute(_TABLES)
            connection.execute(
                "INSERT INTO peekrank_about VALUES ('format', %s) ON CONFLICT DO NOTHING", (FORMAT,)
            )
            for slot in self._names:
                connection.execute("INSERT INTO peekrank_slots (name) VALUES (%s) ON CONFLICT DO NOTHING", (slot,))

    def _live(self, stopped: Event) -> None:
        """Say something now and then, so that the server can tell a quiet owner from one that stands still."""
        while not stopped.wait(_BEAT):
            with suppress(StoreError):
                self._beat(stopped)

    @_method
    def _beat(self, stopped: Event) -> None:
        if self._connection is not None and not stopped.is_set():
            self._connection.execute("SELECT 1")

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that can only commit before somebody else raises the epoch of a slot of ours."""
        if self._connection is None or not self._epochs:
            raise NotOwnerError(f"{self.name}: this process does not own the log, or has lost its connection")
        with self._connection.transaction():
            found = self._connection.execute(
                "SELECT id, epoch FROM peekrank_slots WHERE id = ANY(%s) FOR SHARE", (list(self._epochs),)
            )
            if dict(found.fetchall()) != self._epochs:
                raise NotOwnerError(f"{self.name} was taken over by another process")
            yield self._connection

    # Records

    @_method
    def append(self, records: Sequence[Record]) -> None:
        """Keep records in one transaction, if this process still owns their slots."""
        slots, numbers, times, kinds, events, bodies = zip(*records, strict=True)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO peekrank_log SELECT * FROM "
                "unnest(%s::integer[], %s::bigint[], %s::bigint[], %s::smallint[], %s::text[], %s::bytea[])",
                (
                    [self._id(slot) for slot in slots],
                    [*numbers],
                    [*times],
                    [*map(int, kinds)],
                    [*events],
                    [*bodies],
                ),
            )

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Records of a slot after a number, some at a time."""
        while rows := self._some(slot, after):
            yield from rows
            after = rows[-1].number

    @_method
    def _some(self, slot: str, after: int) -> list[Record]:
        found = self._reading().execute(
            "SELECT number, time, kind, event, body FROM peekrank_log WHERE slot = %s AND number > %s "
            "ORDER BY number LIMIT %s",
            (self._id(slot), after, _CHUNK),
        )
        return [Record(slot, *row) for row in found]

    @_method
    def of_event(self, event: str) -> list[Record]:
        """All records of an event."""
        found = self._reading().execute(
            "SELECT name, number, time, kind, event, body FROM peekrank_log JOIN peekrank_slots ON id = slot "
            "WHERE event = %s ORDER BY slot, number",
            (event,),
        )
        return [Record(*row) for row in found]

    @_method
    def slots(self) -> list[str]:
        """Names of all slots that have a record."""
        return [name for (name,) in self._reading().execute("SELECT name FROM peekrank_slots ORDER BY id")]

    @_method
    def ends(self, slot: str) -> tuple[int, int]:
        """Numbers of the first and last record."""
        found = self._reading().execute(
            "SELECT min(number), max(number) FROM peekrank_log WHERE slot = %s", (self._id(slot),)
        )
        low, high = cast("tuple[int | None, int | None]", found.fetchone())
        return (1, 0) if low is None or high is None else (low, high)

    # Snapshots and retention

    @_method
    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and the one before."""
        slot = self._id(snapshot.slot)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO peekrank_snapshots VALUES (%s, %s, %s, %s, %s) ON CONFLICT (slot, number) DO UPDATE "
                "SET about = excluded.about, body = excluded.body, digest = excluded.digest",
                (slot, snapshot.number, snapshot.about, snapshot.body, snapshot.digest),
            )
            connection.execute(
                "DELETE FROM peekrank_snapshots WHERE slot = %(slot)s AND number NOT IN "
                "(SELECT number FROM peekrank_snapshots WHERE slot = %(slot)s ORDER BY number DESC LIMIT 2)",
                {"slot": slot},
            )

    @_method
    def snapshots(self, slot: str) -> list[Snapshot]:
        """Snapshots of a slot, the newest first."""
        found = self._reading().execute(
            "SELECT number, about, body, digest FROM peekrank_snapshots WHERE slot = %s ORDER BY number DESC",
            (self._id(slot),),
        )
        return [Snapshot(slot, *row) for row in found]

    @_method
    def forget(self, slot: str, up_to: int, before: int) -> int:
        """Delete old records, some at a time, so that nobody waits for long."""
        with self._writing() as connection:
            done = connection.execute(
                "DELETE FROM peekrank_log WHERE slot = %(slot)s AND number IN (SELECT number FROM peekrank_log "
                "WHERE slot = %(slot)s AND number <= (SELECT max(number) FROM peekrank_log WHERE slot = %(slot)s "
                "AND number <= %(up_to)s AND time < %(before)s) ORDER BY number LIMIT 10000)",
                {"slot": self._id(slot), "up_to": up_to, "before": before},
            )
            return done.rowcount

    @_method
    def size(self) -> int:
        """Bytes of the tables and their indices."""
        return int(
            self._one(
                "SELECT pg_total_relation_size('peekrank_log') + pg_total_relation_size('peekrank_snapshots')", ()
            )
        )

    def close(self) -> None:
        """Give up the slots, so that they are free when this returns, and close the connection."""
        with self._lock:
            if self._connection is not None and self._epochs:
                with suppress(psycopg.Error):
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
            self._let_go()

    # The connection

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True, **_OPTIONS)  # type: ignore[arg-type]
            # The server must banner as soon as we do that the other end is gone: then it frees the lock.
            for name in ("idle", "interval", "count"):
                setting = sql.Identifier(f"tcp_keepalives_{name}")
                value = sql.Literal(_OPTIONS[f"keepalives_{name}"])
                self._connection.execute(sql.SQL("SET {} = {}").format(setting, value))
            if self._one("SHOW synchronous_commit", ()) == "off":  # acknowledged means written
                self._connection.execute("SET synchronous_commit = on")
        return self._connection

    def _reading(self) -> psycopg.Connection[Any]:
        connection = self._connected()
        if not self._ids:
            self._check_format()
            if not self._there():
                raise StoreError(f"{self.name}: there is no log yet")
        return connection

    def _there(self) -> bool:
        """Whether there are tables."""
        return self._one("SELECT to_regclass('peekrank_snapshots')", ()) is not None

    def _check_format(self) -> None:
        """Refuse a log that a newer version wrote."""
        if not self._there():
            return
        found = self._one("SELECT value FROM peekrank_about WHERE name = 'format'", ()) or FORMAT
        if found > FORMAT:
            raise StoreError(
                f"{self.name} has a log in format {found}, and this peekrank reads up to format {FORMAT}: install "
                "a newer one"
            )

    def _id(self, slot: str) -> int:
        """The number of a slot; -1 if the database does not know it."""
        if slot not in self._ids:
            found = self._one("SELECT id FROM peekrank_slots WHERE name = %s", (slot,))
            if found is None:
                return -1
            self._ids[slot] = int(found)
        return self._ids[slot]

    def _one(self, query: str, values: Sequence[Any]) -> Any:
        found = self._connected().execute(query, values).fetchone()
        return None if found is None else found[0]

    def _failed(self, error: Exception) -> str:
        """Give the slots up with the connection. Further lines of what the driver says quote statements."""
        self._let_go()
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        return f"{self.name}: {first}"

    def _let_go(self) -> None:
        self._stopped.set()
        connection, self._connection = self._connection, None
        self._epochs, self._ids = {}, {}
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
