"""The four rates at which the regret of a finite game can grow, and what is known of a game's rate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple


class Rate(StrEnum):
    """Growth of the minimax regret in the number of rounds T, logarithms aside.

    >>> Rate.TWO_THIRDS.exponent
    0.6666666666666666

    References
    ----------
    Bartok et al. (2014), Theorem 2; Lattimore & Szepesvari (2019), Theorem 1; ZT Theorem 2.
    """

    ZERO = "0"
    SQRT = "sqrt(T)"
    TWO_THIRDS = "T^(2/3)"
    LINEAR = "T"

    @property
    def exponent(self) -> float:
        """The power of T."""
        return {"0": 0.0, "sqrt(T)": 1 / 2, "T^(2/3)": 2 / 3, "T": 1.0}[self]


class Verdict(NamedTuple):
    """The rate of a ranking game, on which basis, and why; undecided, without a rate, where it is not known."""

    rate: Rate | None
    basis: Literal["theorem", "definitions", "undecided"]
    reason: str
