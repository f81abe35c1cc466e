"""Bodies of ``POST /v1/rerank``: the interface of common clients.

Clients send fields that this service does not know, so that its requests ignore them, unlike all others.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from peekrank.service.api.limits import MAX_ID, MAX_ITEMS
from peekrank.service.api.messages import EventId, EventReply, ItemId, Reply, Score, SlotName, described

TraceId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)", description="Trace id: 32 lower-case hex digits.")]
Yes = Annotated[bool | Literal["true", "false"] | None, described("Whether the reply repeats the texts.")]


class Document(Struct, frozen=True):
    """A document, with the caller's id and score if it has them."""

    text: Annotated[str | None, described("The text. Needed if the document has no id, or for an upstream.")] = (
        None
    )
    id: Annotated[
        ItemId | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None,
        described("The caller's id, which the log has. If missing, a keyed hash of the text."),
    ] = None
    score: Annotated[Score | None, described("Larger is better. All documents have one, or none has.")] = None


Documents = Annotated[list[str | Document], Meta(min_length=1, max_length=MAX_ITEMS)]


class RerankRequest(Struct, frozen=True):
    """Documents to rank for a query: the body of ``POST /v1/rerank``. Unknown fields are ignored."""

    query: Annotated[
        str, described("The query. The service passes it to the slot's upstream, and never stores it.")
    ]
    model: Annotated[
        str | None, described("Name of the slot, or `SLOT:KEY`. If missing, the only slot, or the default one.")
    ] = None
    documents: Annotated[Documents | None, described("Texts or objects, in the order the app would show.")] = None
    texts: Annotated[Documents | None, described("Another name of `documents`; the reply is then a list.")] = None
    top_n: Annotated[Annotated[int, Meta(ge=1)] | None, described("Number of results. All if missing.")] = None
    return_documents: Yes = None
    return_text: Yes = None
    event_id: Annotated[
        EventId | None,
        described("Optional. Also the header `Idempotency-Key`. If missing, a retry is a new event."),
    ] = None
    key: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_ID)] | None,
        described("Whom or what the list is for, if the slot takes given keys. The log has a keyed hash of it."),
    ] = None


class Text(Reply, frozen=True):
    """The text of a result."""

    text: str


class Result(Reply, frozen=True):
    """A document at its position in the new order."""

    index: Annotated[int, described("Position in the request's `documents`, from 0.")]
    relevance_score: Annotated[float, described("From 0 to 1, and lower than that of the result before.")]
    document: Annotated[Text | UnsetType, described("The text, if the request asks for it.")] = UNSET


class TextResult(Reply, frozen=True):
    """A result for a request with `texts`."""

    index: int
    score: float
    text: str | UnsetType = UNSET


class Usage(Reply, frozen=True):
    """Tokens used: none."""

    total_tokens: int = 0
    prompt_tokens: int = 0


class Version(Reply, frozen=True):
    """Version of the interface."""

    version: str = "2"


class Units(Reply, frozen=True):
    """Units to pay for: none."""

    search_units: int = 0


class RerankMeta(Reply, frozen=True):
    """Metadata of a call."""

    api_version: Version
    billed_units: Units
    warnings: Annotated[list[str], described("What went wrong on the way, such as an upstream that failed.")]


class RerankReply(Reply, frozen=True):
    """The new order."""

    id: Annotated[EventId, described("Id of the event, for feedback. Also the header `X-Peekrank-Event`.")]
    model: SlotName
    results: Annotated[list[Result], described("Sorted by falling score.")]
    top_k: Annotated[list[int], described("Positions of the documents whose feedback the learner can use.")]
    explored: Annotated[bool, described("Whether the learner explored.")]
    usage: Usage
    meta: RerankMeta


class TraceReply(Reply, frozen=True):
    """The events of a trace after feedback on them."""

    events: Annotated[list[EventReply], described("Events that had a cited document among their first k.")]
    ignored: Annotated[int, described("Cited documents that no event of the trace had among its first k.")]
