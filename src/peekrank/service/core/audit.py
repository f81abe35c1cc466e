"""Audits: replay a log from its first record, and compare the result bit for bit with rankings and snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from peekrank._util.text import pluralize
from peekrank.service.core.snapshots import catch_up, differences, initial_state, machine, sealed, take_snapshot
from peekrank.service.event_log.chain import DamagedError, checked
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
        if not self.last:
            return f"{self.slot}: DIFFERENT: {'; '.join(self.different)}"
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
    """Check the store, then audit some slots, or all of them, one by one."""
    try:
        store.check()
        damage: tuple[str, ...] = ()
    except DamagedError as error:
        damage = (str(error),)
    for slot in store.heads() if slots is None else slots:
        audit = audit_slot(store, slot)
        yield audit._replace(different=(*damage, *audit.different))


def audit_slot(store: Store, slot: str) -> Audit:
    """Check each record of a slot, replay them, and compare the state at each snapshot."""
    try:
        return _audit(store, slot)
    except ValueError as error:
        return Audit(slot, 1, 0, (), (str(error),), 0, ())


def _audit(store: Store, slot: str) -> Audit:
    head = store.heads()[slot]
    for _ in checked(store.read(slot, head.deleted), head.deleted, head.anchor):
        pass  # also the records that no replay needs
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
    elif sealed(stored).digest != stored.digest:
        different.append(f"{subject} is damaged: its checksum does not match")
    elif parts := differences(stored.body, replayed.body):
        different.append(f"{subject} has a different {', '.join(parts)}")
    elif stored.link != replayed.link:
        different.append(f"{subject} belongs to another log")
    else:
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
