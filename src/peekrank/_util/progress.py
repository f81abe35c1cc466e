"""Progress callbacks of long computations."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float, int], None]  # called with the amount done and the total


def no_progress(done: float, total: int) -> None:
    """Report nothing."""


def subprogress(progress: Progress, part: int, parts: int) -> Progress:
    """Return a callback that reports the progress of one part as progress of the whole.

    Parameters
    ----------
    progress
        Callback for the whole.
    part
        Number of the part, from 0.
    parts
        Number of parts.

    >>> subprogress(lambda done, total: print(done, total), part=1, parts=4)(1, 2)
    1.5 4
    """
    return lambda done, total: progress(part + done / total, parts)
