"""Report that kernels are being compiled, if it takes longer than a second.

The messages go to the logger ``peekrank.kernels`` at level INFO, and to standard error unless the application has
configured logging. Silence them with ``logging.getLogger("peekrank.kernels").setLevel("WARNING")``.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer

LOGGER = logging.getLogger("peekrank.kernels")
_PATIENCE = 1.0  # seconds


class _StandardError(logging.Handler):
    """Print messages on standard error, unless the application has handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            with suppress(ValueError, OSError):  # the stream may be closed
                print(f"peekrank: {record.getMessage()}", file=sys.stderr)  # noqa: T201


def report_on_stderr() -> None:
    """Send the messages to standard error."""
    LOGGER.handlers = [_StandardError()]
    LOGGER.setLevel(logging.INFO)


class _Compiling:
    """Time spent compiling kernels, and whether a message was printed."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.since: float | None = None
        self.announced = False  # in this process

    def announce(self, *, kept: bool) -> None:
        with self.lock:
            if self.since is not None and not self.announced:
                self.announced = True
                LOGGER.info("compiling kernels%s", " (once per machine)" if kept else "")


_COMPILING = _Compiling()


@contextmanager
def compiling(*, kept: bool) -> Iterator[None]:
    """Report the compilation of a kernel: the start once per process, the end with its duration.

    Parameters
    ----------
    kept
        Whether the machine code is kept on disk.
    """
    began = time.monotonic()
    timer = Timer(_PATIENCE, _COMPILING.announce, kwargs={"kept": kept})
    timer.daemon = True
    with _COMPILING.lock:
        _COMPILING.since = began
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with _COMPILING.lock:
            _COMPILING.since = None
        if (duration := time.monotonic() - began) >= _PATIENCE:
            LOGGER.info("compiled kernels in %.1f s", duration)


def seconds_compiling() -> float | None:
    """Return for how many seconds a kernel has been compiled so far, or None if none is."""
    since = _COMPILING.since
    return None if since is None else time.monotonic() - since


if LOGGER.level == logging.NOTSET:  # otherwise the application has already chosen a level
    report_on_stderr()
