"""Counts of a slot, kept up to date with every record, so that the dashboard never has to read the log."""

from __future__ import annotations

from msgspec import Struct

MINUTE = 60_000_000  # microseconds
_HOUR = 60  # minutes


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


class Minute(Struct, array_like=True):
    """Counts of one minute. `value` is the sum of the mean grades of its answered events."""

    number: int  # minutes since 1970
    ranked: int = 0
    explored: int = 0
    answered: int = 0
    value: float = 0.0


class Activity(Struct, array_like=True):
    """Totals, and the counts of each active minute of the last hour."""

    counts: Counts
    minutes: list[Minute]

    def minute(self, time: int) -> Minute:
        """Return the counts of a minute, which is the latest one or a new one."""
        number = time // MINUTE
        if not self.minutes or self.minutes[-1].number != number:
            self.minutes = [*(old for old in self.minutes if old.number > number - _HOUR), Minute(number)]
        return self.minutes[-1]

    def ranked(self, time: int, *, explored: bool) -> None:
        """Count a ranking."""
        minute = self.minute(time)
        self.counts.n_ranked += 1
        minute.ranked += 1
        if explored:
            self.counts.explored += 1
            minute.explored += 1

    def answered(self, time: int, grades: list[int]) -> None:
        """Count an answered event with its grades."""
        minute = self.minute(time)
        self.counts.n_answered += 1
        self.counts.n_feedback += len(grades)
        minute.answered += 1
        minute.value += sum(grades) / len(grades)


def no_activity() -> Activity:
    """Create the counts of an empty log.

    >>> activity = no_activity()
    >>> activity.ranked(0, explored=True)
    >>> activity.counts.n_ranked, activity.minutes[0].explored
    (1, 1)
    """
    return Activity(Counts(), [])
