"""A monotonic wall clock: it never goes back, even if the system clock does, and notices if it jumps forward."""

from __future__ import annotations

from collections.abc import Callable

SECOND = 1_000_000  # microseconds
_JUMP = 60 * SECOND  # the wall clock may gain so much on the steady clock


class Clock:
    """Microseconds since 1970. If the system clock is set back, time continues from the latest value.

    Parameters
    ----------
    source
        Returns seconds since 1970.
    steady
        Returns seconds from a monotonic clock. None if nothing counts as a jump.
    latest
        The clock never returns an earlier time than this.

    >>> seconds = iter([10.0, 11.0, 5.0, 6.0])
    >>> clock = Clock(lambda: next(seconds), lambda: 0.0)
    >>> [clock.now() / SECOND for _ in range(4)]
    [10.0, 11.0, 11.0, 12.0]
    """

    def __init__(
        self, source: Callable[[], float], steady: Callable[[], float] | None = None, latest: int = 0
    ) -> None:
        self._source, self._steady, self._latest, self._correction = source, steady, latest, 0
        self._offset: int | None = None  # of the time from the steady clock
        self.jumped = 0  # microseconds by which the time moved forward without being seen to pass

    def now(self) -> int:
        """Return the time, which is never before an earlier result."""
        time = int(self._source() * SECOND)
        if self._steady is not None:
            self._compare(time - int(self._steady() * SECOND))
        if time + self._correction < self._latest:
            self._correction = self._latest - time
        self._latest = time + self._correction
        return self._latest

    def _compare(self, offset: int) -> None:
        if self._offset is None or offset < self._offset:
            self._offset = offset
        elif offset - self._offset > _JUMP:
            self.jumped += offset - self._offset
            self._offset = offset

    def not_before(self, latest: int) -> None:
        """Set the earliest time that `now` may return."""
        self._latest = max(self._latest, latest)
