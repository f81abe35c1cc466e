"""Ctrl-C, held back where it would be lost or do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Hold Ctrl-C back: raised inside the compiler, it would be lost, and while writing it leaves half a file.

    Afterwards it goes where it would have gone: a process that was started to ignore it, by nohup, does.

    >>> with interrupt_later():
    ...     print(2)
    2
    """
    if threading.current_thread() is not threading.main_thread():  # it is raised in that one alone
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
