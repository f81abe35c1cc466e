"""The table of all calls over HTTP, from which both the routes of the server and ``/openapi.json`` are made."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from peekrank.service.api.messages import (
    MAX_ITEMS,
    BatchLine,
    BatchReply,
    ChangedReply,
    EventId,
    EventReply,
    FeedbackRequest,
    HealthReply,
    ItemId,
    ItemsReply,
    ItemsRequest,
    RankReply,
    RankRequest,
    SlotName,
    SlotReply,
    SlotsReply,
    StatsReply,
)

Role = Literal["reader", "app", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # admin may do everything


class Query(NamedTuple):
    """A parameter after the question mark of an address."""

    name: str
    type: Any
    description: str
    repeated: bool = False


class Endpoint(NamedTuple):
    """A call: its address, who may make it, what it takes and gives, and what it is refused for."""

    method: str
    path: str
    name: str  # of the method of `Endpoints` that answers it
    summary: str
    role: Role | None  # None: anybody
    gives: Any
    takes: Any = None
    refused: tuple[str, ...] = ()  # kinds of problems beside those that any call may have
    queries: tuple[Query, ...] = ()


PARAMETERS = {"slot": SlotName, "event_id": EventId}  # within paths
PAGE = 100  # items that are listed if nothing is said
LIMIT = Query("limit", int, f"How many items to list, 1 to {MAX_ITEMS}; {PAGE} if left out.")
AFTER = Query("after", ItemId, "List items whose ids come after this one.")
IDS = Query("id", ItemId, "Item to retire; can be repeated.", repeated=True)

_WRITES = ("not-ready", "not-owner", "store", "overloaded")
_BODY = ("malformed", "invalid", "wrong-type", "too-large", "too-slow")

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/slots/{slot}/rank",
        "rank",
        "Rank a list. Safe to repeat: the same event id and body give the stored decision.",
        "app",
        RankReply,
        RankRequest,
        (*_BODY, *_WRITES, "unknown-slot", "unknown-item", "other-request", "too-many-open"),
    ),
    Endpoint(
        "PUT",
        "/v1/events/{event_id}/feedback",
        "feedback",
        "Tell what people said of a list. Safe to repeat.",
        "app",
        EventReply,
        FeedbackRequest,
        (*_BODY, *_WRITES, "unknown-event", "unknown-item", "other-answer", "closed"),
    ),
    Endpoint(
        "POST",
        "/v1/events/{event_id}/activate",
        "activate",
        "Say that a deferred list is shown now: it begins to wait for answers. Safe to repeat.",
        "app",
        EventReply,
        None,
        (*_WRITES, "invalid", "unknown-event", "closed"),
    ),
    Endpoint("GET", "/v1/events/{event_id}", "event", "Look at an event.", "app", EventReply, None,
         ("invalid", "unknown-event", "not-ready")),
    Endpoint(
        "POST",
        "/v1/batch",
        "batch",
        "Make many calls at once: a line of JSON for each, and a line with its status for each in the reply.",
        "app",
        BatchReply,
        BatchLine,
        ("malformed", "wrong-type", "too-large", "too-slow"),
    ),
    Endpoint("GET", "/v1/slots", "slots", "List the slots.", "reader", SlotsReply, None, ("not-ready",)),
    Endpoint("GET", "/v1/slots/{slot}", "slot", "Look at a slot.", "reader", SlotReply, None,
         ("invalid", "unknown-slot", "not-ready")),
    Endpoint("GET", "/v1/slots/{slot}/items", "items", "List the items of a slot, in order of their ids.", "reader",
         ItemsReply, None, ("invalid", "unknown-slot", "not-ready"), (LIMIT, AFTER)),
    Endpoint(
        "PUT",
        "/v1/slots/{slot}/items",
        "put_items",
        "Register items, or replace the descriptions of known ones. Safe to repeat.",
        "admin",
        ChangedReply,
        ItemsRequest,
        (*_BODY, *_WRITES, "unknown-slot"),
    ),
    Endpoint(
        "DELETE",
        "/v1/slots/{slot}/items",
        "retire_items",
        "Retire items: they are not ranked any more. Safe to repeat.",
        "admin",
        ChangedReply,
        None,
        (*_WRITES, "invalid", "unknown-slot", "unknown-item"),
        (IDS,),
    ),
    Endpoint("GET", "/v1/stats", "stats", "Look at the service as a whole.", "reader", StatsReply, None,
         ("not-ready",)),
    Endpoint("GET", "/livez", "live", "Whether the process works.", None, HealthReply),
    Endpoint("GET", "/readyz", "ready", "Whether calls are answered: after the log is read, until the stop.", None,
         HealthReply, None, ("not-ready", "store")),
)  # fmt: skip
