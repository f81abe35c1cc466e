"""The kernels of a team, made from those of its members: each is asked in turn, by number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from peekrank._jit import kernel, specialise, unspecialised
from peekrank.learners._team.judging import (
    ask,
    fill_chances,
    fill_evidence,
    fill_questions,
    fill_worth,
    judge,
)
from peekrank.learners._team.state import CHARGE, PERIOD_MARK, WEIGHTS, Team, TeamState
from peekrank.types import Features, Floats, Ints, Kernels, State

# The kernels of one member
_best: Callable[[State, Features, Ints, Floats], None] = unspecialised
_explore: Callable[[State, Features, Floats, Ints, Floats], None] = unspecialised
_chances: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_adopt: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_update: Callable[[State, Features, Ints, Floats, Floats], None] = unspecialised
_enter: Callable[[State, Ints], None] = unspecialised
# What is done with one member, and with all after it
_this: Callable[..., None] = unspecialised
_others: Callable[..., None] = unspecialised
# What is done with all members
_all_best: Callable[..., None] = unspecialised
_all_explore: Callable[..., None] = unspecialised
_all_adopt: Callable[..., None] = unspecialised
_all_update: Callable[..., None] = unspecialised
_all_enter: Callable[..., None] = unspecialised


def _best_of(member: State, s: TeamState, X: Features, token: Floats, j: int) -> None:
    _best(member, X, s.orders[j][: len(X)], token[s.tokens[j] : s.tokens[j + 1]])


def _explore_of(
    member: State, s: TeamState, X: Features, uniforms: Floats, ranking: Ints, token: Floats, j: int
) -> None:
    """What the member shows, and its chances, if it is in charge.

    Where it cannot tell its chances at present, nothing is left to chance.
    """
    if s.clock[CHARGE] != j:
        return
    n, own, seen = len(ranking), token[s.tokens[j] : s.tokens[j + 1]], s.seen[: len(ranking)]
    for p in range(n):
        ranking[p] = s.orders[j, p]
    _explore(member, X, uniforms[1:], ranking, own)
    _chances(member, X, ranking, own, seen)
    token[0] = own[0]
    if np.isnan(seen[0]):
        token[0] = 0
        for p in range(n):
            ranking[p] = s.orders[j, p]
            seen[ranking[p]] = p < s.k


def _adopt_of(
    member: State, s: TeamState, X: Features, ranking: Ints, chances: Floats, token: Floats, j: int
) -> None:
    _adopt(member, X, ranking, chances, token[s.tokens[j] : s.tokens[j + 1]])


def _update_of(
    member: State, s: TeamState, X: Features, ranking: Ints, token: Floats, feedback: Floats, j: int
) -> None:
    heard = s.heard[: len(feedback)]
    for p in range(len(feedback)):
        heard[p] = feedback[p] if np.isnan(feedback[p]) else s.grades[j, int(feedback[p])]
    _update(member, X, ranking, token[s.tokens[j] : s.tokens[j + 1]], heard)
    heard[:] = 0


def _enter_of(member: State, items: Ints, j: int) -> None:
    _enter(member, items)


def _best_in_turn(team: Team, s: TeamState, X: Features, token: Floats, j: int) -> None:
    _this(team.first, s, X, token, j)
    _others(team.rest, s, X, token, j + 1)


def _explore_in_turn(
    team: Team, s: TeamState, X: Features, uniforms: Floats, ranking: Ints, token: Floats, j: int
) -> None:
    _this(team.first, s, X, uniforms, ranking, token, j)
    _others(team.rest, s, X, uniforms, ranking, token, j + 1)


def _adopt_in_turn(
    team: Team, s: TeamState, X: Features, ranking: Ints, chances: Floats, token: Floats, j: int
) -> None:
    _this(team.first, s, X, ranking, chances, token, j)
    _others(team.rest, s, X, ranking, chances, token, j + 1)


def _update_in_turn(
    team: Team, s: TeamState, X: Features, ranking: Ints, token: Floats, feedback: Floats, j: int
) -> None:
    _this(team.first, s, X, ranking, token, feedback, j)
    _others(team.rest, s, X, ranking, token, feedback, j + 1)


def _enter_in_turn(team: Team, items: Ints, j: int) -> None:
    _this(team.first, items, j)
    _others(team.rest, items, j + 1)


def _rank(s: TeamState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    n = len(ranking)
    _all_enter(s.members, s.everyone[:n], 0)
    _all_best(s.members, s, X, token, 0)
    _all_explore(s.members, s, X, uniforms, ranking, token, 0)
    fill_worth(s, n)
    total = fill_questions(s, n)
    item = ask(s, uniforms[0], ranking)
    if item >= 0:
        token[0] = s.orders[s.clock[CHARGE], min(s.k, n) - 1] != ranking[min(s.k, n) - 1]
    fill_chances(s, n, total)
    _all_adopt(s.members, s, X, ranking, s.chances[:n], token, 0)
    fill_evidence(s, total, item, ranking, token)


def _update_all(s: TeamState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    _all_enter(s.members, s.everyone[: len(ranking)], 0)
    _all_update(s.members, s, X, ranking, token, feedback, 0)
    judge(s, token, feedback)


def _adopt_all(s: TeamState, X: Features, ranking: Ints, chances: Floats, token: Floats) -> None:
    """All members learn from what somebody else shows; it is no evidence on them."""
    _all_adopt(s.members, s, X, ranking, chances, token, 0)
    token[PERIOD_MARK] = -1
    token[WEIGHTS : WEIGHTS + s.k] = 0


@kernel
def _stay(member: State, items: Ints) -> None:
    """Nothing, for a member whose items are always the same."""


@kernel
def _fill_chances(s: TeamState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for i in range(len(out)):
        out[i] = s.chances[i]


_TURNS: dict[str, tuple[Any, Any]] = {
    "best": (_best_of, _best_in_turn),
    "explore": (_explore_of, _explore_in_turn),
    "adopt": (_adopt_of, _adopt_in_turn),
    "update": (_update_of, _update_in_turn),
    "enter": (_enter_of, _enter_in_turn),
}


@cache
def team_kernels(members: tuple[Kernels, ...]) -> Kernels:
    """The kernels of a team of learners with these kernels."""
    parts = [_parts(each) for each in members]
    name = hashlib.sha256("\0".join(map(_name, members)).encode()).hexdigest()[:16]

    def all_of(what: str) -> Any:
        return _in_turn(what, [each[what] for each in parts])

    enter, adopt = all_of("enter"), all_of("adopt")
    every = {"_all_best": all_of("best"), "_all_explore": all_of("explore")}
    return Kernels(
        specialise(_rank, name, _all_enter=enter, _all_adopt=adopt, **every),
        specialise(_update_all, name, _all_enter=enter, _all_update=all_of("update")),
        _fill_chances,
        clocked=True,
        adopt=specialise(_adopt_all, name, _all_adopt=adopt),
    )


def _parts(one: Kernels) -> dict[str, Any]:
    """What each thing needs that is done with a member."""
    return {
        "best": {"_best": one.best},
        "explore": {"_explore": one.explore, "_chances": one.chances},
        "adopt": {"_adopt": one.adopt},
        "update": {"_update": one.update},
        "enter": {"_enter": one.enter or _stay},
    }


def _in_turn(what: str, needed: Sequence[dict[str, Any]]) -> Any:
    """A kernel that does something with one member after the other."""
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
    """What a learner lacks to be one of a team; empty if it lacks nothing."""
    if kernels.adopt is None:
        return "it cannot learn from rankings that another learner chose"
    if kernels.chances is None:
        return "it cannot tell the chance of each item to be seen"
    if kernels.best is None or kernels.explore is None:
        return "it cannot tell what it takes for best from what it explores"
    return ""
