"""Set FTRL: precision at n with top-k feedback, at the rate sqrt(T) for every k."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_int
from peekrank.kernels.hypersimplex import systematic_sample, tsallis_point
from peekrank.learners._shared import (
    FeedbackTotals,
    add_feedback,
    check_counts,
    check_numbers,
    completed,
    empty_totals,
)
from peekrank.measures import Precision
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, Shape


class SetFTRLState(NamedTuple):
    """Estimated losses, the number of rounds they come from, and working memory."""

    losses: Floats
    answers: FeedbackTotals
    rounds: Ints
    multiplier: Floats  # of the last round; the next search starts from it
    n: int  # size of the set, at most m
    inside: float  # probability of an item in the set to be seen
    outside: float  # probability of another item to be seen
    rate: float  # eta, or eta sqrt(t) in round t without a horizon
    anytime: bool
    x: Floats
    space: Floats


@kernel
def _rank(s: SetFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    rate = s.rate / np.sqrt(s.rounds[0] + 1) if s.anytime else s.rate
    s.multiplier[0] = tsallis_point(s.losses, rate, s.n, s.multiplier[0], s.x, s.space)
    systematic_sample(s.x, s.n, uniforms[0], ranking)
    for p in range(len(ranking) - 1):
        end = s.n if p < s.n else len(ranking)
        j = p + int(uniforms[p + 1] * (end - p))
        ranking[p], ranking[j] = ranking[j], ranking[p]
    token[0] = 0
    for p in range(len(token) - 1):
        x = s.x[ranking[p]]
        token[p + 1] = x * s.inside + (1 - x) * s.outside


@kernel
def _update(s: SetFTRLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    for p in range(len(feedback)):
        if not 0 < token[p + 1] <= 1:
            raise ValueError("the token of this decision is not from this agent")
    if add_feedback(s.answers, ranking, feedback):
        for p in range(len(feedback)):
            s.losses[ranking[p]] += (1 - completed(s.answers, ranking[p], feedback[p])) / token[p + 1]
        s.rounds[0] += 1


@kernel
def _propensities(s: SetFTRLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    for i in range(len(out)):
        out[i] = s.x[i] * s.inside + (1 - s.x[i]) * s.outside


@dataclass(frozen=True)
class SetFTRL:
    """Follow the regularised leader over sets of n items, for P@n.

    Each round draws a set of n items that holds item i with probability x_i, and shows it in random order above
    the others, also in random order. x minimises ``<x, L> - (2 / eta) sum_i sqrt(x_i)`` over all x in [0, 1]^m
    with sum n, where L is the sum of ``1[not relevant] / P(seen)`` over the items seen so far, an unbiased
    estimate of all losses. Every round explores and exploits at once; none is marked as explored.

    With V = n sqrt(m n) / k for k <= n, and less for more answers (docs/theory/ftrl.md), the expected
    regret is at most ``(2 - sqrt(n/m)) sqrt(2 sqrt(m n) V T)``, for k <= n less than
    ``2 sqrt(2) n sqrt(m T / k)``. eta is ``sqrt(2 sqrt(m n) / (V T))``, for k <= n ``sqrt(2 k / (n T))``.
    Without a horizon, eta is ``sqrt(sqrt(m n) / (V t))`` after t - 1 answered rounds, and the bound holds for
    every T at once and is sqrt(2) times as large.

    - In a round with some answers, a missing one counts as the mean of all answers for its item so far. A round
      without answers is skipped. Adding up only the answers would count a missing one as relevant.
    - With n >= m all rankings have the same value. The learner then shows any order, and the bound is 0.
    - Relevance is 1[grade > 0], as for P@n. The learner accepts all grades.

    Parameters
    ----------
    measure
        P@n.
    horizon
        Rounds T that eta is tuned for; None if not known.

    >>> round(SetFTRL(Precision(2, mean=False), horizon=10_000).bound(Shape(10, 0, 1), 10_000), 1)
    1388.9
    """

    measure: Precision = field(metadata={"read": measure_named})
    horizon: int | None = None
    name: ClassVar[str] = "setftrl"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    max_grade: ClassVar[int] = 255
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities, counts_rounds=True)
    persistent: ClassVar[tuple[str, ...]] = ("losses", "answers.sums", "answers.counts", "rounds", "multiplier")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_int("horizon", self.horizon, 1, 10**12)
        given: object = self.measure
        if not isinstance(given, Precision):
            raise ValueError(
                f"measure = {self.measure}: setftrl learns which n items to show first, and nothing about their "
                "order, so it needs measure=p@1+sum, measure=p@2+sum and so on; blockftrl learns other measures"
            )

    def init(self, shape: Shape) -> SetFTRLState:
        """Make the state before the first round."""
        m, n, rate = shape.m, self.set_size(shape), self.rate(shape, self.horizon or 1)
        return SetFTRLState(
            losses=np.zeros(m),
            answers=empty_totals(m),
            rounds=np.zeros(1, dtype=np.int64),
            multiplier=np.full(1, -sqrt(m / n) / rate),
            n=n,
            inside=min(1.0, shape.k / n),
            outside=_outside(shape, n),
            rate=rate,
            anytime=self.horizon is None,
            x=np.zeros(m),
            space=np.zeros(m),
        )

    def validate_state(self, state: SetFTRLState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "losses", "answers.sums", "multiplier")
        check_counts(state, "answers.counts", "rounds")

    def scores(self, state: SetFTRLState, X: Features) -> Floats:
        """Return the estimated share of rounds in which each item is relevant."""
        return np.asarray(1 - state.losses / max(1, state.rounds[0]))

    def token_size(self, shape: Shape) -> int:
        """Return 1 + k: the explored mark, always 0, and the propensities of the first k items."""
        return 1 + shape.k

    def n_uniforms(self, shape: Shape) -> int:
        """Return m: one uniform for the set and one for each swap of the shuffles."""
        return shape.m

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return 1[R > 0], for both forms of the measure."""
        return self.measure.gain(relevance)

    def set_size(self, shape: Shape) -> int:
        """Return the number of items that count: n, or all m."""
        return min(self.measure.cutoff, shape.m)

    def rate(self, shape: Shape, horizon: int) -> float:
        """Return eta; without a horizon, that of round `horizon`."""
        twice = 1 if self.horizon is None else 2
        return sqrt(twice * sqrt(shape.m * self.set_size(shape)) / (self.spread(shape) * horizon))

    def spread(self, shape: Shape) -> float:
        """Return V, which bounds sum_i x_i^(3/2) / P(i is seen) for all x."""
        n = self.set_size(shape)
        largest = sqrt(shape.m * n)  # of sum_i sqrt(x_i)
        if shape.k <= n:
            return n / shape.k * largest
        q = _outside(shape, n)
        return min(largest, n / (2 * sqrt(q * (1 - q))) if q < 1 / 2 else n)

    def bound(self, shape: Shape, horizon: int) -> float:
        """Return ``2 (sqrt(m n) - n) / eta + V (sum of eta)``, over n for the mean; 0 if n >= m."""
        m, n = shape.m, self.measure.cutoff
        if n >= m:
            return 0.0
        factor = 4 if self.horizon is None else 2
        lost = (2 - sqrt(n / m)) * sqrt(factor * sqrt(m * n) * self.spread(shape) * horizon)
        return lost / n if self.measure.mean else lost


def _outside(shape: Shape, n: int) -> float:
    """Return the propensity of an item outside the set: max(0, k - n) of the m - n others are seen."""
    return (shape.k - n) / (shape.m - n) if shape.k > n else 0.0
