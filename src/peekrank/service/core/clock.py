"""Time that never goes back, whatever becomes of the clock of the machine."""

from __future__ import annotations

from collections.abc import Callable

SECOND = 1_000_000  # of times, in microseconds


class Clock:
    """Microseconds since 1970. Should the machine's clock be set back, time goes on from where it was.

    Parameters
    ----------
    source
        Seconds since 1970.
    latest
        A time that has been; what follows is not before it.

    >>> seconds = iter([10.0, 11.0, 5.0, 6.0])
    >>> clock = Clock(lambda: next(seconds))
    >>> [clock.now() / SECOND for _ in range(4)]
    [10.0, 11.0, 11.0, 12.0]
    """

    def __init__(self, source: Callable[[], float], latest: int = 0) -> None:
        self._source, self._latest, self._ahead = source, latest, 0

    def now(self) -> int:
        """The time, not before any that was told."""
        read = int(self._source() * SECOND)
        if read + self._ahead < self._latest:
            self._ahead = self._latest - read
        self._latest = read + self._ahead
        return self._latest

    def not_before(self, latest: int) -> None:
        """Have what follows not be before a time."""
        self._latest = max(self._latest, latest)
