"""The learner class of ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_choice, check_int, check_positive
from peekrank.kernels.column_moments import COUNT, SQUARES
from peekrank.kernels.exploration import doubt_space
from peekrank.kernels.sorting import sort_space
from peekrank.kernels.triangular import BLOCK, aligned, panel, row_ends, whole_blocks
from peekrank.learners._shared import check_numbers, off_policy_unchanged
from peekrank.learners.ridge.exploration import (
    component,
    exploit,
    explore_in_doubt,
    mixture,
    off_policy,
    propensities,
    rank_by_doubt,
    rank_by_sampling,
)
from peekrank.learners.ridge.feature_map import make_feature_map
from peekrank.learners.ridge.regression import fill_scores, update
from peekrank.learners.ridge.state import ONE, REFRESH, RENEW, RESERVE, RidgeState
from peekrank.types import Features, Floats, Kernels, Shape

Explore = Literal["doubt", "sampling"]
_UNIFORM = 1.2  # uniform exploration, relative to the share of noise in the scores of a list
MAX_COLUMNS = 2000  # of the factor, a square matrix

# rank observes features
_BY_DOUBT = Kernels(
    rank_by_doubt,
    update,
    propensities,
    counts_rounds=True,
    off_policy=off_policy,
    exploit=exploit,
    explore=explore_in_doubt,
    mixture=mixture,
    component=component,
)
_BY_SAMPLING = Kernels(rank_by_sampling, update, counts_rounds=True, off_policy=off_policy_unchanged)
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Ridge:
    """Rank by a Bayesian linear regression of relevance on features, and explore where the order is in doubt.

    The model of relevance is ``w . x + c`` plus noise of unknown variance. c has a flat prior, and the weight of a
    column of variance v has the prior variance noise/v. The learner solves for the weights after each round, so
    few rounds suffice, there is no step size, and columns may have any scale. Every answer counts, whenever it
    arrives and whichever other items were answered.

    With ``explore=doubt`` (see doubtsort), u_i is the confidence width of the score of item i relative to the mean
    of its list, and D_i is the doubt, by the discount of DCG. An item below position k is moved to position k with
    probability ``explore_rate u_i D_i / cost``, where the cost is computed from the scores. Every item is explored
    with probability at least ``1.2 rho/n``, where rho is the share of the variance of a list's scores that is
    expected to be error, and at least ``0.1 (1 + N/d)^(-1/3)/n`` after N answers in d columns. An answer has the
    weight of its inverse propensity, up to ``(N/d)^0.6``: few answers are fitted unweighted, many as if whole
    lists were seen. With ``explore=sampling`` the learner shows the k best items by weights drawn from the
    posterior, in the order of their scores. Sometimes a uniform item replaces one.

    The learner can use feedback on rankings that others chose: ``kernels.off_policy`` gives the token that
    ``update`` needs. With a token of zeros each answer counts once.

    The time of a round is proportional to the square of the number of columns. Columns that are mostly 0, such as
    one-hot columns, cost less.

    Parameters
    ----------
    explore
        "doubt", or "sampling" from the posterior, which is faster with many features.
    confidence
        Factor of the posterior standard deviation, for widths and for sampling.
    explore_rate
        Share of the possible loss from doubt that is spent on exploration.
    decay
        Factor of the past at each answer. A value below 1 follows change.
    expand
        Number of columns to add: all squares and products of features if they fit; otherwise random waves, after
        the squares if these fit.

    >>> from peekrank import Agent
    >>> agent = Agent(Ridge(), m=5, k=1, d=3, seed=0)
    >>> for t in range(200):
    ...     X = np.sin(np.arange(15.0) * (t + 1)).reshape(5, 3) * [1e-6, 1.0, 1e6]
    ...     decision = agent.rank(X)
    ...     agent.update(decision, [int(X[decision.ranking[0], 2] > 0)])  # only the last feature counts
    >>> X = [[0.0, 0.0, -1e6], [0.0, 0.0, 2e6], [0.0, 0.0, 1e6]]
    >>> Ridge().scores(agent.state, np.float32(X)).argsort()
    array([0, 2, 1])
    """

    explore: Explore = "doubt"
    confidence: float = 2.0
    explore_rate: float = 0.001
    decay: float = 1.0
    expand: int = 0
    name: ClassVar[str] = "ridge"
    contextual: ClassVar[bool] = True
    variable_length: ClassVar[bool] = True
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    horizon: ClassVar[None] = None
    measure: ClassVar[None] = None
    persistent: ClassVar[tuple[str, ...]] = (
        *("R", "ends", "sides", "w", "prior", "moments", "sums"), "feature_map.units",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_choice("explore", self.explore, Explore)
        check_positive("confidence", self.confidence)
        check_positive("explore_rate", self.explore_rate)
        if not 0.5 <= self.decay <= 1:
            raise ValueError(f"decay = {self.decay!r}: must be a number from 0.5 to 1, as in 0.999")
        check_int("expand", self.expand, 0, MAX_COLUMNS)

    @property
    def kernels(self) -> Kernels:
        """Return the kernels for this kind of exploration."""
        return _BY_DOUBT if self.explore == "doubt" else _BY_SAMPLING

    def init(self, shape: Shape) -> RidgeState:
        """Make the state before the first round."""
        m, columns, feature_map = shape.m, self._columns(shape.d), make_feature_map(shape.d, self.expand)
        sums = np.zeros(10)
        sums[REFRESH], sums[RESERVE] = 1, _added(shape.d, self.expand)
        scores, sampled, means, widths, doubts, costs, explore_probs = (np.zeros(m) for _ in range(7))
        return RidgeState(
            R=aligned(columns, columns),
            ends=row_ends(columns),
            sides=np.zeros((columns + 1, 2)),
            w=np.zeros(columns),
            prior=np.zeros(columns),
            moments=np.zeros((3, columns)),
            sums=sums,
            confidence=self.confidence,
            explore_rate=self.explore_rate,
            uniform=0.0 if self.expand else _UNIFORM,
            decay=self.decay,
            k=shape.k,
            d=shape.d,
            columns=shape.d + _added(shape.d, self.expand),
            weights=1 / np.log2(np.arange(2.0, m + 2)),
            feature_map=feature_map,
            x=np.zeros(columns),
            y=np.zeros(columns + 2),
            U=aligned(m, columns),
            centre=np.zeros(columns),
            panel=panel(m),
            scores=scores,
            sampled=sampled,
            order=np.zeros(m, np.int64),
            drawn=np.zeros(m, np.int64),
            means=means,
            widths=widths,
            doubts=doubts,
            costs=costs,
            explore_probs=explore_probs,
            space=doubt_space(m),
            sorting=sort_space(m),
        )

    def _columns(self, d: int) -> int:
        columns = d + _added(d, self.expand)
        if columns > MAX_COLUMNS:
            expanded = f" and expand = {self.expand}" if self.expand else ""
            raise ValueError(
                f"d = {d:,}{expanded}: {self.name} would need a matrix of {columns:,} rows and columns; "
                f"the limit is {MAX_COLUMNS:,}. Use rtopkf, whose time grows only linearly with d"
            )
        return whole_blocks(columns)

    def token_size(self, shape: Shape) -> int:
        """Return 1 + k: the explored mark (whether the best k are not shown) and the weights of k answers."""
        return 1 + shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1; for sampling, 2 plus an even number of uniforms for the columns and the intercept."""
        return 1 if self.explore == "doubt" else 2 + 2 * (self._columns(shape.d) // 2 + 1)

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the grades unchanged."""
        return np.asarray(relevance, dtype=np.float64)

    def weights(self, state: RidgeState) -> Features:
        """Return the weight of each column: the features, then those of the feature map."""
        columns = state.d + _added(state.d, self.expand)
        return np.clip(state.w[:columns], -_LARGEST, _LARGEST).astype(np.float32)

    def scores(self, state: RidgeState, X: Features) -> Floats:
        """Return the expected relevance of each item, up to a constant."""
        scores = np.empty(len(X))
        feature_map = state.feature_map._replace(
            z=np.empty(len(state.feature_map.z))
        )  # a copy, because another thread may be using its memory
        fill_scores(X, feature_map, state.w, np.empty(len(state.w)), scores)
        return scores

    def validate_state(self, state: RidgeState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        columns = len(state.w)
        check_numbers(state, *self.persistent)
        if not np.all((row_ends(columns) <= state.ends) & (state.ends <= columns) & (state.ends % BLOCK == 0)):
            raise ValueError("its ends must be multiples of a block, from the diagonal to the last column")
        if np.tril(state.R, -1).any():
            raise ValueError("its R must be upper triangular")
        own, moments = state.sides[-1:, ONE], state.moments[[COUNT, SQUARES]]
        if min(numbers.min() for numbers in (np.diag(state.R), own, state.prior, moments, state.sums)) < 0:
            raise ValueError("its sums of squares must not be below 0")
        if not state.sums[RENEW] < columns:
            raise ValueError("its sums must name a column whose prior is renewed next")

    def failure(self, state: RidgeState) -> str:
        """Return why the learner has stopped learning; empty while it is healthy."""
        return "" if np.isfinite(state.w).all() else "weights have overflowed: features are too large"

    def bound(self, shape: Shape, horizon: int) -> None:
        """Return None: there is no bound if relevance is not linear in the features."""


def _added(d: int, expand: int) -> int:
    """Return the number of columns that a feature map adds, at most that of all squares and products."""
    return min(expand, d * (d + 1) // 2)
