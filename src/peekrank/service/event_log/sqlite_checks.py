"""Checks of a SQLite log: its tables, the structure of the file, and the extent of each slot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from peekrank.service.event_log.chain import DamagedError, Head, check_extent, check_head, checked
from peekrank.service.event_log.records import FORMAT, Record
from peekrank.service.event_log.store import StoreError

SLOT = 2**40  # larger than any record number
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE slots (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, deleted INTEGER NOT NULL, anchor BLOB NOT NULL,
    last INTEGER NOT NULL, link BLOB NOT NULL, seal BLOB NOT NULL
);
CREATE TABLE log (
    id INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind INTEGER NOT NULL, event TEXT, body BLOB NOT NULL,
    link BLOB NOT NULL
);
CREATE INDEX events ON log (event) WHERE event IS NOT NULL;
CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY, link BLOB NOT NULL, about TEXT NOT NULL, body BLOB NOT NULL, digest BLOB NOT NULL
);
"""
_FIRST_BYTES = b"SQLite format 3\0"
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"


@cache
def _expected_schema() -> frozenset[tuple[str, ...]]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    schema = frozenset(connection.execute(_SCHEMA))
    connection.close()
    return schema


def check_kind(path: Path) -> None:
    """Raise StoreError if a file is not a SQLite database."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        first = file.read(len(_FIRST_BYTES))
    if not first:
        raise DamagedError(f"{path} is empty. Restore a backup, or delete the file to begin a new log")
    if first != _FIRST_BYTES:
        raise StoreError(
            f"{path} is not the log of a service, or its first bytes are damaged. The log is the SQLite file at "
            "store.path in the service's configuration, by default peekrank.db"
        )


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError if another version wrote the file or it is no log, and DamagedError if it is damaged."""
    schema = set(connection.execute(_SCHEMA))
    if not {"about", "log"} & {name for _, name, _, _ in schema}:
        raise StoreError(f"{path} is a database, but not the log of a service")
    version = connection.execute("SELECT value FROM about WHERE name = 'format'").fetchone() or (None,)
    if version[0] != FORMAT:
        raise StoreError(
            f"{path} has format {version[0]}, and this version of peekrank reads format {FORMAT}. Install the "
            "version that wrote it, or restore a backup if the file is damaged"
        )
    if not _expected_schema() <= schema:
        raise DamagedError(f"the tables of {path} are not those of a log. Restore a backup")


def read_heads(connection: sqlite3.Connection) -> dict[str, tuple[int, Head]]:
    """Return the number and the head of each slot. Raises DamagedError if one is damaged or missing."""
    rows = connection.execute(
        "SELECT id, name, deleted, anchor, last, link, seal FROM slots ORDER BY id"
    ).fetchall()
    for _, name, *head, own in rows:
        check_head(name, Head(*head), own)
    count = connection.execute("SELECT value FROM about WHERE name = 'slots'").fetchone()
    if count != (len(rows),):
        raise DamagedError(
            f"the log has {len(rows)} slots, but was written with {count and count[0]}: rows are lost"
        )
    return {name: (number, Head(*head)) for number, name, *head, _ in rows}


def ends(connection: sqlite3.Connection, first: int) -> tuple[int, int]:
    """Return the numbers of the first and last record of the slot whose keys start here."""
    row = connection.execute("SELECT min(id), max(id) FROM log WHERE id > ? AND id < ?", (first, first + SLOT))
    low, high = row.fetchone()
    return (1, 0) if low is None else (low - first, high - first)


def check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Check the file's structure and indices, and the extent of each slot. Raises DamagedError with the reason."""
    try:
        ((result, *_), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
        if result != "ok":
            raise DamagedError(f"{path} is damaged ({' '.join(str(result).split())})")
        heads = read_heads(connection)
        for slot, (number, head) in heads.items():
            first, last = ends(connection, number * SLOT)
            check_extent(slot, head, first, max(last, head.deleted))
        _check_owners(connection, {number for number, _ in heads.values()})
    except (sqlite3.DatabaseError, DamagedError) as error:
        raise DamagedError(f"{error}. {_describe_intact(connection)} Restore a backup") from None


def check_copy(connection: sqlite3.Connection, path: Path) -> None:
    """Check a copy of a log as `check_file` does, and all its records. Raises DamagedError with the reason."""
    check_file(connection, path)
    try:
        for slot, (number, head) in read_heads(connection).items():
            for _ in checked(_records(connection, slot, number * SLOT), head.deleted, head.anchor):
                pass
    except (sqlite3.DatabaseError, DamagedError) as error:
        raise DamagedError(f"{path} is damaged: {error}. {_describe_intact(connection)}") from None


def _check_owners(connection: sqlite3.Connection, known: set[int]) -> None:
    """Raise DamagedError if a record belongs to no slot."""
    first = -(2**63)
    while row := connection.execute("SELECT id FROM log WHERE id >= ? ORDER BY id LIMIT 1", (first,)).fetchone():
        slot = row[0] // SLOT
        if slot not in known:
            raise DamagedError(f"record {row[0] % SLOT} belongs to slot number {slot}, which is missing")
        first = (slot + 1) * SLOT


def _describe_intact(connection: sqlite3.Connection) -> str:
    """Say how far each slot can be read."""
    parts = []
    try:
        slots = connection.execute("SELECT id, name, deleted, anchor FROM slots ORDER BY id").fetchall()
    except sqlite3.DatabaseError:
        return "No slot can be read."
    for number, name, deleted, anchor in slots:
        last = deleted
        try:
            for record in checked(_records(connection, name, number * SLOT), deleted, anchor):
                last = record.number
        except Exception as error:
            parts.append(f"slot {name!r} is intact up to record {last} ({error})")
        else:
            parts.append(f"slot {name!r} is intact up to record {last}")
    return f"{'; '.join(parts) or 'No slot can be read'}."


def _records(connection: sqlite3.Connection, slot: str, first: int) -> Iterator[Record]:
    rows = connection.execute(
        "SELECT id, time, kind, event, body, link FROM log WHERE id > ? AND id < ? ORDER BY id",
        (first, first + SLOT),
    )
    for key, *rest in rows:
        yield Record(slot, key - first, *rest)


def check_written(
    connection: sqlite3.Connection,
    heads: Mapping[str, tuple[int, Head]],
    written: Mapping[str, tuple[int, bytes]],
    path: Path,
) -> None:
    """Raise DamagedError unless the log has the records that were the last ones when the head file was written."""
    for slot, (last, own) in written.items():
        number, head = heads.get(slot, (-1, Head(0, b"", 0, b"")))
        reason = ""
        if head.last < last:
            reason = f"ends with record {head.last}, but record {last} was written"
        elif last > head.deleted:
            row = connection.execute("SELECT link FROM log WHERE id = ?", (number * SLOT + last,)).fetchone()
            if row != (own,):
                reason = f"has another record {last} than was written"
        if reason:
            raise DamagedError(
                f"the log of slot {slot!r} {reason}. If you have restored a backup, delete {path.name}-head; "
                f"otherwise {path.name} or {path.name}-wal is damaged or missing"
            )
