"""Models: trained rankers as JSON files, which can be applied to other data and trained further."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peekrank import __version__
from peekrank._jit import kernel
from peekrank._util.atomic import write_whole
from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import read_whole
from peekrank._util.untrusted_json import read_json
from peekrank._util.validate import check_choice
from peekrank.data.columns import Column, columns_as_json, columns_from_json, feature_names
from peekrank.data.dataset import Dataset, Provenance, check_finite
from peekrank.data.scaling import (
    AsinhScaler,
    LearningScaling,
    Standardisation,
    fit_robustly,
    fit_standardisation,
    scale_within_queries,
    standardise,
)
from peekrank.engine import Agent
from peekrank.engine.scoring import values_of_lists
from peekrank.kernels.sorting import SortSpace, sort_descending, sort_space
from peekrank.kernels.vectors import dot
from peekrank.learners.mixed.learner import Mixed
from peekrank.streams.fixed import list_lengths
from peekrank.training import base_scores
from peekrank.types import Features, Floats, Ints, Measure, Rounds

_KIND, _FORMAT = "peekrank model", 1
_LARGEST = float(np.finfo(np.float32).max)
_TYPES = {
    **dict.fromkeys(("learner", "measure", "source", "digest", "scaling", "fitted_on", "agent"), str),
    **dict.fromkeys(("k", "rounds", "seed", "run", "features", "base"), int),
}

_OWN_FIELDS = ("weights", "preparation", "agent")  # fields of a model that a file represents differently
_MAX_BYTES = 1 << 27  # of an agent; ridge with 2,000 columns takes 32 MB


class Preprocessor(NamedTuple):
    """The columns and the scaling that data need before weights are applied to them.

    ``standardisation`` is None unless mean and deviation were fitted here. They are unknown for data that were
    scaled already and, with online scaling, before the end of a run. ``columns`` are those of the table that the
    training part was made of, if they had names: ``Dataset.of(table, columns=model.preparation.columns)``.
    """

    features: int
    base: int
    scaling: str
    fitted_on: str
    standardisation: Standardisation | None
    columns: tuple[Column, ...] = ()

    def apply(self, data: Dataset) -> Dataset:
        """Scale data and round their relevance to grades. Raises ValueError if they do not fit."""
        return self.scale(data).graded()

    def scale(self, data: Dataset) -> Dataset:
        """Scale data and leave their relevance unchanged. Raises ValueError if they do not fit."""
        name = data.about.source
        check_finite(data, name)
        if data.about.base != self.base:
            raise ValueError(f"{name}: feature ids start at {data.about.base}: must start at {self.base}")
        data = self._columns(data)
        if data.about.scaling != "none":
            if (data.about.scaling, data.about.fitted_on) != (self.scaling, self.fitted_on):
                actual = _scaling_text(data.about.scaling, data.about.fitted_on)
                expected = _scaling_text(self.scaling, self.fitted_on)
                raise ValueError(f"{name}: is scaled already ({actual}): must be {expected}, or not scaled")
        elif self.scaling == "query":
            data = scale_within_queries(data)
        elif self.standardisation is not None:
            data = standardise(data, self.standardisation)
        elif self.scaling in ("global", "robust"):
            raise ValueError(
                f"{name}: must be scaled like the training part; "
                f"use `peekrank data FILE --scaling {self.scaling} --train TRAIN --out FILE.peek`"
            )
        return data

    def _columns(self, data: Dataset) -> Dataset:
        """Add columns of zeros for the last features if a text file omits them in every line."""
        self._check_columns(data.about)
        n_features = data.features.shape[1]
        if n_features == self.features:
            return data
        if n_features > self.features or not data.about.warnings.get("missing_values"):
            raise ValueError(
                f"{data.about.source}: has {n_features} features: must have {self.features} like the training part"
            )
        wider = np.zeros((len(data.features), self.features), np.float32)
        wider[:, :n_features] = data.features
        return data._replace(features=wider)

    def _check_columns(self, about: Provenance) -> None:
        """Raise ValueError if both parts have named features, and these differ."""
        if not self.columns or about.columns in ((), self.columns):
            return
        ours, theirs = feature_names(self.columns), about.feature_names
        if ours == theirs and not about.warnings.get("filled_values"):
            return
        names = (name for i, name in enumerate(ours) if i >= len(theirs) or theirs[i] != name)
        differ = next(
            (f"'{excerpt(name)}' is missing or elsewhere" for name in names), "there are more, or medians"
        )
        raise ValueError(
            f"{about.source}: its features differ from those of the training part: {differ}; make them from the "
            "table again, with columns = those of the training part"
        )


def preparation(train: Dataset, scaling: str = "none") -> Preprocessor:
    """Fit the preprocessing on a training part.

    Parameters
    ----------
    train
        The training part.
    scaling
        none, query, global, robust or online. With none, data that were scaled already keep their scaling.
    """
    check_choice("scaling", scaling, LearningScaling)
    about = train.about
    if scaling != "none" and about.scaling != "none":
        raise ValueError(f"scaling = {scaling}: {about.source} is scaled already ({about.scaling}); leave it out")
    fits = {"global": fit_standardisation, "robust": fit_robustly}
    fitted = fits[scaling](train) if scaling in fits else None
    columns = (train.features.shape[1], about.base)
    if scaling == "none":
        return Preprocessor(*columns, about.scaling, about.fitted_on, None, about.columns)
    return Preprocessor(*columns, scaling, fitted.fitted_on if fitted else "", fitted, about.columns)


class Model(NamedTuple):
    """A trained ranker: weights, preprocessing, and how they were made.

    ``weights`` is empty if scores are not weighted sums of the features; the agent then computes the scores.
    ``agent`` is the result of `Agent.dump` after the last round, from which `Agent.from_model` continues, or
    empty. ``score`` is the index of the feature that holds the scores from which mixed starts.
    """

    weights: Features
    preparation: Preprocessor
    learner: str
    k: int
    measure: str
    rounds: int
    seed: int
    run: int
    source: str
    digest: str
    agent: bytes = b""
    score: int | None = None

    def prepare(self, features: ArrayLike) -> Features:
        """Preprocess the features of one query's documents for the learner, or for an agent made from this model.

        >>> from peekrank.data.dataset import Provenance
        >>> features = np.array([[0, 10], [1, 30]], np.float32)
        >>> data = Dataset(features, np.zeros(2, np.uint8), np.array([0, 2]), np.array([7]), Provenance("x"))
        >>> prepared = preparation(data, "global")
        >>> model = Model(np.float32([1, -1]), prepared, "ridge", 1, "ndcg@10", 1, 0, 0, "x", "")
        >>> model.prepare([[2, 20]])
        array([[3., 0.]], dtype=float32)
        """
        X = np.array(features, np.float32, ndmin=2)
        return self.preparation.scale(self._without_relevance(X, np.array([0, len(X)]))).features

    def scores(self, features: Features, offsets: Ints) -> Floats:
        """Return the score of each document from its raw features. ``offsets`` are the beginnings of the lists.

        >>> features = np.array([[0, 1], [1, 0], [2, 1]], np.float32)
        >>> data = Dataset(features, np.zeros(3, np.uint8), np.array([0, 3]), np.array([7]), Provenance("x"))
        >>> model = Model(np.float32([1, -1]), preparation(data), "rtopkf", 1, "ndcg@10", 1, 0, 0, "x", "")
        >>> model.scores(features, np.array([0, 3]))
        array([-1.,  1.,  1.])
        """
        return self.rank(self._without_relevance(features, offsets)).scores

    def _without_relevance(self, X: Features, offsets: Ints) -> Dataset:
        """Make a data set of lists from features only."""
        about = Provenance("features", base=self.preparation.base)
        return Dataset(X, np.zeros(len(X), np.uint8), offsets, np.arange(len(offsets) - 1), about)

    def rank(self, data: Dataset) -> Ranked:
        """Score the documents of each query, and rank them as the learner does without exploration.

        >>> from peekrank.data.dataset import Provenance
        >>> features = np.array([[0, 1], [1, 0], [2, 1]], np.float32)
        >>> data = Dataset(features, np.zeros(3, np.uint8), np.array([0, 3]), np.array([7]), Provenance("x"))
        >>> model = Model(np.float32([1, -1]), preparation(data), "rtopkf", 1, "ndcg@10", 1, 0, 0, "x", "")
        >>> model.rank(data).rankings, model.rank(data).scores
        (array([1, 2, 0]), array([-1.,  1.,  1.]))
        """
        prepared = self.preparation.scale(data)
        if len(self.weights):
            return Ranked(prepared, *order_all(self.weights, prepared.features, prepared.offsets))
        agent = Agent.from_model(self)
        if isinstance(agent.learner, Mixed):
            features, given = base_scores.without_column(prepared.features, self.score)
            scores = base_scores.predict(agent, features, prepared.offsets, given)
        else:
            lists = [prepared.features[first:last] for first, last in pairwise(prepared.offsets)]
            scores = np.concatenate([agent.learner.scores(agent.state, X) for X in lists])
        orders = [np.argsort(-scores[first:last], kind="stable") for first, last in pairwise(prepared.offsets)]
        return Ranked(prepared, np.concatenate(orders), scores)


class Ranked(NamedTuple):
    """Preprocessed data, the ranking of each query's documents from best to worst, and all scores."""

    data: Dataset
    rankings: Ints
    scores: Floats

    def values(self, measure: Measure) -> Floats:
        """Return the value of each query that the measure does not skip. Rounds relevance to grades."""
        grades = self.data.graded().relevance
        values = values_of_lists(measure, self.rankings, grades, self.data.offsets)
        return values[~np.isnan(values)]

    def quality(self, measure: Measure) -> float:
        """Return the mean value over the queries that the measure does not skip, or NaN if it skips all."""
        values = self.values(measure)
        return float(values.mean()) if len(values) else float("nan")


def order_all(weights: Features, features: Features, offsets: Ints) -> tuple[Ints, Floats]:
    """Rank all lists by descending score, then by index. Return rankings and scores."""
    lengths = list_lengths(Rounds(features, np.zeros(len(features), np.uint8), offsets))
    if len(weights) != features.shape[1]:
        raise ValueError(f"{len(weights)} weights for {features.shape[1]} features: must be equally many")
    rankings, scores = np.empty(len(features), np.int64), np.empty(len(features))
    row = _order(features, offsets, weights, scores, rankings, sort_space(int(lengths.max())))
    if row >= 0:
        query = int(np.searchsorted(offsets, row, side="right"))
        raise ValueError(
            f"document {row - offsets[query - 1] + 1} of query number {query} has the score {scores[row]}: "
            "features are too large for these weights; scale them"
        )
    return rankings, scores


@kernel
def _order(
    features: Features, offsets: Ints, weights: Features, scores: Floats, rankings: Ints, space: SortSpace
) -> int:
    """Fill scores and rankings. Return the first row whose score is not finite, or -1."""
    for i in range(len(features)):
        scores[i] = dot(features[i], weights)
        if not abs(scores[i]) < np.inf:
            return i
    for q in range(len(offsets) - 1):
        first, last = offsets[q], offsets[q + 1]
        sort_descending(scores[first:last], rankings[first:last], space)
    return -1


def save_model(model: Model, path: str | PathLike[str]) -> None:
    """Write a model atomically. Raises ValueError unless there is one finite weight per feature."""
    _check_numbers(model, model.learner)
    prepared, fitted = model.preparation, model.preparation.standardisation
    content = {
        "kind": _KIND,
        "format": _FORMAT,
        "peekrank": __version__,
        **{name: value for name, value in model._asdict().items() if name not in _OWN_FIELDS},
        "features": prepared.features,
        "base": prepared.base,
        "scaling": prepared.scaling,
        "fitted_on": prepared.fitted_on,
        "columns": columns_as_json(prepared.columns),
        **{name: None if values is None else values.tolist() for name, values in _statistics(fitted).items()},
        "weights": model.weights.tolist(),
        "agent": base64.b64encode(zlib.compress(model.agent, 9)).decode() if model.agent else "",
    }
    text = json.dumps({**content, "checksum": _checksum(content)}, indent=1, allow_nan=False)
    write_whole(Path(path), lambda part: part.write_text(text + "\n", encoding="utf-8"))


def load_model(path: str | PathLike[str]) -> Model:
    """Read a model. Raises ValueError if the file is not a model, or is damaged."""
    path = Path(path)
    try:
        content = read_json(read_whole(path))
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ValueError(
            f"{path.name}: is not a peekrank model, or is truncated; `peekrank train` writes models/*.json"
        )
    if content.get("format") != _FORMAT:
        raise ValueError(
            f"{path.name}: has format {excerpt(repr(content.get('format')))}; this peekrank reads format {_FORMAT}"
        )
    if content.pop("checksum", None) != _checksum(content):
        raise ValueError(f"{path.name}: is damaged: its content does not match its checksum")
    content.setdefault("score", None)
    _check_content(content, path.name)
    fitted = _standardisation(content)
    prepared = {name: content[name] for name in ("features", "base", "scaling", "fitted_on")}
    prepared |= {"standardisation": fitted, "columns": _named_columns(content, path.name)}
    about = {name: content[name] for name in Model._fields if name not in _OWN_FIELDS}
    weights, agent = np.array(content["weights"], np.float32), _unpack_agent(content["agent"], path.name)
    model = Model(weights, Preprocessor(**prepared), **about, agent=agent)
    _check_numbers(model, path.name)
    return model


def _named_columns(content: dict[str, Any], name: str) -> tuple[Column, ...]:
    try:
        return columns_from_json(content.get("columns", []), content["features"])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _unpack_agent(text: str, name: str) -> bytes:
    """Decompress the bytes of an agent. `Agent.from_model` validates them."""
    if not text:
        return b""
    try:
        unzip = zlib.decompressobj()
        blob = unzip.decompress(base64.b64decode(text, validate=True), _MAX_BYTES)
    except (ValueError, zlib.error):
        raise ValueError(f"{name}: its agent is damaged: must be zlib data in base64") from None
    if not unzip.eof:
        raise ValueError(f"{name}: its agent is truncated, or has more than {_MAX_BYTES:,} bytes")
    return blob


def _statistics(fitted: Standardisation | None) -> dict[str, Floats | None]:
    """Return the arrays of a standardisation by their names in a file."""
    squash = None if fitted is None else fitted.squash
    return {
        "centre": None if squash is None else squash.centre,
        "spread": None if squash is None else squash.spread,
        "mean": None if fitted is None else fitted.mean,
        "deviation": None if fitted is None else fitted.deviation,
    }


def _standardisation(content: dict[str, Any]) -> Standardisation | None:
    if content["mean"] is None:
        return None
    mean, deviation = (np.array(content[key], np.float64) for key in ("mean", "deviation"))
    squash = None
    if content["centre"] is not None:
        squash = AsinhScaler(*(np.array(content[key], np.float64) for key in AsinhScaler._fields))
    return Standardisation(mean, deviation, content["fitted_on"], squash)


def _check_content(content: dict[str, Any], name: str) -> None:
    """Raise ValueError unless all fields exist with the right types. A valid checksum does not ensure that."""
    for key, kind in _TYPES.items():
        if type(content.get(key)) is not kind:
            expected = "a text" if kind is str else "a whole number"
            raise ValueError(f"{name}: its {key} is {excerpt(repr(content.get(key)))}: must be {expected}")
    score = content["score"]
    if score is not None and (type(score) is not int or not 0 <= score < content["features"]):
        raise ValueError(f"{name}: its score is {excerpt(repr(score))}: must be the index of a feature")
    if content["scaling"] not in get_args(LearningScaling):
        known = ", ".join(get_args(LearningScaling))
        raise ValueError(f"{name}: its scaling is '{excerpt(content['scaling'])}': must be one of {known}")
    vectors = {"mean": ["mean", "deviation"], "centre": ["mean", "deviation", "centre", "spread"]}
    needed = [name for first, names in vectors.items() if content.setdefault(first) is not None for name in names]
    for key in dict.fromkeys(["weights", *needed]):
        if not _is_vector(content.get(key)):
            raise ValueError(f"{name}: its {key} must be a list of numbers that float32 can hold")


def _is_vector(values: Any) -> bool:
    return isinstance(values, list) and all(type(x) in (int, float) and abs(x) <= _LARGEST for x in values)


def is_model(path: Path) -> bool:
    """Return whether a file begins like those of `save_model`."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"kind": "{_KIND}"'.encode() in file.read(64)


def _check_numbers(model: Model, name: str) -> None:
    """Raise ValueError unless every feature has finite numbers. Compiled code relies on the length."""
    features, fitted = model.preparation.features, model.preparation.standardisation
    numbers: dict[str, NDArray[Any]] = {} if model.agent and not len(model.weights) else {"weights": model.weights}
    numbers |= {f"{name}s": values for name, values in _statistics(fitted).items() if values is not None}
    for field, values in numbers.items():
        if values.shape != (features,):
            shape = " x ".join(map(str, values.shape))
            raise ValueError(f"{name}: has {shape} {field}: must be {features}, one for every feature")
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: its {field} are not finite")


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _scaling_text(scaling: str, fitted_on: str) -> str:
    return f"{scaling}, fitted on {fitted_on[:16]}" if fitted_on else scaling
