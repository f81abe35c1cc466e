"""Export of a slot's log for off-policy evaluation: decisions with propensities and feedback."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from peekrank.evaluation.jsonl import why_no_propensities
from peekrank.evaluation.log import ARMS, Log, log_from_records
from peekrank.service.core.clock import SECOND
from peekrank.service.core.compared import CLICKS
from peekrank.service.core.events import State
from peekrank.service.core.open_events import Event
from peekrank.service.core.slot_state import SlotState, event_k
from peekrank.service.core.snapshots import apply, check_end, checked_records, initial_state, usable_states
from peekrank.service.event_log.records import (
    Feedback,
    Ranked,
    Record,
    Settings,
    decode,
    read_floats,
    read_numbers,
)
from peekrank.service.event_log.store import Store
from peekrank.spec import format_spec
from peekrank.types import Floats

_VISITS = 1000  # first visits that are remembered, besides those of current visitors


class Row(NamedTuple):
    """A decision as a log has it."""

    number: int  # of its first record
    time: int  # in microseconds
    grades: tuple[float, float]  # smallest and largest
    record: dict[str, Any]


_pack = msgspec.msgpack.Encoder().encode
_unpacked = msgspec.msgpack.Decoder(Row).decode


def export_log(store: Store, slot: str) -> Log:
    """Replay the log of a slot, and return its decisions in order, with their feedback.

    Decisions that were never shown are left out. A decision whose event is still open has no feedback yet. Raises
    ValueError if the log has no decision.
    """
    export = Export(store, slot)
    rows = [*export.final(), *export.waiting()]
    if not rows:
        raise ValueError(f"the log of slot {slot!r} has no decision")
    low, high = export.state.config.grade_range
    return log_from_records((row.record for row in rows), min_feedback=low, max_feedback=high)


class Export:
    """A pass through the log of a slot. It may be read while the service writes.

    A closed decision waits until those before it are closed as well, and takes about a hundred bytes per item.

    Parameters
    ----------
    store
        The log.
    slot
        Name of the slot.
    after
        Leave out the decisions up to this record.
    """

    def __init__(self, store: Store, slot: str, after: int = 0) -> None:
        self._store, self._after, self.head = store, after, store.heads()[slot]
        self.state = _state_before(store, slot, after)
        self.first = self.state.number  # decisions up to this record are missing, unless they wait
        self._times: dict[str, int] = {}  # of the last feedback on open events
        self._closed: list[tuple[int, bytes]] = []  # a heap
        self._visits: dict[int, str] = {}  # first record and event of visitors

    def final(self) -> Iterator[Row]:
        """Yield the decisions whose feedback is final, in order, up to the first one that is not."""
        state = self.state
        for record in checked_records(self._store, state):
            self._apply(record)
            first = next(iter(state.open.values()), None)
            while self._closed and (first is None or self._closed[0][0] < first.number):
                yield _unpacked(heappop(self._closed)[1])
        check_end(state, self.head)

    def waiting(self) -> Iterator[Row]:
        """Yield the decisions from the first one on that waits for feedback, in order, with what there is."""
        for row in self._shown().values():
            self._close(row)
        while self._closed:
            yield _unpacked(heappop(self._closed)[1])

    @property
    def n_waiting(self) -> int:
        """Number of decisions that wait for feedback, their own or that of an earlier one."""
        return len(self._closed) + len(self.state.open)

    def _apply(self, record: Record) -> None:
        """Apply a record, and keep the decisions that it closes."""
        state, body = self.state, decode(record)
        if isinstance(body, Ranked) and body.visitor and not body.first:
            self._visits[record.number] = str(record.event)
            if len(self._visits) > 2 * len(state.stays) + _VISITS:
                current = {stay.first for stay in state.stays.values()}
                current.update(event.body.first for event in state.open.values())
                self._visits = {number: name for number, name in self._visits.items() if number in current}
        waiting = self._shown() if isinstance(body, Settings) else {}  # a new learner closes all events
        event = state.open.get(record.event or "")
        was_shown = event is not None and event.status is State.SHOWN
        if event is not None and isinstance(body, Feedback):
            self._times[event.id], was_shown = record.time, True
        apply(state, record)
        for name, row in waiting.items():
            if name not in state.open:
                self._close(row)
        if event is not None and event.status.closed:
            if was_shown:
                self._close(self._row(event))
            self._times.pop(event.id, None)

    def _close(self, row: Row) -> None:
        if row.number > self._after:
            heappush(self._closed, (row.number, _pack(row)))

    def _shown(self) -> dict[str, Row]:
        """Export the events that wait for feedback."""
        shown = [event for event in self.state.open.values() if event.status is State.SHOWN]
        return {event.id: self._row(self.state.open.whole(event)) for event in shown}

    def _row(self, event: Event) -> Row:
        record = _record(self.state, event, self._times)
        if event.body.first:
            record["cluster"] = self._first_event(event.body.first)
        return Row(event.number, event.time, self.state.config.grade_range, record)

    def _first_event(self, number: int) -> str:
        """Return the event of a visitor's first list."""
        if number not in self._visits:
            found = next(self._store.read(self.state.slot, number - 1), None)
            named = found is not None and found.number == number and found.event
            self._visits[number] = named or f"record {number}"
        return self._visits[number]


def _state_before(store: Store, slot: str, after: int) -> SlotState:
    """Return the newest state that no decision after a record is older than, or else the oldest."""
    if after:
        for state in usable_states(store, slot):
            if not isinstance(state, str) and state.number <= after:
                return state
    return initial_state(store, slot)


def _record(state: SlotState, event: Event, times: dict[str, int]) -> dict[str, Any]:
    body = event.body
    ranking = read_numbers(body.ranking)
    rows = np.arange(len(ranking)) if body.names else np.sort(ranking)
    names = body.names or state.items.names(rows.tolist())
    rank = np.empty(len(rows), np.int64)
    rank[np.searchsorted(rows, read_numbers(event.shown or body.ranking))] = np.arange(len(rows))
    k = event_k(event)
    counts = bool(body.share or body.first or state.comparison) and event.status.closed  # as in the service itself
    values = state.grades(event, state.config.missing_grade if counts else np.nan)
    top_k = np.searchsorted(rows, ranking[:k]).tolist()
    grades = {
        row: float(grade)
        for row, grade in zip(top_k, values, strict=True)
        if rank[row] < k and not np.isnan(grade)
    }
    propensities = read_floats(body.propensities)
    reason = _reason(state, propensities, rank < k)
    time = times[event.id] / SECOND if event.id in times else None
    listed = np.searchsorted(rows, read_numbers(body.items)).tolist() if body.items else range(len(rows))
    scores = [None if np.isnan(score) else score for score in read_floats(body.scores).tolist()]
    record = {
        "event": event.id,
        "time": event.time / SECOND,
        "learner": f"{_name(state)} @ {state.since}",
        "reason": reason or None,
        "k": k,
        "candidates": [names[row] for row in listed],
        "position": rank[listed].tolist(),
        "propensity": None if reason else propensities[listed].tolist(),
        "feedback": [grades.get(row) for row in listed],
        "feedback_time": [time if row in grades else None for row in listed],
        "score": scores or None,
        "features": _features(state, event),
    }
    if body.share:
        own = np.empty(len(rows), np.int64)
        own[np.searchsorted(rows, read_numbers(body.baseline))] = np.arange(len(rows))
        record |= {
            "arm": ARMS[2 * body.mixture + body.held],
            "share": body.share,
            "own": own[listed].tolist(),
            "expected": read_floats(body.expected)[listed].tolist(),
        }
    return {name: value for name, value in record.items() if value is not None}


def _name(state: SlotState) -> str:
    return format_spec(state.agent.learner) if state.comparison is None else state.comparison.settings.name


def _reason(state: SlotState, propensities: Floats, is_shown: NDArray[np.bool_]) -> str:
    """Say why a decision cannot be evaluated, or return an empty text."""
    if not len(propensities):
        return why_no_propensities(state.agent.learner) or "the propensities were not known"
    if state.comparison is not None and state.comparison.settings.examination:
        return CLICKS
    return "the app showed an item whose propensity was zero" if (propensities[is_shown] == 0).any() else ""


def _features(state: SlotState, event: Event) -> list[list[float]] | None:
    """Return the features of the candidates as the learner saw them, or minus both ranks for a comparison."""
    if state.comparison is not None:
        ranks = np.argsort(read_numbers(event.body.other))
        orders: list[list[float]] = np.column_stack([-np.arange(len(ranks)), -ranks]).astype(np.float64).tolist()
        return orders
    if not state.config.features:
        return None
    features: list[list[float]] = state.features(event).tolist()
    return features
