"""What HTTP, metrics and the board need of a service, whatever is below."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from peekrank.service.api import problems
from peekrank.service.api.messages import EventReply, ItemsReply, SlotReply, StatsReply
from peekrank.service.core.commands import Command


def readable(service: ServiceProtocol) -> None:
    """Raise a `Problem` unless the service has its log in memory: it can be looked at while it follows, too."""
    if (reason := service.unready_reason()) and not service.slots():
        raise problems.not_ready(reason)


class ServiceProtocol(Protocol):
    """A service in process. A read may wait for a commit under way: an event loop leaves it to a thread."""

    def submit(self, command: Command) -> Future[Any]:
        """Have a command done: the result is there once it is in the log; a `Problem` is an exception."""
        ...

    def event(self, event_id: str) -> EventReply:
        """An event that is open, or was closed not long ago."""
        ...

    def slots(self) -> list[SlotReply]:
        """All slots, in the order of the configuration."""
        ...

    def slot(self, name: str) -> SlotReply:
        """A slot."""
        ...

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        """Items of a slot in order of their ids, from the first after `after`."""
        ...

    def stats(self) -> StatsReply:
        """Where the log stands."""
        ...

    def unready_reason(self) -> str:
        """Why calls are not answered at present; empty if they are."""
        ...
