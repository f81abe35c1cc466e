"""Training of mixed: it starts from the scores of another ranker and ranks new documents as its agent does."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from peekrank.data.dataset import Dataset
from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.measures import NDCG
from peekrank.training.base_scores import quality_alone, score_column
from peekrank.training.estimator import TopKRanker
from peekrank.training.model import load_model
from peekrank.training.runs import run_training
from peekrank.training.training import Training, prepare_data

SHAPE = DatasetShape(queries=120, documents=(3, 9), features=4, shares=(0.6, 0.3, 0.1))
DATA = make_dataset(SHAPE, np.random.default_rng(1))
Y, QID = DATA.relevance, np.repeat(DATA.queries, np.diff(DATA.offsets))
SCORE = Y + 1.5 * np.random.default_rng(2).standard_normal(len(Y))
X = np.c_[DATA.features[:, :2], SCORE]


@pytest.mark.parametrize("base", [2, -1, "score", "ranker"])
def test_before_the_first_answer_the_order_is_that_of_the_base(base: Any) -> None:
    table = np.c_[np.ones((len(Y), 2)), SCORE]  # features that tell nothing
    frame: Any = pd.DataFrame(table, columns=["a", "b", "score"]) if base == "score" else table
    if base == "ranker":
        base, frame = LinearRegression().fit(table, 3 * SCORE - 7), table[:, [0, 1, 2]]
    ranker = TopKRanker("mixed", base_score=base, rounds=1, k=1).fit(frame, np.full(len(Y), 1), qid=QID)
    scores = ranker.predict(frame, qid=QID)
    for first, last in zip(DATA.offsets[:-1], DATA.offsets[1:], strict=True):
        assert np.argsort(-scores[first:last]).tolist() == np.argsort(-SCORE[first:last]).tolist()


def test_it_learns_what_the_score_misses() -> None:
    rng = np.random.default_rng(3)
    missed = rng.standard_normal(len(Y))
    y = np.clip(np.round(Y + missed), 0, 4).astype(np.uint8)
    table = np.c_[missed, SCORE]
    ranker = TopKRanker("mixed", base_score=1, rounds=600, k=2).fit(table, y, qid=QID)
    alone = TopKRanker("mixed", base_score=0, rounds=1).fit(SCORE[:, None], y, qid=QID)
    assert ranker.score(table, y, qid=QID) > alone.score(SCORE[:, None], y, qid=QID) + 0.05


@pytest.mark.parametrize("base", [None, 2])
def test_predictions_are_the_means_by_which_the_agent_ranks_new_documents(base: Any) -> None:
    ranker = TopKRanker("mixed", base_score=base, rounds=300).fit(X, Y, qid=QID)
    rows = slice(*DATA.offsets[:2])
    expected = ranker.predict(X[rows], qid=None)
    features = X[rows] if base is None else X[rows, :2]
    new, agent = np.arange(len(expected)), ranker.agent_
    agent.rank(features, available=new, scores=None if base is None else SCORE[rows])
    state: Any = agent.state
    found = state.lowest + state.unit * (state.means[: len(new)] + 0.5)
    assert expected == pytest.approx(found, abs=1e-9)


def test_rows_may_come_in_any_order() -> None:
    order = np.random.default_rng(4).permutation(len(Y))
    order = order[np.argsort(QID[order], kind="stable")][::-1]
    ranker = TopKRanker("mixed", base_score=2, rounds=100).fit(X, Y, qid=QID)
    scores = np.empty(len(Y))
    scores[order] = ranker.predict(X[order], qid=QID[order])
    assert scores == pytest.approx(ranker.predict(X, qid=QID), abs=1e-12)
    assert ranker.score(X[order], Y[order], qid=QID[order]) == pytest.approx(ranker.score(X, Y, qid=QID))


def test_parts_are_learned_one_after_the_other() -> None:
    half = np.arange(len(Y)) < DATA.offsets[60]
    ranker = TopKRanker("mixed:high=4", base_score=2)
    ranker.partial_fit(X[half], Y[half], qid=QID[half]).partial_fit(X[~half], Y[~half], qid=QID[~half])
    assert (ranker.agent_.rounds, ranker.agent_.n_feedback) == (120, 120)
    again = pickle.loads(pickle.dumps(ranker))  # noqa: S301 - its own
    assert again.predict(X, qid=QID).tolist() == ranker.predict(X, qid=QID).tolist()
    assert "trained for 120 rounds, 3 features<" in ranker._repr_html_()
    assert not clone(ranker).__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("learner", "base", "why"),
    [
        ("ridge", 2, "cannot start from base_score; use mixed"),
        ("mixed", 3, "X has 3 columns"),
        ("mixed", "score", "X has no names of columns"),
        ("mixed", 1.5, "must be a column of X, or a fitted ranker"),
        ("mixed", LinearRegression, "must be a column of X, or a fitted ranker"),
    ],
)
def test_what_cannot_be_started_from(learner: str, base: Any, why: str) -> None:
    with pytest.raises((ValueError, TypeError), match=why):
        TopKRanker(learner, base_score=base).fit(X, Y, qid=QID)


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match=r"no such column; did you mean 'score'"):
        TopKRanker("mixed", base_score="scores").fit({"score": SCORE, "b": SCORE}, Y, qid=QID)
    ranker = TopKRanker("mixed", base_score=2, rounds=10).fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="predict needs qid"):
        ranker.predict(X)
    with pytest.raises(ValueError, match="X has 2 features, but TopKRanker is expecting 3"):
        ranker.predict(X[:, :2], qid=QID)


def test_lists_longer_than_the_numbers_for_new_documents() -> None:
    ranker = TopKRanker("mixed", base_score=2, rounds=200).fit(X, Y, qid=QID)
    many = np.tile(X, (3, 1))[:1500]
    scores = ranker.predict(many, qid=None)
    repeated = np.flatnonzero((many == many[0]).all(axis=1))
    assert len(repeated) >= 2
    assert scores[repeated] == pytest.approx(np.full(len(repeated), scores[0]), abs=1e-12)


def by_training(training: Training, folder: Path, **options: Any) -> Any:
    """Train on X, and return the quality on the training part and the model of the first run."""
    data = Dataset.of(X, Y, QID, source="x")
    result = run_training(training, prepare_data(data, data, **options), folder)
    return result.summaries(), load_model(folder / "models" / "mixed-0.json").rank(data)


def test_a_model_is_not_applied_to_other_features_than_its_agent(tmp_path: Path) -> None:
    data = Dataset.of(X, Y, QID, source="x")
    run_training(Training(("mixed",), rounds=5, runs=1, score=2), prepare_data(data), tmp_path)
    model = load_model(tmp_path / "models" / "mixed-0.json")
    with pytest.raises(ValueError, match="3 features: must be 2, as in training"):
        model._replace(score=None).rank(data)


@pytest.mark.parametrize("score", [2, None])
def test_a_training_makes_the_ranker_of_the_estimator(score: int | None, tmp_path: Path) -> None:
    training = Training(("mixed",), rounds=400, runs=1, score=score)
    (summary,), ranked = by_training(training, tmp_path)
    ranker = TopKRanker("mixed", base_score=score, rounds=400, k=1).fit(X, Y, qid=QID)
    ours, theirs = ranked.quality(NDCG(10)), ranker.score(X, Y, qid=QID)
    assert summary.held_out == pytest.approx(ours)
    assert ours == pytest.approx(theirs, abs=0.03)  # the same but for random numbers
    assert summary.final_quality > 0.8


def test_before_the_first_answer_a_training_shows_the_order_of_the_score(tmp_path: Path) -> None:
    training = Training(("mixed:floor=0,earned=0", "ridge"), rounds=1, runs=1, score=2)
    data, run = Dataset.of(X, Y, QID, source="x"), training.sequence(0, len(DATA.queries))
    first, _ = run_training(training, prepare_data(data, scaling="global"), tmp_path).summaries()
    assert first.quality == pytest.approx(quality_alone(data.select(run), 2, training.make_measure()))
    with pytest.raises(ValueError, match="only mixed starts from a score"):
        replace(training, learners=("ridge",))


def test_the_column_of_the_score_is_a_name_or_a_number() -> None:
    named = Dataset.of({"a": X[:, 0], "b": X[:, 1]}, Y, QID, source="x")
    numbered = named._replace(about=replace(named.about, columns=(), base=1))
    assert [score_column(named, "b"), score_column(numbered, "2")] == [1, 1]
    for data, name, message in (
        (named, "c", "x has no such feature; "),
        (named, "1", "x has no such feature; "),
        (numbered, "0", "numbers from 1 to 2"),
        (numbered, "3", "numbers from 1 to 2"),
        (numbered, "b", "numbers from 1 to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            score_column(data, name)


def test_the_order_of_a_score_is_worth_what_its_lists_are() -> None:
    data = Dataset.of(np.array([[1.0], [2.0], [3.0], [1.0]]), np.array([1, 0, 0, 1]), [1, 1, 2, 2], source="x")
    second = 1 / np.log2(3)
    assert quality_alone(data, 0, NDCG(10)) == pytest.approx(second)  # both relevant documents come second
