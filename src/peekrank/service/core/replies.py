"""Replies about the events, the items and the state of a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from peekrank.service.api import messages
from peekrank.service.api.messages import EventReply, ItemReply, ItemsReply, RankReply, SlotReply
from peekrank.service.core.clock import SECOND
from peekrank.service.core.compared import comparison_reply
from peekrank.service.core.holdout import holdout_reply
from peekrank.service.core.items import Item
from peekrank.service.core.open_events import Event
from peekrank.service.core.slot_state import SlotState

_BEST = 10  # items of the current ranking in the description of a slot


def names_of(state: SlotState, event: Event) -> list[str]:
    """Return the ranking of an event as names."""
    ranking = np.frombuffer(event.body.ranking, dtype="<u4").tolist()
    if event.body.names:
        return [event.body.names[number] for number in ranking]
    return state.items.names(ranking)


def rank_reply(state: SlotState, event: Event, request: messages.RankRequest) -> RankReply:
    """Describe the ranking of an event. The items of the request that it does not have were retired."""
    ranking = names_of(state, event)
    retired: list[str] = []
    body = event.body
    if request.items is not None and len(request.items) > len(ranking) + len(body.blocked):
        left = {*ranking, *body.blocked}
        retired = [name for name in messages.names_of(request.items) if name not in left]
    return RankReply(event.id, ranking, ranking[: body.k], body.explored, event.number, retired, body.blocked)


def event_reply(state: SlotState, event: Event) -> EventReply:
    """Describe an event."""
    ranking = names_of(state, event)
    top_k = ranking[: event.body.k]
    values = state.grades(event)
    grades = {name: None if np.isnan(grade) else float(grade) for name, grade in zip(top_k, values, strict=True)}
    deadline = None if event.status.closed else state.deadline(event) / SECOND
    return EventReply(event.id, state.slot, event.status.value, ranking, top_k, grades, event.learned, deadline)


def item_reply(item: Item) -> ItemReply:
    """Describe an item."""
    return ItemReply(
        item.name,
        not item.present,
        np.frombuffer(item.features, dtype="<f4").tolist() if item.features else None,
        item.score,
        item.shown,
        item.n_feedback,
        item.total / item.n_feedback if item.n_feedback else None,
        item.recent if item.n_feedback else None,
        item.group or None,
    )


def items_reply(state: SlotState, after: str, limit: int) -> ItemsReply:
    """Describe one page of items, sorted by name, from the first after `after`."""
    rest = sorted((item for item in state.items.known if item.name > after), key=lambda item: item.name)
    page = [item_reply(item) for item in rest[:limit]]
    return ItemsReply(page, page[-1].id if len(rest) > limit else None)


def slot_reply(state: SlotState) -> SlotReply:
    """Describe a slot."""
    counts, config = state.activity.counts, state.config
    minutes = [
        messages.Minute(
            one.number * 60.0,
            one.ranked,
            one.answered,
            one.explored,
            one.value / one.answered if one.answered else None,
        )
        for one in state.activity.minutes
    ]
    return SlotReply(
        name=state.slot,
        learner=config.learner if state.comparison is None else state.comparison.settings.name,
        measure=config.measure,
        k=config.k,
        mode=config.mode,
        items=None if state.lists else len(state.items.present),
        keys=len(state.keys),
        sequence=state.number,
        ranked=counts.n_ranked,
        answered=counts.n_answered,
        expired=counts.expired,
        due=state.responses.due,
        due_answered=state.responses.due_answered,
        ranking=best_names(state),
        late=counts.late,
        explored=counts.explored,
        rules=str(config.rules),
        relaxed=counts.relaxed,
        open=len(state.open),
        value=state.monitor.value(),
        members=members(state),
        comparison=comparison_reply(config, state.comparison),
        holdout=holdout_reply(state.holdout, config.holdout),
        alarms=alarms(state),
        minutes=minutes,
    )


def best_names(state: SlotState) -> list[str]:
    """Return the first items by the learner's current estimates. Empty if these depend on the call."""
    present, config = state.items.present, state.config
    if state.lists or config.context or state.has_scores or not len(present):
        return []
    if not config.features:
        best = state.agent.best_ranking(available=present if state.changing else None)
    elif len(present) <= config.max_list_length:
        best = present[state.agent.best_ranking(state.registered_features(present))]
    else:
        return []
    return state.items.names(best[:_BEST].tolist())


def alarms(state: SlotState) -> list[messages.Alarm]:
    """Describe the active alarms of a slot."""
    found = [
        messages.Alarm(alarm.name, alarm.since / SECOND, alarm.cause, alarm.action)
        for alarm in state.monitor.alarms
    ]
    holdout = state.holdout
    if holdout.since and not (verdict := holdout.verdict()).agrees:
        ends = [f"{part.low:.3g} to {part.high:.3g}" for part in (verdict.difference, verdict.two_samples)]
        cause = (
            f"The holdout finds a difference of {ends[0]}, but the plain means of its two kinds of lists differ "
            f"by {ends[1]}. Answers probably depend on the position."
        )
        action = "Decide by the plain means, or send clicks with feedback rules that correct for positions."
        found.append(messages.Alarm("holdout-contradiction", holdout.since / SECOND, cause, action))
    return found


@runtime_checkable
class _HasMembers(Protocol):
    """A learner that consists of a champion and challengers (`learners.champion`)."""

    def member_status(self, state: Any) -> Sequence[Any]: ...


def members(state: SlotState) -> list[messages.Member]:
    """Describe the champion and the challengers of a slot, with their estimated difference in value."""
    agent = state.agent
    if not isinstance(agent.learner, _HasMembers):
        return []
    return [
        messages.Member(
            one.member,
            "champion" if one.is_champion else "challenger",
            None
            if one.is_champion or not one.rounds
            else messages.Interval(one.difference, one.low, one.high, one.rounds),
        )
        for one in agent.learner.member_status(agent.state)
    ]
