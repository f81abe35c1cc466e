"""The description of the interface, OpenAPI 3.1, made from the table of calls and the Structs of their bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from peekrank import __version__
from peekrank.service.api.codec import JSON, LINES, MSGPACK, PROBLEM
from peekrank.service.api.messages import ProblemReply
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS, PARAMETERS, Endpoint, Query

_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "Rankings that learn from answers about the first few items. An answer that is acknowledged is written: "
    "the state of the service is what follows from its log. Calls are safe to repeat, since the caller chooses "
    "the id of an event."
)


@cache
def openapi() -> dict[str, Any]:
    """The whole document.

    >>> sorted(openapi()["paths"])[0], openapi()["openapi"]
    ('/livez', '3.1.0')
    """
    bodies = [kind for call in ENDPOINTS for kind in (call.takes, call.gives) if kind is not None]
    _, schemas = msgspec.json.schema_components([*bodies, ProblemReply], ref_template=_REFERENCE)
    paths: dict[str, Any] = {}
    for call in ENDPOINTS:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "peekrank", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of this service, if it has any."}
            },
        },
    }


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return schema


def _operation(call: Endpoint) -> dict[str, Any]:
    forms = (LINES,) if call.name == "batch" else (JSON, MSGPACK)
    made: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "parameters": [*_path_parameters(call), *map(_query_parameter, call.queries)],
        "responses": {"200": {"description": "Done.", "content": _content(call.gives, forms)}, **_refusals(call)},
        "security": [{"key": []}, {}] if call.role else [],
    }
    if call.takes is not None:
        made["requestBody"] = {"required": True, "content": _content(call.takes, forms)}
    return made


def _content(kind: Any, forms: tuple[str, ...]) -> dict[str, Any]:
    return {form: {"schema": _schema(kind)} for form in forms}


def _path_parameters(call: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema(kind)}
        for name, kind in PARAMETERS.items()
        if f"{{{name}}}" in call.path
    ]


def _query_parameter(query: Query) -> dict[str, Any]:
    schema = _schema(query.type)
    if query.repeated:
        schema = {"type": "array", "items": schema, "minItems": 1}
    return {
        "name": query.name,
        "in": "query",
        "required": query.repeated,
        "description": query.description,
        "schema": schema,
    }


def _refusals(call: Endpoint) -> dict[str, Any]:
    """What is replied when a call is refused, by status."""
    kinds = [*call.refused, *(("no-key", "not-allowed") if call.role else ()), "internal"]
    by_status: dict[str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(str(PROBLEM_TYPES[kind].status), []).append(PROBLEM_TYPES[kind].title)
    content = {PROBLEM: {"schema": _schema(ProblemReply)}}
    return {
        status: {"description": ". Or: ".join(titles) + ".", "content": content}
        for status, titles in sorted(by_status.items())
    }
