"""Detection of what a forked process cannot use: locks that a thread held, and the threads of polars.

A fork copies the memory of a process, but only the thread that forked. A lock that another thread held then stays
locked, and work that polars hands to its threads is never done.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

_SPAWN = "start processes with multiprocessing.get_context('spawn')"


class HasLock(Protocol):
    """An object that locks itself while a thread uses it."""

    _lock: Any


class _LostLock:
    """The lock of an object that a thread of another process was using."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            f"a thread was using this agent when the process was forked, so this copy is incomplete: {_SPAWN}, or "
            "load Agent.dump() here"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: it is never entered."""


_owners: WeakSet[HasLock] = WeakSet()
_polars_runs = False  # before the fork
_polars_lost = False


def lock_of(owner: HasLock) -> Lock:
    """Return a lock for an object. In a process that is forked while it is held, using it raises RuntimeError."""
    _owners.add(owner)
    return Lock()


def check_polars() -> None:
    """Raise RuntimeError if polars would hang, because the process was forked after polars started its threads."""
    if _polars_lost:
        raise RuntimeError(f"polars was used before this process was forked, and would hang here: {_SPAWN}")


def _before() -> None:
    global _polars_runs
    _polars_runs = any(name.startswith("polars") for name in _thread_names())


def _in_child() -> None:
    global _polars_lost
    _polars_lost = _polars_lost or _polars_runs
    for owner in list(_owners):
        if isinstance(owner._lock, _LostLock) or owner._lock.locked():
            owner._lock = _LostLock()


def _thread_names() -> list[str]:
    """Return the names of this process's threads, if Linux lists them."""
    with suppress(OSError):
        return [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
