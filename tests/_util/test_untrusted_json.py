"""Untrusted JSON: values, and nesting that is too deep."""

from __future__ import annotations

import pytest

from peekrank._util.untrusted_json import _MAX_DEPTH, read_json


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_values_come_back_as_deep_as_allowed() -> None:
    assert read_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert read_json(nested(_MAX_DEPTH)) is not None


@pytest.mark.parametrize("depth", [_MAX_DEPTH + 1, 100_000])
def test_deeper_ones_are_rejected(depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(nested(depth))
