"""Columns that ridge adds to the features."""

from __future__ import annotations

from math import sqrt

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.vectors import copy
from peekrank.types import Features, Floats, Ints

_GOLDEN = (sqrt(5) - 1) / 2  # its multiples, modulo 1, are spread evenly


@kernel
def lift(features: Features, factors: Ints, out: Floats) -> None:
    """An item's features, then the products, then zeros."""
    copy(features, out)
    d = len(features)
    for p in range(factors.shape[1]):
        out[d + p] = out[factors[0, p]] * out[factors[1, p]]
    out[d + factors.shape[1] :] = 0


def products(d: int, most: int) -> Ints:
    """Two factors of each lifted column: squares, then products; if there are more than `most`, well spread.

    >>> products(2, 5)
    array([[0, 1, 0],
           [0, 1, 1]])
    """
    squares, products = np.tile(np.arange(d), (2, 1)), np.array(np.triu_indices(d, 1))
    chosen: list[Ints] = []
    for kind in (squares, products):
        scattered = np.argsort(np.arange(kind.shape[1]) * _GOLDEN % 1)
        some = scattered[: most - sum(part.shape[1] for part in chosen)]
        chosen.append(kind[:, np.sort(some)])
    return np.ascontiguousarray(np.hstack(chosen), dtype=np.int64)
