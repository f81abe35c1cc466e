"""Normal quantiles against the standard library, and recent numbers against sorting."""

from __future__ import annotations

from collections import deque
from statistics import NormalDist

import numpy as np
import pytest

from peekrank.kernels.quantiles import check_recent, keep_number, normal_quantile, recent_numbers, recent_quantile


def test_normal_quantiles_are_those_of_the_standard_library() -> None:
    points = np.r_[np.linspace(1e-6, 1 - 1e-6, 2001), 10.0 ** -np.arange(1, 16), 0.075, 0.925]
    found = [normal_quantile(p) for p in points]
    assert np.max(np.abs(np.array(found) - [NormalDist().inv_cdf(p) for p in points])) < 1e-6


@pytest.mark.parametrize("values", [3, 1000])
def test_recent_quantiles_are_those_of_the_latest_numbers(values: int) -> None:
    recent, rng, kept = recent_numbers(7), np.random.default_rng(values), deque[float](maxlen=7)
    for t in range(300):
        number = np.inf if t % 31 == 5 else -np.inf if t % 37 == 6 else float(rng.integers(values))
        keep_number(recent, number)
        kept.append(number)
        assert recent.ascending[: len(kept)].tolist() == sorted(kept)
        for asked in (number, float(rng.integers(values)), np.inf):
            below, ties = sum(other < asked for other in kept), sum(other == asked for other in kept)
            assert recent_quantile(recent, asked) == pytest.approx((below + ties / 2 + 0.5) / (len(kept) + 1))
        check_recent(recent, "recent")
