"""Precomputed plan of a game."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from peekrank.games.game import Game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.learners._finite_games import finite
from peekrank.learners.feedexp3.linear_programs import ADVICE, estimates, exploration
from peekrank.learners.feedexp3.signals import SignalGroups, seen_in
from peekrank.learners.feedexp3.state import MAX_MIXING
from peekrank.types import Floats, Ints, Measure, Shape


class Plan(NamedTuple):
    """Precomputed plan: `rankings` and `seen` by action, one `action` for each class, estimates, exploration.

    ``q`` is by action. ``width`` is C, ``cost`` is D, the largest loss of q against the best action under any
    outcome, and ``max_loss`` is R, the largest expected loss of a round.
    """

    rankings: Ints
    seen: SignalGroups
    action: Ints
    values: Floats
    q: Floats
    width: float
    cost: float
    max_loss: float

    @property
    def min_horizon(self) -> int:
        """Return the smallest horizon at which the bound is at most R T."""
        if self.width == 0:
            return 1
        gamma = min(MAX_MIXING, self.max_loss / (3 * self.cost))
        return ceil(self.width**2 * log(len(self.action)) / (2 * gamma * (self.max_loss - gamma * self.cost) ** 2))

    def tuned(self, horizon: int | None) -> tuple[float, float]:
        """Return gamma and eta / gamma or, without a horizon, their factors of t^(-1/3)."""
        if self.width == 0:
            return 0.0, 0.0
        spread = self.width**2 * log(len(self.action))
        if horizon is None:
            gamma = (spread / (12 * self.cost**2)) ** (1 / 3)
            return gamma, 4 * sqrt(spread / (3 * gamma)) / self.width**2
        gamma = min(MAX_MIXING, (spread / (8 * self.cost**2 * horizon)) ** (1 / 3))
        return gamma, sqrt(8 * spread / (gamma * horizon)) / self.width**2

    def regret(self, horizon: int, *, anytime: bool) -> float:
        """Return the sum of the three terms of the bound."""
        if self.width == 0:
            return 0.0
        gamma, ratio = self.tuned(None if anytime else horizon)
        shrink = horizon ** (-1 / 3) if anytime else 1.0
        sums = 3 / 2 if anytime else 1  # the sum of t^(-1/3) is at most 3/2 T^(2/3)
        last = min(MAX_MIXING, gamma * shrink)
        explored = min(MAX_MIXING, sums * gamma * shrink) * horizon
        learning = log(len(self.action)) / (ratio * shrink * last)
        return self.cost * explored + learning + self.width**2 / 8 * sums * ratio * shrink * horizon


@lru_cache(maxsize=64)
def plan_of(measure: Measure | Game, shape: Shape, max_grade: int) -> Plan:
    """Compute the plan of a game. Raises ValueError if the game cannot be learned."""
    if not isinstance(measure, Game):
        theorem = theorem_of(measure, shape.m, shape.k, max_grade + 1)
        if theorem.rate == Rate.LINEAR:
            raise ValueError(f"hopeless: {theorem.reason} {ADVICE}")
    game, rankings = finite(measure, shape, max_grade)
    # Some ranking is Pareto-optimal, and relabelling the items maps it to every other.
    class_of = _pareto_classes(game) if isinstance(measure, Game) else _duplicates(game)
    seen = seen_in(game)
    first = np.unique(class_of, return_index=True)[1][-class_of.max() - 1 :]
    if len(first) == 1:
        nothing, anything = np.zeros((len(seen.owner), 1)), np.full(len(class_of), 1 / len(class_of))
        return Plan(rankings, seen, first, nothing, anything, width=0, cost=0, max_loss=0)
    values, width = estimates(game, class_of, first, seen)
    rounded = np.round(width / width.max(), 9)  # equal widths must tie
    by_information = np.lexsort((-rounded[seen.group], class_of))  # among duplicates, the one to play comes first
    action = by_information[np.searchsorted(class_of[by_information], np.arange(len(first)))]
    q = exploration(game, action, seen, width / width.sum())
    loss = game.loss
    excess = loss - loss[action].min(axis=0)
    cost = float((q @ excess).max())
    max_loss = max(cost, float(excess[action].max()))
    return Plan(rankings, seen, action, values, q, float(width.sum()), cost, max_loss)


def _duplicates(game: Game) -> Ints:
    """Return the class of each action; actions with the same losses form one class."""
    rows = np.moveaxis(game.numerators, 0, 1).reshape(len(game.actions), -1)
    number: dict[tuple[Any, ...], int] = {}
    return np.array([number.setdefault(tuple(row), len(number)) for row in rows.tolist()])


def _pareto_classes(game: Game) -> Ints:
    """Return the class of each Pareto-optimal action, -1 for the others. Raises ValueError for a hopeless game."""
    from peekrank.games.analysis import analyse  # imports SciPy, which is slow

    found = analyse(game)
    if found.rate is None or found.cells is None:
        raise ValueError(f"the analysis could not decide {found.undecided}, which feedexp3 needs to know")
    if found.rate == Rate.LINEAR and found.unobservable_pair is not None:
        i, j = (game.actions[a] for a in (found.unobservable_pair.i, found.unobservable_pair.j))
        raise ValueError(f"hopeless: no feedback shows which of the actions '{i}' and '{j}' is better. {ADVICE}")
    first = found.cells.duplicate_of
    pareto = np.array(found.cells.kind) == "pareto"
    return np.where(pareto, np.searchsorted(np.unique(first[pareto]), first), -1)
