"""OpenAPI 3.1 description, generated from the table of endpoints and the Structs of their bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from peekrank import __version__
from peekrank.service.api.codec import JSON, LINES, PROBLEM
from peekrank.service.api.messages import ProblemReply
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS, PARAMETERS, Endpoint, Query

_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "A ranking service that learns from feedback on the first few items. The service stores feedback before it "
    "acknowledges it. Calls are safe to repeat, because the caller chooses the id of an event."
)


@cache
def openapi() -> dict[str, Any]:
    """Build the document.

    >>> sorted(openapi()["paths"])[0], openapi()["openapi"]
    ('/livez', '3.1.0')
    """
    requests = _schemas([endpoint.request for endpoint in ENDPOINTS if endpoint.request is not None])
    for name in ("RerankRequest", "Document"):
        requests[name]["additionalProperties"] = True
    replies = _schemas([*(endpoint.reply for endpoint in ENDPOINTS), ProblemReply], all_required=True)
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "peekrank", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": requests | replies,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of the service, if it has keys."}
            },
        },
    }


def _schemas(bodies: list[Any], *, all_required: bool = False) -> dict[str, dict[str, Any]]:
    """Return the schemas of bodies by name, without default values.

    Generators of clients make a field with a default value one that every request must have. In replies,
    the service writes every field that has a value, also a default one.
    """
    _, schemas = msgspec.json.schema_components(bodies, ref_template=_REFERENCE)
    for schema in schemas.values():
        fields, required = schema.get("properties", {}), schema.get("required", [])
        if all_required:
            schema["required"] = [name for name, field in fields.items() if name in required or "default" in field]
        for field in fields.values():
            field.pop("default", None)
    return schemas


def _schema(body: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([body], ref_template=_REFERENCE)
    return schema


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    media_type = LINES if endpoint.name == "batch" else JSON
    reply = {"description": "Done.", "content": {media_type: {"schema": _schema(endpoint.reply)}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *map(_query_parameter, endpoint.queries)],
        "responses": {"200": reply, **_problem_responses(endpoint)},
        "security": [{"key": []}, {}] if endpoint.role else [],
    }
    if endpoint.request is not None:
        content = {media_type: {"schema": _schema(endpoint.request)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema(kind)}
        for name, kind in PARAMETERS.items()
        if f"{{{name}}}" in endpoint.path
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


def _problem_responses(endpoint: Endpoint) -> dict[str, Any]:
    """Describe the problems of an endpoint, by status."""
    of_keys = ("no-key", "not-allowed") if endpoint.role else ()
    kinds = [*endpoint.problems, *of_keys, "head-too-large", "internal"]
    by_status: dict[str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(str(PROBLEM_TYPES[kind].status), []).append(PROBLEM_TYPES[kind].title)
    content = {PROBLEM: {"schema": _schema(ProblemReply)}}
    return {
        status: {"description": ". Or: ".join(titles) + ".", "content": content}
        for status, titles in sorted(by_status.items())
    }
