"""Generated data sets: their shapes, their grades, and what a linear function can learn of them."""

from __future__ import annotations

import numpy as np
import pytest

from peekrank.data.dataset import Dataset, describe
from peekrank.data.generated import SHAPES, DatasetShape, Kind, make_dataset

BIG = DatasetShape(2000, (5, 15), 8, (0.5, 0.3, 0.2))


def explained(data: Dataset, *, within_queries: bool = False) -> float:
    """Share of the variance of relevance that least squares on the features explains."""
    grade, features = data.relevance.astype(np.float64), data.features.astype(np.float64)
    if within_queries:
        query_of = np.repeat(np.arange(len(data.queries)), np.diff(data.offsets))
        counts = np.bincount(query_of)
        grade = grade - (np.bincount(query_of, grade) / counts)[query_of]
        columns = [np.bincount(query_of, column) / counts for column in features.T]
        features = features - np.stack(columns, axis=1)[query_of]
    else:
        grade, features = grade - grade.mean(), features - features.mean(axis=0)
    weights, *_ = np.linalg.lstsq(features, grade, rcond=None)
    return 1 - float(((grade - features @ weights) ** 2).sum() / (grade**2).sum())


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_shares(name: str) -> None:
    shape = SHAPES[name]
    data = make_dataset(name, np.random.default_rng(0), scale=300 / shape.queries)
    assert len(data.queries) == 300
    assert data.features.shape == (data.offsets[-1], shape.features)
    assert (data.features.dtype, data.relevance.dtype) == (np.dtype(np.float32), np.dtype(np.uint8))
    found = describe(data)
    assert shape.documents[0] <= found.lengths[0] <= found.lengths[2] <= shape.documents[1]
    assert found.documents / 300 == pytest.approx(sum(shape.documents) / 2, rel=0.1)
    shares = np.bincount(data.relevance, minlength=len(shape.shares)) / found.documents
    np.testing.assert_allclose(shares, shape.shares, atol=2 / found.documents)
    assert 0 <= found.smallest <= found.largest < 1
    assert data.rounds().features is data.features


def test_sizes_of_the_paper() -> None:
    """Those of CT16's experiments; Yahoo has about 24 documents a query."""
    yahoo, yandex = SHAPES["yahoo"], SHAPES["yandex"]
    assert (yahoo.queries, yahoo.features, sum(yahoo.documents) / 2) == (19_944, 700, 23.5)
    assert (yandex.queries, yandex.features) == (9_126, 245)


@pytest.mark.parametrize("kind", ["linear", "misspecified", "query"])
def test_the_same_seed_gives_the_same_data(kind: Kind) -> None:
    one, two, other = (
        make_dataset("mq2008", np.random.default_rng(seed), kind=kind, scale=0.1) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(one.relevance, two.relevance)
    assert not np.array_equal(one.features[:50], other.features[:50])
    assert one.about.source == f"{kind} mq2008, noise 0.5, scale 0.1"


def test_what_a_linear_function_explains() -> None:
    """Nearly all but what three grades cannot tell; half of that; little, but more within queries."""
    rng = np.random.default_rng(0)
    linear, misspecified, query = (
        make_dataset(BIG, rng, kind=kind, noise=0.1) for kind in ("linear", "misspecified", "query")
    )
    assert explained(linear) > 0.7
    assert 0.3 < explained(misspecified) < 0.6
    assert 0.2 < explained(query) < 0.5
    assert explained(query, within_queries=True) > explained(query) + 0.15


def test_noise_hides_the_score() -> None:
    quiet, loud = (explained(make_dataset(BIG, np.random.default_rng(0), noise=noise)) for noise in (0.1, 3))
    assert quiet > 5 * loud


def test_query_effects_shift_whole_queries() -> None:
    def spread(kind: Kind) -> float:
        data = make_dataset(BIG, np.random.default_rng(0), kind=kind)
        means = np.add.reduceat(data.relevance.astype(float), data.offsets[:-1]) / np.diff(data.offsets)
        return float(means.std() / data.relevance.std())

    assert spread("linear") < 0.4
    assert spread("query") > 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": "yaho"}, "unknown shape 'yaho': did you mean 'yahoo'"),
        ({"kind": "cubic"}, "kind = 'cubic'"),
        ({"noise": 0.0}, "noise = 0.0: must be a positive number"),
        ({"scale": -1.0}, "scale = -1.0"),
        ({"shape": BIG._replace(queries=0)}, "queries = 0"),
        ({"shape": BIG._replace(documents=(5, 4))}, "most documents = 4"),
        ({"shape": BIG._replace(features=1)}, "features = 1"),
        ({"shape": BIG._replace(shares=(0.5, 0.4))}, "must be 2 to 256 shares"),
    ],
)
def test_wrong_parameters(change: dict[str, object], message: str) -> None:
    arguments = {"shape": BIG, "rng": np.random.default_rng(0), **change}
    with pytest.raises(ValueError, match=message):
        make_dataset(**arguments)  # type: ignore[arg-type]
