"""The kernels of champion and auto, composed from those of the members, which they call in turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.learners._champion.comparison import (
    compare_members,
    fill_evidence,
    fill_exploration_probs,
    fill_propensities,
    fill_values,
    pick_exploration,
)
from peekrank.learners._champion.state import CHAMPION, PERIOD_MARK, WEIGHTS, ChampionState, Members
from peekrank.types import Features, Floats, Ints, Kernels, State

# The kernels of one member
_exploit: Callable[[State, Features, Ints, Floats], None] = unspecialised
_explore: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_propensities: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_off_policy: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_set_items: Callable[[State, Ints], None] = unspecialised
# Kernels for one member and all after it
_this: Callable[..., None] = unspecialised
_others: Callable[..., None] = unspecialised
# Kernels for all members
_exploit_in_all: Callable[..., None] = unspecialised
_all_explore: Callable[..., None] = unspecialised
_off_policy_in_all: Callable[..., None] = unspecialised
_all_update: Callable[..., None] = unspecialised
_set_items_in_all: Callable[..., None] = unspecialised


def _exploit_of(member: State, s: ChampionState, X: Features, token: Floats, j: int) -> None:
    _exploit(member, X, s.orders[j][: len(X)], token[s.tokens[j] : s.tokens[j + 1]])


def _explore_of(
    member: State, s: ChampionState, X: Features, uniforms: Floats, ranking: Ints, token: Floats, j: int
) -> None:
    """Fill in the ranking and the propensities of the member, if it is the champion.

    If it cannot compute its propensities at present, it shows its best order.
    """
    if s.clock[CHAMPION] != j:
        return
    n, own, seen = len(ranking), token[s.tokens[j] : s.tokens[j + 1]], s.seen[: len(ranking)]
    for p in range(n):
        ranking[p] = s.orders[j, p]
    _explore(member, X, uniforms[1:], ranking, own)
    _propensities(member, X, ranking, own, seen)
    token[0] = own[0]
    if np.isnan(seen[0]):
        token[0] = 0
        for p in range(n):
            ranking[p] = s.orders[j, p]
            seen[ranking[p]] = p < s.k


def _off_policy_of(
    member: State, s: ChampionState, X: Features, ranking: Ints, propensities: Floats, token: Floats, j: int
) -> None:
    _off_policy(member, X, ranking, propensities, token[s.tokens[j] : s.tokens[j + 1]])


def _update_of(
    member: State, s: ChampionState, X: Features, ranking: Ints, token: Floats, feedback: Floats, j: int
) -> None:
    member_feedback = s.member_feedback[: len(feedback)]
    for p in range(len(feedback)):
        member_feedback[p] = feedback[p] if np.isnan(feedback[p]) else s.grades[j, int(feedback[p])]
    _update(member, X, ranking, token[s.tokens[j] : s.tokens[j + 1]], member_feedback)
    member_feedback[:] = 0


def _set_items_of(member: State, items: Ints, j: int) -> None:
    _set_items(member, items)


def _exploit_in_turn(team: Members, s: ChampionState, X: Features, token: Floats, j: int) -> None:
    _this(team.first, s, X, token, j)
    _others(team.rest, s, X, token, j + 1)


def _explore_in_turn(
    team: Members, s: ChampionState, X: Features, uniforms: Floats, ranking: Ints, token: Floats, j: int
) -> None:
    _this(team.first, s, X, uniforms, ranking, token, j)
    _others(team.rest, s, X, uniforms, ranking, token, j + 1)


def _off_policy_in_turn(
    team: Members, s: ChampionState, X: Features, ranking: Ints, propensities: Floats, token: Floats, j: int
) -> None:
    _this(team.first, s, X, ranking, propensities, token, j)
    _others(team.rest, s, X, ranking, propensities, token, j + 1)


def _update_in_turn(
    team: Members, s: ChampionState, X: Features, ranking: Ints, token: Floats, feedback: Floats, j: int
) -> None:
    _this(team.first, s, X, ranking, token, feedback, j)
    _others(team.rest, s, X, ranking, token, feedback, j + 1)


def _set_items_in_turn(team: Members, items: Ints, j: int) -> None:
    _this(team.first, items, j)
    _others(team.rest, items, j + 1)


def _rank(s: ChampionState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    _set_items_in_all(s.members, s.everyone[:n], 0)
    _exploit_in_all(s.members, s, X, token, 0)
    _all_explore(s.members, s, X, uniforms, ranking, token, 0)
    fill_values(s, n)
    total = fill_exploration_probs(s, n)
    item = pick_exploration(s, uniforms[0], ranking)
    if item >= 0:
        token[0] = s.orders[s.clock[CHAMPION], min(s.k, n) - 1] != ranking[min(s.k, n) - 1]
    fill_propensities(s, n, total)
    _off_policy_in_all(s.members, s, X, ranking, s.propensities[:n], token, 0)
    fill_evidence(s, total, item, ranking, token)


def _update_all(s: ChampionState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    _set_items_in_all(s.members, s.everyone[: len(ranking)], 0)
    _all_update(s.members, s, X, ranking, token, feedback, 0)
    compare_members(s, token, feedback)


def _off_policy_all(s: ChampionState, X: Features, ranking: Ints, propensities: Floats, token: Floats) -> None:
    """Let all members learn from a ranking that was replaced; it does not count as evidence."""
    _off_policy_in_all(s.members, s, X, ranking, propensities, token, 0)
    token[PERIOD_MARK] = -1
    token[WEIGHTS : WEIGHTS + s.k] = 0


@kernel
def _stay(member: State, items: Ints) -> None:
    """Do nothing, for a member whose items are always the same."""


@kernel
def _fill_propensities(s: ChampionState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for i in range(len(out)):
        out[i] = s.propensities[i]


_TURNS: dict[str, tuple[Any, Any]] = {
    "exploit": (_exploit_of, _exploit_in_turn),
    "explore": (_explore_of, _explore_in_turn),
    "off_policy": (_off_policy_of, _off_policy_in_turn),
    "update": (_update_of, _update_in_turn),
    "set_items": (_set_items_of, _set_items_in_turn),
}


@cache
def champion_kernels(members: tuple[Kernels, ...]) -> Kernels:
    """Return the kernels of a champion whose members have these kernels."""
    parts = [_parts(each) for each in members]
    name = hashlib.sha256("\0".join(map(_name, members)).encode()).hexdigest()[:16]

    def all_of(what: str) -> Any:
        return _in_turn(what, [each[what] for each in parts])

    set_items, off_policy = all_of("set_items"), all_of("off_policy")
    every = {"_exploit_in_all": all_of("exploit"), "_all_explore": all_of("explore")}
    return Kernels(
        specialise(_rank, name, _set_items_in_all=set_items, _off_policy_in_all=off_policy, **every),
        specialise(_update_all, name, _set_items_in_all=set_items, _all_update=all_of("update")),
        _fill_propensities,
        counts_rounds=True,
        off_policy=specialise(_off_policy_all, name, _off_policy_in_all=off_policy),
        inline=False,
    )


def _parts(one: Kernels) -> dict[str, Any]:
    """Return the kernels of a member that each operation needs."""
    return {
        "exploit": {"_exploit": one.exploit},
        "explore": {"_explore": one.explore, "_propensities": one.propensities},
        "off_policy": {"_off_policy": one.off_policy},
        "update": {"_update": one.update},
        "set_items": {"_set_items": one.set_items or _stay},
    }


def _in_turn(what: str, needed: Sequence[dict[str, Any]]) -> Any:
    """Return a kernel that applies an operation to one member after the other."""
    single, both = _TURNS[what]
    name = hashlib.sha256("\0".join(map(_addresses, needed)).encode()).hexdigest()[:16]
    first = specialise(single, _addresses(needed[0]), **needed[0])
    if len(needed) == 1:
        return first
    return specialise(both, name, _this=first, _others=_in_turn(what, needed[1:]))


def _addresses(parts: dict[str, Any]) -> str:
    return "-".join(f"{part.__module__}.{part.__qualname__}" for part in parts.values())


def _name(kernels: Kernels) -> str:
    return "-".join(_addresses({"": part}) for part in kernels if part is not None and not isinstance(part, bool))


def lacking(kernels: Kernels) -> str:
    """Return why a learner cannot be a member; empty if it can."""
    if kernels.off_policy is None:
        return "it cannot learn from rankings that another learner chose"
    if kernels.propensities is None:
        return "it does not report propensities"
    if kernels.exploit is None or kernels.explore is None:
        return "it does not separate exploitation from exploration"
    return ""
