"""What people do becomes grades by the rules of a slot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.services import service
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot


def told(it: Service, signals: Any, seen: Any = None, event: str = "e") -> list[float | None]:
    """What is kept of signals, by positions; so are `signals` and `seen`."""
    ask = it.rank("home", RankRequest(event_id=event)).top_k
    named = {ask[place]: report for place, report in signals.items()}
    request = FeedbackRequest(signals=named, seen=None if seen is None else [ask[place] for place in seen])
    return [it.feedback(event, request).grades[name] for name in ask]


def test_rules_with_a_cascade(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=3, max_grade=2, feedback="purchase = 2, click = 1; cascade")
    assert told(it, {1: {"click": 1}}) == [0.0, 1.0, None]
    assert told(it, {0: {"click": 1, "purchase": 1}}, event="f") == [2.0, None, None]
    assert told(it, {}, event="g") == [0.0, 0.0, 0.0]  # they looked, and did nothing
    assert take_snapshot(replay(it._store, "home")[0]).body == take_snapshot(it._manager.slots["home"].state).body
    it.close()


def test_rules_with_what_was_seen(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=3, feedback="click = 1; seen")
    assert told(it, {2: {"click": 1}}, seen=[0, 2]) == [0.0, None, 1.0]
    it.close()


def test_a_curve_is_drawn_once_for_each_event(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=2, feedback="click = 1; curve 0.9 0.5")
    means = np.zeros(2)
    for n in range(400):
        first = told(it, {0: {"click": 1}}, event=str(n))
        assert told(it, {0: {"click": 1}}, event=str(n)) == first  # repeated: the same, and no 409
        means += np.array(first, dtype=np.float64) / 400
    # estimates 1 / 0.9 and 0, on the scale from 0 to 1 / 0.5
    assert np.abs(means - [0.5 / 0.9, 0.0]).max() < 0.1
    it.close()


def test_signals_and_answers_are_not_mixed(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=2, feedback="click = 1; cascade")
    ask = it.rank("home", RankRequest(event_id="e")).top_k
    wrong = [
        (FeedbackRequest([1]), "signals is missing: this slot expects signals"),
        (FeedbackRequest(), "signals is missing: this slot expects"),
        (FeedbackRequest(signals={ask[0]: {"clik": 1}}), "no rule for the signal 'clik': did you mean 'click'"),
        (FeedbackRequest(signals={"no": {"click": 1}}), "'no' is not among the first k items"),
        (FeedbackRequest(signals={}, seen=[ask[0]]), "`seen` is required with examination 'seen'"),
    ]
    for request, said in wrong:
        with pytest.raises(Problem, match=said) as problem:
            it.feedback("e", request)
        assert problem.value.status == 422
    it.close()
    it, _ = service(tmp_path, k=2)
    with pytest.raises(Problem, match="grades is missing: this slot expects grades"):
        it.feedback("e", FeedbackRequest(signals={}))
    it.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "feedback = 'click = 1'",
            "slots.home.feedback = 'click = 1': 'click = 1' does not say which positions were examined",
        ),
        ("feedback = 'click = 2; seen'", "gives the grade 2, but max_grade is 1"),
        ("k = 3\nfeedback = 'click = 1; curve 1 0.5'", "the curve has 2 positions, but k is 3"),
        ("update = 'on_close'\nfeedback = 'click = 1; curve 1'", "a curve corrects one report"),
    ],
)
def test_rules_that_cannot_work(line: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_config(Document(f"[slots.home]\n{line}", "service.toml"))
    assert said in str(error.value)
