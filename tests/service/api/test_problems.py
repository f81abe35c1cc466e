"""Problems say what is wrong and what would be valid."""

from __future__ import annotations

import msgspec
import pytest

from peekrank.service.api import problems
from peekrank.service.api.codec import problem_reply
from peekrank.service.api.problems import PROBLEM_TYPES, Problem

PROBLEMS = {
    "malformed": problems.malformed("JSON is malformed: invalid character (byte 0)"),
    "invalid": problems.invalid("Expected `str`, got `int`", "$.items[0]"),
    "unknown-slot": problems.unknown_slot("hone", ["search", "home"]),
    "unknown-event": problems.unknown_event("e1"),
    "unknown-item": problems.unknown_item(["tee"], ["tea", "coffee"]),
    "other-request": problems.other_request("e1"),
    "other-answer": problems.other_answer("e1"),
    "closed": problems.closed("e1"),
    "too-large": problems.too_large("1,001 items", 1000),
    "too-many-open": problems.too_many_open("home", 10),
    "overloaded": problems.overloaded(1),
    "not-ready": problems.not_ready("the log is still read"),
    "not-owner": problems.not_owner(),
    "store": problems.store_failed(),
}


def test_a_problem_has_its_type_status_title_and_detail() -> None:
    for kind, problem in PROBLEMS.items():
        assert problem.kind == kind
        reply = msgspec.json.decode(msgspec.json.encode(problem_reply(problem)))
        assert reply["type"] == f"/problems/{kind}"
        assert reply["status"] == PROBLEM_TYPES[kind].status == problem.status
        assert reply["title"] == PROBLEM_TYPES[kind].title
        assert reply["detail"] == str(problem)


def test_retries_are_suggested_only_where_they_can_help() -> None:
    assert {kind for kind, problem in PROBLEMS.items() if problem.retry_after} == {
        kind for kind in PROBLEMS if PROBLEM_TYPES[kind].status in (429, 503)
    }


def test_the_nearest_name_is_given() -> None:
    assert (
        "did you mean 'home'? Known: 'home', 'search'" in problems.unknown_slot("hone", ["search", "home"]).detail
    )
    assert problems.unknown_slot("x", []).detail == "no slot is called 'x'. This service has no slots."
    assert "did you mean 'tea'?" in PROBLEMS["unknown-item"].detail
    many = problems.unknown_item([f"n{i}" for i in range(9)], ["tea"]).detail
    assert "9 unknown items: 'n0', 'n1', 'n2', 'n3', 'n4' and 4 more." in many


def test_untrusted_text_is_shortened_and_has_no_control_characters() -> None:
    said = problems.unknown_event("\x1b[31m" + "e" * 5000).detail
    assert "\x1b" not in said
    assert len(said) < 200


def test_a_problem_can_be_raised() -> None:
    with pytest.raises(Problem, match="a different request"):
        raise problems.other_request("e1")
