"""NeighborhoodWatch2: tables against brute force, a dense twin, exact expectations, bounds, and what ZT print."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb, exp, log, sqrt
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import naive
from helpers.games import exact_losses
from helpers.hard_streams import bernoulli, cyclic, swapping
from helpers.learner_checks import further_cases
from peekrank import Agent, Game, Precision, Shape, fixed_items, measure, simulate
from peekrank.games.classic import classic
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.learners.nw2.learner import NW2, _action_probabilities
from peekrank.learners.nw2.stationary import exponentials, share_space, stationary_distribution
from peekrank.learners.nw2.tables import (
    Tables,
    game_tables,
    learning_rates,
    precision_constants,
    precision_tables,
    regret_bound,
)
from peekrank.types import Floats, Learner

NO_FEATURES = np.zeros((0, 0), dtype=np.float32)
SMALL = [(2, 1), (3, 1), (3, 2), (4, 2), (5, 2), (5, 4), (6, 3)]

# heads and tails show nothing, two actions between them show the penny or nothing
TWO_BETWEEN = Game.of(
    [[0, 1], [1, 0], ["1/4", "3/4"], ["1/2", "1/2"]], [["-", "-"], ["-", "-"], ["h", "t"], ["-", "-"]]
)
# three guesses that show whether they were right, and an action between the first two that shows the outcome
THREE = Game.of(
    [[0, 1, 1], [1, 0, 1], [1, 1, 0], ["1/2", "1/2", 1], [0, 1, 1]],
    [["y", "n", "n"], ["n", "y", "n"], ["n", "n", "y"], ["a", "b", "c"], ["a", "b", "b"]],
)
GAMES = {
    **{
        name: classic(name)
        for name in (
            "bandit",
            "cheap-labels",
            "posted-price",
            "telling-duplicate",
            "telling-degenerate",
            "dominated",
        )
    },
    "two-between": TWO_BETWEEN,
    "three": THREE,
}


def of_game(game: Game) -> Any:
    shape = Shape(len(game.actions), 0, 1)
    return game_tables(game, shape, len(game.symbols) - 1)


# --- tables


@pytest.mark.parametrize(("m", "n"), SMALL)
def test_neighbours_of_sets_differ_by_one_item(m: int, n: int) -> None:
    t = precision_tables(m, n)
    sets = [frozenset(t.rankings[a, :n].tolist()) for a in t.actions[:-1]]
    assert len(set(sets)) == comb(m, n)
    for c, mine in enumerate(sets):
        row = slice(t.edges[c], t.edges[c + 1])
        assert t.target[row][0] == c
        assert (t.source[row] == c).all()
        assert {sets[j] for j in t.target[row][1:]} == {other for other in sets if len(mine - other) == 1}
        shown = t.rankings[t.actions[c] : t.actions[c + 1]]
        assert {frozenset(ranking[:n]) for ranking in shown.tolist()} == {mine}
        assert sorted(shown[:, 0].tolist()) == sorted(mine)
        assert np.array_equal(np.sort(shown, axis=1), np.tile(np.arange(m), (n, 1)))
    assert np.array_equal(t.reverse[t.reverse], np.arange(len(t.target)))
    assert np.array_equal(t.source[t.reverse], t.target)


@pytest.mark.parametrize(("m", "n"), SMALL)
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_estimates_of_precision_are_unbiased(m: int, n: int, offset: float) -> None:
    """For every edge and relevance, what the actions tell adds up to the difference, exactly."""
    t = precision_tables(m, n, offset)
    for relevance in product((0, 1), repeat=m):
        told = np.zeros(len(t.target))
        for a, ranking in enumerate(t.rankings):
            for i in range(t.observed_from[a], t.observed_from[a + 1]):
                told[t.observed[i]] += t.values[i, relevance[ranking[0]]]
        loss = [-naive.precision(t.rankings[a], relevance, n) for a in t.actions[:-1]]
        assert told.tolist() == [loss[j] - loss[i] for i, j in zip(t.source, t.target, strict=True)]
    assert np.abs(t.values).max() == t.largest


@pytest.mark.parametrize("name", GAMES)
def test_estimates_of_games_are_unbiased(name: str) -> None:
    game = GAMES[name]
    t, _ = of_game(game)
    loss, seen = game.loss[t.rankings[:, 0]], game.signals[t.rankings[:, 0]]
    for outcome in range(len(game.outcomes)):
        told = np.zeros(len(t.target))
        for a in range(len(t.rankings)):
            for i in range(t.observed_from[a], t.observed_from[a + 1]):
                told[t.observed[i]] += t.values[i, seen[a, outcome]]
        best = loss[t.actions[:-1], outcome]
        np.testing.assert_allclose(told, best[t.target] - best[t.source], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "m", "k"), [("dcg", 3, 2), ("sumloss", 4, 3), ("ndcg", 3, 3), ("p@2+sum", 4, 2), ("ap", 2, 1)]
)
def test_estimates_of_other_measures_are_unbiased(name: str, m: int, k: int) -> None:
    judge = measure(name)
    t, _ = game_tables(judge, Shape(m, 0, k), 1)
    for relevance in product((0, 1), repeat=m):
        rows = np.tile(relevance, (len(t.rankings), 1))
        loss = judge.values(t.rankings, rows) * (-1 if judge.higher_is_better else 1)
        told = np.zeros(len(t.target))
        for a, ranking in enumerate(t.rankings):
            symbol = int("".join(str(relevance[item]) for item in ranking[:k]), 2)
            for i in range(t.observed_from[a], t.observed_from[a + 1]):
                told[t.observed[i]] += t.values[i, symbol]
        best = loss[t.actions[:-1]]
        np.testing.assert_allclose(told, best[t.target] - best[t.source], atol=1e-12)


@pytest.mark.parametrize("name", GAMES)
def test_cells_of_games(name: str) -> None:
    """Classes, neighbours and N+ against the definitions."""
    game = GAMES[name]
    t, _ = of_game(game)
    twin = naive.game_twin(exact_losses(game), game.signals.tolist())
    rows = [tuple(row) for row in exact_losses(game)]
    first = [rows.index(row) for row in rows]
    classes = sorted({first[i] for i, kind in enumerate(twin.kind) if kind == "pareto"})
    assert [first[t.rankings[a, 0]] for a in t.actions[:-1]] == classes
    pairs = {(classes[i], classes[j]) for i, j in zip(t.source, t.target, strict=True) if i != j}
    assert pairs == {(first[i], first[j]) for i, j in twin.neighborhood}
    for d, e in enumerate(t.border):
        i, j = classes[t.source[e]], classes[t.target[e]]
        action = t.rankings[t.actions[-1] + d, 0]
        assert twin.kind[action] == "degenerate"
        assert action in twin.neighborhood[i, j]
        np.testing.assert_allclose(
            game.loss[action], t.weight[d] * game.loss[i] + (1 - t.weight[d]) * game.loss[j], atol=1e-12
        )


# --- shares


def residual(sums: Floats, eta: float, t: Tables, shares: Floats) -> float:
    """The sum of |p Q - p|, from the definition of Q."""
    least = np.minimum.reduceat(sums, t.edges[:-1])
    weights = np.exp(-eta * (sums - least[t.source]))
    passed = shares / np.bincount(t.source, weights)
    return float(np.abs(np.bincount(t.target, passed[t.source] * weights) - shares).sum())


@pytest.mark.parametrize(("m", "n"), [(2, 1), (4, 2), (6, 3), (12, 2), (9, 3), (26, 2)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0])
def test_shares_are_stationary(m: int, n: int, spread: float) -> None:
    """By inverses (up to 300 classes) and by sweeps, against NumPy's solution."""
    t, rng = precision_tables(m, n), np.random.default_rng(m)
    classes, space = comb(m, n), share_space(t)
    shares = np.full(classes, 1 / classes)
    for _ in range(3):
        sums = rng.random(len(t.target)) * spread * 10
        stationary_distribution(sums, 0.1, t, space, shares)
        Q = np.zeros((classes, classes))
        Q[t.source, t.target] = np.exp(-0.1 * sums)
        Q /= Q.sum(axis=1, keepdims=True)
        system = np.vstack([np.eye(classes) - Q.T, np.ones(classes)])
        expected = np.linalg.lstsq(system, np.r_[np.zeros(classes), 1], rcond=None)[0]
        assert residual(sums, 0.1, t, shares) < 1.0001e-9
        np.testing.assert_allclose(shares, expected, atol=1e-8)


@pytest.mark.parametrize("m", [14, 26])
def test_shares_are_stationary_after_a_turn(m: int) -> None:
    """From one order of the items to its reverse: then sweeps lose most of the total on their way."""
    t, worth = precision_tables(m, 2), np.arange(m) * 3.0
    space, shares = share_space(t), np.full(comb(m, 2), 1 / comb(m, 2))
    for values in (worth, -worth, np.random.default_rng(0).permutation(worth)):
        of_class = values[t.rankings[t.actions[:-1], :2]].sum(axis=1)
        sums = of_class[t.target] - of_class[t.source]
        stationary_distribution(sums, 1.0, t, space, shares)
        assert residual(sums, 1.0, t, shares) < 1.0001e-9


def test_shares_of_many_classes() -> None:
    """More than 1,000 classes: no matrix."""
    t = precision_tables(46, 2)
    shares, sums = np.full(1035, 1 / 1035), np.random.default_rng(0).random(len(t.target)) * 5
    stationary_distribution(sums, 1.0, t, share_space(t), shares)
    assert residual(sums, 1.0, t, shares) < 1.0001e-9


@pytest.mark.parametrize("seed", range(5))
def test_a_new_inverse_is_exact(seed: int) -> None:
    """Weights from 1 to exp(-30): every share, and every entry of the inverse, to twelve digits."""
    t, rng = precision_tables(4, 2), np.random.default_rng(seed)
    space, shares, sums = share_space(t), rng.dirichlet(np.ones(6)), 30 * rng.random(len(t.target)) ** 3
    ground, before = int(np.argmax(shares)), shares.copy()
    stationary_distribution(sums, 1.0, t, space, shares)
    assert not np.allclose(before, shares, atol=1e-3)
    assert space.inverse.any()
    chain = [[Fraction(0)] * 6 for _ in range(6)]
    for i, j, weight in zip(t.source, t.target, space.weights, strict=True):
        if i != j:
            chain[i][j] -= Fraction(float(weight))
            chain[i][i] += Fraction(float(weight))
    others = [c for c in range(6) if c != ground]
    inverse = rational_inverse([[chain[i][j] for j in others] for i in others])
    flow = [Fraction(1)] * 6
    for column, j in enumerate(others):
        flow[j] = sum((-chain[ground][i] * inverse[row][column] for row, i in enumerate(others)), Fraction(0))
        for row, i in enumerate(others):
            assert space.inverse[i, j] == pytest.approx(float(inverse[row][column]), rel=1e-12)
    assert not space.inverse[ground].any()
    assert not space.inverse[:, ground].any()
    whole = [of * Fraction(float(total)) for of, total in zip(flow, space.total, strict=True)]
    for share, exact in zip(shares, whole, strict=True):
        assert share == pytest.approx(float(exact / sum(whole)), rel=1e-12)


def rational_inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """By Gauss and Jordan, beside the identity."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(size):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[size:] for row in rows]


def test_inverses_last_for_many_rounds() -> None:
    """Sums on a random walk: shares are right in each round, and inverses are renewed, but seldom."""
    t, rng = precision_tables(6, 2), np.random.default_rng(0)
    space, shares, renewed = share_space(t), np.full(15, 1 / 15), 0
    sums = rng.standard_normal(len(t.target))
    for _ in range(1000):
        before = space.inverse.copy()
        stationary_distribution(sums, 1.0, t, space, shares)
        renewed += not np.array_equal(space.inverse, before)
        assert residual(sums, 1.0, t, shares) < 1.0001e-9
        assert shares.sum() == pytest.approx(1, abs=1e-14)
        sums += 0.001 * rng.standard_normal(len(sums))
    assert 20 < renewed < 300


def test_corrections_that_go_too_far() -> None:
    """Sums that jump among tiny shares: no share falls below 0."""
    t, rng = precision_tables(6, 2), np.random.default_rng(0)
    space, shares = share_space(t), np.full(15, 1 / 15)
    for _ in range(300):
        sums = 20 * rng.standard_normal(len(t.target))
        for _ in range(5):
            stationary_distribution(sums, 1.0, t, space, shares)
            assert residual(sums, 1.0, t, shares) < 1.0001e-9
            assert shares.min() >= 0
            sums += rng.standard_normal(len(sums))


@pytest.mark.parametrize(("m", "n"), [(5, 2), (14, 2), (26, 2)])
def test_shares_where_one_class_is_far_ahead(m: int, n: int) -> None:
    """Sums that differ by far more than exp can tell: nothing but the best class remains, and all is finite."""
    t, shares = precision_tables(m, n), np.full(comb(m, n), 1 / comb(m, n))
    loss = np.array([-sum(t.rankings[a, :n]) for a in t.actions[:-1]], dtype=np.float64)
    stationary_distribution(1e9 * (loss[t.target] - loss[t.source]), 1.0, t, share_space(t), shares)
    assert shares[np.argmin(loss)] == pytest.approx(1, abs=2e-9)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-14)


def test_exponentials() -> None:
    x = np.r_[0.0, np.random.default_rng(0).random(1000) * 36, 1e-300, 36.0, 40.0, 1e300]
    y = x.copy()
    exponentials(y)
    np.testing.assert_allclose(y, np.exp(-np.minimum(x, 36)), rtol=1e-13)
    assert y[0] == 1


# --- the whole algorithm, dense


class Twin:
    """The pseudo-code of docs/theory/finite-games.md with dictionaries and dense matrices.

    ``classes`` lists the actions of each class, ``between`` gives for each degenerate action its two classes and
    the weight of the first, ``values`` the estimates by (class, neighbour, action, symbol).
    """

    def __init__(
        self,
        classes: list[list[Any]],
        between: dict[Any, tuple[int, int, float]],
        near: dict[int, list[int]],
        values: dict[tuple[int, int, Any, Any], float],
        printed: bool = False,
    ) -> None:
        self.classes, self.between, self.near, self.values, self.printed = classes, between, near, values, printed
        self.V = max(abs(v) for v in values.values())
        self.C = [a for of in classes for a in of] + list(between)
        self.S = {(k, a): 0.0 for k in near for a in [k, *near[k]]}

    def shares(self, eta: float) -> Floats:
        N = len(self.classes)
        Q = np.zeros((N, N))
        for k in range(N):
            around = [k, *self.near[k]]
            low = min(self.S[k, a] for a in around)
            for a in around:
                Q[k, a] = exp(-eta * (self.S[k, a] - low))
        Q /= Q.sum(axis=1, keepdims=True)
        return np.linalg.solve(np.vstack([(np.eye(N) - Q.T)[:-1], np.ones(N)]), np.r_[np.zeros(N - 1), 1])

    def propensities(self, p: Floats, eta: float) -> dict[Any, float]:
        gamma, left = eta * self.V * len(self.C), p.copy()
        P = dict.fromkeys(self.C, 0.0)
        D = max([sum(k in (i, j) for i, j, _ in self.between.values()) for k in range(len(p))] + [1])
        for d, (i, j, alpha) in self.between.items():
            P[d] = min(p[i] / alpha, p[j] / (1 - alpha)) / (2 * D)
            left[i] -= alpha * P[d]
            left[j] -= (1 - alpha) * P[d]
        for k, actions in enumerate(self.classes):
            for a in actions:
                P[a] = left[k] * (a == actions[0]) if self.printed else left[k] / len(actions)
        return {a: (1 - gamma) * propensity + gamma / len(self.C) for a, propensity in P.items()}

    def update(self, p: Floats, eta: float, action: Any, symbol: Any) -> None:
        P = self.propensities(p, eta)
        for k, a in self.S:
            neighborhood = self.classes[k] if a == k else self.classes[k] + self.classes[a]
            neighborhood = neighborhood + [d for d, (i, j, _) in self.between.items() if {i, j} == {k, a}]
            Zhat = p[k] * self.values.get((k, a, action, symbol), 0.0) / P[action]
            beta = eta * self.V**2 * p[k] ** 2 * sum(1 / P[b] for b in neighborhood)
            self.S[k, a] += Zhat - beta


def precision_twin(m: int, n: int, offset: float, printed: bool = False) -> tuple[Twin, list[tuple[int, ...]]]:
    sets = list(combinations(range(m), n))
    near = {k: [a for a, b in enumerate(sets) if len(set(b) - set(s)) == 1] for k, s in enumerate(sets)}
    values = {}
    for k, around in near.items():
        for a in around:
            (i,), (j,) = set(sets[k]) - set(sets[a]), set(sets[a]) - set(sets[k])
            for R in (0, 1):
                values[k, a, (sets[k], i), R] = R - offset
                values[k, a, (sets[a], j), R] = offset - R
    return Twin([[(s, i) for i in s] for s in sets], {}, near, values, printed), sets


def finite_twin(game: Game) -> tuple[Twin, list[int]]:
    """From the definitions, by enumeration of corners; the estimates by NumPy's pseudo-inverse."""
    rows, seen = [tuple(row) for row in exact_losses(game)], game.signals.tolist()
    found = naive.game_twin(rows, seen)
    first = [rows.index(row) for row in rows]
    kept = [a for a in range(len(rows)) if (rows[a], seen[a]) not in list(zip(rows, seen, strict=True))[:a]]
    names = sorted({first[i] for i, kind in enumerate(found.kind) if kind == "pareto"})
    classes = [[a for a in kept if first[a] == c] for c in names]
    near = {k: [a for a, b in enumerate(names) if (c, b) in found.neighborhood] for k, c in enumerate(names)}
    between, values = {}, {}
    for (c, b), neighborhood in found.neighborhood.items():
        if c not in names or b not in names:
            continue
        k, a, actions = names.index(c), names.index(b), [x for x in neighborhood if x in kept]
        shown = np.array(
            [[float(s == symbol) for s in seen[x]] for x in actions for symbol in range(len(game.symbols))]
        )
        estimate = np.linalg.pinv(shown.T) @ np.array(
            [float(y - x) for x, y in zip(rows[c], rows[b], strict=True)]
        )
        for x, row in zip(actions, estimate.reshape(len(actions), -1), strict=True):
            values.update({(k, a, x, symbol): float(v) for symbol, v in enumerate(row)})
            if found.kind[x] == "degenerate":
                r = next(r for r in range(len(rows[c])) if rows[c][r] != rows[b][r])
                between[x] = (k, a, float((rows[x][r] - rows[b][r]) / (rows[c][r] - rows[b][r])))
    return Twin(classes, dict(sorted(between.items())), near, values), names


def law(state: Any) -> Floats:
    """How often each action is drawn, from a fine grid of uniforms; a rank does not move a state on."""
    m, shown = state.tables.rankings.shape[1], np.zeros(len(state.tables.rankings))
    token, ranking = np.zeros(3 + len(state.shares)), np.zeros(m, dtype=np.int64)
    for u in (np.arange(4000) + 0.5) / 4000:
        NW2.kernels.rank(state, NO_FEATURES, np.array([u]), ranking, token)
        assert ranking.tolist() == state.tables.rankings[int(token[1])].tolist()
        shown[int(token[1])] += 1 / 4000
    return shown


@pytest.mark.parametrize(
    ("m", "n", "printed", "horizon"),
    [
        (3, 2, True, 3000),
        *((m, n, False, horizon) for m, n in ((3, 2), (4, 2), (4, 1)) for horizon in (3000, None)),
    ],
)
def test_twin_of_precision(m: int, n: int, printed: bool, horizon: int | None) -> None:
    agent = Agent(NW2(Precision(n, mean=False), horizon, paper_rate=printed), m=m, k=1, seed=1)
    twin, sets = precision_twin(m, n, 0.0 if printed else 0.5, printed)
    t = agent._state.tables
    position = [sets.index(tuple(sorted(t.rankings[a, :n].tolist()))) for a in t.actions[:-1]]
    actions = [(tuple(sorted(r[:n].tolist())), int(r[0])) for r in t.rankings]
    rng = np.random.default_rng(0)
    constants = precision_constants(m, n)
    for round_ in range(300):
        decision = agent.rank()
        if printed:
            eta = sqrt(log(len(twin.C)) / 3000)
        else:
            rate, most = learning_rates(constants, horizon)
            eta = rate if horizon else min(most, rate / sqrt(round_ + 1))
        p = twin.shares(eta)
        assert decision.token[2] == pytest.approx(eta, rel=1e-12)
        np.testing.assert_allclose(decision.token[3:], p[position], atol=1e-9)
        action = actions[int(decision.token[1])]
        assert (tuple(sorted(decision.ranking[:n].tolist())), int(decision.ranking[0])) == action
        R = int(rng.random() < (0.8, 0.2, 0.6, 0.4)[action[1]])
        agent.update(decision, [R])
        twin.update(p, eta, action, R)
    P = twin.propensities(twin.shares(eta), eta)
    np.testing.assert_allclose(law(agent._state), [P[a] for a in actions], atol=1e-3)


@pytest.mark.parametrize("name", GAMES)
def test_twin_of_games(name: str) -> None:
    game = GAMES[name]
    agent = Agent(NW2(game, 10_000), m=len(game.actions), k=1, seed=2)
    twin, _ = finite_twin(game)
    rng, t, eta = np.random.default_rng(0), agent._state.tables, agent._state.rate
    played = t.rankings[:, 0].tolist()
    assert sorted(played) == sorted(twin.C)
    assert t.largest == pytest.approx(twin.V, rel=1e-12)
    likely = rng.dirichlet(np.ones(len(game.outcomes)))
    for _ in range(300):
        decision, p = agent.rank(), twin.shares(eta)
        np.testing.assert_allclose(decision.token[3:], p, atol=1e-9)
        symbol = int(game.signals[decision.ranking[0], rng.choice(len(likely), p=likely)])
        agent.update(decision, [symbol])
        twin.update(p, eta, int(decision.ranking[0]), symbol)
    P = twin.propensities(twin.shares(eta), eta)
    np.testing.assert_allclose(law(agent._state), [P[a] for a in played], atol=1e-3)


@pytest.mark.parametrize("name", ["telling-degenerate", "two-between", "three", "telling-duplicate", "bandit"])
def test_redistribution_keeps_the_expected_loss(name: str) -> None:
    """Classes keep half at least, degenerate actions get what the proof needs, propensities add up to one."""
    game, rng = GAMES[name], np.random.default_rng(0)
    state = NW2(game, 10**6).init(Shape(len(game.actions), 0, 1))
    t, eta = state.tables, state.rate
    loss, size, C = game.loss[t.rankings[:, 0]], np.diff(t.actions), len(t.rankings)
    gamma = eta * t.largest * C
    for power in (0.2, 1, 5):
        p = rng.random(len(size)) ** power
        p /= p.sum()
        _action_probabilities(state, p, eta)
        assert state.first.tolist() == state.other.tolist()
        P = np.r_[np.repeat(state.first, size), state.between]
        assert P.sum() == pytest.approx(1, abs=1e-14)
        expected = (1 - gamma) * p @ loss[t.actions[:-1]] + gamma * loss.mean(axis=0)
        np.testing.assert_allclose(P @ loss, expected, atol=1e-14)
        assert np.all(size * (state.first - gamma / C) >= (1 - gamma) * p / 2 - 1e-15)
        for d, e in enumerate(t.border):
            rarer = min(p[t.source[e]], p[t.target[e]])
            assert state.between[d] >= (1 - gamma) * rarer / (2 * t.crowd)


def test_updates_are_unbiased() -> None:
    """Over all actions, S_ka - S_kk changes by p_k (loss_a - loss_k) less the bonus, for every relevance."""
    m, n = 4, 2
    agent = Agent(NW2(Precision(n, mean=False), 20_000), m=m, k=1, seed=3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        decision = agent.rank()
        agent.update(decision, [int(rng.random() < (0.9, 0.7, 0.3, 0.1)[decision.ranking[0]])])
    state, decision = agent._state, agent.rank()
    t, p, eta = state.tables, decision.token[3:].copy(), decision.token[2]
    P = (1 - eta * 6) * np.repeat(p, n) / n + eta / 2  # 12 actions, V = 1/2
    sums = state.sums.copy()
    for relevance in product((0, 1), repeat=m):
        mean = np.zeros_like(sums)
        for a, ranking in enumerate(t.rankings):
            state.sums[:] = sums
            token = decision.token.copy()
            token[1] = a
            NW2.kernels.update(state, NO_FEATURES, ranking.copy(), token, np.array([float(relevance[ranking[0]])]))
            mean += P[a] * (state.sums - sums)
        loss = np.array([-naive.precision(t.rankings[a], relevance, n) for a in t.actions[:-1]])
        seldom = np.array([sum(1 / P[a] for a in range(n * c, n * c + n)) for c in range(len(p))])
        bonus = np.where(t.source == t.target, 0, seldom[t.target])  # beyond that of the own edge
        expected = p[t.source] * (loss[t.target] - loss[t.source]) - eta / 4 * p[t.source] ** 2 * bonus
        np.testing.assert_allclose(mean, expected, atol=1e-9)


# --- parameters and bound


@pytest.mark.parametrize(("m", "n"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
def test_constants_counted_and_computed_agree(m: int, n: int) -> None:
    """From the game of all rankings, by linear programs and loops, come the numbers of the closed form."""
    found = game_tables(Precision(n, mean=False), Shape(m, 0, 1), 1)[1]
    np.testing.assert_allclose(found, precision_constants(m, n), rtol=1e-9)


@pytest.mark.parametrize("name", GAMES)
def test_slope_is_that_of_the_lemma(name: str) -> None:
    """1 / epsilon at random distributions: never above, and nearly reached at some."""
    game = GAMES[name]
    t, constants = of_game(game)
    loss = game.loss[t.rankings[t.actions[:-1], 0]]
    rng, largest = np.random.default_rng(0), 0.0
    for u in rng.dirichlet(np.full(len(game.outcomes), 0.5), size=3000):
        expected = loss @ u
        for c in range(len(loss)):
            lost = expected[c] - expected.min()
            near = expected[c] - expected[t.target[t.edges[c] : t.edges[c + 1]]].min()
            assert lost <= constants.slope * near + 1e-12
            largest = max(largest, lost / near if near > 1e-9 else 0.0)
    assert largest >= 0.8 * constants.slope


def lemma_sum(p: Floats, t: Tables, constants: Any, eta: float, state: Any) -> float:
    """Sum over edges of Q p^2 times all of V^2 + v^2, each over the probability of its action."""
    _action_probabilities(state, p, eta)
    size = np.diff(t.actions)
    P = np.r_[np.repeat(state.first, size), state.between]
    class_of = np.r_[np.repeat(np.arange(len(size)), size), np.full(len(t.border), -1)]
    weights = state.space.weights
    total = 0.0
    for e, (k, a) in enumerate(zip(t.source, t.target, strict=True)):
        row = slice(t.edges[k], t.edges[k + 1])
        Q = weights[e] / weights[row].sum()
        neighborhood = [b for b in range(len(P)) if class_of[b] in (k, a)]
        neighborhood += [t.actions[-1] + d for d, b in enumerate(t.border) if e in (b, t.reverse[b])]
        total += Q * p[k] ** 2 * sum(t.largest**2 / P[b] for b in neighborhood)
        for b in neighborhood:
            for i in range(t.observed_from[b], t.observed_from[b + 1]):
                if t.observed[i] == e:
                    total += Q * p[k] ** 2 * np.square(t.values[i]).max() / P[b]
    return total


@pytest.mark.parametrize(
    "name", ["p@2+sum", "bandit", "telling-duplicate", "telling-degenerate", "two-between", "three"]
)
def test_variance_is_within_the_lemma(name: str) -> None:
    """(1 - gamma) times the sum is at most B, whatever the sums."""
    game: Any = GAMES.get(name) or Precision(2, mean=False)
    m = len(game.actions) if name in GAMES else 4
    state = NW2(game, 10**6).init(Shape(m, 0, 1))
    constants = of_game(game)[1] if name in GAMES else precision_constants(4, 2)
    t, eta, rng, largest = state.tables, state.rate, np.random.default_rng(0), 0.0
    for scale in np.repeat([0.1, 1, 3, 10], 30) / eta:
        state.sums[:] = rng.standard_normal(len(t.target)) * scale
        stationary_distribution(state.sums, eta, t, state.space, state.shares)
        total = lemma_sum(state.shares, t, constants, eta, state) * (1 - eta * t.largest * len(t.rankings))
        assert total <= constants.variance * (1 + 1e-12)
        largest = max(largest, total)
    assert largest >= 0.1 * constants.variance


@pytest.mark.parametrize(("m", "n"), [(3, 1), (3, 2), (5, 2), (10, 2)])
@pytest.mark.parametrize("T", [10, 1000, 100_000])
def test_bounds_are_what_the_proof_adds_up_to(m: int, n: int, T: int) -> None:
    c = precision_constants(m, n)
    rate, most = learning_rates(c, T)
    gamma = rate / 2 * c.actions
    assert gamma <= 0.5 + 1e-12
    swaps, least = n * (m - n), min(n, m - n)
    L, B = comb(m, n) * log(1 + swaps), n * (n + 1) * (1 + swaps) / 4
    known = least * (L / rate + rate * T * B * exp(2 * rate * n)) + gamma * T * swaps / m
    assert regret_bound(c, T, anytime=False) == pytest.approx(known, rel=1e-12)
    first, most = learning_rates(c, None)
    etas = np.minimum(most, first / np.sqrt(np.arange(1, T + 1)))
    gammas = etas / 2 * c.actions
    summed = (
        least * (L / etas[-1] + B * np.sum(etas * np.exp(2 * etas * n) / (1 - gammas))) + gammas.sum() * swaps / m
    )
    assert summed <= regret_bound(c, T, anytime=True) <= 1.6 * summed
    if gamma < 0.5:  # eta is the best there is, but for the factor exp(2 eta V nu)
        others = [
            least * (L / x + x * T * B) + x / 2 * c.actions * T * swaps / m for x in (0.9 * rate, 1.1 * rate)
        ]
        assert least * (L / rate + rate * T * B) + gamma * T * swaps / m < min(others)


def test_bound_of_the_mean_and_of_nothing_to_learn() -> None:
    shape = Shape(5, 0, 1)
    for horizon in (50_000, None):
        plain, mean = NW2(Precision(2, mean=False), horizon), NW2(Precision(2), horizon)
        assert mean.bound(shape, 50_000) == pytest.approx((plain.bound(shape, 50_000) or 0) / 2)
    assert NW2(Precision(5, mean=False)).bound(shape, 100) == 0
    assert NW2(classic("trivial")).bound(Shape(2, 0, 1), 100) == 0


@pytest.mark.parametrize("stream", [bernoulli, cyclic, swapping])
@pytest.mark.parametrize(("m", "n", "k"), [(3, 1, 1), (3, 2, 1), (5, 2, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_regret_is_within_the_bound(stream: Callable[..., Any], m: int, n: int, k: int, known: bool) -> None:
    T, lost = 20_000, 0.0
    learner = NW2(Precision(n, mean=False), T if known else None)
    for seed in range(4):
        rows = stream(T, m, seed)
        trace = simulate(
            learner, fixed_items(rows), k=k, measure=Precision(n, mean=False), seed=seed, checkpoints=np.array([T])
        )
        lost += (np.sort(rows.sum(axis=0))[-n:].sum() - trace.value[-1]) / 4
    bound = learner.bound(Shape(m, 0, k), T)
    assert bound is not None
    assert lost < bound
    if stream is bernoulli:
        assert lost < 0.5 * T * n * (0.5 - n / m * 0.2)  # a good part of what random rankings lose


class Recorder:
    """A measure that remembers what was shown."""

    name: ClassVar[str] = "recorder"
    higher_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.played: list[NDArray[Any]] = []

    def values(self, rankings: NDArray[Any], relevance: Any) -> Floats:
        self.played.append(rankings[:, 0].copy())
        return np.zeros(len(rankings))


@pytest.mark.parametrize("name", ["bandit", "telling-duplicate", "telling-degenerate", "two-between", "three"])
@pytest.mark.parametrize("known", [True, False])
def test_regret_in_games(name: str, known: bool) -> None:
    """Outcomes come from one distribution, then from another."""
    game, T, total, of_all = GAMES[name], 20_000, 0.0, 0.0
    learner, rng = NW2(game, T if known else None), np.random.default_rng(5)
    for seed in range(6):
        likely = rng.dirichlet(np.full(len(game.outcomes), 0.3), size=2)
        outcomes = np.concatenate([rng.choice(len(game.outcomes), size=T // 2, p=p) for p in likely])
        recorder = Recorder()
        simulate(learner, fixed_items(game.signals[:, outcomes].T), k=1, measure=recorder, seed=seed)
        losses = game.loss[:, outcomes]
        least = losses.sum(axis=1).min()
        total += (losses[np.concatenate(recorder.played), np.arange(T)].sum() - least) / 6
        of_all += (losses.sum(axis=1).mean() - least) / 6
    bound = learner.bound(Shape(len(game.actions), 0, 1), T)
    assert bound is not None
    assert total < bound
    assert total < 0.5 * of_all


# --- as printed


def test_as_printed_the_regret_is_linear() -> None:
    """P@2 of three items, over all orders of the means: T sixteen times as long, regret 16 and about 4 times."""
    p2, growth = Precision(2, mean=False), {}
    for printed in (True, False):
        lost = {}
        for T in (4000, 64_000):
            learner, lost[T] = NW2(p2, T, paper_rate=printed), 0.0
            for seed, means in enumerate(permutations([0.9, 0.5, 0.1])):
                rows = (np.random.default_rng([3, seed]).random((T, 3)) < means).astype(int)
                trace = simulate(learner, fixed_items(rows), k=1, measure=p2, seed=seed, checkpoints=np.array([T]))
                lost[T] += np.sort(rows.sum(axis=0))[1:].sum() - trace.value[-1]
        growth[printed] = log(lost[64_000] / lost[4000]) / log(16)
    assert growth[True] > 0.93
    assert growth[False] < 0.65
    assert NW2(p2, 4000, paper_rate=True).bound(Shape(3, 0, 1), 4000) is None


def test_as_printed_gamma_must_be_a_probability() -> None:
    needed = 36 * log(6)
    NW2(Precision(2, mean=False), int(needed) + 1, paper_rate=True).init(Shape(3, 0, 1))
    with pytest.raises(ValueError, match=r"horizon = 64: .*at least K\^2 ln K = 65, for K = 6"):
        NW2(Precision(2, mean=False), int(needed), paper_rate=True).init(Shape(3, 0, 1))


# --- refusals


@pytest.mark.parametrize("bad", [0, -3, 2.5, True, 10**13])
def test_bad_horizon(bad: Any) -> None:
    with pytest.raises(ValueError, match="horizon"):
        NW2(Precision(2, mean=False), bad)


@pytest.mark.parametrize(
    ("name", "m", "k", "reason"),
    [
        ("dcg", 3, 1, "use blockftrl"),
        ("sumloss", 4, 2, "use blockftrl"),
        ("ndcg", 3, 2, "use feedexp3"),
        ("ndcg", 3, 1, "hopeless"),
        ("ap", 4, 1, "hopeless"),
        ("dcg", 8, 7, "m = 8"),
        ("p@5+sum", 40, 1, r"m = 40: p@5\+sum has 658,008 classes .* use setftrl"),
    ],
)
def test_refusals_name_what_helps(name: str, m: int, k: int, reason: str) -> None:
    learner = NW2(measure(name))
    with pytest.raises(ValueError, match=reason):
        learner.init(Shape(m, 0, k))
    assert learner.bound(Shape(m, 0, k), 1000) is None


def test_hard_games_are_refused() -> None:
    for name, reason in (("label-efficient", "use feedexp3"), ("blind-pennies", "hopeless")):
        game = classic(name)
        shape = Shape(len(game.actions), 0, 1)
        with pytest.raises(ValueError, match=f"this game: .*{reason}"):
            NW2(game).init(shape)
        assert NW2(game).bound(shape, 1000) is None
    with pytest.raises(ValueError, match="3 actions needs m = 3"):
        NW2(classic("bandit")).init(Shape(4, 0, 1))


def test_printed_is_for_precision_with_a_horizon() -> None:
    for judge, horizon in ((Precision(2, mean=False), None), (measure("dcg"), 10**6)):
        with pytest.raises(ValueError, match="paper_rate = True"):
            NW2(judge, horizon, paper_rate=True)


def test_short_horizons_are_warned_of() -> None:
    for horizon, warns in ((1000, True), (10**6, False)):
        bound = NW2(Precision(2, mean=False), horizon).bound(Shape(6, 0, 1), horizon) or 0
        assert (bound > 2 * horizon) == warns
    with pytest.warns(ShortHorizonWarning, match=r"nw2: horizon = 1,000 is short: .*setftrl"):
        NW2(Precision(2, mean=False), 1000).init(Shape(6, 0, 1))
    NW2(Precision(2, mean=False), 10**6).init(Shape(6, 0, 1))


@pytest.mark.parametrize("n", [3, 5])
def test_nothing_to_learn(n: int) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 3))
    trace = simulate(NW2(Precision(n, mean=False), 200), fixed_items(rows), k=2, measure=Precision(n, mean=False))
    assert trace.value[-1] == rows.sum()


# --- answers


def test_only_the_first_answer_counts_for_precision() -> None:
    states = []
    for rest in (0, 1, np.nan):
        agent = Agent(NW2(Precision(2, mean=False)), m=4, k=3, seed=0)
        for _ in range(5):
            agent.update(agent.rank(), [1, rest, rest])
        states.append(agent._state.sums.tolist())
    assert states[0] == states[1] == states[2]
    agent = Agent(NW2(Precision(2, mean=False)), m=4, k=3, seed=0)
    agent.update(agent.rank(), [np.nan, 1, 1])
    assert agent._state.rounds[0] == 0
    assert not agent._state.sums.any()


def test_all_answers_count_for_other_measures() -> None:
    agent = Agent(NW2(measure("dcg")), m=3, k=2, seed=0)
    agent.update(agent.rank(), [1, np.nan])
    assert not agent._state.sums.any()
    agent.update(agent.rank(), [1, 0])
    assert agent._state.sums.any()


def test_grades_above_zero_are_relevant() -> None:
    found = []
    for grade in (1, 3):
        agent = Agent(NW2(Precision(2, mean=False), max_grade=3), m=4, k=1, seed=0)
        agent.update(agent.rank(), [grade])
        found.append(agent._state.sums.tolist())
    assert found[0] == found[1]


def test_late_answers_count_with_the_propensities_of_their_round() -> None:
    found = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        agent = Agent(NW2(Precision(2, mean=False)), m=4, k=1, seed=1)
        agent.update(agent.rank(), [1])
        decisions = [agent.rank() for _ in range(6)]
        for t in order:
            agent.update(decisions[t], [t % 2])
        found.append(agent._state.sums.copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("position", "value"),
    [(1, -1), (1, 12), (1, np.nan), (2, 0), (2, 1.0), (2, np.nan), (3, -0.1), (4, np.nan), (5, 2)],
)
def test_foreign_tokens_are_refused(position: int, value: float) -> None:
    agent = Agent(NW2(Precision(2, mean=False)), m=4, k=1)
    decision = agent.rank()
    decision.token[position] = value
    with pytest.raises(ValueError, match="token"):
        agent.update(decision, [1])
    assert not agent._state.sums.any()


# --- what every learner must do

INSTANCES = [
    NW2(measure("p@2"), 20_000),  # six items in the checks
    NW2(Precision(1, mean=False), 4000),
    NW2(Precision(6, mean=False), 4000),
    NW2(Precision(2, mean=False), 20_000, paper_rate=True),
    NW2(Precision(2, mean=False)),
]


@pytest.mark.parametrize(("learner", "check"), further_cases(INSTANCES))
def test_passes_every_check(learner: Learner, check: Callable[[Learner], None]) -> None:
    check(learner)


@pytest.mark.parametrize("horizon", [10**6, None])
def test_half_a_million_rounds_do_not_drift(horizon: int | None) -> None:
    """Two items are always relevant: their set is far ahead, and all stays finite."""
    T = 500_000
    learner = NW2(Precision(2, mean=False), horizon)
    rows = np.tile([1, 0, 1, 0], (T, 1))
    trace = simulate(
        learner, fixed_items(rows), k=1, measure=Precision(2, mean=False), checkpoints=np.array([T // 2, T])
    )
    lost = 2 * np.array([T // 2, T]) - trace.value
    assert lost[1] - lost[0] < lost[0]
    assert lost[1] < (learner.bound(Shape(4, 0, 1), T) or 0)
