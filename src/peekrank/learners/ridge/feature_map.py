"""Feature map of ridge: squares, products and random waves."""

from __future__ import annotations

from math import cos, pi, sqrt
from typing import NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.kernels.vectors import copy, dot, fill_normals
from peekrank.types import Features, Floats, Ints

_ROUNDING = 1e-12  # share of the mean square below which a feature does not vary


class FeatureMap(NamedTuple):
    """Two factors of each product; direction and phase of each wave; centre and inverse spread of each feature."""

    factors: Ints
    directions: Floats
    phases: Floats
    units: Floats  # of features, for waves; 0 before a feature has varied within a list
    z: Floats  # working memory for an item


def make_feature_map(d: int, limit: int) -> FeatureMap:
    """Make a feature map: squares of all features, then all products of two, or random waves if they do not fit.

    All squares and products take d (d + 1)/2 columns. If `limit` is smaller, the map has all squares if they fit,
    and the rest are random waves ``cos(v . z + b)`` of the standardised features z, with v normal of mean square
    length 1 and b uniform: with many of them, sums of waves approximate any smooth function (Rahimi & Recht 2007).
    The waves depend only on d and `limit` and are the same on every machine.

    >>> make_feature_map(2, 5).factors
    array([[0, 1, 0],
           [0, 1, 1]])
    >>> make_feature_map(4, 7).factors.shape, make_feature_map(4, 7).directions.shape
    ((2, 4), (3, 4))
    """
    squares = np.tile(np.arange(d), (2, 1))
    both = np.hstack([squares, np.array(np.triu_indices(d, 1))])
    factors = both if both.shape[1] <= limit else squares if d <= limit else squares[:, :0]
    waves = limit - factors.shape[1] if both.shape[1] > limit else 0
    normals = np.empty(waves * d + waves * d % 2)
    uniforms = _scattered(len(normals) + waves)
    fill_normals(uniforms[: len(normals)], normals)
    return FeatureMap(
        np.ascontiguousarray(factors, dtype=np.int64),
        normals[: waves * d].reshape(waves, d) / sqrt(d),
        2 * pi * uniforms[len(normals) :],
        np.zeros((2, d if waves else 0)),
        np.zeros(d if waves else 0),
    )


def _scattered(count: int) -> Floats:
    """Return fixed pseudorandom numbers in [0, 1): splitmix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@kernel
def fill_units(X: Features, t: FeatureMap) -> None:
    """Set the unit of each feature from the first list in which it varies."""
    for j in range(t.units.shape[1]):
        if t.units[1, j] == 0:
            mean = squares = 0.0
            for i in range(len(X)):
                x = float(X[i, j])
                mean += x / len(X)
                squares += x * x / len(X)
            spread = squares - mean * mean
            if spread > _ROUNDING * squares:
                t.units[0, j], t.units[1, j] = mean, 1 / sqrt(spread)


@kernel
def expand_row(features: Features, t: FeatureMap, out: Floats) -> None:
    """Fill `out` with an item's features, then products and waves, then zeros."""
    copy(features, out)
    d, products, waves = len(features), t.factors.shape[1], len(t.phases)
    for p in range(products):
        out[d + p] = out[t.factors[0, p]] * out[t.factors[1, p]]
    if waves > 0:
        for j in range(d):
            t.z[j] = (out[j] - t.units[0, j]) * t.units[1, j]
        for q in range(waves):
            out[d + products + q] = cos(dot(t.directions[q], t.z) + t.phases[q])
    for j in range(d + products + waves, len(out)):
        out[j] = 0.0
