"""Deferred handling of Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Defer Ctrl-C until the block ends: the compiler would lose it, and a file would stay half written.

    The signal is then raised again for the previous handler. A process started by nohup still ignores it.

    >>> with interrupt_later():
    ...     print(2)
    2
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        signal.raise_signal(signal.SIGINT)
