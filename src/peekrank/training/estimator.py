"""A ranker with scikit-learn's interface. It does not need scikit-learn."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from html import escape
from itertools import pairwise
from typing import Any, Self

import numpy as np

from peekrank._util.text import pluralize, shown
from peekrank.data.dataset import Dataset
from peekrank.data.tables import columns_of
from peekrank.engine import Agent
from peekrank.measures import measure as measure_named
from peekrank.training import base_scores
from peekrank.training.model import Model, Ranked, preparation
from peekrank.training.run import make_model, play_run
from peekrank.training.select_scaling import choose_scaling
from peekrank.training.training import DEFAULT_LEARNER, Training, prepare_data, query_sequence
from peekrank.types import Features, Floats, Ints

_SOURCE = "X"


class _Required:
    """The default of `qid`, which differs from None: that means a single query."""

    def __repr__(self) -> str:
        return "required"


_REQUIRED = _Required()


class NotFittedYetError(ValueError, AttributeError):
    """A ranker was used before `fit`. If scikit-learn is loaded, its own NotFittedError is raised instead."""


class TopKRanker:
    """Learn to rank from judged documents, revealing k judgements per round; see `peekrank train`.

    ``qid`` holds the query of each row of X, numbers or strings in any order. With ``qid=None``, all rows belong
    to one query. Instead, ``group`` can hold the number of rows of each query, if those of a query are adjacent.
    ``predict`` returns scores, the larger the better, as rankers of other packages do.

    The methods request ``qid`` from scikit-learn's metadata routing, so that with
    ``sklearn.set_config(enable_metadata_routing=True)``, ``GridSearchCV(...).fit(X, y, qid=qid, groups=qid)``
    splits it. ``set_fit_request(qid="query")`` gives it another name there, ``qid=False`` rejects it.

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
    base_score
        For the learner mixed, the ranker to start from: the number or name of the column of X with its scores, or
        a fitted ranker with ``predict``. Scores count by their order within a query and among recent ones.

    Attributes
    ----------
    model_
        The `Model`. It can be saved, applied to other data, or continued by `Agent.from_model`.
    agent_
        For the learner mixed, the `Agent` instead of a model. Documents of `fit` are items to it.
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
    agent_: Agent
    n_features_in_: int
    _requests: Mapping[str, bool | str | None] = dict.fromkeys(("fit", "partial_fit", "predict", "score"), True)

    def __init__(
        self,
        learner: str = DEFAULT_LEARNER,
        *,
        k: int = 1,
        rounds: int = 10_000,
        scaling: str = "auto",
        measure: str = "ndcg@10",
        seed: int = 0,
        base_score: Any = None,
    ) -> None:
        self.learner = learner
        self.k = k
        self.rounds = rounds
        self.scaling = scaling
        self.measure = measure
        self.seed = seed
        self.base_score = base_score

    def fit(self, X: Any, y: Any, qid: Any = _REQUIRED, *, group: Any = None) -> Self:
        """Train from scratch for `rounds` rounds. Each pass shows all queries in a new random order."""
        qid = self._checked(_queries(qid, group, "fit"))
        if self._is_mixed():
            return self._fit_mixed(X, y, qid)
        data, training = _judged(X, y, qid), self._training(self.rounds)
        parts = prepare_data(data, scaling=self._scaling(data, training))
        model = next(play_run(training, parts, 0, lambda _: None)).models[0]
        if model is None:
            raise ValueError(f"learner = {self.learner}: diverged, or learns nothing from features; try ridge")
        self.model_, self.n_features_in_ = model, data.features.shape[1]
        return self

    def partial_fit(self, X: Any, y: Any, qid: Any = _REQUIRED, *, group: Any = None) -> Self:
        """Continue training with one round for each query, in the order of the rows.

        The first call chooses the scaling, which later calls keep.
        """
        qid = self._checked(_queries(qid, group, "partial_fit"))
        if self._is_mixed():
            return self._partial_fit_mixed(X, y, qid)
        data = _judged(X, y, qid).graded()
        longest = max(self.k, int(np.diff(data.offsets).max()))
        if self.__sklearn_is_fitted__():
            self._as_trained(data)
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

    def predict(self, X: Any, qid: Any = _REQUIRED, *, group: Any = None) -> Floats:
        """Return the score of each document. Scores are comparable within a query only.

        Only the scaling query and rankers with a base score need to know the queries.
        """
        self._check_fitted()
        by_list = self.base_score is not None or (
            not self._is_mixed() and self.model_.preparation.scaling == "query"
        )
        if qid is _REQUIRED and group is None and not by_list:
            qid = None
        qid = _queries(qid, group, "predict")
        scores = self._ranked(X, self._as_trained(Dataset.of(_plain(X), None, qid, source=_SOURCE)), qid).scores
        if qid is None:
            return scores
        by_row = np.empty_like(scores)
        by_row[_order(qid)] = scores
        return by_row

    def rank(self, X: Any) -> Ints:
        """Return the rows of X, the documents of one query, from best to worst."""
        return np.argsort(-self.predict(X, qid=None), kind="stable")

    def score(self, X: Any, y: Any, qid: Any = _REQUIRED, *, group: Any = None) -> float:
        """Return the mean of the measure over queries."""
        self._check_fitted()
        qid = _queries(qid, group, "score")
        return self._ranked(X, self._as_trained(_judged(X, y, qid)), qid).quality(measure_named(self.measure))

    def _checked(self, qid: Any) -> Any:
        """Return the queries. Raises ValueError if a learner is to start from scores, but cannot."""
        if self.base_score is not None and not self._is_mixed():
            raise ValueError(f"learner = {self.learner}: cannot start from base_score; use mixed")
        return qid

    def _is_mixed(self) -> bool:
        return base_scores.is_mixed(self.learner)

    def _lists(self, X: Any, data: Dataset, qid: Any) -> tuple[Dataset, Features, Floats | None]:
        order = np.arange(len(data.features)) if qid is None else _order(qid)
        return data, *base_scores.split_scores(self.base_score, X, data, order)

    def _fit_mixed(self, X: Any, y: Any, qid: Any) -> Self:
        data = _judged(X, y, qid).graded()
        sequence = query_sequence(self.rounds, len(data.queries), self.seed, 0)
        lists = self._lists(X, data, qid)
        self.agent_ = base_scores.train(self.learner, lists, self.k, sequence, self.seed)
        self.n_features_in_ = data.features.shape[1]
        return self

    def _partial_fit_mixed(self, X: Any, y: Any, qid: Any) -> Self:
        data = _judged(X, y, qid).graded()
        if hasattr(self, "agent_"):
            lists = self._lists(X, self._as_trained(data), qid)
            first = int(self.agent_.add(len(data.features))[0])
        else:
            lists = self._lists(X, data, qid)
            self.agent_ = base_scores.agent_for(self.learner, lists, self.k, self.seed)
            first = self.agent_.shape.m - len(data.features)
            self.n_features_in_ = data.features.shape[1]
        base_scores.train_once(self.agent_, lists, first)
        return self

    def _ranked(self, X: Any, data: Dataset, qid: Any) -> Ranked:
        """Rank the documents of each query, without exploration."""
        if not self._is_mixed():
            return self.model_.rank(data)
        _, features, given = self._lists(X, data, qid)
        scores = base_scores.predict(self.agent_, features, data.offsets, given)
        rankings = [np.argsort(-scores[first:last], kind="stable") for first, last in pairwise(data.offsets)]
        return Ranked(data, np.concatenate(rankings), scores)

    def set_fit_request(self, *, qid: bool | str | None) -> Self:
        """Set whether, and under which name, scikit-learn's metadata routing passes `qid` to `fit`."""
        return self._request("fit", qid)

    def set_partial_fit_request(self, *, qid: bool | str | None) -> Self:
        """Set whether, and under which name, scikit-learn's metadata routing passes `qid` to `partial_fit`."""
        return self._request("partial_fit", qid)

    def set_predict_request(self, *, qid: bool | str | None) -> Self:
        """Set whether, and under which name, scikit-learn's metadata routing passes `qid` to `predict`."""
        return self._request("predict", qid)

    def set_score_request(self, *, qid: bool | str | None) -> Self:
        """Set whether, and under which name, scikit-learn's metadata routing passes `qid` to `score`."""
        return self._request("score", qid)

    def get_metadata_routing(self) -> Any:
        """Return the metadata that the methods request, for scikit-learn."""
        from sklearn.utils.metadata_routing import MetadataRequest

        requests = MetadataRequest(owner=type(self).__name__)
        for method, qid in self._requests.items():
            getattr(requests, method).add_request(param="qid", alias=qid)
        requests.score.add_request(param="sample_weight", alias=None)  # Pipeline.score passes it on, if only None
        return requests

    def _request(self, method: str, qid: bool | str | None) -> Self:  # noqa: FBT001
        self._requests = {**self._requests, method: qid}
        return self

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

    def __sklearn_clone__(self) -> Self:
        """Return a ranker with the same parameters and requests that was not trained, for `sklearn.base.clone`."""
        twin = type(self)(**self.get_params())
        twin._requests = self._requests
        return twin

    def _repr_html_(self) -> str:
        """Return the parameters and the trained model as HTML, for notebooks."""
        rows = "".join(f"<li>{name} = {escape(shown(value))}</li>" for name, value in self.get_params().items())
        state = "not fitted"
        if self.__sklearn_is_fitted__():
            rounds = self.agent_.rounds if self._is_mixed() else self.model_.rounds
            state = f"trained for {pluralize(rounds, 'round')}, {pluralize(self.n_features_in_, 'feature')}"
            state += "" if self._is_mixed() else f", scaling {self.model_.preparation.scaling}"
        return f"<div><b>{type(self).__name__}</b>, {state}<ul>{rows}</ul></div>"

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a trained model."""
        return hasattr(self, "agent_" if self._is_mixed() else "model_")

    def __sklearn_tags__(self) -> Any:
        """Return the estimator tags for scikit-learn."""
        from sklearn.utils import InputTags, Tags, TargetTags

        target = TargetTags(required=True, positive_only=True)
        return Tags(estimator_type=None, target_tags=target, input_tags=InputTags(), requires_fit=True)

    def _training(self, rounds: int) -> Training:
        return Training((self.learner,), k=self.k, rounds=rounds, measure=self.measure, runs=1, seed=self.seed)

    def _scaling(self, data: Dataset, training: Training) -> str:
        return choose_scaling(data, training).scaling if self.scaling == "auto" else self.scaling

    def _as_trained(self, data: Dataset) -> Dataset:
        """Return the data. Raises ValueError, in scikit-learn's words, unless they have the trained features."""
        given, name = data.features.shape[1], type(self).__name__
        if given != self.n_features_in_:
            raise ValueError(
                f"X has {given} features, but {name} is expecting {self.n_features_in_} features as input"
            )
        return data

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            error: Any = NotFittedYetError
            if "sklearn.exceptions" in sys.modules:
                error = sys.modules["sklearn.exceptions"].NotFittedError
            raise error(f"this {type(self).__name__} is not fitted yet: call fit or partial_fit first")


def _parameters() -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(TopKRanker).parameters.items() if name != "self"}


def _queries(qid: Any, group: Any, method: str) -> Any:
    """Return the query of each row, or None for a single query. Raises ValueError if it was not said."""
    if group is not None:
        if qid is not _REQUIRED and qid is not None:
            raise ValueError("qid and group are both given: pass only one of them")
        sizes = np.asarray(group)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 1:
            raise ValueError("group must hold the number of rows of each query, at least 1")
        return np.repeat(np.arange(len(sizes)), sizes)
    if qid is _REQUIRED:
        raise ValueError(
            f"{method} needs qid, the query of each row, or qid=None if all rows belong to one query. A Pipeline "
            "or GridSearchCV passes it on after sklearn.set_config(enable_metadata_routing=True)"
        )
    return qid


def _plain(X: Any) -> Any:
    """Convert X to an array or to columns. Raises an error if it is not a dense table of real numbers."""
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse: must be dense, as in X.toarray()")
    if (columns := columns_of(X)) is not None:
        return columns
    if np.iscomplexobj(X):
        raise ValueError("X: Complex data not supported")
    values = np.asarray(X)
    if values.ndim == 1:
        raise ValueError("X has one dimension, but needs a row per document. Reshape your data")
    return values.astype(np.float64) if values.dtype == np.dtype(object) else values


def _judged(X: Any, y: Any, qid: Any) -> Dataset:
    if y is None:
        raise ValueError(
            "TopKRanker requires y to be passed, but the target y is None: it is the relevance of each row"
        )
    return Dataset.of(_plain(X), np.asarray(y), qid, source=_SOURCE)


def _order(qid: Any) -> Ints:
    """Return the row of each document of the data set, which groups documents by query."""
    first: dict[Any, int] = {}
    return np.argsort([first.setdefault(query, len(first)) for query in np.asarray(qid).tolist()], kind="stable")
