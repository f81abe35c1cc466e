"""Render the reference of all HTTP calls from the table of routes; the site has it as service/http.md."""

from __future__ import annotations

import re
from typing import Any

from peekrank.service.openapi import openapi
from peekrank.service.problems import KINDS
from peekrank.service.routes import CALLS, Call

_PURPOSE = """\
Every call, with its parameters and its reply. Programs find the same at `/openapi.json`, as OpenAPI 3.1.

Bodies are JSON, or msgpack (`Content-Type: application/msgpack`). Replies are JSON unless `Accept` asks for
msgpack. The service rejects unknown fields. If it has keys, send `Authorization: Bearer KEY`. The role that a
key needs stands beside each call; `admin` may make all of them. The service copies a `traceparent` header into
the reply and the log."""
_PROBLEMS = """\
The service reports errors as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, and
where it helps `field` and `retry_after`. The `type` is an address at which the service returns the sentence
below. After 408, 429 and 503 you may repeat the same call."""
_PAGES = """\
`GET /metrics` returns Prometheus metrics (role `reader`), `GET /` the board (`reader`), and `GET /openapi.json`
the description (anybody)."""
_FIELDS = ("field", "type", "what")
_SAFE = re.compile(r"\|")


def reference() -> str:
    """Return the whole page."""
    schemas = openapi()["components"]["schemas"]
    parts = [
        "# HTTP calls",
        _PURPOSE,
        _table(("call", "role", "what it does"), [_overview(call) for call in CALLS]),
        _PAGES,
        "## Each call",
        *(part for call in CALLS for part in _section(call)),
        "## Bodies",
        *(part for name, schema in sorted(schemas.items()) for part in _body(name, schema)),
        "## Problems",
        _PROBLEMS,
        _table(("type", "status", "title", "meaning"), [_problem(kind) for kind in KINDS]),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(call: Call) -> list[str]:
    return [f"[`{call.method} {call.path}`](#{call.name.replace('_', '-')})", call.role or "anybody", call.summary]


def _section(call: Call) -> list[str]:
    takes = "" if call.takes is None else f" Body: {_names(call.takes)}."
    queries = [[f"`{query.name}`", "query", query.description] for query in call.queries]
    statuses = ", ".join(f"`{kind}` ({KINDS[kind].status})" for kind in call.refused)
    return [
        f"### {call.name.replace('_', '-')}",
        f"`{call.method} {call.path}`. {call.summary}{takes} Reply: {_names(call.gives)}.",
        *([_table(_FIELDS, queries)] if queries else []),
        *([f"Problems: {statuses}."] if statuses else []),
    ]


def _names(kind: Any) -> str:
    kinds = getattr(kind, "__args__", (kind,))
    return " or ".join(f"[{one.__name__}](#{one.__name__.lower()})" for one in kinds)


def _body(name: str, schema: dict[str, Any]) -> list[str]:
    needed = schema.get("required", ())
    rows = [
        [f"`{field}`{' (required)' if field in needed else ''}", _type(one), one.get("description", "")]
        for field, one in schema["properties"].items()
    ]
    return [f"### {name}", schema["description"], _table(_FIELDS, rows)]


def _type(schema: dict[str, Any]) -> str:
    """Describe the type of a field in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object":
        return f"map to {_type(schema.get('additionalProperties', {}))}"
    kind = str(schema.get("type", ""))
    return {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(kind, kind)


def _problem(kind: str) -> list[str]:
    status, title, meaning = KINDS[kind]
    return [f"`/problems/{kind}`", str(status), title, meaning]


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(_SAFE.sub(" or ", cell) for cell in row) + " |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])
