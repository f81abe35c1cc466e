"""Finite games through the kernels of ranking learners.

A ranking game has rankings as actions, and the k answers are the digits of its feedback symbol. Any other game is
a list of its actions: the one shown first is played, and the one answer (k = 1) is the number of its symbol.
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
    """A game, and the ranking to show for each of its actions."""

    game: Game
    rankings: Ints


@kernel
def symbol_of(feedback: Floats, grades: int) -> int:
    """The number of the feedback symbol, as `Game.signals` has it; NO_SYMBOL where an answer is missing."""
    if answered(feedback) < len(feedback):
        return NO_SYMBOL
    number = 0
    for p in range(len(feedback)):
        number = number * grades + int(feedback[p])
    return number


def less_position(ranking: Ints) -> Floats:
    """What sorts the items as this ranking does: minus the position of each, the first being 0.

    >>> less_position(np.array([2, 0, 1]))
    array([-1., -2., -0.])
    """
    scores = np.empty(len(ranking))
    scores[ranking] = -np.arange(len(ranking), dtype=np.float64)
    return scores


def max_grade_of(measure: Measure | Game, max_grade: int) -> int:
    """The largest grade, or the largest number of a symbol of a game, checked."""
    given: object = measure
    if not isinstance(given, Game | Measure):
        raise ValueError(f"measure = {given!r}: must be a measure, as in measure('dcg'), or a game")
    if isinstance(measure, Game):
        check_int("number of feedback symbols", len(measure.symbols), 1, 256)
        return len(measure.symbols) - 1
    check_int("max_grade", max_grade, 1, 255)
    return max_grade


def finite(measure: Measure | Game, shape: Shape, max_grade: int) -> Finite:
    """The game that a learner plays; a ValueError where it is not of this shape, or too large to be written down.

    >>> finite(Game.of([[0, 1], [1, 0]], [[0, 0], [0, 1]]), Shape(2, 0, 1), 1).rankings
    array([[0, 1], [1, 0]])
    """
    if isinstance(measure, Game):
        actions = len(measure.actions)
        if shape.m != actions or shape.k != 1:
            raise ValueError(f"a game with {actions} actions is played with m = {actions} and k = 1, not {shape}")
        items = np.arange(actions)
        return Finite(measure, np.array([np.r_[a, np.delete(items, a)] for a in items]))
    if shape.m > 20 or factorial(shape.m) > MAX_ACTIONS or (max_grade + 1) ** shape.m > MAX_OUTCOMES:
        raise ValueError(
            f"m = {shape.m}: the game of all rankings is written down, which is possible for up to {MAX_ACTIONS} "
            f"rankings and {MAX_OUTCOMES} relevance vectors; `peekrank advise` names a learner for more, where "
            "there is one: setftrl, permftrl or blockftrl"
        )
    game = ranking_game(measure, shape.m, shape.k, max_grade + 1)
    return Finite(game, np.array(list(permutations(range(shape.m))), dtype=np.int64))
