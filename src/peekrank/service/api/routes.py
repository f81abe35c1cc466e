"""The table of all HTTP endpoints. The server's routes and ``/openapi.json`` are generated from it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from peekrank.service.api.limits import MAX_ITEMS
from peekrank.service.api.messages import (
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
    ReloadReply,
    SlotName,
    SlotReply,
    SlotsReply,
    StatsReply,
)
from peekrank.service.api.rerank_messages import RerankReply, RerankRequest, TextResult, TraceId, TraceReply

Role = Literal["reader", "app", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # an admin may make all calls


class Query(NamedTuple):
    """A query parameter."""

    name: str
    type: Any
    description: str
    repeated: bool = False


class Endpoint(NamedTuple):
    """An endpoint: its address, the role it needs, its request and reply, and its problems."""

    method: str
    path: str
    name: str  # the method of `Endpoints` that handles it
    summary: str
    role: Role | None  # None: no key needed
    reply: Any
    request: Any = None
    problems: tuple[str, ...] = ()  # types of problems beside those that any call may have
    queries: tuple[Query, ...] = ()
    aliases: tuple[str, ...] = ()  # other paths, which the description leaves out


PARAMETERS = {"slot": SlotName, "event_id": EventId, "trace_id": TraceId}  # in paths
PAGE = 100  # default number of items per page
LIMIT = Query("limit", int, f"Number of items to list, 1 to {MAX_ITEMS}. {PAGE} by default.")
AFTER = Query("after", ItemId, "List items whose ids come after this one.")
IDS = Query("id", ItemId, "Item to retire. Can be repeated.", repeated=True)

_WRITES = ("not-ready", "not-owner", "store", "overloaded")
_BODY = ("malformed", "invalid", "wrong-type", "too-large", "too-slow")

ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/slots/{slot}/rank",
        "rank",
        "Rank a list. Safe to repeat: the same event id and body return the same ranking.",
        "app",
        RankReply,
        RankRequest,
        (*_BODY, *_WRITES, "unknown-slot", "unknown-item", "other-request", "too-many-open"),
    ),
    Endpoint(
        "POST",
        "/v1/rerank",
        "rerank",
        "Rank documents for a query, in the interface of reranking services. Also at /v2/rerank and /rerank.",
        "app",
        RerankReply | list[TextResult],
        RerankRequest,
        (*_BODY, *_WRITES, "unknown-slot", "other-request", "too-many-open", "upstream"),
        aliases=("/v2/rerank", "/rerank"),
    ),
    Endpoint(
        "PUT",
        "/v1/events/trace:{trace_id}/feedback",
        "trace_feedback",
        "Submit a grade on the rerank calls of a trace, by the trace id in their `traceparent`. Safe to repeat.",
        "app",
        TraceReply,
        FeedbackRequest,
        (*_BODY, *_WRITES, "unknown-event", "other-answer", "closed"),
    ),
    Endpoint(
        "PUT",
        "/v1/events/{event_id}/feedback",
        "feedback",
        "Submit feedback on a list. Safe to repeat.",
        "app",
        EventReply,
        FeedbackRequest,
        (*_BODY, *_WRITES, "unknown-event", "unknown-item", "other-request", "other-answer", "closed"),
    ),
    Endpoint(
        "POST",
        "/v1/events/{event_id}/activate",
        "activate",
        "Report that a deferred list is now shown, so that it waits for feedback. Safe to repeat.",
        "app",
        EventReply,
        None,
        (*_WRITES, "invalid", "unknown-event", "other-request", "closed"),
    ),
    Endpoint("GET", "/v1/events/{event_id}", "event", "Get an event.", "app", EventReply, None,
         ("invalid", "unknown-event", "other-request", "not-ready")),
    Endpoint(
        "POST",
        "/v1/batch",
        "batch",
        "Make many calls at once: one line of JSON per call, and one line with its status per reply.",
        "app",
        BatchReply,
        BatchLine,
        ("malformed", "wrong-type", "too-large", "too-slow"),
    ),
    Endpoint("GET", "/v1/slots", "slots", "List the slots.", "reader", SlotsReply, None, ("not-ready",)),
    Endpoint("GET", "/v1/slots/{slot}", "slot", "Get a slot.", "reader", SlotReply, None,
         ("invalid", "unknown-slot", "not-ready")),
    Endpoint("GET", "/v1/slots/{slot}/items", "items", "List the items of a slot, sorted by id.", "reader",
         ItemsReply, None, ("invalid", "unknown-slot", "not-ready"), (LIMIT, AFTER)),
    Endpoint(
        "PUT",
        "/v1/slots/{slot}/items",
        "put_items",
        "Register items, or replace the features of known ones. Safe to repeat.",
        "admin",
        ChangedReply,
        ItemsRequest,
        (*_BODY, *_WRITES, "unknown-slot"),
    ),
    Endpoint(
        "DELETE",
        "/v1/slots/{slot}/items",
        "retire_items",
        "Retire items: the service no longer ranks them. Safe to repeat.",
        "admin",
        ChangedReply,
        None,
        (*_WRITES, "invalid", "unknown-slot", "unknown-item"),
        (IDS,),
    ),
    Endpoint(
        "POST",
        "/v1/admin/reload",
        "reload",
        "Read the configuration file again, and change what needs no restart: all of it, or nothing.",
        "admin",
        ReloadReply,
        None,
        (*_WRITES, "needs-restart"),
    ),
    Endpoint("GET", "/v1/stats", "stats", "Get the state of the service.", "reader", StatsReply, None,
         ("not-ready",)),
    Endpoint("GET", "/livez", "live", "Check whether the process works.", None, HealthReply),
    Endpoint("GET", "/readyz", "ready", "Check whether the service takes calls.", None,
         HealthReply, None, ("not-ready", "store")),
)  # fmt: skip
