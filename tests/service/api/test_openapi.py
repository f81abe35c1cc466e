"""The description of the interface is valid OpenAPI 3.1, and says what the server does."""

from __future__ import annotations

from openapi_spec_validator import validate

from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.api.routes import ENDPOINTS


def test_the_document_is_valid() -> None:
    validate(openapi())


def test_every_call_is_in_it() -> None:
    for call in ENDPOINTS:
        operation = openapi()["paths"][call.path][call.method.lower()]
        assert operation["operationId"] == call.name
        statuses = {str(PROBLEM_TYPES[kind].status) for kind in call.problems}
        assert statuses <= set(operation["responses"])
        assert ("requestBody" in operation) == (call.request is not None)


def test_every_body_is_described_field_by_field() -> None:
    schemas = openapi()["components"]["schemas"]
    for name, schema in schemas.items():
        assert schema["description"], name
    assert schemas["RankRequest"]["properties"]["defer"]["description"].startswith("The list may never be shown")
    assert schemas["RankRequest"]["additionalProperties"] is False
