"""Counts of a slot, kept up to date with every record, so that the dashboard never has to read the log."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

MINUTE = 60_000_000  # microseconds
DAY = 1440 * MINUTE
_DAYS = 400  # active days that are kept
_HOUR = 60  # minutes
_PARTS = 32  # cohorts of a feedback window


class Counts(Struct, array_like=True):
    """Totals since the first record."""

    n_ranked: int = 0
    explored: int = 0
    n_answered: int = 0  # events with feedback in time
    expired: int = 0
    late: int = 0  # grades that arrived too late
    n_feedback: int = 0  # grades that arrived in time
    replay_mismatches: int = 0  # rankings that came out differently on replay
    rejected_updates: int = 0  # events that the learner could not learn from
    relaxed: int = 0  # lists in which a limit could not be met


class Minute(Struct, array_like=True):
    """Counts of one minute. `value` is the sum of the mean grades of its answered events."""

    number: int  # minutes since 1970
    ranked: int = 0
    explored: int = 0
    answered: int = 0
    value: float = 0.0


class Day(Struct, array_like=True):
    """Counts of one day (UTC). `value` sums the mean grades of answered events, and `squares` their squares."""

    number: int  # days since 1970
    ranked: int = 0
    explored: int = 0
    answered: int = 0
    value: float = 0.0
    squares: float = 0.0


class Activity(Struct, array_like=True):
    """Totals, and the counts of each active minute of the last hour and of the last 400 active days."""

    counts: Counts
    minutes: list[Minute]
    days: list[Day] = []

    def day(self, time: int) -> Day:
        """Return the counts of a day, which is the latest one or a new one."""
        number = time // DAY
        if not self.days or self.days[-1].number != number:
            self.days = [*self.days[1 - _DAYS :], Day(number)]
        return self.days[-1]

    def minute(self, time: int) -> Minute:
        """Return the counts of a minute, which is the latest one or a new one."""
        number = time // MINUTE
        if not self.minutes or self.minutes[-1].number != number:
            self.minutes = [*(old for old in self.minutes if old.number > number - _HOUR), Minute(number)]
        return self.minutes[-1]

    def ranked(self, time: int, *, explored: bool) -> None:
        """Count a ranking."""
        minute, day = self.minute(time), self.day(time)
        self.counts.n_ranked += 1
        minute.ranked += 1
        day.ranked += 1
        if explored:
            self.counts.explored += 1
            minute.explored += 1
            day.explored += 1

    def answered(self, time: int, grades: list[float]) -> None:
        """Count an answered event with its grades."""
        minute, day, value = self.minute(time), self.day(time), sum(grades) / len(grades)
        self.counts.n_answered += 1
        self.counts.n_feedback += len(grades)
        minute.answered += 1
        minute.value += value
        day.answered += 1
        day.value += value
        day.squares += value * value


class Responses:
    """How many of the events whose feedback window is over have feedback, since the process started.

    Events are counted in cohorts of a 32nd of the window. Counting closed events instead would overestimate the
    response rate, because events with feedback may close at once and all others at the end of the window.

    >>> responses = Responses()
    >>> for time in range(6):
    ...     responses.ranked(time, window=4)
    ...     if time in (0, 5):
    ...         responses.answered(time)
    >>> responses.due, responses.due_answered
    (1, 1)
    """

    def __init__(self) -> None:
        self.due = self.due_answered = 0
        self._cohorts: deque[list[int]] = deque()  # start, number of rankings, number of events with feedback

    def ranked(self, time: int, window: int) -> None:
        """Count a ranking, and the events whose window of so many microseconds is over."""
        part = window // _PARTS
        while self._cohorts and self._cohorts[0][0] + part + window < time:
            _, ranked, answered = self._cohorts.popleft()
            self.due += ranked
            self.due_answered += answered
        if not self._cohorts or self._cohorts[-1][0] + part < time:
            self._cohorts.append([time, 0, 0])
        self._cohorts[-1][1] += 1

    def answered(self, ranked: int) -> None:
        """Count an event with feedback. `ranked` is the time of its ranking."""
        for cohort in reversed(self._cohorts):
            if cohort[0] <= ranked:
                cohort[2] += 1
                return


def no_activity() -> Activity:
    """Create the counts of an empty log.

    >>> activity = no_activity()
    >>> activity.ranked(0, explored=True)
    >>> activity.counts.n_ranked, activity.minutes[0].explored
    (1, 1)
    """
    return Activity(Counts(), [])
