"""A monotonic wall clock: it never goes back, even if the system clock does."""

from __future__ import annotations

from collections.abc import Callable

SECOND = 1_000_000  # microseconds


class Clock:
    """Microseconds since 1970. If the system clock is set back, time continues from the latest value.

    Parameters
    ----------
    source
        Returns seconds since 1970.
    latest
        The clock never returns an earlier time than this.

    >>> seconds = iter([10.0, 11.0, 5.0, 6.0])
    >>> clock = Clock(lambda: next(seconds))
    >>> [clock.now() / SECOND for _ in range(4)]
    [10.0, 11.0, 11.0, 12.0]
    """

    def __init__(self, source: Callable[[], float], latest: int = 0) -> None:
        self._source, self._latest, self._correction = source, latest, 0

    def now(self) -> int:
        """Return the time, which is never before an earlier result."""
        time = int(self._source() * SECOND)
        if time + self._correction < self._latest:
            self._correction = self._latest - time
        self._latest = time + self._correction
        return self._latest

    def not_before(self, latest: int) -> None:
        """Set the earliest time that `now` may return."""
        self._latest = max(self._latest, latest)
