"""Rules of a slot: limits on its lists, with the items that they name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any

from peekrank._util.text import excerpt
from peekrank.engine.rules import AtMost, Rules, check_mixture, check_rules
from peekrank.service.api.limits import MAX_ID, MAX_ITEMS
from peekrank.service.config.file import Document, FieldPath
from peekrank.types import Learner, Shape


@dataclass(frozen=True)
class RulesConfig:
    """Limits on the lists of a slot."""

    explore: Annotated[float, "Largest share of the lists that explore."] = 1.0
    explore_at: Annotated[int | None, "Position at which to explore, from 1 to k. Without it, k."] = None
    pins: Annotated[
        tuple[tuple[int, str], ...],
        'Items with fixed positions, `{ 1 = "tea" }`. A pin has no effect in a list that lacks item or position.',
    ] = ()
    blocked: Annotated[tuple[str, ...], "Items that no list shows."] = ()
    new: Annotated[AtMost | None, "`{ n = 1, within = 5 }`: at most 1 new item within the first 5 positions."] = (
        None
    )
    new_below: Annotated[int, "Number of grades from which on an item is no longer new."] = 1
    group: Annotated[
        AtMost | None, "`{ n = 1, within = 5 }`: at most 1 item of a group within the first 5 positions."
    ] = None
    leash: Annotated[
        float | None,
        "Largest loss of a list against the order of the call's items, as a share of the value of perfect items.",
    ] = None

    @property
    def limits(self) -> Rules:
        """The rules that do not name items."""
        names = ("explore", "explore_at", "new", "new_below", "group", "leash")
        return Rules(**{name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        """Describe the rules in a line, or return an empty text if there are none."""
        parts = [
            f"explore at most {100 * self.explore:g} % of lists" if self.explore < 1 else "",
            f"explore at position {self.explore_at}" if self.explore_at is not None else "",
            *(f"{name} at position {position}" for position, name in self.pins),
            f"blocked: {', '.join(self.blocked)}" if self.blocked else "",
            f"at most {self.new.n} new in the first {self.new.within}" if self.new else "",
            f"at most {self.group.n} of a group in the first {self.group.within}" if self.group else "",
            f"lose at most {100 * self.leash:g} % against your order" if self.leash is not None else "",
        ]
        return "; ".join(part for part in parts if part)


NO_RULES = RulesConfig()


def parse_slot_rules(document: Document, path: FieldPath) -> RulesConfig:
    """Parse the rules of a slot, and check each and whether they contradict each other."""
    table = document.get(path, {})
    if not isinstance(table, dict):
        document.fail(path, "must be a table")
    if table:
        document.check_names(path, RulesConfig.__dataclass_fields__)
    rules = RulesConfig(**{name: _rule(document, (*path, name), table[name]) for name in table})
    for position, item in rules.pins:
        if item in rules.blocked:
            document.fail((*path, "pins"), f"{item!r} is pinned to position {position}, and blocked")
    return rules


def check_slot_rules(document: Document, path: FieldPath, rules: RulesConfig, learner: Learner, k: int) -> None:
    """Check that the learner of a slot can obey its rules exactly."""
    if rules.blocked and learner.kernels.set_items is None and not learner.variable_length:
        document.fail((*path, "blocked"), f"{learner.name} always ranks all of its items")
    try:
        check_rules(rules.limits, learner, Shape(1, 0, k))
        if rules.pins:
            check_mixture(learner)
    except ValueError as error:
        document.fail(path, str(error))


def _rule(document: Document, path: FieldPath, value: Any) -> Any:
    """Parse a rule. `Rules` says what is wrong with one that names no items."""
    name = str(path[-1])
    if name == "pins":
        return _pins(document, path, value)
    if name == "blocked":
        return _names(document, path, value)
    if name in ("new", "group"):
        if not isinstance(value, dict) or value.keys() != {"n", "within"}:
            document.fail(path, "must be a table with n and within, for example { n = 1, within = 5 }")
        value = AtMost(**value)
    try:
        return getattr(Rules(**{name: value}), name)
    except ValueError as error:
        document.fail(path, str(error).partition(": ")[2])


def _pins(document: Document, path: FieldPath, value: Any) -> tuple[tuple[int, str], ...]:
    if not isinstance(value, dict) or not all(map(_is_position, value)):
        document.fail(path, f'must map positions from 1 to {MAX_ITEMS} to items, for example {{ 1 = "tea" }}')
    names = _names(document, path, list(value.values()))
    return tuple(sorted(zip(map(int, value), names, strict=True)))


def _is_position(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 4 and key[0] != "0" and int(key) <= MAX_ITEMS


def _names(document: Document, path: FieldPath, value: Any) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        document.fail(path, "must name items")
    check_items(document, path, value)
    return tuple(value)


def check_items(document: Document, path: FieldPath, items: Collection[str]) -> None:
    """Check that items are named once each, by valid names."""
    if len(set(items)) < len(items):
        document.fail(path, "must name each item once")
    for item in items:
        if not item.isprintable() or not 1 <= len(item) <= MAX_ID:
            document.fail(path, f"{excerpt(item)!r} is not a valid name: use 1 to {MAX_ID} printable characters")
