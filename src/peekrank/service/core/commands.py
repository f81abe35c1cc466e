"""What a service can be told to do: one value for each call that changes something, for `Service.submit`."""

from __future__ import annotations

from typing import NamedTuple

from peekrank.service.api.messages import FeedbackRequest, ItemsRequest, RankRequest


class Rank(NamedTuple):
    """Rank a list for a slot; the result is a `RankReply`."""

    slot: str
    request: RankRequest


class SubmitFeedback(NamedTuple):
    """Tell the answers to an event; the result is an `EventReply`."""

    event_id: str
    request: FeedbackRequest


class Activate(NamedTuple):
    """Say that a deferred list is shown now; the result is an `EventReply`."""

    event_id: str


class PutItems(NamedTuple):
    """Register items of a slot, or replace their descriptions; the result is a `ChangedReply`."""

    slot: str
    request: ItemsRequest


class RetireItems(NamedTuple):
    """Leave items of a slot out from now on; the result is a `ChangedReply`."""

    slot: str
    ids: tuple[str, ...]


Command = Rank | SubmitFeedback | Activate | PutItems | RetireItems
