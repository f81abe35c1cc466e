"""Slots that compare two rankers: verdict, log, replay, export, and what a call may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.services import SetClock, service
from peekrank import Comparison, measure
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.policies import policy
from peekrank.service.api.messages import FeedbackRequest, RankReply, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.records import read_floats

NAMES = [f"i{n}" for n in range(8)]
LIKED = dict(zip(NAMES, np.linspace(0.9, 0.1, 8), strict=True))
UNION = "k = 2\nmeasure = 'dcg@2'\nfeedback_window = 100\nseed = 7\n[slots.home.compare]\nnames = ['old', 'new']\n"
SETTINGS = {
    "union": UNION,
    "coin": UNION + "mode = 'coin'\n",
    "outside": UNION.replace("dcg@2", "dcg") + "outside = 0.25\n",
    "partial": UNION + "partial = true\nregression = 'mean'\n",
    "missing": UNION.replace("k = 2", "k = 2\nmissing_feedback = 0"),
    "clicks": UNION + "examination = [1.0, 0.5]\n",
    "coin of clicks": UNION + "mode = 'coin'\nexamination = [1.0, 0.5]\n",
    "loss": UNION.replace("dcg@2", "p@2+sum").replace("k = 2", "k = 2\nmax_grade = 3\naggregate = 'max'"),
}


def slot(text: str) -> SlotConfig:
    return parse_config(Document(f"[slots.home]\n{text}", "service.toml")).slots[0]


def orders(n: int, *, fixed: bool = False) -> list[list[str]]:
    """The first order sorts by what people like, the second mixes items 1 and 4 up."""
    size = 8 if fixed else 3 + n % 6
    first = NAMES[:size]
    other = [3, 1, 2, 0, *range(4, 8)] if n % 5 else list(range(8))
    return [first, [NAMES[i] for i in other if i < size]]


def live(it: Service, clock: SetClock, first: int, last: int, *, fixed: bool = False) -> list[RankReply]:
    """Rank lists; answers come at once, later, twice, too late or never."""
    rng, replies, waiting = np.random.default_rng(first), [], []
    best = it._manager.slots["home"].state.config.max_grade
    for n in range(first, last):
        defer = n % 11 == 3
        replies.append(it.rank("home", RankRequest(event_id=f"e{n}", orders=orders(n, fixed=fixed), defer=defer)))
        waiting.append((f"e{n}", replies[-1].top_k))
        clock.now += 7.0
        for _ in range(int(rng.integers(0, 3))):
            event, top = waiting[int(rng.integers(len(waiting)))]
            grades: list[float | None] = [float(best * (rng.random() < LIKED[name])) for name in top]
            if rng.random() < 0.1:
                grades[-1] = None
            try:
                it.feedback(event, FeedbackRequest(grades))
            except Problem as problem:
                assert problem.status == 410  # noqa: PT017 - too late
    return replies


def state_bytes(it: Service) -> bytes:
    return take_snapshot(it._manager.slots["home"].state).body


@pytest.mark.parametrize("name", SETTINGS)
def test_replay_and_restarts_change_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = slot(SETTINGS[name])
    for folder in ("whole", "cut"):
        (tmp_path / folder).mkdir()
    whole, clock = service(tmp_path / "whole", config)
    expected = live(whole, clock, 0, 60) + live(whole, clock, 60, 120)
    reply = whole.slot("home")
    assert reply.comparison is not None
    assert 0 < reply.comparison.answered <= reply.comparison.lists < 120
    assert (reply.comparison.answered == reply.comparison.lists) == (name == "missing")
    assert take_snapshot(replay(whole._store, "home")[0]).body == state_bytes(whole)

    cut, clock = service(tmp_path / "cut", config)
    found = live(cut, clock, 0, 60)
    monkeypatch.setattr(Service, "_save_final_snapshots", lambda _: None)  # as after a kill
    cut.close()
    cut = Service(cut.config, clock=clock)
    cut.start()
    found += live(cut, clock, 60, 120)
    assert found == expected
    assert state_bytes(cut) == state_bytes(whole)
    monkeypatch.undo()
    for it in (whole, cut):
        it.close()
        (audit,) = audit_slots(open_log(it.config.store.path))
        assert audit.passed
        assert not audit.rankings
    again = Service(whole.config, clock=clock)
    again.start()  # from a snapshot
    assert again.slot("home").comparison == reply.comparison
    live(again, clock, 120, 140)
    assert take_snapshot(replay(again._store, "home")[0]).body == state_bytes(again)
    again.close()


@pytest.mark.parametrize("name", ["union", "coin", "outside", "partial", "missing", "loss"])
def test_the_exported_log_has_the_same_verdict(tmp_path: Path, name: str) -> None:
    config = slot(SETTINGS[name])
    it, clock = service(tmp_path, config)
    live(it, clock, 0, 150, fixed=True)
    clock.now += 1000.0
    it.close_due_events()
    found = it.slot("home").comparison
    assert found is not None
    log = export_log(it._store, "home")
    goal = measure(config.measure)
    policies = [policy(f"feature:{n}", log, measure=goal, seed=0) for n in (1, 2)]
    assert config.compare is not None
    result = evaluate_log(
        log, policies, goal, partial=config.compare.partial, regression=config.compare.regression
    )
    (difference,) = result.differences
    assert result.answered == found.answered
    assert difference.dr == pytest.approx(found.difference, rel=1e-9)
    assert difference.anytime == pytest.approx((found.low, found.high), rel=1e-9)
    it.close()


def test_a_slot_says_what_a_comparison_without_a_service_says(tmp_path: Path) -> None:
    config = slot(UNION)
    it, clock = service(tmp_path, config)
    own = Comparison(measure("dcg@2"), k=2, seed=7)
    rng = np.random.default_rng(0)
    for n in range(300):
        a, b = orders(n)
        shown, reply = own.rank(a, b), it.rank("home", RankRequest(event_id=f"e{n}", orders=[a, b]))
        assert reply.ranking == list(shown.items)
        assert not reply.explored
        body = it._manager.slots["home"].state.open[f"e{n}"].body
        assert read_floats(body.propensities)[[a.index(str(name)) for name in shown.items]].tolist() == (
            shown.propensities.tolist()
        )
        answers: list[float | None] = [float(rng.random() < LIKED[str(name)]) for name in shown.items[:2]]
        it.feedback(f"e{n}", FeedbackRequest(answers))
        clock.now += 101.0
        it.close_due_events()
        own.update(shown.event, np.array(answers, np.float64))
    verdict, found = own.verdict(), it.slot("home").comparison
    assert found is not None
    assert (found.difference, found.low, found.high) == (verdict.difference, verdict.low, verdict.high)
    assert (found.better, verdict.better) == ("old", "a")
    assert found.verdict.startswith("old is better: dcg@2 differs by 0.")
    assert found.ratio == own.forecast().ratio
    assert found.check is not None
    assert found.check.passed
    it.close()


def test_the_reply_before_the_first_list(tmp_path: Path) -> None:
    it, _ = service(tmp_path, slot(UNION))
    reply = it.slot("home")
    found = reply.comparison
    assert found is not None
    assert (found.better, found.difference, found.low, found.check, found.ratio) == (None,) * 5
    assert found.verdict == "Undecided: no list has answers yet (0 lists closed)."
    assert reply.learner == "comparison:measure=dcg@2,k=2,mode=union"
    it.close()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({}, "orders is missing"),
        ({"items": ["a"]}, "items: this slot compares the two orders of a call"),
        ({"orders": [["a", "b"], ["a", "b"]], "baseline": ["a"]}, "baseline: this slot compares"),
        ({"orders": [["a", "b"], ["a", "b"]], "pins": {1: "a"}}, "pins: this slot compares"),
        ({"orders": [["a", "b"], ["a", "b"]], "blocked": []}, "blocked: this slot compares"),
        ({"orders": [["a", "b"], ["a", "b"]], "score_version": 2}, "score_version: this slot compares"),
        ({"orders": [["a", "b"], ["a", "b"]], "key": "k"}, "key: this slot compares"),
        ({"orders": [["a", "b"], ["a", "c"]]}, "orders: 'c' is in the second order only"),
        ({"orders": [["a", "b"], ["a"]]}, "orders: 'b' is in the first order only"),
        ({"orders": [["a", "b"], ["a", "b", "a"]]}, "orders: 'a' appears twice in the second order"),
        ({"orders": [["a", "b", "a"], ["a", "b"]]}, "items: 'a' appears twice"),
        ({"orders": [[f"{n}" for n in range(101)]] * 2}, "items of a list: the limit is 100"),
    ],
)
def test_invalid_calls_change_nothing(tmp_path: Path, request_: dict[str, Any], said: str) -> None:
    it, _ = service(tmp_path, slot(UNION))
    before = state_bytes(it)
    with pytest.raises(Problem) as problem:
        it.rank("home", RankRequest(**request_))
    assert said in problem.value.detail
    assert state_bytes(it) == before
    it.close()


def test_orders_are_for_slots_that_compare(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    with pytest.raises(Problem, match="orders: this slot has a learner"):
        it.rank("home", RankRequest(orders=[["a"], ["a"]]))
    it.close()


def test_items_have_a_limit(tmp_path: Path) -> None:
    it, _ = service(tmp_path, slot(UNION))
    for n in range(4):
        names = [f"{n}-{i}" for i in range(25)]
        it.rank("home", RankRequest(orders=[names, names[::-1]]))
    with pytest.raises(Problem, match=r"compare\.regression = 'mean'"):
        it.rank("home", RankRequest(orders=[["x"], ["x"]]))
    it.close()


def test_new_settings_start_from_scratch_but_new_names_do_not(tmp_path: Path) -> None:
    it, clock = service(tmp_path, slot(UNION))
    live(it, clock, 0, 60)
    it.close()
    for text, kept in (
        (UNION.replace("'new'", "'newer'"), True),
        (UNION.replace("seed", "alpha = 0.01\nseed"), True),
        (UNION + "mode = 'coin'", False),
    ):
        again = Service(
            it.config.__class__((slot(text),), store=it.config.store, limits=it.config.limits), clock=clock
        )
        again.start()
        found = again.slot("home").comparison
        assert found is not None
        assert (found.lists > 0) == kept
        assert found.alpha == (0.01 if "alpha" in text else 0.05)
        again.close()
