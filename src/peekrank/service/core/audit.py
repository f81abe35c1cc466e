"""Audits: a log is folded again from its initial_state, and compared bit for bit with the service's state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from peekrank._util.text import counted
from peekrank.service.core.snapshots import catch_up, differences, initial_state, machine, take_snapshot
from peekrank.service.event_log.store import Snapshot, Store


class Audit(NamedTuple):
    """What was found in the log of a slot."""

    slot: str
    first: int  # record that was folded first, and last
    last: int
    equal: tuple[int, ...]  # numbers of the snapshots that agree with the log
    different: tuple[str, ...]  # and what is wrong with the others
    rankings: int  # that came out otherwise than they were shown
    machines: tuple[str, ...]  # what differs between this machine and those of the snapshots

    @property
    def passed(self) -> bool:
        """Whether the log gives the state that the service had."""
        return not self.different and not self.rankings

    def __str__(self) -> str:
        """The verdict, in a sentence or more."""
        records = counted(self.last - self.first + 1, "record")
        what = f"{self.slot}: {records} replay, from {self.first:,} to {self.last:,}: "
        if self.passed:
            known = " and ".join(f"{number:,}" for number in self.equal) or "none"
            return f"{what}equal (rankings, and snapshots after record {known})"
        found = [*self.different]
        if self.rankings:
            found.append(f"{counted(self.rankings, 'ranking')} came out otherwise than shown")
        found += self.machines
        return f"{what}DIFFERENT: {'; '.join(found)}"


def audit_slots(store: Store, slots: list[str] | None = None) -> Iterator[Audit]:
    """Audits of some slots, or of all that the store has, one by one."""
    for slot in store.slots() if slots is None else slots:
        yield audit_slot(store, slot)


def audit_slot(store: Store, slot: str) -> Audit:
    """SlotState the log of a slot, and stop at each snapshot to compare."""
    state = initial_state(store, slot)
    start, differing = state.number, state.activity.counts.replay_mismatches
    equal: list[int] = []
    different: list[str] = []
    known = sorted(store.snapshots(slot), key=lambda snapshot: snapshot.number)
    for snapshot in known:
        if snapshot.number > start or start == 0:
            catch_up(store, state, snapshot.number)
            _compare(snapshot, take_snapshot(state), equal, different)
    catch_up(store, state)
    rankings = state.activity.counts.replay_mismatches - differing
    return Audit(slot, start + 1, state.number, tuple(equal), tuple(different), rankings, _machines(known))


def _compare(kept: Snapshot, made: Snapshot, equal: list[int], different: list[str]) -> None:
    where = f"the snapshot after record {kept.number:,}"
    if made.number != kept.number:
        different.append(f"{where} is of a record that is not in the log")
    elif made.body == kept.body:
        equal.append(kept.number)
    else:
        try:
            parts = differences(kept.body, made.body)
        except ValueError:
            different.append(f"{where} is damaged")
        else:
            if parts:
                different.append(f"{where} has another {', '.join(parts)}")
            else:  # written by an older version, which did not have all fields
                equal.append(kept.number)


def _machines(snapshots: list[Snapshot]) -> tuple[str, ...]:
    """What the last bit may depend on, where it was another one."""
    here = machine()
    found = []
    for snapshot in snapshots:
        there = json.loads(snapshot.about)
        found += [
            f"{name} was {there.get(name)!r} when it was written, and is {here[name]!r} here"
            for name in here
            if there.get(name) != here[name]
        ]
    return tuple(dict.fromkeys(found))
