"""Snapshots: the state of a slot after a record, so that a start does not have to replay the whole log.

The log is authoritative, not its snapshots. A snapshot has a checksum of everything that is stored with it, and
the link of its record. If it is damaged or belongs to another log, replay starts from the one before, or from the
first record. Equal states have equal bytes, which `audit` compares.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from peekrank import __version__
from peekrank.engine import Agent
from peekrank.evaluation.comparison.comparison import Comparison
from peekrank.service.core.activity import Activity
from peekrank.service.core.agents import new_agent
from peekrank.service.core.holdout import HoldoutSnapshot, SlotHoldout
from peekrank.service.core.items import Item, Items
from peekrank.service.core.monitor import MonitorSnapshot, SlotMonitor
from peekrank.service.core.open_events import Event, OpenEvents, rest
from peekrank.service.core.slot_state import Jump, SlotState
from peekrank.service.core.stays import Stay, Stays
from peekrank.service.event_log.chain import DamagedError, Head, check_next
from peekrank.service.event_log.records import FORMAT, Record, Settings, decode
from peekrank.service.event_log.store import Snapshot, Store, StoreError


class _SavedState(Struct, array_like=True):
    """All parts of the state of a slot."""

    time: int
    since: int
    settings: Settings
    agent: bytes
    items: list[Item]
    open: list[Event]
    activity: Activity
    monitor: MonitorSnapshot
    jumps: list[Jump] = []
    keys: list[str] = []  # in the order of their numbers
    stays: list[Stay] = []
    holdout: HoldoutSnapshot | None = None


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_SavedState)


@cache
def machine() -> dict[str, Any]:
    """Describe the CPU and the versions that the last bit of a float may depend on."""
    versions = {name: version(name) for name in ("numba", "numpy")}
    return {"cpu": _cpu(), **versions, "peekrank": __version__}


def _cpu() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()}, {platform.machine()}"


def take_snapshot(state: SlotState) -> Snapshot:
    """Take a snapshot of a slot."""
    body = _ENCODER.encode(
        _SavedState(
            state.time,
            state.since,
            state.settings,  # type: ignore[arg-type]
            (state.comparison or state.agent).dump(),
            state.items.known,
            list(state.open.values()),
            state.activity,
            state.monitor.snapshot(),
            state.jumps,
            list(state.keys),
            list(state.stays.values()),
            state.holdout.snapshot(),
        )
    )
    about = json.dumps({"format": FORMAT, **machine()})
    return sealed(Snapshot(state.slot, state.number, state.link, about, body, b""))


def sealed(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with the checksum of its other fields."""
    return snapshot._replace(digest=sha256(_ENCODER.encode(snapshot[:-1])).digest())


def take_checked_snapshot(state: SlotState) -> Snapshot:
    """Take a snapshot, restore it, and compare the result. Raises ValueError if it differs."""
    snapshot = take_snapshot(state)
    if take_snapshot(restore(snapshot)) != snapshot:
        raise ValueError("the restored state differs")
    return snapshot


def differences(one: bytes, other: bytes) -> list[str]:
    """Name the parts in which two snapshots differ. A field that one of them lacks has its default."""
    first, second = _DECODER.decode(one), _DECODER.decode(other)
    for event, again in zip(first.open, second.open, strict=False):
        if event.rests or again.rests:  # older versions had all records in memory
            rest(event)
            rest(again)
    if _ENCODER.encode(first) == _ENCODER.encode(second):
        return []
    return [name for name in _SavedState.__struct_fields__ if getattr(first, name) != getattr(second, name)]


def restore(snapshot: Snapshot) -> SlotState:
    """Restore a slot from a snapshot. Raises ValueError, or any other error, if it is damaged or too new."""
    check_digest(snapshot)
    about = json.loads(snapshot.about)
    if about["format"] > FORMAT:
        raise ValueError(f"its format is {about['format']}, and this version of peekrank reads up to {FORMAT}")
    saved: _SavedState = _DECODER.decode(snapshot.body)
    state = SlotState(snapshot.slot)
    state.number, state.link, state.time = snapshot.number, snapshot.link, saved.time
    state.since, state.settings, state.activity = saved.since, saved.settings, saved.activity
    state.items, state.jumps = Items(saved.items), saved.jumps
    state.keys = {key: number for number, key in enumerate(saved.keys)}
    if saved.settings.config.compare is None:
        state.agent = Agent.load(saved.agent, saved.settings.config.learner_object)
    else:
        state.agent, state.comparison = new_agent(saved.settings.config, 0), Comparison.load(saved.agent)
    state.monitor = SlotMonitor.restore(saved.monitor, state.name_of)
    state.open = OpenEvents(snapshot.slot, saved.open)
    state.stays = Stays(saved.stays)
    state.holdout = SlotHoldout.restore(saved.holdout, saved.settings.config, state.name_of)
    return state


def check_digest(snapshot: Snapshot) -> None:
    """Raise ValueError unless a snapshot has its checksum."""
    if sealed(snapshot).digest != snapshot.digest:
        raise ValueError("the snapshot is damaged: its checksum does not match")


def last_needless(snapshot: Snapshot) -> int:
    """Return the number of the last record that replay from a snapshot does not read.

    It reads those of the events that are open: they may rest.
    """
    saved: _SavedState = _DECODER.decode(snapshot.body)
    return min((event.number - 1 for event in saved.open), default=snapshot.number)


def usable_states(store: Store, slot: str) -> Iterator[SlotState | str]:
    """Yield the states from which replay can start, newest first, and why a snapshot cannot be used.

    Raises DamagedError if a snapshot is of a later record than the log has, because the log was cut.
    """
    snapshots = store.snapshots(slot)
    head = store.heads().get(slot)
    for snapshot in snapshots:
        try:
            state = restore(snapshot)
            state.open.records = store.event_records
            if head and snapshot.number <= head.last and store.link(slot, snapshot.number) != snapshot.link:
                raise ValueError("it belongs to another log")
        except StoreError:
            raise
        except Exception as error:
            yield f"snapshot {snapshot.number} of slot {slot!r}: {str(error) or type(error).__name__}"
            continue
        if head is None or snapshot.number > head.last:
            last = head.last if head else 0
            raise DamagedError(
                f"the log of slot {slot!r} was cut: it ends with record {last}, but a snapshot is of record "
                f"{snapshot.number}. Restore a backup"
            )
        yield state
    if head is None or head.deleted == 0:
        state = SlotState(slot)
        state.open.records = store.event_records
        yield state


def initial_state(store: Store, slot: str) -> SlotState:
    """Return the state before the first record in the log: empty, or from the oldest snapshot."""
    states = [state for state in usable_states(store, slot) if not isinstance(state, str)]
    if not states:
        raise _no_start(store, slot)
    return states[-1]


def _no_start(store: Store, slot: str) -> ValueError:
    return ValueError(
        f"the log of slot {slot!r} starts with record {store.heads()[slot].deleted + 1}, and no snapshot is "
        "usable. Restore a backup"
    )


def replay(store: Store, slot: str) -> tuple[SlotState, list[str]]:
    """Rebuild a slot from the newest usable snapshot. Returns it with the reasons why others were skipped."""
    skipped: list[str] = []
    for state in usable_states(store, slot):
        if not isinstance(state, str):
            return catch_up(store, state), skipped
        skipped.append(state)
    raise _no_start(store, slot)


def catch_up(store: Store, state: SlotState, until: int | None = None) -> SlotState:
    """Apply the records that follow the state, up to a number or to the end of the log."""
    head = store.heads().get(state.slot)
    for record in checked_records(store, state):
        if until is not None and record.number > until:
            return state
        apply(state, record)
    if until is None and head is not None:
        check_end(state, head)
    return state


def check_end(state: SlotState, head: Head) -> None:
    """Raise DamagedError if a state does not have all records up to a head."""
    if state.number < head.last or (state.number == head.last and state.link != head.link):
        raise DamagedError(
            f"the log of slot {state.slot!r} was cut: it ends with record {state.number}, but record {head.last} "
            "was written"
        )


def checked_records(store: Store, state: SlotState) -> Iterator[Record]:
    """Yield the records that follow the state, for the caller to apply. Raises DamagedError if one is damaged."""
    for record in store.read(state.slot, state.number):
        check_next(record, state.number, state.time, state.link)
        yield record
        state.link = record.link


def apply(state: SlotState, record: Record) -> None:
    """Apply a record. Raises ValueError with its number if it cannot be applied."""
    try:
        state.apply(record.number, record.time, record.event, decode(record))
    except KeyError:
        raise ValueError(
            f"record {record.number} of slot {state.slot!r} is about event {record.event!r}, which is not open"
        ) from None
    except ValueError as error:
        raise ValueError(f"record {record.number} of slot {state.slot!r} cannot be applied: {error}") from None
