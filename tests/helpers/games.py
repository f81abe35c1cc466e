"""Games as plain numbers."""

from __future__ import annotations

from fractions import Fraction

from peekrank.games.game import Game


def exact_losses(game: Game) -> list[list[Fraction]]:
    """The losses of a rational game."""
    assert game.rational
    return [[Fraction(int(n)) / game.scales[0][0] for n in row] for row in game.numerators[0]]
