"""Snapshots: the state of a slot after a record, so that a start does not have to replay the whole log.

The log is authoritative, not its snapshots. A snapshot has a checksum. If it is damaged, replay starts from the
one before, or from the first record. Equal states have equal bytes, which `audit` compares.
"""

from __future__ import annotations

import json
import platform
from collections import OrderedDict
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from peekrank import __version__
from peekrank.engine import Agent
from peekrank.service.core.activity import Activity
from peekrank.service.core.items import Item, Items
from peekrank.service.core.monitor import MonitorSnapshot, SlotMonitor
from peekrank.service.core.slot_state import Event, SlotState
from peekrank.service.event_log.records import FORMAT, Settings, decode
from peekrank.service.event_log.store import Snapshot, Store


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
            state.agent.dump(),
            state.items.known,
            list(state.open.values()),
            state.activity,
            state.monitor.snapshot(),
        )
    )
    about = json.dumps({"format": FORMAT, **machine()})
    return Snapshot(state.slot, state.number, about, body, sha256(body).digest())


def differences(one: bytes, other: bytes) -> list[str]:
    """Name the parts in which two snapshots differ. A field that one of them lacks has its default."""
    first, second = _DECODER.decode(one), _DECODER.decode(other)
    if _ENCODER.encode(first) == _ENCODER.encode(second):
        return []
    return [name for name in _SavedState.__struct_fields__ if getattr(first, name) != getattr(second, name)]


def restore(snapshot: Snapshot) -> SlotState:
    """Restore a slot from a snapshot. Raises ValueError if the snapshot is damaged or too new."""
    about = json.loads(snapshot.about)
    if about.get("format", 0) > FORMAT:
        raise ValueError(f"its format is {about['format']}, and this version of peekrank reads up to {FORMAT}")
    if sha256(snapshot.body).digest() != snapshot.digest:
        raise ValueError("the snapshot is damaged: its checksum does not match")
    try:
        saved: _SavedState = _DECODER.decode(snapshot.body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the snapshot cannot be read: {error}") from None
    state = SlotState(snapshot.slot)
    state.number, state.time = snapshot.number, saved.time
    state.since, state.settings, state.activity = saved.since, saved.settings, saved.activity
    state.items = Items(saved.items)
    state.agent = Agent.load(saved.agent, saved.settings.config.learner_object)
    state.monitor = SlotMonitor.restore(saved.monitor, state.name_of)
    state.open = OrderedDict((event.id, event) for event in saved.open)
    return state


def initial_state(store: Store, slot: str) -> SlotState:
    """Return the state before the first record in the log: empty, or from the oldest snapshot."""
    first, _ = store.ends(slot)
    if first == 1:
        return SlotState(slot)
    usable = [snapshot for snapshot in store.snapshots(slot) if snapshot.number >= first - 1]
    if not usable:
        raise ValueError(
            f"the log of slot {slot!r} starts with record {first}, and no snapshot covers the records before. "
            "Restore a backup"
        )
    return restore(usable[-1])


def replay(store: Store, slot: str) -> tuple[SlotState, list[str]]:
    """Rebuild a slot from the newest usable snapshot. Returns it with the reasons why others were skipped."""
    skipped: list[str] = []
    first, _ = store.ends(slot)
    for snapshot in store.snapshots(slot):
        try:
            state = restore(snapshot)
        except ValueError as error:
            skipped.append(f"snapshot {snapshot.number} of slot {slot!r}: {error}")
            continue
        return catch_up(store, state), skipped
    if first > 1:
        raise ValueError(
            f"the log of slot {slot!r} starts with record {first}, and no snapshot is usable. Restore a backup"
        )
    return catch_up(store, SlotState(slot)), skipped


def catch_up(store: Store, state: SlotState, until: int | None = None) -> SlotState:
    """Apply the records that follow the state, up to a number or to the end of the log."""
    for record in store.read(state.slot, state.number):
        if until is not None and record.number > until:
            break
        if record.number != state.number + 1:
            raise ValueError(
                f"the log of slot {state.slot!r} has a gap: record {record.number} follows record {state.number}"
            )
        try:
            state.apply(record.number, record.time, record.event, decode(record))
        except KeyError:
            raise ValueError(
                f"record {record.number} of slot {state.slot!r} is about event {record.event!r}, which is not open"
            ) from None
    return state
