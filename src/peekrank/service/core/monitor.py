"""The value of a slot with a confidence sequence, and its alarms.

Events are observed in groups of 64, in the order of their rankings. In closing order, fast feedback would come
first and the response rate would appear to fall. If too many closed events wait for an older one, the monitor
observes only every second event, then every fourth, and so on. It selects them by number, which does not depend on
their feedback. The result is a function of the log, so that an audit can compare it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np
from msgspec import Struct

from peekrank.kernels.confidence import Bound, Interval, interval_of_mean, observe_between
from peekrank.monitoring.alarms import Monitor
from peekrank.service.api.messages import Interval as IntervalReply
from peekrank.types import Floats, Ints

_GROUP = 64
_ALPHA = 0.05  # of the confidence sequence
_FALSE_ALARMS = 1e-6  # per event, at most
_MAX_ALARMS = 50
_MAX_EARLY = 4096  # closed events that wait for an older one


class ClosedEvent(Struct, array_like=True, order=True):
    """A closed event: its ranking as numbers, the propensities, and the grades of the first k."""

    number: int  # of the ranking
    ranking: bytes
    propensities: bytes
    grades: list[float | None]
    shown: bytes = b""  # the list as the app showed it; empty if it is the ranking


class RaisedAlarm(Struct, array_like=True):
    """An alarm."""

    name: str
    item: int | None
    since: int  # microseconds since 1970
    cause: str
    action: str


class MonitorSnapshot(Struct, array_like=True):
    """All parts of the state of a monitor."""

    grades: tuple[float, float]
    group: list[ClosedEvent]
    alarms: list[RaisedAlarm]
    confidence: list[bytes]  # arrays of the confidence sequence
    detectors: dict[str, tuple[list[int], bytes]]  # shapes and arrays of the alarms
    early: list[ClosedEvent] = []  # closed before an older event: a heap
    stride: int = 1  # every so many events are observed


class SlotMonitor:
    """Monitors a slot.

    Parameters
    ----------
    grades
        Least and largest grade.
    name_of
        Returns the name of an item for an alarm. None leaves only `learner-failed`, because each
        list brings its own items.
    """

    def __init__(self, grades: tuple[float, float], name_of: Callable[[int], str] | None) -> None:
        self._low, self._high = grades
        self._interval = Interval.fresh(self._high - self._low)
        self._watch = Monitor(_FALSE_ALARMS, grades=grades, name_of=name_of or str)
        self._has_alarms = name_of is not None
        self._early: list[ClosedEvent] = []
        self._stride = 1
        self._group: list[ClosedEvent] = []
        self.alarms: list[RaisedAlarm] = []

    def close(self, event: ClosedEvent) -> None:
        """Add a closed event, whose feedback is final."""
        if event.number % self._stride:
            return
        heappush(self._early, event)
        if len(self._early) > _MAX_EARLY:
            self._stride *= 2
            self._early = [early for early in self._early if early.number % self._stride == 0]
            heapify(self._early)

    def advance(self, first_open: int, time: int, failure: Callable[[], str]) -> None:
        """Observe the closed events that were ranked before the first open one."""
        while self._early and self._early[0].number < first_open:
            self._group.append(heappop(self._early))
            if len(self._group) == _GROUP:
                self._observe_values()
                if self._has_alarms:
                    self._observe_alarms(time)
                self._check_learner(time, failure())
                self._group = []

    def late(self) -> None:
        """Count feedback on a closed event."""
        self._watch.stray()

    def value(self) -> IntervalReply | None:
        """Return the mean value of the events with feedback, or None before the first."""
        count = self._interval.below.observed[0]
        if not count:
            return None
        low, high = interval_of_mean(self._interval, _ALPHA)
        mean = float(self._interval.below.sums[0] / count)
        return IntervalReply(mean, max(self._low, low), min(self._high, high), int(count))

    def _observe_values(self) -> None:
        for event in self._group:
            if grades := [grade for grade in event.grades if grade is not None]:
                observe_between(self._interval, sum(grades) / len(grades), self._low, self._high)

    def _observe_alarms(self, time: int) -> None:
        before = self._watch.rounds
        rows = [_row(event) for event in self._group]
        offsets = np.cumsum([0, *(len(row[0]) for row in rows)])
        ks = np.array([len(event.grades) for event in self._group])
        items, propensities, ranks, grades = (np.concatenate(column) for column in zip(*rows, strict=True))
        self._watch.observe_many(offsets, items, propensities, ranks, grades, ks)
        for alarm in self._watch.raised():
            if alarm.latest > before:
                self._raise_alarm(RaisedAlarm(alarm.name, alarm.item, time, alarm.cause, alarm.action))

    def _check_learner(self, time: int, failure: str) -> None:
        """Raise an alarm if the learner has stopped learning, also if each list brings its own items."""
        if failure:
            fresh = Monitor(_FALSE_ALARMS)  # alarms are not part of a monitor's state
            fresh.health(failure)
            for alarm in fresh.raised():
                self._raise_alarm(RaisedAlarm(alarm.name, None, time, alarm.cause, alarm.action))

    def _raise_alarm(self, alarm: RaisedAlarm) -> None:
        """Add an alarm, or update the cause of an active one."""
        for known in self.alarms:
            if (known.name, known.item) == (alarm.name, alarm.item):
                known.cause = alarm.cause
                return
        self.alarms = [*self.alarms, alarm][-_MAX_ALARMS:]

    def snapshot(self) -> MonitorSnapshot:
        """Return the state."""
        return MonitorSnapshot(
            (self._low, self._high),
            self._group,
            self.alarms,
            [part.tobytes() for bound in self._interval for part in _changing(bound)],
            {name: (list(part.shape), part.tobytes()) for name, part in self._watch.arrays().items()},
            self._early,
            self._stride,
        )

    @classmethod
    def restore(cls, saved: MonitorSnapshot, name_of: Callable[[int], str] | None) -> SlotMonitor:
        """Restore a monitor from its state."""
        monitor = cls(saved.grades, name_of)
        monitor._early, monitor._stride = saved.early, saved.stride
        monitor._group, monitor.alarms = saved.group, saved.alarms
        parts = [part for bound in monitor._interval for part in _changing(bound)]
        for part, array in zip(parts, saved.confidence, strict=True):
            part[:] = np.frombuffer(array)
        initial = monitor._watch.arrays()
        monitor._watch.restore(
            {
                name: np.frombuffer(array, initial[name].dtype).reshape(shape)
                for name, (shape, array) in saved.detectors.items()
                if name in initial
            }
        )
        return monitor


def _changing(bound: Bound) -> tuple[Floats, Floats, Floats]:
    return bound.sums, bound.squares, bound.observed


def _row(event: ClosedEvent) -> tuple[Ints, Floats, Ints, Floats]:
    """Return items, propensities, ranks and grades of the candidates, in the order of their numbers."""
    ranking = np.frombuffer(event.ranking, dtype="<u4").astype(np.int64)
    order = np.argsort(ranking)
    grades = np.full(len(ranking), np.nan)
    grades[: len(event.grades)] = [np.nan if grade is None else grade for grade in event.grades]
    unknown = np.full(len(ranking), np.nan)
    propensities = np.frombuffer(event.propensities) if event.propensities else unknown
    ranks = np.argsort(np.frombuffer(event.shown, dtype="<u4")) if event.shown else order
    return ranking[order], propensities, ranks, grades[order]
