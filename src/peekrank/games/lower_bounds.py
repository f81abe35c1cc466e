"""Lower bounds on regret, for every learner (docs/theory/lower-bounds.md)."""

from __future__ import annotations

from math import sqrt

import numpy as np

from peekrank._util.validate import check_int
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Measure

_SAME = 1e-12  # relative difference below which weights count as equal


def lower_bound(measure: Measure | str, m: int, k: int, horizon: int, grades: int = 2) -> float | None:
    """Return an expected regret that no learner can avoid: for each learner, some i.i.d. relevance causes it.

    Two theorems give it: for measures that count the first n items alike, n at most m/4, and for measures whose
    weights strictly decrease down the list, k at most m - 2. Both need enough rounds. Returns None otherwise.

    Parameters
    ----------
    measure
        A measure, or its name.
    m
        Number of items.
    k
        Number of revealed positions.
    horizon
        Number of rounds.
    grades
        Number of relevance grades.

    >>> round(lower_bound("p@2+sum", m=10, k=1, horizon=10_000), 1)
    39.5
    >>> round(lower_bound("dcg", m=10, k=1, horizon=10_000), 1)
    26.3
    """
    measure = measure_named(measure) if isinstance(measure, str) else measure
    check_int("m", m, 1)
    check_int("k", k, 1, m)
    check_int("horizon", horizon, 1)
    check_int("grades", grades, 2, 256)
    try:
        linear = learnable(measure, grades - 1)
    except ValueError:
        return None
    low, high = linear.gain(np.array([0.0, grades - 1.0]))
    scale, w = abs(float(high - low)), np.asarray(linear.discount(m))
    falls = np.abs(np.diff(w))
    positions = np.flatnonzero(falls > _SAME * np.abs(w).max(initial=0.0))
    if len(positions) == 1:
        n = int(positions[0]) + 1
        if 4 * n <= m and 4 * k * horizon >= m:
            return scale * float(falls[n - 1]) * n / 16 * sqrt(m * horizon / k)
    elif len(positions) == m - 1 and k <= m - 2:
        h, d1, d2 = (m - k) // 2, float(falls[k - 1]), float(falls.min())
        if horizon >= 14 * d1 / (d2 * h):
            return float(scale * 0.15 * h ** (5 / 3) * (d1 * d2**2) ** (1 / 3) * horizon ** (2 / 3))
    return None
