"""All that can go wrong with a call, in one place: kinds with their status, and the sentences that are said.

A `Problem` becomes ``application/problem+json`` (RFC 9457). Its `type` is an address that the service itself
answers, so that whoever sees one in a log can read what it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from peekrank._util.text import counted, excerpt
from peekrank.service.api.messages import MAX_BODY, MAX_ID, ProblemReply


class ProblemType(NamedTuple):
    """A kind of problem: its HTTP status, a title, and what it means for whoever calls."""

    status: int
    title: str
    meaning: str


PROBLEM_TYPES = {
    "malformed": ProblemType(
        400, "The body cannot be read", "It is not JSON, or not msgpack. Sent again, it fails again."
    ),
    "no-key": ProblemType(
        401, "A key is needed", "Send `Authorization: Bearer KEY` with a key that this service knows."
    ),
    "not-allowed": ProblemType(
        403, "The key does not allow this", "Keys have a role and slots; this call needs another one."
    ),
    "no-such-page": ProblemType(404, "There is nothing at this address", "`/openapi.json` lists all addresses."),
    "unknown-slot": ProblemType(
        404, "There is no such slot", "Slots are named in the configuration of the service."
    ),
    "unknown-event": ProblemType(
        404,
        "There is no such event",
        "It was never ranked here, or it closed so long ago that it is no longer kept.",
    ),
    "unknown-item": ProblemType(404, "There is no such item", "Register items before they are ranked or retired."),
    "wrong-host": ProblemType(
        421,
        "The call was not meant for this service",
        "Call it by its own name, and not from a page of another site.",
    ),
    "wrong-method": ProblemType(405, "This address takes other methods", "The header `Allow` names them."),
    "too-slow": ProblemType(
        408, "The body came too slowly", "The connection may be bad. Nothing was done: retry."
    ),
    "other-request": ProblemType(
        409,
        "This event was ranked for another request",
        "An event id belongs to one request. Repeating it gives the stored decision; another one needs a new id.",
    ),
    "other-answer": ProblemType(
        409,
        "This event has another answer",
        "The first answer counts, and the same one may be repeated. Nothing was changed.",
    ),
    "closed": ProblemType(
        410,
        "This event is closed",
        "Its waiting time was over. A late answer is logged and counted, but not learned.",
    ),
    "too-large": ProblemType(
        413, "The call is too large", "Limits are in `/openapi.json`. Features of items can be registered."
    ),
    "wrong-type": ProblemType(415, "No such form of body", "Send `application/json` or `application/msgpack`."),
    "invalid": ProblemType(
        422, "The body does not say what is needed", "`detail` and `field` say what is wrong and where."
    ),
    "too-many-open": ProblemType(
        429,
        "Too many events are open",
        "Each is kept until it is answered or its waiting time is over. Retry later, or raise the slot's limit.",
    ),
    "overloaded": ProblemType(
        503, "The service is overloaded", "More calls wait than are taken on. Nothing was done: retry."
    ),
    "not-ready": ProblemType(
        503, "The service is not ready", "It still reads its log, or it is stopping. Nothing was done: retry."
    ),
    "not-owner": ProblemType(
        503, "Another machine decides for this slot", "A follower serves reads only. Retry at the owner."
    ),
    "store": ProblemType(
        503,
        "The log cannot be written",
        "What cannot be kept is not acknowledged. The service recovers by itself once its store is back: retry.",
    ),
    "internal": ProblemType(
        500, "A fault of the service", "This should not happen. The log of the service has the details."
    ),
}


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """A call that cannot be answered as it was asked.

    >>> problem = unknown_slot("hone", ["home", "search"])
    >>> problem.status, problem.detail
    (404, "there is no slot 'hone'; did you mean 'home'? Known: 'home', 'search'")
    """

    def __init__(
        self, kind: str, detail: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.field, self.retry_after = kind, detail, field, retry_after
        self.status, self.title, self.meaning = PROBLEM_TYPES[kind]

    @property
    def reply(self) -> ProblemReply:
        """What is sent."""
        return ProblemReply(
            type=f"/problems/{self.kind}",
            title=self.title,
            status=self.status,
            detail=self.detail,
            field=self.field,
            retry_after=self.retry_after,
        )


def problem_of(reply: ProblemReply) -> Problem:
    """The problem that a service told; one of a kind that is not known here is told as it was.

    >>> problem_of(unknown_event("e1").reply).kind
    'unknown-event'
    """
    kind = reply.type.rpartition("/")[2]
    return Problem(
        kind if kind in PROBLEM_TYPES else "internal",
        reply.detail,
        field=reply.field,
        retry_after=reply.retry_after,
    )


def _quoted(names: Iterable[str], most: int = 5) -> str:
    shown = [repr(excerpt(name)) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known)[:1000], 1)
    return f"; did you mean {close[0]!r}?" if close else "."


def malformed(reason: str) -> Problem:
    """The body is neither JSON nor msgpack, whatever its type says."""
    return Problem("malformed", f"the body cannot be read: {excerpt(reason, 200)}")


def invalid(detail: str, field: str | None = None) -> Problem:
    """The body can be read, but says something that cannot be meant."""
    return Problem("invalid", detail, field=field)


def unknown_field(name: str, known: Iterable[str], where: str | None = None) -> Problem:
    """A field that no body of this call has."""
    known = list(known)
    close = get_close_matches(name, known, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(f'`{field}`' for field in known)}"
    return Problem("invalid", f"there is no field `{excerpt(name)}`; {hint}", field=where)


def wrong_type(sent: str, known: Iterable[str]) -> Problem:
    """A body in a form that is not read here."""
    what = f"a body of type {excerpt(sent)!r}" if sent else "a body without a Content-Type"
    return Problem("wrong-type", f"{what} cannot be read here: send {' or '.join(known)}")


def too_slow(seconds: float) -> Problem:
    """A body that ended early."""
    return Problem("too-slow", f"the body was not complete after {seconds:g} seconds")


def not_allowed(name: str, role: str, needed: str) -> Problem:
    """A key of another role."""
    return Problem("not-allowed", f"key {name!r} has the role {role!r}; this call needs {needed!r}")


def wrong_host(host: str) -> Problem:
    """A name that this service does not answer to."""
    return Problem("wrong-host", f"this service does not answer to the name {excerpt(host)!r}")


def wrong_origin() -> Problem:
    """A call that a web page of somebody else's makes in a browser."""
    return Problem("wrong-host", "pages of other sites may not call this service from a browser")


def wrong_method(method: str) -> Problem:
    """A method that an address does not take."""
    return Problem("wrong-method", f"{excerpt(method)} is not a method of this address")


def no_such_page(path: str) -> Problem:
    """An address that is not served."""
    return Problem("no-such-page", f"there is nothing at {excerpt(path)!r}")


def bad_name(what: str, value: str) -> Problem:
    """A name in an address that cannot be one."""
    return Problem(
        "invalid",
        f"{what} {excerpt(value)!r}: must be 1 to {MAX_ID} letters, digits and . _ : ~ -, a letter or digit first",
        field=what,
    )


def unknown_slot(name: str, known: Iterable[str]) -> Problem:
    """No slot has this name."""
    known = sorted(known)
    listed = f" Known: {_quoted(known)}" if known else " This service has none."
    return Problem("unknown-slot", f"there is no slot {excerpt(name)!r}{_nearest(name, known)}{listed}")


def unknown_event(event_id: str) -> Problem:
    """No event has this id, or no longer."""
    return Problem("unknown-event", f"there is no event {excerpt(event_id)!r}: never ranked here, or long closed")


def unknown_items(names: Iterable[str], known: Iterable[str]) -> Problem:
    """Items that the slot does not have."""
    names = list(names)
    one = len(names) == 1
    hint = _nearest(names[0], known) if one else "."
    what = "no item" if one else f"{len(names)} items that are not known:"
    said = f"there is {what} {_quoted(names)}" if one else f"there are {what} {_quoted(names)}"
    return Problem("unknown-item", f"{said}{hint} Register items with PUT /v1/slots/SLOT/items")


def other_request(event_id: str) -> Problem:
    """An event id was used again, for something else."""
    return Problem(
        "other-request", f"event {event_id!r} was ranked for another request; take a new event_id for a new list"
    )


def other_answer(event_id: str) -> Problem:
    """An event was answered before, otherwise."""
    return Problem("other-answer", f"event {event_id!r} was answered otherwise before; its first answer stays")


def closed(event_id: str) -> Problem:
    """The waiting time of an event is over."""
    return Problem("closed", f"event {event_id!r} is closed; this answer was logged as late, and is not learned")


def too_large(what: str, most: int) -> Problem:
    """More of something than a call may have."""
    return Problem("too-large", f"{what}: at most {most:,} are taken")


def body_too_large() -> Problem:
    """A body with more bytes than are read."""
    return Problem("too-large", f"the body is larger than {counted(MAX_BODY, 'byte')}")


def too_many_open(slot: str, most: int) -> Problem:
    """A slot has as many open events as it may."""
    return Problem(
        "too-many-open",
        f"slot {slot!r} has {counted(most, 'open event')}, as many as it may have",
        retry_after=1.0,
    )


def overloaded(waiting: int) -> Problem:
    """More calls wait for the writer than are taken on."""
    return Problem("overloaded", f"{counted(waiting, 'call')} wait to be written", retry_after=1.0)


def not_ready(reason: str) -> Problem:
    """The log is still read, or the service is stopping."""
    return Problem("not-ready", reason, retry_after=1.0)


def not_owner(owner: str = "") -> Problem:
    """Another process owns the log; the one that was asked follows it."""
    where = f": it is {owner}" if owner else ""
    return Problem("not-owner", f"this process follows the log, another one writes it{where}", retry_after=1.0)


def store_failed(reason: str) -> Problem:
    """The store refuses to keep what would have been acknowledged."""
    return Problem("store", f"the log cannot be written: {excerpt(reason, 200)}", retry_after=1.0)
