"""One grade for what came of a list, such as the answer of a language model, and the items that it cites."""

from __future__ import annotations

import numpy as np

from peekrank.service.api import problems
from peekrank.service.api.messages import CitedText, FeedbackRequest
from peekrank.service.core.open_events import Event
from peekrank.service.core.slot_state import SlotState, event_k
from peekrank.service.event_log.records import NOWHERE, read_numbers

Positions = list[int | None]  # of each cited item in the ranking; None: not among the first k


def cited_positions(state: SlotState, event: Event, request: FeedbackRequest) -> Positions:
    """Find the cited items among the first k. Without `cited`, the grade is about the only one."""
    top_k = np.frombuffer(event.body.ranking, "<u4", event_k(event)).tolist()
    if request.cited is None:
        if len(top_k) > 1:
            raise problems.invalid(
                f"cited is missing: name those of the first {len(top_k)} items that the grade is about. Copied to "
                "all of them, it would not say which item earned it",
                "$.cited",
            )
        return [0]
    position = {number: p for p, number in enumerate(top_k)}
    return [position.get(_number(state, event, one)) for one in request.cited]


def _number(state: SlotState, event: Event, cited: int | str | CitedText) -> int:
    """Return the number of a cited item in the ranking's terms, or -1 if the list does not have it."""
    if isinstance(cited, CitedText):
        raise problems.invalid("cited: a text can only be cited in a call of its own, not in a batch", "$.cited")
    if isinstance(cited, str):
        if event.body.names:
            return event.body.names.index(cited) if cited in event.body.names else -1
        number = state.items.number(cited)
        return -1 if number is None else number
    if not event.body.documents:
        raise problems.invalid(
            f"cited: {cited} is an index, which only lists of rerank calls have; cite items by id", "$.cited"
        )
    if cited >= event.body.documents:
        return -1
    position = int(np.frombuffer(event.body.positions, "<u2")[cited]) if event.body.positions else cited
    return -1 if position == NOWHERE else int(read_numbers(event.body.items)[position])


def grades_of_cited(state: SlotState, event: Event, request: FeedbackRequest) -> list[float | None]:
    """Give the grade to the cited items among the first k, and none to the others."""
    concerned = set(cited_positions(state, event, request))
    return [request.grade if p in concerned else None for p in range(event_k(event))]
