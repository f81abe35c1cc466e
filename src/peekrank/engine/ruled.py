"""Rules of an agent, and what single calls add to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import compile_for, pinned
from peekrank.engine.context import Context
from peekrank.engine.rule_kernels import (
    FREE,
    PINNED,
    STEPS,
    RuleMemory,
    rule_memory,
    ruled_entry_point,
)
from peekrank.engine.rules import (
    Pins,
    Rules,
    as_blocked,
    as_pins,
    check_mixture,
    check_pins,
    check_rules,
    measure_of,
)
from peekrank.engine.validation import rows_of
from peekrank.types import Applied, Floats, Ints, Learner, LinearMeasure, Shape

_FAR = 2**62


class RuledCall(NamedTuple):
    """Rules of one call."""

    pins: dict[int, int]
    required: frozenset[int]  # positions that the call itself pins
    blocked: tuple[int, ...]
    mixed: bool  # whether rules apply to the lists of a mixture
    listed: bool  # whether the order of the app's list matters


class Limits(NamedTuple):
    """Rules of one list, by row."""

    pins: tuple[tuple[int, int], ...]  # position (from 1) and item
    pinned: Ints | None
    groups: Ints | None
    said: Ints | None  # groups in the app's order
    own: Ints | None  # rows in the app's order


_NO_LIMITS = Limits((), None, None, None, None)


class Ruled:
    """Rules of an agent. `begin` and `limits` check what a call adds, and `rank` draws a list."""

    def __init__(self, learner: Learner, shape: Shape, rules: Rules | None) -> None:
        if rules is not None and not isinstance(rules, Rules):
            raise ValueError(f"rules = {rules!r}: must be a value of Rules")
        self.rules, self.always, self.n_relaxed = rules, rules is not None, 0
        self._learner, self._rules = learner, rules or Rules()
        check_rules(self._rules, learner, shape)
        self._pins, self._mixed = self._rules.pinned, not self._rules.only_block
        self._standing = RuledCall(
            self._pins, frozenset(), as_blocked(self._rules.blocked), self._mixed, self._rules.leash is not None
        )
        self._room = 0
        self._entry: Callable[..., int] | None = None
        self._memory: RuleMemory
        self._address: RuleMemory

    def begin(self, pins: Pins | None, blocked: Iterable[int] | None, groups: ArrayLike | None) -> RuledCall:
        """Return the rules of a call. Raises ValueError if they contradict each other or need another learner."""
        if pins is None and blocked is None and groups is None and self._rules.group is None:
            return self._standing
        rules, found, required = self._rules, self._pins, frozenset[int]()
        if groups is not None and rules.group is None:
            raise ValueError("groups: the agent has no rule for groups; make it with rules=Rules(group=...)")
        if groups is None and rules.group is not None:
            raise ValueError("the rules limit groups: pass the group of each item as groups")
        out = rules.blocked
        if pins is not None:
            called = as_pins(pins)
            check_mixture(self._learner)
            for position, item in called.items():
                if self._pins.get(position, item) != item:
                    raise ValueError(f"position {position} is pinned to items {self._pins[position]} and {item}")
            found, required = as_pins(self._pins | called), frozenset(called)
        if blocked is not None:
            out = as_blocked((*out, *blocked))
            check_rules(Rules(blocked=out), self._learner, Shape(1, 0, 1))
        check_pins(found, out)
        listed = rules.leash is not None or groups is not None
        return RuledCall(found, required, tuple(out), self._mixed or pins is not None, listed)

    def limits(
        self, call: RuledCall, items: Ints, context: Context | None, groups: ArrayLike | None, *, has_order: bool
    ) -> Limits:
        """Return the rules by row of a list. Raises ValueError if the list cannot obey what the call says."""
        n, rules = len(items), self._rules
        if not (call.listed or call.pins):
            return _NO_LIMITS
        said = by_row = own = pinned = None
        if groups is not None and context is not None:
            said = np.unique(rows_of(groups, n, "groups"), return_inverse=True)[1].astype(np.int64)
            by_row = np.empty(n, np.int64)
            by_row[context.listed] = said
        if rules.leash is not None and context is not None:
            if not (has_order or len(context.scores)):
                raise ValueError("the leash needs the app's own order: pass scores, or available in that order")
            own = _app_order(context)
        pins = []
        for position, item in call.pins.items():
            row = int(items.searchsorted(item))
            if position <= n and row < n and items[row] == item:
                pins.append((position, item))
                if pinned is None:
                    pinned = np.full(n, FREE)
                pinned[position - 1] = row
            elif position in call.required:
                raise ValueError(
                    f"item {item} is pinned to position {position}, but the list has "
                    + (f"{n} items" if position > n else "no such item")
                )
        return Limits(tuple(sorted(pins)), pinned, by_row, said, own)

    def rank(self, limits: Limits, room: int, *arguments: Any) -> tuple[int, Applied]:
        """Rank under rules, and return the number of the round and what was applied."""
        if room != self._room:
            self._make_room(room)
        memory = self._memory
        for array, values in (
            (memory.pins, limits.pinned),
            (memory.groups, limits.groups),
            (memory.own, limits.own),
        ):
            if values is not None:
                array[: len(values)] = values
        memory.numbers[PINNED] = 0 if limits.pinned is None else max(limits.pins)[0]
        first, *rest = arguments
        if self._entry is None:
            self._entry = compile_for(ruled_entry_point(self._learner.kernels), first, self._address, *rest)
        number = self._entry(first, self._address, *rest)
        relaxed, followed, _ = memory.results.tolist()
        self.n_relaxed += relaxed > 0
        return number, Applied(limits.pins, limits.said, relaxed, followed / STEPS)

    def _make_room(self, room: int) -> None:
        rules, measure = self._rules, measure_of(self._learner)
        group, new = rules.group or (0, 0), rules.new or (0, 0)
        weights: Floats = np.zeros(room)
        if rules.leash is not None and isinstance(measure, LinearMeasure):
            weights = measure.discount(room) * (1 if measure.higher_is_better else -1)
        memory = rule_memory(room, weights)
        place = _FAR if rules.explore_at is None else rules.explore_at - 1
        memory.numbers[:] = (place, 0, *group, *new, rules.new_below, rules.leash is not None)
        memory.shares[:] = rules.explore, rules.leash or 0.0
        self._room, self._memory, self._address, self._entry = room, memory, pinned(memory), None


def _app_order(context: Context) -> Ints:
    """Return the rows in the app's order: by score, ties as listed. A missing score counts as the middle."""
    listed = context.listed
    if not len(context.scores):
        return listed
    scores: Floats = context.scores[listed]
    missing = np.isnan(scores)
    if missing.any() and not missing.all():
        known = np.sort(scores[~missing])
        not_above = np.searchsorted(known, scores, "left") + np.searchsorted(known, scores, "right")
        scores = not_above.astype(np.float64)
        scores[missing] = len(known)
    order: Ints = listed[np.argsort(-scores, kind="stable")]
    return order
