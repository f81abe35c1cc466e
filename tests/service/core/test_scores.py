"""Slots whose learner starts from the app's scores: scores, keys and grades that are not whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from helpers.services import SetClock, service
from peekrank.engine import Agent
from peekrank.evaluation.log import read_log, write_log
from peekrank.evaluation.policies import policy
from peekrank.kernels.philox import fill_uniforms
from peekrank.measures import DCG
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.events import aggregate, pack_grades
from peekrank.service.core.export import export_log
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot
from peekrank.service.event_log.open import open_log
from peekrank.service.event_log.records import Feedback

NAMES = [f"i{n}" for n in range(12)]
KEYED = SlotConfig("home", learner="mixed:high=2,cells=40", k=2, feedback_window=100.0, seed=7)
PLAIN = SlotConfig("home", learner="mixed:low=-1,high=300,measure=dcg:gains=linear", k=1, seed=7)


def requests(count: int, seed: int = 0, first: int = 0) -> list[RankRequest]:
    """Lists of six items in any order, most of them with a score, most lists with a key and a version."""
    rng = np.random.default_rng(seed)
    made = []
    for n in range(first, first + count):
        names = rng.permutation(NAMES)[:6]
        scores = [None if rng.random() < 0.2 else round(float(rng.normal()), 1) for _ in names]
        items: list[Any] = [
            Item(str(name), score=score) if score is not None else str(name)
            for name, score in zip(names, scores, strict=True)
        ]
        key = None if rng.random() < 0.2 else f"segment {rng.integers(3)}"
        version = None if n % 3 == 0 else n // 15
        made.append(RankRequest(event_id=f"e{n}", items=items, key=key, score_version=version))
    return made


def live(it: Service, clock: SetClock, calls: list[RankRequest], seed: int = 1) -> list[list[str]]:
    """Rank the lists; answers come at once, some lists later, too late or never."""
    rng, rankings, waiting = np.random.default_rng(seed), [], []
    for request in calls:
        rankings.append(it.rank("home", request).ranking)
        waiting.append(request.event_id)
        clock.now += 7.0
        if rng.random() < 0.8:
            event = waiting.pop(int(rng.integers(len(waiting))))
            grades = [None if rng.random() < 0.2 else round(float(2 * rng.random()), 2) for _ in range(2)]
            try:
                it.feedback(str(event), FeedbackRequest(grades))
            except Problem as problem:
                assert problem.status == 410  # noqa: PT017 - too late
    return rankings


def state_bytes(it: Service) -> bytes:
    return take_snapshot(it._manager.slots["home"].state).body


@pytest.mark.parametrize("update", ["immediate", "on_close"])
def test_replay_and_restarts_change_nothing(tmp_path: Path, update: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slot, calls = replace(KEYED, update=update, aggregate="mean"), requests(120)
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole, clock = service(tmp_path / "whole", slot)
    expected = live(whole, clock, calls[:60]) + live(whole, clock, calls[60:], seed=2)
    assert whole._manager.slots["home"].state.activity.counts.late > 0
    assert take_snapshot(replay(whole._store, "home")[0]).body == state_bytes(whole)

    cut, clock = service(tmp_path / "cut", slot)
    found = live(cut, clock, calls[:60])
    monkeypatch.setattr(Service, "_save_final_snapshots", lambda _: None)  # as after a kill
    cut.close()
    cut = Service(cut.config, clock=clock)
    cut.start()
    assert not cut._store.snapshots("home")
    found += live(cut, clock, calls[60:], seed=2)
    assert found == expected
    assert state_bytes(cut) == state_bytes(whole)
    monkeypatch.undo()
    for it in (whole, cut):
        it.close()
        (audit,) = audit_slots(open_log(it.config.store.path))
        assert audit.passed
    again = Service(whole.config, clock=clock)
    again.start()  # from a snapshot
    assert again.slot("home").keys == 3
    assert state_bytes(again) == state_bytes(cut)
    again.close()


def test_a_slot_ranks_as_an_agent_with_the_same_scores_keys_and_answers(tmp_path: Path) -> None:
    it, _ = service(tmp_path, KEYED)
    agent = Agent(KEYED.learner_object, m=2, k=2)
    rng, items, keys, uniforms = np.random.default_rng(5), [], [], np.empty(2)
    for n, request in enumerate(requests(80, seed=3)):
        names = [item if isinstance(item, str) else item.id for item in request.items or []]
        items += [name for name in names if name not in items]
        if len(items) > agent.shape.m:
            agent.add(len(items) - agent.shape.m)
        if request.key and request.key not in keys:
            keys.append(request.key)
        scores = [
            np.nan if isinstance(item, str) or item.score is None else item.score for item in request.items or []
        ]
        fill_uniforms(it._manager.slots["home"].state.key, n, uniforms)
        decision = agent.rank(
            available=[items.index(name) for name in names],
            scores=scores,
            key=keys.index(request.key) if request.key else None,
            version=request.score_version,
            uniforms=uniforms,
        )
        reply = it.rank("home", request)
        assert reply.ranking == [items[number] for number in decision.ranking]
        grades = (2 * rng.random(2)).tolist()
        it.feedback(reply.event_id, FeedbackRequest(grades))
        agent.update(decision, grades)
    it.close()


def test_keys_learn_apart(tmp_path: Path) -> None:
    it, _ = service(tmp_path, SlotConfig("home", learner="mixed:cells=100", items=("a", "b"), k=1, seed=3))
    for n in range(300):
        key = "ab"[n % 2]  # people of segment a like item a
        reply = it.rank("home", RankRequest(key=key))
        it.feedback(reply.event_id, FeedbackRequest([float(reply.ranking[0] == key)]))
    first = {key: it.rank("home", RankRequest(key=key)).ranking[0] for key in "ab"}
    assert first == {"a": "a", "b": "b"}
    assert it.slot("home").ranking == []  # it depends on the key
    it.close()


def test_new_keys_beyond_the_limit_count_as_none(tmp_path: Path) -> None:
    it, _ = service(tmp_path, KEYED, max_keys=2)
    bodies: list[str] = []
    for key in ("x", "y", "z", "x", None):
        reply = it.rank("home", RankRequest(event_id=f"{key}{len(bodies)}", items=["a", "b", "c"], key=key))
        assert it.rank("home", RankRequest(event_id=reply.event_id, items=["a", "b", "c"], key=key)) == reply
        bodies.append(it._manager.slots["home"].state.open[reply.event_id].body.key)
    assert bodies == ["x", "y", "", "x", ""]
    assert it.slot("home").keys == 2
    it.close()
    it, _ = service(tmp_path, KEYED)  # another limit does not change what happened
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()


def test_scores_of_the_call_come_before_registered_ones(tmp_path: Path) -> None:
    it, _ = service(tmp_path, PLAIN)
    assert it.put_items("home", ItemsRequest([Item("a", score=0.1), "b", Item("c", score=0.2)])).added == 3
    assert it.put_items("home", ItemsRequest(["a", Item("c", score=0.2), Item("d", score=0.9)])).added == 1
    assert it.rank("home", RankRequest()).ranking == ["d", "b", "c", "a"]  # b and c are the middle
    assert it.rank("home", RankRequest(items=["c", "b", "a", "d"])).ranking == ["d", "c", "b", "a"]
    assert it.rank("home", RankRequest(items=[Item("a", score=5.0), "c", "d"])).ranking == ["a", "d", "c"]
    changed = it.put_items("home", ItemsRequest([Item("a", score=7.0), "b", "c", "d"]))
    assert (changed.added, changed.changed) == (0, 1)
    it.retire_items("home", ["d"])
    assert it.rank("home", RankRequest(items=["d", "c", "a"])).ranking == ["a", "c"]
    assert {item.id: item.score for item in it.items("home").items} == {"a": 7.0, "b": None, "c": 0.2, "d": 0.9}
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()


def test_lists_without_any_score_keep_the_order_of_the_call(tmp_path: Path) -> None:
    it, _ = service(tmp_path, PLAIN)
    reply = it.rank("home", RankRequest(event_id="e", items=["c", "a", "b"]))
    assert reply.explored or reply.ranking == ["c", "a", "b"]
    assert it._manager.slots["home"].state.open["e"].body.scores == b""
    it.close()


def test_grades_may_be_any_numbers_of_the_range(tmp_path: Path) -> None:
    it, _ = service(tmp_path, PLAIN)
    event = it.rank("home", RankRequest(items=["a", "b"])).event_id
    for grade in (300.5, -1.5):
        with pytest.raises(Problem, match=r"grades: -?\d+\.5 for 'a' must be a number from -1 to 300, or null"):
            it.feedback(event, FeedbackRequest([grade]))
    assert it.feedback(event, FeedbackRequest({"a": 12.25})).grades == {"a": 12.25}
    assert it.feedback(event, FeedbackRequest([12.25])).learned
    log = it._store
    assert (export_log(log, "home").min_feedback, export_log(log, "home").max_feedback) == (-1.0, 300.0)
    it.close()
    other = tmp_path / "other"
    other.mkdir()
    it, _ = service(other, SlotConfig("home", items=("a", "b")))
    event = it.rank("home", RankRequest()).event_id
    with pytest.raises(
        Problem,
        match=r"0.5 for '[ab]' must be a whole number from 0 to 1, or null. "
        r"doubtsort learns from whole grades only; mixed takes any number",
    ):
        it.feedback(event, FeedbackRequest([0.5]))
    with pytest.raises(Problem, match=r"2 for '[ab]' must be a whole number from 0 to 1, or null$"):
        it.feedback(event, FeedbackRequest([2]))
    it.close()


def test_grades_of_a_development_version_are_rejected(tmp_path: Path) -> None:
    it, _ = service(tmp_path, KEYED)
    it.rank("home", RankRequest(event_id="e", items=["a", "b", "c"]))
    state = it._manager.slots["home"].state
    answer = np.array([1, -1], dtype="<i2").tobytes()  # as they were before grades could be any numbers
    with pytest.raises(ValueError, match="buffer"):
        state.apply(state.number + 1, state.time, "e", Feedback(answer))
    it.close()


def test_means_of_real_grades_are_not_rounded_and_stay_in_their_range(tmp_path: Path) -> None:
    slot = SlotConfig("home", learner="mixed:high=0.1", update="on_close", aggregate="mean", feedback_window=10.0)
    it, _ = service(tmp_path, slot)
    event = it.rank("home", RankRequest(items=["a", "b"])).event_id
    for grade in (0.1, 0.05):
        reply = it.feedback(event, FeedbackRequest([grade]))
    assert list(reply.grades.values()) == [pytest.approx(0.075)]
    it.close()
    assert sum([0.1, 0.1, 0.1]) / 3 > 0.1
    assert aggregate([pack_grades([0.1])] * 3, 1, "mean", whole=False).tolist() == [0.1]


def test_in_shadow_mode_the_app_shows_its_own_order(tmp_path: Path) -> None:
    it, _ = service(tmp_path, replace(KEYED, mode="shadow"))
    for request in requests(40):
        names = [item if isinstance(item, str) else item.id for item in request.items or []]
        baseline = sorted(names)
        shown = msgspec.structs.replace(request, baseline=baseline)
        assert it.rank("home", shown).ranking == baseline
        it.feedback(str(request.event_id), FeedbackRequest([0.5, None]))
    counts = it._manager.slots["home"].state.activity.counts
    assert (counts.n_answered, counts.rejected_updates) == (40, 0)
    assert take_snapshot(replay(it._store, "home")[0]).body == state_bytes(it)
    it.close()


def test_other_slots_reject_scores_and_keys(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    with pytest.raises(Problem, match="items: doubtsort does not use scores; use mixed"):
        it.rank("home", RankRequest(items=[Item("a", score=1.0), "b"]))
    with pytest.raises(Problem, match="items: doubtsort does not use scores; use mixed"):
        it.put_items("home", ItemsRequest([Item("a", score=1.0)]))
    with pytest.raises(Problem, match="key: this slot learns nothing per key; use mixed and set cells"):
        it.rank("home", RankRequest(key="x"))
    with pytest.raises(Problem, match="score_version: doubtsort learns nothing about a score; use mixed"):
        it.rank("home", RankRequest(score_version=2))
    it.close()
    (tmp_path / "plain").mkdir()
    it, _ = service(tmp_path / "plain", PLAIN)
    with pytest.raises(Problem, match='key: this slot learns nothing per key; set cells, learner = "mixed:cells='):
        it.rank("home", RankRequest(items=["a", "b"], key="x"))
    it.close()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("max_grade = 5", "max_grade = 5: mixed has a range of its own: learner = 'mixed:high=5'"),
        ("feedback = 'click = 2; seen'", "gives the grade 2, but grades are from 0 to 1"),
        ("features = 3", "mixed does not use features in a slot"),
        ("update = 'on_close'\nmissing_feedback = 2", "must be a whole number from 0 to 1"),
    ],
)
def test_configurations_that_cannot_work(lines: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_config(Document(f"[slots.home]\nlearner = 'mixed'\n{lines}", "service.toml"))
    assert said in str(error.value)


def test_exports_have_the_scores(tmp_path: Path) -> None:
    it, clock = service(tmp_path, KEYED)
    calls = requests(30)
    rankings = live(it, clock, calls)
    log = export_log(it._store, "home")
    it.close()
    assert log.scores is not None
    numbers = {name: t for t, name in enumerate(log.events)}
    for request, ranking in zip(calls, rankings, strict=True):
        rows = slice(*log.offsets[numbers[str(request.event_id)] :][:2])
        names = [log.names[item] for item in log.item[rows]]
        assert names == [item if isinstance(item, str) else item.id for item in request.items or []]
        assert [names[row] for row in np.argsort(log.position[rows])] == ranking
        scores = [None if isinstance(item, str) else item.score for item in request.items or []]
        assert [None if np.isnan(score) else score for score in log.scores[rows]] == scores
    replayed = policy("mixed:high=2", log, measure=DCG()).ranks
    assert replayed is not None
    by_score = policy("score", log, measure=DCG()).ranks
    assert by_score is not None
    assert replayed[:6].tolist() == by_score[:6].tolist()  # before the first answer
    for name in ("log.parquet", "log.jsonl"):
        write_log(tmp_path / name, log)
        np.testing.assert_array_equal(read_log(tmp_path / name).scores, log.scores)
