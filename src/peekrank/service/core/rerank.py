"""Rerank calls: documents become items, texts become keyed hashes, and a trace leads to its events."""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from msgspec import structs

from peekrank.service.api import problems
from peekrank.service.api.messages import EventReply, FeedbackRequest, Item, RankReply, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.api.rerank_messages import TraceReply
from peekrank.service.core.citations import cited_positions
from peekrank.service.core.commands import ALL, Visible
from peekrank.service.core.rules import allowed_items
from peekrank.service.event_log.records import NOWHERE, Ranked

if TYPE_CHECKING:
    from peekrank.service.core.open_events import Event
    from peekrank.service.core.slot_manager import SlotManager
    from peekrank.service.core.slot_state import SlotState
    from peekrank.service.core.slots import Slot

_SIZE = 16  # bytes of a hash
MAX_TRACE = 100  # events of a trace that feedback reaches, the latest ones
_MOST_MARKS = 31  # combining marks in a row; Unicode's stream-safe texts have fewer
_MARKS_END = 0x20000  # no later character is such a mark
_GAP = 1e-6  # between two scores of a reply: enough for single precision


class Texts:
    """Turns texts into ids that only this service can compute: keyed BLAKE2b, after NFC and without outer space.

    Parameters
    ----------
    secret
        The service's secret.

    >>> texts = Texts(bytes(32))
    >>> texts.item("Tea is hot.") == texts.item(" Tea is hot. "), len(texts.item("Tea is hot."))
    (True, 34)
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def item(self, text: str) -> str:
        """Return the id of a document without an id."""
        return f"t:{self._hash(b'text', _normal(text)).hex()}"

    def key(self, kind: Literal["query", "given"], text: str) -> str:
        """Return the key of a list, for a query or for a key that the caller gave."""
        return f"k:{self._hash(kind.encode(), _normal(text)).hex()}"

    def visitor(self, text: str) -> bytes:
        """Return the hash of a visitor."""
        return self._hash(b"visitor", _normal(text))

    def digest(self, body: bytes, size: int = 12) -> bytes:
        """Return the hash of a whole call, to recognise its repetitions."""
        return self._hash(b"call", body, size)

    def _hash(self, kind: bytes, content: bytes, size: int = _SIZE) -> bytes:
        return blake2b(content, digest_size=size, key=self._secret, person=kind).digest()


def _normal(text: str) -> bytes:
    """Encode a text so that equal ones have equal bytes. Half of a surrogate pair is kept as it is.

    So is a text with more combining marks in a row than any language writes: normalising takes quadratic time.
    """
    text = text.strip()
    if not (text.isascii() or _many_marks().search(text)):
        text = unicodedata.normalize("NFC", text)
    return text.encode(errors="surrogatepass")


@cache
def _many_marks() -> re.Pattern[str]:
    """Return the pattern of texts that are not normalised."""
    first = (unicodedata.normalize("NFD", chr(code))[0] for code in range(_MARKS_END))
    marks = "".join(chr(code) for code, one in enumerate(first) if unicodedata.combining(one))
    return re.compile(f"[{marks}]{{{_MOST_MARKS},}}")


def falling(scores: Iterable[float], *, logit: bool) -> list[float]:
    """Return scores from 0 to 1 that fall strictly: the largest first, ties and near ties drawn apart.

    >>> falling([0.5, 1.0, 0.5], logit=False), falling([0.0, 0.0], logit=False)
    ([1.0, 0.5, 0.499999], [1e-06, 0.0])
    >>> falling([0.0], logit=True)
    [0.5]
    """
    values = np.sort(np.fromiter(scores, dtype=np.float64))[::-1]
    if logit:
        values = 0.5 * (1 + np.tanh(values / 2))
    steps = _GAP * np.arange(len(values))
    values = np.minimum.accumulate(values + steps) - steps
    floor = steps[::-1]
    out: list[float] = np.round(np.maximum(values, floor), 12).tolist()
    return out


class Rerank(NamedTuple):
    """Rank the documents of a call. Its items are distinct, in the order of their first documents.

    With a baseline, which stands for an upstream that failed, the list is that one, and explores nothing.
    """

    slot: str
    request: RankRequest
    documents: Sequence[str]  # the item of each document
    digest: bytes  # of the call; empty if the service chooses the event id
    trace: bytes = b""
    visible: Visible = ALL

    def run(self, manager: SlotManager) -> RankReply:
        """Rank the documents, or return the stored order if the event exists."""
        slot, event_id = manager.slot(self.slot), self.request.event_id
        known = {} if event_id is None else manager.find_events(event_id, self.visible)
        if event := known.get(self.slot):
            return slot.repeat_rank(event, self.request, self.digest)
        if known:
            raise problems.other_request(str(event_id))
        reply = slot.rank(_with_baseline(self.request, slot.state), self._record(slot.state))
        if self.trace:
            manager.traces.prune(manager.slots)
            manager.traces.add(self.trace, self.slot, reply.event_id)
        return reply

    def _record(self, state: SlotState) -> Ranked:
        """Begin the record with the fields that only rerank calls have."""
        _, blocked = allowed_items(state, self.request)
        listed = [
            name
            for name in dict.fromkeys(self.documents)
            if not state.items.is_retired(name) and name not in blocked
        ]
        index = {name: n for n, name in enumerate(listed)}
        positions = [index.get(name, NOWHERE) for name in self.documents]
        is_plain = positions == list(range(len(listed)))
        return Ranked(
            self.digest,
            deferred=False,
            k=state.config.k,
            documents=len(positions),
            positions=b"" if is_plain else np.array(positions, dtype="<u2").tobytes(),
            trace=self.trace,
        )


def _with_baseline(request: RankRequest, state: SlotState) -> RankRequest:
    """Add the order by score for a slot in shadow mode, which returns it."""
    if request.baseline is not None or state.config.mode != "shadow":
        return request
    scores = {item.id: item.score or 0.0 for item in request.items or () if isinstance(item, Item)}
    return structs.replace(request, baseline=sorted(scores, key=scores.__getitem__, reverse=True))


class TraceFeedback(NamedTuple):
    """Submit a grade on all lists of a trace that had a cited item among their first k."""

    trace: bytes
    request: FeedbackRequest
    visible: Visible = ALL

    def run(self, manager: SlotManager) -> TraceReply:
        """Apply the grade to each event. Raises a `Problem` if no event takes it."""
        events = manager.traces.find(self.trace, manager.slots, self.visible)
        if not events:
            raise problems.unknown_trace(self.trace.hex())
        if len(events) > 1 and any(isinstance(one, int) for one in self.request.cited or ()):
            raise problems.invalid(
                f"cited: the trace has {len(events)} lists: cite ids or texts, not positions",
                "$.cited",
            )
        positions = [cited_positions(slot.state, event, self.request) for slot, event in events]
        ignored = sum(all(one is None for one in found) for found in zip(*positions, strict=True))
        replies: list[EventReply] = []
        failures: list[Problem] = []
        for (slot, event), found in zip(events, positions, strict=True):
            if any(one is not None for one in found):
                try:
                    replies.append(slot.submit_feedback(event, self.request))
                except Problem as problem:
                    failures.append(problem)
        if failures and not replies:
            raise failures[0]
        return TraceReply(replies, ignored)


class Traces:
    """The events of each trace, while they are in memory. Not part of the state: `rebuild` finds it there."""

    def __init__(self) -> None:
        self._events: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()  # slot and id of each, in turn

    def rebuild(self, slots: Mapping[str, Slot]) -> None:
        """Read the traces of all open events."""
        self._events.clear()
        for name, slot in slots.items():
            for event in slot.state.open.values():
                if trace := event.trace or event.body.trace:
                    self.add(trace, name, event.id)

    def add(self, trace: bytes, slot: str, event: str) -> None:
        """Add an event to its trace, which forgets the earliest beyond a limit."""
        self._events[trace] = (*self._events.get(trace, ()), slot, event)[-2 * MAX_TRACE :]

    def find(self, trace: bytes, slots: Mapping[str, Slot], visible: Visible) -> list[tuple[Slot, Event]]:
        """Return the events of a trace that are open, or closed not long ago."""
        return [
            (slots[name], event)
            for name, key in _pairs(self._events.get(trace, ()))
            if (not visible or name in visible) and name in slots and (event := slots[name].state.find(key))
        ]

    def prune(self, slots: Mapping[str, Slot]) -> None:
        """Look at two traces, in turn, and drop what is no longer in memory. Called once for each new event."""
        for _ in range(min(2, len(self._events))):
            trace, events = self._events.popitem(last=False)
            if known := tuple(chain.from_iterable(one for one in _pairs(events) if _is_in_memory(slots, *one))):
                self._events[trace] = known


def _pairs(events: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield slot and id of each event. A flat tuple takes a tenth of the memory of other collections of pairs."""
    return zip(events[::2], events[1::2], strict=True)


def _is_in_memory(slots: Mapping[str, Slot], name: str, event: str) -> bool:
    slot = slots.get(name)
    return slot is not None and (event in slot.state.open or event in slot.state.recent)
