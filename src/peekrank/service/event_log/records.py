"""What is written: one kind of body for each kind of record, as msgpack arrays.

A body is what happened, and what came of it. When a log is folded again, what happened is done again, and what
came of it is compared. A new field is added at the end, with a default: then a newer version reads what an older
one wrote. Anything else is another `FORMAT`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from peekrank.service.config import SlotConfig
from peekrank.types import Floats, Ints

FORMAT = 1  # of bodies and snapshots


class RecordType(IntEnum):
    """Kinds of records."""

    RANK = 1
    SHOWN = 2
    FEEDBACK = 3
    CLOSE = 4
    ITEM = 5
    CONFIG = 6


class Record(NamedTuple):
    """A record as a store keeps it."""

    slot: str
    number: int  # from 1 on, without gaps, for each slot
    time: int  # microseconds since 1970; never less than that of the record before
    kind: int
    event: str | None  # the event it belongs to
    body: bytes


class Ranked(Struct, array_like=True):
    """A list was ranked.

    Items are numbers where the slot knows them (uint32; empty: all that are there), else names. Rankings are such
    numbers, or places in the list of names.
    """

    digest: bytes  # of the request; empty if the service named the event
    deferred: bool
    k: int
    names: list[str] = []  # of a list that brings its own items
    added: list[str] = []  # items that were new in this call
    items: bytes = b""
    features: bytes = b""  # float32, rows of items or of the list
    context: bytes = b""
    ranking: bytes = b""  # uint32; empty before it was ranked
    token: bytes = b""
    chances: bytes = b""  # of the items in ascending order, or in the order of the list; empty: not known
    baseline: bytes = b""  # the caller's own order, which was shown

    @property
    def explored(self) -> bool:
        """Whether the list was shown to learn something."""
        return bool(np.frombuffer(self.token, count=1)[0] > 0)


class Shown(Struct, array_like=True):
    """A deferred list was activated."""


class Feedback(Struct, array_like=True):
    """An answer came."""

    answer: bytes  # `events.pack_grades`
    late: bool = False
    shown: bytes = b""  # the whole list as the app showed it, as a ranking; empty: as it was ranked, or not told


class Close(Struct, array_like=True):
    """The waiting time was over."""


class Items(Struct, array_like=True):
    """Items came, got new descriptions, or went."""

    put: list[str] = []
    features: bytes = b""  # float32, a row for each that came
    retired: list[str] = []


class Settings(Struct, array_like=True):
    """The configuration of a slot from here on, and the key of its randomness."""

    config: SlotConfig
    key: int


Body = Ranked | Shown | Feedback | Close | Items | Settings
RECORD_TYPES: dict[int, type[Any]] = {
    RecordType.RANK: Ranked,
    RecordType.SHOWN: Shown,
    RecordType.FEEDBACK: Feedback,
    RecordType.CLOSE: Close,
    RecordType.ITEM: Items,
    RecordType.CONFIG: Settings,
}
_TYPE_OF = {body: kind for kind, body in RECORD_TYPES.items()}
_DECODERS = {kind: msgspec.msgpack.Decoder(body) for kind, body in RECORD_TYPES.items()}
encode = msgspec.msgpack.Encoder().encode


def record_type(body: Body) -> int:
    """The kind of record that has such a body."""
    return _TYPE_OF[type(body)]


def decode(record: Record) -> Body:
    """The body of a record; a ValueError if it cannot be read.

    >>> decode(Record("home", 1, 0, RecordType.CLOSE, "e1", encode(Close())))
    Close()
    """
    try:
        body: Body = _DECODERS[record.kind].decode(record.body)
    except (KeyError, msgspec.MsgspecError) as error:
        raise ValueError(f"record {record.number} of slot {record.slot!r} cannot be read: {error}") from None
    return body


def numbers(values: Ints) -> bytes:
    """Numbers of items, or places, as they are kept."""
    return values.astype("<u4").tobytes()


def read_numbers(kept: bytes) -> Ints:
    """Numbers of items, or places."""
    return np.frombuffer(kept, dtype="<u4").astype(np.int64)


def read_floats(kept: bytes) -> Floats:
    """Numbers of a token, or chances."""
    return np.frombuffer(kept, dtype="<f8").astype(np.float64)
