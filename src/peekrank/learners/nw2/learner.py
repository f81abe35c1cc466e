"""NeighborhoodWatch2 (ZT, Algorithm 1): regret sqrt(T) for locally observable games."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import check_int
from peekrank.games.game import Game
from peekrank.games.rate import Rate
from peekrank.games.theorems import theorem_of
from peekrank.learners._finite_games import NO_SYMBOL, less_position, max_grade_of, symbol_of
from peekrank.learners._shared import check_counts, check_numbers, warn_short
from peekrank.learners.nw2.stationary import ShareSpace, share_space, stationary_distribution
from peekrank.learners.nw2.tables import (
    Constants,
    Tables,
    game_tables,
    learning_rates,
    precision_constants,
    precision_tables,
    printed_rate,
    regret_bound,
)
from peekrank.measures import Precision
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, Measure, Shape

_MAX_CLASSES = 5000
# sizes of an enumerated game for which the constants of the bound take less than a second
_ITEMS_IN_TIME, _OUTCOMES_IN_TIME = 4, 32
_TOKEN = 3  # explored mark, action and eta precede the shares
_ROUNDING = 1e-9  # tolerance for the sum of the shares
_TOO_HARD = (Rate.TWO_THIRDS, Rate.LINEAR)


class NW2State(NamedTuple):
    """Summed estimates of the edges minus those of the loop, their rounds, the last shares, and the game."""

    sums: Floats
    rounds: Ints
    shares: Floats
    rate: float  # eta, or eta sqrt(t) in round t without a horizon
    max_rate: float  # the largest eta
    anytime: bool
    even: bool  # whether all actions of a class share its probability
    k: int
    tables: Tables
    first: Floats  # probability of the first action of each class
    other: Floats  # probability of each of its other actions
    between: Floats  # probability of each degenerate action
    seldom: Floats  # sum of one over the probabilities of each class
    space: ShareSpace


@kernel
def _action_probabilities(s: NW2State, shares: Floats, eta: float) -> None:
    """Fill the probabilities of all actions (REDISTRIBUTE, then uniform mixing).

    A degenerate action takes from its two classes in the proportion that leaves the expected loss as it is, and
    never more than half of either for all such actions together.
    """
    t, first, other = s.tables, s.first, s.other
    least = eta * t.largest
    rest = 1 - least * len(t.rankings)
    for c in range(len(shares)):
        first[c] = rest * shares[c]
    for d in range(len(t.border)):
        i, j, part = t.source[t.border[d]], t.target[t.border[d]], t.weight[d]
        moved = rest * min(shares[i] / part, shares[j] / (1 - part)) / (2 * t.crowd)
        s.between[d] = moved + least
        first[i] -= part * moved
        first[j] -= (1 - part) * moved
    for c in range(len(shares)):
        if s.even:
            first[c] = first[c] / (t.actions[c + 1] - t.actions[c]) + least
            other[c] = first[c]
        else:
            first[c] += least
            other[c] = least


@kernel
def _draw(s: NW2State, u: float) -> int:
    """Draw an action with the probabilities of `_action_probabilities`; the last one if rounding leaves a rest."""
    t = s.tables
    for c in range(len(s.shares)):
        others = t.actions[c + 1] - t.actions[c] - 1
        if u < s.first[c]:
            return int(t.actions[c])
        u -= s.first[c]
        if u < others * s.other[c]:
            return int(t.actions[c] + 1 + min(int(u / s.other[c]), others - 1))
        u -= others * s.other[c]
    for d in range(len(t.border)):
        if u < s.between[d]:
            return int(t.actions[-1] + d)
        u -= s.between[d]
    return len(t.rankings) - 1


@kernel
def _rank(s: NW2State, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    eta = min(s.max_rate, s.rate / sqrt(s.rounds[0] + 1)) if s.anytime else s.rate
    stationary_distribution(s.sums, eta, s.tables, s.space, s.shares)
    _action_probabilities(s, s.shares, eta)
    action = _draw(s, uniforms[0])
    token[0], token[1], token[2] = 0, action, eta
    for c in range(len(s.shares)):
        token[_TOKEN + c] = s.shares[c]
    for p in range(len(ranking)):
        ranking[p] = s.tables.rankings[action, p]


@kernel
def _update(s: NW2State, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    t, classes, action, eta, shares = s.tables, len(s.shares), int(token[1]), token[2], token[_TOKEN:]
    total = 0.0
    for c in range(classes):
        total += shares[c] if shares[c] >= 0 else np.nan
    mine = 0 <= action < len(t.rankings) and 0 < eta <= s.max_rate and abs(total - 1) < _ROUNDING
    if not (mine and ranking[0] == t.rankings[action, 0]):
        raise ValueError("the token of this decision is not from this agent")
    symbol = symbol_of(feedback[: t.read], t.grades)
    if symbol == NO_SYMBOL:
        return
    _action_probabilities(s, shares, eta)
    probability = 0.0
    for c in range(classes):
        others = t.actions[c + 1] - t.actions[c] - 1
        s.seldom[c] = 1 / s.first[c] + (others / s.other[c] if others else 0.0)
        if t.actions[c] <= action < t.actions[c + 1]:
            probability = s.first[c] if action == t.actions[c] else s.other[c]
    if action >= t.actions[-1]:
        probability = s.between[action - t.actions[-1]]
    bonus = eta * t.largest**2
    for c in range(classes):  # the estimate of the loop is omitted, because it is common to all edges of the class
        row, target = s.sums[t.edges[c] + 1 : t.edges[c + 1]], t.target[t.edges[c] + 1 : t.edges[c + 1]]
        part = bonus * shares[c] ** 2
        for e in range(len(row)):
            row[e] -= part * s.seldom[target[e]]
    for d in range(len(t.border)):
        e = t.border[d]
        s.sums[e] -= bonus * shares[t.source[e]] ** 2 / s.between[d]
        s.sums[t.reverse[e]] -= bonus * shares[t.target[e]] ** 2 / s.between[d]
    for i in range(t.observed_from[action], t.observed_from[action + 1]):
        e = t.observed[i]
        s.sums[e] += shares[t.source[e]] * t.values[i, symbol] / probability
    s.rounds[0] += 1


@kernel
def _propensities(s: NW2State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Sum the probabilities of the actions that have the item among the first k."""
    t = s.tables
    out[:] = 0
    for c in range(len(s.shares)):
        for a in range(t.actions[c], t.actions[c + 1]):
            probability = s.first[c] if a == t.actions[c] else s.other[c]
            for p in range(s.k):
                out[t.rankings[a, p]] += probability
    for d in range(len(t.border)):
        for p in range(s.k):
            out[t.rankings[t.actions[-1] + d, p]] += s.between[d]


@dataclass(frozen=True)
class NW2:
    """Exponential weights among neighbours: each class of equally good actions competes with its neighbours.

    Class k weights itself and each neighbour a in proportion to ``exp(-eta S_ka)``, where S_ka sums estimates of
    the loss of a minus that of k, weighted by the share of k. These weights are the transition probabilities of a
    Markov chain, and the shares p of the classes are its stationary distribution. A share is split evenly over the
    actions of its class; a degenerate action, which is best only between two classes, takes its part from both.
    With probability gamma a uniformly drawn action is played, which is not marked as exploration. The feedback of
    action A adds ``p_k v / P(A) - eta V^2 p_k^2 (sum of 1/P over all actions that observe it)`` for each pair k, a
    whose difference A observes.

    With L, B, V, nu, epsilon and D as on docs/theory/finite-games.md and C actions, the expected regret is at most
    ``(L / eta + eta T B exp(2 eta V nu)) / epsilon + gamma D T``, with ``eta = sqrt(L / ((B + epsilon V C D) T))``
    and ``gamma = eta V C``. For P@n, L = C(m,n) ln(1 + n (m - n)), B = n (n + 1) (1 + n (m - n)) / 4, V = 1/2,
    nu = 2 n, C = n C(m,n), 1 / epsilon = min(n, m - n) and D = n (m - n) / m. Without a horizon eta falls as
    1 / sqrt(t), and the bound holds for every T at once and is about sqrt(2) times as large.

    - gamma is at most 1/2, with eta reduced accordingly. `init` warns if the bound exceeds the largest possible
      loss.
    - For P@n the learner uses only the first answer of a round, for any k. setftrl uses all answers and has a
      smaller bound.
    - Any other measure is enumerated as a game, which limits it to six items. The learner can also play any
      `Game`: then m is the number of actions and k = 1, the action is the first item of the ranking, and the
      answer is the index of its symbol.
    - A round that lacks an answer the learner uses is skipped.
    - ``paper_rate`` follows ZT's algorithm to the letter, for P@n: a whole share goes to one action of its class.
      Its regret is linear in T. It is included for comparison only.

    Parameters
    ----------
    measure
        The measure to optimise, or a game.
    horizon
        Rounds T that eta and gamma are tuned for; None if not known.
    max_grade
        Largest relevance grade. For a game it is ignored: the largest symbol index is used.
    paper_rate
        Whether to omit REDISTRIBUTE, as ZT do.

    >>> round(NW2(Precision(2, mean=False), horizon=10**6).bound(Shape(10, 0, 1), 10**6))
    354620
    >>> NW2(measure_named("dcg")).init(Shape(3, 0, 1))
    Traceback (most recent call last):
    ...
    ValueError: measure = dcg, m = 3, k = 1: the feedback of good actions is not enough, ... use blockftrl

    References
    ----------
    ZT Algorithm 1 and Theorem 14; Lattimore & Szepesvari (2019), Algorithm 1.
    """

    measure: Measure | Game = field(metadata={"read": measure_named})
    horizon: int | None = None
    max_grade: int = 1
    paper_rate: bool = False
    name: ClassVar[str] = "nw2"
    contextual: ClassVar[bool] = False
    variable_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _propensities, counts_rounds=True)
    persistent: ClassVar[tuple[str, ...]] = ("sums", "rounds", "shares", "space.inverse", "space.spent")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_int("horizon", self.horizon, 1, 10**12)
        object.__setattr__(self, "max_grade", max_grade_of(self.measure, self.max_grade))
        if self.paper_rate and not (isinstance(self.measure, Precision) and self.horizon is not None):
            raise ValueError("paper_rate = True: ZT's algorithm needs P@n, as in measure=p@2+sum, and a horizon")

    def init(self, shape: Shape) -> NW2State:
        """Make the state before the first round."""
        tables, constants = self._game(shape)
        if self.paper_rate:
            rate = max_rate = printed_rate(tables, self.horizon or 1)
        else:
            rate, max_rate = learning_rates(constants, self.horizon)
            bound = None if self.horizon is None else regret_bound(constants, self.horizon, anytime=False)
            if self.horizon is not None and bound is not None and bound > constants.reach * self.horizon:
                what = f"the bound, {bound:,.0f}, exceeds the largest possible loss"
                instead = "; setftrl has a smaller one" if isinstance(self.measure, Precision) else ""
                warn_short(self.name, self.horizon, what + instead)
        classes = len(tables.actions) - 1
        return NW2State(
            sums=np.zeros(len(tables.target)),
            rounds=np.zeros(1, dtype=np.int64),
            shares=np.full(classes, 1 / classes),
            rate=rate,
            max_rate=max_rate,
            anytime=self.horizon is None,
            even=not self.paper_rate,
            k=shape.k,
            tables=tables,
            first=np.zeros(classes),
            other=np.zeros(classes),
            between=np.zeros(len(tables.border)),
            seldom=np.zeros(classes),
            space=share_space(tables),
        )

    def validate_state(self, state: NW2State) -> None:
        """Raise ValueError if a state read from a file is invalid."""
        check_numbers(state, "sums", "shares", "space.inverse")
        check_counts(state, "rounds", "space.spent")
        if not (state.shares.min() >= 0 and abs(state.shares.sum() - 1) < _ROUNDING):
            raise ValueError("its shares must be probabilities")

    def scores(self, state: NW2State, X: Features) -> Floats:
        """Return minus the position of each item in a ranking of the class with the largest share."""
        return less_position(state.tables.rankings[state.tables.actions[np.argmax(state.shares)]])

    def token_size(self, shape: Shape) -> int:
        """Count the explored mark, always 0, the action, eta, and the share of each class."""
        if isinstance(self.measure, Precision):
            return _TOKEN + comb(shape.m, min(self.measure.cutoff, shape.m))
        return _TOKEN + len(self._game(shape)[0].actions) - 1

    def n_uniforms(self, shape: Shape) -> int:
        """Return 1: the uniform that selects the action."""
        return 1

    def transform_feedback(self, relevance: NDArray[Any]) -> Floats:
        """Return 1[R > 0] for P@n, the grade for other measures, and the symbol index for a game."""
        if isinstance(self.measure, Precision):
            return self.measure.gain(relevance)
        return relevance.astype(np.float64)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """Return the bound of the class docstring; None with `paper_rate`, for long lists, or if nothing fits."""
        if self.paper_rate or not self._fits(shape):
            return None
        if isinstance(self.measure, Precision):
            scale = self.measure.cutoff if self.measure.mean else 1
            return (
                regret_bound(
                    precision_constants(shape.m, self.measure.cutoff), horizon, anytime=self.horizon is None
                )
                / scale
            )
        try:
            return regret_bound(self._game(shape)[1], horizon, anytime=self.horizon is None)
        except ValueError:
            return None

    def _fits(self, shape: Shape) -> bool:
        """Return whether the learner may fit this shape, and can find out quickly."""
        if isinstance(self.measure, Precision):
            return comb(shape.m, min(self.measure.cutoff, shape.m)) <= _MAX_CLASSES
        if isinstance(self.measure, Game):
            return True
        fast = shape.m <= _ITEMS_IN_TIME and (self.max_grade + 1) ** shape.m <= _OUTCOMES_IN_TIME
        return fast and theorem_of(self.measure, shape.m, shape.k, self.max_grade + 1).rate not in _TOO_HARD

    def _game(self, shape: Shape) -> tuple[Tables, Constants]:
        if not isinstance(self.measure, Precision):
            return game_tables(self.measure, shape, self.max_grade)
        m, n = shape.m, self.measure.cutoff
        if not self._fits(shape):
            raise ValueError(
                f"m = {m}: p@{n}+sum has {comb(m, n):,} classes of rankings; nw2 takes up to {_MAX_CLASSES:,}; "
                "use setftrl, which has no such limit"
            )
        return precision_tables(m, n, offset=0.0 if self.paper_rate else 1 / 2), precision_constants(m, n)
