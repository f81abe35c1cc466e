"""What messages show of the content of files."""

from __future__ import annotations

from peekrank._util.text import excerpt


def test_an_excerpt_of_just_the_right_length_is_whole() -> None:
    assert excerpt("9999", limit=4) == "9999"
    assert excerpt("99999", limit=4) == "9999..."
