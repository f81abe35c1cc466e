"""The life cycle of an event as one table of states and triggers, and how repeated feedback is aggregated.

    open  ->  shown  ->  answered  |  expired

An event is one list for one visitor. A deferred event is *open* until it is activated or gets feedback, which
implies that it was shown. *Answered* and *expired* events are closed. This module knows no logs, learners or
clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import floor, isnan
from statistics import fmean
from typing import NamedTuple

import numpy as np

from peekrank.service.config.model import Aggregate, Update
from peekrank.types import Floats


class State(Enum):
    """The state of an event."""

    OPEN = "open"
    SHOWN = "shown"
    ANSWERED = "answered"
    EXPIRED = "expired"

    @property
    def closed(self) -> bool:
        """Whether the event is closed, so that the learner no longer learns from it."""
        return self in (State.ANSWERED, State.EXPIRED)


class Trigger(Enum):
    """Calls and times that can change an existing event."""

    SAME_RANK = "rank, same body"
    OTHER_RANK = "rank, another body"
    ACTIVATE = "activate"
    NEW_ANSWER = "new feedback"
    SAME_ANSWER = "repeated feedback"
    SAME_LATE_ANSWER = "repeated late feedback"
    DEADLINE = "end of the feedback window, no feedback"
    DEADLINE_ANSWERED = "end of the feedback window, with feedback"


class Write(Enum):
    """The record that is written to the log."""

    SHOWN = "shown"
    FEEDBACK = "feedback"
    LATE = "late feedback"
    CLOSE = "close"


class Step(NamedTuple):
    """The effect of a trigger: the next state, the record to write, and whether to update the learner.

    `problem` is the type of problem to return (`problems.PROBLEM_TYPES`), or None to return the event.
    """

    state: State
    write: Write | None = None
    update: bool = False
    problem: str | None = None


def _transitions(update: Update) -> dict[tuple[State, Trigger], Step]:
    """Build the table. Pairs that are not in it cannot happen."""
    at_once = update == "immediate"
    feedback = Step(State.ANSWERED, Write.FEEDBACK, update=True) if at_once else Step(State.SHOWN, Write.FEEDBACK)
    table = {
        (State.OPEN, Trigger.ACTIVATE): Step(State.SHOWN, Write.SHOWN),
        (State.OPEN, Trigger.NEW_ANSWER): feedback,
        (State.OPEN, Trigger.DEADLINE): Step(State.EXPIRED, Write.CLOSE),
        (State.SHOWN, Trigger.ACTIVATE): Step(State.SHOWN),
        (State.SHOWN, Trigger.NEW_ANSWER): feedback,
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
    # with immediate updates, events that were answered while `update` was "on_close"
    table[State.SHOWN, Trigger.SAME_ANSWER] = Step(State.SHOWN)
    table[State.SHOWN, Trigger.DEADLINE_ANSWERED] = Step(State.ANSWERED, Write.CLOSE, update=True)
    for state in State:
        table[state, Trigger.SAME_RANK] = Step(state)
        table[state, Trigger.OTHER_RANK] = Step(state, problem="other-request")
    return table


TRANSITIONS: dict[Update, dict[tuple[State, Trigger], Step]] = {
    "immediate": _transitions("immediate"),
    "on_close": _transitions("on_close"),
}


def step(update: Update, state: State, trigger: Trigger) -> Step:
    """Look up the effect of a trigger.

    >>> step("immediate", State.SHOWN, Trigger.NEW_ANSWER)
    Step(state=<State.ANSWERED: 'answered'>, write=<Write.FEEDBACK: 'feedback'>, update=True, problem=None)
    """
    return TRANSITIONS[update][state, trigger]


def aggregate(
    answers: Sequence[bytes], k: int, how: Aggregate, missing_feedback: float = np.nan, *, whole: bool = True
) -> Floats:
    """Aggregate repeated feedback on the same k items: one grade each, or `missing_feedback`.

    If grades are whole, a mean is rounded to the nearest grade, and halves are rounded up.

    >>> aggregate([pack_grades([1, None, 0]), pack_grades([2, 1, None])], 3, "mean")
    array([2., 1., 0.])
    >>> aggregate([pack_grades([1.5, None]), pack_grades([2, None])], 2, "mean", whole=False, missing_feedback=0.0)
    array([1.75, 0.  ])
    """
    if len(answers) == 1:  # the most common case
        only: Floats = np.frombuffer(answers[0], dtype="<f8", count=k).astype(np.float64)
        only[np.isnan(only)] = missing_feedback
        return only
    out: Floats = np.full(k, missing_feedback)
    rows = [unpack_grades(answer) for answer in answers]
    for p in range(k):
        if grades := [row[p] for row in rows if not isnan(row[p])]:
            value = _AGGREGATE[how](grades)
            out[p] = floor(value + 0.5) if whole else value
    return out


def _mean(grades: list[float]) -> float:
    return min(max(fmean(grades), min(grades)), max(grades))  # rounding may not leave the range


_AGGREGATE: dict[Aggregate, Callable[[list[float]], float]] = {
    "first": lambda grades: grades[0],
    "last": lambda grades: grades[-1],
    "max": max,
    "mean": _mean,
}


def pack_grades(grades: Sequence[float | None]) -> bytes:
    """Pack the grades of the first k items, None where there is none, as the log stores them: float64, or NaN."""
    return (np.array(grades, dtype="<f8") + 0.0).tobytes()  # -0.0 becomes 0.0


def unpack_grades(packed: bytes) -> list[float]:
    """Unpack grades, NaN where there is none.

    >>> unpack_grades(pack_grades([3, None, 0.5]))
    [3.0, nan, 0.5]
    """
    grades: list[float] = np.frombuffer(packed, dtype="<f8").tolist()
    return grades
