"""Records of the log: one Struct per type of record, stored as a msgpack array.

A record has a cause and its result. Replay repeats the cause and compares the result. A new field goes to the end
and has a default, so that newer versions can read older logs. Any other change needs a new `FORMAT`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from peekrank.service.config import SlotConfig
from peekrank.types import Decision, Floats, Ints

NOWHERE = 0xFFFF  # instead of the index of a retired item
FORMAT = 2  # version of records and snapshots


class RecordType(IntEnum):
    """Types of records."""

    RANK = 1
    SHOWN = 2
    FEEDBACK = 3
    CLOSE = 4
    ITEM = 5
    CONFIG = 6
    CLOCK = 7


class Record(NamedTuple):
    """A record as a store keeps it."""

    slot: str
    number: int  # from 1, without gaps, for each slot
    time: int  # microseconds since 1970, never before the previous record
    kind: int
    event: str | None  # the event that it belongs to
    body: bytes
    link: bytes = b""  # checksum (`chain.link`)


class Ranked(Struct, array_like=True):
    """A list was ranked.

    Registered items are stored as numbers (uint32; empty means all present items), others by name. A ranking
    consists of such numbers, or of indices into the names. The numbers ascend, or are in the order of the app's
    list if the learner starts from it or a leash compares with it.
    """

    digest: bytes  # of the request; empty if the service chose the event id
    deferred: bool
    k: int
    names: list[str] = []  # items of a list that brings its own
    added: list[str] = []  # items that were new in this call
    items: bytes = b""
    features: bytes = b""  # float32, one row per item
    context: bytes = b""
    ranking: bytes = b""  # uint32; empty in a request
    token: bytes = b""
    propensities: bytes = b""  # by ascending item number, or in the order of the list; empty if unknown
    baseline: bytes = b""  # the caller's order, which was shown instead unless only a share of the lists shows it
    scores: bytes = b""  # float64, the app's score of each item, in the order of `items`; NaN if it is missing
    key: str = ""  # whom or what the list is for; empty if the learner got none
    pins: list[tuple[int, int]] = []  # position (from 1) and item, of the pins that had an effect
    blocked: list[str] = []  # items that rules left out
    groups: bytes = b""  # uint32, the group of each item in the order of `items`, as a number within the list
    relaxed: int = 0  # positions at which a limit could not be met
    followed: float = 1.0  # share of the learner's order that the leash allowed
    documents: int = 0  # number of documents in the body of a rerank call; 0 for other calls
    positions: bytes = (
        b""  # uint16, index into `items` of each document, or NOWHERE; empty if it is the document's own
    )
    trace: bytes = b""  # id of the caller's trace; empty if the call had none
    share: float = 0.0  # of the lists that show the baseline, if it is a holdout
    held: bool = False  # whether this list is one of them
    expected: bytes = b""  # with a holdout, expected weight of each item, in the order of the propensities
    visitor: bytes = b""  # keyed hash; empty if the call had none or the slot is not sticky
    first: int = 0  # record of the visitor's first visit, whose order this list repeats; 0 if it repeats none
    whole: bool = False  # whether it has the same items as that one
    version: int = -1  # of the scores; -1 if the call had none
    other: bytes = b""  # uint32, the second order of a comparison, as indices into `names`, which have the first
    exposure: bytes = b""  # float64, probability that each item of a comparison is looked at, for clicks
    mixture: bool = False  # whether the share of a holdout mixes the baseline with the learner's order

    @property
    def explored(self) -> bool:
        """Whether the learner explored."""
        return bool(np.frombuffer(self.token, count=1)[0] > 0)


class Shown(Struct, array_like=True):
    """A deferred list was activated."""


class Feedback(Struct, array_like=True):
    """Feedback arrived."""

    answer: bytes  # `events.pack_grades`
    late: bool = False
    shown: bytes = b""  # the list as the app showed it; empty if it did not report another one


class Close(Struct, array_like=True):
    """The feedback window was over."""


class Items(Struct, array_like=True):
    """Items were added, changed or retired."""

    put: list[str] = []
    features: bytes = b""  # float32, one row per item in `put`
    retired: list[str] = []
    scores: bytes = b""  # float64, one for each item in `put`; NaN changes nothing
    groups: list[str] = []  # one for each item in `put`; an empty one changes nothing


class Settings(Struct, array_like=True):
    """The configuration of a slot from this record on, and the key of its random numbers."""

    config: SlotConfig
    key: int


class ClockJump(Struct, array_like=True):
    """The clock moved forward further than time is known to have passed."""

    length: int  # microseconds


Body = Ranked | Shown | Feedback | Close | Items | Settings | ClockJump
RECORD_TYPES: dict[int, type[Any]] = {
    RecordType.RANK: Ranked,
    RecordType.SHOWN: Shown,
    RecordType.FEEDBACK: Feedback,
    RecordType.CLOSE: Close,
    RecordType.ITEM: Items,
    RecordType.CONFIG: Settings,
    RecordType.CLOCK: ClockJump,
}
_TYPE_OF = {body: kind for kind, body in RECORD_TYPES.items()}
_DECODERS = {kind: msgspec.msgpack.Decoder(body) for kind, body in RECORD_TYPES.items()}
encode = msgspec.msgpack.Encoder().encode


def record_type(body: Body) -> int:
    """Return the type of a record."""
    return _TYPE_OF[type(body)]


def decode(record: Record) -> Body:
    """Decode the body of a record. Raises ValueError if it cannot be read.

    >>> decode(Record("home", 1, 0, RecordType.CLOSE, "e1", encode(Close())))
    Close()
    """
    try:
        body: Body = _DECODERS[record.kind].decode(record.body)
    except (KeyError, msgspec.MsgspecError) as error:
        raise ValueError(f"record {record.number} of slot {record.slot!r} cannot be read: {error}") from None
    return body


def ranked(request: Ranked, decision: Decision, rows: Ints | None) -> Ranked:
    """Return the record of a decision about the items of a request, or about registered ones in these rows."""
    propensities, applied = decision.propensities, decision.applied
    if propensities is not None and rows is not None:
        propensities = propensities[np.argsort(rows)]
    return msgspec.structs.replace(
        request,
        ranking=numbers(decision.ranking if rows is None else rows[decision.ranking]),
        token=decision.token.astype("<f8").tobytes(),
        propensities=b"" if propensities is None else propensities.astype("<f8").tobytes(),
        relaxed=applied.relaxed if applied else 0,
        followed=applied.followed if applied else 1.0,
    )


def numbers(values: Ints) -> bytes:
    """Encode numbers of items, or indices."""
    return values.astype("<u4").tobytes()


def read_numbers(data: bytes) -> Ints:
    """Decode numbers of items, or indices."""
    return np.frombuffer(data, dtype="<u4").astype(np.int64)


def read_floats(data: bytes) -> Floats:
    """Decode a token, propensities or scores."""
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
