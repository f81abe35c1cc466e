"""What a slot replies: retired items, the current ranking, whose answers count, and events of other slots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.services import HOME, service
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.core.commands import Rank, SubmitFeedback


def problem(status: int, match: str = "") -> Any:
    """A problem with this status, whose sentence matches."""
    return pytest.raises(Problem, match=match, check=lambda error: error.status == status)


def test_a_retired_item_does_not_fail_a_list(tmp_path: Path) -> None:
    it, _ = service(tmp_path, HOME, replace(HOME, name="strict", retired_items="reject"))
    for slot in ("home", "strict"):
        it.retire_items(slot, ["b", "d"])
    request = RankRequest("e", ["a", "b", "c", "d", "new"])
    reply = it.rank("home", request)
    assert (sorted(reply.ranking), reply.retired) == (["a", "c", "new"], ["b", "d"])
    assert it.rank("home", RankRequest(items=["a", "c"])).retired == []
    it.put_items("home", ItemsRequest(["b"]))
    assert it.rank("home", request) == reply  # as it was when it was ranked
    assert it.rank("home", RankRequest(items=["a", "b"])).retired == []
    with problem(422, "all of them are retired"):
        it.rank("home", RankRequest(items=["d"]))
    with problem(404, "unknown item 'b'"):
        it.rank("strict", RankRequest(items=["a", "b"]))
    it.close()


def test_a_retired_item_is_left_out_in_the_shadow_and_of_lists_with_features(tmp_path: Path) -> None:
    shop = SlotConfig("shop", learner="ridge", features=1, features_from="registry", max_list_length=2, seed=1)
    it, _ = service(tmp_path, replace(HOME, mode="shadow"), shop)
    it.retire_items("home", ["b"])
    reply = it.rank("home", RankRequest(items=["a", "b", "c"], baseline=["c", "b", "a"]))
    assert (reply.ranking, reply.retired) == (["c", "a"], ["b"])
    it.put_items("shop", ItemsRequest([Item(name, [1.0]) for name in "xyz"]))
    it.retire_items("shop", ["y"])
    reply = it.rank("shop", RankRequest(items=["x", "y", "z"]))
    assert (sorted(reply.ranking), reply.retired) == (["x", "z"], ["y"])
    with problem(404, "unknown item 'w'"):
        it.rank("shop", RankRequest(items=["x", "w"]))
    it.close()


def test_the_slot_tells_its_current_ranking(tmp_path: Path) -> None:
    shop = SlotConfig("shop", learner="ridge", features=1, features_from="registry", max_list_length=3, seed=1)
    lists = SlotConfig("lists", learner="uniform", max_list_length=5)
    it, _ = service(tmp_path, HOME, shop, lists, SlotConfig("fixed", learner="blockftrl", items=("a", "b")))
    assert it.slot("shop").ranking == it.slot("lists").ranking == []
    it.put_items("shop", ItemsRequest([Item("bad", [-1.0]), Item("good", [1.0])]))
    for n in range(30):
        for slot, good in (("home", "c"), ("shop", "good")):
            shown = it.rank(slot, RankRequest(f"{slot}{n}"))
            it.feedback(f"{slot}{n}", FeedbackRequest({name: int(name == good) for name in shown.top_k}))
    assert it.slot("home").ranking[0] == "c"
    assert sorted(it.slot("home").ranking) == ["a", "b", "c", "d"]
    assert it.slot("shop").ranking == ["good", "bad"]
    assert sorted(it.slot("fixed").ranking) == ["a", "b"]
    it.retire_items("home", ["c"])
    assert "c" not in it.slot("home").ranking
    it.put_items("home", ItemsRequest([f"n{n}" for n in range(20)]))
    assert len(it.slot("home").ranking) == 10
    it.close()


def test_answered_lists_are_counted_once_their_window_is_over(tmp_path: Path) -> None:
    it, clock = service(tmp_path)  # a window of 100 seconds
    for n in range(10):
        clock.now += 1.0
        it.rank("home", RankRequest(f"e{n}"))
        if n % 2:
            it.feedback(f"e{n}", FeedbackRequest([1]))
    assert (it.slot("home").answered, it.slot("home").due) == (5, 0)
    clock.now += 95.0
    it.rank("home", RankRequest("later"))
    assert 0 < it.slot("home").due < 10
    clock.now += 105.0
    it.rank("home", RankRequest("last"))
    assert (it.slot("home").due, it.slot("home").due_answered) == (11, 5)
    it.close()


def test_an_event_id_says_nothing_about_slots_that_the_caller_does_not_see(tmp_path: Path) -> None:
    it, clock = service(tmp_path, HOME, replace(HOME, name="search", seed=8))
    theirs = it.submit(Rank("home", RankRequest("e"), {"home"})).result()
    mine = it.submit(Rank("search", RankRequest("e"), {"search"})).result()
    assert it.submit(Rank("search", RankRequest("e"), {"search"})).result() == mine
    assert it.submit(SubmitFeedback("e", FeedbackRequest([1]), {"search"})).result().slot == "search"
    assert it.event("e", {"home"}).state == "shown"
    assert it.rank("home", RankRequest("e")) == theirs  # the slot is named
    for call in (it.event, it.activate, lambda event: it.feedback(event, FeedbackRequest([1]))):
        with problem(409, "exists in several slots"):
            call("e")
    it.rank("home", RankRequest("f"))
    with problem(409, "ranked for a different request"):
        it.rank("search", RankRequest("f"))
    clock.now += 1000.0
    it.close_due_events()
    for slot in it._manager.slots.values():
        slot.state.recent.clear()  # the log has them
    assert (it.event("e", {"search"}).state, it.event("e", {"home"}).state) == ("answered", "expired")
    with problem(409, "exists in several slots"):
        it.event("e")
    it.close()


def test_a_closed_event_that_is_activated_says_nothing_of_feedback(tmp_path: Path) -> None:
    it, clock = service(tmp_path, HOME)
    it.rank("home", RankRequest("e", defer=True))
    clock.now += 10**6
    with problem(410, "event 'e' is closed; it stays so"):
        it.activate("e")
    it.close()
