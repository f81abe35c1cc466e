"""Models: what they refuse, and that relevance plays no part where nothing is judged."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peekrank.data.dataset import Dataset, Provenance
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.data.scaling import Standardisation
from peekrank.engine import Agent
from peekrank.measures import NDCG
from peekrank.training.model import Model, is_model, load_model, order_all, preparation, save_model
from peekrank.training.run import play_run
from peekrank.training.training import Training, prepare_data


def made(relevance: object = (1, 0, 0, 0)) -> Dataset:
    features = np.array([[1, 0], [2, 0], [0, 3], [0, 1]], np.float32)
    return Dataset(features, np.asarray(relevance), np.array([0, 2, 4]), np.array([7, 5]), Provenance("made"))


def model(weights: object = (1, -1), scaling: str = "none") -> Model:
    values, graded = np.asarray(weights, np.float32), made(np.zeros(4, np.uint8))
    return Model(values, preparation(graded, scaling), "rtopkf", 1, "ndcg@10", 10, 0, 0, "made", "abc")


@pytest.mark.parametrize("scaling", ["none", "query", "global"])
def test_numbers_that_are_not_finite_are_not_ranked(scaling: str) -> None:
    data = made(np.zeros(4, np.uint8))
    data.features[3, 1] = np.nan
    with pytest.raises(ValueError, match="made: query 5, document 2: feature 2 is nan: must be a number"):
        model(scaling=scaling).rank(data)


def test_relevance_plays_no_part_in_ranking() -> None:
    plain = model().rank(made(np.zeros(4, np.uint8)))
    large = model().rank(made(np.array([300, 0.5, 0, 1000], np.float32)))
    assert large.rankings.tolist() == plain.rankings.tolist() == [1, 0, 1, 0]
    assert large.scores.tolist() == [1, 2, -3, -1]
    with pytest.raises(ValueError, match="relevance from 0 to 1000: must be within 0 to 255"):
        large.quality(NDCG(10))


def test_values_are_of_queries_that_count_with_relevance_rounded() -> None:
    ranked = model().rank(made(np.array([0.75, 0.25, 0, 0], np.float32)))
    values = ranked.values(NDCG(10, no_relevant="skip"))
    assert values == pytest.approx([1 / np.log2(3)])
    assert ranked.quality(NDCG(10, no_relevant="skip")) == values[0]
    nothing = model().rank(made(np.zeros(4, np.uint8)))
    assert len(nothing.values(NDCG(10, no_relevant="skip"))) == 0
    assert np.isnan(nothing.quality(NDCG(10, no_relevant="skip")))


@pytest.mark.parametrize(("weights", "said"), [((1, 2, 3), "has 3 weights"), ((1,), "has 1 weights")])
def test_there_is_a_weight_for_every_feature(weights: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    with pytest.raises(ValueError, match=f"^rtopkf: {said}: must be 2, one for every feature"):
        save_model(model(weights), path)
    assert not path.exists()
    save_model(model(), path)
    rewrite(path, weights=weights)
    with pytest.raises(ValueError, match=rf"^m\.json: {said}: must be 2, one for every feature"):
        load_model(path)


def test_there_are_mean_and_deviation_for_every_feature(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    scaled = model(scaling="global")
    save_model(scaled, path)
    rewrite(path, mean=[1, 2, 3])
    with pytest.raises(ValueError, match=r"^m\.json: has 3 means: must be 2"):
        load_model(path)
    fitted = Standardisation(np.zeros(2), np.zeros(1), "made")
    with pytest.raises(ValueError, match=r"^rtopkf: has 1 deviations: must be 2"):
        save_model(scaled._replace(preparation=scaled.preparation._replace(standardisation=fitted)), path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("weights", [[1, 2]], "its weights must be a list of numbers that float32 can hold"),
        ("weights", ["1", "2"], "its weights must be a list of numbers"),
        ("weights", [10**400, 1], "its weights must be a list of numbers"),
        ("weights", [1e39, 1], "its weights must be a list of numbers"),
        ("weights", [float("nan"), 1], "its weights must be a list of numbers"),
        ("mean", [None, True], "its mean must be a list of numbers"),
        ("deviation", {"0": 1}, "its deviation must be a list of numbers"),
        ("features", "\x1b[31m", r"its features is '\\x1b\[31m': must be a whole number"),
        ("base", 1.5, r"its base is 1\.5: must be a whole number"),
        ("scaling", "much", "its scaling is 'much': must be one of none, query, global, robust, online"),
        ("score", 2, "its score is 2: must be the index of a feature"),
        ("score", -1, "its score is -1: must be the index of a feature"),
        ("score", True, "its score is True: must be the index of a feature"),
        ("score", [0], r"its score is \[0\]: must be the index of a feature"),
        ("source", None, "its source is None: must be a text"),
        ("format", "9" * 5000, r"has format '9{59}\.\.\.; this peekrank reads format 1"),
    ],
)
def test_what_has_the_right_checksum_may_still_make_no_sense(
    key: str, value: object, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    save_model(model(scaling="global"), path)
    rewrite(path, **{key: value})
    with pytest.raises(ValueError, match=rf"^m\.json: {said}"):
        load_model(path)


@pytest.mark.parametrize("key", ["weights", "learner", "k", "fitted_on", "deviation"])
def test_what_is_missing_is_named(key: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_model(model(scaling="global"), path)
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    rewrite(path)
    with pytest.raises(ValueError, match=rf"^m\.json: its {key} "):
        load_model(path)


def test_lists_within_lists_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for depth in (500, 950, 5000):
        path.write_text('{"kind": "peekrank model", "format": 1, "weights": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(ValueError, match=r"^m\.json: is not a peekrank model"):
            load_model(path)


def rewrite(path: Path, **changes: Any) -> None:
    """With a checksum that is right."""
    content = {**json.loads(path.read_text()), **changes}
    del content["checksum"]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "checksum": digest}))


def test_models_are_known_by_how_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    assert not is_model(path)
    save_model(model(), path)
    assert is_model(path)
    path.write_text('{"kind": "else"}')
    assert not is_model(path)


@pytest.mark.parametrize("documents", [20, 60])
def test_scores_that_overflow_are_named_before_anything_is_sorted(documents: int) -> None:
    features = np.zeros((documents, 2), np.float32)
    features[7] = 3e38
    with pytest.raises(ValueError, match="document 3 of query number 2 has the score nan: features are too large"):
        order_all(np.array([3.2, -3.9], np.float32), features, np.array([0, 5, documents]))


def test_weights_and_offsets_that_do_not_fit_the_features() -> None:
    features = np.zeros((60, 3), np.float32)
    with pytest.raises(ValueError, match="2 weights for 3 features"):
        order_all(np.zeros(2, np.float32), features, np.array([0, 60]))
    with pytest.raises(ValueError, match="offsets of the rounds go from 0 to 90"):
        order_all(np.zeros(3, np.float32), features, np.array([0, 20, 90]))


def test_robust_scaling_travels_with_a_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = make_dataset(DatasetShape(20, (3, 9), 4, (0.6, 0.4)), rng, values="tails")
    made = Model(
        np.array([1, -2, 3, 0], np.float32), preparation(data, "robust"), "ridge", 1, "ndcg@10", 1, 0, 0, "x", ""
    )
    save_model(made, tmp_path / "m.json")
    model = json.loads((tmp_path / "m.json").read_text())
    # by hand, as somebody without this package would
    x, (centre, spread, mean, deviation) = (
        data.features,
        (np.array(model[name]) for name in ("centre", "spread", "mean", "deviation")),
    )
    z = (np.arcsinh((x - centre) / spread) - mean) / deviation
    loaded = load_model(tmp_path / "m.json")
    assert np.allclose(loaded.rank(data).scores, z @ np.array(model["weights"]), atol=1e-5)
    assert np.array_equal(loaded.rank(data).scores, made.rank(data).scores)
    rewrite(tmp_path / "m.json", spread=None)
    with pytest.raises(ValueError, match=r"^m\.json: its spread must be a list of numbers that float32 can hold"):
        load_model(tmp_path / "m.json")


LAYOUT = DatasetShape(queries=25, documents=(3, 9), features=4, shares=(0.6, 0.3, 0.1))
GOING_ON = (
    "ridge",
    "ridge:expand=3",
    "ridge:decay=0.99",
    "rtopkf:horizon=100",
    "rtopkf:horizon=100,surrogate=kl,estimator=doubly_robust",
)


def trained(learner: str, rounds: int, k: int = 1) -> Model:
    material = prepare_data(make_dataset(LAYOUT, np.random.default_rng(3)), scaling="global")
    training = Training((learner,), k=k, rounds=rounds, runs=1)
    found = next(play_run(training, material, 0, lambda _: None)).models[0]
    assert found is not None
    return found


@pytest.mark.parametrize("learner", GOING_ON)
def test_an_agent_goes_on_where_training_ended(learner: str, tmp_path: Path) -> None:
    save_model(trained(learner, 60), tmp_path / "m.json")
    agent = Agent.from_model(load_model(tmp_path / "m.json"))
    data = prepare_data(make_dataset(LAYOUT, np.random.default_rng(3)), scaling="global").train
    for query in Training((learner,), rounds=100, runs=1).sequence(0, 25)[60:]:
        rows = slice(data.offsets[query], data.offsets[query + 1])
        decision = agent.rank(data.features[rows])
        agent.update(decision, data.relevance[rows][decision.ranking[:1]])
    assert agent.rounds == 100
    assert agent.dump() == trained(learner, 100).agent


@pytest.mark.parametrize("learner", GOING_ON)
def test_lists_may_be_longer_and_more_answered_than_in_training(learner: str) -> None:
    model = trained(learner, 60)
    short, agent = Agent.from_model(model), Agent.from_model(model, m=40, k=3)
    X = model.prepare(np.random.default_rng(1).random((40, 4)))
    assert agent.best_ranking(X[:5]).tolist() == short.best_ranking(X[:5]).tolist()
    agent.update(agent.rank(X), [1, 0, float("nan")])
    assert agent.n_feedback == short.n_feedback + 2


def test_without_weights_the_agent_scores(tmp_path: Path) -> None:
    model = trained("ridge:expand=3", 60)
    save_model(model, tmp_path / "m.json")
    loaded = load_model(tmp_path / "m.json")
    data = make_dataset(LAYOUT, np.random.default_rng(4))
    ranked, agent = loaded.rank(data), Agent.from_model(model)
    assert len(loaded.weights) == 0
    assert (
        ranked.rankings[: data.offsets[1]].tolist()
        == agent.best_ranking(ranked.data.features[: data.offsets[1]]).tolist()
    )


def test_what_cannot_go_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds weights but no agent to continue from"):
        Agent.from_model(model())
    path = tmp_path / "m.json"
    save_model(trained("ridge", 10), path)
    rewrite(path, agent="not base64")
    with pytest.raises(ValueError, match=r"^m\.json: its agent is damaged: must be zlib data in base64"):
        load_model(path)
    save_model(trained("ridge", 10), path)
    whole = json.loads(path.read_text())["agent"]
    rewrite(path, agent=whole[: len(whole) // 8 * 4])
    with pytest.raises(ValueError, match=r"^m\.json: its agent is truncated"):
        load_model(path)


def test_features_are_prepared_as_in_training() -> None:
    data = make_dataset(LAYOUT, np.random.default_rng(4))
    for scaling in ("none", "query", "global", "robust"):
        made = model(np.zeros(4))._replace(preparation=preparation(data, scaling))
        first = slice(0, data.offsets[1])
        assert np.array_equal(made.prepare(data.features[first]), made.preparation.scale(data).features[first])
    with pytest.raises(ValueError, match="features: has 3 features: must have 4 like the training part"):
        made.prepare(np.zeros((2, 3)))


def test_lists_are_scored_one_by_one_by_features_as_they_are() -> None:
    data, weights = make_dataset(LAYOUT, np.random.default_rng(5)), np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    for scaling in ("none", "query", "global", "robust"):
        made = model(weights)._replace(preparation=preparation(data, scaling))
        lists = [data.features[first:last] for first, last in pairwise(data.offsets)]
        expected = np.concatenate([made.prepare(X) @ weights for X in lists])
        assert np.allclose(made.scores(data.features, data.offsets), expected, rtol=1e-5, atol=1e-6)
