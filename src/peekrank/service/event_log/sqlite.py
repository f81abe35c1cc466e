"""The log in a SQLite file, in WAL mode: committed records survive a crash of the process.

``synchronous = "full"`` waits for the disk, so that they also survive a power cut. The primary key
of a record holds its slot and number in one integer, so that appends go to the end and a slot is read in order.
`sqlite_checks` and `head_file` find damage.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import structlog

from peekrank.service.event_log.chain import DamagedError, Head, check_record, empty_head, seal
from peekrank.service.event_log.head_file import HeadFile
from peekrank.service.event_log.records import FORMAT, Record
from peekrank.service.event_log.secret_file import read_secret
from peekrank.service.event_log.sqlite_checks import (
    SLOT,
    TABLES,
    check_copy,
    check_file,
    check_kind,
    check_schema,
    check_written,
    ends,
    read_heads,
)
from peekrank.service.event_log.store import NotOwnerError, Snapshot, StoreError, store_method

_CHUNK = 1000  # records per read
_DELETED = 10_000  # records per deletion, so that calls do not wait for long
_log = structlog.get_logger()


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
        self._heads: dict[str, Head] = {}  # of the owner, after its last commit
        self._head_file = HeadFile(Path(f"{self.path}-head"))

    @property
    def epoch(self) -> int:
        """How often the log was acquired. 0 for a reader."""
        return self._epoch

    def _on_error(self, error: Exception) -> str:
        return f"{self.path.name}: {error}"

    @_method
    def acquire(self) -> None:
        """Become the owner: take a lock that ends with the process, check the file, and raise the epoch."""
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            written = self._head_file.read()
            if not self.path.exists():
                self._create(known=bool(written))
            _make_private(self.path)
            self._writer = self._connect(write=True)
            self._inode = self.path.stat().st_ino
            check_schema(self._writer, self.path)
            self._writer.execute("PRAGMA journal_mode = WAL")
            check_file(self._writer, self.path)
            heads = read_heads(self._writer)
            self._check_head_file(heads, written)
            with _Transaction(self._writer) as writer:
                writer.execute("UPDATE about SET value = value + 1 WHERE name = 'epoch'")
                self._epoch = _one(writer, "SELECT value FROM about WHERE name = 'epoch'")
            self._ids = {slot: number for slot, (number, _) in heads.items()}
            self._heads = {slot: head for slot, (_, head) in heads.items()}
        except BaseException:
            self.close()
            raise

    def _create(self, *, known: bool) -> None:
        """Create a log, whole or not at all, so that an empty file is never a log."""
        if self._epoch or known:
            raise StoreError(
                f"{self.path} was deleted or replaced. Restore a backup, or delete {self.path.name}-head as well "
                "to begin a new log"
            )
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        part.unlink(missing_ok=True)
        try:
            _make_private(part)
            with closing(sqlite3.connect(part)) as connection:
                connection.executescript(TABLES)
                rows = [("format", FORMAT), ("epoch", 0), ("slots", 0)]
                connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
                connection.commit()
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    def _check_head_file(
        self, heads: dict[str, tuple[int, Head]], written: dict[str, tuple[int, bytes]] | None
    ) -> None:
        if written is None:
            if self._head_file.path.exists():
                _log.warning("head file damaged", file=str(self._head_file.path), action="it is written again")
            elif heads:
                _log.warning("head file missing", file=str(self._head_file.path), action="it is written again")
            return
        try:
            check_written(self._reading(), heads, written, self.path)
        except DamagedError as error:
            if self._synchronous == "full":
                raise
            _log.warning("records missing", reason=str(error), action="with 'normal', a power cut may lose them")

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
        check_kind(self.path)
        mode = "rw" if write else "ro"
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=5,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.text_factory = _text
        connection.execute(f"PRAGMA synchronous = {self._synchronous.upper()}")
        connection.execute("PRAGMA cache_size = -65536")
        return connection

    def _reading(self) -> sqlite3.Connection:
        if self._writer is not None:
            return self._writer
        if self._reader is None:
            if not self.path.is_file():
                raise StoreError(f"{self.path}: no such file")
            self._reader = self._connect(write=False)
            check_schema(self._reader, self.path)
        return self._reader

    @_method
    def append(self, records: Sequence[Record]) -> None:
        """Store records in one transaction, if this process still owns the log."""
        if self._writer is None:
            raise NotOwnerError(f"{self.path} is open for reading only")
        self._check_file()
        last = {record.slot: record for record in records}
        heads = {slot: self._heads.get(slot) or empty_head(slot) for slot in last}
        heads = {slot: heads[slot]._replace(last=one.number, link=one.link) for slot, one in last.items()}
        ids = {slot: self._ids.get(slot, 0) for slot in last}
        first_new = max(self._ids.values(), default=0) + 1
        new = {slot: number for number, slot in enumerate((slot for slot in ids if not ids[slot]), first_new)}
        ids |= new
        rows = [(ids[r.slot] * SLOT + r.number, r.time, r.kind, r.event, r.body, r.link) for r in records]
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            writer.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
            for slot, number in new.items():
                row = (number, slot, *heads[slot], seal(slot, heads[slot]))
                writer.execute("INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                writer.execute("UPDATE about SET value = value + 1 WHERE name = 'slots'")
            for slot, head in heads.items():
                if slot not in new:
                    self._update_head(writer, slot, head)
        self._ids |= new
        self._heads |= heads
        self._head_file.write(self._heads)

    def _update_head(self, writer: sqlite3.Connection, slot: str, head: Head) -> None:
        writer.execute(
            "UPDATE slots SET deleted = ?, anchor = ?, last = ?, link = ?, seal = ? WHERE id = ?",
            (*head, seal(slot, head), self._ids[slot]),
        )

    def _check_file(self) -> None:
        """Raise StoreError if the file was deleted or moved. SQLite would write to it anyway."""
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            raise StoreError(f"{self.path} was deleted or replaced")

    def _check_epoch(self, writer: sqlite3.Connection) -> None:
        if _one(writer, "SELECT value FROM about WHERE name = 'epoch'") != self._epoch:
            raise NotOwnerError(f"another process has taken over {self.path}")

    def _offset(self, slot: str) -> int:
        """Return the first key of a slot's records."""
        if slot not in self._ids and self._writer is None:
            self._ids = {name: number for name, (number, _) in read_heads(self._reading()).items()}
        return self._ids.get(slot, -1) * SLOT

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Yield the records of a slot after a number, in chunks."""
        while rows := self._read_chunk(slot, after):
            yield from rows
            after = rows[-1].number

    @_method
    def _read_chunk(self, slot: str, after: int) -> list[Record]:
        first = self._offset(slot)
        rows = self._reading().execute(
            "SELECT id, time, kind, event, body, link FROM log WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
            (first + after, first + SLOT, _CHUNK),
        )
        return [Record(slot, key - first, *rest) for key, *rest in rows]

    @_method
    def event_records(self, event: str) -> list[Record]:
        """Return all records of an event, in order, after checking them."""
        rows = self._reading().execute(
            "SELECT one.id, one.time, one.kind, one.event, one.body, one.link, before.link FROM log AS one "
            "LEFT JOIN log AS before ON before.id = one.id - 1 WHERE one.event = ? ORDER BY one.id",
            (event,),
        )
        records: list[Record] = []
        heads: dict[int, tuple[str, Head]] = {}
        for key, *rest, before in rows.fetchall():
            heads = heads or {number: (slot, head) for slot, (number, head) in read_heads(self._reading()).items()}
            slot, head = heads[key // SLOT]
            records.append(Record(slot, key % SLOT, *rest))
            check_record(records[-1], head.anchor if key % SLOT == head.deleted + 1 else before)
        return records

    @_method
    def check(self) -> None:
        """Check the file's structure and indices, the extent of each slot, and the head file."""
        written, reader = self._head_file.read(), self._reading()
        reader.execute("BEGIN")  # the owner may be writing
        try:
            check_file(reader, self.path)
            check_written(reader, read_heads(reader), written or {}, self.path)
        finally:
            reader.execute("ROLLBACK")

    @_method
    def heads(self) -> dict[str, Head]:
        """Return the extent of each slot's log."""
        return {slot: head for slot, (_, head) in read_heads(self._reading()).items()}

    @_method
    def link(self, slot: str, number: int) -> bytes:
        """Return the link of a record, also of the last deleted one, or nothing if there is none."""
        head = self.heads().get(slot)
        if head is None or number == head.deleted:
            return b"" if head is None else head.anchor
        found = _one(self._reading(), "SELECT link FROM log WHERE id = ?", (self._offset(slot) + number,))
        return b"" if found is None else bytes(found)

    @_method
    def ends(self, slot: str) -> tuple[int, int]:
        """Return the numbers of the first and last record."""
        return ends(self._reading(), self._offset(slot))

    @_method
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot, and keep the one before."""
        if self._writer is None:
            raise NotOwnerError(f"{self.path} is open for reading only")
        first = self._offset(snapshot.slot)
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            writer.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)",
                (first + snapshot.number, snapshot.link, snapshot.about, snapshot.body, snapshot.digest),
            )
            writer.execute(
                "DELETE FROM snapshots WHERE id > ?1 AND id < ?2 AND id NOT IN "
                "(SELECT id FROM snapshots WHERE id > ?1 AND id < ?2 ORDER BY id DESC LIMIT 2)",
                (first, first + SLOT),
            )

    @_method
    def snapshots(self, slot: str) -> list[Snapshot]:
        """Return the snapshots of a slot, newest first."""
        first = self._offset(slot)
        rows = self._reading().execute(
            "SELECT id, link, about, body, digest FROM snapshots WHERE id > ? AND id < ? ORDER BY id DESC",
            (first, first + SLOT),
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
        head = self._heads[slot]
        last = min(last, first + head.deleted + _DELETED)
        link = _one(self._writer, "SELECT link FROM log WHERE id = ?", (last,))
        head = head._replace(deleted=last - first, anchor=link)
        with _Transaction(self._writer) as writer:
            self._check_epoch(writer)
            deleted = writer.execute("DELETE FROM log WHERE id > ? AND id <= ?", (first, last))
            self._update_head(writer, slot, head)
        self._heads[slot] = head
        return deleted.rowcount

    @_method
    def secret(self) -> bytes:
        """Return the secret in a file of its own, so that a copy of the log does not have it."""
        return read_secret(Path(f"{self.path}-secret"))

    @_method
    def size(self) -> int:
        """Return the size of the file and of its write-ahead log."""
        files = [Path(f"{self.path}{suffix}") for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    @_method
    def backup(self, target: Path) -> None:
        """Copy the log to another file, which appears complete and checked, or not at all."""
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        with closing(self._connect(write=False)) as source:
            check_schema(source, self.path)
            try:
                _make_private(part)
                with closing(sqlite3.connect(part)) as copy:
                    source.backup(copy, pages=4096, sleep=0.001)
                    check_copy(copy, self.path)
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
            self._ids, self._heads = {}, {}
            self._head_file.close()


def _text(data: bytes) -> str:
    """Decode text that may be damaged."""
    return data.decode("utf-8", "surrogateescape")


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
