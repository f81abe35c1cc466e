"""Write docs/service/http.md, the reference of all calls over HTTP, from the table that routes are made from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS, Endpoint

PAGE = Path(__file__).parent.parent / "docs" / "service" / "http.md"
_PURPOSE = """\
Every call, with what it takes and gives. The service itself tells the same to programs: `/openapi.json` is
OpenAPI 3.1.

Bodies are JSON, or msgpack (`Content-Type: application/msgpack`); replies are JSON unless `Accept` asks for
msgpack. A field that is not listed is refused. Where a service has keys, send `Authorization: Bearer KEY`; the
role that a key needs stands beside each call, and `admin` may make them all. A `traceparent` is carried into the
reply and the log."""
_PROBLEMS = """\
What goes wrong is told as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, and where it
helps `field` and `retry_after`. The `type` is an address that the service answers with the sentence below. After
408, 429 and 503 the same call may be repeated."""
_PAGES = """\
`GET /metrics` has Prometheus metrics (role `reader`), `GET /` is the board (`reader`), `GET /openapi.json` is the
description (anybody)."""
_FIELDS = ("field", "type", "what")
_SAFE = re.compile(r"\|")


def reference() -> str:
    """The whole page."""
    schemas = openapi()["components"]["schemas"]
    parts = [
        "# Requests over HTTP",
        "<!-- Written by scripts/calls.py; make calls writes it anew. -->",
        _PURPOSE,
        _table(("call", "role", "what it does"), [_overview(call) for call in ENDPOINTS]),
        _PAGES,
        "## Each call",
        *(part for call in ENDPOINTS for part in _section(call)),
        "## Bodies",
        *(part for name, schema in sorted(schemas.items()) for part in _body(name, schema)),
        "## Problems",
        _PROBLEMS,
        _table(("type", "status", "title", "meaning"), [_problem(kind) for kind in PROBLEM_TYPES]),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(call: Endpoint) -> list[str]:
    return [f"[`{call.method} {call.path}`](#{call.name.replace('_', '-')})", call.role or "anybody", call.summary]


def _section(call: Endpoint) -> list[str]:
    takes = "" if call.takes is None else f" Takes {_names(call.takes)}."
    queries = [[f"`{query.name}`", "query", query.description] for query in call.queries]
    statuses = ", ".join(f"`{kind}` ({PROBLEM_TYPES[kind].status})" for kind in call.refused)
    return [
        f"### {call.name.replace('_', '-')}",
        f"`{call.method} {call.path}`. {call.summary}{takes} Gives {_names(call.gives)}.",
        *([_table(_FIELDS, queries)] if queries else []),
        *([f"Problems: {statuses}."] if statuses else []),
    ]


def _names(kind: Any) -> str:
    kinds = getattr(kind, "__args__", (kind,))
    return " or ".join(f"[{one.__name__}](#{one.__name__.lower()})" for one in kinds)


def _body(name: str, schema: dict[str, Any]) -> list[str]:
    needed = schema.get("required", ())
    rows = [
        [f"`{field}`{' (needed)' if field in needed else ''}", _type(one), one.get("description", "")]
        for field, one in schema["properties"].items()
    ]
    return [f"### {name}", schema["description"], _table(_FIELDS, rows)]


def _type(schema: dict[str, Any]) -> str:
    """What a field holds, in a few words."""
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
    status, title, meaning = PROBLEM_TYPES[kind]
    return [f"`/problems/{kind}`", str(status), title, meaning]


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(_SAFE.sub(" or ", cell) for cell in row) + " |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
