"""Snapshots: what a slot's log came to after a record, so that a start need not fold all of it.

A snapshot is a convenience, never the truth. It has a checksum, and one that is damaged is passed over: for the
one before, or for the whole log. Equal states are equal bytes, which is what `audit` compares.
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


class _Saved(Struct, array_like=True):
    """All that a state is."""

    time: int
    since: int
    settings: Settings
    agent: bytes
    items: list[Item]
    open: list[Event]
    activity: Activity
    monitor: MonitorSnapshot


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Saved)


@cache
def machine() -> dict[str, Any]:
    """What the last digit of a float may depend on."""
    with_names = {name: version(name) for name in ("numba", "numpy")}
    return {"cpu": _cpu(), **with_names, "peekrank": __version__}


def _cpu() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()}, {platform.machine()}"


def take_snapshot(state: SlotState) -> Snapshot:
    """A snapshot of a fold as it is."""
    body = _ENCODER.encode(
        _Saved(
            state.time,
            state.since,
            state.settings,  # type: ignore[arg-type]
            state.agent.dump(),
            state.items.known,
            list(state.open.values()),
            state.activity,
            state.monitor.saved(),
        )
    )
    about = json.dumps({"format": FORMAT, **machine()})
    return Snapshot(state.slot, state.number, about, body, sha256(body).digest())


def differences(one: bytes, other: bytes) -> list[str]:
    """Names of the parts in which the bodies of two snapshots differ; a field that one lacks has its default."""
    first, second = _DECODER.decode(one), _DECODER.decode(other)
    if _ENCODER.encode(first) == _ENCODER.encode(second):
        return []
    return [name for name in _Saved.__struct_fields__ if getattr(first, name) != getattr(second, name)]


def restore(snapshot: Snapshot) -> SlotState:
    """The fold that a snapshot was taken of; a ValueError if it cannot be had from it."""
    found = json.loads(snapshot.about)
    if found.get("format", 0) > FORMAT:
        raise ValueError(f"the snapshot is in format {found['format']}, and this peekrank reads up to {FORMAT}")
    if sha256(snapshot.body).digest() != snapshot.digest:
        raise ValueError("the snapshot is damaged: its content does not match its checksum")
    try:
        saved: _Saved = _DECODER.decode(snapshot.body)
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
    """A slot before the first record that is there: as it was made, or as the oldest snapshot has it."""
    first, _ = store.ends(slot)
    if first == 1:
        return SlotState(slot)
    usable = [snapshot for snapshot in store.snapshots(slot) if snapshot.number >= first - 1]
    if not usable:
        raise ValueError(
            f"the log of slot {slot!r} begins with record {first}, and there is no snapshot of what was before: "
            "restore a backup"
        )
    return restore(usable[-1])


def replay(store: Store, slot: str) -> tuple[SlotState, list[str]]:
    """A slot as its log has it, from the newest snapshot that can be used on; and what was passed over."""
    passed: list[str] = []
    first, _ = store.ends(slot)
    for snapshot in store.snapshots(slot):
        try:
            state = restore(snapshot)
        except ValueError as error:
            passed.append(f"snapshot {snapshot.number} of slot {slot!r} is not used: {error}")
            continue
        return catch_up(store, state), passed
    if first > 1:
        raise ValueError(
            f"the log of slot {slot!r} begins with record {first}, and no snapshot can be used: restore a backup"
        )
    return catch_up(store, SlotState(slot)), passed


def catch_up(store: Store, state: SlotState, until: int | None = None) -> SlotState:
    """A fold after it took in the records that it has not seen, as far as one, or all."""
    for record in store.read(state.slot, state.number):
        if until is not None and record.number > until:
            break
        if record.number != state.number + 1:
            raise ValueError(
                f"the log of slot {state.slot!r} has a gap: record {state.number} is followed by {record.number}"
            )
        try:
            state.apply(record.number, record.time, record.event, decode(record))
        except KeyError:
            raise ValueError(
                f"record {record.number} of slot {state.slot!r} is about event {record.event!r}, which is not open"
            ) from None
    return state
