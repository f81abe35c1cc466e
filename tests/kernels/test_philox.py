"""Counter-based uniforms, against NumPy's own generator."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from peekrank.kernels.philox import fill_uniforms

KEYS, NUMBERS = (0, 1, 12345678901234567, 2**63 - 1), (0, 1, 2**32, 2**63 - 1)


@pytest.mark.parametrize("draws", [0, 1, 3, 4, 5, 101])
def test_as_numpy_draws_them(draws: int) -> None:
    """The corners of both ranges, and a random sample."""
    sample = np.random.default_rng(draws).integers(0, 2**63, (20, 2)).tolist()
    for key, number in (*product(KEYS, NUMBERS), *sample):
        out = np.empty(draws)
        fill_uniforms(key, number, out)
        rng = np.random.Generator(np.random.Philox(key=key, counter=[0, number, 0, 0]))
        assert np.array_equal(out, rng.random(draws)), (key, number)


def test_rounds_and_keys_differ() -> None:
    drawn = np.empty((40, 6))
    for n, row in enumerate(drawn):
        fill_uniforms(n % 2, n // 2, row)
    assert len(np.unique(drawn)) == drawn.size
    assert drawn.min() >= 0
    assert drawn.max() < 1
