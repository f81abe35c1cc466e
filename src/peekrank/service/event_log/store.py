"""What a store must do: keep records in order, once each, for one owner at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from peekrank.service.event_log.records import Record

F = TypeVar("F", bound=Callable[..., Any])


class StoreError(OSError):
    """The store cannot do what it was asked for at present; the reason is for people. Nothing was kept."""


class NotOwnerError(StoreError):
    """Somebody else owns the log: of two processes that write, one would undo what the other acknowledged."""


def store_method(*errors: type[Exception]) -> Callable[[F], F]:
    """Decorate methods of a store: one call at a time, and errors of a driver or a disk as a StoreError.

    The store has a `_lock`, and `_failed`, which takes such an error and says it in words.
    """
    kinds: tuple[type[Exception], ...] = (*errors, OSError)

    def decorate(method: F) -> F:
        @wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            try:
                with self._lock:
                    return method(self, *arguments, **named)
            except StoreError:
                raise
            except kinds as error:
                raise StoreError(self._failed(error)) from error

        return cast("F", call)

    return decorate


class Snapshot(NamedTuple):
    """What a slot's log came to after a record, and on which machine."""

    slot: str
    number: int  # of the last record that is in it
    about: str  # JSON: format, CPU, versions
    body: bytes
    digest: bytes  # SHA-256 of the body


class Store(Protocol):
    """A place for logs, a numbered one for each slot. One process at a time owns it; any number may read it.

    Writing is fenced: `acquire` raises the epoch, and `append` fails once somebody else has raised it. All methods
    raise a StoreError where the store fails.
    """

    @property
    def shared(self) -> bool:
        """Whether several machines can have it, one as the owner, the others following."""
        ...

    @property
    def epoch(self) -> int:
        """How often the log was acquired, this process included; 0 for one that only reads."""
        ...

    def acquire(self) -> None:
        """Become the owner, and be ready to write; NotOwnerError if another process is."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Keep records, all of them or none: when this returns, they are kept."""
        ...

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Records of a slot from the first after a number on, in order, as far as they are there now."""
        ...

    def of_event(self, event: str) -> list[Record]:
        """All records of an event, in order; none if there is no such event."""
        ...

    def slots(self) -> list[str]:
        """Names of all slots that have a record."""
        ...

    def ends(self, slot: str) -> tuple[int, int]:
        """Numbers of the first and last record of a slot that are there; (1, 0) if there is none."""
        ...

    def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of its slot none but this one and the one before."""
        ...

    def snapshots(self, slot: str) -> list[Snapshot]:
        """Snapshots of a slot, the newest first."""
        ...

    def forget(self, slot: str, up_to: int, before: int) -> int:
        """Delete records up to a number that are older than a time (microseconds): how many."""
        ...

    def size(self) -> int:
        """Bytes that the store takes."""
        ...

    def close(self) -> None:
        """Let go of everything; ownership, too."""
        ...
