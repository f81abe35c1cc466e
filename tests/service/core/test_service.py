"""A service in process: calls, what is written, and what happens when that fails."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.services import HOME, SetClock, config, service
from helpers.traffic import ALL, live, put_some
from peekrank import registry
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import SlotConfig
from peekrank.service.core.commands import Rank, SubmitFeedback
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, restore, sealed, take_snapshot
from peekrank.service.event_log.records import Record, RecordType
from peekrank.service.event_log.sqlite import SQLiteStore
from peekrank.service.event_log.store import StoreError


def problem(status: int, match: str | None = None) -> Any:
    return pytest.raises(Problem, match=match, check=lambda error: error.status == status)


def states(it: Service) -> dict[str, bytes]:
    return {name: take_snapshot(slot.state).body for name, slot in it._manager.slots.items()}


def test_the_state_is_the_fold_of_the_log(tmp_path: Path) -> None:
    it, clock = service(tmp_path, *ALL)
    put_some(it)
    live(it, clock)
    it.retire_items("shop", ["s1"])
    it.put_items("shop", ItemsRequest([Item("s2", [1.0, 2.0, 3.0])]))
    live(it, clock, seed=1)
    expected = states(it)
    for slot in ALL:
        state, passed = replay(it._store, slot.name)  # there is no snapshot yet
        assert take_snapshot(state).body == expected[slot.name]
        assert passed == []
        assert state.activity.counts.replay_mismatches == 0
        assert state.agent.n_feedback > 5
    it.close()
    again, clock = service(tmp_path, *ALL)  # from snapshots
    assert states(again) == expected
    clock.now = 5000.0
    live(again, clock, seed=2)
    expected = states(again)
    for slot in ALL:
        for record in again._store.read(slot.name):
            assert record.time <= again._manager.slots[slot.name].state.time
        snapshot = again._store.snapshots(slot.name)[0]
        assert restore(snapshot).number == snapshot.number
        assert take_snapshot(replay(again._store, slot.name)[0]).body == expected[slot.name]
    again.close()


@pytest.mark.parametrize(
    "learner", ["blockftrl:horizon=1000", "rtop1f:horizon=1000", "setftrl", "thompson", "ucb", "greedy"]
)
def test_clocked_learners_are_replayed(learner: str, tmp_path: Path) -> None:
    measure = "p@2+sum" if learner == "setftrl" else "dcg"
    slot = SlotConfig(
        "fixed", learner=learner, measure=measure, items=("a", "b", "c", "d"), k=1, feedback_window=100.0
    )
    it, clock = service(tmp_path, slot)
    live(it, clock, rounds=60)
    state, _ = replay(it._store, "fixed")
    assert take_snapshot(state).body == states(it)["fixed"]
    assert state.activity.counts.replay_mismatches == 0
    assert state.agent.rounds == 60
    it.close()


def test_items_that_come_and_go(tmp_path: Path) -> None:
    it, _ = service(tmp_path, replace(HOME, items=()))
    with problem(422, "has no items yet"):
        it.rank("home", RankRequest())
    assert sorted(it.rank("home", RankRequest(items=["x"])).ranking) == ["x"]
    done = it.put_items("home", ItemsRequest(["y", "z", "x"]))
    assert (done.added, done.changed) == (2, 0)
    assert sorted(it.rank("home", RankRequest()).ranking) == ["x", "y", "z"]
    assert it.retire_items("home", ["y", "y"]).retired == 1
    assert it.retire_items("home", ["y"]).retired == 0
    assert sorted(it.rank("home", RankRequest()).ranking) == ["x", "z"]
    with problem(422, "all of them are retired"):
        it.rank("home", RankRequest(items=["y"]))
    with problem(404, "did you mean 'x'"):
        it.retire_items("home", ["xx"])
    assert it.put_items("home", ItemsRequest(["y"])).added == 1
    listed = it.items("home", limit=2)
    assert ([item.id for item in listed.items], listed.next) == (["x", "y"], "y")
    assert [item.id for item in it.items("home", after="y").items] == ["z"]
    it.close()


def test_items_are_remembered_beside_their_features(tmp_path: Path) -> None:
    shop = SlotConfig(
        "shop", learner="ridge", features=1, features_from="registry", item_effects=3, max_list_length=5, seed=1
    )
    it, _ = service(tmp_path, shop)
    names = ["tea", "milk", "juice", "water"]  # water is one more than are remembered
    it.put_items("shop", ItemsRequest([Item(name, [1.0]) for name in names]))
    for n in range(200):
        asked_about = it.rank("shop", RankRequest(f"e{n}"))
        it.feedback(f"e{n}", FeedbackRequest({asked_about.top_k[0]: int(asked_about.top_k[0] == "milk")}))
    state = it._manager.slots["shop"].state
    learner: Any = state.agent.learner
    weights = learner.weights(state.agent.state)
    effects = dict(zip(names, weights, strict=True))  # the feature's weight is all there is of water
    assert effects["milk"] > max(effects["tea"], effects["juice"]) + 0.5
    assert it.rank("shop", RankRequest("last")).ranking[0] == "milk"
    named = it.rank("shop", RankRequest("named", ["water", "juice", "milk"]))
    assert named.ranking.index("milk") < named.ranking.index("juice")
    assert state.features(state.open["named"]).tolist() == [[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    it.close()


def test_wrong_calls(tmp_path: Path) -> None:
    it, _ = service(tmp_path, *ALL, replace(HOME, name="strict", new_items="reject"))
    before = it.stats().sequence
    cases: list[tuple[str, RankRequest, int, str]] = [
        ("hme", RankRequest(), 404, "did you mean 'home'"),
        ("home", RankRequest(items=["a", "a"]), 422, "'a' appears twice"),
        ("home", RankRequest(items=[Item("a", [1.0])]), 422, "takes no features"),
        ("home", RankRequest(context=[1.0]), 422, "context: got 1 numbers, expected 0"),
        ("strict", RankRequest(items=["a", "e"]), 404, "unknown item 'e'"),
        ("fixed", RankRequest(items=["a"]), 422, "always ranks all 5 items"),
        ("search", RankRequest(), 422, "items is missing"),
        ("search", RankRequest(items=["a"]), 422, r"items\[0\]: features are missing, expected 3"),
        ("search", RankRequest(items=[Item("a", [1.0])]), 422, "got 1 numbers, expected 3"),
        ("search", RankRequest(items=[Item("a", b"\0\0\xc0\x7f" * 3)]), 422, "finite"),
        ("search", RankRequest(items=[Item(str(n), [0.0] * 3) for n in range(9)]), 413, "the limit is 8"),
        ("shop", RankRequest(context=[0.0, 0.0]), 422, "has no items yet"),
        ("shop", RankRequest(items=["a"], context=[0.0, 0.0]), 404, "unknown item 'a'"),
    ]  # fmt: skip
    for slot, request, status, said in cases:
        with problem(status, said):
            it.rank(slot, request)
    with problem(422, "stores no items"):
        it.put_items("search", ItemsRequest(["a"]))
    with problem(422, "fixed set of items"):
        it.put_items("fixed", ItemsRequest(["f"]))
    with problem(422, "features are missing"):
        it.put_items("shop", ItemsRequest(["f"]))
    with problem(413, "the limit is 100"):
        it.put_items("home", ItemsRequest([str(n) for n in range(101)]))
    shown = it.rank("home", RankRequest(event_id="e"))
    other = next(name for name in shown.ranking if name not in shown.top_k)
    wrong: list[Any] = [{other: 1}, {"no": 1}, {shown.top_k[0]: 2}, {shown.top_k[0]: 0.5}, [1, 1, 1]]
    for answers in wrong:
        with problem(422, "grades:"):
            it.feedback("e", FeedbackRequest(answers))
    assert it.stats().sequence == before + 1
    with problem(409, "a different request"):
        it.rank("fixed", RankRequest(event_id="e"))
    it.close()


def test_calls_may_be_repeated_after_a_restart(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    requests = [RankRequest(event_id=f"e{n}", items=["a", "b", f"c{n}"]) for n in range(3)]
    shown = [it.rank("home", request) for request in requests]
    told = it.feedback("e0", FeedbackRequest([1]))
    it.close()
    it, _ = service(tmp_path)
    number = it.stats().sequence
    assert [it.rank("home", request) for request in requests] == shown
    assert it.feedback("e0", FeedbackRequest([1])) == told
    with problem(409):
        it.feedback("e0", FeedbackRequest([0]))
    assert it.stats().sequence == number
    it.close()


def test_events_get_names_of_their_own(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    ids = {it.rank("home", RankRequest()).event_id for _ in range(20)}
    assert len(ids) == 20
    with problem(409):
        it.rank("home", RankRequest(event_id=ids.pop()))
    it.close()


def test_limits(tmp_path: Path) -> None:
    it, clock = service(tmp_path, max_open_events=2)
    it.rank("home", RankRequest(event_id="e"))
    it.rank("home", RankRequest())
    with problem(429, "2 open events, the limit"):
        it.rank("home", RankRequest())
    assert it.rank("home", RankRequest(event_id="e")).event_id == "e"
    clock.now += 100
    it.rank("home", RankRequest())
    it.close()


def test_memory_does_not_keep_closed_events(tmp_path: Path) -> None:
    it, _ = service(tmp_path, synchronous="normal")
    it._manager.slots["home"].state.recent.clear()
    for n in range(5000):
        it.submit(Rank("home", RankRequest(event_id=f"e{n}")))
        it.submit(SubmitFeedback(f"e{n}", FeedbackRequest([1])))
    it.close_due_events()
    state = it._manager.slots["home"].state
    assert (len(state.open), len(state.recent)) == (0, 4096)
    assert it.event("e3").state == "answered"  # from the log
    it.close()


def test_time_never_goes_back(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    it.rank("home", RankRequest(event_id="e"))
    clock.now -= 500
    it.rank("home", RankRequest(event_id="f"))
    clock.now += 99.5
    it.close_due_events()
    assert it.event("e").state == "shown"
    clock.now += 1  # the waiting goes on from where the time was
    it.close_due_events()
    assert it.event("e").state == "expired"
    times = [record.time for record in it._store.read("home")]
    assert times == sorted(times)
    it.close()


def test_calls_before_and_after(tmp_path: Path) -> None:
    it = Service(config(tmp_path), clock=SetClock())
    with problem(503, "has not been started"):
        it.rank("home", RankRequest())
    it.start()
    assert (it.ready(), it.live(), it.unready_reason()) == (True, True, "")
    it.close()
    with problem(503, "stopping"):
        it.rank("home", RankRequest())
    assert not it.live()
    it.close()


def test_two_services_on_one_log(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    with pytest.raises(StoreError, match="in use by another peekrank process"):
        service(tmp_path)
    it.close()


def test_the_timer_closes_events(tmp_path: Path) -> None:
    it = Service(config(tmp_path, feedback_window=0.05))
    it.start()
    it.rank("home", RankRequest(event_id="e"))
    for _ in range(200):
        if it.event("e").state == "expired":
            break
        threading.Event().wait(0.02)
    assert it.slot("home").expired == 1
    it.close()


class Failing(SQLiteStore):
    """A store that fails when it is told to, before or after it has written."""

    fails = ""
    gone = False

    def append(self, records: Sequence[Record]) -> None:
        if self.fails == "after":
            super().append(records)
        if self.fails:
            raise StoreError("disk full")
        super().append(records)

    def acquire(self) -> None:
        if self.gone:
            raise StoreError("no such disk")
        super().acquire()

    def read(self, slot: str, after: int = 0) -> Iterator[Record]:
        return super().read(slot, after)


def wait_until(it: Service, *, ready: bool) -> None:
    for _ in range(500):
        if it.ready() == ready:
            return
        threading.Event().wait(0.01)
    raise AssertionError(it.unready_reason())


@pytest.mark.parametrize("fails", ["before", "after"])
def test_what_cannot_be_written_is_not_acknowledged(fails: str, tmp_path: Path) -> None:
    store = Failing(tmp_path / "log.db")
    it, clock = service(tmp_path, store=store)
    live(it, clock, rounds=5)
    store.fails, store.gone = fails, True
    with problem(503, "the log cannot be written"):
        it.rank("home", RankRequest(event_id="lost"))
    wait_until(it, ready=False)
    with problem(503):
        it.rank("home", RankRequest(event_id="lost"))
    assert it.slots() == []  # nothing is served from memory that may be ahead of the log
    store.fails, store.gone = "", False
    wait_until(it, ready=True)
    reply = it.rank(
        "home", RankRequest(event_id="lost")
    )  # the retry is the same event, whether it was written or not
    assert it.feedback("lost", FeedbackRequest([1])).learned
    assert sum(r.event == "lost" and r.kind == RecordType.RANK for r in it._store.read("home")) == 1
    assert it.rank("home", RankRequest(event_id="lost")) == reply
    assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    it.close()


def refuses_all(it: Service, reason: str) -> None:
    """Callers learn that the log cannot be written, and only the messages say why: it may name machines."""
    configure_logging("error", messages := io.StringIO())
    with problem(503, "the log cannot be written"):
        it.rank("home", RankRequest(event_id="again"))
    wait_until(it, ready=False)
    assert reason in messages.getvalue()
    assert reason not in it.unready_reason()
    with problem(503):
        it.rank("home", RankRequest(event_id="again"))


def goes_on(it: Service, sequence: int) -> None:
    """Ready again, by itself, from the record after the last that was acknowledged."""
    wait_until(it, ready=True)
    assert it.rank("home", RankRequest(event_id="again")).sequence == sequence + 1
    assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    it.close()


def test_a_log_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    """SQLite would go on writing to a file that has no name any more."""
    it, clock = service(tmp_path)
    live(it, clock, rounds=5)
    sequence = it.slot("home").sequence
    (tmp_path / "log.db").rename(tmp_path / "moved.db")
    refuses_all(it, "was deleted or replaced")
    threading.Event().wait(0.2)
    assert not (tmp_path / "log.db").exists()  # no new log was begun
    (tmp_path / "moved.db").rename(tmp_path / "log.db")
    goes_on(it, sequence)


def test_a_disk_that_can_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=5)
    sequence = it.slot("home").sequence
    store: Any = it._store
    with monkeypatch.context() as patch:
        connect = store._connect
        patch.setattr(store, "_connect", lambda write: connect(write=False))
        store._writer.execute("PRAGMA query_only = 1")
        refuses_all(it, "attempt to write a readonly database")
    goes_on(it, sequence)


def test_a_full_disk(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=5)
    sequence = it.slot("home").sequence
    store: Any = it._store
    store._writer.execute("PRAGMA max_page_count = 1")  # as many as there are
    long = ItemsRequest([f"{n:0100}" for n in range(90)])
    configure_logging("error", messages := io.StringIO())
    with problem(503, "the log cannot be written"):
        it.put_items("home", long)
    assert "database or disk is full" in messages.getvalue()
    goes_on(it, sequence)


def test_a_fault_of_ours_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=5)
    expected = states(it)
    state = it._manager.slots["home"].state
    with monkeypatch.context() as patch:
        patch.setattr(state.agent, "update", lambda *_: 1 / 0)
        it.rank("home", RankRequest(event_id="e"))
        with problem(503):
            it.feedback("e", FeedbackRequest([1]))
    wait_until(it, ready=True)
    assert it.event("e").state == "shown"
    assert states(it)["home"] != expected["home"]
    assert it.feedback("e", FeedbackRequest([1])).learned
    it.close()


def test_a_learner_that_refuses_to_learn_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it refuses live it refuses in every replay: the log can still be folded."""
    it, _ = service(tmp_path)

    def refuse(*_: object) -> None:
        raise ValueError("token of the decision: must hold finite numbers")

    with monkeypatch.context() as patch:
        patch.setattr("peekrank.engine.Agent.update", refuse)
        it.rank("home", RankRequest(event_id="e"))
        told = it.feedback("e", FeedbackRequest([1]))
        assert (told.state, told.learned) == ("answered", False)
        assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    assert it._manager.slots["home"].state.activity.counts.rejected_updates == 1
    assert it.ready()
    it.close()


def test_a_stop_without_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, _ = service(tmp_path)
    it.rank("home", RankRequest(event_id="e"))

    def fail(*_: object) -> None:
        raise StoreError("disk full")

    monkeypatch.setattr(it._store, "save_snapshot", fail)
    it.close()
    with problem(503):
        it.close_due_events()
    it, _ = service(tmp_path)
    assert it.event("e").state == "shown"
    it.close()


@pytest.mark.parametrize("damaged", [1, 2])
def test_damaged_snapshots_are_passed_over(damaged: int, tmp_path: Path) -> None:
    it, clock = service(tmp_path, snapshot_every=20)
    live(it, clock, rounds=40)
    expected = states(it)
    numbers = [snapshot.number for snapshot in it._store.snapshots("home")]
    assert len(numbers) == 2
    writer = it._store._writer  # type: ignore[attr-defined]
    writer.execute(
        "UPDATE snapshots SET body = zeroblob(length(body)) WHERE id IN "
        "(SELECT id FROM snapshots ORDER BY id DESC LIMIT ?)", (damaged,),
    )  # fmt: skip
    state, passed = replay(it._store, "home")
    assert len(passed) == damaged
    assert "is damaged" in passed[0]
    assert take_snapshot(state).body == expected["home"]
    it.close()


def test_a_newer_snapshot_is_passed_over(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=3)
    newer = sealed(take_snapshot(it._manager.slots["home"].state)._replace(about='{"format": 999}'))
    with pytest.raises(ValueError, match="reads up to"):
        restore(newer)
    it.close()


def test_the_writer_survives_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, _ = service(tmp_path, snapshot_every=100)
    it.rank("home", RankRequest(event_id="e"))
    with monkeypatch.context() as patch:
        patch.setattr(it._manager, "load", lambda *_: 1 / 0)
        patch.setattr(it._manager, "save_snapshots", lambda *_: 1 / 0)
        it.rank("home", RankRequest(event_id="f"))  # it is in the log, and confirmed
        for _ in range(500):
            if it.unready_reason() == "the log cannot be read":
                break
            threading.Event().wait(0.01)
        assert it.unready_reason() == "the log cannot be read"
        assert it.live()
    wait_until(it, ready=True)
    assert it.event("f").state == "shown"
    it.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_has_ended_is_not_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, _ = service(tmp_path)

    def end(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(it._manager, "begin", end)
    assert it._thread is not None
    it._thread.join(5)
    assert not it.live()
    it._thread = None
    it.close()


def test_a_start_that_failed_is_not_alive(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"")
    it = Service(config(tmp_path))
    assert it.live()
    with pytest.raises(ValueError, match="is empty"):
        it.start()
    assert not it.live()


def test_a_snapshot_that_cannot_be_restored_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, clock = service(tmp_path, snapshot_every=20, retention=10.0)
    with monkeypatch.context() as patch:
        patch.setattr("peekrank.service.core.snapshots.Agent.load", lambda *_: 1 / 0)
        live(it, clock, rounds=60)
        assert it._store.snapshots("home") == []
        assert it._store.ends("home")[0] == 1
    live(it, clock, rounds=60, seed=1)
    assert len(it._store.snapshots("home")) == 2
    assert it._store.ends("home")[0] > 1
    it.close()


def test_a_closed_stream_of_messages_does_not_end_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, failed = io.StringIO(), threading.Event()
    closed.close()
    it, _ = service(tmp_path)
    save = it._manager.save_snapshots

    def fail_once(every: int) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("the disk is gone")
        save(every)

    monkeypatch.setattr(it._manager, "save_snapshots", fail_once)
    configure_logging(file=closed)
    try:
        it.rank("home", RankRequest("first"))
        assert failed.wait(10)
        for n in range(1000):  # the writer reads the log again
            try:
                it.rank("home", RankRequest(f"next-{n}"))
                break
            except Problem:
                threading.Event().wait(0.01)
        assert it.live()
        assert it.event("first").ranking
    finally:
        configure_logging()
        it.close()


def test_no_record_is_deleted_behind_a_damaged_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it, clock = service(tmp_path, snapshot_every=20, retention=10.0)
    save = it._store.save_snapshot
    monkeypatch.setattr(it._store, "save_snapshot", lambda one: save(one._replace(body=one.body + b" ")))
    live(it, clock, rounds=60)
    assert len(it._store.snapshots("home")) == 2
    assert it._store.ends("home")[0] == 1
    it.close()


@pytest.mark.parametrize("learner", ["rtopkf", "auto", "ridge:expand=6"])
def test_lists_with_huge_features_are_refused_and_stop_nothing(learner: str, tmp_path: Path) -> None:
    slot = SlotConfig("lists", learner=learner, features=2, max_list_length=4, k=1, feedback_window=100.0, seed=1)
    it, _ = service(tmp_path, slot)
    for wrong in (1e20, 3e38, -1e16):
        with problem(422, "must be finite numbers up to 1e"):
            it.rank("lists", RankRequest("e", [Item("a", [1.0, wrong]), Item("b", [1.0, 2.0])]))
        with problem(422, "must be finite numbers up to 1e"):
            it.rank("lists", RankRequest("e", [Item("a", np.array([1, wrong], "<f4").tobytes())]))
    for n, size in enumerate([1e15, 1e-45, 1.0, 1e15, -1e15, 1e-20, 3.0] * 3):
        shown = it.rank("lists", RankRequest(f"e{n}", [Item("a", [size, 1.0]), Item("b", [1.0, size])]))
        it.feedback(f"e{n}", FeedbackRequest({shown.top_k[0]: n % 2}))
    expected = states(it)
    it.close()
    it, _ = service(tmp_path, slot)
    assert replay(it._store, "lists")[1] == []  # no snapshot was skipped
    assert states(it) == expected
    it.close()


def test_a_change_of_configuration_is_in_the_log(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=10)
    it.rank("home", RankRequest(event_id="open"))
    answers = it._manager.slots["home"].state.agent.n_feedback
    it.close()
    it, clock = service(tmp_path, feedback_window=50.0)  # the learner goes on
    assert it._manager.slots["home"].state.agent.n_feedback == answers
    assert it.event("open").state == "shown"
    it.close()
    it, clock = service(tmp_path, learner="greedy")  # another one begins anew
    assert it._manager.slots["home"].state.agent.n_feedback == 0
    assert it.event("open").state == "expired"
    assert len(it._manager.slots["home"].state.items) > 4  # items are known still
    live(it, clock, rounds=5, seed=4)
    assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    kinds = [record.kind for record in it._store.read("home")]
    assert kinds.count(RecordType.CONFIG) == 3
    it.close()


def test_old_events_are_forgotten_behind_a_snapshot(tmp_path: Path) -> None:
    it, clock = service(tmp_path, snapshot_every=50, retention=200.0)
    it.rank("home", RankRequest(event_id="first"))
    live(it, clock, rounds=200)
    first, _ = it._store.ends("home")
    assert first > 1
    it._manager.slots["home"].state.recent.clear()
    with problem(404):
        it.event("first")
    oldest = it._store.snapshots("home")[-1]
    assert first <= oldest.number + 1
    assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    it.close()


def test_a_log_with_a_gap_is_refused(tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    live(it, clock, rounds=5)
    it._store._writer.execute("DELETE FROM log WHERE id % 1024 = 3")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="has a gap: record 4 follows record 2"):
        replay(it._store, "home")
    it.close()


def test_many_callers_at_once(tmp_path: Path) -> None:
    it, _ = service(tmp_path, synchronous="normal")
    failed: list[Exception] = []

    def visit(caller: int) -> None:
        try:
            for n in range(30):
                shown = it.rank("home", RankRequest(event_id=f"{caller}-{n}"))
                it.feedback(shown.event_id, FeedbackRequest({shown.top_k[0]: 1}))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=visit, args=(caller,)) for caller in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert it.slot("home").answered == 240
    assert take_snapshot(replay(it._store, "home")[0]).body == states(it)["home"]
    it.close()


def test_every_learner_fits_a_slot_or_says_why() -> None:
    from peekrank.service.config.file import Document
    from peekrank.service.config.model import parse_config

    for name in registry.LEARNERS.built_in:
        lines = ["[slots.home]", "items = ['a', 'b', 'c', 'd']", "features = 0"]
        try:
            parse_config(Document("\n".join([*lines, f"learner = '{name}'"]), "service.toml"))
        except ValueError as error:
            assert "line 4" in str(error)  # noqa: PT017


def test_the_lag_counts_slots_that_a_follower_does_not_know_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, _ = service(tmp_path)
    it.rank("home", RankRequest())
    behind = it.stats().sequence
    with monkeypatch.context() as patch:
        patch.setattr(it._manager, "following", True)
        patch.setattr(it._manager, "slots", {})
        assert it.stats().lag == behind > 0
    it.close()
