"""The log in a SQLite file, in WAL mode: committed records survive a crash of the process.

``synchronous = "full"`` waits for the disk, so that they also survive a power cut. The primary key
of a record holds its slot and number in one integer, so that appends go to the end and a slot is read in order.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from peekrank.service.event_log.records import FORMAT, Record
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError, store_method

_SLOT = 2**40  # larger than any record number
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slots (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS log (
    id INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind INTEGER NOT NULL, event TEXT, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS events ON log (event) WHERE event IS NOT NULL;
CREATE TABLE IF NOT EXISTS snapshots (
    id INTEGER PRIMARY KEY, about TEXT NOT NULL, body BLOB NOT NULL, digest BLOB NOT NULL
);
INSERT OR IGNORE INTO about VALUES ('epoch', 0);
"""
_SQLITE = b"SQLite format 3\0"  # first bytes of a SQLite file
_CHUNK = 1000  # records per read


_method = store_method(sqlite3.Error)


class SQLiteStore:
    """A store in a file.

    Parameters
    ----------
    path
        The file. The owner creates it if it is missing.
    synchronous
        "full" or "normal".
    """

    shared = False

    def __init__(self, path: str | Path, synchronous: str = "full") -> None:
        self.path, self._synchronous = Path(path), synchronous
        self._epoch = self._inode = 0
        self._writer: sqlite3.Connection | None = None
        self._guard: sqlite3.Connection | None = None  # holds the owner's lock
        self._reader: sqlite3.Connection | None = None
        self._lock = RLock()
        self._ids: dict[str, int] = {}

    @property
    def epoch(self) -> int:
        """How often the log was acquired. 0 for a reader."""
        return self._epoch

    def _on_error(self, error: Exception) -> str:
        return f"{self.path.name}: {error}"

    @_method
    def acquire(self) -> None:
        """Become the owner: take a lock that ends with the process, and raise the epoch."""
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            if not self._epoch:
                _make_private(self.path)
            self._writer = self._connect(write=True)
            self._inode = self.path.stat().st_ino
            self._check_format(self._writer)
            self._writer.executescript(f"PRAGMA journal_mode = WAL; {_TABLES}")
            with _Transaction(self._writer) as writer:
                writer.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
                writer.execute("UPDATE about SET value = value + 1 WHERE name = 'epoch'")
                self._epoch = _one(writer, "SELECT value FROM about WHERE name = 'epoch'")
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        _make_private(Path(f"{self.path}.lock"))
        guard = sqlite3.connect(f"{self.path}.lock", timeout=0, isolation_level=None, check_same_thread=False)
        try:
            guard.execute("PRAGMA locking_mode = EXCLUSIVE")
            guard.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            guard.close()
            if "locked" not in str(error):
                raise
            raise NotOwnerError(
                f"{self.path} is in use by another peekrank process. Stop that process first. To run several, use "
                "a PostgreSQL store"
            ) from None
        self._guard = guard

    def _connect(self, *, write: bool) -> sqlite3.Connection:
        self._check_kind()
        mode = "ro" if not write else "rw" if self._epoch else "rwc"  # do not recreate a log that was deleted
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=5,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous.upper()}")
        connection.execute("PRAGMA cache_size = -65536")
        return connection

    def _check_kind(self) -> None:
        """Raise StoreError if the file is not a SQLite database."""
        if self.path.is_file():
            with self.path.open("rb") as file:
                if file.read(len(_SQLITE)) not in (b"", _SQLITE):
                    raise StoreError(
                        f"{self.path} is not the log of a service. The log is the SQLite file at store.path in "
                        "the service's configuration, by default peekrank.db"
                    )

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Raise StoreError if a newer version wrote the file, or if it is not a log."""
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not {"about", "log"} <= tables:
            raise StoreError(f"{self.path} is a database, but not the log of a service")
        if not tables:
            return
        version = _one(connection, "SELECT value FROM about WHERE name = 'format'") or FORMAT
        if version > FORMAT:
            raise StoreError(
                f"{self.path} has format {version}, and this version of peekrank reads up to {FORMAT}. Install a "
                "newer version"
            )

    def _reading(self) -> sqlite3.Connection:
        if self._writer is not None:
            return self._writer
        if self._reader is None:
            if not self.path.is_file():
                raise StoreError(f"{self.path}: no such file")
            self._reader = self._connect(write=False)
            self._check_format(self._reader)
        return self._reader

    @_method
    def append(self, records: Sequence[Record]) -> None:
        """Store records in one transaction, if this process still owns the log."""
        if self._writer is None:
            raise NotOwnerError(f"{self.path} is open for reading only")
        self._check_file()
        rows = [(self._offset(r.slot) + r.number, r.time, r.kind, r.event, r.body) for r in records]
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            writer.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)

    def _check_file(self) -> None:
        """Raise StoreError if the file was deleted or moved. SQLite would write to it anyway."""
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            raise StoreError(f"{self.path} was deleted or replaced")

    def _check_epoch(self, writer: sqlite3.Connection) -> None:
        if _one(writer, "SELECT value FROM about WHERE name = 'epoch'") != self._epoch:
            raise NotOwnerError(f"another process has taken over {self.path}")

    def _offset(self, slot: str) -> int:
        """Return the first key of a slot's records. A new slot gets its own range."""
        if slot not in self._ids:
            connection = self._reading()
            row = connection.execute("SELECT id FROM slots WHERE name = ?", (slot,)).fetchone()
            if row is None:
                if self._writer is None:
                    return -_SLOT
                row = (connection.execute("INSERT INTO slots (name) VALUES (?)", (slot,)).lastrowid,)
            self._ids[slot] = int(row[0])
        return self._ids[slot] * _SLOT

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Yield the records of a slot after a number, in chunks."""
        while rows := self._read_chunk(slot, after):
            yield from rows
            after = rows[-1].number

    @_method
    def _read_chunk(self, slot: str, after: int) -> list[Record]:
        first = self._offset(slot)
        rows = self._reading().execute(
            "SELECT id, time, kind, event, body FROM log WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
            (first + after, first + _SLOT, _CHUNK),
        )
        return [Record(slot, key - first, *rest) for key, *rest in rows]

    @_method
    def event_records(self, event: str) -> list[Record]:
        """Return all records of an event."""
        rows = self._reading().execute(
            "SELECT slots.name, log.id % ?, time, kind, event, body FROM log JOIN slots ON slots.id = log.id / ? "
            "WHERE event = ? ORDER BY log.id",
            (_SLOT, _SLOT, event),
        )
        return [Record(*row) for row in rows]

    @_method
    def slots(self) -> list[str]:
        """Return the names of all slots that have a record."""
        return [name for (name,) in self._reading().execute("SELECT name FROM slots ORDER BY id")]

    @_method
    def ends(self, slot: str) -> tuple[int, int]:
        """Return the numbers of the first and last record."""
        first = self._offset(slot)
        rows = self._reading().execute(
            "SELECT min(id), max(id) FROM log WHERE id > ? AND id < ?",
            (first, first + _SLOT),
        )
        low, high = rows.fetchone()
        return (1, 0) if low is None else (low - first, high - first)

    @_method
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot, and keep the one before."""
        if self._writer is None:
            raise NotOwnerError(f"{self.path} is open for reading only")
        first = self._offset(snapshot.slot)
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            writer.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
                (first + snapshot.number, snapshot.about, snapshot.body, snapshot.digest),
            )
            writer.execute(
                "DELETE FROM snapshots WHERE id > ?1 AND id < ?2 AND id NOT IN "
                "(SELECT id FROM snapshots WHERE id > ?1 AND id < ?2 ORDER BY id DESC LIMIT 2)",
                (first, first + _SLOT),
            )

    @_method
    def snapshots(self, slot: str) -> list[Snapshot]:
        """Return the snapshots of a slot, newest first."""
        first = self._offset(slot)
        rows = self._reading().execute(
            "SELECT id, about, body, digest FROM snapshots WHERE id > ? AND id < ? ORDER BY id DESC",
            (first, first + _SLOT),
        )
        return [Snapshot(slot, key - first, *rest) for key, *rest in rows]

    @_method
    def delete_records(self, slot: str, up_to: int, before: int) -> int:
        """Delete old records, at most 10,000 at a time, so that calls do not wait for long."""
        if self._writer is None:
            raise NotOwnerError(f"{self.path} is open for reading only")
        first = self._offset(slot)
        last = _one(
            self._writer,
            "SELECT id FROM log WHERE id > ? AND id <= ? AND time < ? ORDER BY id DESC LIMIT 1",
            (first, first + up_to, before),
        )
        if last is None:
            return 0
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            deleted = writer.execute(
                "DELETE FROM log WHERE id IN (SELECT id FROM log WHERE id > ? AND id <= ? "
                "ORDER BY id LIMIT 10000)",
                (first, last),
            )
            return deleted.rowcount

    @_method
    def size(self) -> int:
        """Return the size of the file and of its write-ahead log."""
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    @_method
    def backup(self, target: Path) -> None:
        """Copy the log to another file while it is in use. The copy appears complete or not at all."""
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        with closing(self._connect(write=False)) as source:
            self._check_format(source)
            try:
                _make_private(part)
                with closing(sqlite3.connect(part)) as copy:
                    source.backup(copy, pages=4096, sleep=0.001)
                part.replace(target)
            finally:
                with suppress(OSError):
                    part.unlink()

    def close(self) -> None:
        """Close the file, and release the lock."""
        with self._lock:
            for connection in (self._reader, self._writer, self._guard):
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()
            self._reader = self._writer = self._guard = None
            self._ids = {}


def _make_private(path: Path) -> None:
    """Create a file that only its owner can read, whatever the umask. SQLite gives its other files the same mode.

    The group of an existing file keeps its rights, and all others lose theirs.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        mode = path.stat().st_mode
        if mode & 0o007:
            with suppress(PermissionError):  # the file of another user, who decides
                path.chmod(mode & 0o770)


def _one(connection: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> Any:
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


class _Transaction:
    """A transaction. It uses ``BEGIN IMMEDIATE``, because a plain BEGIN ignores the busy timeout."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            try:
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
