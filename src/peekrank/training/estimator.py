"""A ranker with scikit-learn's interface. It does not need scikit-learn."""

from __future__ import annotations

import inspect
import sys
from itertools import pairwise
from typing import Any, Self

import numpy as np

from peekrank.data.dataset import Dataset
from peekrank.engine import Agent
from peekrank.measures import measure as measure_named
from peekrank.training.model import Model, preparation
from peekrank.training.run import make_model, play_run
from peekrank.training.select_scaling import choose_scaling
from peekrank.training.training import DEFAULT_LEARNER, Training, prepare_data
from peekrank.types import Floats, Ints

_SOURCE = "X"


class NotFittedYetError(ValueError, AttributeError):
    """A ranker was used before `fit`. If scikit-learn is loaded, its own NotFittedError is raised instead."""


class TopKRanker:
    """Learn to rank from judged documents, revealing k judgements per round; see `peekrank train`.

    ``qid`` holds the query of each row of X, numbers or strings in any order. Without it, all rows belong to one
    query. ``predict`` returns scores, the larger the better, as rankers of other packages do.

    Parameters
    ----------
    learner
        A learner for lists with features, such as ridge, rtopkf or rtopkf:surrogate=kl.
    k
        Number of top documents whose relevance is revealed in a round.
    rounds
        Number of rounds of `fit`.
    scaling
        auto, none, query, global, robust or online.
    measure
        The measure whose mean `score` returns.
    seed
        Random seed.

    Attributes
    ----------
    model_
        The `Model`. It can be saved, applied to other data, or continued by `Agent.from_model`.
    n_features_in_
        Number of features.

    >>> from peekrank.data.generated import DatasetShape, make_dataset
    >>> shape = DatasetShape(queries=60, documents=(5, 12), features=6, shares=(0.6, 0.3, 0.1))
    >>> data = make_dataset(shape, np.random.default_rng(1))
    >>> qid = np.repeat(data.queries, np.diff(data.offsets))
    >>> ranker = TopKRanker(rounds=1000).fit(data.features, data.relevance, qid=qid)
    >>> ranker.score(data.features, data.relevance, qid=qid) > 0.8
    True
    >>> ranker.rank(data.features[:5]).tolist() == np.argsort(-ranker.predict(data.features[:5])).tolist()
    True
    """

    model_: Model
    n_features_in_: int

    def __init__(
        self,
        learner: str = DEFAULT_LEARNER,
        *,
        k: int = 1,
        rounds: int = 10_000,
        scaling: str = "auto",
        measure: str = "ndcg@10",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.k = k
        self.rounds = rounds
        self.scaling = scaling
        self.measure = measure
        self.seed = seed

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Train from scratch for `rounds` rounds. Each pass shows all queries in a new random order."""
        data, training = _judged(X, y, qid), self._training(self.rounds)
        parts = prepare_data(data, scaling=self._scaling(data, training))
        model = next(play_run(training, parts, 0, lambda _: None)).models[0]
        if model is None:
            raise ValueError(f"learner = {self.learner}: diverged, or learns nothing from features; try ridge")
        self.model_, self.n_features_in_ = model, data.features.shape[1]
        return self

    def partial_fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Continue training with one round for each query, in the order of the rows.

        The first call chooses the scaling, which later calls keep.
        """
        data = _judged(X, y, qid).graded()
        longest = max(self.k, int(np.diff(data.offsets).max()))
        if self.__sklearn_is_fitted__():
            prepared = self.model_.preparation
            agent = Agent.from_model(self.model_)
            if longest > agent.shape.m:
                agent = Agent.from_model(self.model_, m=longest)
            training = self._training(self.model_.rounds + len(data.queries))
        else:
            training = self._training(len(data.queries))
            prepared = preparation(data, self._scaling(data, training))
            (learner,), d = training.make_learners(), data.features.shape[1]
            agent = Agent(learner, m=longest, k=self.k, d=d, seed=training.learner_seed(0))
        scaled = prepared.apply(data)
        for first, last in pairwise(scaled.offsets):
            decision = agent.rank(scaled.features[first:last])
            agent.update(decision, scaled.relevance[first:last][decision.ranking[: agent.shape.k]])
        self.model_ = make_model(agent, prepared, training, 0, data)
        self.n_features_in_ = prepared.features
        return self

    def predict(self, X: Any, qid: Any = None) -> Floats:
        """Return the score of each document. Scores are comparable within a query only."""
        return self._scores(Dataset.of(_plain(X), None, qid, source=_SOURCE), qid)

    def rank(self, X: Any) -> Ints:
        """Return the rows of X, the documents of one query, from best to worst."""
        return np.argsort(-self.predict(X), kind="stable")

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """Return the mean of the measure over queries."""
        self._check_fitted()
        return self.model_.rank(_judged(X, y, qid)).quality(measure_named(self.measure))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's own
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters. The trained model stays until the next `fit`."""
        for name, value in params.items():
            if name not in _parameters():
                raise ValueError(f"unknown parameter {name}: must be one of {', '.join(_parameters())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults."""
        default = {name: parameter.default for name, parameter in _parameters().items()}
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != default[name]]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a trained model."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags for scikit-learn."""
        from sklearn.utils import InputTags, Tags, TargetTags

        target = TargetTags(required=True, positive_only=True)
        return Tags(estimator_type=None, target_tags=target, input_tags=InputTags(), requires_fit=True)

    def _training(self, rounds: int) -> Training:
        return Training((self.learner,), k=self.k, rounds=rounds, measure=self.measure, runs=1, seed=self.seed)

    def _scaling(self, data: Dataset, training: Training) -> str:
        return choose_scaling(data, training).scaling if self.scaling == "auto" else self.scaling

    def _scores(self, data: Dataset, qid: Any) -> Floats:
        self._check_fitted()
        scores = self.model_.rank(data).scores
        if qid is None:
            return scores
        by_row = np.empty_like(scores)
        by_row[_order(qid)] = scores
        return by_row

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            error: Any = NotFittedYetError
            if "sklearn.exceptions" in sys.modules:
                error = sys.modules["sklearn.exceptions"].NotFittedError
            raise error(f"this {type(self).__name__} is not fitted yet: call fit or partial_fit first")


def _parameters() -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(TopKRanker).parameters.items() if name != "self"}


def _plain(X: Any) -> Any:
    """Convert X to an array or data frame. Raises an error if it is not a dense table of real numbers."""
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse: must be dense, as in X.toarray()")
    if np.iscomplexobj(X):
        raise ValueError("X: Complex data not supported")
    values = X if hasattr(X, "columns") else np.asarray(X)
    if np.ndim(values) == 1:
        raise ValueError("X has one dimension, but needs a row per document. Reshape your data")
    return values.astype(np.float64) if getattr(values, "dtype", None) == np.dtype(object) else values


def _judged(X: Any, y: Any, qid: Any) -> Dataset:
    if y is None:
        raise ValueError("y is None: must be the relevance of each document")
    return Dataset.of(_plain(X), np.asarray(y), qid, source=_SOURCE)


def _order(qid: Any) -> Ints:
    """Return the row of each document of the data set, which groups documents by query."""
    first: dict[Any, int] = {}
    return np.argsort([first.setdefault(query, len(first)) for query in np.asarray(qid).tolist()], kind="stable")
