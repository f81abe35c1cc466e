"""Render the HTTP reference from the table of endpoints; the site has it as service/http.md."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS, Endpoint

_PURPOSE = """\
This page lists every HTTP call with its request, reply and problems. `/openapi.json` has the same content as
OpenAPI 3.1.

Requests and replies are JSON. The service rejects unknown fields. If it has keys, send
`Authorization: Bearer KEY`. The table gives the role that each call needs; `admin` may make all calls. The service
passes a `traceparent` header on to the reply and the log."""
_PROBLEMS = """\
The service reports problems as `application/problem+json` (RFC 9457): `type`, `title`, `status`, `detail`, and
sometimes `field` and `retry_after`. The service serves the explanation below at the address in `type`. After 408,
429 and 503, repeat the same call."""
_PAGES = """\
`GET /metrics` returns Prometheus metrics (role `reader`), `GET /` the dashboard (`reader`), and
`GET /docs` this reference and `GET /openapi.json` the OpenAPI description (no key needed)."""
_FIELDS = ("field", "type", "meaning")
_SAFE = re.compile(r"\|")


def reference() -> str:
    """Build the HTTP reference."""
    schemas = openapi()["components"]["schemas"]
    parts = [
        "# HTTP reference",
        _PURPOSE,
        _table(("call", "role", "purpose"), [_overview(endpoint) for endpoint in ENDPOINTS]),
        _PAGES,
        "## Calls",
        *(part for endpoint in ENDPOINTS for part in _section(endpoint)),
        "## Bodies",
        *(part for name, schema in sorted(schemas.items()) for part in _body(name, schema)),
        "## Problems",
        _PROBLEMS,
        _table(("type", "status", "title", "meaning"), [_problem(kind) for kind in PROBLEM_TYPES]),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(endpoint: Endpoint) -> list[str]:
    link = f"[`{endpoint.method} {endpoint.path}`](#{endpoint.name.replace('_', '-')})"
    return [link, endpoint.role or "none", endpoint.summary]


def _section(endpoint: Endpoint) -> list[str]:
    request = "" if endpoint.request is None else f" Takes {_names(endpoint.request)}."
    queries = [[f"`{query.name}`", "query", query.description] for query in endpoint.queries]
    statuses = ", ".join(f"`{kind}` ({PROBLEM_TYPES[kind].status})" for kind in endpoint.problems)
    return [
        f"### {endpoint.name.replace('_', '-')}",
        f"`{endpoint.method} {endpoint.path}`. {endpoint.summary}{request} Returns {_names(endpoint.reply)}.",
        *([_table(_FIELDS, queries)] if queries else []),
        *([f"Problems: {statuses}."] if statuses else []),
    ]


def _names(body: Any) -> str:
    if get_origin(body) is list:
        return f"a list of {_names(get_args(body)[0])}"
    if bodies := get_args(body):
        return " or ".join(map(_names, bodies))
    return f"[{body.__name__}](#{body.__name__.lower()})"


def _body(name: str, schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    rows = [
        [f"`{field}`{' (required)' if field in required else ''}", _type(one), one.get("description", "")]
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
    return {"integer": "integer", "string": "text", "boolean": "true or false"}.get(kind, kind)


def _problem(kind: str) -> list[str]:
    status, title, meaning = PROBLEM_TYPES[kind]
    return [f"`/problems/{kind}`", str(status), title, meaning]


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(_SAFE.sub(" or ", cell) for cell in row) + " |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines])
