"""Bodies are validated as they are decoded."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from peekrank.service.api import messages
from peekrank.service.api.limits import MAX_FEATURES, MAX_ID, MAX_ITEMS
from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest


def read(value: Any, into: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=into)


def test_items_are_names_or_names_with_features() -> None:
    request = read({"items": ["tea", {"id": "cake", "features": [1, -0.5]}]}, RankRequest)
    assert request == RankRequest(items=["tea", Item("cake", [1.0, -0.5])])
    binary = read({"items": [Item("tea", b"\0\0\x80\x3f")]}, RankRequest)
    assert binary.items[0].features == b"\0\0\x80\x3f"


def test_answers_by_item_or_in_order() -> None:
    assert read({"grades": {"tea": 1, "cake": None}}, FeedbackRequest).grades == {"tea": 1.0, "cake": None}
    assert read({"grades": [1, None]}, FeedbackRequest).grades == [1.0, None]


INVALID = [
    {"item": ["tea"]},
    {"items": []},
    {"items": [""]},
    {"items": ["a\n"]},
    {"items": ["a\0b"]},
    {"items": ["x" * (MAX_ID + 1)]},
    {"items": [7]},
    {"items": ["x"] * (MAX_ITEMS + 1)},
    {"items": [{"id": "tea", "features": []}]},
    {"items": [{"id": "tea", "feature": [1]}]},
    {"items": [{"id": "tea", "features": [1e39]}]},
    {"items": [{"id": "tea", "features": [1.0] * (MAX_FEATURES + 1)}]},
    {"event_id": ""},
    {"event_id": "../etc"},
    {"event_id": "a/b"},
    {"event_id": "a\n"},
    {"event_id": "é"},
    {"event_id": 1},
    {"defer": "yes"},
    {"defer": 1},
]


def test_invalid_bodies_are_rejected() -> None:
    for body in INVALID:
        with pytest.raises(msgspec.ValidationError):
            read(body, RankRequest)
    for grades in (7, {"tea": -1e10}, {"tea": "1"}, {"": 1}, [True], {"tea": 1e10}):
        with pytest.raises(msgspec.ValidationError):
            read({"grades": grades}, FeedbackRequest)


def test_features_grades_and_scores_are_finite() -> None:
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"items": [{"id": "tea", "features": [number]}]}, RankRequest)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"grades": [number]}, FeedbackRequest)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"items": [{"id": "tea", "score": number}]}, RankRequest)


def test_lines_of_a_batch_are_told_apart_by_their_call() -> None:
    line = read({"call": "activate", "event_id": "e1"}, messages.BatchLine)
    assert line == messages.BatchActivate("e1")
    line = read({"call": "rank", "slot": "home", "request": {}}, messages.BatchLine)
    assert line == messages.BatchRank("home", RankRequest())
    with pytest.raises(msgspec.ValidationError, match="call"):
        read({"call": "sing"}, messages.BatchLine)


def test_every_field_is_described_or_named_by_a_described_type() -> None:
    kinds = [
        kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    _, schemas = msgspec.json.schema_components(kinds)
    assert all(schema["description"] for schema in schemas.values())
    assert schemas["RankReply"]["properties"]["explored"]["description"].startswith("Whether the learner explored")
