"""`Rules`: limits that every list of an agent obeys, whatever the learner has learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.text import shown
from peekrank._util.validate import check_int
from peekrank.measures import DCG
from peekrank.types import Learner, LinearMeasure, Measure, Shape

_LARGEST = 2**53
Pins = Mapping[int, int] | Iterable[tuple[int, int]]


class AtMost(NamedTuple):
    """Limit of `n` items within the first `within` positions."""

    n: int
    within: int


@dataclass(frozen=True)
class Rules:
    """Limits on the lists of an agent. Propensities stay exact.

    Rules are applied to each list of the learner's mixture: the best list, and one for each item that it may
    explore. Pins come first, even if they exceed a limit; then the lists are filled from the top, without items
    that a limit excludes.

    Parameters
    ----------
    explore
        Largest share of the lists that explore, from 0 to 1.
    explore_at
        Position at which to explore, from 1 to k; None for k. If it is pinned, the next one above.
    pins
        Items with fixed positions: position (from 1) to item. In a list without the item, or too short for the
        position, a pin has no effect.
    blocked
        Items that are never shown.
    new
        Limit on new items, which have fewer than `new_below` answers.
    new_below
        Number of answers from which on an item is no longer new.
    group
        Limit on the items of each group, such as a publisher. `Agent.rank` takes the groups.
    leash
        Largest loss against the app's own order, under the same other rules, as a share of the value of a list of
        perfect items. None for no limit.

    >>> from peekrank import DCG, Agent, DoubtSort, Rules
    >>> agent = Agent(DoubtSort(DCG()), m=4, k=1, rules=Rules(pins={2: 3}, blocked=[0]))
    >>> agent.rank().ranking
    array([1, 3, 2])
    """

    explore: float = 1.0
    explore_at: int | None = None
    pins: Pins = ()
    blocked: Iterable[int] = ()
    new: AtMost | None = None
    new_below: int = 1
    group: AtMost | None = None
    leash: float | None = None

    def __post_init__(self) -> None:
        for name in ("explore", "leash"):
            _check_share(name, getattr(self, name), optional=name == "leash")
        if self.explore_at is not None:
            check_int("explore_at", self.explore_at, 1, _LARGEST)
        check_int("new_below", self.new_below, 1, _LARGEST)
        for name in ("new", "group"):
            object.__setattr__(self, name, _as_limit(name, getattr(self, name)))
        pins, blocked = as_pins(self.pins), as_blocked(self.blocked)
        check_pins(pins, blocked)
        object.__setattr__(self, "pins", tuple(sorted(pins.items())))
        object.__setattr__(self, "blocked", blocked)

    @property
    def pinned(self) -> dict[int, int]:
        """Return the item of each pinned position."""
        return as_pins(self.pins)

    @property
    def only_block(self) -> bool:
        """Return whether the rules do no more than leave out items."""
        return self == Rules(blocked=self.blocked)


def as_pins(pins: Pins) -> dict[int, int]:
    """Return positions (from 1) and items. Raises ValueError for anything else."""
    try:
        pairs = [(position, item) for position, item in (pins.items() if isinstance(pins, Mapping) else pins)]
    except (TypeError, ValueError):
        raise ValueError(f"pins = {shown(pins)}: must map positions to items, as in {{1: 17}}") from None
    for position, item in pairs:
        check_int("position of a pin", position, 1, _LARGEST)
        check_int("item of a pin", item, 0, _LARGEST)
    found = {int(position): int(item) for position, item in pairs}
    if len(found) < len(pairs):
        raise ValueError(f"pins = {shown(pins)}: two items have the same position")
    if len(set(found.values())) < len(found):
        raise ValueError(f"pins = {shown(pins)}: an item has two positions")
    return found


def as_blocked(blocked: Iterable[int]) -> tuple[int, ...]:
    """Return numbers of items in ascending order, each once. Raises ValueError for anything else."""
    try:
        items = list(blocked)
    except TypeError:
        raise ValueError(f"blocked = {shown(blocked)}: must be numbers of items") from None
    for item in items:
        check_int("blocked item", item, 0, _LARGEST)
    return tuple(sorted({int(item) for item in items}))


def check_pins(pins: dict[int, int], blocked: Iterable[int]) -> None:
    """Raise ValueError if a pinned item is blocked."""
    if both := sorted(set(pins.values()) & set(blocked)):
        raise ValueError(f"item {both[0]} is pinned and blocked")


def check_rules(rules: Rules, learner: Learner, shape: Shape) -> None:
    """Raise ValueError, with the reason, if an agent of this learner and shape cannot obey the rules exactly."""
    kernels = learner.kernels
    if rules.blocked and kernels.set_items is None:
        raise ValueError(
            f"blocked: {learner.name} does not know its items by number; leave them out of the list instead"
        )
    if not rules.only_block:
        check_mixture(learner)
    if rules.explore_at is not None and rules.explore_at > shape.k:
        raise ValueError(f"explore_at = {rules.explore_at}: must be at most k = {shape.k}, or nothing is learned")
    if rules.new is not None and kernels.set_items is None:
        raise ValueError(f"new: {learner.name} does not count the answers of single items")
    if rules.leash is not None and not isinstance(measure := measure_of(learner), LinearMeasure):
        raise ValueError(f"leash: {measure} has no weights of positions")


def measure_of(learner: Learner) -> Measure:
    """Return the measure whose weights of positions a leash uses: DCG if the learner has none."""
    return learner.measure if learner.measure is not None else DCG()


def check_mixture(learner: Learner, purpose: str = "obey rules other than blocked") -> None:
    """Raise ValueError if the learner's lists are no small mixture."""
    kernels = learner.kernels
    if kernels.mixture is None or kernels.component is None or kernels.off_policy is None:
        raise ValueError(
            f"{learner.name} cannot {purpose}: its lists are not a mixture of a few, so their "
            "propensities would not be exact; use mixed, doubtsort, greedy or ridge"
        )


def as_json(rules: Rules) -> dict[str, Any]:
    """Return the rules that differ from the defaults, in types that JSON has."""
    values = {name: getattr(rules, name) for name in Rules.__dataclass_fields__}
    return {name: value for name, value in values.items() if value != getattr(Rules(), name)}


def from_json(values: object) -> Rules:
    """Return rules from untrusted JSON. Raises ValueError if they are invalid."""
    if not isinstance(values, dict) or not values.keys() <= Rules.__dataclass_fields__.keys():
        raise ValueError(f"rules = {shown(values)}: must be an object with fields of Rules")
    return Rules(**values)


def _check_share(name: str, value: object, *, optional: bool) -> None:
    if optional and value is None:
        return
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):  # type: ignore[operator]
        raise ValueError(f"{name} = {shown(value)}: must be a share from 0 to 1, as in 0.05")


def _as_limit(name: str, value: Any) -> AtMost | None:
    if value is None:
        return None
    try:
        limit = AtMost(*value)
    except TypeError:
        raise ValueError(
            f"{name} = {shown(value)}: must be AtMost(n, within), as in AtMost(1, within=5)"
        ) from None
    check_int(f"{name}.n", limit.n, 0 if name == "new" else 1, _LARGEST)
    check_int(f"{name}.within", limit.within, 1, _LARGEST)
    return AtMost(int(limit.n), int(limit.within))
