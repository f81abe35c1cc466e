"""The ranker with the manners of scikit-learn, by scikit-learn's own checks where they apply."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from peekrank.data.generated import DatasetShape, make_dataset
from peekrank.engine import Agent
from peekrank.training.estimator import TopKRanker

LAYOUT = DatasetShape(queries=40, documents=(3, 9), features=4, shares=(0.6, 0.3, 0.1))
DATA = make_dataset(LAYOUT, np.random.default_rng(1))
X, Y, QID = DATA.features, DATA.relevance, np.repeat(DATA.queries, np.diff(DATA.offsets))

CHECKS = [
    "check_complex_data",
    "check_dict_unchanged",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_get_params_invariance",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
]


class OneQuery(TopKRanker):
    """The ranker as scikit-learn's checks call it: without queries, of which they know nothing."""

    def fit(self, X: Any, y: Any, qid: Any = None, *, group: Any = None) -> Self:
        return super().fit(X, y, qid, group=group)

    def partial_fit(self, X: Any, y: Any, qid: Any = None, *, group: Any = None) -> Self:
        return super().partial_fit(X, y, qid, group=group)

    def score(self, X: Any, y: Any, qid: Any = None, *, group: Any = None) -> float:
        return super().score(X, y, qid, group=group)


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn(name: str) -> None:
    check: Callable[[str, Any], None] = getattr(estimator_checks, name)
    check("OneQuery", OneQuery(rounds=50, scaling="global"))


def test_what_the_queries_are_must_be_said() -> None:
    with pytest.raises(ValueError, match="fit needs qid, the query of each row, or qid=None"):
        TopKRanker(rounds=10).fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit needs qid"):
        TopKRanker(rounds=10).partial_fit(X, Y)
    ranker = TopKRanker(rounds=10, scaling="query").fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="score needs qid"):
        ranker.score(X, Y)
    with pytest.raises(ValueError, match="predict needs qid"):  # because the scaling depends on it
        ranker.predict(X)
    assert ranker.score(X, Y, qid=None) == TopKRanker.score(ranker, X, Y, qid=np.zeros(len(X), int))
    with pytest.raises(ValueError, match="qid and group are both given"):
        ranker.score(X, Y, qid=QID, group=[len(X)])


def test_groups_are_numbers_of_rows_one_after_the_other() -> None:
    sizes = np.diff(DATA.offsets)
    by_group, by_query = TopKRanker(rounds=200).fit(X, Y, group=sizes), TopKRanker(rounds=200).fit(X, Y, qid=QID)
    assert np.array_equal(by_group.predict(X), by_query.predict(X))
    assert by_group.score(X, Y, group=sizes) == by_query.score(X, Y, qid=QID)
    for wrong, said in (([3, 0], "group must hold"), ([3, 4], "must be .*, one for each document")):
        with pytest.raises(ValueError, match=said):
            TopKRanker(rounds=10).fit(X, Y, group=wrong)


def test_a_search_and_a_pipeline_pass_the_queries_on() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        folds = GroupKFold(3)
        search = GridSearchCV(TopKRanker(rounds=200, scaling="global"), {"learner": ["ridge"]}, cv=folds)
        search.fit(X, Y, qid=QID, groups=QID)
        by_hand = [
            TopKRanker(rounds=200, scaling="global").fit(X[a], Y[a], qid=QID[a]).score(X[b], Y[b], qid=QID[b])
            for a, b in folds.split(X, Y, QID)
        ]
        assert search.best_score_ == pytest.approx(np.mean(by_hand))
        steps = make_pipeline(StandardScaler(), TopKRanker(rounds=200, scaling="none")).fit(X, Y, qid=QID)
        scaled = StandardScaler().fit_transform(X)
        alone = TopKRanker(rounds=200, scaling="none").fit(scaled, Y, qid=QID)
        assert steps.score(X, Y, qid=QID) == alone.score(scaled, Y, qid=QID)
        named = clone(TopKRanker(rounds=20).set_fit_request(qid="query").set_score_request(qid=False))
        assert named.get_metadata_routing().fit.requests == {"qid": "query"}
        assert named.get_metadata_routing().score.requests["qid"] is False
    with pytest.raises(ValueError, match="fit needs qid"):  # not silently one query
        make_pipeline(StandardScaler(), TopKRanker(rounds=10)).fit(X, Y)


def test_it_is_shown_with_what_it_was_trained_on() -> None:
    ranker = TopKRanker("rtopkf", k=2, rounds=20)
    assert repr(ranker) == "TopKRanker(learner='rtopkf', k=2, rounds=20)"
    assert "not fitted" in ranker._repr_html_()
    shown = ranker.fit(X, Y, qid=QID)._repr_html_()
    assert "trained for 20 rounds, 4 features" in shown
    assert "<li>k = 2</li>" in shown


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_tables_are_as_good_as_arrays(frame: Callable[[dict[str, Any]], Any]) -> None:
    table = frame({f"f{i}": X[:, i] for i in range(4)})
    by_table, by_array = (TopKRanker(rounds=50).fit(each, Y, qid=QID) for each in (table, X))
    assert np.array_equal(by_table.predict(table), by_array.predict(X))


def test_it_learns_and_predicts_in_the_order_of_the_rows() -> None:
    shuffled = np.random.default_rng(2).permutation(len(X))
    ranker = TopKRanker(rounds=500).fit(X, Y, qid=QID)
    assert ranker.score(X, Y, qid=QID) > 0.75
    scores = ranker.predict(X, qid=QID)
    assert np.allclose(ranker.predict(X[shuffled], qid=QID[shuffled]), scores[shuffled])
    assert ranker.rank(X[:6]).tolist() == np.argsort(-ranker.predict(X[:6]), kind="stable").tolist()


def test_names_of_queries_and_query_scaling() -> None:
    names = np.array([f"q{query}" for query in QID])
    by_name = TopKRanker(rounds=200, scaling="query").fit(X, Y, qid=names)
    by_number = TopKRanker(rounds=200, scaling="query").fit(X, Y, qid=QID)
    assert np.array_equal(by_name.predict(X, qid=names), by_number.predict(X, qid=QID))


@pytest.mark.parametrize("learner", ["ridge", "rtopkf:horizon=80"])
def test_learning_goes_on_as_an_agent_would(learner: str) -> None:
    ranker = TopKRanker(learner, scaling="none").partial_fit(X, Y, qid=QID).partial_fit(X, Y, qid=QID)
    agent = Agent(
        ranker._training(80).make_learners()[0], m=9, k=1, d=4, seed=ranker._training(80).learner_seed(0)
    )
    for _ in range(2):
        for query in range(40):
            rows = slice(DATA.offsets[query], DATA.offsets[query + 1])
            decision = agent.rank(X[rows])
            agent.update(decision, Y[rows][decision.ranking[:1]])
    assert ranker.model_.agent == agent.dump()
    longer = ranker.partial_fit(X[:30], Y[:30], qid=None)  # one query, longer than all before
    assert Agent.from_model(longer.model_).rounds == 81


def test_clones_have_learned_nothing() -> None:
    ranker = TopKRanker("rtopkf", k=2, rounds=100).fit(X, Y, qid=QID)
    twin = clone(ranker)
    assert twin.get_params() == ranker.get_params()
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        twin.predict(X)
    check_is_fitted(ranker)
    copy = pickle.loads(pickle.dumps(ranker))  # noqa: S301 - our own
    assert np.array_equal(copy.predict(X), ranker.predict(X))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"X": X, "y": None}, "target y is None"),
        ({"X": X[:, 0], "y": Y}, "Reshape your data"),
        ({"X": X, "y": Y[:-1]}, "relevance are .*: must be .*, one for each document"),
        ({"X": X, "y": -np.ones(len(X))}, "relevance must be a number for every document, 0 or more"),
        ({"X": X * np.nan, "y": Y}, "nan: must be a number up to 3.4e38"),
    ],
)
def test_what_cannot_be_learned_from(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TopKRanker(rounds=10).fit(**given, qid=None)


def test_scikit_learn_is_not_loaded() -> None:
    script = """
import sys, numpy as np
from peekrank.training.estimator import TopKRanker
try:
    TopKRanker().predict([[1.0]])
except ValueError as error:
    assert "is not fitted yet" in str(error)
TopKRanker(rounds=5, scaling="none").fit([[1.0], [0.0]], [1, 0], qid=None).predict([[1.0]])
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
