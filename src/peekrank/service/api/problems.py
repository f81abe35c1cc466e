"""Problems: every way in which a call can fail, with its HTTP status and its sentence.

The service returns a `Problem` as ``application/problem+json`` (RFC 9457). Its `type` is an address that the
service itself serves, so that anyone who sees one in a log can look it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from peekrank._util.text import excerpt, pluralize
from peekrank.service.api.limits import MAX_ID


class ProblemType(NamedTuple):
    """A type of problem: its HTTP status, a title, and what it means for the caller."""

    status: int
    title: str
    meaning: str


PROBLEM_TYPES = {
    "malformed": ProblemType(400, "Malformed body", "The body is not JSON. The same call will fail again."),
    "no-key": ProblemType(401, "Key required", "Send `Authorization: Bearer KEY` with a key of this service."),
    "not-allowed": ProblemType(
        403, "Key not allowed", "A key has a role and, optionally, a list of slots. This call needs another key."
    ),
    "no-such-page": ProblemType(404, "No such address", "`/openapi.json` lists all addresses."),
    "unknown-slot": ProblemType(404, "Unknown slot", "The configuration of the service names its slots."),
    "unknown-event": ProblemType(
        404, "Unknown event", "The service never ranked this event, or closed it so long ago that it was deleted."
    ),
    "unknown-item": ProblemType(404, "Unknown item", "Register items before you rank or retire them."),
    "wrong-host": ProblemType(
        421, "Wrong host", "Call the service by its own name, and not from a page of another site."
    ),
    "wrong-method": ProblemType(405, "Wrong method", "The header `Allow` lists the methods of this address."),
    "too-slow": ProblemType(408, "Body too slow", "The body did not arrive in time. Nothing was changed. Retry."),
    "other-request": ProblemType(
        409,
        "Event id already used",
        "An event id belongs to one request. Repeat the same request to get the same ranking, or choose a new id.",
    ),
    "other-answer": ProblemType(
        409,
        "Event already answered",
        "The first feedback counts. You can repeat it, but not replace it. Nothing was changed.",
    ),
    "needs-restart": ProblemType(
        409,
        "Restart needed",
        "The file changes fields that a running service cannot change, or is not valid. Nothing was changed.",
    ),
    "closed": ProblemType(
        410,
        "Event closed",
        "The feedback window is over. Late feedback is logged and counted, but not learned from.",
    ),
    "too-large": ProblemType(
        413, "Call too large", "`/openapi.json` lists the limits. Register items to send their features once."
    ),
    "head-too-large": ProblemType(
        431, "Headers too large", "Send fewer or shorter headers, or fewer ids in the address of a call."
    ),
    "wrong-type": ProblemType(415, "Unsupported content type", "Send `application/json`."),
    "invalid": ProblemType(422, "Invalid body", "`detail` says what is wrong, and `field` where."),
    "too-many-open": ProblemType(
        429,
        "Too many open events",
        "An event stays open until it is answered or its feedback window is over. Retry, or raise the limit.",
    ),
    "upstream": ProblemType(
        503,
        "Upstream failed",
        "The reranker behind the slot did not score the documents. Nothing was changed. Retry.",
    ),
    "overloaded": ProblemType(503, "Overloaded", "Too many calls are waiting. Nothing was changed. Retry."),
    "not-ready": ProblemType(
        503, "Not ready", "The service is still reading its log, or is stopping. Nothing was changed. Retry."
    ),
    "not-owner": ProblemType(
        503,
        "Not the owner",
        "Another process ranks for this slot. This one serves reads only. Call the other one.",
    ),
    "store": ProblemType(
        503,
        "Log not writable",
        "The service acknowledges nothing that it cannot store. It recovers once its store is back. Retry.",
    ),
    "internal": ProblemType(500, "Internal error", "This is a bug. The service's log has the details."),
}


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """A call that failed.

    >>> problem = unknown_slot("hone", ["home", "search"])
    >>> problem.status, problem.detail
    (404, "no slot is called 'hone'; did you mean 'home'? Known: 'home', 'search'")
    """

    def __init__(
        self, kind: str, detail: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.field, self.retry_after = kind, detail, field, retry_after
        self.status, self.title, self.meaning = PROBLEM_TYPES[kind]


def _quote(names: Iterable[str], limit: int = 5) -> str:
    quoted = [repr(excerpt(name)) for name in names]
    return ", ".join(quoted[:limit]) + (f" and {len(quoted) - limit} more" if len(quoted) > limit else "")


def _suggest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known)[:1000], 1)
    return f"; did you mean {close[0]!r}?" if close else "."


def malformed(reason: str) -> Problem:
    """Report a body that is not JSON."""
    return Problem("malformed", f"the body cannot be parsed: {excerpt(reason, 200)}")


def invalid(detail: str, field: str | None = None) -> Problem:
    """Report a body that is well-formed but invalid."""
    return Problem("invalid", detail, field=field)


def unknown_field(name: str, known: Iterable[str], where: str | None = None) -> Problem:
    """Report a field that no body of this call has."""
    known = list(known)
    close = get_close_matches(name, known, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(f'`{field}`' for field in known)}"
    return Problem("invalid", f"unknown field `{excerpt(name)}`; {hint}", field=where)


def wrong_type(content_type: str, expected: str) -> Problem:
    """Report an unsupported content type."""
    reason = f"content type {excerpt(content_type)!r} is not supported" if content_type else "no Content-Type"
    return Problem("wrong-type", f"{reason}: send {expected}")


def too_slow(seconds: float) -> Problem:
    """Report a body that was not complete in time."""
    return Problem("too-slow", f"the body was not complete after {seconds:g} seconds")


def not_allowed(name: str, role: str, needed: str) -> Problem:
    """Report a key with the wrong role."""
    return Problem("not-allowed", f"key {name!r} has the role {role!r}; this call needs {needed!r}")


def not_for_all_slots(name: str) -> Problem:
    """Report a key that is limited to some slots, in a call about the whole service."""
    return Problem("not-allowed", f"key {name!r} is limited to some slots; this call is about the whole service")


def wrong_host(host: str) -> Problem:
    """Report a Host header that is not one of the service's names."""
    return Problem("wrong-host", f"{excerpt(host)!r} is not a name of this service")


def wrong_origin() -> Problem:
    """Report a cross-site call from a browser."""
    return Problem("wrong-host", "pages of other sites must not call this service from a browser")


def wrong_method(method: str) -> Problem:
    """Report a method that the address does not support."""
    return Problem("wrong-method", f"this address does not support {excerpt(method)}")


def no_such_page(path: str) -> Problem:
    """Report an unknown address."""
    return Problem("no-such-page", f"nothing is served at {excerpt(path)!r}")


def bad_name(parameter: str, value: str) -> Problem:
    """Report an invalid name in an address."""
    return Problem(
        "invalid",
        f"{parameter} {excerpt(value)!r}: must be 1 to {MAX_ID} letters, digits and . _ : ~ -, starting with a "
        "letter or digit",
        field=parameter,
    )


def unknown_slot(name: str, known: Iterable[str]) -> Problem:
    """Report an unknown slot."""
    known = sorted(known)
    listed = f" Known: {_quote(known)}" if known else " This service has no slots."
    return Problem("unknown-slot", f"no slot is called {excerpt(name)!r}{_suggest(name, known)}{listed}")


def unknown_event(event_id: str) -> Problem:
    """Report an unknown or deleted event."""
    return Problem(
        "unknown-event", f"no event has the id {excerpt(event_id)!r}: it was never ranked here, or was deleted"
    )


def unknown_trace(trace: str) -> Problem:
    """Report a trace without events in memory."""
    return Problem(
        "unknown-event", f"no rerank call in memory had the trace {trace}; send its `traceparent` header"
    )


def unknown_item(names: Iterable[str], known: Iterable[str]) -> Problem:
    """Report items that the slot does not have."""
    names = list(names)
    reason = f"unknown item {_quote(names)}" if len(names) == 1 else f"{len(names)} unknown items: {_quote(names)}"
    hint = _suggest(names[0], known) if len(names) == 1 else "."
    return Problem("unknown-item", f"{reason}{hint} Register items with PUT /v1/slots/SLOT/items")


def other_request(event_id: str) -> Problem:
    """Report an event id that was used for a different request."""
    return Problem(
        "other-request", f"event {event_id!r} was ranked for a different request; choose a new event_id"
    )


def needs_restart(fields: Iterable[tuple[str, str]]) -> Problem:
    """Report a configuration with fields that need a restart, each with the reason."""
    fields = list(fields)
    reasons = "; ".join(f"{field} needs a restart: {why}" for field, why in fields[:5])
    more = f"; and {len(fields) - 5} more" if len(fields) > 5 else ""
    return Problem("needs-restart", f"{reasons}{more}. Nothing was changed", field=fields[0][0])


def bad_configuration(reason: str) -> Problem:
    """Report a configuration that cannot be read or is not valid."""
    return Problem("needs-restart", f"{reason}. Nothing was changed")


def ambiguous_event(event_id: str) -> Problem:
    """Report an event id that callers chose in several slots."""
    return Problem("other-request", f"event {event_id!r} exists in several slots; use a key for one of them")


def other_answer(event_id: str) -> Problem:
    """Report feedback that contradicts earlier feedback."""
    return Problem("other-answer", f"event {event_id!r} already has different feedback, which stays")


def closed(event_id: str, *, is_feedback: bool = True) -> Problem:
    """Report feedback, or an activation, after the feedback window."""
    effect = "this feedback was logged as late and not learned from" if is_feedback else "it stays so"
    return Problem("closed", f"event {event_id!r} is closed; {effect}")


def too_large(subject: str, limit: int) -> Problem:
    """Report a call that exceeds a limit."""
    return Problem("too-large", f"{subject}: the limit is {limit:,}")


def body_too_large(limit: int) -> Problem:
    """Report a body that is too large."""
    return Problem("too-large", f"the body is larger than {pluralize(limit, 'byte')}")


def head_too_large(limit: int) -> Problem:
    """Report an address and headers that are too large."""
    return Problem("head-too-large", f"the address and the headers have more than {pluralize(limit, 'byte')}")


def batch_reply_too_large(limit: int) -> Problem:
    """Report a line of a batch that was not run, because the replies before it are too large together."""
    return Problem(
        "too-large",
        f"the replies to the lines before have {pluralize(limit, 'byte')}, the limit of a batch. This line was "
        "not run: send it again in another batch",
    )


def too_many_open(slot: str, limit: int) -> Problem:
    """Report a slot that has reached its limit of open events."""
    return Problem(
        "too-many-open", f"slot {slot!r} has {pluralize(limit, 'open event')}, the limit", retry_after=1.0
    )


def upstream_failed(reason: str) -> Problem:
    """Report an upstream that failed, for a slot that rejects calls then."""
    return Problem("upstream", reason, retry_after=1.0)


def overloaded(length: int) -> Problem:
    """Report a full queue."""
    return Problem("overloaded", f"{pluralize(length, 'call')} wait for the writer", retry_after=1.0)


def not_ready(reason: str) -> Problem:
    """Report that the service is still reading its log, or is stopping."""
    return Problem("not-ready", reason, retry_after=1.0)


def not_owner() -> Problem:
    """Report that another process owns the log."""
    return Problem("not-owner", "another process owns the log; this one is on standby", retry_after=1.0)


def damaged() -> Problem:
    """Report that a record was changed after it was written. The reason may name other slots."""
    return Problem("store", "the log is damaged; the messages of the service say where. Restore a backup")


def store_failed() -> Problem:
    """Report that the store did not accept a write. The reason may name machines, so only the log has it."""
    return Problem("store", "the log cannot be written; the messages of the service say why", retry_after=1.0)
