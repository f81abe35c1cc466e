"""Bodies over HTTP: read within limits, decoded and validated in one pass, encoded as JSON."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from peekrank._util.text import excerpt
from peekrank.service.api import problems
from peekrank.service.api.limits import MAX_ID
from peekrank.service.api.messages import ProblemReply
from peekrank.service.api.problems import Problem

JSON = "application/json"
PROBLEM = "application/problem+json"
LINES = "application/x-ndjson"
SECONDS = 10.0  # time limit for a body
_LONGEST = 200  # characters of a reason

_ERROR = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.S)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.S)
_encode = msgspec.json.Encoder().encode


async def read_body(request: Request, limit: int) -> bytes:
    """Read a whole body. Raises a `Problem` if it has more bytes than the limit, or is too slow."""
    if int(request.headers.get("content-length", 0)) > limit:
        raise problems.body_too_large(limit)
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(SECONDS):
            size, more = 0, True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise problems.malformed("the connection was closed before the end")
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > limit:
                    raise problems.body_too_large(limit)
    except TimeoutError:
        raise problems.too_slow(SECONDS) from None
    return b"".join(parts)


def content_type(request: Request) -> str:
    """Return the media type of a request, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def decode_body(request: Request, into: Any, limit: int) -> Any:
    """Read and validate the body of a call."""
    if content_type(request) != JSON:
        raise problems.wrong_type(request.headers.get("content-type", ""), JSON)
    return decode(await read_body(request, limit), into)


def decode(body: bytes, into: Any) -> Any:
    """Decode JSON into a Struct, and validate it. Raises a `Problem` if that fails.

    >>> from peekrank.service.api.messages import RankRequest
    >>> decode(b'{"items": ["tea", "cake"]}', RankRequest).items
    ['tea', 'cake']
    >>> decode(b'{"item": ["tea"]}', RankRequest)
    Traceback (most recent call last):
    peekrank.service.api.problems.Problem: unknown field `item`; did you mean `items`?
    """
    try:
        return _decoder(into).decode(body)
    except msgspec.ValidationError as error:
        raise _as_problem(str(error), into) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise problems.malformed(str(error)) from None


@cache
def _decoder(into: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(into)


def _as_problem(message: str, into: Any) -> Problem:
    """Turn a validation error of msgspec into a problem."""
    error = _ERROR.match(message)
    reason, where = (error["reason"], error["where"]) if error else (message, None)
    if unknown := _UNKNOWN.match(reason):
        return problems.unknown_field(unknown["name"], _field_names(into), where)
    if "matching regex" in reason:
        reason = (
            f"Expected a name of 1 to {MAX_ID} characters. Names of events and slots consist of letters, digits "
            "and . _ : ~ -, and start with a letter or digit. Names of items must not contain control characters"
        )
    else:
        reason = excerpt(reason, _LONGEST)  # it may quote a value
    return problems.invalid(f"{where}: {reason}" if where else reason, where)


@cache
def _field_names(into: Any) -> tuple[str, ...]:
    """List all names of fields that a body may have, at any depth."""
    _, schemas = msgspec.json.schema_components([into])
    return tuple(dict.fromkeys(name for schema in schemas.values() for name in schema.get("properties", ())))


def problem_reply(problem: Problem) -> ProblemReply:
    """Convert a problem to the document that the caller gets."""
    return ProblemReply(
        type=f"/problems/{problem.kind}",
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        message=problem.detail,
        field=problem.field,
        retry_after=problem.retry_after,
    )


def encode_reply(reply: Any, status: int = 200) -> Response:
    """Encode a reply as JSON."""
    return Response(_encode(reply), status, media_type=JSON)


def encode_problem(problem: Problem) -> Response:
    """Encode a problem document, with the headers that its type needs."""
    headers = {} if problem.retry_after is None else {"retry-after": f"{problem.retry_after:.0f}"}
    if problem.kind == "no-key":
        headers["www-authenticate"] = 'Bearer realm="peekrank", Basic realm="peekrank"'
    return Response(_encode(problem_reply(problem)), problem.status, headers, media_type=PROBLEM)
