"""Rules of an agent, and additional rules of single calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from peekrank._jit import compile_for, pinned
from peekrank.engine.context import Context
from peekrank.engine.entry_points import Memory
from peekrank.engine.rule_kernels import EXPECT, FREE, N_PINS, PINNED, STEPS, RuleMemory, rule_memory
from peekrank.engine.rule_mixtures import ruled_entry_point
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
from peekrank.types import Applied, Floats, Ints, Learner, LinearMeasure, Measure, Shape

_FAR = 2**62
_MOST_PLANS = 64
_NO_NUMBERS: Ints = np.empty(0, np.int64)
_NO_SCORES: Floats = np.empty(0)


class Plan(NamedTuple):
    """Rules of a call: those of the agent and additional ones."""

    pins: tuple[tuple[int, int], ...]  # position (from 1) and item
    required: frozenset[int]  # positions that the call itself pins
    blocked: tuple[int, ...]
    mixed: bool  # whether rules apply to the lists of a mixture
    listed: bool  # whether the order of the app's list matters


class Ruled:
    """Rules of an agent. `plan` and `check_list` check what a call adds, and `rank` draws a list."""

    def __init__(self, learner: Learner, shape: Shape, rules: Rules | None) -> None:
        if rules is not None and not isinstance(rules, Rules):
            raise ValueError(f"rules = {rules!r}: must be a value of Rules")
        self.rules, self.always, self.n_relaxed = rules, rules is not None, 0
        self._learner, self._rules, self._k = learner, rules or Rules(), shape.k
        check_rules(self._rules, learner, shape)
        self._standing = Plan(
            tuple(self._rules.pinned.items()),
            frozenset(),
            as_blocked(self._rules.blocked),
            not self._rules.only_block,
            self._rules.leash is not None or self._rules.group is not None,
        )
        self._expecting = self._standing._replace(mixed=True)
        self._plans: dict[Any, Plan] = {}  # of the latest calls, by what they said
        self._grouped, self._room, self._loaded = self._rules.group is not None, 0, self._standing
        self._entry: Callable[..., int] | None = None
        self._memory: RuleMemory
        self._address: RuleMemory
        self._applied: Applied  # of the plan that is loaded, in a list that can obey all of it

    def plan(
        self,
        pins: Pins | None,
        blocked: Iterable[int] | None,
        groups: ArrayLike | None,
        *,
        expecting: bool = False,
    ) -> Plan:
        """Return the rules of a call. Raises ValueError if they contradict each other or need another learner."""
        rules, standing = self._rules, self._expecting if expecting else self._standing
        if expecting:
            check_mixture(self._learner, "say how its lists weigh its items")
        if (groups is None) is self._grouped:
            raise ValueError(
                "groups: the agent has no rule for groups; make it with rules=Rules(group=...)"
                if rules.group is None
                else "the rules limit groups: pass the group of each item as groups"
            )
        if pins is None and blocked is None:
            return standing
        key = _key(pins, blocked)
        if key is not None and (known := self._plans.get((*key, expecting))) is not None:
            return known
        found, required, out = rules.pinned, frozenset[int](), rules.blocked
        if pins is not None:
            called = as_pins(pins)
            check_mixture(self._learner)
            for position, item in called.items():
                if found.get(position, item) != item:
                    raise ValueError(f"position {position} is pinned to items {found[position]} and {item}")
            found, required = as_pins(found | called), frozenset(called)
        if blocked is not None:
            out = as_blocked((*out, *blocked))
            check_rules(Rules(blocked=out), self._learner, Shape(1, 0, 1))
        check_pins(found, out)
        mixed = standing.mixed or pins is not None
        plan = Plan(tuple(sorted(found.items())), required, tuple(out), mixed, standing.listed)
        if key is not None:
            if len(self._plans) == _MOST_PLANS:
                self._plans.clear()
            self._plans[(*key, expecting)] = plan
        return plan

    def check_list(self, plan: Plan, items: Ints, context: Context | None, *, has_order: bool) -> None:
        """Raise ValueError if a list cannot obey what the call says, or has no order for the leash."""
        if self._rules.leash is not None and not has_order and (context is None or not len(context.scores)):
            raise ValueError("the leash needs the app's own order: pass scores, or available in that order")
        n = len(items)
        listed = items.tolist() if plan.required else ()
        for position, item in plan.pins if plan.required else ():
            if position in plan.required and (position > n or item not in listed):
                reason = f"{n} items" if position > n else "no such item"
                raise ValueError(f"item {item} is pinned to position {position}, but the list has {reason}")

    def rank(
        self,
        plan: Plan,
        context: Context | None,
        groups: Ints | None,
        room: int,
        memory: Memory,
        arguments: tuple[Any, ...],
        expected: Floats | None = None,
    ) -> tuple[int, Applied]:
        """Rank under rules, and return the number of the round and what was applied.

        Fill `expected` with the mean of `top_weights` of each row over all lists that could have been drawn.
        """
        if room != self._room or plan is not self._loaded:
            self._load(plan, room)
        self._memory.numbers[EXPECT] = expected is not None
        if expected is not None:
            weights = top_weights(measure_of(self._learner), len(expected), self._k)
            self._memory.top_weights[: len(weights)] = weights
        said = (_NO_SCORES, _NO_NUMBERS) if context is None else context[1:]
        coded = _NO_NUMBERS if groups is None else groups
        if self._entry is None:
            entry = ruled_entry_point(self._learner.kernels)
            self._entry = compile_for(entry, memory, self._address, *said, coded, *arguments)
        number, applied = self._entry(memory, self._address, *said, coded, *arguments), self._applied
        if expected is not None:
            expected[:] = self._memory.expected[: len(expected)]
        if number > 0:
            return number, applied if groups is None else Applied(applied.pins, groups, 0, 1.0)
        relaxed, followed, used = self._memory.results.tolist()
        self.n_relaxed += relaxed > 0
        pins = applied.pins if used == len(applied.pins) else self._used_pins(arguments[0])
        return -number, Applied(pins, groups, relaxed, followed / STEPS)

    def _used_pins(self, items: Ints) -> tuple[tuple[int, int], ...]:
        """Return the pins that had an effect in the latest list."""
        memory = self._memory
        last = memory.numbers[PINNED]
        return tuple((p + 1, int(items[row])) for p, row in enumerate(memory.pins[:last].tolist()) if row != FREE)

    def _load(self, plan: Plan, room: int) -> None:
        """Put the rules of a call into the memory of the kernels."""
        if room != self._room:
            self._make_room(room)
        memory, pins = self._memory, tuple(pin for pin in plan.pins if pin[0] <= room)
        memory.numbers[N_PINS] = len(pins)
        for j, (position, item) in enumerate(pins):
            memory.pin_positions[j], memory.pin_items[j] = position - 1, item
        self._loaded, self._applied = plan, Applied(pins, None, 0, 1.0)

    def _make_room(self, room: int) -> None:
        rules, measure = self._rules, measure_of(self._learner)
        group, new = rules.group or (0, 0), rules.new or (0, 0)
        weights: Floats = np.zeros(room)
        if rules.leash is not None and isinstance(measure, LinearMeasure):
            weights = measure.discount(room) * (1 if measure.higher_is_better else -1)
        memory = rule_memory(room, weights)
        target = _FAR if rules.explore_at is None else rules.explore_at - 1
        memory.numbers[:] = (target, 0, *group, *new, rules.new_below, rules.leash is not None, 0, 0)
        memory.shares[:2] = rules.explore, rules.leash or 0.0
        self._room, self._memory, self._address = room, memory, pinned(memory)


def _key(pins: Pins | None, blocked: Iterable[int] | None) -> tuple[Any, ...] | None:
    """Return a key that identifies the rules of a call, or None if they are not plain numbers."""
    if not (pins is None or type(pins) is dict) or not (blocked is None or type(blocked) in (list, tuple)):
        return None
    said = (*(() if pins is None else (*pins, *pins.values())), *(blocked or ()))
    if any(type(number) is not int for number in said):
        return None
    return None if pins is None else tuple(pins.items()), None if blocked is None else tuple(blocked)


@lru_cache(maxsize=64)
def top_weights(measure: Measure, n: int, k: int) -> Floats:
    """Return the weights of the first k positions of a list of n items, for a measure cut at position k.

    All positions below count alike. Raises ValueError if the measure has no weights of positions.

    >>> from peekrank.measures import Precision, SumLoss
    >>> top_weights(SumLoss(), 4, 2), top_weights(Precision(3, mean=False), 4, 2)
    (array([-2., -1.]), array([1., 1.]))
    """
    if not isinstance(measure, LinearMeasure):
        raise ValueError(f"{measure} has no weights of positions")
    discount, k = measure.discount(n), min(k, n)
    weights: Floats = discount[:k].astype(np.float64)
    if not measure.higher_is_better:
        weights -= discount[min(k, n - 1)]
    weights.setflags(write=False)
    return weights


def as_groups(groups: ArrayLike, n: int) -> Ints:
    """Return the group of each item of a list as a number. Whole numbers stay as they are."""
    listed: list[Any]
    if isinstance(groups, list) and len(groups) == n:
        listed = groups
    else:
        array = rows_of(groups, n, "groups")
        if array.dtype.kind in "iu":
            return array.astype(np.int64)
        listed = array.tolist()
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in listed], np.int64)
