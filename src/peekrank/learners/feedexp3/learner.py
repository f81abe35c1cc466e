"""The learner class of feedexp3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from peekrank._util.validate import check_int
from peekrank.games.game import Game
from peekrank.learners._finite_games import less_position, max_grade_of
from peekrank.learners._shared import check_counts, check_numbers, warn_short
from peekrank.learners.feedexp3.kernels import propensities, rank, update
from peekrank.learners.feedexp3.plan import Plan, plan_of
from peekrank.learners.feedexp3.state import FeedExp3State
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Kernels, Measure, Shape


@dataclass(frozen=True)
class FeedExp3:
    """Exponential weights over the Pareto-optimal actions, with loss estimates from any feedback.

    The feedback of a round gives an estimate of the loss of every such action, up to a constant common to all:
    ``v_i(row) / P(group)``, where a group is a set of actions with the same feedback, a row is one of its symbols,
    and P is its probability. A linear program finds the v that are unbiased and have the least width C, the sum
    over groups of the largest ``max_i v_i(row) - min_i v_i(row)``. With probability gamma the action is drawn from
    q instead, which plays each group in proportion to its part of C; such a round is marked as explored.

    With N classes of actions and D the largest loss of q beyond the best, the expected regret is at most
    ``(3/2) (C^2 D ln N)^(1/3) T^(2/3)`` with ``gamma = (C^2 ln N / (8 D^2 T))^(1/3)`` and ``eta = 8 D gamma^2 /
    C^2``; without a horizon 1.31 times as much, for every T at once.

    - gamma is at most 1/2. If the horizon is so short that the bound exceeds the largest possible loss, `init`
      warns, and the bound is that loss.
    - A round with a missing answer is skipped.
    - The learner enumerates a ranking game, which limits it to six items. It can also play any `Game`: then m is
      the number of actions and k = 1, the action is the first item of the ranking, and the answer is the index of
      its symbol.

    Parameters
    ----------
    measure
        The measure to optimise, or a game.
    horizon
        Rounds T that gamma and eta are tuned for; None if not known.
    max_grade
        Largest relevance grade. For a game it is ignored: the largest symbol index is used.

    >>> from peekrank.measures import NDCG
    >>> round(FeedExp3(NDCG(), horizon=100_000).bound(Shape(3, 0, 2), 100_000))
    1636
    >>> FeedExp3(NDCG(), horizon=100_000).init(Shape(3, 0, 1))
    Traceback (most recent call last):
    ...
    ValueError: hopeless: ndcg divides by a sum over the whole list: ...

    References
    ----------
    Piccolboni & Schindelhauer (2001); Cesa-Bianchi, Lugosi & Stoltz (2006), Figure 1.
    """

    measure: Measure | Game = field(metadata={"read": measure_named})
    horizon: int | None = None
    max_grade: int = 1
    name: ClassVar[str] = "feedexp3"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(rank, update, propensities)
    persistent: ClassVar[tuple[str, ...]] = ("losses", "rounds")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_int("horizon", self.horizon, 1, 10**12)
        object.__setattr__(self, "max_grade", max_grade_of(self.measure, self.max_grade))

    def init(self, shape: Shape) -> FeedExp3State:
        """Make the state before the first round."""
        plan = self.plan(shape)
        if self.horizon is not None and self.horizon < plan.min_horizon:
            what = f"the bound says nothing below {plan.min_horizon:,} rounds; at most every other round explores"
            warn_short(self.name, self.horizon, what)
        mixing, rate = plan.tuned(self.horizon)
        return FeedExp3State(
            losses=np.zeros(len(plan.action)),
            rounds=np.zeros(1, dtype=np.int64),
            mixing=mixing,
            rate=rate,
            anytime=self.horizon is None,
            grades=self.max_grade + 1,
            k=shape.k,
            rankings=plan.rankings.copy(),  # a state is writable, a plan is shared
            action=plan.action.copy(),
            group=plan.seen.group.copy(),
            row=plan.seen.row.copy(),
            values=plan.values.copy(),
            cumulative_q=(sums := np.cumsum(plan.q)) / sums[-1],
            explore_probs=np.bincount(plan.seen.group, plan.q).astype(np.float64),
            weights=np.zeros(len(plan.action)),
        )

    def validate_state(self, state: FeedExp3State) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "losses")
        check_counts(state, "rounds")

    def scores(self, state: FeedExp3State, X: Features) -> Floats:
        """Return minus the position of each item in the ranking with the least estimated loss."""
        return less_position(state.rankings[state.action[np.argmin(state.losses)]])

    def token_size(self, shape: Shape) -> int:
        """Return 3: the explored mark, the action, and the probability of its group."""
        return 3

    def n_uniforms(self, shape: Shape) -> int:
        """Return 2: one uniform for the exploration and one for the action."""
        return 2

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return the grades, or symbol indices, unchanged."""
        return np.asarray(relevance, dtype=np.float64)

    def plan(self, shape: Shape) -> Plan:
        """Return the precomputed plan of the game. Raises ValueError if the game cannot be learned."""
        return plan_of(self.measure, shape, self.max_grade)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return ``gamma D T + ln N / eta + eta C^2 T / (8 gamma)``, at most R T; None for an unfit game."""
        try:
            plan = self.plan(shape)
        except ValueError:
            return None
        return min(plan.max_loss * horizon, plan.regret(horizon, anytime=self.horizon is None))
