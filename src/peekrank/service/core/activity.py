"""What has happened in a slot, counted while its log is folded: nobody has to read the log to draw a board."""

from __future__ import annotations

from msgspec import Struct

MINUTE = 60_000_000  # microseconds
_HOUR = 60


class Counts(Struct, array_like=True):
    """What there was, ever."""

    n_ranked: int = 0
    explored: int = 0
    n_answered: int = 0  # events with an answer in time
    expired: int = 0
    late: int = 0  # answers
    n_feedback: int = 0
    replay_mismatches: int = 0  # rankings that came out otherwise when the log was folded again
    rejected_updates: int = 0  # events that the learner could not learn from, as it said


class Minute(Struct, array_like=True):
    """What there was in a minute; `value` is the sum of the mean grades of the events that were answered."""

    number: int  # since 1970
    ranked: int = 0
    explored: int = 0
    answered: int = 0
    value: float = 0.0


class Activity(Struct, array_like=True):
    """Counts in all, and for each of the last sixty minutes in which anything happened."""

    counts: Counts
    minutes: list[Minute]

    def minute(self, time: int) -> Minute:
        """The minute of a time, which is the last one or a new one."""
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
        """Count an event that was answered, with the grades that count."""
        minute = self.minute(time)
        self.counts.n_answered += 1
        self.counts.n_feedback += len(grades)
        minute.answered += 1
        minute.value += sum(grades) / len(grades)


def nothing_yet() -> Activity:
    """Activity before the first record.

    >>> activity = nothing_yet()
    >>> activity.ranked(0, explored=True)
    >>> activity.counts.n_ranked, activity.minutes[0].explored
    (1, 1)
    """
    return Activity(Counts(), [])
