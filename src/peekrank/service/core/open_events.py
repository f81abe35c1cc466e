"""Events that wait for feedback, of which only the newest have their record in memory.

An event may wait for days, and its record has several numbers for each item of the list. After `AWAKE` further
rankings it *rests*: the log alone has its record, and `OpenEvents` reads it when feedback comes or time is up.
Which events rest depends on the log only, so that snapshots can be compared.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from msgspec import Struct, structs

from peekrank.service.core.events import State
from peekrank.service.event_log.chain import DamagedError
from peekrank.service.event_log.records import Ranked, Record, decode

AWAKE = 10_000  # rankings after which an event rests; more than a batch of commands, which are not in the log yet


class Event(Struct, array_like=True):
    """A list for a visitor, with its feedback so far."""

    id: str
    number: int  # of its first record
    time: int
    state: str
    body: Ranked
    round: int = 0  # of the agent
    features: bytes = b""  # float32: features of registered items at the time of the ranking
    feedback: list[bytes] = []  # `events.pack_grades`, in time
    late_feedback: list[bytes] = []
    learned: bool = False
    shown: bytes = b""  # the list as the app showed it; empty if it did not report another one
    trace: bytes = b""  # of its record, while the event rests

    @property
    def status(self) -> State:
        """The state as a `State`."""
        return State(self.state)

    @property
    def rests(self) -> bool:
        """Whether the log alone has the record."""
        return not self.body.ranking


_NOTHING = Ranked(b"", deferred=False, k=0)
_NONE: list[bytes] = []  # shared: code must not change the lists of an event in place


def rest(event: Event) -> None:
    """Take the record of an event out of memory, except for its trace, by which it can be found."""
    event.trace = event.trace or event.body.trace
    event.body = _NOTHING
    event.feedback, event.late_feedback = event.feedback or _NONE, event.late_feedback or _NONE


class OpenEvents(OrderedDict[str, Event]):
    """The open events of a slot by id, in the order of their rankings, hence of their deadlines.

    Parameters
    ----------
    slot
        Name of the slot.
    events
        Initial events.
    """

    def __init__(self, slot: str, events: Iterable[Event] = ()) -> None:
        super().__init__((event.id, event) for event in events)
        self._slot = slot
        self.records: Callable[[str], Sequence[Record]] = lambda _: ()  # of an event, in the log
        self.damaged: set[str] = set()  # ids of events that cannot be closed
        self._awake: deque[tuple[int, str]] = deque()  # round and id of the newest events, in order
        for event in self.values():
            if event.rests:
                rest(event)
            else:
                self._awake.append((event.round, event.id))

    def begin(self, event: Event) -> None:
        """Add an event, and release the record of the one that is no longer among the newest."""
        self[event.id] = event
        self._awake.append((event.round, event.id))
        while self._awake[0][0] <= event.round - AWAKE:
            number, event_id = self._awake.popleft()
            old = self.get(event_id)
            if old is not None and old.round == number:
                rest(old)

    def oldest(self) -> Event | None:
        """Return the first event that can be closed."""
        return next((event for event in self.values() if event.id not in self.damaged), None)

    def clear(self) -> None:
        """Drop all events."""
        super().clear()
        self._awake.clear()

    def whole(self, event: Event) -> Event:
        """Return an event with its record. It is a copy if the event rests."""
        return structs.replace(event, body=self._read(event)) if event.rests else event

    def wake(self, event_id: str) -> Event:
        """Give an event its record, until it closes or `settle`. Raises KeyError if it is not open."""
        event = self[event_id]
        if event.rests:
            event.body = self._read(event)
        return event

    def settle(self, event: Event) -> None:
        """Let an event rest again, if it is still open and no longer among the newest."""
        if event.id in self and not (self._awake and self._awake[0][0] <= event.round):
            rest(event)

    def _read(self, event: Event) -> Ranked:
        for record in self.records(event.id):
            if (record.slot, record.number) == (self._slot, event.number):
                return cast("Ranked", decode(record))
        raise DamagedError(f"record {event.number} of slot {self._slot!r} is not in the log")
