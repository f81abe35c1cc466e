"""Ridge: Bayesian linear regression of relevance on features; explores where a list is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_choice, check_int, check_positive
from peekrank.kernels.exploration import doubt_space
from peekrank.kernels.sorting import sort_space
from peekrank.kernels.triangular import BLOCK, aligned, panel, row_ends, whole_blocks
from peekrank.learners._shared import fault_in_numbers, off_policy_unchanged
from peekrank.learners.ridge.exploration import (
    ask_in_doubt,
    exploit,
    off_policy,
    propensities,
    rank_by_doubt,
    rank_by_sampling,
)
from peekrank.learners.ridge.feature_map import make_feature_map
from peekrank.learners.ridge.regression import fill_scores, update
from peekrank.learners.ridge.state import COUNT, ONE, REFRESH, RENEW, RESERVE, SQUARES, RidgeState
from peekrank.types import Features, Floats, Kernels, Shape

Explore = Literal["doubt", "sampling"]
_UNIFORM = 1.2  # questions about anything, in the share of noise in the scores of a list
MOST_COLUMNS = 2000  # of the factor, which is a matrix of so many rows and columns

# rank looks at columns
_BY_DOUBT = Kernels(
    rank_by_doubt,
    update,
    propensities,
    counts_rounds=True,
    off_policy=off_policy,
    exploit=exploit,
    explore=ask_in_doubt,
)
_BY_SAMPLING = Kernels(rank_by_sampling, update, counts_rounds=True, off_policy=off_policy_unchanged)


@dataclass(frozen=True)
class Ridge:
    """Order items by a Bayesian linear regression of relevance on features; ask where the order is in doubt.

    Relevance is taken to be ``w . x + c`` plus noise of unknown variance, where c may be anything, and the weight
    of a column of variance v has the prior variance noise/v. The weights are solved for after each round: few
    rounds suffice, there is no step size, and columns may have any scale. Answers count whenever they come,
    whatever was answered beside them.

    By doubt (see doubtsort): u_i is how far the score of item i may be off against the mean of its list, D_i what
    this puts at stake in the list, by the discount of DCG. An item below position k is moved to position k with
    probability ``share u_i D_i / price``, where the price is what that costs by the scores. Each may be asked
    about, with probability ``1.2 rho/n`` at least, where rho is the share of the variance of a list's scores that
    is expected to be error, and ``0.1 (1 + N/d)^(-1/3)/n`` after N answers in d columns. An answer is weighed by
    the inverse of its item's probability to be seen, up to ``(N/d)^0.6``: few answers are fitted as they are, many
    as if whole lists were seen. By sampling: the k best by weights drawn from the posterior are shown, in the
    order of their scores; now and then a uniform item replaces one.

    Answers to what somebody else showed count as well: ``kernels.off_policy`` gives the token that ``update`` needs;
    with a token of zeros each answer counts once.

    A round takes time in proportion to the square of the number of columns; columns that are mostly 0, such as
    one-hot ones, cost less.

    Parameters
    ----------
    explore
        By doubt, or by posterior sampling, which takes less time where features are many.
    confidence
        Factor of the posterior's deviation; of what is drawn, too.
    explore_rate
        Share of what doubt may cost that is spent on questions.
    decay
        What was learned is multiplied by this at each answer: less than 1 to follow change.
    expand
        Columns to add: all squares and products of features if there is room for them; if not, random waves, after
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
    persistent: ClassVar[tuple[str, ...]] = ("R", "ends", "sides", "w", "prior", "moments", "sums", "feature_map.units")

    def __post_init__(self) -> None:
        check_choice("explore", self.explore, Explore)
        check_positive("confidence", self.confidence)
        check_positive("explore_rate", self.explore_rate)
        if not 0.5 <= self.decay <= 1:
            raise ValueError(f"forget = {self.decay!r}: must be a number from 0.5 to 1, as in 0.999")
        check_int("expand", self.expand, 0, MOST_COLUMNS)

    @property
    def kernels(self) -> Kernels:
        """Those that explore in this way."""
        return _BY_DOUBT if self.explore == "doubt" else _BY_SAMPLING

    def init(self, shape: Shape) -> RidgeState:
        """State before the first round."""
        m, columns, feature_map = shape.m, self._columns(shape.d), make_feature_map(shape.d, self.expand)
        sums = np.zeros(10)
        sums[REFRESH], sums[RESERVE] = 1, _added(shape.d, self.expand)
        scores, sampled, means, widths, doubts, prices, questions = (np.zeros(m) for _ in range(7))
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
            prices=prices,
            questions=questions,
            space=doubt_space(m),
            sorting=sort_space(m),
        )

    def _columns(self, d: int) -> int:
        columns = d + _added(d, self.expand)
        if columns > MOST_COLUMNS:
            expanded = f" and expand = {self.expand}" if self.expand else ""
            raise ValueError(
                f"d = {d:,}{expanded}: {self.name} keeps a matrix of {columns:,} rows and columns, and its time "
                f"grows with the square; it takes {MOST_COLUMNS:,} at most. Use rtopkf, whose time grows with d"
            )
        return whole_blocks(columns)

    def token_size(self, shape: Shape) -> int:
        """Whether the first k are others than the best ones by score, and how often each of k answers counts."""
        return 1 + shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """One for a question; or two for a forced one, and one for each column and for the constant, made even."""
        return 1 if self.explore == "doubt" else 2 + 2 * (self._columns(shape.d) // 2 + 1)

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """The grades as they are."""
        return np.asarray(relevance, dtype=np.float64)

    def weights(self, state: RidgeState) -> Features:
        """The weight of each column: the features, then what the feature map adds."""
        return state.w[: state.d + _added(state.d, self.expand)].astype(np.float32)

    def scores(self, state: RidgeState, X: Features) -> Floats:
        """What is expected of each item, but for a constant."""
        scores = np.empty(len(X))
        feature_map = state.feature_map._replace(
            z=np.empty(len(state.feature_map.z))
        )  # whose memory may be another's at work
        fill_scores(X, feature_map, state.w, np.empty(len(state.w)), scores)
        return scores

    def fault(self, state: RidgeState) -> str:
        """What is wrong with a memory that was read."""
        columns = len(state.w)
        if fault := fault_in_numbers(state, *self.persistent):
            return fault
        if not np.all((row_ends(columns) <= state.ends) & (state.ends <= columns) & (state.ends % BLOCK == 0)):
            return "its rows do not end where they can"
        if np.tril(state.R, -1).any():
            return "there is something below the diagonal of its triangle"
        own, moments = state.sides[-1:, ONE], state.moments[[COUNT, SQUARES]]
        if min(numbers.min() for numbers in (np.diag(state.R), own, state.prior, moments, state.sums)) < 0:
            return "its sums of squares are below 0"
        return "" if state.sums[RENEW] < columns else "there is no column whose prior it could renew"

    def failure(self, state: RidgeState) -> str:
        """Why nothing is learned any more; empty if nothing is wrong."""
        return "" if np.isfinite(state.w).all() else "weights have overflowed: features are too large"

    def bound(self, shape: Shape, horizon: int) -> None:
        """None: nothing is promised if relevance is not linear in the features."""


def _added(d: int, expand: int) -> int:
    """How many columns a feature map adds: not more than there are squares and products."""
    return min(expand, d * (d + 1) // 2)
