"""The ranker with the manners of scikit-learn, by scikit-learn's own checks where they apply."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
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
    "check_get_params_invariance",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
    "check_no_attributes_set_in_init",
    "check_readonly_memmap_input",
    "check_set_params",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn(name: str) -> None:
    check: Callable[[str, Any], None] = getattr(estimator_checks, name)
    check("TopKRanker", TopKRanker(rounds=50, scaling="global"))


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
    longer = ranker.partial_fit(X[:30], Y[:30])  # one query, longer than all before
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
        ({"X": X, "y": None}, "y is None"),
        ({"X": X[:, 0], "y": Y}, "Reshape your data"),
        ({"X": X, "y": Y[:-1]}, "relevance are .*: must be .*, one for each document"),
        ({"X": X, "y": -np.ones(len(X))}, "relevance must be a number for every document, 0 or more"),
        ({"X": X * np.nan, "y": Y}, "nan, which is not finite"),
    ],
)
def test_what_cannot_be_learned_from(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TopKRanker(rounds=10).fit(**given)


def test_scikit_learn_is_not_loaded() -> None:
    script = """
import sys, numpy as np
from peekrank.training.estimator import TopKRanker
try:
    TopKRanker().predict([[1.0]])
except ValueError as error:
    assert "is not fitted yet" in str(error)
TopKRanker(rounds=5, scaling="none").fit([[1.0], [0.0]], [1, 0]).predict([[1.0]])
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
