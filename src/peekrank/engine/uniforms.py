"""Random numbers of an agent, drawn for many rounds at a time: a call to NumPy takes longer than ranking."""

from __future__ import annotations

import numpy as np

from peekrank.engine.validation import Seed, make_rng
from peekrank.types import Floats

_MAX_AHEAD, _MAX_UNIFORMS = 64, 4096  # rounds and uniforms to draw ahead


class Uniforms:
    """Rows of uniforms, one per round, with the same values as if each row had been drawn on its own.

    Parameters
    ----------
    draws
        Numbers that a round needs, until `next` asks for another number.
    seed
        A number, or a generator that other code may share. A generator is called once per round.

    >>> ahead, rng = Uniforms(3, 0), make_rng(0)
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
        """Replace the generator and discard the numbers drawn ahead."""
        self._rng = make_rng(seed)
        self._max_ahead = 1 if isinstance(seed, np.random.Generator) else _MAX_AHEAD
        self._ahead = self._next = 0
        self._set_row_length(self.rows.shape[1])

    def next(self, draws: int) -> tuple[Floats, int]:
        """Return the rows drawn ahead and the index of the next round's row, which has `draws` numbers."""
        if draws != self.rows.shape[1]:
            self._set_row_length(draws)
        row = self._next
        if row == self._ahead:
            self._before = self._rng.bit_generator.state
            self._rng.random(out=self.rows)
            row = 0
        self._next = row + 1
        return self.rows, row

    def rewound_generator(self) -> np.random.Generator:
        """Return the generator, rewound to its state after the rounds so far."""
        if self._next < self._ahead:
            self._rng.bit_generator.state = self._before
            self._rng.random(out=self.rows[: self._next])
            self._next = self._ahead
        return self._rng

    def _set_row_length(self, draws: int) -> None:
        """Set how many numbers each round gets from now on."""
        self.rewound_generator()
        self._ahead = max(1, min(self._max_ahead, _MAX_UNIFORMS // max(1, draws)))
        self.rows = np.empty((self._ahead, draws))
        self._next = self._ahead
