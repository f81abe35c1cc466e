"""Tables of a game for NeighborhoodWatch2: classes, neighbours, estimators, and the constants of the bound.

For P@n they are combinatorial; for other games they come from the geometry of the cells.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb, exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from peekrank.games.game import Game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.learners._finite_games import finite
from peekrank.measures import learnable
from peekrank.types import Floats, Ints, Measure, Shape

if TYPE_CHECKING:
    from peekrank.games.cells import Border

_MAX_VALUES = 10**7  # limit for the number of all estimates


class Tables(NamedTuple):
    """A game in the form that the kernels read.

    Edge e leads from class ``source[e]`` to ``target[e]``, which is the same class or a neighbour; ``reverse[e]``
    leads back. The edges of class c are ``edges[c]`` to ``edges[c + 1] - 1``, the first of them the loop to
    itself. The actions of class c are ``actions[c]`` to ``actions[c + 1] - 1``; those from ``actions[-1]`` on are
    degenerate: the loss of number d is ``weight[d]`` times that of the source of ``border[d]`` plus the rest times
    that of its target.

    Action a observes the edges ``observed[i]`` for i from ``observed_from[a]`` to ``observed_from[a + 1] - 1``. If
    it shows symbol s, ``values[i, s]`` is its contribution to the loss of the target minus that of the source.
    """

    edges: Ints
    source: Ints
    target: Ints
    reverse: Ints
    actions: Ints
    border: Ints
    weight: Floats
    crowd: int  # largest number of degenerate actions at one class, at least 1
    observed_from: Ints
    observed: Ints
    values: Floats
    largest: float  # V, the largest of the values
    rankings: Ints  # to show for each action
    read: int  # number of answers that are used
    grades: int


class Constants(NamedTuple):
    """Constants of the bound; see docs/theory/finite-games.md."""

    entropy: float  # L, the sum over the classes of ln(1 + number of neighbours)
    slope: float  # 1 / epsilon
    variance: float  # B
    neighborhood: int  # nu, the size of the largest N+
    actions: int
    largest: float  # V
    exploring: float  # largest loss of a uniformly drawn action in a round
    reach: float  # largest loss of any action in a round


NOTHING_TO_LEARN = Constants(0.0, 0.0, 0.0, 1, 1, 0.0, 0.0, 0.0)


def precision_constants(m: int, n: int) -> Constants:
    """Return the constants of P@n with m items.

    >>> precision_constants(3, 2).variance
    4.5
    """
    if n >= m:
        return NOTHING_TO_LEARN
    classes, swaps, least = comb(m, n), n * (m - n), min(n, m - n)
    return Constants(
        entropy=classes * log(1 + swaps),
        slope=least,
        variance=n * (n + 1) * (1 + swaps) / 4,
        neighborhood=2 * n,
        actions=n * classes,
        largest=1 / 2,
        exploring=swaps / m,
        reach=least,
    )


def precision_tables(m: int, n: int, offset: float = 1 / 2) -> Tables:
    """Build the tables of P@n with top-1 feedback: a class is a set of n items, an action puts one of them first.

    If j replaces i, the loss of a set grows by R(i) - R(j). The estimate is R(i) - offset if i is first in the one
    set, and offset - R(j) if j is first in the other.

    >>> tables = precision_tables(4, 2)
    >>> len(tables.edges) - 1, len(tables.target), len(tables.rankings)
    (6, 30, 12)
    """
    if n >= m:
        return _nothing_to_learn(np.arange(m), 1, 2)
    sets = np.array(sorted(combinations(range(m), n), key=lambda chosen: chosen[::-1]), dtype=np.int64)
    inside = np.zeros((len(sets), m), dtype=np.bool_)
    np.put_along_axis(inside, sets, values=True, axis=1)
    others = np.nonzero(~inside)[1].reshape(len(sets), m - n)
    out = np.broadcast_to(sets[:, :, None], (len(sets), n, m - n))  # item `out` leaves, item `new` enters
    new = np.broadcast_to(others[:, None, :], out.shape)
    swapped = np.sort(np.where(np.eye(n, dtype=np.bool_)[:, None], new[..., None], sets[:, None, None, :]), axis=3)
    number = np.array([[comb(item, p + 1) for p in range(n)] for item in range(m)])  # a set's index is their sum
    target = number[swapped, np.arange(n)].sum(axis=3)
    degree = 1 + n * (m - n)
    position_of_new = np.count_nonzero(swapped < new[..., None], axis=3)
    position_of_out = out - np.count_nonzero(swapped < out[..., None], axis=3)
    reverse = target * degree + 1 + position_of_new * (m - n) + position_of_out
    own = np.arange(len(sets))
    every = np.arange(len(sets) * degree).reshape(len(sets), degree)
    leaving = every[:, 1:].reshape(-1, m - n)  # for each action, the edges that remove its top item
    rankings = [
        [top, *(i for i in chosen if i != top), *rest]
        for chosen, rest in zip(sets.tolist(), others.tolist(), strict=True)
        for top in chosen
    ]
    return Tables(
        edges=np.arange(0, every.size + 1, degree),
        source=np.repeat(own, degree),
        target=np.hstack([own[:, None], target.reshape(len(sets), -1)]).ravel(),
        reverse=np.hstack([every[:, :1], reverse.reshape(len(sets), -1)]).ravel(),
        actions=np.arange(0, n * len(sets) + 1, n),
        border=np.zeros(0, dtype=np.int64),
        weight=np.zeros(0),
        crowd=1,
        observed_from=np.arange(0, 2 * leaving.size + 1, 2 * (m - n)),
        observed=np.hstack([leaving, reverse.reshape(leaving.shape)]).ravel(),
        values=np.tile(np.repeat(np.outer([1, -1], [-offset, 1 - offset]), m - n, axis=0), (len(leaving), 1)),
        largest=max(offset, 1 - offset),
        rankings=np.array(rankings, dtype=np.int64),
        read=1,
        grades=2,
    )


def _nothing_to_learn(ranking: Ints, read: int, grades: int) -> Tables:
    none, one = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return Tables(
        edges=np.arange(2),
        source=one,
        target=one,
        reverse=one,
        actions=np.arange(2),
        border=none,
        weight=np.zeros(0),
        crowd=1,
        observed_from=np.zeros(2, dtype=np.int64),
        observed=none,
        values=np.zeros((0, grades**read)),
        largest=0.0,
        rankings=ranking[None],
        read=read,
        grades=grades,
    )


def learning_rates(c: Constants, horizon: int | None) -> tuple[float, float]:
    """Return eta (eta sqrt(t) in round t without a horizon) and the largest eta, at which gamma is 1/2."""
    if c.reach == 0:
        return 1.0, 1.0
    max_rate = 1 / (2 * c.largest * c.actions)
    best = sqrt(c.slope * c.entropy / (c.slope * c.variance + c.largest * c.actions * c.exploring))
    return (best / sqrt(2), max_rate) if horizon is None else (min(max_rate, best / sqrt(horizon)), max_rate)


def regret_bound(c: Constants, horizon: int, *, anytime: bool) -> float:
    """Return the regret bound; docs/theory/finite-games.md has the proof."""
    if c.reach == 0:
        return 0.0
    rate, max_rate = learning_rates(c, None if anytime else horizon)
    explored = c.largest * c.actions * c.exploring
    if not anytime:
        spread = rate * horizon * c.variance * exp(2 * rate * c.largest * c.neighborhood)
        return c.slope * (c.entropy / rate + spread) + rate * horizon * explored
    steady = (rate / max_rate) ** 2  # rounds before eta begins to fall
    total, squares = max_rate * horizon, max_rate**2 * horizon  # sums of eta over the rounds
    if horizon > steady:
        total = rate * (2 * sqrt(horizon) - sqrt(steady))
        squares = rate**2 * (1 + log(horizon / steady))
    excess = (2 * exp(2 * max_rate * c.largest * c.neighborhood) - 1) / max_rate
    spread = c.variance * (total + excess * squares)
    return c.slope * (c.entropy / min(max_rate, rate / sqrt(horizon)) + spread) + total * explored


def printed_rate(tables: Tables, horizon: int) -> float:
    """Return ZT's eta. Raises ValueError if its gamma exceeds 1."""
    K = len(tables.rankings)
    if K > 1 and horizon < K**2 * log(K):
        raise ValueError(
            f"horizon = {horizon}: with ZT's parameters gamma is above 1 unless the horizon is at least "
            f"K^2 ln K = {K**2 * log(K):,.0f}, for K = {K} actions"
        )
    return sqrt(log(K) / horizon) if K > 1 else 1.0


@lru_cache(maxsize=16)
def game_tables(measure: Measure | Game, shape: Shape, max_grade: int) -> tuple[Tables, Constants]:
    """Return tables and constants of a locally observable game. Raises ValueError for other games."""
    if not isinstance(measure, Game):
        theorem = theorem_of(measure, shape.m, shape.k, max_grade + 1)
        if theorem.rate in (Rate.TWO_THIRDS, Rate.LINEAR):  # known without enumerating the game
            raise ValueError(_refusal(measure, shape, max_grade, theorem.rate, ""))
    game, rankings = finite(measure, shape, max_grade)
    from peekrank.games.analysis import analyse  # p@n+sum needs none of this
    from peekrank.games.certificate import all_borders

    analysis = analyse(game)
    if analysis.rate not in (Rate.ZERO, Rate.SQRT) or analysis.cells is None:
        raise ValueError(_refusal(measure, shape, max_grade, analysis.rate, analysis.undecided))
    first_of, kind = analysis.cells.duplicate_of, analysis.cells.kind
    classes = np.unique(first_of[[a for a, of in enumerate(kind) if of == "pareto"]])
    if len(classes) == 1:
        return _nothing_to_learn(rankings[classes[0]], shape.k, max_grade + 1), NOTHING_TO_LEARN
    borders = all_borders(game, analysis.cells)
    if 2 * sum(len(border.neighborhood) for border in borders) * len(game.symbols) > _MAX_VALUES:
        raise ValueError(f"m = {shape.m}: {measure} has {len(borders):,} pairs of neighbours, too many for nw2")
    # one of several actions with the same losses and the same feedback is enough
    different = np.unique(np.column_stack([first_of, game.signals]), axis=0, return_index=True)[1]
    watched = sorted({a for border in borders for a in border.neighborhood} & set(different.tolist()))
    degenerate = [a for a in watched if kind[a] == "degenerate"]
    played = [a for c in classes for a in watched if first_of[a] == c] + degenerate
    number = {a: n for n, a in enumerate(played)}
    class_of = {int(c): n for n, c in enumerate(classes)}
    neighbours: list[list[tuple[int, Border]]] = [[] for _ in classes]
    for border in borders:
        i, j = class_of[border.i], class_of[border.j]
        neighbours[i].append((j, border))
        neighbours[j].append((i, border))
    edge_of: dict[tuple[int, int], int] = {}
    for i, around in enumerate(neighbours):
        for j in (i, *(j for j, _ in around)):
            edge_of[i, j] = len(edge_of)
    observed: list[list[tuple[int, Floats]]] = [[] for _ in played]
    touching, borders_of, weights = np.zeros(len(classes), dtype=np.int64), [], []
    loss = game.loss
    for border in borders:
        i, j = class_of[border.i], class_of[border.j]
        actions = [a for a in border.neighborhood if a in number]
        for a, values in zip(actions, _estimate(game, loss[border.j] - loss[border.i], actions), strict=True):
            observed[number[a]] += [(edge_of[i, j], values), (edge_of[j, i], -values)]
            if kind[a] == "degenerate":
                apart = loss[border.i] - loss[border.j]
                borders_of.append((number[a], edge_of[i, j]))
                weights.append(float((loss[a] - loss[border.j]) @ apart / (apart @ apart)))
                touching[[i, j]] += 1
    by_action = np.argsort([a for a, _ in borders_of], kind="stable")
    pairs = np.array(list(edge_of), dtype=np.int64)
    tables = Tables(
        edges=np.cumsum([0] + [1 + len(around) for around in neighbours]),
        source=pairs[:, 0].copy(),
        target=pairs[:, 1].copy(),
        reverse=np.array([edge_of[j, i] for i, j in edge_of]),
        actions=np.cumsum([0] + [sum(first_of[a] == c for a in played) for c in classes]),
        border=np.array([borders_of[d][1] for d in by_action], dtype=np.int64),
        weight=np.array([weights[d] for d in by_action]),
        crowd=max(1, int(touching.max())),
        observed_from=np.cumsum([0] + [len(of) for of in observed]),
        observed=np.array([edge for of in observed for edge, _ in of], dtype=np.int64),
        values=np.array([values for of in observed for _, values in of]),
        largest=float(max(np.abs(values).max() for of in observed for _, values in of)),
        rankings=rankings[played],
        read=shape.k,
        grades=max_grade + 1,
    )
    return tables, _game_constants(game, loss[played], tables, [int(c) for c in classes])


def _estimate(game: Game, difference: Floats, actions: list[int]) -> Floats:
    """Return the smallest weights of actions and symbols that sum to the loss difference under every outcome."""
    symbols = np.arange(len(game.symbols))
    shown = (game.signals[actions][:, None, :] == symbols[:, None]).reshape(-1, len(game.outcomes))
    # A singular value this small of a 0-1 matrix is a rounding error and counts as 0.
    found: Floats = np.linalg.lstsq(shown.T.astype(np.float64), difference, rcond=1e-10)[0]
    return found.reshape(len(actions), len(symbols))


def _game_constants(game: Game, losses: Floats, t: Tables, classes: list[int]) -> Constants:
    """Return the constants of a game; `losses` are those of the actions played."""
    degree, size = np.diff(t.edges), np.diff(t.actions)
    half = 2 if len(t.border) else 1
    N, V = len(size), t.largest
    # for each edge, the coefficients of 1 / (share of the source) and 1 / (share of the target)
    own, other = np.zeros(len(t.source)), np.zeros(len(t.source))
    proper = t.source != t.target
    own[:] = V**2 * half * size[t.source] ** 2
    other[proper] = V**2 * half * size[t.target[proper]] ** 2
    neighborhood = np.where(proper, size[t.source] + size[t.target], size[t.source])
    for e in np.concatenate([t.border, t.reverse[t.border]]):
        own[e] += 2 * t.crowd * V**2
        other[e] += 2 * t.crowd * V**2
        neighborhood[e] += 1
    for a in range(len(t.rankings)):
        c = int(np.searchsorted(t.actions, a, side="right")) - 1
        for i in range(t.observed_from[a], t.observed_from[a + 1]):
            e, square = t.observed[i], float(np.square(t.values[i]).max())
            if c >= N:
                own[e] += 2 * t.crowd * square
                other[e] += 2 * t.crowd * square
            elif t.source[e] == c:
                own[e] += half * size[c] * square
            else:
                other[e] += half * size[c] * square
    rows = [slice(t.edges[c], t.edges[c + 1]) for c in range(N)]
    least = game.loss.min(axis=0)
    return Constants(
        entropy=float(np.log(degree).sum()),
        slope=_slope(game, t, classes),
        variance=max(float(own[row].max() + other[row].sum()) for row in rows),
        neighborhood=int(neighborhood.max()),
        actions=len(t.rankings),
        largest=V,
        exploring=float((losses.mean(axis=0) - least).max()),
        reach=float((losses.max(axis=0) - least).max()),
    )


def _slope(game: Game, t: Tables, classes: list[int]) -> float:
    """Return 1 / epsilon: how much worse a class can be than another if no neighbour is better by more than 1.

    One class of each orbit is enough. The other class need not be constrained to be the best, because the maximum
    is attained there.
    """
    from peekrank.games.cells import orbits
    from peekrank.games.exact.programs import maximise

    loss, first = game.loss[classes], orbits(game)[classes]
    greatest = 1.0
    for c in np.unique(first, return_index=True)[1]:
        near = t.target[t.edges[c] + 1 : t.edges[c + 1]]
        for d in range(len(classes)):
            if d != c and d not in near:
                found = maximise(loss[c] - loss[d], loss[c] - loss[near], np.ones(len(near)))
                greatest = max(greatest, found.value)
    return greatest


def _refusal(measure: Measure | Game, shape: Shape, max_grade: int, rate: Rate | None, undecided: str) -> str:
    name = "this game" if isinstance(measure, Game) else f"measure = {measure}, m = {shape.m}, k = {shape.k}"
    if rate is None:
        return f"{name}: nw2 needs a locally observable game, and the analysis could not decide that: {undecided}"
    if rate is Rate.LINEAR:
        return (
            f"{name}: hopeless, the regret of every learner grows linearly with T; show more feedback or change "
            "the measure"
        )
    instead = "feedexp3"
    if not isinstance(measure, Game):
        try:
            learnable(measure, max_grade)
            instead = "blockftrl"
        except ValueError:
            pass
    return f"{name}: the feedback of good actions is not enough, no learner is better than {rate}; use {instead}"
