"""The life of an event: every cell of the tables in the documentation, and any order of calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.services import HOME, SetClock, service
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import LimitsConfig, SlotConfig
from peekrank.service.core.events import TRANSITIONS, State, Trigger, aggregate, pack_grades
from peekrank.service.core.service import Service
from peekrank.service.core.slot_state import SlotState
from peekrank.service.core.slots import Slot
from peekrank.service.event_log.records import Settings

PAGE = Path(__file__).parents[3] / "docs" / "service" / "events.md"
LEARN: dict[str, dict[str, Any]] = {
    "immediate": {"update": "immediate"},
    "on_close": {"update": "on_close", "missing_feedback": 0},
}


def cells() -> list[tuple[str, str, str, str]]:
    """Which way to learn, state, call and what is expected, as the page has it."""
    found, learn, calls = [], "", []
    for line in PAGE.read_text().splitlines():
        if named := re.match(r'With `update = "(\w+)"', line):
            learn = named[1]
        row = line.split(" | ")
        if row[0] == "state":
            calls = row[1:]
        elif len(row) > 1 and learn:
            found += [(learn, row[0], call, cell) for call, cell in zip(calls, row[1:], strict=True)]
    return found


def first(answer: int) -> FeedbackRequest:
    return FeedbackRequest([answer])


def bring(it: Service, clock: SetClock, state: str, learn: str) -> None:
    """An event in a state; a closed one has had one answer, where the state allows it."""
    it.rank("home", RankRequest(event_id="e", defer=state == "open"))
    if state in ("answered", "shown, with an answer"):
        it.feedback("e", first(1))
    if state == "expired" or (state == "answered" and learn == "on_close"):
        clock.now += 100
        it.close_due_events()


def before(it: Service, state: str, call: str) -> None:
    """What must have been said before the call can be the same, or another."""
    if call in ("same answer", "another answer") and state == "expired":
        with pytest.raises(Problem, match="closed"):
            it.feedback("e", first(1))


def do(it: Service, clock: SetClock, call: str) -> int | None:
    """Make a call; its status."""
    calls: dict[str, Callable[[], Any]] = {
        "rank, same body": lambda: it.rank("home", RankRequest(event_id="e", defer=deferred(it))),
        "rank, other body": lambda: it.rank("home", RankRequest(event_id="e", items=["a", "b"])),
        "activate": lambda: it.activate("e"),
        "first answer": lambda: it.feedback("e", first(1)),
        "same answer": lambda: it.feedback("e", first(1)),
        "another answer": lambda: it.feedback("e", first(0)),
    }
    if call == "time is over":
        clock.now += 100
        it.close_due_events()
        return None
    try:
        calls[call]()
    except Problem as problem:
        return problem.status
    return 200


def deferred(it: Service) -> bool:
    return it._manager.event("e")[1].body.deferred


@pytest.mark.parametrize(("learn", "state", "call", "expected"), cells())
def test_every_cell(learn: str, state: str, call: str, expected: str, tmp_path: Path) -> None:
    it, clock = service(tmp_path, **LEARN[learn])
    try:
        bring(it, clock, state, learn)
        before(it, state, call)
        if expected == "-":
            impossible = {"same answer", "another answer", "first answer", "time is over"}
            assert call in impossible
            return
        told = re.fullmatch(r"(\d+)?(?: ?-> (\w+))?(?:, (\w+))?", expected)
        assert told, expected
        was, late = it.event("e"), it.slot("home").late
        status = do(it, clock, call)
        now = it.event("e")
        assert status == (int(told[1]) if told[1] else None)
        assert now.state == (told[2] or state.partition(",")[0])
        assert now.learned == (was.learned or told[3] == "learned")
        assert it.slot("home").late == late + (told[3] == "logged")
        assert now.ranking == was.ranking
    finally:
        it.close()


def test_the_page_has_all_that_can_happen() -> None:
    assert len(cells()) == 7 * (4 + 5)
    for learn, table in TRANSITIONS.items():
        assert {state for state, _ in table} == set(State)
        possible = [cell for way, _, _, cell in cells() if way == learn and cell != "-"]
        # the page tells late answers apart that the table takes for one, and has a row more; with immediate
        # updates, the table has two cells for events that were answered before `update` changed
        assert len(table) <= len(possible) + 1 + 2 * (learn == "immediate")


def test_closed_events_teach_nothing() -> None:
    for table in TRANSITIONS.values():
        assert not any(step.update for (state, _), step in table.items() if state.closed)
        assert not any(
            step.update for (state, call), step in table.items() if (state, call) == (State.OPEN, Trigger.DEADLINE)
        )


@pytest.mark.parametrize("state", ["open", "shown", "answered", "expired"])
def test_an_answer_without_a_grade_changes_nothing(state: str, tmp_path: Path) -> None:
    it, clock = service(tmp_path)
    bring(it, clock, state, "immediate")
    number = it.slot("home").sequence
    assert it.feedback("e", FeedbackRequest([None])).state == state
    assert it.slot("home").sequence == number
    it.close()


def test_unknown_events(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    calls: list[Callable[[], Any]] = [
        lambda: it.activate("no"),
        lambda: it.feedback("no", first(1)),
        lambda: it.event("no"),
    ]
    for call in calls:
        with pytest.raises(Problem) as problem:
            call()
        assert problem.value.status == 404
    it.close()


def naive(answers: list[list[int | None]], how: str, silence: float) -> list[float]:
    columns = zip(*answers, strict=True) if answers else []
    out = []
    for column in columns:
        said = [grade for grade in column if grade is not None]
        if not said:
            out.append(silence)
        elif how == "mean":
            mean = sum(said) / len(said)
            out.append(float(int(mean + 0.5)))
        else:
            out.append(float({"first": said[0], "last": said[-1], "max": max(said)}[how]))
    return out


@given(
    st.lists(st.lists(st.integers(0, 4) | st.none(), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from(["first", "last", "max", "mean"]),
)
def test_combined(answers: list[list[int | None]], how: Any) -> None:
    found = aggregate([pack_grades(answer) for answer in answers], 3, how, -7.0)
    assert found.tolist() == naive(answers, how, -7.0)


# Any order of calls

WAIT = 50
EVENTS = 6


class Driver:
    """A slot without a service around it: records are taken in and thrown away."""

    def __init__(self, config: SlotConfig) -> None:
        self.state = SlotState("home")
        self.slot = Slot(self.state, LimitsConfig())
        self.slot.write(None, Settings(config, 7))

    def at(self, time: float) -> None:
        self.slot.now = int(time * 1_000_000)
        for event in self.state.due(self.slot.now):
            self.slot.close(event)

    def outcome(self) -> tuple[Any, ...]:
        items = [
            (item.name, item.shown, item.n_feedback, item.total, item.recent) for item in self.state.items.known
        ]
        counts = self.state.activity.counts
        return (
            self.state.agent.dump(),
            items,
            counts.n_answered,
            counts.expired,
            counts.n_feedback,
            counts.explored,
        )


@st.composite
def lives(draw: st.DrawFn) -> tuple[str, list[list[tuple[float, int, Any]]]]:
    """Two schedules of the same calls about the same lists: in another order, at other times, repeated."""
    combine = draw(st.sampled_from(["max", "mean", "first", "last"]))
    calls: list[tuple[int, Any]] = []
    for event in range(EVENTS):
        if event % 3 == 2 and draw(st.booleans()):
            calls.append((event, None))  # activate
        grades = draw(st.lists(st.integers(0, 2), min_size=2, max_size=2))
        for _ in range(draw(st.integers(0, 3))):
            if combine in ("max", "mean"):
                grades = draw(st.lists(st.integers(0, 2), min_size=2, max_size=2))
            asked = draw(st.sampled_from([[0, 1], [0], [1]]))
            calls.append((event, [grade if place in asked else None for place, grade in enumerate(grades)]))
    schedules = []
    for _ in range(2):
        repeated = calls + (draw(st.lists(st.sampled_from(calls), max_size=4)) if calls else [])
        schedules.append(
            [(10 * event + draw(st.floats(0.001, WAIT - 0.001)), event, call) for event, call in repeated]
        )
    return combine, schedules


@settings(max_examples=60)
@given(lives())
@pytest.mark.parametrize("learner", ["doubtsort", "marginftrl"])
def test_any_order_repetition_and_delay(
    learner: str, made: tuple[str, list[list[tuple[float, int, Any]]]]
) -> None:
    combine, schedules = made
    outcomes = []
    for schedule in schedules:
        config: Any = {
            "aggregate": combine,
            "update": "on_close",
            "missing_feedback": 0,
            "max_grade": 2,
            "feedback_window": float(WAIT),
        }
        driver = Driver(SlotConfig("home", learner=learner, items=HOME.items, k=2, **config))
        ranks = [(10.0 * event, event, "rank") for event in range(EVENTS)]
        for time, event, call in sorted([*ranks, *schedule], key=lambda one: (one[0], str(one[2]))):
            driver.at(time)
            if call == "rank":
                driver.slot.rank(RankRequest(event_id=f"e{event}", defer=event % 3 == 2))
            elif call is None:
                driver.slot.activate(driver.state.open[f"e{event}"])
            else:
                driver.slot.submit_feedback(driver.state.open[f"e{event}"], FeedbackRequest(call))
        driver.at(10 * EVENTS + WAIT)
        assert not driver.state.open
        outcomes.append(driver.outcome())
    assert outcomes[0] == outcomes[1]


def test_partial_answers_update_agent(tmp_path: Path) -> None:
    it, _ = service(tmp_path)
    shown = it.rank("home", RankRequest(event_id="e"))
    told = it.feedback("e", FeedbackRequest({shown.top_k[1]: 1}))
    assert told.grades == {shown.top_k[0]: None, shown.top_k[1]: 1.0}
    assert it._manager.slots["home"].state.agent.n_feedback == 1
    it.close()


def test_silence_is_missing_or_a_grade(tmp_path: Path) -> None:
    for missing_feedback, answers in (("missing", 0), (0, 2)):
        (tmp_path / str(missing_feedback)).mkdir()
        it, clock = service(tmp_path / str(missing_feedback), update="on_close", missing_feedback=missing_feedback)
        it.rank("home", RankRequest(event_id="e"))
        clock.now += 100
        it.close_due_events()
        assert it._manager.slots["home"].state.agent.n_feedback == answers
        assert np.isfinite(it._manager.slots["home"].state.agent.summary().estimate).all()
        it.close()
