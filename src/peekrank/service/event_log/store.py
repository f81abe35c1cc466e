"""The protocol of a store: it keeps records in order, each once, for one owner at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from peekrank.service.event_log.chain import Head
from peekrank.service.event_log.records import Record

F = TypeVar("F", bound=Callable[..., Any])


class StoreError(OSError):
    """The store failed. Nothing was stored."""


class NotOwnerError(StoreError):
    """Another process owns the log. Two writers would undo each other's acknowledged calls."""


def store_method(*errors: type[Exception]) -> Callable[[F], F]:
    """Decorate methods of a store: one call at a time, and errors of the driver or disk raised as StoreError.

    The store has a `_lock`, and a method `_on_error` that takes such an error and returns a message.
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
                raise StoreError(self._on_error(error)) from error

        return cast("F", call)

    return decorate


class Snapshot(NamedTuple):
    """The state of a slot after a record, and the machine that computed it."""

    slot: str
    number: int  # of its last record
    link: bytes  # of that record
    about: str  # JSON: format, CPU, versions
    body: bytes
    digest: bytes  # SHA-256 of all other fields


class Store(Protocol):
    """A store of logs, one per slot. One process at a time owns it. Any number may read it.

    Writes are fenced: `acquire` raises the epoch, and `append` fails once another process has raised it. All
    methods raise StoreError if the store fails, and DamagedError if the log was changed after it was written.
    """

    @property
    def shared(self) -> bool:
        """Whether several machines can share it, one as the owner, the others as followers."""
        ...

    @property
    def epoch(self) -> int:
        """How often the log was acquired, including by this process. 0 for a reader."""
        ...

    def acquire(self) -> None:
        """Check the store, and become the owner. Raises NotOwnerError if another process is."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Store records, all or none. They are durable when this returns."""
        ...

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        """Yield the records of a slot after a number, in order, up to the current end."""
        ...

    def event_records(self, event: str) -> list[Record]:
        """Return all records of an event, in order, after checking them."""
        ...

    def check(self) -> None:
        """Check everything but the records themselves."""
        ...

    def heads(self) -> dict[str, Head]:
        """Return the extent of each slot's log."""
        ...

    def link(self, slot: str, number: int) -> bytes:
        """Return the link of a record, also of the last deleted one, or nothing if there is none."""
        ...

    def ends(self, slot: str) -> tuple[int, int]:
        """Return the numbers of the first and last record of a slot, or (1, 0) if it has none."""
        ...

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Save a snapshot. Of its slot, keep only this one and the one before."""
        ...

    def snapshots(self, slot: str) -> list[Snapshot]:
        """Return the snapshots of a slot, newest first."""
        ...

    def delete_records(self, slot: str, up_to: int, before: int) -> int:
        """Delete some records up to a number that are older than a time in microseconds. Returns how many."""
        ...

    def secret(self) -> bytes:
        """Return 32 random bytes, drawn at the first call. No record and no export has them."""
        ...

    def size(self) -> int:
        """Return the size of the store in bytes."""
        ...

    def close(self) -> None:
        """Release all resources, including ownership."""
        ...
