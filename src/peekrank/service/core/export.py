"""Export of a slot's log for off-policy evaluation: decisions with propensities and feedback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank.evaluation.jsonl import why_no_propensities
from peekrank.evaluation.log import ARMS, Log, log_from_records
from peekrank.service.core.clock import SECOND
from peekrank.service.core.compared import CLICKS
from peekrank.service.core.events import State
from peekrank.service.core.open_events import Event
from peekrank.service.core.slot_state import SlotState, event_k
from peekrank.service.core.snapshots import apply, checked_records, initial_state
from peekrank.service.event_log.records import Feedback, Settings, decode, read_floats, read_numbers
from peekrank.service.event_log.store import Store
from peekrank.spec import format_spec
from peekrank.types import Floats


class _Decision(NamedTuple):
    """A row of the exported log, with the number that orders it."""

    number: int
    first: int  # number of the visitor's first list, which it repeats; 0 if it repeats none
    record: dict[str, Any]


def export_log(store: Store, slot: str) -> Log:
    """Replay the log of a slot, and return its decisions in order, with their feedback.

    Decisions that were never shown are left out. A decision whose event is still open has no feedback yet. Raises
    ValueError if the log has no decision.
    """
    state = initial_state(store, slot)
    decisions = sorted(_decisions(store, state), key=lambda one: one.number)
    if not decisions:
        raise ValueError(f"the log of slot {slot!r} has no decision")
    events = {one.number: one.record["event"] for one in decisions}
    for one in decisions:
        if one.first:
            one.record["cluster"] = events.get(one.first, f"record {one.first}")
    low, high = state.config.grade_range
    return log_from_records((one.record for one in decisions), min_feedback=low, max_feedback=high)


def _decisions(store: Store, state: SlotState) -> Iterator[_Decision]:
    """Yield each decision when its event closes."""
    times: dict[str, int] = {}  # of the last feedback on open events
    for record in checked_records(store, state):
        body = decode(record)
        waiting = _shown(state, times) if isinstance(body, Settings) else {}  # a new learner closes all events
        event = state.open.get(record.event or "")
        was_shown = event is not None and event.status is State.SHOWN
        if event is not None and isinstance(body, Feedback):
            times[event.id], was_shown = record.time, True
        apply(state, record)
        yield from [row for name, row in waiting.items() if name not in state.open]
        if event is not None and event.status.closed:
            if was_shown:
                yield _row(state, event, times)
            times.pop(event.id, None)
    yield from _shown(state, times).values()


def _shown(state: SlotState, times: dict[str, int]) -> dict[str, _Decision]:
    """Export the events that wait for feedback."""
    shown = [event for event in state.open.values() if event.status is State.SHOWN]
    return {event.id: _row(state, state.open.whole(event), times) for event in shown}


def _row(state: SlotState, event: Event, times: dict[str, int]) -> _Decision:
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
            "arm": ARMS[body.held],
            "share": body.share,
            "own": own[listed].tolist(),
            "expected": read_floats(body.expected)[listed].tolist(),
        }
    return _Decision(
        event.number, body.first, {name: value for name, value in record.items() if value is not None}
    )


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
