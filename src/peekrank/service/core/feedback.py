"""Grades from feedback requests: as they are, or from signals by the slot's rules (`streams.feedback_rules`)."""

from __future__ import annotations

import numpy as np

from peekrank.evaluation.log import order_shown
from peekrank.kernels.philox import fill_uniforms
from peekrank.service.api import problems
from peekrank.service.api.messages import FeedbackRequest
from peekrank.service.core.citations import grades_of_cited
from peekrank.service.core.open_events import Event
from peekrank.service.core.slot_state import SlotState, event_k
from peekrank.service.event_log.records import numbers, read_numbers
from peekrank.streams.feedback_rules import FeedbackRules

_OFFSET = 2**62  # random numbers for feedback start here, far above those for rankings


def parse_grades(
    state: SlotState, event: Event, ranking: list[str], request: FeedbackRequest
) -> list[float | None]:
    """Return the grades of the first k items, None where there is none."""
    top_k, rules = ranking[: event_k(event)], state.config.feedback_rules
    if rules.rules:
        if request.signals is None or request.grades is not None or request.grade is not None:
            raise problems.invalid(f"signals is missing: this slot expects signals ({rules})", "$.signals")
        return _grades_by_rules(state, event, top_k, request, rules)
    has_grades, has_grade = request.grades is not None, request.grade is not None
    if not (has_grades or has_grade) or request.signals is not None or request.seen is not None:
        raise problems.invalid("grades is missing: this slot expects grades, and no signals", "$.grades")
    if has_grades == has_grade or (has_grades and request.cited is not None):
        raise problems.invalid("grades: send either grades, or one grade with the cited items", "$.grades")
    if request.grades is None:
        grades = grades_of_cited(state, event, request)
    elif isinstance(request.grades, dict):
        _check_names(list(request.grades), top_k, "grades")
        grades = [request.grades.get(name) for name in top_k]
    else:
        if len(request.grades) > len(top_k):
            raise problems.invalid(f"grades: got {len(request.grades)}, expected at most {len(top_k)}", "$.grades")
        grades = [*request.grades, *[None] * (len(top_k) - len(request.grades))]
    for name, grade in zip(top_k, grades, strict=True):
        _check_grade(state, name, grade)
    return grades


def parse_shown(event: Event, ranking: list[str], request: FeedbackRequest) -> bytes:
    """Return the list as the app showed it, in the numbers of the ranking, or nothing if it was not reported."""
    if request.shown is None:
        return b""
    try:
        order = order_shown(request.shown, ranking, event.body.k)
    except ValueError as error:
        raise problems.invalid(str(error), "$.shown") from None
    rank = {name: p for p, name in enumerate(ranking)}
    return numbers(read_numbers(event.body.ranking)[[rank[name] for name in order]])


def _check_names(names: list[str], top_k: list[str], field: str) -> None:
    if others := [name for name in names if name not in top_k]:
        expected = ", ".join(map(repr, top_k))
        raise problems.invalid(f"{field}: {others[0]!r} is not among the first k items: {expected}", f"$.{field}")


def _check_grade(state: SlotState, name: str, grade: float | None) -> None:
    """Raise a `Problem` if a grade is outside the range of the slot, or must be whole and is not."""
    learner, (low, high) = state.agent.learner, state.config.grade_range
    whole = not state.config.has_real_grades
    if whole:
        high = min(learner.max_grade, high)
    if grade is None or (low <= grade <= high and not (whole and grade != int(grade))):
        return
    text = f"grades: {grade:g} for {name!r} must be a {'whole ' * whole}number from {low:g} to {high:g}, or null"
    if whole and grade != int(grade):
        text += f". {learner.name} learns from whole grades only; mixed takes any number"
    raise problems.invalid(text, "$.grades")


def _grades_by_rules(
    state: SlotState, event: Event, top_k: list[str], request: FeedbackRequest, rules: FeedbackRules
) -> list[float | None]:
    """Apply the feedback rules. Random numbers depend on the event, so a repeated call gives the same grades."""
    signals = request.signals or {}
    _check_names(list(signals), top_k, "signals")
    _check_names(request.seen or [], top_k, "seen")
    seen = None if request.seen is None else [name in request.seen for name in top_k]
    try:
        estimates = rules.estimates([signals.get(name, {}) for name in top_k], seen)
    except ValueError as error:
        raise problems.invalid(f"signals: {error}", "$.signals") from None
    uniforms = np.empty(len(top_k))
    fill_uniforms(state.key, _OFFSET + event.round, uniforms)
    grades: list[float] = rules.as_grades(estimates, uniforms).tolist()
    return [None if np.isnan(grade) else grade for grade in grades]
