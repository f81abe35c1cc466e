"""The slots of a service in memory: folded from the log, changed by commands, written back.

From `begin` to `commit` it is ahead of the log: `Service` holds a lock, so that nobody reads then.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import structlog

from peekrank.service.api import problems
from peekrank.service.api.messages import RankReply
from peekrank.service.config import Config
from peekrank.service.core.clock import SECOND, Clock
from peekrank.service.core.commands import Activate, Command, PutItems, Rank, SubmitFeedback
from peekrank.service.core.slot_state import Event, SlotState
from peekrank.service.core.slots import Slot
from peekrank.service.core.snapshots import catch_up, replay, take_snapshot
from peekrank.service.event_log.records import Feedback, Ranked, Record, Settings, decode
from peekrank.service.event_log.store import Store

_log = structlog.get_logger()
_IDLE = 1.0  # seconds between looks at the clock


class SlotManager:
    """What a service knows.

    Parameters
    ----------
    config
        The service.
    clock
        The time of its records.
    store
        Its log.
    """

    def __init__(self, config: Config, clock: Clock, store: Store) -> None:
        self._config, self._clock, self._store = config, clock, store
        self.slots: dict[str, Slot] = {}
        self.snapshots: dict[str, int] = {}  # numbers of the latest ones
        self.following = False  # another process owns the log, and this one reads along

    # From the log

    def load(self) -> None:
        """SlotState the log of each slot, and write down what is configured otherwise now."""
        slots: dict[str, Slot] = {}
        for config in self._config.slots:
            state = self._replay(config.name)
            self._clock.not_before(state.time)
            slot = slots[config.name] = Slot(state, self._config.limits)
            before = state.settings
            if before is None or before.config != config:
                slot.now = self._clock.now()
                slot.write(None, Settings(config, config.seed or (before.key if before else secrets.randbits(63))))
            self.snapshots[config.name] = state.number
        if written := [record for slot in slots.values() for record in slot.written]:
            self._store.append(written)
            for slot in slots.values():
                slot.written = []
        self.slots, self.following = slots, False

    def follow(self) -> None:
        """Take in what the owner has written since the last look."""
        for config in self._config.slots:
            state = self._replay(config.name)
            if state.settings is not None:  # else the owner does not have this slot yet
                self.slots[config.name] = Slot(state, self._config.limits)
        if not self.following:
            _log.info("following", slots=list(self.slots))
        self.following = True

    def _replay(self, name: str) -> SlotState:
        """A slot as the log has it now: what was followed goes on, anything else is folded again."""
        if self.following and name in self.slots:
            return catch_up(self._store, self.slots[name].state)
        state, passed = replay(self._store, name)
        for reason in passed:
            _log.warning("snapshot skipped", reason=reason)
        return state

    def drop(self) -> None:
        """Forget what may be ahead of the log."""
        self.slots, self.snapshots, self.following = {}, {}, False

    # Commands

    def idle(self) -> float:
        """Seconds until the next event is due, or until the clock is to be looked at."""
        oldest = [(slot.state, next(iter(slot.state.open.values()), None)) for slot in self.slots.values()]
        times = [state.deadline(event) for state, event in oldest if event is not None]
        left = (min(times) - self._clock.now()) / SECOND if times else _IDLE
        return min(_IDLE, max(0.0, left))

    def begin(self) -> None:
        """Go on to the present, and close what is due: an answer that comes after that is late."""
        now = self._clock.now()
        for slot in self.slots.values():
            slot.now = now
            for event in slot.state.due(now):
                slot.close(event)

    def do(self, command: Command) -> Any:
        """The result of a command; a `Problem` if it cannot be done."""
        if isinstance(command, Rank):
            return self._rank(command)
        if isinstance(command, SubmitFeedback):
            slot, event = self.known(command.event_id)
            return slot.answer(event, command.request)
        if isinstance(command, Activate):
            slot, event = self.known(command.event_id)
            return slot.activate(event)
        if isinstance(command, PutItems):
            return self.slot(command.slot).put_items(command.request)
        return self.slot(command.slot).retire_items(command.ids)

    def _rank(self, command: Rank) -> RankReply:
        slot, request = self.slot(command.slot), command.request
        known = self._find(request.event_id) if request.event_id is not None else None
        if known is None:
            return slot.rank(request)
        if known[0] is not slot:
            raise problems.other_request(known[1].id)
        return slot.repeat_rank(known[1], request)

    def commit(self) -> None:
        """Write what was done since the last time; a StoreError if the log does not take it."""
        written: list[Record] = []
        for slot in self.slots.values():
            if slot.written:
                written += slot.written
                slot.written = []
        if written:
            self._store.append(written)

    # Slots and events

    def slot(self, name: str) -> Slot:
        """A slot by its name; a `Problem` if there is none."""
        if name not in self.slots:
            raise problems.unknown_slot(name, self.slots)
        return self.slots[name]

    def known(self, event_id: str) -> tuple[Slot, Event]:
        """An event and its slot; a `Problem` if there is none."""
        found = self._find(event_id)
        if found is None:
            raise problems.unknown_event(event_id)
        return found

    def _find(self, event_id: str) -> tuple[Slot, Event] | None:
        """An event and its slot, from memory or, if it was closed long ago, from the log."""
        for slot in self.slots.values():
            if event := slot.state.open.get(event_id) or slot.state.recent.get(event_id):
                return slot, event
        records = self._store.of_event(event_id)
        if not records or records[0].slot not in self.slots:
            return None
        event = closed_event(records)
        return None if event is None else (self.slots[records[0].slot], event)

    # Snapshots

    def keep_snapshots(self, every: int) -> None:
        """Keep a snapshot of each slot with so many records since its last, and forget what is old."""
        for name, slot in self.slots.items():
            if slot.state.number - self.snapshots[name] >= every:
                self._store.keep_snapshot(take_snapshot(slot.state))
                self.snapshots[name] = slot.state.number
                self._forget(slot)

    def _forget(self, slot: Slot) -> None:
        """Delete records that are old enough, and behind the snapshot before the latest."""
        keep, kept = self._config.store.retention, self._store.snapshots(slot.state.slot)
        if keep and len(kept) > 1:
            before = self._clock.now() - int(max(keep, slot.state.config.feedback_window) * SECOND)
            while self._store.forget(slot.state.slot, kept[-1].number, before):
                pass


def closed_event(records: Sequence[Record]) -> Event | None:
    """An event from its records, once it is closed: answered if anything was answered in time."""
    first = decode(records[0])
    if not isinstance(first, Ranked):
        return None  # what came before was forgotten
    said = [body for record in records if isinstance(body := decode(record), Feedback)]
    answers = [body.answer for body in said if not body.late]
    return Event(
        str(records[0].event),
        records[0].number,
        records[0].time,
        "answered" if answers else "expired",
        first,
        answers=answers,
        late=[body.answer for body in said if body.late],
        learned=bool(answers),
    )
