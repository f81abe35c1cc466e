"""FeedExp3: exponential weights on estimates from feedback, for every finite game that can be learned at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, log, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.validate import whole
from peekrank.games.game import Game
from peekrank.games.rate import Rate
from peekrank.games.theorems import theorem_of
from peekrank.learners._finite_games import NO_SYMBOL, finite, less_place, max_grade_of, symbol_of
from peekrank.learners._shared import fault_in_counts, fault_in_numbers, warn_short
from peekrank.measures import measure as measure_named
from peekrank.types import Features, Floats, Ints, Kernels, Measure, Shape

_EXACT = 1e-10  # of the largest loss difference: how far an estimate may be from unbiased
_INFEASIBLE = 2  # SciPy's number for it
_NOTHING = 1e-9  # what floating-point programs call zero
_MOST_MIXING = 1 / 2
_ADVICE = "No learner helps; reveal more, or change what is paid for"


class FeedExp3State(NamedTuple):
    """Estimated losses, how many rounds they are from, and the plan of the game."""

    losses: Floats
    rounds: Ints
    mixing: float  # gamma, or gamma t^(1/3) in round t without a horizon
    rate: float  # eta / gamma, or that times t^(1/3) in round t without a horizon
    anytime: bool
    grades: int
    k: int
    rankings: Ints  # to show for each action
    action: Ints  # that is played for each class
    group: Ints  # of each action
    row: Ints  # of the estimates, for each action and symbol
    values: Floats  # (rows, classes)
    chances: Floats  # q by action, summed up
    asked: Floats  # q by group
    weights: Floats


@kernel
def _shrink(s: FeedExp3State) -> float:
    """How much smaller gamma and eta are than in the first round."""
    return float((s.rounds[0] + 1.0) ** (-1 / 3)) if s.anytime else 1.0


@kernel
def _rank(s: FeedExp3State, X: Features, uniforms: Floats, ranking: Ints, token: Floats) -> None:
    shrink = _shrink(s)
    gamma = min(s.mixing * shrink, _MOST_MIXING)
    eta = s.rate * shrink * gamma
    least = s.losses[0]
    for i in range(1, len(s.losses)):
        least = min(least, s.losses[i])
    total = 0.0
    for i in range(len(s.losses)):
        s.weights[i] = np.exp(-eta * (s.losses[i] - least))
        total += s.weights[i]
    if uniforms[0] < gamma:
        action = _first_above(s.chances, uniforms[1])
        token[0] = 1
    else:
        action = s.action[_drawn(s.weights, uniforms[1] * total)]
        token[0] = 0
    group = s.group[action]
    seen = 0.0
    for i in range(len(s.losses)):
        if s.group[s.action[i]] == group:
            seen += s.weights[i]
    token[1] = action
    token[2] = min(1.0, (1 - gamma) * seen / total + gamma * s.asked[group])
    for p in range(len(ranking)):
        ranking[p] = s.rankings[action, p]


@kernel
def _first_above(sums: Floats, u: float) -> int:
    """The first place whose sum is above u; the sums do not descend, and the last one is 1."""
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _drawn(weights: Floats, u: float) -> int:
    """The place at which the sum of weights, not all of them 0, comes above u."""
    last = 0
    for i in range(len(weights)):
        if weights[i] > 0:
            last = i
            u -= weights[i]
            if u < 0:
                break
    return last


@kernel
def _update(s: FeedExp3State, X: Features, ranking: Ints, token: Floats, feedback: Floats) -> None:
    action = int(token[1])
    if not (0 <= action < len(s.group) and ranking[0] == s.rankings[action, 0] and 0 < token[2] <= 1):
        raise ValueError("the token of this decision is not one of this agent's")
    symbol = symbol_of(feedback, s.grades)
    if symbol == NO_SYMBOL:
        return
    row = s.row[action, symbol]
    if row < 0:
        raise ValueError("the feedback is a symbol that the action of this decision never shows")
    s.rounds[0] += 1
    for i in range(len(s.losses)):
        s.losses[i] += s.values[row, i] / token[2]


@kernel
def _chances(s: FeedExp3State, X: Features, ranking: Ints, token: Floats, out: Floats) -> None:
    """Each action gives its probability to the first k items of its ranking."""
    gamma = min(s.mixing * _shrink(s), _MOST_MIXING)
    total, before = 0.0, 0.0
    for i in range(len(s.weights)):
        total += s.weights[i]
    out[:] = 0
    for i in range(len(s.weights)):
        for p in range(s.k):
            out[s.rankings[s.action[i], p]] += (1 - gamma) * s.weights[i] / total
    for a in range(len(s.chances)):
        for p in range(s.k):
            out[s.rankings[a, p]] += gamma * (s.chances[a] - before)
        before = s.chances[a]


@dataclass(frozen=True)
class FeedExp3:
    """Exponential weights over the actions that can be best, with estimates from whatever feedback shows.

    What is seen of a round becomes an estimate of the loss of every such action, up to a number common to all:
    ``v_i(row) / P(group)``, where a group is all actions that show the same, a row one symbol of it, and P its
    probability. The v are the solution of a linear program: unbiased, and of the least width C, the sum over
    groups of the largest ``max_i v_i(row) - min_i v_i(row)``. With probability gamma the action is drawn from q
    instead, which asks each group as often as its part of C; such a round is marked as explored.

    With N classes of actions and D the largest loss of q beyond the best, the expected regret is at most
    ``(3/2) (C^2 D ln N)^(1/3) T^(2/3)`` with ``gamma = (C^2 ln N / (8 D^2 T))^(1/3)`` and ``eta = 8 D gamma^2 /
    C^2``; without a horizon 1.31 times as much, for every T at once.

    - gamma is 1/2 at most. For a horizon so short that the bound is no less than all that can be lost, `init`
      warns, and the bound is what can be lost.
    - A round with an unanswered question is left out as a whole.
    - A ranking game is written down: up to six items. The game may be any `Game`; then m is the number of its
      actions and k = 1, the action is the first of the ranking, and the answer is the number of its symbol.

    Parameters
    ----------
    measure
        What is to be learned, or a game.
    horizon
        Rounds T that gamma and eta are tuned for; None if not known.
    max_grade
        Largest relevance grade; of a game, the largest number of a symbol, whatever is given.

    >>> from peekrank.measures import NDCG
    >>> round(FeedExp3(NDCG(), horizon=100_000).bound(Shape(3, 0, 2), 100_000))
    1636
    >>> FeedExp3(NDCG(), horizon=100_000).init(Shape(3, 0, 1))
    Traceback (most recent call last):
    ...
    ValueError: hopeless: ndcg divides by what the whole list has: ...

    References
    ----------
    Piccolboni & Schindelhauer (2001); Cesa-Bianchi, Lugosi & Stoltz (2006), Figure 1.
    """

    measure: Measure | Game = field(metadata={"read": measure_named})
    horizon: int | None = None
    max_grade: int = 1
    name: ClassVar[str] = "feedexp3"
    contextual: ClassVar[bool] = False
    any_length: ClassVar[bool] = False
    full_information: ClassVar[bool] = False
    min_k: ClassVar[int] = 1
    kernels: ClassVar[Kernels] = Kernels(_rank, _update, _chances)
    memory: ClassVar[tuple[str, ...]] = ("losses", "rounds")

    def __post_init__(self) -> None:
        if self.horizon is not None:
            whole("horizon", self.horizon, 1, 10**12)
        object.__setattr__(self, "max_grade", max_grade_of(self.measure, self.max_grade))

    def init(self, shape: Shape) -> FeedExp3State:
        """State before the first round."""
        plan = self.plan(shape)
        if self.horizon is not None and self.horizon < plan.least_horizon:
            what = (
                f"the bound says nothing below {plan.least_horizon:,} rounds; at most every other round explores"
            )
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
            rankings=plan.rankings.copy(),  # a state is its owner's to write to, a plan is shared
            action=plan.action.copy(),
            group=plan.seen.group.copy(),
            row=plan.seen.row.copy(),
            values=plan.values.copy(),
            chances=(sums := np.cumsum(plan.q)) / sums[-1],
            asked=np.bincount(plan.seen.group, plan.q).astype(np.float64),
            weights=np.zeros(len(plan.action)),
        )

    def fault(self, state: FeedExp3State) -> str:
        """What is wrong with a memory that was read."""
        return fault_in_numbers(state, "losses") or fault_in_counts(state, "rounds")

    def scores(self, state: FeedExp3State, X: Features) -> Floats:
        """Minus the place of each item in the ranking of least estimated loss."""
        return less_place(state.rankings[state.action[np.argmin(state.losses)]])

    def token_size(self, shape: Shape) -> int:
        """The explored mark, the action, and the probability of its group."""
        return 3

    def draws(self, shape: Shape) -> int:
        """One for whether to explore, and one for the action."""
        return 2

    def perceive(self, relevance: NDArray[Any]) -> Floats:
        """The grades, or numbers of symbols, as they are."""
        return np.asarray(relevance, dtype=np.float64)

    def plan(self, shape: Shape) -> Plan:
        """What is worked out of the game before the first round; a ValueError where it cannot be learned."""
        return _plan(self.measure, shape, self.max_grade)

    def bound(self, shape: Shape, horizon: int) -> float | None:
        """``gamma D T + ln N / eta + eta C^2 T / (8 gamma)``, at most R T; None where the game does not fit."""
        try:
            plan = self.plan(shape)
        except ValueError:
            return None
        return min(plan.most * horizon, plan.regret(horizon, anytime=self.horizon is None))


class Seen(NamedTuple):
    """What feedback tells apart: the group of each action, the row of each of its symbols (-1: never shown).

    ``owner`` is the group of a row, ``outcomes`` marks the outcomes that lead to it.
    """

    group: Ints
    row: Ints
    owner: Ints
    outcomes: Floats


class Plan(NamedTuple):
    """How to play a game: `rankings` and `seen` by action, one `action` for each class, estimates, exploration.

    ``q`` is by action. ``width`` is C, ``price`` is D, the most that q loses to the best action under any outcome,
    and ``most`` is R, the most that a round can lose in expectation.
    """

    rankings: Ints
    seen: Seen
    action: Ints
    values: Floats
    q: Floats
    width: float
    price: float
    most: float

    @property
    def least_horizon(self) -> int:
        """The horizon from which on the bound is not above R T."""
        if self.width == 0:
            return 1
        gamma = min(_MOST_MIXING, self.most / (3 * self.price))
        return ceil(self.width**2 * log(len(self.action)) / (2 * gamma * (self.most - gamma * self.price) ** 2))

    def tuned(self, horizon: int | None) -> tuple[float, float]:
        """Gamma and eta / gamma; without a horizon, their factors of t^(-1/3)."""
        if self.width == 0:
            return 0.0, 0.0
        spread = self.width**2 * log(len(self.action))
        if horizon is None:
            gamma = (spread / (12 * self.price**2)) ** (1 / 3)
            return gamma, 4 * sqrt(spread / (3 * gamma)) / self.width**2
        gamma = min(_MOST_MIXING, (spread / (8 * self.price**2 * horizon)) ** (1 / 3))
        return gamma, sqrt(8 * spread / (gamma * horizon)) / self.width**2

    def regret(self, horizon: int, *, anytime: bool) -> float:
        """The sum of the three terms of the bound."""
        if self.width == 0:
            return 0.0
        gamma, ratio = self.tuned(None if anytime else horizon)
        shrink = horizon ** (-1 / 3) if anytime else 1.0
        sums = 3 / 2 if anytime else 1  # the sum of t^(-1/3) is at most 3/2 T^(2/3)
        last = min(_MOST_MIXING, gamma * shrink)
        explored = min(_MOST_MIXING, sums * gamma * shrink) * horizon
        learning = log(len(self.action)) / (ratio * shrink * last)
        return self.price * explored + learning + self.width**2 / 8 * sums * ratio * shrink * horizon


@lru_cache(maxsize=64)
def _plan(measure: Measure | Game, shape: Shape, max_grade: int) -> Plan:
    if not isinstance(measure, Game):
        theorem = theorem_of(measure, shape.m, shape.k, max_grade + 1)
        if theorem.rate == Rate.LINEAR:
            raise ValueError(f"hopeless: {theorem.reason} {_ADVICE}")
    game, rankings = finite(measure, shape, max_grade)
    # Some ranking is Pareto-optimal, and relabelling the items takes it to every other.
    class_of = _pareto_classes(game) if isinstance(measure, Game) else _duplicates(game)
    seen = _seen(game)
    first = np.unique(class_of, return_index=True)[1][-class_of.max() - 1 :]
    if len(first) == 1:
        nothing, anything = np.zeros((len(seen.owner), 1)), np.full(len(class_of), 1 / len(class_of))
        return Plan(rankings, seen, first, nothing, anything, width=0, price=0, most=0)
    values, width = _estimates(game, class_of, first, seen)
    rounded = np.round(width / width.max(), 9)  # equal widths must tie
    most_telling = np.lexsort((-rounded[seen.group], class_of))  # of duplicates, the one to play comes first
    action = most_telling[np.searchsorted(class_of[most_telling], np.arange(len(first)))]
    q = _exploration(game, action, seen, width / width.sum())
    loss = game.loss
    excess = loss - loss[action].min(axis=0)
    price = float((q @ excess).max())
    most = max(price, float(excess[action].max()))
    return Plan(rankings, seen, action, values, q, float(width.sum()), price, most)


def _duplicates(game: Game) -> Ints:
    """The number of each action's class: actions with the same losses are one."""
    rows = np.moveaxis(game.numerators, 0, 1).reshape(len(game.actions), -1)
    number: dict[tuple[Any, ...], int] = {}
    return np.array([number.setdefault(tuple(row), len(number)) for row in rows.tolist()])


def _pareto_classes(game: Game) -> Ints:
    """The number of each Pareto-optimal action's class, -1 for the others; a ValueError for a hopeless game."""
    from peekrank.games.analysis import analyse  # with SciPy, whose import takes longer than all others

    found = analyse(game)
    if found.rate is None or found.cells is None:
        raise ValueError(f"it is undecided {found.undecided}, so that feedexp3 cannot tell which actions matter")
    if found.rate == Rate.LINEAR and found.blind is not None:
        i, j = (game.actions[a] for a in (found.blind.i, found.blind.j))
        raise ValueError(f"hopeless: no feedback tells which of the actions '{i}' and '{j}' is better. {_ADVICE}")
    first = found.cells.duplicate_of
    pareto = np.array(found.cells.kind) == "pareto"
    return np.where(pareto, np.searchsorted(np.unique(first[pareto]), first), -1)


def _seen(game: Game) -> Seen:
    actions = len(game.actions)
    row = np.full((actions, len(game.symbols)), -1)
    group = np.empty(actions, dtype=np.int64)
    groups: dict[bytes, int] = {}
    rows: dict[tuple[int, int], int] = {}
    for a, symbols in enumerate(game.signals):
        shown, first, where = np.unique(symbols, return_index=True, return_inverse=True)
        group[a] = groups.setdefault(first[where].tobytes(), len(groups))
        row[a, shown] = [rows.setdefault((int(group[a]), int(r)), len(rows)) for r in first]
    outcomes = np.zeros((len(rows), len(game.outcomes)))
    columns = np.broadcast_to(np.arange(len(game.outcomes)), game.signals.shape)
    outcomes[np.take_along_axis(row, game.signals, axis=1), columns] = 1
    return Seen(group, row, np.array([g for g, _ in rows]), outcomes)


def _estimates(game: Game, class_of: Ints, first: Ints, seen: Seen) -> tuple[Floats, Floats]:
    """The v, as (rows, classes), of least width; and the width of each group.

    Relabellings that leave the game as it is move the v of one class to another's, so that one variable serves a
    whole orbit of (class, row). Averaging over relabellings shows that nothing is lost by this.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    loss = game.loss[first]
    wanted = loss - loss.mean(axis=0)  # the reference, common to all classes, must not change with labels
    size = np.abs(wanted).max()
    N, R = len(first), len(seen.owner)
    moves = [_moved(game, class_of, first, seen, *symmetry) for symmetry in game.symmetries]
    variable = _orbits([(c[:, None] * R + r).ravel() for c, r in moves], N * R).reshape(N, R)
    row = _orbits([r for _, r in moves], R)
    kind = _orbits([_induced(seen.owner, r) for _, r in moves], int(seen.owner.max()) + 1)
    heads = np.unique(_orbits([c for c, _ in moves], N), return_index=True)[1]

    X, Y, G = (int(numbers.max()) + 1 for numbers in (variable, row, kind))
    row_of, kind_of = np.empty(X, dtype=np.int64), np.empty(Y, dtype=np.int64)
    row_of[variable] = row
    kind_of[row] = kind[seen.owner]
    one_row, one_kind = _choice(row_of, Y), _choice(kind_of, G)
    x, y, no_x = eye_array(X), eye_array(Y), csr_array((Y, X))
    within = vstack(  # columns: the v, the least and the largest of a row, the width of a group
        [
            hstack([-x, one_row, csr_array((X, Y)), csr_array((X, G))]),
            hstack([x, csr_array((X, Y)), -one_row, csr_array((X, G))]),
            hstack([no_x, -y, y, -one_kind]),
        ]
    )
    unbiased = vstack([csr_array(seen.outcomes.T) @ _choice(variable[i], X) for i in heads])
    found = linprog(
        np.r_[np.zeros(X + 2 * Y), np.bincount(kind)],
        A_ub=within,
        b_ub=np.zeros(within.shape[0]),
        A_eq=hstack([unbiased, csr_array((unbiased.shape[0], 2 * Y + G))]),
        b_eq=(wanted[heads] / size).ravel(),
        bounds=(None, None),
    )
    if found.status == _INFEASIBLE:
        raise ValueError(f"hopeless: no sum of what actions show estimates the loss differences. {_ADVICE}")
    solution = _solution(found)
    v = solution[variable].T
    v -= (v.max(axis=1, keepdims=True) + v.min(axis=1, keepdims=True)) / 2
    used = (solution[-G:] > _NOTHING)[kind][seen.owner]
    v[~used] = 0
    # What the program leaves of a bias is removed, up to a number common to all classes.
    bias = wanted.T / size - seen.outcomes.T @ v
    bias -= bias.mean(axis=1, keepdims=True)
    # Of a matrix of zeros and ones a singular value that small is 0, and what rounding left of it must not count.
    v[used] += np.linalg.pinv(seen.outcomes[used].T, rtol=_EXACT) @ bias
    off = wanted.T / size - seen.outcomes.T @ v
    if np.ptp(off, axis=1).max() > _EXACT:
        raise ValueError("the losses of this game differ too much in size for estimates in floating point")
    v *= size
    width = np.zeros(G)  # rounding must not make groups differ that are one by symmetry
    np.maximum.at(width, kind[seen.owner], np.ptp(v, axis=1))
    return np.ascontiguousarray(v), width[kind]


def _moved(
    game: Game, class_of: Ints, first: Ints, seen: Seen, actions: Ints, outcomes: Ints
) -> tuple[Ints, Ints]:
    """Where a symmetry of the game takes classes and rows."""
    rows = np.empty(len(seen.owner), dtype=np.int64)
    here = np.take_along_axis(seen.row, game.signals, axis=1)  # the row of each action and outcome
    rows[here] = here[actions][:, outcomes]
    return class_of[actions[first]], rows


def _induced(owner: Ints, rows: Ints) -> Ints:
    """Where groups go if rows do."""
    moved = np.empty(owner.max() + 1, dtype=np.int64)
    moved[owner] = owner[rows]
    return moved


def _orbits(permutations: list[Ints], n: int) -> Ints:
    """The number of each point's orbit."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    here, there = np.tile(np.arange(n), len(permutations)), np.concatenate([np.empty(0, np.int64), *permutations])
    graph = csr_array((np.ones(len(here)), (here, there.astype(np.int64))), shape=(n, n))
    orbits: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return orbits


def _choice(column: Ints, columns: int) -> Any:
    """The matrix with a 1 in each row, in the column given."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(column)), (np.arange(len(column)), column)), shape=(len(column), columns))


def _solution(found: Any) -> Floats:
    if found.x is None:
        raise ValueError(f"a linear program of this game was not solved: {found.message}")
    x: Floats = found.x
    return x


def _exploration(game: Game, action: Ints, seen: Seen, share: Floats) -> Floats:
    """The distribution over actions, with these shares of the groups, that loses least in the worst case."""
    from scipy.optimize import linprog

    loss = game.loss
    least = loss[action].min(axis=0)
    useful = share[seen.group] > 0
    orbit = _orbits([actions for actions, _ in game.symmetries], len(game.actions))
    orbits, members = np.unique(orbit[useful], return_inverse=True)
    count = np.bincount(members)
    mean = np.stack([np.bincount(members, column[useful]) for column in loss.T]) / count
    groups = np.stack([np.bincount(members, seen.group[useful] == g) for g in np.flatnonzero(share)]) / count
    found = linprog(
        np.r_[np.zeros(len(orbits)), 1],
        A_ub=np.hstack([mean, -np.ones((len(mean), 1))]),
        b_ub=least,
        A_eq=np.hstack([groups, np.zeros((len(groups), 1))]),
        b_eq=share[share > 0],
        bounds=[(0, None)] * len(orbits) + [(None, None)],
    )
    q = np.zeros(len(seen.group))
    q[useful] = (_solution(found)[:-1].clip(0) / count)[members]
    by_group = np.bincount(seen.group, q)
    q *= np.divide(share, by_group, out=np.zeros_like(share), where=by_group > 0)[seen.group]
    return q
