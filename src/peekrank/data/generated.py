"""Generated data sets in the shapes of published ones."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from peekrank._util.extras import extra
from peekrank._util.validate import check_choice, check_int, check_positive
from peekrank.data.dataset import Dataset, Provenance
from peekrank.spec import suggest
from peekrank.types import Features, Ints

Kind = Literal["linear", "misspecified", "query"]
Values = Literal["uniform", "scales", "tails"]
_DECADES = 6.0  # largest absolute base-10 logarithm of the scale of a feature
_MAX_SHIFT = 3.0  # largest base-10 logarithm of the shift of a feature, relative to its range
_MAX_DEVIATION = 2.5  # of the logarithm of a heavy-tailed feature


class DatasetShape(NamedTuple):
    """Size of a data set: queries, range of documents per query, features, and share of each grade from 0 on."""

    queries: int
    documents: tuple[int, int]
    features: int
    shares: tuple[float, ...]


# Queries, features, documents and shares of grades approximate those of the originals. Only the shares of the
# last, which has real-valued relevance, are made up. Lengths of queries are uniform, unlike those of the
# originals.
SHAPES = {
    "mq2008": DatasetShape(784, (5, 34), 46, (0.807, 0.132, 0.061)),
    "mslr": DatasetShape(10_000, (1, 239), 136, (0.520, 0.322, 0.133, 0.018, 0.007)),
    "yahoo": DatasetShape(19_944, (1, 46), 700, (0.261, 0.359, 0.285, 0.076, 0.019)),
    "yandex": DatasetShape(9_126, (1, 20), 245, (0.5, 0.3, 0.1, 0.07, 0.03)),
}


def make_dataset(
    shape: DatasetShape | str,
    rng: Generator,
    *,
    kind: Kind = "linear",
    noise: float = 0.5,
    scale: float = 1.0,
    values: Values = "uniform",
) -> Dataset:
    """Draw documents with features u uniform on [0, 1), and grade them by the quantiles of score + noise.

    With z_a, z_b, z_c random linear functions of the features, each of mean 0 and variance 1, the score is

    - ``linear``: z_a;
    - ``misspecified``: (z_a + z_b z_c) / sqrt 2. The product, which no linear function can fit, is half of the
      variance;
    - ``query``: s_q + cos t_q z_a + sin t_q z_b, with z_a of one half of the features and z_b of the other, t_q
      uniform on [0, pi/2] and s_q normal. Each query has its own level, and its own weights of the two halves.

    The learner sees transformed features. For each feature, a factor a is drawn whose base-10 logarithm is uniform
    on [-6, 6]:

    - ``uniform``: u;
    - ``scales``: a u, and for every fifth feature a (u + b), with b from 1 to 1,000;
    - ``tails``: a exp(s z), z the normal quantile of u and s uniform on [0, 2.5] for the feature.

    >>> data = make_dataset("mq2008", np.random.default_rng(0), scale=0.1)
    >>> data.features.shape, len(data.queries), np.bincount(data.relevance)
    ((1570, 46), 78, array([1267,  207,   96]))

    Parameters
    ----------
    shape
        A `DatasetShape`, or the name of one: mq2008, mslr, yahoo or yandex.
    rng
        Random number generator.
    kind
        Kind of the score, as above.
    noise
        Standard deviation of the normal noise, above 0. That of the score is 1, or sqrt 2 with query effects.
    scale
        Factor for the number of queries.
    values
        Transformation of the features, as above.
    """
    check_choice("kind", kind, Kind)
    check_choice("values", values, Values)
    check_positive("noise", noise)
    check_positive("scale", scale)
    name = shape if isinstance(shape, str) else "own"
    shape = _parse_shape(shape) if isinstance(shape, str) else shape
    _check_shape(shape)
    queries = max(1, round(shape.queries * scale))
    lengths = rng.integers(shape.documents[0], shape.documents[1], size=queries, endpoint=True)
    offsets = np.append(0, np.cumsum(lengths))
    features = rng.random((int(offsets[-1]), shape.features), dtype=np.float32)
    score = _SCORES[kind](features, lengths, rng) + noise * rng.standard_normal(len(features), dtype=np.float32)
    steps = np.quantile(score, np.minimum(np.cumsum(shape.shares)[:-1], 1))
    relevance = np.searchsorted(steps, score, side="right").astype(np.uint8)
    about = Provenance(
        f"{kind} {name}, noise {noise:g}, scale {scale:g}" + (values != "uniform") * f", wild {values}"
    )
    features = _TRANSFORMS[values](features, rng)
    return Dataset(features, relevance, offsets, np.arange(1, queries + 1), about)


def _linear_score(features: Features, _lengths: Ints, rng: Generator) -> Features:
    return _projection(features, rng)


def _misspecified_score(features: Features, _lengths: Ints, rng: Generator) -> Features:
    z_a, z_b, z_c = (_projection(features, rng) for _ in range(3))
    return (z_a + z_b * z_c) * np.float32(sqrt(0.5))


def _query_score(features: Features, lengths: Ints, rng: Generator) -> Features:
    half = features.shape[1] // 2
    z_a, z_b = (_projection(part, rng) for part in (features[:, :half], features[:, half:]))
    turn = rng.random(len(lengths), dtype=np.float32) * np.float32(np.pi / 2)
    shift = rng.standard_normal(len(lengths), dtype=np.float32)
    cosine, sine = np.cos(turn).astype(np.float32), np.sin(turn).astype(np.float32)
    z_a *= np.repeat(cosine, lengths)
    z_b *= np.repeat(sine, lengths)
    return z_a + z_b + np.repeat(shift, lengths)


_SCORES: dict[Kind, Callable[[Features, Ints, Generator], Features]] = {
    "linear": _linear_score,
    "misspecified": _misspecified_score,
    "query": _query_score,
}


def _identity(features: Features, _rng: Generator) -> Features:
    return features


def _rescale(features: Features, rng: Generator) -> Features:
    factors = _powers_of_ten(features, rng)
    shifts = factors * np.power(10.0, rng.uniform(0, _MAX_SHIFT, len(factors))).astype(np.float32)
    shifts[np.arange(len(shifts)) % 5 > 0] = 0
    return np.asarray(features * factors + shifts, np.float32)


def _add_heavy_tails(features: Features, rng: Generator) -> Features:
    with extra("cli"):  # importing SciPy takes a fifth of a second
        from scipy.special import ndtri

    factors, heaviness = _powers_of_ten(features, rng), rng.uniform(0, _MAX_DEVIATION, features.shape[1])
    edge = 2.0**-25  # half of the smallest step of a float32 in [0, 1), so that quantiles are finite
    normal = ndtri(np.clip(features.astype(np.float64), edge, 1 - edge))
    return np.asarray(factors * np.exp(heaviness * normal), np.float32)


def _powers_of_ten(features: Features, rng: Generator) -> Features:
    powers: Features = np.power(10.0, rng.uniform(-_DECADES, _DECADES, features.shape[1])).astype(np.float32)
    return powers


_TRANSFORMS: dict[Values, Callable[[Features, Generator], Features]] = {
    "uniform": _identity,
    "scales": _rescale,
    "tails": _add_heavy_tails,
}


def _projection(features: Features, rng: Generator) -> Features:
    """Draw a random linear function and scale it to mean 0 and variance 1. A feature has variance 1/12."""
    weights = rng.standard_normal((features.shape[1],), dtype=np.float32)
    weights *= np.float32(sqrt(12) / np.linalg.norm(weights))
    score: Features = features @ weights
    score -= weights.sum() / 2
    return score


def _parse_shape(name: str) -> DatasetShape:
    if name not in SHAPES:
        raise ValueError(f"unknown shape '{name}': {suggest(name, list(SHAPES))}")
    return SHAPES[name]


def _check_shape(shape: DatasetShape) -> None:
    check_int("queries", shape.queries, 1)
    check_int("fewest documents", shape.documents[0], 1)
    check_int("most documents", shape.documents[1], shape.documents[0])
    check_int("features", shape.features, 2)
    if not 2 <= len(shape.shares) <= 256 or min(shape.shares) < 0 or not abs(sum(shape.shares) - 1) < 1e-6:
        raise ValueError(f"shares = {shape.shares}: must be 2 to 256 shares of grades that add up to 1")
