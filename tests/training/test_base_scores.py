"""TopKRanker with mixed: it starts from the scores of another ranker and ranks new documents as its agent does."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.training.estimator import TopKRanker

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
