"""The interface of a service that the HTTP application, the metrics and the dashboard use."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Protocol, TypeVar

from peekrank.service.api import problems
from peekrank.service.api.messages import EventReply, ItemsReply, SlotReply, StatsReply
from peekrank.service.core.commands import Command
from peekrank.service.core.details import Details

Result = TypeVar("Result")


def check_readable(service: ServiceProtocol) -> None:
    """Raise a `Problem` unless the service has read its log. A follower is readable."""
    if (reason := service.unready_reason()) and not service.slots():
        raise problems.not_ready(reason)


class ServiceProtocol(Protocol):
    """A service in process. A read may have to wait for a commit, so call it from a thread, not an event loop."""

    def submit(self, command: Command[Result]) -> Future[Result]:
        """Queue a command. The future resolves once it is in the log; a `Problem` is its exception."""
        ...

    def event(self, event_id: str, visible: Collection[str] = ()) -> EventReply:
        """Return an event of one of some slots, by default of any slot."""
        ...

    def slots(self) -> list[SlotReply]:
        """Return all slots, in the order of the configuration."""
        ...

    def slot(self, name: str) -> SlotReply:
        """Return a slot."""
        ...

    def details(self, slot: str, key: str | None = None) -> Details:
        """Return details of a slot, with its ranking for a key."""
        ...

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        """Return one page of the items of a slot, sorted by id, from the first after `after`."""
        ...

    def secret(self) -> bytes:
        """Return the key of the hashes of texts, which survives restarts. It is not in the log."""
        ...

    def stats(self) -> StatsReply:
        """Return the state of the service and of its log."""
        ...

    def live(self) -> bool:
        """Check whether the service works, or has not been started yet."""
        ...

    def unready_reason(self) -> str:
        """Return why the service does not take calls, or an empty text."""
        ...
