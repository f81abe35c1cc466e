"""Finite games for the kernels of ranking learners.

A ranking game has rankings as actions, and the k answers are the digits of its feedback symbol. Any other game is
a list of actions. The learner plays the one it ranks first, and the single answer (k = 1) is the index of its
symbol.
"""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank._util.validate import check_int
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.learners._shared import answered
from peekrank.types import Floats, Ints, Measure, Shape

MAX_ACTIONS = 720
MAX_OUTCOMES = 1024
NO_SYMBOL = -1


class Finite(NamedTuple):
    """A game, and the ranking that stands for each of its actions."""

    game: Game
    rankings: Ints


@kernel
def symbol_of(feedback: Floats, grades: int) -> int:
    """Return the index of the feedback symbol, as in `Game.signals`, or NO_SYMBOL if an answer is missing."""
    if answered(feedback) < len(feedback):
        return NO_SYMBOL
    number = 0
    for p in range(len(feedback)):
        number = number * grades + int(feedback[p])
    return number


def less_position(ranking: Ints) -> Floats:
    """Return scores that sort the items as this ranking does: minus the position of each, from 0.

    >>> less_position(np.array([2, 0, 1]))
    array([-1., -2., -0.])
    """
    scores = np.empty(len(ranking))
    scores[ranking] = -np.arange(len(ranking), dtype=np.float64)
    return scores


def max_grade_of(measure: Measure | Game, max_grade: int) -> int:
    """Validate and return the largest grade, or the largest symbol index of a game."""
    given: object = measure
    if not isinstance(given, Game | Measure):
        raise ValueError(f"measure = {given!r}: must be a measure, as in measure('dcg'), or a game")
    if isinstance(measure, Game):
        check_int("number of feedback symbols", len(measure.symbols), 1, 256)
        return len(measure.symbols) - 1
    check_int("max_grade", max_grade, 1, 255)
    return max_grade


def finite(measure: Measure | Game, shape: Shape, max_grade: int) -> Finite:
    """Return the game that a learner plays.

    Raises ValueError if the game does not have this shape, or is too large to enumerate.

    >>> finite(Game.of([[0, 1], [1, 0]], [[0, 0], [0, 1]]), Shape(2, 0, 1), 1).rankings
    array([[0, 1], [1, 0]])
    """
    if isinstance(measure, Game):
        actions = len(measure.actions)
        if shape.m != actions or shape.k != 1:
            raise ValueError(f"a game with {actions} actions needs m = {actions} and k = 1, got {shape}")
        items = np.arange(actions)
        return Finite(measure, np.array([np.r_[a, np.delete(items, a)] for a in items]))
    if shape.m > 20 or factorial(shape.m) > MAX_ACTIONS or (max_grade + 1) ** shape.m > MAX_OUTCOMES:
        raise ValueError(
            f"m = {shape.m}: this learner enumerates the game of all rankings, up to {MAX_ACTIONS} rankings and "
            f"{MAX_OUTCOMES} relevance vectors. Use setftrl, permftrl or blockftrl for more: "
            "`peekrank advise` says which one fits"
        )
    game = ranking_game(measure, shape.m, shape.k, max_grade + 1)
    return Finite(game, np.array(list(permutations(range(shape.m))), dtype=np.int64))
