"""All slots of a service in memory: replayed from the log, changed by commands, written back.

Between `begin` and `commit` the slots are ahead of the log. `Service` holds a lock then, so that nobody reads
them.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

import structlog

from peekrank.service.api import problems
from peekrank.service.config import Config, LimitsConfig, SlotConfig
from peekrank.service.core.clock import SECOND, Clock
from peekrank.service.core.open_events import Event
from peekrank.service.core.reload import changes, check
from peekrank.service.core.rerank import Texts, Traces
from peekrank.service.core.slot_state import SlotState
from peekrank.service.core.slots import Slot
from peekrank.service.core.snapshots import catch_up, check_digest, last_needless, replay, take_checked_snapshot
from peekrank.service.event_log.chain import DamagedError
from peekrank.service.event_log.records import ClockJump, Feedback, Ranked, Record, Settings, decode
from peekrank.service.event_log.store import Store

_log = structlog.get_logger()
_DAY = 86_400 * SECOND  # a start so long after the last record counts as a jump of the clock
_IDLE = 1.0  # seconds between looks at the clock


class SlotManager:
    """The slots of a service.

    Parameters
    ----------
    config
        Configuration of the service.
    clock
        Clock for the times of records.
    store
        The log.
    """

    def __init__(self, config: Config, clock: Clock, store: Store) -> None:
        self.config, self._clock, self._store = config, clock, store
        self._next: Config | None = None  # the configuration after the next commit
        self.slots: dict[str, Slot] = {}
        self.snapshots: dict[str, int] = {}  # number of the last record in the latest snapshot
        self.traces = Traces()
        self.following = False  # whether another process owns the log
        self._texts: Texts | None = None

    # From the log

    def load(self) -> None:
        """Replay the log of each slot, and log the changes of its configuration."""
        slots: dict[str, Slot] = {}
        latest = 0
        for config in self.config.slots:
            state = self._replay(config.name)
            self._clock.not_before(state.time)
            latest = max(latest, state.time)
            slot = slots[config.name] = Slot(state, self._limits(config.name))
            self._configure(slot, config)
            self.snapshots[config.name] = state.number
        now = self._clock.now()
        if latest and now - latest > _DAY:
            self._clock.jumped = now - latest
        self._write_jump(slots, now)
        self._append(slots)
        self.slots, self.following = slots, False
        self.traces.rebuild(slots)

    def follow(self) -> None:
        """Apply the records that the owner has written since the last call."""
        for config in self.config.slots:
            state = self._replay(config.name)
            if state.settings is not None:  # otherwise the owner does not have this slot yet
                self.slots[config.name] = Slot(state, self._limits(config.name))
        if not self.following:
            _log.info("following", slots=list(self.slots))
        self.following = True

    def _limits(self, name: str) -> LimitsConfig:
        """Return the limits of a slot. Documents of rerank calls have one of their own."""
        limits, rerank = self.config.limits, self.config.reranks.get(name)
        return limits if rerank is None else replace(limits, max_items=rerank.max_documents)

    def _replay(self, name: str) -> SlotState:
        """Bring a slot up to date with the log: from its state if this process follows, else from scratch."""
        if self.following and name in self.slots:
            return catch_up(self._store, self.slots[name].state)
        state, skipped = replay(self._store, name)
        for reason in skipped:
            _log.warning("snapshot skipped", reason=reason)
        return state

    def discard(self) -> None:
        """Drop the state, which may be ahead of the log."""
        self.slots, self.snapshots, self.following, self._next = {}, {}, False, None

    # Configuration

    def reload(self, config: Config) -> list[str]:
        """Log the configuration of each slot that changes; the rest changes with the commit.

        A follower logs nothing, because its owner does. Returns a line for each field that changes. Raises a
        `Problem`, before anything changes, if a field needs a restart.
        """
        found = changes(self._next or self.config, config)
        check(found)
        for slot in config.slots if not self.following else ():
            self._configure(self.slots[slot.name], slot)
        self._next = config
        if self.following:
            self._adopt()
        return [change.text for change in found]

    def _configure(self, slot: Slot, config: SlotConfig) -> None:
        """Log the configuration of a slot, if it differs from that in the log."""
        before = slot.state.settings
        if before is None or before.config != config:
            slot.now = self._clock.now()
            slot.write(None, Settings(config, config.seed or (before.key if before else secrets.randbits(63))))

    def _adopt(self) -> None:
        """Use the configuration of a reload."""
        if self._next is not None:
            self.config, self._next = self._next, None
            for name, slot in self.slots.items():
                slot.limits = self._limits(name)

    # Commands

    def idle(self) -> float:
        """Return the seconds until the next event is due, at most one."""
        oldest = [(slot.state, slot.state.open.oldest()) for slot in self.slots.values()]
        deadlines = [state.deadline(event) for state, event in oldest if event is not None]
        seconds = (min(deadlines) - self._clock.now()) / SECOND if deadlines else _IDLE
        return min(_IDLE, max(0.0, seconds))

    def begin(self) -> None:
        """Advance to the present, and close the events that are due. Feedback after that is late."""
        now = self._clock.now()
        self._write_jump(self.slots, now)
        for slot in self.slots.values():
            slot.now = now
            for event in slot.state.due(now):
                try:
                    slot.close(event)
                except DamagedError as error:  # the others go on, and nothing is learned from this one
                    slot.state.open.damaged.add(event)
                    _log.error("log damaged", reason=str(error), action=f"event {event!r} stays open")

    def _write_jump(self, slots: dict[str, Slot], now: int) -> None:
        """Record a jump of the clock, so that no record counts as older because of it."""
        if self._clock.jumped:
            _log.warning(
                "clock jumped",
                seconds=self._clock.jumped / SECOND,
                action="check the system clock; retention does not count this time",
            )
            for slot in slots.values():
                slot.now = now
                slot.write(None, ClockJump(self._clock.jumped))

    def commit(self) -> None:
        """Write all pending records in one transaction. Raises StoreError if the store fails."""
        self._append(self.slots)
        self._adopt()

    def _append(self, slots: dict[str, Slot]) -> None:
        records: list[Record] = []
        for slot in slots.values():
            if slot.pending:
                records += slot.pending
                slot.pending = []
        if records:
            self._store.append(records)
        self._clock.jumped = 0

    def visitor(self, text: str) -> str:
        """Return the keyed hash of a visitor in hexadecimal digits. Raises StoreError if the store fails."""
        if self._texts is None:
            self._texts = Texts(self._store.secret())
        return self._texts.visitor(text).hex()

    # Slots and events

    def slot(self, name: str) -> Slot:
        """Return a slot. Raises a `Problem` if it is unknown."""
        if name not in self.slots:
            raise problems.unknown_slot(name, self.slots)
        return self.slots[name]

    def event(self, event_id: str, visible: Collection[str] = ()) -> tuple[Slot, Event]:
        """Return an event and its slot. Raises a `Problem` if it is unknown or in several slots."""
        known = self.find_events(event_id, visible)
        if not known:
            raise problems.unknown_event(event_id)
        if len(known) > 1:
            raise problems.ambiguous_event(event_id)
        ((name, event),) = known.items()
        return self.slots[name], event

    def find_events(self, event_id: str, visible: Collection[str] = ()) -> dict[str, Event]:
        """Find an event in memory or, if it closed long ago, in the log.

        Parameters
        ----------
        event_id
            Id of the event. Callers who do not see each other's slots may have chosen the same id.
        visible
            Slots to search. Empty means all.

        Returns the events with this id by their slots: more than one only if callers chose the same id.
        """
        slots = {name: slot.state for name, slot in self.slots.items() if not visible or name in visible}
        try:
            in_memory = {name: event for name, state in slots.items() if (event := state.find(event_id))}
            if in_memory:
                return in_memory
            stored = self._store.event_records(event_id)
        except DamagedError as error:
            _log.error("log damaged", reason=str(error))
            raise problems.damaged() from None
        return {
            name: event
            for name, records in groupby(stored, attrgetter("slot"))
            if name in slots and (event := closed_event(list(records)))
        }

    # Snapshots

    def save_snapshots(self, every: int) -> None:
        """Save a snapshot of each slot with enough new records, and delete records beyond the retention time."""
        for name, slot in self.slots.items():
            if slot.state.number - self.snapshots[name] < every:
                continue
            self.snapshots[name] = slot.state.number
            try:
                snapshot = take_checked_snapshot(slot.state)
            except Exception:
                _log.exception(
                    "snapshot failed", slot=name, action="no snapshot is saved, and no record is deleted"
                )
                continue
            self._store.save_snapshot(snapshot)
            self._delete_old_records(slot)

    def _delete_old_records(self, slot: Slot) -> None:
        """Delete old records that the last snapshot but one does not need, if both are intact."""
        state, retention = slot.state, self.config.store.retention
        snapshots = self._store.snapshots(state.slot) if retention else []
        if len(snapshots) < 2:
            return
        try:
            for snapshot in snapshots:
                check_digest(snapshot)
        except ValueError as error:
            _log.error("no record is deleted", slot=state.slot, reason=str(error))
            return
        age = int(max(retention, state.config.feedback_window) * SECOND)
        before = state.time_before(self._clock.now(), age)
        while self._store.delete_records(state.slot, last_needless(snapshots[-1]), before):
            pass


def closed_event(records: Sequence[Record]) -> Event | None:
    """Rebuild a closed event from its records. Returns None if its first record was deleted."""
    first = decode(records[0])
    if not isinstance(first, Ranked):
        return None
    feedback = [body for record in records if isinstance(body := decode(record), Feedback)]
    in_time = [body.answer for body in feedback if not body.late]
    return Event(
        str(records[0].event),
        records[0].number,
        records[0].time,
        "answered" if in_time else "expired",
        first,
        feedback=in_time,
        late_feedback=[body.answer for body in feedback if body.late],
        learned=bool(in_time),
    )
