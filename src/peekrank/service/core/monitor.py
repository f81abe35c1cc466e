"""What a slot is worth, and whether anything is wrong with it: a confidence sequence, and alarms.

Events are looked at by sixty-fours, in the order in which they were ranked. In the order of closing, those that
are answered at once would come before those whose waiting time has to end, and people would seem to answer less
and less. Where that takes remembering too many, every second is passed over, then three of four, and so on: by
their numbers, which know nothing of answers. What comes of it is a function of the log, like all else in a slot,
so that an audit can compare it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np
from msgspec import Struct

from peekrank.evidence.alarms import Watch
from peekrank.kernels.confidence import Bound, Interval, interval_of_mean, observe_between
from peekrank.service.api.messages import Interval as IntervalReply
from peekrank.types import Floats, Ints

_TOGETHER = 64
_ALPHA = 0.05  # of the interval
_FALSE = 1e-6  # alarms per event, at most, while all is well
_MOST = 50  # alarms that are shown
_MOST_EARLY = 4096  # closed events that wait for those before them


class Closed(Struct, array_like=True, order=True):
    """An event that was closed: its ranking in numbers of items, their chances, and what was said of the first."""

    number: int  # of the ranking
    ranking: bytes
    chances: bytes
    grades: list[float | None]
    shown: bytes = b""  # the list as the app showed it; empty: as it was ranked


class Raised(Struct, array_like=True):
    """An alarm."""

    name: str
    item: int | None
    since: int  # microseconds since 1970
    cause: str
    action: str


class MonitorSnapshot(Struct, array_like=True):
    """All that is remembered."""

    max_grade: int
    waiting: list[Closed]
    alarms: list[Raised]
    evidence: list[bytes]  # the arrays of the confidence sequence that change
    accounts: dict[str, tuple[list[int], bytes]]  # those of the alarms: shape and numbers
    early: list[Closed] = []  # closed before one that was ranked before: a heap
    stride: int = 1  # one of so many events is looked at


class SlotMonitor:
    """Observes a slot.

    Parameters
    ----------
    max_grade
        The largest grade of an answer.
    name_of
        What alarms call an item; None where lists bring items of their own, and no alarms are raised.
    """

    def __init__(self, max_grade: int, name_of: Callable[[int], str] | None) -> None:
        self._max_grade = max_grade
        self._interval = Interval.fresh(float(max_grade))
        self._watch = Watch(_FALSE, grades=(0.0, float(max_grade)), name_of=name_of or str)
        self._by_item = name_of is not None
        self._early: list[Closed] = []
        self._stride = 1
        self._waiting: list[Closed] = []
        self.alarms: list[Raised] = []

    def closed(self, event: Closed) -> None:
        """Take in an event, once its answers are final."""
        if event.number % self._stride:
            return
        heappush(self._early, event)
        if len(self._early) > _MOST_EARLY:
            self._stride *= 2
            self._early = [early for early in self._early if early.number % self._stride == 0]
            heapify(self._early)

    def go_on(self, before: int, time: int, trouble: Callable[[], str]) -> None:
        """Look at the closed events that were ranked before the first one that is open."""
        while self._early and self._early[0].number < before:
            self._waiting.append(heappop(self._early))
            if len(self._waiting) == _TOGETHER:
                self._look()
                if self._by_item:
                    self._watch_for_alarms(time, trouble())
                self._waiting = []

    def late(self) -> None:
        """Take in an answer to an event that was closed."""
        self._watch.stray()

    def value(self) -> IntervalReply | None:
        """Mean grade of those who answered, averaged over events with an answer; None before there is one."""
        count = self._interval.below.observed[0]
        if not count:
            return None
        low, high = interval_of_mean(self._interval, _ALPHA)
        mean = float(self._interval.below.sums[0] / count)
        return IntervalReply(mean, max(0.0, low), min(float(self._max_grade), high), int(count))

    def _look(self) -> None:
        for event in self._waiting:
            if said := [grade for grade in event.grades if grade is not None]:
                observe_between(self._interval, sum(said) / len(said), 0.0, float(self._max_grade))

    def _watch_for_alarms(self, time: int, trouble: str) -> None:
        before = self._watch.rounds
        rows = [_row(event) for event in self._waiting]
        offsets = np.cumsum([0, *(len(row[0]) for row in rows)])
        ks = np.array([len(event.grades) for event in self._waiting])
        items, chances, places, answers = (np.concatenate(column) for column in zip(*rows, strict=True))
        self._watch.observe_many(offsets, items, chances, places, answers, ks)
        self._watch.health(trouble)
        for alarm in self._watch.raised():
            if alarm.latest > before:
                self._note(Raised(alarm.name, alarm.item, time, alarm.cause, alarm.action))

    def _note(self, alarm: Raised) -> None:
        """Add an alarm, or what is new about it."""
        for known in self.alarms:
            if (known.name, known.item) == (alarm.name, alarm.item):
                known.cause = alarm.cause
                return
        self.alarms = [*self.alarms, alarm][-_MOST:]

    def saved(self) -> MonitorSnapshot:
        """What is remembered."""
        evidence = [part.tobytes() for bound in self._interval for part in _changing(bound)]
        accounts = {name: (list(part.shape), part.tobytes()) for name, part in self._watch.arrays().items()}
        return MonitorSnapshot(
            self._max_grade, self._waiting, self.alarms, evidence, accounts, self._early, self._stride
        )

    @classmethod
    def restore(cls, saved: MonitorSnapshot, name_of: Callable[[int], str] | None) -> SlotMonitor:
        """One that goes on from what is remembered."""
        made = cls(saved.max_grade, name_of)
        made._early, made._stride = saved.early, saved.stride
        made._waiting, made.alarms = saved.waiting, saved.alarms
        parts = [part for bound in made._interval for part in _changing(bound)]
        for part, kept in zip(parts, saved.evidence, strict=True):
            part[:] = np.frombuffer(kept)
        fresh = made._watch.arrays()
        made._watch.restore(
            {
                name: np.frombuffer(kept, fresh[name].dtype).reshape(shape)
                for name, (shape, kept) in saved.accounts.items()
                if name in fresh
            }
        )
        return made


def _changing(bound: Bound) -> tuple[Floats, Floats, Floats]:
    return bound.sums, bound.squares, bound.observed


def _row(event: Closed) -> tuple[Ints, Floats, Ints, Floats]:
    """Items, chances, places and answers of the candidates, in the order of their numbers."""
    ranking = np.frombuffer(event.ranking, dtype="<u4").astype(np.int64)
    order = np.argsort(ranking)
    answers = np.full(len(ranking), np.nan)
    answers[: len(event.grades)] = [np.nan if grade is None else grade for grade in event.grades]
    chances = np.frombuffer(event.chances) if event.chances else np.full(len(ranking), np.nan)
    places = np.argsort(np.frombuffer(event.shown, dtype="<u4")) if event.shown else order
    return ranking[order], chances, places, answers[order]
