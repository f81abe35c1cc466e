"""The randomness of an agent, drawn for many rounds at a time: asking NumPy takes longer than ranking."""

from __future__ import annotations

import numpy as np

from peekrank.engine.validation import Seed, make_rng
from peekrank.types import Floats

_MOST_AHEAD, _MOST_UNIFORMS = 64, 4096  # rounds and uniforms that are drawn ahead at most


class Uniforms:
    """Rows of uniforms, one for each round, as if each had been drawn by itself.

    Parameters
    ----------
    draws
        How many numbers a round takes, until another number is asked for.
    seed
        A number, or a generator that others may use, too, which is then asked for one round at a time.

    >>> ahead, rng = Uniforms(3, 0), generator(0)
    >>> rows, row = ahead.next(3)
    >>> bool(np.array_equal(rows[row], rng.random(3)))
    True
    >>> float(ahead.rewound_generator().random()) == float(rng.random())
    True
    """

    def __init__(self, draws: int, seed: Seed) -> None:
        self.rows = np.empty((1, draws))
        self.reseed(seed)

    def reseed(self, seed: Seed) -> None:
        """Go on with other randomness; what was drawn ahead is forgotten."""
        self._rng = make_rng(seed)
        self._most_ahead = 1 if isinstance(seed, np.random.Generator) else _MOST_AHEAD
        self._ahead = self._next = 0
        self._draw_by(self.rows.shape[1])

    def next(self, draws: int) -> tuple[Floats, int]:
        """What is drawn ahead, and which row of it is that of the next round, which takes so many numbers."""
        if draws != self.rows.shape[1]:
            self._draw_by(draws)
        row = self._next
        if row == self._ahead:
            self._before = self._rng.bit_generator.state
            self._rng.random(out=self.rows)
            row = 0
        self._next = row + 1
        return self.rows, row

    def rewound_generator(self) -> np.random.Generator:
        """The generator as it is after the rounds so far; what was drawn for later ones is put back."""
        if self._next < self._ahead:
            self._rng.bit_generator.state = self._before
            self._rng.random(out=self.rows[: self._next])
            self._next = self._ahead
        return self._rng

    def _draw_by(self, draws: int) -> None:
        """Draw so many for each round from now on."""
        self.rewound_generator()
        self._ahead = max(1, min(self._most_ahead, _MOST_UNIFORMS // max(1, draws)))
        self.rows = np.empty((self._ahead, draws))
        self._next = self._ahead
