"""Details of a slot for the dashboard: the current ranking, why items stand where they stand, and the days."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from peekrank.service.api.messages import ItemReply
from peekrank.service.core.activity import Day
from peekrank.service.core.items import Item
from peekrank.service.core.replies import item_reply
from peekrank.service.core.slot_state import SlotState
from peekrank.types import ExplainsItems

_BEST = 20  # items of a ranking
_ITEMS = 100  # of the table
_KEYS = 12  # keys that are listed; more may be persons


class Standing(NamedTuple):
    """An item of the current ranking: its expected gain, the parts of it by name, and the answers behind it."""

    name: str
    estimate: float
    parts: dict[str, float]
    answers: float


class Details(NamedTuple):
    """Details of a slot."""

    standings: list[Standing]  # best first; empty if the learner does not know items by name
    key: str | None  # for which the ranking is; None if no list had the key
    keys: list[str]  # all keys, if there are few
    takes_keys: bool
    days: list[Day]
    items: Sequence[ItemReply] = ()  # those with the best mean grades
    known: int = 0  # number of items, also retired ones


def details(state: SlotState, key: str | None = None) -> Details:
    """Describe a slot, without a key if no list had this one."""
    takes_keys, key = state.agent.learner.kernels.set_key is not None, key if key in state.keys else None
    keys = list(state.keys) if len(state.keys) <= _KEYS else []
    days = [replace(day) for day in state.activity.days]
    known = [] if state.lists else state.items.known
    items = [item_reply(item) for item in heapq.nsmallest(_ITEMS, known, key=_rank_of)]
    return Details(_standings(state, key), key, keys, takes_keys, days, items, len(known))


def _rank_of(item: Item) -> tuple[bool, float, int, str]:
    """Return what items are sorted by: those with the best mean grades first, and retired ones last."""
    return not item.present, -item.total / item.n_feedback if item.n_feedback else 0.0, -item.shown, item.name


def _standings(state: SlotState, key: str | None) -> list[Standing]:
    """Return the first items of a list of all items, with their registered scores."""
    agent, present = state.agent, state.items.present
    if state.lists or state.comparison is not None or not len(present):
        return []
    if not isinstance(agent.learner, ExplainsItems):
        return []
    scores = np.full(agent.shape.m, np.nan)
    for number in present.tolist() if state.has_scores else ():
        score = state.items.known[number].score
        scores[number] = np.nan if score is None else score
    found = agent.learner.explain(agent.state, scores, None if key is None else state.keys[key])
    best = present[np.argsort(-found.means[present], kind="stable")[:_BEST]]
    return [
        Standing(
            state.items.known[number].name,
            float(found.means[number]),
            {name: float(part[number]) for name, part in found.parts.items()},
            float(found.answers[number]),
        )
        for number in best.tolist()
    ]
