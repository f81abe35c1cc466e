"""Details of a slot: its ranking with reasons, and its days, which are the same after a replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.services import HOME, service
from peekrank.learners import Mixed
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.config import SlotConfig
from peekrank.service.core.activity import Activity, Counts, Day
from peekrank.service.core.agents import new_agent
from peekrank.service.core.audit import audit_slot
from peekrank.service.core.service import Service
from peekrank.service.event_log.open import open_log

MIX = SlotConfig("mix", learner="mixed:cells=100", k=2, feedback_window=100.0, seed=3)
DAY = 86_400.0


def test_days_are_counted_by_the_times_of_records_and_replayed(tmp_path: Path) -> None:
    it, clock = service(tmp_path, update="on_close", snapshot_every=100)
    expected: dict[int, list[float]] = {}
    for n in range(90):
        clock.now += DAY / 8
        shown = it.rank("home", RankRequest(event_id=f"e{n}"))
        it.feedback(f"e{n}", FeedbackRequest({shown.top_k[0]: n % 2, shown.top_k[1]: 1}))
        clock.now += 101
        it.close_due_events()
        expected.setdefault(int(clock.now // DAY), []).append((1 + n % 2) / 2)
    days = it.details("home").days
    assert {day.number: day.answered for day in days} == {day: len(given) for day, given in expected.items()}
    assert [day.value for day in days] == [sum(given) for given in expected.values()]
    assert [day.squares for day in days] == [sum(one**2 for one in given) for given in expected.values()]
    assert sum(day.ranked for day in days) == 90
    assert sum(day.explored for day in days) == it.slot("home").explored
    it.close()
    audit = audit_slot(open_log(str(tmp_path / "log.db")), "home")
    assert audit.passed
    assert audit.equal  # with the days in them
    with Service(it.config, clock=clock) as again:
        assert again.details("home").days == days


def test_old_days_are_dropped() -> None:
    activity = Activity(Counts(), [])
    for day in range(450):
        activity.ranked(day * 86_400_000_000, explored=False)
    assert [activity.days[0].number, len(activity.days), activity.days[-1]] == [50, 400, Day(449, 1)]


def test_the_ranking_is_that_of_the_next_list_and_says_why(tmp_path: Path) -> None:
    it, _ = service(tmp_path, MIX, HOME)
    names = ["tea", "milk", "juice", "water", "soup"]
    it.put_items("mix", ItemsRequest([Item(name, score=n / 10) for n, name in enumerate(names)]))
    assert [one.name for one in it.details("mix").standings] == names[::-1]  # the order of the scores
    for n in range(200):
        key, liked = (("ann", "tea"), ("bob", "milk"))[n % 2]
        shown = it.rank("mix", RankRequest(key=key))
        it.feedback(shown.event_id, FeedbackRequest({name: int(name == liked) for name in shown.top_k}))
    it.retire_items("mix", ["soup"])
    for key, liked in (("ann", "tea"), ("bob", "milk")):
        found = it.details("mix", key)
        assert found.key == key
        assert found.standings[0].name == liked
        assert "soup" not in [one.name for one in found.standings]
        assert found.standings[0].parts["key"] > 0
        for one in found.standings:
            assert sum(one.parts.values()) == pytest.approx(one.estimate)
        order = [one.name for one in found.standings]
        plain = next(reply for _ in range(99) if not (reply := it.rank("mix", RankRequest(key=key))).explored)
        assert order == plain.ranking
    unknown = it.details("mix", "carl")
    assert (unknown.key, unknown.keys, unknown.takes_keys) == (None, ["ann", "bob"], True)
    assert unknown.standings == it.details("mix").standings
    home = it.details("home")
    assert [one.name for one in home.standings] == it.slot("home").ranking
    assert not home.takes_keys
    it.close()


def test_many_keys_are_not_listed_and_other_learners_have_no_reasons(tmp_path: Path) -> None:
    it, _ = service(tmp_path, replace(MIX, items=("a", "b", "c")), replace(HOME, learner="greedy"))
    for n in range(13):
        it.rank("mix", RankRequest(key=f"person-{n}"))
    assert it.details("mix").keys == []
    assert it.details("mix", "person-3").key == "person-3"
    assert it.details("home").standings == []
    it.close()


def test_reasons_are_compiled_before_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[object] = []
    monkeypatch.setattr(Mixed, "explain", lambda *given: explained.append(given))
    new_agent(MIX, 3)
    assert len(explained) == 1


def test_the_table_has_the_items_with_the_best_grades_of_all(tmp_path: Path) -> None:
    names = [f"item-{n:04}" for n in range(1500)]
    it, _ = service(tmp_path, replace(MIX, items=tuple(names)))
    liked = []
    for _ in range(20):
        shown = it.rank("mix", RankRequest())
        liked.append(shown.top_k[0])
        it.feedback(shown.event_id, FeedbackRequest({shown.top_k[0]: 1, shown.top_k[1]: 0}))
    it.retire_items("mix", [liked[0]])
    found = it.details("mix")
    assert (len(found.items), found.known) == (100, 1500)
    assert {item.id for item in found.items if item.mean} == set(liked) - {liked[0]}
    means = [item.mean or 0.0 for item in found.items]
    assert means == sorted(means, reverse=True)
    it.close()
