"""The four possible growth rates of minimax regret in a finite game, and verdicts on a game's rate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple


class Rate(StrEnum):
    """Growth of the minimax regret in the number of rounds T, up to logarithms.

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
        """Exponent of T."""
        return {"0": 0.0, "sqrt(T)": 1 / 2, "T^(2/3)": 2 / 3, "T": 1.0}[self]


class Verdict(NamedTuple):
    """The rate of a ranking game, its basis and the reason. The rate is None if it is undecided."""

    rate: Rate | None
    basis: Literal["theorem", "definitions", "undecided"]
    reason: str
