"""RTop-1F, ranking with top-1 feedback (CT15, Algorithm 1), and its extension to top-k feedback."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, sqrt
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_choice
from peekrank.kernels.sorting import SortSpace, move_to_front, sort_space
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
    warn_short,
)
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape

Order = Literal["leader", "fixed"]

# The clock: rounds left in this block, explorations left in it, blocks begun, explorations of it without an answer
_LEFT, _OPEN, _BLOCK, _UNSETTLED = 0, 1, 2, 3


class RTop1FState(NamedTuple):
    """Scores of the leader, answers of the running block, and the cells it still has to explore."""

    scores: Floats
    pending: Floats
    answers: FeedbackTotals
    clock: Ints
    open_explorations: Ints  # how often this block still has to show each cell of items on top
    owed_explorations: Ints  # how often more the next block has to, for answers that earlier blocks did not get
    k: int
    horizon: int
    blocks: int
    follow_leader: bool
    width: float
    perturbed: Floats
    rest: Ints
    sorting: SortSpace


@kernel
def _begin_block(s: RTop1FState) -> None:
    for i in range(len(s.scores)):
        s.scores[i] += s.pending[i]
        s.pending[i] = 0
    block, cells, owed = s.clock[_BLOCK], len(s.open_explorations), 0
    for cell in range(cells):
        owed += s.owed_explorations[cell]
        s.open_explorations[cell] = 1 + s.owed_explorations[cell]
        s.owed_explorations[cell] = 0
    # floor((b + 1) T / K) - floor(b T / K), without overflow
    b, rest = block % s.blocks, s.horizon % s.blocks
    length = s.horizon // s.blocks + (b + 1) * rest // s.blocks - b * rest // s.blocks
    s.clock[_LEFT] = max(length, cells) + owed
    s.clock[_OPEN] = cells + owed
    s.clock[_UNSETTLED] = cells + owed
    s.clock[_BLOCK] = block + 1


@kernel
def _take_exploration(s: RTop1FState, index: int) -> int:
    for cell in range(len(s.open_explorations)):
        index -= s.open_explorations[cell]
        if index < 0:
            s.open_explorations[cell] -= 1
            s.clock[_OPEN] -= 1
            return cell
    return -1


@kernel
def _rank(s: RTop1FState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if s.clock[_LEFT] == 0:
        _begin_block(s)
    slot = int(uniforms[0] * s.clock[_LEFT])
    explore = slot < s.clock[_OPEN]
    s.clock[_LEFT] -= 1
    if explore and not s.follow_leader:
        for p in range(len(ranking)):
            ranking[p] = p
    else:
        perturbed_leader(s.scores, s.width, uniforms[1:], s.perturbed, ranking, s.sorting)
    token[0] = explore
    token[2] = s.clock[_BLOCK]
    if explore:
        cell = _take_exploration(s, slot)
        move_to_front(ranking, cell * s.k, (cell + 1) * s.k, s.rest)
        token[1] = cell


@kernel
def _update(s: RTop1FState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    explored, cell, of_this_block = token[0] > 0, int(token[1]), token[2] == s.clock[_BLOCK]
    if not 0 <= cell < len(s.open_explorations):
        raise ValueError("the token of this decision is not from this agent")
    if add_feedback(s.answers, ranking, feedback):
        if explored:
            for p in range(min(s.k, len(s.scores) - cell * s.k)):
                s.pending[ranking[p]] += completed(s.answers, ranking[p], feedback[p])
            s.clock[_UNSETTLED] -= of_this_block
    elif not of_this_block:
        s.owed_explorations[cell] += explored
    elif s.clock[_UNSETTLED] > 0:
        s.clock[_LEFT] += 1
        s.clock[_OPEN] += explored
        s.open_explorations[cell] += explored


@dataclass(frozen=True)
class RTop1F:
    """Follow the perturbed leader in blocks, and show every item on top once in each block.

    The horizon T is cut into K blocks. In each block every item is shown on top once, at rounds drawn uniformly
    without replacement; the relevance revealed there is an unbiased estimate of the block's average (Lemma 8). All
    other rounds show the descending sort of the sum of the estimates of *earlier* blocks plus fresh noise, uniform
    in [0, 1/epsilon] for each item. With k > 1 the items are cut into ceil(m/k) cells of k neighbours in index
    order, and each cell is shown on top once in a block.

    Defaults are the theorem's: ``K = m^(1/3) (T / ceil(m/k))^(2/3)``, which is ``m^(-1/3) T^(2/3)`` for k = 1, and
    ``epsilon = 1 / (g sqrt(m K))`` with g the gain of the largest grade. Where the paper leaves a choice open:

    - K is rounded, and block b (from 0) ends after round ``floor((b + 1) T / K)``. Lengths differ by at most one,
      and there is no short last block. Rounds after T continue in blocks of the same length.
    - A block must hold q = ceil(m/k) explorations. If even K rounded down leaves no room for them (for k = 1 if
      T < m^2), blocks have at least 2q rounds, so that half of them can exploit. With T <= q every round explores.
    - "Any permutation with item j on top" is the current perturbed leader's with j moved to the front
      (``order=leader``), or the items in index order with j moved to the front (``order=fixed``): regret 1,046
      against 1,725 in CT15's simulation.
    - If k does not divide m, the last cell is smaller, and answers below it are not used. Grades enter as gains.
    - A round without answers does not count until its block has all its answers: its purpose, exploring or not,
      goes back into the block, which grows by one round. So each exploration is made at a round uniform among the
      first *answered* rounds of its block, as many as its length. The estimate stays unbiased for their average if
      whether people answer does not depend on what was shown. In a round with some answers, a missing one counts
      as the mean of all answers for its item so far, including those of exploiting rounds.
    - Answers that arrive after their block has ended enter the leader with the next block. An exploration that is
      reported as unanswered only then is repeated in the next block, which grows by one round for each.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    horizon
        Rounds T that K and epsilon are tuned for.
    max_grade
        Largest relevance grade.
    order
        Order of the items below the explored ones.
    blocks
        Number of blocks K; None for the theorem's.
    epsilon
        One over the width of the noise; None for the theorem's.

    >>> from peekrank.measures import DCG
    >>> RTop1F(DCG(), horizon=10_000).block_count(Shape(10, 0, 1), 10_000)
    215

    References
    ----------
    CT15 Algorithm 1 and Theorems 7, 9, 10. Its text says "blocks of size K"; K is their number.
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    horizon: int
    max_grade: int = 1
    order: Order = "leader"
    blocks: int | None = None
    epsilon: float | None = None
    name: ClassVar[str] = "rtop1f"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, counts_rounds=True)
    persistent: ClassVar[tuple[str, ...]] = (
        *("scores", "pending", "answers.sums", "answers.counts"),
        *("clock", "open_explorations", "owed_explorations"),
    )

    def __post_init__(self) -> None:
        check_parameters(horizon=self.horizon, max_grade=self.max_grade, blocks=self.blocks, epsilon=self.epsilon)
        check_choice("order", self.order, Order)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> RTop1FState:
        """Make the state before the first round."""
        m, K = shape.m, self.block_count(shape, self.horizon)
        if self.blocks is not None and self.blocks != K:
            raise ValueError(
                f"blocks = {self.blocks}: a block of {self.horizon} / {self.blocks} rounds is too short to "
                f"explore {m} items, {shape.k} at a time"
            )
        explorations = ceil(m / shape.k)
        if self.horizon <= explorations:
            what = f"all rounds go into the {explorations} explorations of the first block, so nothing is learned"
            warn_short(self.name, self.horizon, what)
        elif floor(self._ideal_blocks(shape, self.horizon)) > K:
            warn_short(
                self.name, self.horizon, f"the theorem's blocks would be shorter than their {explorations} "
                f"explorations; the learner uses blocks of {self.horizon // K} rounds"
            )  # fmt: skip
        return RTop1FState(
            scores=np.zeros(m),
            pending=np.zeros(m),
            answers=empty_totals(m),
            clock=np.zeros(4, dtype=np.int64),
            open_explorations=np.zeros(ceil(m / shape.k), dtype=np.int64),
            owed_explorations=np.zeros(ceil(m / shape.k), dtype=np.int64),
            k=shape.k,
            horizon=self.horizon,
            blocks=K,
            follow_leader=self.order == "leader",
            width=1 / self.noise(shape, self.horizon),
            perturbed=np.zeros(m),
            rest=np.zeros(m, dtype=np.int64),
            sorting=sort_space(m),
        )

    def validate_state(self, state: RTop1FState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "scores", "pending", "answers.sums")
        check_counts(state, "answers.counts", "clock", "open_explorations", "owed_explorations")
        left, explorations = state.clock[_LEFT], state.clock[_OPEN]
        if not state.open_explorations.sum() == explorations <= left:
            raise ValueError("its clock must leave a round for each of its open_explorations")

    def scores(self, state: RTop1FState, X: Features) -> Floats:
        """Return the sum of each item's answers, including those of the running block."""
        return np.asarray(state.scores + state.pending)

    def token_size(self, shape: Shape) -> int:
        """Return 3: the explored mark, the explored cell, and the block."""
        return 3

    def n_uniforms(self, shape: Shape) -> int:
        """Return m + 1: one uniform for the exploration and one for the noise of each item."""
        return shape.m + 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the measure's gain."""
        return self.measure.gain(relevance)

    def block_count(self, shape: Shape, horizon: int) -> int:
        """Return the number of blocks K."""
        explorations, ideal = ceil(shape.m / shape.k), self._ideal_blocks(shape, horizon)
        for K in (max(1, round(ideal)), max(1, floor(ideal))):
            if K * explorations <= horizon:
                return K
        return max(1, horizon // (2 * explorations))

    def _ideal_blocks(self, shape: Shape, horizon: int) -> float:
        return self.blocks or shape.m ** (1 / 3) * (horizon / ceil(shape.m / shape.k)) ** (2 / 3)

    def moves(self, shape: Shape) -> int:
        """Return the number of rounds of a block that explore."""
        return ceil(shape.m / shape.k)

    def noise(self, shape: Shape, horizon: int) -> float:
        """Return epsilon, one over the width of the noise."""
        largest = largest_gain(self.measure, self.max_grade)
        return self.epsilon or 1 / (largest * sqrt(shape.m * self.block_count(shape, horizon)))

    def bound(self, shape: Shape, horizon: int) -> float:
        """Return ``R q K + (T/K) (epsilon R A K + D / epsilon) + R sum_b |length_b - T/K|``, q = ceil(m/k).

        The first two terms are CT15's (proof of Theorem 7) with explicit constants; the last one covers rounding.
        The bound holds if every exploration is answered.
        """
        K, epsilon = self.block_count(shape, horizon), self.noise(shape, horizon)
        c = constants(self.measure, shape.m, self.max_grade)
        exploring = c.R * ceil(shape.m / shape.k) * K
        exploiting = horizon / K * (epsilon * c.R * c.A * K + c.D / epsilon)
        longer = horizon % K
        return exploring + exploiting + c.R * 2 * longer * (K - longer) / K
