"""Rules of a slot in a call: items that are left out, pins, groups, and the order that a leash compares with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from peekrank.engine.rules import check_mixture
from peekrank.service.api import messages, problems
from peekrank.service.event_log.records import Ranked, numbers, read_numbers
from peekrank.types import Ints

if TYPE_CHECKING:
    from peekrank.service.core.slot_state import SlotState

Items = Sequence[str | messages.Item]


def rule_arguments(body: Ranked, rows: Ints | None) -> dict[str, Any]:
    """Return the rules in a record as arguments of `Agent.rank`. `rows` are the registered items with features."""
    arguments: dict[str, Any] = {}
    if body.pins:
        positions, items = zip(*body.pins, strict=True)
        pinned = items if rows is None else rows_of_items(rows, np.array(items)).tolist()
        arguments["pins"] = dict(zip(positions, pinned, strict=True))
    if body.groups:
        arguments["groups"] = read_numbers(body.groups)
    return arguments


def rows_of_items(rows: Ints, items: Ints) -> Ints:
    """Return the index of each item in `rows`, which may have any order."""
    order = np.argsort(rows)
    found: Ints = order[np.searchsorted(rows, items, sorter=order)]
    return found


def names_of_rows(state: SlotState, body: Ranked) -> list[str]:
    """Return the names of the items of a list that is not ranked yet."""
    if state.lists:
        return body.names
    rows, known = read_numbers(body.items) if body.items else state.items.present, len(state.items)
    return [body.added[n - known] if n >= known else state.items.known[n].name for n in rows.tolist()]


def allowed_items(state: SlotState, request: messages.RankRequest) -> tuple[Items | None, list[str]]:
    """Return the items of a call that are not blocked, and the blocked ones."""
    config, items = state.config, request.items
    if config.mode == "shadow" or not (request.blocked or config.rules.blocked):
        return items, []
    if not (state.lists or state.changing):
        raise problems.invalid(f"blocked: {state.agent.learner.name} always ranks all of its items", "$.blocked")
    out = {*(request.blocked or ()), *config.rules.blocked}
    listed: Items = state.items.names(state.items.present.tolist()) if items is None else items
    blocked = [name for name in messages.names_of(listed) if name in out]
    if not blocked:
        return items, []
    if len(blocked) == len(listed):
        raise problems.invalid("blocked: all items of the list are blocked", "$.blocked")
    return [item for item in listed if (item if isinstance(item, str) else item.id) not in out], blocked


def check_order(state: SlotState, body: Ranked, items: Items | None) -> None:
    """Raise a `Problem` if a leash has no order to compare with."""
    rules = state.agent.rules
    if rules is not None and rules.leash is not None and items is None and not body.scores:
        raise problems.invalid("items is missing: the leash compares with your order of the items", "$.items")


def set_pins(state: SlotState, body: Ranked, request: messages.RankRequest) -> None:
    """Set the pins of the slot that have an effect in this list, and those of the call."""
    called, pins = request.pins or {}, dict(state.config.rules.pins)
    if state.config.mode == "shadow" or not (called or pins):
        return
    try:
        check_mixture(state.agent.learner)
    except ValueError as error:
        raise problems.invalid(f"pins: {error}", "$.pins") from None
    place = _rows_by_name(state, body, {*pins.values(), *called.values()})
    length = len(body.names) or len(body.items) // 4 or len(state.items.present)
    for position, name in called.items():
        if pins.get(position, name) != name:
            raise _bad_pin(name, position, f"and the slot's rules pin {pins[position]!r} there")
        if name not in place:
            raise _bad_pin(name, position, "but is blocked" if name in body.blocked else "but is not in the list")
        if position > length:
            raise _bad_pin(name, position, f"but the list has {length} items")
    pins |= called
    used = {position: name for position, name in pins.items() if name in place and position <= length}
    if len(set(used.values())) < len(used):
        name = next(name for name in used.values() if list(used.values()).count(name) > 1)
        raise problems.invalid(f"pins: {name!r} is pinned to two positions", "$.pins")
    body.pins = [(position, place[name]) for position, name in sorted(used.items())]


def _rows_by_name(state: SlotState, body: Ranked, names: set[str]) -> dict[str, int]:
    """Return the number of each of these items that is in the list, or its index if the list brings its items."""
    if state.lists:
        return {name: n for n, name in enumerate(body.names) if name in names}
    rows = set((read_numbers(body.items) if body.items else state.items.present).tolist())
    known = {name: number for name in names if (number := state.items.number(name)) is not None}
    known |= {name: len(state.items) + n for n, name in enumerate(body.added) if name in names}
    return {name: number for name, number in known.items() if number in rows}


def _bad_pin(name: str, position: int, reason: str) -> problems.Problem:
    return problems.invalid(f"pins: {name!r} is pinned to position {position}, {reason}", "$.pins")


def sent_groups(items: Items) -> dict[str, str]:
    """Return the groups of a call, by item."""
    return {item.id: item.group for item in items if not isinstance(item, str) and item.group is not None}


def set_groups(state: SlotState, body: Ranked, items: Items | None) -> None:
    """Set a number for the group of each item: that of the call, else the registered one, else one of its own."""
    sent = sent_groups(items or ())
    if state.config.rules.group is None:
        if sent:
            raise problems.invalid("items: this slot has no rule for groups; set rules.group", "$.items")
        return
    if state.config.mode == "shadow":
        return
    of_group: dict[str, int] = {}
    registered = [""] * len(body.names)
    if not state.lists:
        rows = read_numbers(body.items) if body.items else state.items.present
        registered = state.items.groups(rows.tolist())
    groups = registered
    if sent:
        names = names_of_rows(state, body)
        groups = [sent.get(name) or group for name, group in zip(names, registered, strict=True)]
    body.groups = numbers(
        np.array([of_group.setdefault(group, n) if group else n for n, group in enumerate(groups)], np.int64)
    )
