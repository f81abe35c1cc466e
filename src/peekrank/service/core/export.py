"""What a slot's log has to tell to `peekrank.evidence`: decisions with chances and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank.evidence.lines import reason_for
from peekrank.evidence.log import Log, log_of
from peekrank.service.core.clock import SECOND
from peekrank.service.core.events import State, aggregate
from peekrank.service.core.slot_state import Event, SlotState, event_k
from peekrank.service.core.snapshots import initial_state
from peekrank.service.event_log.records import Feedback, Settings, decode, read_floats, read_numbers
from peekrank.service.event_log.store import Store
from peekrank.spec import text_of
from peekrank.types import Floats


class _Decided(NamedTuple):
    """A decision with what became of it, as the log to evaluate has it; `number` orders decisions."""

    number: int
    record: dict[str, Any]


def export_log(store: Store, slot: str) -> Log:
    """The log of a slot in the form that is evaluated, by folding it: decisions in order, with their answers.

    Decisions that were never shown are left out. A decision whose event is open has no answers yet.
    """
    state = initial_state(store, slot)
    decided = sorted(_decided(store, state), key=lambda one: one.number)
    if not decided:
        raise ValueError(f"the log of slot {slot!r} has no decision")
    return log_of((one.record for one in decided), lowest=0.0, highest=float(state.config.max_grade))


def _decided(store: Store, state: SlotState) -> Iterator[_Decided]:
    """Decisions, each when its event is closed."""
    answered: dict[str, int] = {}  # times of the last answers to open events
    for record in store.read(state.slot, state.number):
        body = decode(record)
        shown = _shown(state, answered) if isinstance(body, Settings) else {}  # another learner closes them all
        event = state.open.get(record.event or "")
        seen = event is not None and event.at is State.SHOWN
        if event is not None and isinstance(body, Feedback):
            answered[event.id], seen = record.time, True
        state.apply(record.number, record.time, record.event, body)
        yield from [row for name, row in shown.items() if name not in state.open]
        if event is not None and event.at.closed:
            if seen:
                yield _row(state, event, answered)
            answered.pop(event.id, None)
    yield from _shown(state, answered).values()


def _shown(state: SlotState, answered: dict[str, int]) -> dict[str, _Decided]:
    """Events that wait for answers."""
    return {event.id: _row(state, event, answered) for event in state.open.values() if event.at is State.SHOWN}


def _row(state: SlotState, event: Event, answered: dict[str, int]) -> _Decided:
    body = event.body
    ranking = read_numbers(body.ranking)
    rows = np.arange(len(ranking)) if body.names else np.sort(ranking)
    names = body.names or state.items.names(rows.tolist())
    place = np.empty(len(rows), np.int64)
    place[np.searchsorted(rows, read_numbers(event.shown or body.ranking))] = np.arange(len(rows))
    k = event_k(event)
    grades = aggregate(event.answers, k, state.config.aggregate)
    asked = np.searchsorted(rows, ranking[:k]).tolist()
    said = {
        row: float(grade)
        for row, grade in zip(asked, grades, strict=True)
        if place[row] < k and not np.isnan(grade)
    }
    chances = read_floats(body.chances)
    reason = _reason(state, chances, place < k)
    time = answered.get(event.id, 0) / SECOND
    record = {
        "event": event.id,
        "time": event.time / SECOND,
        "learner": f"{text_of(state.agent.learner)} @ {state.since}",
        "reason": reason or None,
        "k": k,
        "candidates": list(names),
        "place": place.tolist(),
        "chance": None if reason else chances.tolist(),
        "answer": [said.get(row) for row in range(len(rows))],
        "answered": [time if row in said else None for row in range(len(rows))],
        "features": _features(state, event),
    }
    return _Decided(event.number, {name: value for name, value in record.items() if value is not None})


def _reason(state: SlotState, chances: Floats, seen: NDArray[np.bool_]) -> str:
    """Why a decision cannot be evaluated; empty if it can."""
    if not len(chances):
        return reason_for(state.agent.learner) or "the chances were not known at that moment"
    return "the app showed an item that had no chance to be seen" if (chances[seen] == 0).any() else ""


def _features(state: SlotState, event: Event) -> list[list[float]] | None:
    """What the learner saw of the candidates."""
    if not state.config.features:
        return None
    found: list[list[float]] = state.seen(event).tolist()
    return found
