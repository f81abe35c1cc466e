"""Follow the perturbed leader with full information (Kalai & Vempala 2005)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank.kernels.sorting import SortSpace, sort_space
from peekrank.learners._shared import (
    FeedbackTotals,
    add_feedback,
    check_counts,
    check_numbers,
    check_parameters,
    completed,
    constants,
    empty_totals,
    largest_gain,
    perturbed_leader,
)
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape


class FTPLState(NamedTuple):
    """Accumulated gains, the width of the noise, and working memory."""

    scores: Floats
    answers: FeedbackTotals
    width: float
    perturbed: Floats
    sorting: SortSpace


@kernel
def _rank(state: FTPLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    perturbed_leader(state.scores, state.width, uniforms, state.perturbed, ranking, state.sorting)
    token[0] = 0


@kernel
def _update(state: FTPLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    if add_feedback(state.answers, ranking, feedback):
        for p in range(len(feedback)):
            state.scores[ranking[p]] += completed(state.answers, ranking[p], feedback[p])


@kernel
def _propensities(state: FTPLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    out[:] = 1  # every item is seen


@dataclass(frozen=True)
class FTPL:
    """Play the descending sort of all gains so far plus fresh noise, uniform in [0, 1/epsilon] for each item.

    The learner sees the relevance of every item after each round, for any k. In a round with some answers, a
    missing one counts as the mean of all answers for its item so far; counted as zero, it would push the item
    down.

    The expected regret is at most ``epsilon R A T + D / epsilon``. The default epsilon is CT15's,
    ``1 / (g sqrt(m T))`` with g the gain of the largest grade; it minimises the bound, which becomes
    ``2 g D sqrt(m T)``.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    horizon
        Rounds T that epsilon is tuned for.
    max_grade
        Largest relevance grade.
    epsilon
        One over the width of the noise; None for the default.

    >>> from peekrank.measures import DCG
    >>> round(FTPL(DCG(), horizon=10_000).bound(Shape(10, 0, 10), 10_000), 1)
    855.9

    References
    ----------
    Kalai & Vempala (2005), Theorem 1.1; CT15 appendix 13.2.
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    horizon: int
    max_grade: int = 1
    epsilon: float | None = None
    name: ClassVar[str] = "ftpl"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = True
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities)
    persistent: ClassVar[tuple[str, ...]] = ("scores", "answers.sums", "answers.counts")

    def __post_init__(self) -> None:
        check_parameters(horizon=self.horizon, max_grade=self.max_grade, epsilon=self.epsilon)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> FTPLState:
        """Make the state before the first round."""
        m = shape.m
        return FTPLState(
            np.zeros(m), empty_totals(m), 1 / self._epsilon(m, self.horizon), np.zeros(m), sort_space(m)
        )

    def validate_state(self, state: FTPLState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "scores", "answers.sums")
        check_counts(state, "answers.counts")

    def scores(self, state: FTPLState, X: Features) -> Floats:
        """Return the sum of the gains of each item."""
        return state.scores

    def token_size(self, shape: Shape) -> int:
        """Return 1, for the explored mark, which is always 0."""
        return 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return m: one uniform for the noise of each item."""
        return shape.m

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(relevance)

    def bound(self, shape: Shape, horizon: int) -> float:
        """Return ``epsilon R A T + D / epsilon``."""
        c = constants(self.measure, shape.m, self.max_grade)
        epsilon = self._epsilon(shape.m, horizon)
        return epsilon * c.R * c.A * horizon + c.D / epsilon

    def _epsilon(self, m: int, horizon: int) -> float:
        largest = largest_gain(self.measure, self.max_grade)
        return self.epsilon or 1 / (largest * sqrt(m * horizon))
