"""Scaling of features: within queries, by statistics of a training part, or online."""

from __future__ import annotations

from dataclasses import replace
from math import asinh
from typing import Literal, NamedTuple

import numpy as np

from peekrank._jit import kernel
from peekrank.data.dataset import Dataset, column_ranges, widen_ranges
from peekrank.data.feature_stats import centres_and_spreads
from peekrank.types import Features, Floats, Ints, Rounds

Scaling = Literal["none", "query", "global", "robust"]
LearningScaling = Literal[Scaling, "online"]  # online scaling needs an order of queries


class AsinhScaler(NamedTuple):
    """Median of each feature, and median distance from it, which is 0 for constant features."""

    centre: Floats
    spread: Floats


class Standardisation(NamedTuple):
    """Mean and standard deviation of each feature, and the data they were fitted on. Constant features have 0.

    With a `squash`, they are the mean and deviation of asinh((x - centre) / spread).
    """

    mean: Floats
    deviation: Floats
    fitted_on: str
    squash: AsinhScaler | None = None

    @property
    def scaling(self) -> Scaling:
        """The name of the scaling."""
        return "global" if self.squash is None else "robust"


def scale_within_queries(data: Dataset) -> Dataset:
    """Scale each feature within each query to (x - min) / (max - min), from 0 to 1, or to 0 if min = max.

    >>> from peekrank.data.dataset import Provenance
    >>> features = np.array([[1, 5], [3, 5], [2, 5], [9, 9]], np.float32)
    >>> grades, offsets, queries = np.zeros(4, np.uint8), np.array([0, 3, 4]), np.array([1, 2])
    >>> scale_within_queries(Dataset(features, grades, offsets, queries, Provenance("x"))).features
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ],
           [0. , 0. ]], dtype=float32)

    Parameters
    ----------
    data
        A data set that is not scaled yet.
    """
    _check_not_scaled(data)
    scaled = np.empty_like(data.features)
    least, most = (np.empty(data.features.shape[1], np.float32) for _ in range(2))
    _scale_queries(data.features, data.offsets, least, most, scaled)
    return data._replace(features=scaled, about=replace(data.about, scaling="query"))


def fit_standardisation(train: Dataset) -> Standardisation:
    """Compute mean and standard deviation of each feature over the documents of a training part.

    >>> from peekrank.data.dataset import Provenance
    >>> features = np.array([[1, 5], [3, 5]], np.float32)
    >>> data = Dataset(features, np.zeros(2, np.uint8), np.array([0, 2]), np.array([1]), Provenance("x"))
    >>> fitted = fit_standardisation(data)
    >>> fitted.mean, fitted.deviation
    (array([2., 5.]), array([1., 0.]))
    >>> standardise(data, fitted).features
    array([[-1.,  0.],
           [ 1.,  0.]], dtype=float32)

    Parameters
    ----------
    train
        A data set that is not scaled yet.
    """
    _check_not_scaled(train)
    return Standardisation(*_means_and_deviations(train.features), _origin(train))


def fit_robustly(train: Dataset) -> Standardisation:
    """Fit a standardisation of asinh((x - centre) / spread), linear near the centre and logarithmic far off.

    Centre and spread are the median and the median distance from it (`peekrank.data.feature_stats`). So a few huge
    values neither determine the scale of a feature nor dominate its weight.

    >>> from peekrank.data.dataset import Provenance
    >>> features = np.array([[0], [1], [2], [3], [1e6]], np.float32)
    >>> data = Dataset(features, np.zeros(5, np.uint8), np.array([0, 5]), np.array([1]), Provenance("x"))
    >>> standardise(data, fit_standardisation(data)).features[:, 0].round(2)
    array([-0.5, -0.5, -0.5, -0.5,  2. ], dtype=float32)
    >>> standardise(data, fit_robustly(data)).features[:, 0].round(2)
    array([-0.64, -0.56, -0.45, -0.34,  1.99], dtype=float32)

    Parameters
    ----------
    train
        A data set that is not scaled yet.
    """
    _check_not_scaled(train)
    squash = AsinhScaler(*centres_and_spreads(train.features))
    squashed = np.empty_like(train.features)
    _squash(train.features, *squash, squashed)
    return Standardisation(*_means_and_deviations(squashed), _origin(train), squash)


def _means_and_deviations(features: Features) -> tuple[Floats, Floats]:
    least, most = column_ranges(features)
    mean, deviation = np.zeros(len(least)), np.zeros(len(least))
    _moments(features, mean, deviation)
    deviation[least == most] = 0  # the mean of equal numbers may differ from them by rounding
    return mean, deviation


def _origin(train: Dataset) -> str:
    return train.about.digest or train.about.source


def standardise(data: Dataset, fitted: Standardisation) -> Dataset:
    """Scale each feature to (x - mean) / deviation, after the squash if there is one. Constant features become 0.

    Parameters
    ----------
    data
        A data set that is not scaled yet.
    fitted
        The result of `fit_standardisation` or `fit_robustly`, with the same number of features.
    """
    _check_not_scaled(data)
    if data.features.shape[1] != len(fitted.mean):
        raise ValueError(
            f"{data.about.source}: has {data.features.shape[1]} features, but the scaling was fitted on "
            f"{len(fitted.mean)}; read both with the same `features`"
        )
    scaled, source = np.empty_like(data.features), data.features
    if fitted.squash is not None:
        _squash(source, *fitted.squash, scaled)
        source = scaled
    if not _standardise(source, fitted.mean, fitted.deviation, scaled):
        raise ValueError(f"{data.about.source}: features are too far from the training part for float32")
    about = replace(data.about, scaling=fitted.scaling, fitted_on=fitted.fitted_on)
    return data._replace(features=scaled, about=about)


class Online(NamedTuple):
    """The lists of a run with online standardisation, and the statistics after its last round.

    For n queries there are 2 n lists. List q is the query with the statistics at its first round, and list n + q
    with those of all queries.
    """

    rounds: Rounds
    sequence: Ints
    fitted: Standardisation


def standardise_online(data: Dataset, sequence: Ints) -> Online:
    """Scale each query, when it is first shown, by mean and deviation of all documents so far, including its own.

    A feature that was constant so far becomes 0. Once all queries have been shown, the statistics are final.

    >>> from peekrank.data.dataset import Provenance
    >>> features = np.array([[1], [3], [2]], np.float32)
    >>> data = Dataset(features, np.zeros(3, np.uint8), np.array([0, 2, 3]), np.array([7, 4]), Provenance("x"))
    >>> rounds, sequence, fitted = standardise_online(data, np.array([1, 0, 0, 1]))
    >>> sequence
    array([1, 0, 2, 3])
    >>> rounds.features[:, 0].round(4)  # query 1 was shown alone at first
    array([-1.2247,  1.2247,  0.    , -1.2247,  1.2247,  0.    ], dtype=float32)
    >>> fitted.mean, fitted.deviation.round(4)
    (array([2.]), array([0.8165]))

    Parameters
    ----------
    data
        A data set with grades that is not scaled yet.
    sequence
        The query of each round: permutations of all queries, one after the other. The last one may be incomplete.
    """
    _check_not_scaled(data)
    (documents, d), queries = data.features.shape, len(data.queries)
    scaled = np.zeros((2 * documents, d), np.float32)  # unused pages take no memory
    mean, squares, deviation = (np.zeros(d) for _ in range(3))
    first, later = sequence[:queries], sequence[queries:]
    _standardise_in_order(data.features, data.offsets, first, mean, squares, deviation, scaled)
    if len(later):
        _standardise(data.features, mean, deviation, scaled[documents:])
    plain = data.rounds()
    offsets = np.append(plain.offsets, documents + plain.offsets[1:])
    return Online(
        Rounds(scaled, np.tile(plain.relevance, 2), offsets),
        np.append(first, queries + later),
        Standardisation(mean, deviation, _origin(data)),
    )


def _check_not_scaled(data: Dataset) -> None:
    if data.about.scaling != "none":
        raise ValueError(f"{data.about.source}: is scaled already ({data.about.scaling})")


@kernel
def _scale_queries(features: Features, offsets: Ints, least: Features, most: Features, scaled: Features) -> None:
    for query in range(len(offsets) - 1):
        first, last = offsets[query], offsets[query + 1]
        for column in range(len(least)):
            least[column] = most[column] = features[first, column]
        widen_ranges(features[first:last], least, most)
        for row in range(first, last):
            for column in range(len(least)):
                low = np.float64(least[column])
                span = np.float64(most[column]) - low
                part = (np.float64(features[row, column]) - low) / (span if span > 0 else 1.0)
                scaled[row, column] = part


@kernel
def _squash(features: Features, centre: Floats, spread: Floats, squashed: Features) -> None:
    for row in range(len(features)):
        for column in range(len(centre)):
            away = features[row, column] - centre[column]
            squashed[row, column] = asinh(away / spread[column]) if spread[column] > 0 else 0.0


@kernel
def _moments(features: Features, mean: Floats, deviation: Floats) -> None:
    count = len(features)
    for row in range(count):
        for column in range(len(mean)):
            mean[column] += features[row, column]
    for column in range(len(mean)):
        mean[column] /= count
    for row in range(count):
        for column in range(len(mean)):
            away = features[row, column] - mean[column]
            deviation[column] += away * away
    for column in range(len(mean)):
        deviation[column] = np.sqrt(deviation[column] / count)


@kernel
def _standardise_in_order(
    features: Features,
    offsets: Ints,
    order: Ints,
    mean: Floats,
    squares: Floats,
    deviation: Floats,
    scaled: Features,
) -> None:
    """Compute by Welford's recursion. For equal numbers, the mean is exact and the deviation exactly 0."""
    count = 0
    for query in order:
        first, last = offsets[query], offsets[query + 1]
        for row in range(first, last):
            count += 1
            for column in range(len(mean)):
                away = features[row, column] - mean[column]
                mean[column] += away / count
                squares[column] += away * (features[row, column] - mean[column])
        for column in range(len(mean)):
            deviation[column] = np.sqrt(squares[column] / count)
        _standardise(features[first:last], mean, deviation, scaled[first:last])


@kernel
def _standardise(features: Features, mean: Floats, deviation: Floats, scaled: Features) -> bool:
    """Standardise features, and return whether all results are finite."""
    finite = True
    for row in range(len(features)):
        for column in range(len(mean)):
            spread = deviation[column]
            away = features[row, column] - mean[column]
            value = np.float32(away / spread if spread > 0 else 0.0)
            scaled[row, column] = value
            finite &= np.abs(value) < np.inf
    return finite
