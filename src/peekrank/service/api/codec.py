"""Bodies as they travel: read with limits, decoded and checked in one pass, encoded as the caller likes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from peekrank.service.api import problems
from peekrank.service.api.messages import MAX_BODY, MAX_ID
from peekrank.service.api.problems import Problem

JSON = "application/json"
MSGPACK = "application/msgpack"
PROBLEM = "application/problem+json"
LINES = "application/x-ndjson"
SECONDS = 10.0  # that a caller may take to send its body

_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.S)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.S)
_KINDS = {JSON: JSON, MSGPACK: MSGPACK, "application/x-msgpack": MSGPACK, "application/vnd.msgpack": MSGPACK}
_encode_json, _encode_msgpack = msgspec.json.Encoder().encode, msgspec.msgpack.Encoder().encode


async def read_body(request: Request) -> bytes:
    """All of a body, unless it is too large or too slow."""
    if int(request.headers.get("content-length", 0)) > MAX_BODY:
        raise problems.body_too_large()
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(SECONDS):
            size, more = 0, True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise problems.malformed("the connection was closed before its end")
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > MAX_BODY:
                    raise problems.body_too_large()
    except TimeoutError:
        raise problems.too_slow(SECONDS) from None
    return b"".join(parts)


async def decode_body(request: Request, into: Any) -> Any:
    """The body of a call, checked."""
    sent = request.headers.get("content-type", "")
    kind = _KINDS.get(sent.partition(";")[0].strip().lower())
    if kind is None:
        raise problems.wrong_type(sent, (JSON, MSGPACK))
    return decoded(await read_body(request), kind, into)


def decoded(body: bytes, kind: str, into: Any) -> Any:
    """What bytes say, checked against a Struct.

    >>> from peekrank.service.api.messages import RankRequest
    >>> decoded(b'{"items": ["tea", "cake"]}', JSON, RankRequest).items
    ['tea', 'cake']
    >>> decoded(b'{"item": ["tea"]}', JSON, RankRequest)
    Traceback (most recent call last):
    peekrank.service.api.problems.Problem: there is no field `item`; did you mean `items`?
    """
    try:
        return _decoder(kind, into).decode(body)
    except msgspec.ValidationError as error:
        raise _said(str(error), into) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise problems.malformed(str(error)) from None


@cache
def _decoder(kind: str, into: Any) -> Any:
    return (msgspec.json.Decoder if kind == JSON else msgspec.msgpack.Decoder)(into)


def _said(message: str, into: Any) -> Problem:
    """What a decoder complains about, in our words."""
    found = _WHERE.match(message)
    what, where = (found["what"], found["where"]) if found else (message, None)
    if unknown := _UNKNOWN.match(what):
        return problems.unknown_field(unknown["name"], _field_names(into), where)
    if "matching regex" in what:
        what = (
            f"Expected a name of 1 to {MAX_ID} characters: of events and slots letters, digits and . _ : ~ -, "
            "a letter or digit first; of items anything but control characters"
        )
    return problems.invalid(f"{where}: {what}" if where else what, where)


@cache
def _field_names(into: Any) -> tuple[str, ...]:
    """All names of fields that a body may have, at any depth."""
    _, schemas = msgspec.json.schema_components([into])
    return tuple(dict.fromkeys(name for schema in schemas.values() for name in schema.get("properties", ())))


def encoded(reply: Any, request: Request, status: int = 200) -> Response:
    """A reply in msgpack if the caller asks for it, otherwise in JSON."""
    if "msgpack" in request.headers.get("accept", ""):
        return Response(_encode_msgpack(reply), status, media_type=MSGPACK)
    return Response(_encode_json(reply), status, media_type=JSON)


def encoded_problem(problem: Problem) -> Response:
    """A problem, always as JSON: it is read by people, and by tools that know the type."""
    headers = {} if problem.retry_after is None else {"retry-after": f"{problem.retry_after:.0f}"}
    if problem.kind == "no-key":
        headers["www-authenticate"] = 'Bearer realm="peekrank", Basic realm="peekrank"'
    return Response(_encode_json(problem.reply), problem.status, headers, media_type=PROBLEM)


def encoded_lines(replies: Iterable[Any]) -> Response:
    """Replies to a batch, a line of JSON each."""
    return Response(msgspec.json.Encoder().encode_lines(list(replies)), media_type=LINES)
