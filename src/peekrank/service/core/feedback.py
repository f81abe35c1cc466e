"""Grades from what people tell: answers as they are, or signals by the slot's rules (`streams.forms`)."""

from __future__ import annotations

import numpy as np

from peekrank.evidence.alarms import order_shown
from peekrank.kernels.philox import fill_uniforms
from peekrank.service.api import problems
from peekrank.service.api.messages import FeedbackRequest
from peekrank.service.core.events import MISSING
from peekrank.service.core.slot_state import Event, SlotState, event_k
from peekrank.service.event_log.records import numbers, read_numbers
from peekrank.streams.forms import Form

_BEYOND = 2**62  # numbers of draws for answers begin here; those of rankings are far below


def parse_grades(state: SlotState, event: Event, ranking: list[str], request: FeedbackRequest) -> list[int]:
    """The grade for each question of an event, MISSING where there is none."""
    asked, rules = ranking[: event_k(event)], state.config.feedback_rules
    if rules.rules:
        if request.signals is None or request.grades is not None:
            raise problems.invalid(f"signals: this slot takes what people did ({rules}), not answers", "$.signals")
        return _by_rules(state, event, asked, request, rules)
    if request.grades is None or request.signals is not None or request.seen is not None:
        raise problems.invalid("grades: this slot takes grades, and no signals", "$.grades")
    if isinstance(request.grades, dict):
        _check_asked(list(request.grades), asked, "grades")
        given = [request.grades.get(name) for name in asked]
    else:
        if len(request.grades) > len(asked):
            raise problems.invalid(
                f"grades: {len(request.grades)} were given, and {len(asked)} asked for", "$.grades"
            )
        given = [*request.grades, *[None] * (len(asked) - len(request.grades))]
    most = min(state.agent.learner.max_grade, state.config.max_grade)
    return [_grade(name, grade, most) for name, grade in zip(asked, given, strict=True)]


def parse_shown(event: Event, ranking: list[str], request: FeedbackRequest) -> bytes:
    """The list as the app showed it, in the numbers of its ranking; empty if the app does not tell."""
    if request.shown is None:
        return b""
    try:
        order = order_shown(request.shown, ranking, event.body.k)
    except ValueError as error:
        raise problems.invalid(str(error), "$.shown") from None
    place = {name: p for p, name in enumerate(ranking)}
    return numbers(read_numbers(event.body.ranking)[[place[name] for name in order]])


def _check_asked(names: list[str], asked: list[str], field: str) -> None:
    if others := [name for name in names if name not in asked]:
        known = ", ".join(map(repr, asked))
        raise problems.invalid(f"{field}: {others[0]!r} is not among those asked about: {known}", f"$.{field}")


def _grade(name: str, grade: float | None, most: int) -> int:
    if grade is None:
        return MISSING
    if grade != int(grade) or not 0 <= grade <= most:
        raise problems.invalid(
            f"grades: {grade:g} for {name!r} must be a whole number from 0 to {most}, or null", "$.grades"
        )
    return int(grade)


def _by_rules(
    state: SlotState, event: Event, asked: list[str], request: FeedbackRequest, rules: Form
) -> list[int]:
    """Grades by rules; what a curve corrects is drawn by the event's number: a repeated call is the same."""
    signals = request.signals or {}
    _check_asked(list(signals), asked, "signals")
    _check_asked(request.seen or [], asked, "seen")
    looked = None if request.seen is None else [name in request.seen for name in asked]
    try:
        estimates = rules.estimates([signals.get(name, {}) for name in asked], looked)
    except ValueError as error:
        raise problems.invalid(f"signals: {error}", "$.signals") from None
    uniforms = np.empty(len(asked))
    fill_uniforms(state.key, _BEYOND + event.round, uniforms)
    grades = rules.as_grades(estimates, uniforms)
    return [MISSING if np.isnan(grade) else int(grade) for grade in grades]
