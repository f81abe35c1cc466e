"""Finite partial-monitoring games: a loss and a feedback symbol for every action and outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peekrank.games.exact import flint
from peekrank.games.exact.numbers import (
    MOST_DIGITS,
    PRECISIONS,
    Exact,
    UndecidedError,
    ball,
    rational,
    shortest,
    sign_of,
    unit,
)
from peekrank.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Game:
    """A finite game whose losses are known exactly.

    The loss of action i under outcome r is ``sum_b numerators[b, i, r] u_b / scales[column[r]]``, with the units
    u_b of `numbers` and scales that are positive combinations of them. A rational game has one unit, u_2 = 1.
    Multiplying the losses of one outcome by a positive number only stretches the cones of the cells, so the
    geometry needs the numerators alone. Observability depends on the scales as well.

    Parameters
    ----------
    numerators
        Integers, (units, actions, outcomes).
    signals
        Number of the feedback symbol, (actions, outcomes).
    symbols
        Symbols that the numbers in `signals` stand for.
    actions, outcomes
        Names.
    bases
        The b of each unit u_b.
    scales
        Each a tuple of rationals, one per unit.
    column
        Index of the scale of each outcome.
    symmetries
        Generators of a group of relabellings (permutations of actions and of outcomes) that preserve the game.
    """

    numerators: Exact
    signals: Ints
    symbols: tuple[Hashable, ...]
    actions: tuple[str, ...]
    outcomes: tuple[str, ...]
    bases: tuple[int, ...] = (2,)
    scales: tuple[tuple[Fraction, ...], ...] = ((Fraction(1),),)
    column: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    symmetries: tuple[tuple[Ints, Ints], ...] = ()

    def __post_init__(self) -> None:
        if len(self.column) == 0:
            object.__setattr__(self, "column", np.zeros(self.numerators.shape[2], dtype=np.int64))
        if not all(any(scale) and min(scale) >= 0 for scale in self.scales):  # units are positive
            raise ValueError("the scales of a game must be positive")
        if len(self.bases) == 1 and len(self.scales) > 1:
            self._merge_scales()
        object.__setattr__(self, "numerators", shortest(self.numerators))
        for actions, outcomes in self.symmetries:
            if not self._invariant(actions, outcomes):
                raise ValueError("a symmetry of the game changes its losses or its feedback")

    @staticmethod
    def of(
        loss: Any, feedback: Any, *, actions: Sequence[str] | None = None, outcomes: Sequence[str] | None = None
    ) -> Game:
        """Make a game from its matrices, with one row per action and one column per outcome.

        Parameters
        ----------
        loss
            Numbers, fractions, or text such as "1/3"; a float stands for the decimal it prints as.
        feedback
            Symbols that the learner sees; any hashable values.
        actions, outcomes
            Names; default 0, 1, ...

        >>> Game.of([[0, 1], [1, 0]], [["heads", "tails"], ["heads", "tails"]]).loss
        array([[0., 1.], [1., 0.]])
        """
        rows, seen = _matrix("loss", loss), _matrix("feedback", feedback)
        if not rows or not rows[0]:
            raise ValueError("the game is empty: it needs at least one action and one outcome")
        for name, matrix in (("loss", rows), ("feedback", seen)):
            if len(matrix) != len(rows):
                raise ValueError(f"loss has {len(rows)} rows and feedback {len(matrix)}: both need one per action")
            for i, row in enumerate(matrix):
                if len(row) != len(rows[0]):
                    raise ValueError(
                        f"row {i} of {name} has {len(row)} columns, row 0 of loss {len(rows[0])}: both matrices "
                        "need one column per outcome"
                    )
        exact = [[_entry(value, i, r) for r, value in enumerate(row)] for i, row in enumerate(rows)]
        common = lcm(*(value.denominator for row in exact for value in row))
        if max(common, *(abs(value) * common for row in exact for value in row)) > 10**MOST_DIGITS:
            raise ValueError(
                f"over their common denominator the losses have more than {MOST_DIGITS} digits: round them"
            )
        numbers: dict[tuple[bool, Hashable], int] = {}  # Python's True equals 1, but they are two symbols
        signals = [
            [numbers.setdefault((isinstance(s, bool), _symbol(s, i, r)), len(numbers)) for r, s in enumerate(row)]
            for i, row in enumerate(seen)
        ]
        return Game(
            numerators=shortest([[[int(value * common) for value in row] for row in exact]]),
            signals=np.array(signals, dtype=np.int64),
            symbols=tuple(symbol for _, symbol in numbers),
            actions=_names("action", actions, len(rows)),
            outcomes=_names("outcome", outcomes, len(rows[0])),
            scales=((Fraction(common),),),
        )

    def __str__(self) -> str:
        """Return a name that identifies the game: its size and a digest of its content."""
        parts = (self.numerators.tolist(), self.signals.tolist(), self.symbols, self.actions, self.outcomes)
        exact = (*parts, self.bases, self.scales, self.column.tolist())
        digest = hashlib.sha256(repr(exact).encode()).hexdigest()[:12]
        return f"game-{len(self.actions)}x{len(self.outcomes)}-{digest}"

    @property
    def rational(self) -> bool:
        """Whether all losses are rational, so that every question has an exact answer."""
        return len(self.bases) == 1 and len(self.scales) == 1

    @property
    def loss(self) -> Floats:
        """Loss matrix in floating point."""
        if self.rational and self.numerators.dtype == object:
            ((scale,),) = self.scales
            return np.array([[float(x / scale) for x in row] for row in self.numerators[0]])
        return self.as_float(self.numerators) / self.scale_values[self.column]

    def signal_matrix(self, action: int) -> NDArray[np.uint8]:
        """Return one row per symbol of the action, with 1 for the outcomes that produce it (ZT Definition 5).

        >>> Game.of([[0, 1]], [["a", "b"]]).signal_matrix(0)
        array([[1, 0], [0, 1]], dtype=uint8)
        """
        row = self.signals[action]
        matrix: NDArray[np.uint8] = np.equal(np.unique(row)[:, None], row).astype(np.uint8)
        return matrix

    def as_float(self, numerators: Exact) -> Floats:
        """Return the sum of numerators times units in floating point. Integers that do not fit are truncated."""
        if numerators.dtype == object and numerators.size:
            numerators = numerators >> max(
                0, int(max(abs(numerators.max()), abs(numerators.min()))).bit_length() - 900
            )
        units = np.array([float(unit(b, 64)) for b in self.bases])
        total: Floats = np.tensordot(units, numerators.astype(np.float64), axes=1)
        return total

    def difference(self, i: int, j: int) -> Exact:
        """Return the numerators of the loss of i minus that of j, (units, outcomes)."""
        return np.asarray(self.numerators[:, i] - self.numerators[:, j])

    def terms(self, difference: Exact) -> tuple[Exact, list[tuple[int, int]]]:
        """Split a loss difference into a sum of weights times integers. Return these and the keys of the weights.

        A weight is u_b / scale; `weights` turns its key (b, scale) into a ball.
        """
        rows, keys = [], []
        for b in range(len(self.bases)):
            for z in range(len(self.scales)):
                row = np.where(self.column == z, difference[b], 0)
                if row.any():
                    rows.append(row)
                    keys.append((b, z))
        return np.array(rows, dtype=difference.dtype).reshape(len(rows), len(self.outcomes)), keys

    def weights(self, keys: Sequence[tuple[int, int]], bits: int) -> list[flint.arb]:
        """Return balls around u_b / scale."""
        with flint.ctx.workprec(bits):
            units = [unit(b, bits) for b in self.bases]
            scales = [ball(scale, units) for scale in self.scales]
            return [units[b] / scales[z] for b, z in keys]

    def sign(self, numbers: Iterable[Any]) -> int:
        """Return the sign of the sum of numbers times units. Raises UndecidedError if no precision settles it."""
        return _sign(list(numbers), lambda bits: [unit(b, bits) for b in self.bases])

    def sign_weighted(self, numbers: Iterable[Any], keys: Sequence[tuple[int, int]]) -> int:
        """Return the sign of the sum of numbers times weights.

        Raises UndecidedError if no precision settles it.
        """
        return _sign(list(numbers), lambda bits: self.weights(keys, bits))

    @property
    def scale_values(self) -> Floats:
        """Scales in floating point."""
        units = [unit(b, 64) for b in self.bases]
        return np.array([float(ball(scale, units)) for scale in self.scales])

    def _merge_scales(self) -> None:
        """Bring rational losses to a common denominator."""
        common = lcm(*(scale.numerator for (scale,) in self.scales))
        factors = np.array([int(common / scale) for (scale,) in self.scales], dtype=object)
        numerators = self.numerators.astype(object) * factors[self.column]
        for name, value in (
            ("numerators", numerators), ("scales", ((Fraction(common),),)), ("column", np.zeros_like(self.column)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def _invariant(self, actions: Ints, outcomes: Ints) -> bool:
        for permutation, size in ((actions, len(self.actions)), (outcomes, len(self.outcomes))):
            if not np.array_equal(np.sort(permutation), np.arange(size)):
                return False
        moved = self.numerators[:, actions][:, :, outcomes]
        seen = self.signals[actions][:, outcomes]
        return (
            np.array_equal(moved, self.numerators)
            and np.array_equal(self.column[outcomes], self.column)
            and np.array_equal(_partition(seen), _partition(self.signals))
        )


def _sign(numbers: list[Any], reals: Callable[[int], list[flint.arb]]) -> int:
    """Return the sign of the sum of numbers times reals. `reals` computes the balls for a given precision."""
    if not any(numbers):
        return 0
    for bits in PRECISIONS:
        with flint.ctx.workprec(bits):
            if sign := sign_of(ball(numbers, reals(bits))):
                return sign
    raise UndecidedError("the sign of a combination of logarithms")


def _partition(signals: Ints) -> Ints:
    """Replace each symbol by the first outcome in its row that produces it."""
    return np.array(
        [np.unique(row, return_index=True)[1][np.unique(row, return_inverse=True)[1]] for row in signals]
    )


def _matrix(name: str, values: Any) -> list[list[Any]]:
    try:
        return [list(row) for row in values]
    except TypeError:
        raise ValueError(
            f"{name} is not a matrix: it must have one row per action and one column per outcome"
        ) from None


def _entry(value: Any, i: int, r: int) -> Fraction:
    try:
        return rational(value)
    except ValueError as error:
        raise ValueError(f"loss of action {i} under outcome {r}: {error}") from None


def _symbol(value: Any, i: int, r: int) -> Hashable:
    if isinstance(value, list):
        return tuple(_symbol(part, i, r) for part in value)
    try:
        hash(value)
    except TypeError:
        raise ValueError(f"feedback of action {i} under outcome {r}: {value!r} is not hashable") from None
    if value != value:
        raise ValueError(f"feedback of action {i} under outcome {r} is {value!r}: a symbol must equal itself")
    return value  # type: ignore[no-any-return]


def _names(kind: str, names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(n)))
    if len(names) != n:
        raise ValueError(f"got {len(names)} names for {n} {kind}s")
    texts = tuple(map(str, names))
    if len(set(texts)) != n:
        raise ValueError(f"names of {kind}s must be distinct")
    return texts
