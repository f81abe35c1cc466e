"""Blocked permutahedron FTRL: explores every item once in each block, for any k."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor, inf, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_unit
from peekrank.kernels.permutahedron import (
    Pairs,
    Space,
    draw,
    fill_pairs,
    leader,
    pairs,
    propensities_with_exploration,
    space,
)
from peekrank.learners._shared import (
    check_counts,
    check_numbers,
    check_parameters,
    entropy,
    exploration_cost,
    largest_gain,
    position_weights,
    warn_short,
)
from peekrank.measures import learnable
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, LinearMeasure, Shape

# The clock: rounds left in this block, explorations left in it, its length, blocks begun, pools of the leader, and
# the remainder from cutting the horizon into whole rounds
_LEFT, _OPEN, _LENGTH, _BLOCK, _POOLS, _REST = range(6)
_CLOCK = 6
# The memory: discounted sums of the lengths and squared lengths of blocks
_ROUNDS, _SQUARES = 0, 1
# The token: the explored mark, the block, and the explored item or -1
_OF_BLOCK, _EXPLORED = 1, 2


class BlockFTRLState(NamedTuple):
    """Negated cost estimates, totals of the running block, and the items it still has to explore."""

    scores: Floats
    sums: Floats
    counts: Ints
    to_explore: Ints  # items; the clock says how many of the first ones are still to be explored
    clock: Ints
    memory: Floats
    weights: Floats
    k: int
    horizon: int
    blocks: int  # number of blocks in the horizon; 0 without a horizon
    growth: float  # length of the first block without a horizon
    rate: float  # eta, or eta times the root of the squared lengths without a horizon
    decay: float
    space: Space
    explored: Ints  # whether the last round explored
    open: Floats  # for each item, the probability that that round explored it
    pairs: Pairs


@kernel
def _learn_from_block(s: BlockFTRLState) -> None:
    seen, total = 0, 0.0
    for i in range(len(s.scores)):
        if s.counts[i] > 0:
            seen += 1
            total += s.sums[i] / s.counts[i]
    if seen == 0:
        return
    for i in range(len(s.scores)):
        if s.counts[i] > 0:
            cost = s.sums[i] / s.counts[i]
        elif s.memory[_ROUNDS] > 0:
            cost = -s.scores[i] / s.memory[_ROUNDS]
        else:
            cost = total / seen
        s.scores[i] = s.decay * s.scores[i] - s.clock[_LENGTH] * cost
        s.sums[i] = 0
        s.counts[i] = 0
    s.memory[_ROUNDS] = s.decay * s.memory[_ROUNDS] + s.clock[_LENGTH]
    s.memory[_SQUARES] = s.decay**2 * s.memory[_SQUARES] + float(s.clock[_LENGTH]) ** 2


@kernel
def _begin_block(s: BlockFTRLState) -> None:
    _learn_from_block(s)
    m = len(s.scores)
    s.clock[_BLOCK] += 1
    if s.blocks > 0:
        length = s.horizon // s.blocks
        s.clock[_REST] += s.horizon % s.blocks
        if s.clock[_REST] >= s.blocks:
            s.clock[_REST] -= s.blocks
            length += 1
    else:
        length = ceil(s.growth * sqrt(s.clock[_BLOCK]))
    length = max(length, m)
    squares = s.decay**2 * s.memory[_SQUARES] + float(length) ** 2
    rate = s.rate if s.blocks > 0 else s.rate / sqrt(squares)
    s.clock[_POOLS] = leader(s.scores, rate, s.weights, s.space)
    s.clock[_LEFT] = length
    s.clock[_LENGTH] = length
    s.clock[_OPEN] = m
    for i in range(m):
        s.to_explore[i] = i


@kernel
def _rank(s: BlockFTRLState, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    if s.clock[_LEFT] == 0:
        _begin_block(s)
    slot = int(uniforms[0] * s.clock[_LEFT])
    s.clock[_LEFT] -= 1
    draw(s.weights, s.k, s.clock[_POOLS], uniforms[1:], ranking, s.space)
    token[0] = 0
    token[_OF_BLOCK] = s.clock[_BLOCK]
    token[_EXPLORED] = -1
    s.explored[0] = slot < s.clock[_OPEN]
    if s.explored[0]:
        item, last = s.to_explore[slot], s.clock[_OPEN] - 1
        s.clock[_OPEN] = last
        s.to_explore[slot], s.to_explore[last] = s.to_explore[last], item
        token[_EXPLORED] = item
        position = 0
        while ranking[position] != item:
            position += 1
        if position >= s.k:
            for p in range(position, s.k - 1, -1):
                ranking[p] = ranking[p - 1]
            ranking[s.k - 1] = item
            token[0] = 1


@kernel
def _put_back(s: BlockFTRLState, explored: int) -> None:
    """Replace an unanswered round by another round of the block, and repeat its exploration if time permits.

    Without this limit, an item that never gets an answer could take up the rest of a block.
    """
    s.clock[_LEFT] += 1
    if 2 * (s.clock[_OPEN] + 1) <= s.clock[_LEFT]:
        for q in range(s.clock[_OPEN], len(s.to_explore)):
            if s.to_explore[q] == explored:
                s.to_explore[q], s.to_explore[s.clock[_OPEN]] = s.to_explore[s.clock[_OPEN]], explored
                s.clock[_OPEN] += 1
                return


@kernel
def _update(s: BlockFTRLState, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    missing = True
    for p in range(len(feedback)):
        if not np.isnan(feedback[p]):
            s.sums[ranking[p]] += feedback[p]
            s.counts[ranking[p]] += 1
            missing = False
    if missing and token[_OF_BLOCK] == s.clock[_BLOCK] and s.clock[_LEFT] < s.clock[_LENGTH]:
        _put_back(s, int(token[_EXPLORED]))


@kernel
def _propensities(s: BlockFTRLState, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    s.open[:] = 0
    for q in range(s.clock[_OPEN] + s.explored[0]):
        s.open[s.to_explore[q]] = 1 / (s.clock[_LEFT] + 1)
    fill_pairs(len(out), s.k, s.k - 1, s.k, s.pairs)
    propensities_with_exploration(s.open, s.space.seen, s.clock[_POOLS], s.space, s.pairs, out)


@dataclass(frozen=True)
class BlockFTRL:
    """Follow the entropy-regularised leader in blocks, and show every item once per block.

    Within a block all rankings are drawn with the same expected weights of the items: those that minimise the
    estimated total cost plus the entropy term, as in permftrl. In m rounds of the block, drawn without
    replacement, one item each is moved up to position k if it is below. An item's mean cost over the rounds of the
    block in which it was seen, times the length of the block, is an unbiased estimate of its cost in the block.

    With w the positions' weights, W their sum, ``r = sum_p w(p) ln(m w(p) / W)``, g the largest gain, ``E = g sum
    of w(k) - w(p) over p > k`` and ``A = g sqrt(r W / 2)``, the expected regret of K blocks of T / K rounds is at
    most ``E K + A T / sqrt(K)``, which is ``3 E^(1/3) (A T / 2)^(2/3)`` for ``K = (A T / (2 E))^(2/3)``.
    Without a horizon block b has ``2 (E / A) sqrt(b)`` rounds, and the bound is ``(3/2)^(2/3)`` times as large.

    - A block has at least m rounds. Lengths are rounded; docs/theory/ftrl.md has the full bound.
    - An answer counts in the block that is running when it arrives. An item without answers in a block is assumed
      to cost its mean so far or, in the first block, the mean of the others. A block without answers changes
      nothing.
    - Unanswered rounds do not count: if one is reported while its block is running, the block gets one more round.
      Its exploration is repeated as long as explorations are at most half of the rounds left.

    Parameters
    ----------
    measure
        The measure to optimise; must be separable.
    horizon
        Rounds T that blocks and learning rate are tuned for; None if not known.
    max_grade
        Largest relevance grade.
    decay
        Factor of the past at the end of each block. A value below 1 follows change, and has no bound.

    >>> from peekrank.measures import DCG
    >>> round(BlockFTRL(DCG(), horizon=10_000).bound(Shape(10, 0, 1), 10_000))
    1480
    """

    measure: LinearMeasure = field(metadata={"read": measure_named})
    horizon: int | None = None
    max_grade: int = 1
    decay: float = 1.0
    name: ClassVar[str] = "blockftrl"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities, counts_rounds=True)
    persistent: ClassVar[tuple[str, ...]] = (
        *("scores", "sums", "counts", "to_explore", "clock", "memory"),
        *("space.order", "space.x", "space.first"),  # the leader, fixed for a whole block
    )

    def __post_init__(self) -> None:
        check_parameters(horizon=1 if self.horizon is None else self.horizon, max_grade=self.max_grade)
        check_unit("decay", self.decay)
        learnable(self.measure, self.max_grade)

    def init(self, shape: Shape) -> BlockFTRLState:
        """Make the state before the first round."""
        m, c = shape.m, self._constants(shape)
        blocks = 0 if self.horizon is None else self.block_count(shape, self.horizon)
        if self.horizon is None:
            rate = sqrt(2) * c.r / c.A if c.A else 0.0
        else:
            remembered = blocks if self.decay == 1 else _sum_of_powers(self.decay**2, blocks)
            squares = _equal_squares(max(self.horizon, m), blocks) * remembered / blocks
            rate = 2 * c.r / (c.A * sqrt(squares)) if c.A else 0.0
            if self.horizon < m:
                what = f"it ends before the first block of {m} rounds, one for each item, so nothing is learned"
                warn_short(self.name, self.horizon, what)
            elif c.E and blocks < floor(c.best_blocks(self.horizon)):
                warn_short(
                    self.name, self.horizon,
                    f"blocks of the best length would be shorter than their {m} explorations; "
                    f"the learner uses blocks of {max(self.horizon // blocks, m)} rounds"
                )  # fmt: skip
        return BlockFTRLState(
            scores=np.zeros(m),
            sums=np.zeros(m),
            counts=np.zeros(m, dtype=np.int64),
            to_explore=np.arange(m),
            clock=np.zeros(_CLOCK, dtype=np.int64),
            memory=np.zeros(2),
            weights=position_weights(self.measure, m),
            k=shape.k,
            horizon=self.horizon or 0,
            blocks=blocks,
            growth=c.growth,
            rate=rate,
            decay=self.decay,
            space=space(m),
            explored=np.zeros(1, dtype=np.int64),
            open=np.zeros(m),
            pairs=pairs(m),
        )

    def validate_state(self, state: BlockFTRLState) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "scores", "sums", "memory", "space.x")
        check_counts(state, "counts", "to_explore", "clock", "space.order", "space.first")
        m, items = len(state.scores), np.arange(len(state.scores))
        for name, numbers in (("to_explore", state.to_explore), ("space.order", state.space.order)):
            if not np.array_equal(np.sort(numbers), items):
                raise ValueError(f"its {name} must hold each item once")
        clock, first = state.clock, state.space.first
        if not clock[_OPEN] <= min(m, clock[_LEFT]) or clock[_LEFT] > clock[_LENGTH]:
            raise ValueError("its clock must leave a round for each exploration, at most those of a block")
        if clock[_REST] >= max(1, state.blocks):
            raise ValueError("its clock must have less left over than a block")
        pools = clock[_POOLS]
        ends = first[0] == 0 and first[min(pools, m)] == m and np.all(np.diff(first[: pools + 1]) > 0)
        if clock[_LEFT] > 0 and not (1 <= pools <= m and ends):
            raise ValueError("its space.first must cut the items into pools")
        if not (state.memory.max() == 0 or state.memory.min() >= 1):
            raise ValueError("its memory must hold sums of lengths, from 1 on, or zeros")

    def scores(self, state: BlockFTRLState, X: Features) -> Floats:
        """Return the estimated gain per round minus the largest gain, from all blocks except the running one."""
        return np.asarray(state.scores / max(1.0, state.memory[_ROUNDS]))

    def token_size(self, shape: Shape) -> int:
        """Return 3: the explored mark (whether an item was moved), the block, and the explored item."""
        return 3

    def n_uniforms(self, shape: Shape) -> int:
        """Return m + 1: one uniform for the exploration and one for each item."""
        return shape.m + 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the cost: the largest gain minus the measure's gain."""
        return largest_gain(self.measure, self.max_grade) - self.measure.gain(relevance)

    def block_count(self, shape: Shape, horizon: int) -> int:
        """Return the number of blocks K or, without a horizon, an upper limit for it."""
        c = self._constants(shape)
        if self.horizon is None:  # all blocks except the last end before the last round
            limit = (horizon - 1) // shape.m
            return 1 + min(limit, floor((1.5 * (horizon - 1) / c.growth) ** (2 / 3)) if c.growth else limit)
        limit = horizon // shape.m
        return max(1, min(limit, round(min(c.best_blocks(horizon), limit))))

    def moves(self, shape: Shape) -> int:
        """Return the expected number of rounds of a block that move an item: one for each of m - k items."""
        return shape.m - shape.k

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return ``E K + A sqrt(S)``, S the sum of squared lengths; sqrt(2) A if anytime; None with decay."""
        if self.decay < 1:
            return None
        c, K = self._constants(shape), self.block_count(shape, horizon)
        if self.horizon is None:
            return c.E * K + c.A * sqrt(2 * _growing_squares(shape.m, K, c.growth))
        return c.E * K + c.A * sqrt(_equal_squares(max(horizon, shape.m), K))

    def _constants(self, shape: Shape) -> _Constants:
        largest, (_, W, r) = largest_gain(self.measure, self.max_grade), entropy(self.measure, shape.m)
        cost = exploration_cost(self.measure, shape.m, shape.k)
        return _Constants(largest * cost, largest * sqrt(r * W / 2), r)


class _Constants(NamedTuple):
    """Cost of moving items in a block, cost of learning over the root of squared lengths, range of the entropy."""

    E: float
    A: float
    r: float

    def best_blocks(self, horizon: int) -> float:
        """Return the number of blocks that minimises the bound."""
        return (self.A * horizon / (2 * self.E)) ** (2 / 3) if self.E else inf if self.A else 1.0

    @property
    def growth(self) -> float:
        """Return the length of block b over sqrt(b) that minimises the bound."""
        return 2 * self.E / self.A if self.A else 0.0


def _sum_of_powers(x: float, count: int) -> float:
    return float((1 - x**count) / (1 - x))


def _equal_squares(horizon: int, blocks: int) -> float:
    """Return the sum of squared lengths of blocks that differ by at most one round."""
    length, longer = divmod(int(horizon), int(blocks))
    return float(int(blocks) * length**2 + longer * (2 * length + 1))


def _growing_squares(m: int, blocks: int, growth: float) -> float:
    """Return an upper bound on the sum of max(m, ceil(growth sqrt(b)))^2 over the blocks b = 1, 2, ..."""
    short = blocks if growth == 0 else min(blocks, floor(((m - 1) / growth) ** 2))

    def up_to(b: int) -> float:  # the sum of (growth sqrt(b) + 1)^2, with an integral for the roots
        return growth**2 * b * (b + 1) / 2 + growth * 4 / 3 * (b + 1) * sqrt(b + 1) + b

    return m**2 * short + up_to(blocks) - up_to(short)
