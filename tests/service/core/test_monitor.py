"""Value and alarms of a slot: a function of the log, and the same after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from helpers.services import service
from helpers.traffic import LISTS
from peekrank.service.api.messages import FeedbackRequest, Item, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import SlotConfig
from peekrank.service.core.commands import Rank, SubmitFeedback
from peekrank.service.core.monitor import ClosedEvent, MonitorSnapshot, SlotMonitor, _row
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot

NAMES = "abcdefghij"


def visits(it: Service, first: int, last: int, liked: float, seed: int) -> list[int]:
    """Visits in which people like what is on top with some probability; their answers."""
    rng, said = np.random.default_rng(seed), []
    waiting = [it.submit(Rank("home", RankRequest(event_id=f"e{n}"))) for n in range(first, last)]
    for future in waiting:
        shown = future.result()
        said.append(int(rng.random() < liked))
        it.submit(SubmitFeedback(shown.event_id, FeedbackRequest([said[-1]])))
    it.close_due_events()
    return said


def test_value_is_the_mean_of_what_was_said(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=1)
    assert it.slot("home").value is None
    said = visits(it, 0, 640, 0.7, 1)
    value = it.slot("home").value
    assert value is not None
    assert (value.n, value.mean) == (640, sum(said) / 640)
    assert 0.55 < value.low < value.mean < value.high < 0.8
    assert it.slot("home").alarms == []
    it.close()


def test_alarms_are_raised_and_outlive_a_restart(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=1)
    visits(it, 0, 1024, 0.9, 1)
    visits(it, 1024, 2048, 0.1, 2)
    alarms = it.slot("home").alarms
    assert "lower-grades" in [alarm.name for alarm in alarms]
    assert all(alarm.since == 1000.0 and alarm.cause and alarm.action for alarm in alarms)
    state, _ = replay(it._store, "home")
    assert take_snapshot(state).body == take_snapshot(it._manager.slots["home"].state).body
    it.close()
    it, _ = service(tmp_path, k=1)
    assert it.slot("home").alarms == alarms
    visits(it, 3000, 3100, 0.1, 3)
    assert take_snapshot(replay(it._store, "home")[0]).body == take_snapshot(it._manager.slots["home"].state).body
    it.close()


def shows(it: Service, order: Callable[[list[str]], list[str]], rounds: int) -> list[str]:
    """Visits to an app that shows lists in some order, and tells so, by people who like d; names of alarms."""
    for _ in range(rounds):
        ranked = it.rank("home", RankRequest())
        it.feedback(ranked.event_id, FeedbackRequest([int(ranked.top_k[0] == "d")], shown=order(ranked.ranking)))
    return [alarm.name for alarm in it.slot("home").alarms]


def test_apps_that_show_what_was_ranked_raise_no_alarm(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=1)
    assert shows(it, lambda ranking: ranking[:2], 256) == []
    it.close()


def test_apps_that_sort_by_themselves_raise_an_alarm_if_they_tell(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=1)
    alarms = shows(it, sorted, 256)
    assert "unexpected-order" in alarms
    state, _ = replay(it._store, "home")
    assert take_snapshot(state).body == take_snapshot(it._manager.slots["home"].state).body
    it.close()
    it, _ = service(tmp_path, k=1)
    assert [alarm.name for alarm in it.slot("home").alarms] == alarms
    it.close()


def test_what_was_shown_is_reported_once_and_with_an_answer(tmp_path: Path) -> None:
    it, _ = service(tmp_path, k=2, update="on_close")
    ranking = it.rank("home", RankRequest(event_id="e")).ranking
    event = it._manager.slots["home"].state.open["e"]
    backwards = ranking[::-1]
    it.feedback("e", FeedbackRequest([None], shown=backwards))  # no answer
    it.feedback("e", FeedbackRequest([1]))
    assert event.shown == b""
    it.feedback("e", FeedbackRequest([1, 0], shown=backwards[:3]))
    it.feedback("e", FeedbackRequest([0, 0], shown=ranking))
    assert it._manager.slots["home"].state.items.names(np.frombuffer(event.shown, "<u4").tolist()) == backwards
    it.close()


@pytest.mark.parametrize("shown", [["a"], ["a", "a"], ["a", "nobody"]])
def test_what_cannot_have_been_shown_is_refused(tmp_path: Path, shown: list[str]) -> None:
    it, _ = service(tmp_path)
    it.rank("home", RankRequest(event_id="e"))
    with pytest.raises(Problem, match="must be at least 2 items of the decision, each once") as refused:
        it.feedback("e", FeedbackRequest([1], shown=shown))
    assert (refused.value.status, refused.value.field) == (422, "$.shown")
    assert it.event("e").state == "shown"
    it.close()


def test_positions_come_from_the_list_that_was_shown() -> None:
    """Two items are always ranked a, b, with chances of one half; the app shows b first."""
    ranked, shown = (np.array(order, "<u4").tobytes() for order in ([4, 7], [7, 4]))
    event = ClosedEvent(1, ranked, np.full(2, 0.5).tobytes(), [1.0], shown)
    items, _, places, answers = _row(event)
    assert (items.tolist(), places.tolist()) == ([4, 7], [1, 0])
    assert answers[0] == 1.0
    assert _row(msgspec.structs.replace(event, shown=b""))[2].tolist() == [0, 1]


def test_those_who_answer_at_once_do_not_make_it_seem_that_fewer_do(tmp_path: Path) -> None:
    it, clock = service(tmp_path, k=1)
    rng = np.random.default_rng(0)
    for _ in range(3000):
        shown = it.rank("home", RankRequest())
        if rng.random() < 0.3:
            it.feedback(shown.event_id, FeedbackRequest([1]))
        clock.now += 1.0  # the waiting time is a hundred
    slot = it.slot("home")
    assert slot.alarms == []
    assert slot.value is not None
    assert 600 < slot.value.n < slot.answered < 1200
    it.close()


def test_waiting_for_one_event_does_not_take_memory() -> None:
    """One visitor thinks for long, and ten thousand others answer meanwhile."""
    monitor, chances = SlotMonitor((0.0, 1.0), NAMES.__getitem__), np.full(4, 0.5).tobytes()
    rng = np.random.default_rng(0)
    for n in range(1, 20_000):
        order = rng.permutation(4).astype("<u4").tobytes()
        monitor.close(ClosedEvent(n, order, chances, [float(rng.random() < 0.3), None]))
        monitor.advance(0, n, str)
    kept = monitor.snapshot()
    assert 2048 <= len(kept.early) <= 4096
    assert kept.stride == 8
    assert all(event.number % 8 == 0 for event in kept.early)
    monitor.advance(20_000, 0, str)
    value = monitor.value()
    assert value is not None
    assert value.low < 0.3 < value.high
    assert monitor.alarms == []


def test_lists_with_items_of_their_own_have_a_value(tmp_path: Path) -> None:
    it, _ = service(tmp_path, LISTS)
    for _ in range(64):
        shown = it.rank("lists", RankRequest(items=["x", "y", "z"]))
        it.feedback(shown.event_id, FeedbackRequest([1]))
    slot = it.slot("lists")
    assert slot.value is not None
    assert (slot.value.mean, slot.alarms) == (1.0, [])
    it.close()


def test_a_learner_that_fails_is_reported_also_for_lists_with_items_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = SlotConfig("lists", learner="rtopkf", features=1, max_list_length=3, k=1, seed=1)
    it, _ = service(tmp_path, slot)
    monkeypatch.setattr("peekrank.learners.rtopkf.learner.RTopKF.failure", lambda *_: "weights have overflowed")
    for n in range(64):
        shown = it.rank("lists", RankRequest(f"e{n}", [Item("a", [1.0]), Item("b", [2.0])]))
        it.feedback(f"e{n}", FeedbackRequest({shown.top_k[0]: 1}))
    (alarm,) = it.slot("lists").alarms
    assert (alarm.name, alarm.cause) == ("learner-failed", "The learner reports: weights have overflowed.")
    assert take_snapshot(replay(it._store, "lists")[0]) == take_snapshot(it._manager.slots["lists"].state)
    it.close()


def test_going_on_from_what_is_remembered() -> None:
    rng, chances = np.random.default_rng(0), np.full(4, 0.5).tobytes()
    events = [
        ClosedEvent(n, rng.permutation(4).astype("<u4").tobytes(), chances, [float(rng.integers(2)), None])
        for n in range(500)
    ]
    whole, first = (SlotMonitor((0.0, 1.0), NAMES.__getitem__) for _ in range(2))
    for n in rng.permutation(500).tolist():
        for one in (whole, first):
            one.close(events[n])
            one.advance(400, n, str)
        if n in (63, 100, 250):
            kept = msgspec.msgpack.decode(msgspec.msgpack.encode(first.snapshot()), type=MonitorSnapshot)
            first = SlotMonitor.restore(kept, NAMES.__getitem__)
    assert msgspec.msgpack.encode(first.snapshot()) == msgspec.msgpack.encode(whole.snapshot())
