"""Permutahedron FTRL: entropic follow-the-regularised-leader, if every position with a weight is seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.kernels.permutahedron import Space, draw, leader, space
from peekrank.learners._shared import (
    FeedbackTotals,
    add_feedback,
    check_counts,
    check_numbers,
    check_parameters,
    completed,
    discount_of,
    empty_totals,
    entropy,
    largest_gain,
    position_weights,
)
from peekrank.measures import Precision, learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape


class PermFTRLState(NamedTuple):
    """Negated cost estimates, the number of rounds they come from, and memory for leader and draw."""

    scores: Floats
    answers: FeedbackTotals
    rounds: Ints
    weights: Floats
    k: int
    rate: float
    anytime: bool
    space: Space


@kernel
def _rank(s: PermFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    rate = s.rate / sqrt(s.rounds[0] + 1) if s.anytime else s.rate
    blocks = leader(s.scores, rate, s.weights, s.space)
    draw(s.weights, s.k, blocks, uniforms, ranking, s.space)
    token[0] = 0
    for p in range(len(ranking)):
        position = s.space.position[p]
        if position < s.k:
            token[1 + position] = s.space.seen[p]


@kernel
def _update(s: PermFTRLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if not 0 < token[1 + p] <= 1:
            raise ValueError("the token of this decision is not from this agent")
    if add_feedback(s.answers, ranking, feedback):
        s.rounds[0] += 1
        for p in range(len(feedback)):
            s.scores[ranking[p]] -= completed(s.answers, ranking[p], feedback[p]) / token[1 + p]


@kernel
def _propensities(s: PermFTRLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for p in range(len(out)):
        out[s.space.order[p]] = s.space.seen[p]


@dataclass(frozen=True)
class PermFTRL:
    """Follow the entropy-regularised leader over the expected weights that items can have in random rankings.

    The cost of an item is the largest gain g minus its gain. Its weight is that of its position minus that of the
    last position. Every position with a weight must be seen: k >= m - 1 for SumLoss, PairwiseLoss and DCG, k = n
    for DCG@n and P@n. Costs of seen items are divided by their propensities, so that the estimates of all items
    are unbiased. In each round the learner computes the expected weights that minimise the estimated total cost
    plus the entropy term, and draws a ranking with these expected weights.

    The expected regret after T rounds is at most ``sqrt(2 r V T)``, and ``2 sqrt(r V T)`` without a
    horizon. With w the weights and W their sum, ``r = sum_p w(p) ln(m w(p) / W)``, ``V = g^2 (W + (m - k) w(1))``
    for k < m and ``V = g^2 W / 4`` for k = m.

    In a round with some answers, a missing one counts as the mean of all answers for its item so far. A round
    without answers is skipped.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    horizon
        Rounds T that the learning rate ``sqrt(2 r / (V T))`` is tuned for; None for ``sqrt(r / (V t))`` in round
        t.
    max_grade
        Largest relevance grade.

    >>> from peekrank.measures import DCG
    >>> [round(PermFTRL(DCG(), horizon=10_000).bound(Shape(10, 0, k), 10_000)) for k in (9, 10)]
    [224, 94]
    >>> PermFTRL(DCG(), horizon=10_000).init(Shape(10, 0, 5))
    Traceback (most recent call last):
    ...
    ValueError: k = 5: permftrl needs ... dcg, k >= 9 for m = 10; with a smaller k use blockftrl
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    horizon: int | None = None
    max_grade: int = 1
    name: ClassVar[str] = "permftrl"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities)
    persistent: ClassVar[tuple[str, ...]] = ("scores", "answers.sums", "answers.counts", "rounds")

    def __post_init__(self) -> None:
        check_parameters(horizon=1 if self.horizon is None else self.horizon, max_grade=self.max_grade)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> PermFTRLState:
        """Make the state before the first round."""
        weights = position_weights(self.measure, shape.m)
        needed = np.count_nonzero(weights)
        if shape.k < needed:
            instead = "setftrl" if isinstance(self.measure, Precision) else "blockftrl"
            raise ValueError(
                f"k = {shape.k}: permftrl needs to see every position with a weight under {self.measure}, "
                f"k >= {needed} for m = {shape.m}; with a smaller k use {instead}"
            )
        r, V = self._constants(shape)
        rate = 0.0 if r == 0 else sqrt(r / V) if self.horizon is None else sqrt(2 * r / (V * self.horizon))
        return PermFTRLState(
            scores=np.zeros(shape.m),
            answers=empty_totals(shape.m),
            rounds=np.zeros(1, dtype=np.int64),
            weights=weights,
            k=shape.k,
            rate=rate,
            anytime=self.horizon is None,
            space=space(shape.m),
        )

    def validate_state(self, state: PermFTRLState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "scores", "answers.sums")
        check_counts(state, "answers.counts", "rounds")

    def scores(self, state: PermFTRLState, X: Features) -> Floats:
        """Return the estimated gain per round of each item minus the largest gain."""
        return np.asarray(state.scores / max(1, state.rounds[0]))

    def token_size(self, shape: Shape) -> int:
        """Return 1 + k: the explored mark, always 0, and the propensities of the first k items."""
        return 1 + shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """Return m: one uniform for each item."""
        return shape.m

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the cost: the largest gain minus the measure's gain."""
        return largest_gain(self.measure, self.max_grade) - self.measure.gain(relevance)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return ``sqrt(2 r V T)``, or ``2 sqrt(r V T)`` without a horizon; None if k is too small."""
        if shape.k < _counted(self.measure, shape.m):
            return None
        r, V = self._constants(shape)
        return sqrt((4 if self.horizon is None else 2) * r * V * horizon)

    def _constants(self, shape: Shape) -> tuple[float, float]:
        """Return the range r of the entropy, and the bound V on the variance of a round's estimates."""
        first, W, r = entropy(self.measure, shape.m)
        largest = largest_gain(self.measure, self.max_grade)
        return r, largest**2 * (W / 4 if shape.k == shape.m else W + (shape.m - shape.k) * first)


@lru_cache(maxsize=64)
def _counted(measure: LinearMeasure, m: int) -> int:
    """Return the number of positions with a weight."""
    discount = discount_of(measure, m)
    return int(np.count_nonzero(discount != discount[-1]))
