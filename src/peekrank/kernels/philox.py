"""Counter-based random numbers: Philox, a generator without state.

Round n of key s always draws the same uniforms, so a log that numbers its rounds need not store them. The uniforms
are those of NumPy's ``Philox(key=s, counter=[0, n, 0, 0])`` (Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011).
"""

from __future__ import annotations

import numpy as np

from peekrank._jit import kernel
from peekrank.types import Floats

_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_SHIFT, _UNIT = np.uint64(11), 2.0**-53  # the first 53 bits of a word, as a number from [0, 1)


@kernel
def _upper_word(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return the upper 64 bits of the product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


@kernel
def fill_uniforms(key: int, number: int, out: Floats) -> None:
    """Fill `out` with the uniforms of a round, from [0, 1).

    >>> out = np.empty(2)
    >>> fill_uniforms(7, 1, out)
    >>> rng = np.random.Generator(np.random.Philox(key=7, counter=[0, 1, 0, 0]))
    >>> bool(np.all(out == rng.random(2)))
    True

    Parameters
    ----------
    key
        Index of the sequence, from 0 to 2^63 - 1.
    number
        Round, from 0 to 2^63 - 1.
    out
        Output. The first numbers do not depend on its length.
    """
    for start in range(0, len(out), 4):
        x0, x1, x2, x3 = np.uint64(start // 4 + 1), np.uint64(number), np.uint64(0), np.uint64(0)
        k0, k1 = np.uint64(key), np.uint64(0)
        for _ in range(_ROUNDS):
            high0, low0 = _upper_word(_MULTIPLY_0, x0), _MULTIPLY_0 * x0
            high1, low1 = _upper_word(_MULTIPLY_1, x2), _MULTIPLY_1 * x2
            x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
            k0, k1 = k0 + _WEYL_0, k1 + _WEYL_1
        for i in range(start, min(start + 4, len(out))):
            word = x0 if i == start else x1 if i == start + 1 else x2 if i == start + 2 else x3
            out[i] = np.float64(word >> _SHIFT) * _UNIT
