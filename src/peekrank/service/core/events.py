"""The life of an event: what each call means in each state, as one table, and how its answers are combined.

    open  ->  shown  ->  answered  |  expired

An event is one list for one visitor. A deferred one is *open* until it is activated, or answered: whoever answers
has seen it. *Answered* and *expired* events are closed. Nothing here knows of logs, learners or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from peekrank.service.config.model import Aggregate, Update
from peekrank.types import Floats

MISSING = -1  # in the place of a grade: this question was not answered


class State(Enum):
    """Where an event stands."""

    OPEN = "open"
    SHOWN = "shown"
    ANSWERED = "answered"
    EXPIRED = "expired"

    @property
    def closed(self) -> bool:
        """Whether nothing is learned from it any more."""
        return self in (State.ANSWERED, State.EXPIRED)


class Trigger(Enum):
    """What can happen to an event that exists."""

    SAME_RANK = "rank, same body"
    OTHER_RANK = "rank, another body"
    ACTIVATE = "activate"
    NEW_ANSWER = "new answer"
    SAME_ANSWER = "answer as before"
    SAME_LATE_ANSWER = "late answer as before"
    DEADLINE = "waiting time over, no answer"
    DEADLINE_ANSWERED = "waiting time over, answers"


class Write(Enum):
    """What is written to the log."""

    SHOWN = "shown"
    FEEDBACK = "feedback"
    LATE = "late feedback"
    CLOSE = "close"


class Step(NamedTuple):
    """What a call does: the state afterwards, what is written, whether the learner is taught, and what is replied.

    `problem` is the kind of problem that is replied (`problems.KINDS`); None: the event as it stands then.
    """

    state: State
    write: Write | None = None
    update: bool = False
    problem: str | None = None


def _life(learn: Update) -> dict[tuple[State, Trigger], Step]:
    """All that can happen: a pair that is not here cannot."""
    at_once = learn == "immediate"
    heard = Step(State.ANSWERED, Write.FEEDBACK, update=True) if at_once else Step(State.SHOWN, Write.FEEDBACK)
    table = {
        (State.OPEN, Trigger.ACTIVATE): Step(State.SHOWN, Write.SHOWN),
        (State.OPEN, Trigger.NEW_ANSWER): heard,
        (State.OPEN, Trigger.DEADLINE): Step(State.EXPIRED, Write.CLOSE),
        (State.SHOWN, Trigger.ACTIVATE): Step(State.SHOWN),
        (State.SHOWN, Trigger.NEW_ANSWER): heard,
        (State.SHOWN, Trigger.DEADLINE): Step(State.EXPIRED, Write.CLOSE, update=not at_once),
        (State.ANSWERED, Trigger.ACTIVATE): Step(State.ANSWERED),
        (State.ANSWERED, Trigger.SAME_ANSWER): Step(State.ANSWERED),
        (State.ANSWERED, Trigger.NEW_ANSWER): Step(State.ANSWERED, problem="other-answer")
        if at_once
        else Step(State.ANSWERED, Write.LATE, problem="closed"),
        (State.ANSWERED, Trigger.SAME_LATE_ANSWER): Step(State.ANSWERED, problem="closed"),
        (State.EXPIRED, Trigger.ACTIVATE): Step(State.EXPIRED, problem="closed"),
        (State.EXPIRED, Trigger.NEW_ANSWER): Step(State.EXPIRED, Write.LATE, problem="closed"),
        (State.EXPIRED, Trigger.SAME_LATE_ANSWER): Step(State.EXPIRED, problem="closed"),
    }
    if not at_once:
        table[State.SHOWN, Trigger.SAME_ANSWER] = Step(State.SHOWN)
        table[State.SHOWN, Trigger.DEADLINE_ANSWERED] = Step(State.ANSWERED, Write.CLOSE, update=True)
    for state in State:
        table[state, Trigger.SAME_RANK] = Step(state)
        table[state, Trigger.OTHER_RANK] = Step(state, problem="other-request")
    return table


LIFE: dict[Update, dict[tuple[State, Trigger], Step]] = {
    "immediate": _life("immediate"),
    "on_close": _life("on_close"),
}


def step(learn: Update, state: State, call: Trigger) -> Step:
    """What a call does to an event.

    >>> step("immediate", State.SHOWN, Trigger.NEW_ANSWER)
    Step(state=<State.ANSWERED: 'answered'>, write=<Write.FEEDBACK: 'feedback'>, update=True, problem=None)
    """
    return LIFE[learn][state, call]


def aggregate(answers: Sequence[bytes], k: int, how: Aggregate, missing_feedback: float = np.nan) -> Floats:
    """How several answers to the same k questions are combined: a grade for each, or `missing_feedback`.

    A mean that is no grade is rounded to the nearest one, and up from the middle.

    >>> aggregate([pack_grades([1, MISSING, 0]), pack_grades([2, 1, MISSING])], 3, "mean")
    array([2., 1., 0.])
    >>> aggregate([pack_grades([1, MISSING]), pack_grades([2, MISSING])], 2, "first", missing_feedback=0.0)
    array([1., 0.])
    """
    if len(answers) == 1:  # as most often
        only: Floats = np.frombuffer(answers[0], dtype="<i2", count=k).astype(np.float64)
        only[only == MISSING] = missing_feedback
        return only
    out: Floats = np.full(k, missing_feedback)
    given = [unpack_grades(answer) for answer in answers]
    for p in range(k):
        grades = [answer[p] for answer in given if answer[p] != MISSING]
        if grades:
            out[p] = _COMBINE[how](grades)
    return out


_COMBINE: dict[Aggregate, Callable[[list[int]], int]] = {
    "first": lambda grades: grades[0],
    "last": lambda grades: grades[-1],
    "max": max,
    "mean": lambda grades: (2 * sum(grades) + len(grades)) // (2 * len(grades)),
}


def pack_grades(answer: Sequence[int]) -> bytes:
    """Grades, or MISSING, for each question: what is kept of an answer, and tells it from others."""
    return np.array(answer, dtype="<i2").tobytes()


def unpack_grades(answer: bytes) -> list[int]:
    """The grades of an answer.

    >>> unpack_grades(pack_grades([3, MISSING]))
    [3, -1]
    """
    found: list[int] = np.frombuffer(answer, dtype="<i2").tolist()
    return found
