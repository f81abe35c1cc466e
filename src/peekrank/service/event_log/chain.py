"""Checksums of the log. The link of a record covers the record and the link before it, down to the slot's name.

A store also keeps the head of each slot: how many records were deleted and written, with their links. So a record
that was changed, moved, lost or cut off does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from peekrank.service.event_log.records import Record

_SIZE = 16  # bytes of a link
_FIELDS = Struct("<qqqq").pack


class DamagedError(ValueError):
    """The log was changed after it was written."""


class Head(NamedTuple):
    """The extent of a slot's log: numbers and links of the last deleted record and of the last one."""

    deleted: int  # 0: none
    anchor: bytes
    last: int
    link: bytes


def origin(slot: str) -> bytes:
    """Return the link before the first record of a slot."""
    return blake2b(slot.encode(), digest_size=_SIZE, person=b"peekrank slot").digest()


def empty_head(slot: str) -> Head:
    """Return the head of a slot without records."""
    return Head(0, origin(slot), 0, origin(slot))


def link(before: bytes, number: int, time: int, kind: int, event: str | None, body: bytes) -> bytes:
    """Return the link of a record.

    >>> one = link(origin("home"), 1, 0, 4, "visit-1", b"body")
    >>> one == link(origin("home"), 2, 0, 4, "visit-1", b"body")
    False
    """
    name = b"" if event is None else event.encode("utf-8", "surrogateescape")
    fields = _FIELDS(number, time, kind, -1 if event is None else len(name))
    return blake2b(b"".join((before, fields, name, body)), digest_size=_SIZE).digest()


def seal(slot: str, head: Head) -> bytes:
    """Return the checksum of a head."""
    parts = (_FIELDS(head.deleted, head.last, len(head.anchor), len(head.link)), head.anchor, head.link)
    return blake2b(b"".join((*parts, slot.encode("utf-8", "surrogateescape"))), digest_size=_SIZE).digest()


def check_record(record: Record, before: bytes) -> None:
    """Raise DamagedError unless a record has the checksum that follows from the link before it."""
    _, number, time, kind, event, body, own = record
    try:
        intact = own == link(before, number, time, kind, event, body)
    except Exception:  # a damaged file can return values of any type
        intact = False
    if not intact:
        raise DamagedError(f"record {number} of slot {record.slot!r} is damaged: its checksum does not match")


def check_next(record: Record, number: int, time: int, before: bytes) -> None:
    """Raise DamagedError unless a record follows the one with this number, time and link."""
    if record.number != number + 1:
        raise DamagedError(
            f"the log of slot {record.slot!r} has a gap: record {record.number} follows record {number}"
        )
    check_record(record, before)
    if record.time < time:
        raise DamagedError(f"record {number + 1} of slot {record.slot!r} is dated before record {number}")


def checked(records: Iterable[Record], number: int, before: bytes) -> Iterator[Record]:
    """Yield the records after a number and its link. Raises DamagedError at the first that does not fit."""
    time = 0
    for record in records:
        check_next(record, number, time, before)
        yield record
        number, time, before = record.number, record.time, record.link


def check_head(slot: str, head: Head, own: bytes) -> None:
    """Raise DamagedError unless a head has the seal that is stored with it."""
    try:
        intact = own == seal(slot, head)
    except Exception:
        intact = False
    if not intact:
        raise DamagedError(f"the head of slot {slot!r} is damaged: its checksum does not match")


def check_extent(slot: str, head: Head, first: int, last: int) -> None:
    """Raise DamagedError unless the first and the last record are those that the head names."""
    if last < head.last:
        raise DamagedError(
            f"the log of slot {slot!r} was cut: it ends with record {last}, but record {head.last} was written"
        )
    if last > head.last:
        raise DamagedError(
            f"the log of slot {slot!r} has record {last}, but its head ends with record {head.last}"
        )
    if head.last > head.deleted and first != head.deleted + 1:
        raise DamagedError(
            f"the log of slot {slot!r} was cut: it starts with record {first}, not with {head.deleted + 1}"
        )
