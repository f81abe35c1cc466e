"""Commands: one value for every call that changes something, for `Service.submit`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from peekrank.service.api import problems
from peekrank.service.api.messages import (
    ChangedReply,
    EventReply,
    FeedbackRequest,
    ItemsRequest,
    RankReply,
    RankRequest,
)
from peekrank.service.core.citations import cited_positions

if TYPE_CHECKING:
    from peekrank.service.core.slot_manager import SlotManager

Result = TypeVar("Result", covariant=True)
Visible = Collection[str]  # slots whose events the caller may see; empty means all
ALL: Visible = frozenset()


class Command(Protocol[Result]):
    """A change to the slots of a service."""

    def run(self, manager: SlotManager) -> Result:
        """Apply the change. Raises a `Problem`, before anything changes, if it is invalid."""
        ...


class Rank(NamedTuple):
    """Rank a list for a slot."""

    slot: str
    request: RankRequest
    visible: Visible = ALL

    def run(self, manager: SlotManager) -> RankReply:
        """Rank the list, or return the stored ranking if the event exists."""
        slot, request = manager.slot(self.slot), self.request
        if request.visitor is not None:  # no record and no digest has the text
            request = msgspec.structs.replace(request, visitor=manager.visitor(request.visitor))
        event_id = request.event_id
        known = {} if event_id is None else manager.find_events(event_id, self.visible)
        if event := known.get(self.slot):
            return slot.repeat_rank(event, request)
        if known:
            raise problems.other_request(str(event_id))
        return slot.rank(request)


class SubmitFeedback(NamedTuple):
    """Submit feedback on an event."""

    event_id: str
    request: FeedbackRequest
    visible: Visible = ALL

    def run(self, manager: SlotManager) -> EventReply:
        """Apply the feedback."""
        slot, event = manager.event(self.event_id, self.visible)
        reply = slot.submit_feedback(event, self.request)
        if self.request.cited is None:
            return reply
        ignored = cited_positions(slot.state, event, self.request).count(None)
        return msgspec.structs.replace(reply, ignored=ignored)


class Activate(NamedTuple):
    """Report that a deferred list is now shown."""

    event_id: str
    visible: Visible = ALL

    def run(self, manager: SlotManager) -> EventReply:
        """Activate the event."""
        slot, event = manager.event(self.event_id, self.visible)
        return slot.activate(event)


class PutItems(NamedTuple):
    """Register items of a slot, or replace their features."""

    slot: str
    request: ItemsRequest

    def run(self, manager: SlotManager) -> ChangedReply:
        """Register the items."""
        return manager.slot(self.slot).put_items(self.request)


class RetireItems(NamedTuple):
    """Retire items of a slot."""

    slot: str
    ids: tuple[str, ...]

    def run(self, manager: SlotManager) -> ChangedReply:
        """Retire the items."""
        return manager.slot(self.slot).retire_items(self.ids)


class CloseDueEvents(NamedTuple):
    """Close all events whose feedback window is over."""

    def run(self, manager: SlotManager) -> None:
        """Do nothing: every batch starts by closing due events."""
