"""Audits: replay a log from its first record, and compare the result bit for bit with rankings and snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from peekrank._util.text import pluralize
from peekrank.service.core.snapshots import catch_up, differences, initial_state, machine, take_snapshot
from peekrank.service.event_log.store import Snapshot, Store


class Audit(NamedTuple):
    """The result of the audit of a slot."""

    slot: str
    first: int  # number of the first replayed record
    last: int
    equal: tuple[int, ...]  # numbers of the snapshots that agree with the log
    different: tuple[str, ...]  # what is wrong with the others
    rankings: int  # number of rankings that came out differently
    machines: tuple[str, ...]  # what differs between this machine and those of the snapshots

    @property
    def passed(self) -> bool:
        """Whether the log gives the state that the service had."""
        return not self.different and not self.rankings

    def __str__(self) -> str:
        """Describe the result."""
        records = pluralize(self.last - self.first + 1, "record")
        start = f"{self.slot}: replayed {records}, from {self.first:,} to {self.last:,}: "
        if self.passed:
            snapshots = " and ".join(f"{number:,}" for number in self.equal) or "none"
            return f"{start}equal (rankings, and snapshots after record {snapshots})"
        differences = [*self.different]
        if self.rankings:
            differences.append(f"{pluralize(self.rankings, 'ranking')} differ from the ones shown")
        differences += self.machines
        return f"{start}DIFFERENT: {'; '.join(differences)}"


def audit_slots(store: Store, slots: list[str] | None = None) -> Iterator[Audit]:
    """Audit some slots, or all slots in the store, one by one."""
    for slot in store.slots() if slots is None else slots:
        yield audit_slot(store, slot)


def audit_slot(store: Store, slot: str) -> Audit:
    """Replay the log of a slot, and compare the state at each snapshot."""
    state = initial_state(store, slot)
    start, mismatches = state.number, state.activity.counts.replay_mismatches
    equal: list[int] = []
    different: list[str] = []
    snapshots = sorted(store.snapshots(slot), key=lambda snapshot: snapshot.number)
    for snapshot in snapshots:
        if snapshot.number > start or start == 0:
            catch_up(store, state, snapshot.number)
            _compare(snapshot, take_snapshot(state), equal, different)
    catch_up(store, state)
    mismatches = state.activity.counts.replay_mismatches - mismatches
    return Audit(slot, start + 1, state.number, tuple(equal), tuple(different), mismatches, _machines(snapshots))


def _compare(stored: Snapshot, replayed: Snapshot, equal: list[int], different: list[str]) -> None:
    subject = f"the snapshot after record {stored.number:,}"
    if replayed.number != stored.number:
        different.append(f"{subject} belongs to a record that is not in the log")
    elif replayed.body == stored.body:
        equal.append(stored.number)
    else:
        try:
            parts = differences(stored.body, replayed.body)
        except ValueError:
            different.append(f"{subject} is damaged")
        else:
            if parts:
                different.append(f"{subject} has a different {', '.join(parts)}")
            else:  # written by an older version, which did not have all fields
                equal.append(stored.number)


def _machines(snapshots: list[Snapshot]) -> tuple[str, ...]:
    """Describe how this machine differs from those that took the snapshots."""
    current = machine()
    lines = []
    for snapshot in snapshots:
        about = json.loads(snapshot.about)
        lines += [
            f"{name} was {about.get(name)!r} when the snapshot was taken, and is {current[name]!r} now"
            for name in current
            if about.get(name) != current[name]
        ]
    return tuple(dict.fromkeys(lines))
