"""Margin FTRL: a twin in plain NumPy, coins by enumeration, the inequalities of its proof, its bound in runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers.hard_streams import cyclic, fair, mean_regret, noisy, swapping, switching
from helpers.permutahedron import ALWAYS, Outcomes, closed_form
from peekrank import DCG, Agent, MarginFTRL, PairwiseLoss, Precision, Shape, SumLoss, fixed_items, measure
from peekrank.checks import LEARNER_CHECKS
from peekrank.kernels.permutahedron import leader, space
from peekrank.learners import marginftrl
from peekrank.learners._shared import position_weights
from peekrank.learners.marginftrl import MarginFTRLState
from peekrank.types import Features, Floats, Ints, LinearMeasure

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)
ROUNDS, ANSWERED, LENGTH, POOLS, SAFE = range(5)
BETA, PRICE, ASKING = range(3)


class Shown(NamedTuple):
    ranking: Ints
    token: Floats


def show(state: MarginFTRLState, uniforms: Floats) -> Shown:
    m = len(state.costs)
    shown = Shown(np.full(m, -1, dtype=np.int64), np.full(1 + state.k, np.nan))
    MarginFTRL.kernels.rank(state, NO_FEATURES, uniforms, *shown)
    return shown


def tell(state: MarginFTRLState, shown: Shown, costs: Any) -> None:
    feedback = np.asarray(costs, dtype=np.float64)[shown.ranking[: state.k]]
    MarginFTRL.kernels.update(state, NO_FEATURES, *shown, feedback)


def by_item(state: MarginFTRLState, of_order: Floats) -> Floats:
    values = np.empty(len(of_order))
    values[state.space.order] = of_order
    return values


def close(state: MarginFTRLState) -> None:
    """Settle the present plan, and make another."""
    state.clock[LENGTH] = 0
    show(state, np.full(1 + len(state.costs) + state.k, 0.5))


def played(
    learner: MarginFTRL, shape: Shape, rounds: int, seed: int, means: Floats | None = None
) -> MarginFTRLState:
    """A state after some rounds, its plan just made."""
    rng, state = np.random.default_rng(seed), learner.init(shape)
    means = rng.random(shape.m) if means is None else means
    for _ in range(rounds):
        tell(state, show(state, rng.random(learner.draws(shape))), rng.random(shape.m) < means)
    if rounds:
        close(state)
    else:
        show(state, rng.random(learner.draws(shape)))
    return state


def led(scores: Floats, rate: float, weights: Floats) -> Floats:
    s = space(len(scores))
    leader(scores, rate, weights, s)
    x = np.empty(len(scores))
    x[s.order] = s.x
    return x


# --- a twin from the formulas of the page


class Twin:
    """The algorithm of docs/learners/marginftrl.md, step by step, in plain Python."""

    def __init__(self, of: LinearMeasure, m: int, k: int) -> None:
        self.m, self.k, self.w = m, k, position_weights(of, m)
        c = MarginFTRL(of).scale(Shape(m, 0, k))
        self.c, self.v = c, self.w + c.shift
        self.L, self.S, self.Q, self.n = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
        self.beta, self.t, self.N, self.length, self.safe = 1.0, 0, 0, 0, False
        self.x, self.b, self.price, self.places = np.zeros(m), np.zeros(m), 0.0, np.zeros((m, m))

    def leader(self, costs: Floats) -> Floats:
        """In decimals; for many items that takes too long."""
        return (closed_form if self.m < 10 else led)(-costs, 1 / self.beta, self.v)

    def cost(self, x: Floats) -> float:
        return float(x @ self.L + self.beta * x @ np.log(x))

    def plan(self) -> None:
        # 1
        if self.N:
            self.L += self.N * self.b
            best = self.leader(self.L)
            self.beta += 0.5 / self.c.h * (self.N * self.price + self.cost(self.x) - self.cost(best))
            self.N = 0
        # 2
        limit = self.c.start**self.c.power + 1.5 * self.c.pace * self.t
        if not self.safe and ((1 + self.c.jump) * self.beta + self.c.hop) ** self.c.power > limit:
            self.safe, self.beta = True, max(self.beta, self.c.start)
        # 3
        self.b = np.full(self.m, 0.5) if self.safe else (self.S + 0.5) / (self.n + 1)
        self.x = self.leader(self.L + self.b)
        self.order = np.argsort(self.L + self.b, kind="stable")
        self.moved = np.zeros(self.m)
        self.exchange()
        # 4
        tied = self.w == self.w[self.k - 1]
        above = np.count_nonzero(self.w > self.w[self.k - 1])
        seen_at = np.where(tied, (self.k - above) / tied.sum(), self.w > self.w[self.k - 1])
        s, e = self.places @ seen_at, self.places @ np.maximum(self.w[self.k - 1] - self.w, 0)
        # 5
        target = np.array([self.target(i, e[i]) for i in range(self.m)])
        most = np.maximum(target - s / 2, 0).sum()
        if most > 0.5:
            self.gamma = min(most, 0.9) / 2 * (1 / self.m + np.maximum(target - s / 2, 0) / most)
        else:
            self.gamma = np.maximum(target - (1 - most) * s, 0)
        self.P = self.gamma + (1 - self.gamma.sum()) * s
        self.price = float(self.gamma @ e)
        self.length, self.reach = 1 if self.safe else min(max(self.m // 32, 1), 32), np.inf
        if not self.safe and most <= 0.5:
            self.reach = self.beta / 32
            self.length = max(1, int(min(1 + self.beta / 16, 32, 0.5 / max(self.gamma.sum(), 1e-9))))

    def exchange(self) -> None:
        """Which places are exchanged, with what probability, by whose coin; and the chances that come of it."""
        x, self.changes, self.places = self.x[self.order], [], np.zeros((self.m, self.m))
        have = self.v.copy()
        stack: list[int] = []
        for p in range(self.m):
            if have[p] > x[p]:
                stack.append(p)
            while x[p] > have[p] + 1e-15 and stack:
                g = stack[-1]
                given = min(have[g] - x[g], x[p] - have[p])
                settles_giver = have[g] - x[g] <= x[p] - have[p]
                self.changes.append((g, p, given / (have[g] - have[p]), g if settles_giver else p))
                have[g] -= given
                have[p] += given
                if settles_giver:
                    stack.pop()
        rows = np.eye(self.m)
        for g, p, chance, _ in self.changes:
            mixed = chance * (rows[g] - rows[p])
            rows[g] -= mixed
            rows[p] += mixed
        self.places[self.order] = rows

    def margins(self, i: int) -> tuple[float, float]:
        """The distance of the item's level to those of others above and below that it cannot pass."""
        order = self.order.tolist()
        ends = np.flatnonzero(np.abs(np.cumsum(self.x[order]) - np.cumsum(self.v)) < 1e-9) + 1
        pool_of = {j: int(np.searchsorted(ends, p, side="right")) for p, j in enumerate(order)}
        alone = {j: sum(other == pool for other in pool_of.values()) == 1 for j, pool in pool_of.items()}
        if not alone[i]:
            return 0.0, 0.0
        level = self.L + self.b + self.beta * np.log(self.x)
        place = order.index(i)

        def limit(others: list[int]) -> float:
            for j in others:
                if not alone[j] or self.v[order.index(j)] != self.v[place]:
                    return float(abs(level[j] - level[i]))
            return np.inf

        return limit(order[:place][::-1]), limit(order[place + 1 :])

    def target(self, i: int, e: float) -> float:
        if self.safe:
            return sqrt(self.c.V / (8 * self.beta * self.c.E)) if self.c.E else 0.5 / self.m
        b, var = self.b[i], (self.Q[i] + 0.5) / (self.n[i] + 2)
        push = min(0.5 * sqrt(self.v[0] / (self.k * self.x[i])), 2)
        adv = max(b, 1 - b) / (push * self.beta)
        if e > 0:
            adv = max(adv, sqrt(var * self.x[i] / (2 * self.beta * e)))
        up, down = self.margins(i)
        part, t = (1 if self.k == 1 else 0.5), self.t + 1
        room_up, room_down = part * up - self.beta / 16, part * down - self.beta / 16
        enough = np.inf
        if room_up > 0 and room_down > 0:
            enough = max(b / room_up, (1 - b) / room_down)
            M = min(up, down)
            if np.isfinite(M):
                place = self.order.tolist().index(i)
                steps = [abs(self.w[place] - w) for w in (self.w[self.w > self.w[place]][-1:])]
                steps += [abs(self.w[place] - w) for w in (self.w[self.w < self.w[place]][:1])]
                logarithm = 0.2 + log(1 + max(steps) * min(M / t, 1) ** 3 * t / (max(e, 1e-9) * var))
                enough = max(enough, 0.5 * logarithm * (var * t / M**2 + 1 / (2 * M)))
        return float(min(max(min(adv, enough), 2**-40), 1))

    def rank(self, uniforms: Floats) -> tuple[Ints, Floats]:
        if self.length <= self.N:
            self.plan()
        place = list(range(self.m))
        for g, p, chance, coin in self.changes:
            if 1 - uniforms[1 + coin] <= chance:
                place[g], place[p] = place[p], place[g]
        ranking = [0] * self.m
        for p, i in enumerate(self.order.tolist()):
            ranking[place[p]] = i
        tied = np.flatnonzero(self.w == self.w[self.k - 1])
        if len(tied) > 1:
            for p in range(tied[0], self.k):
                j = p + int(uniforms[1 + self.m + p] * (tied[-1] + 1 - p))
                ranking[p], ranking[j] = ranking[j], ranking[p]
        token = np.zeros(1 + self.k)
        if uniforms[0] >= self.gamma.sum():
            token[1:] = self.P[ranking[: self.k]]
        else:
            item = int(np.searchsorted(np.cumsum(self.gamma), uniforms[0], side="right"))
            if (at := ranking.index(item)) >= self.k:
                ranking.remove(item)
                ranking.insert(self.k - 1, item)
                at, token[0] = self.k - 1, 1
            token[1 + at] = self.P[item]
        return np.array(ranking), token

    def update(self, ranking: Ints, token: Floats, feedback: Floats) -> None:
        if np.isnan(feedback).all():
            return
        for i, P, c in zip(ranking, token[1:], feedback, strict=False):
            if not np.isnan(c):
                if P > 0:
                    self.L[i] += (c - self.b[i]) / P
                    self.moved[i] += (c - self.b[i]) / P
                self.Q[i] += (c - self.b[i]) ** 2
                self.S[i] += c
                self.n[i] += 1
        self.t += 1
        self.N += 1
        if np.abs(self.moved).max() > self.reach:
            self.length = 0


@pytest.mark.parametrize(
    ("of", "m", "k"),
    [
        (DCG(), 5, 1),
        (DCG(), 4, 2),
        (DCG(2), 5, 1),
        (SumLoss(), 4, 1),
        (SumLoss(), 3, 2),
        (Precision(2), 5, 1),
        (Precision(2), 4, 3),
        (Precision(3), 5, 2),
        (DCG(6), 70, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("safe", [False, True])
def test_naive_twin(of: LinearMeasure, m: int, k: int, safe: bool) -> None:
    """Some hundred rounds, with answers missing, agree to rounding: rankings, tokens, costs, beta and rates."""
    rng, learner, twin = np.random.default_rng([m, k, safe]), MarginFTRL(of), Twin(of, m, k)
    state, means = learner.init(Shape(m, 0, k)), np.linspace(0.9, 0.05, m)
    state.costs[:] = twin.L = rng.random(m)  # items of the same cost would be sorted by rounding
    if safe:  # as if much had been lost
        state.numbers[BETA] = twin.beta = 2 * twin.c.start
    for t in range(300 if m < 10 else 60):
        uniforms, costs = rng.random(learner.draws(Shape(m, 0, k))), rng.beta(means, 1 - means)  # without ties
        uniforms[1 : 1 + m] = uniforms[1]  # the last exchange of a pool settles two: rounding chooses whose coin
        costs[rng.random(m) < 0.1] = np.nan
        shown, (ranking, token) = show(state, uniforms), twin.rank(uniforms)
        assert shown.ranking.tolist() == ranking.tolist(), t
        np.testing.assert_allclose(shown.token, token, rtol=1e-7)
        np.testing.assert_allclose(state.asked, twin.gamma, rtol=1e-7, atol=1e-13)
        tell(state, shown, costs)
        twin.update(ranking, token, costs[ranking[:k]])
        np.testing.assert_allclose(state.costs, twin.L, rtol=1e-7, atol=1e-9)
        assert state.numbers[BETA] == pytest.approx(twin.beta, rel=1e-9)
        assert state.clock[[ROUNDS, ANSWERED, LENGTH]].tolist() == [twin.t, twin.N, twin.length]
    assert state.clock[SAFE] == safe


# --- one round, over all its randomness


def every_outcome(learner: MarginFTRL, state: MarginFTRLState) -> Iterator[tuple[float, int | None, Shown]]:
    """All that a round can come to under the present plan: probability, item asked about, ranking and token."""
    m, k = len(state.costs), state.k
    questions = [(float(state.asked[j]), j) for j in range(m)] + [(1 - float(state.asked.sum()), None)]
    starts = np.concatenate([[0.0], np.cumsum(state.asked)])
    none = np.zeros(k)
    coins = Outcomes(m, lambda uniforms: show(state, np.concatenate([[ALWAYS], uniforms, none])).ranking)
    shuffled = range(state.first_tie, k) if state.last_tie - state.first_tie > 1 else range(0)
    shuffles = list(product(*[range(state.last_tie - p) for p in shuffled]))
    for (asked, item), (flips, chance), picks in product(
        questions, zip(coins.uniforms, coins.probabilities, strict=True), shuffles
    ):
        if asked > 0:
            mixed = np.zeros(k)
            for p, pick in zip(shuffled, picks, strict=True):
                mixed[p] = (pick + 0.5) / (state.last_tie - p)
            first = ALWAYS if item is None else starts[item] + asked / 2
            yield asked * chance / len(shuffles), item, show(state, np.concatenate([[first], flips, mixed]))


@pytest.mark.parametrize("m", [2, 3, 4, 5])
@pytest.mark.parametrize("of", [DCG(), DCG(2), SumLoss(), Precision(1), Precision(2)], ids=str)
def test_chances_are_exact_and_estimates_without_bias(of: LinearMeasure, m: int) -> None:
    """For every k: expected weights are the plan's point, tokens the chances of teaching; the price is exact."""
    w = position_weights(of, m)
    for k, rounds in product(range(1, m + 1), (0, 3, 40)):
        learner = MarginFTRL(of)
        state = played(learner, Shape(m, 0, k), rounds, seed=10 * m + k)
        x, total, taught, asked = by_item(state, state.space.x) - state.scale.shift, 0.0, np.zeros(m), np.zeros(m)
        weight, claimed, seen, said = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
        assert MarginFTRL.kernels.chances is not None
        MarginFTRL.kernels.chances(state, NO_FEATURES, np.arange(m), np.zeros(1 + k), said)
        for probability, item, shown in every_outcome(learner, state):
            total += probability
            seen[shown.ranking[:k]] += probability
            used = shown.ranking[:k][shown.token[1:] > 0]
            taught[used] += probability
            claimed[used] = shown.token[1:][shown.token[1:] > 0]
            if item is None:
                weight[shown.ranking] += probability * w
                low = np.maximum(w[k - 1] - w, 0)  # what moving the items of this ranking would cost
                asked[shown.ranking] += probability * low
                assert shown.token[0] == 0
            else:
                assert used.tolist() == [item]
        quiet = 1 - state.asked.sum()
        assert state.asked @ asked / quiet == pytest.approx(state.numbers[PRICE], abs=1e-12)
        assert total == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(weight / quiet, x, atol=1e-11)
        np.testing.assert_allclose(taught, state.chance, atol=1e-12)
        np.testing.assert_allclose(seen, said, atol=1e-12)
        np.testing.assert_allclose(claimed[claimed > 0], state.chance[claimed > 0], rtol=1e-12)


# --- the proof: certificate, pathwise inequality, what a plan can lose, safe rates


@pytest.mark.parametrize("of", [DCG(), DCG(3), SumLoss(), Precision(2)], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_an_estimate_below_the_margin_leaves_the_leader_exactly_as_it_is(of: LinearMeasure, seed: int) -> None:
    """One item by its whole margin, all at once by half of theirs; and by more than the margin it changes."""
    rng, shape = np.random.default_rng([seed, 1]), Shape(6, 0, 1)
    state = played(MarginFTRL(of), shape, 30 * 4 ** (seed % 4), seed)
    x, beta = by_item(state, state.space.x), float(state.numbers[BETA])
    scores, up, down = state.scores.copy(), by_item(state, state.up), by_item(state, state.down)
    assert np.array_equal(led(scores, 1 / beta, state.weights), x)
    for i in range(6):
        for move, margin in ((1, up[i]), (-1, down[i])):
            if margin > 0:
                moved = scores.copy()
                moved[i] += move * min(margin, 1e9) * (1 - 1e-9)
                assert np.array_equal(led(moved, 1 / beta, state.weights), x)
                if margin < 1e9:
                    moved[i] = scores[i] + move * margin * (1 + 1e-6)
                    assert not np.array_equal(led(moved, 1 / beta, state.weights), x)
    for _ in range(20):
        half = rng.uniform(-np.minimum(down, 1e9), np.minimum(up, 1e9)) / 2
        assert np.array_equal(led(scores + half * (1 - 1e-9), 1 / beta, state.weights), x)


def test_there_are_margins() -> None:
    """The test above would pass if all items were pooled."""
    state = played(MarginFTRL(DCG()), Shape(6, 0, 1), 2000, 0, np.linspace(0.1, 0.9, 6))
    assert np.all(state.up > 0)
    assert np.all(state.down > 0)
    assert state.up[0] > 1e98
    assert state.down[5] > 1e98
    assert np.all(state.up[1:] == pytest.approx(state.down[:-1]))


def hard(kind: str, T: int, m: int, seed: int) -> Floats:
    """Costs: luck, cycles, changes of mind, and an opponent who makes the present first item cost most."""
    rng = np.random.default_rng(seed)
    costs: dict[str, Floats] = {
        "luck": rng.random((T, m)),
        "coins": (rng.random((T, m)) < rng.random(m)).astype(np.float64),
        "cycles": 1.0 - cyclic(T, m, seed).astype(np.float64),
        "change": 1.0 - swapping(T, m, seed).astype(np.float64),
    }
    return costs[kind]


@pytest.mark.parametrize("kind", ["luck", "coins", "cycles", "change", "opponent"])
@pytest.mark.parametrize(
    ("of", "k"), [(DCG(), 1), (DCG(), 2), (SumLoss(), 1), (Precision(2), 1), (Precision(2), 3)]
)
def test_pathwise_inequality(of: LinearMeasure, k: int, kind: str) -> None:
    """In every run, against every ranking: regret of the estimates <= what plans lost + h beta; no high jumps."""
    T, m, rng = 400, 4, np.random.default_rng(5)
    learner, shape = MarginFTRL(of), Shape(4, 0, k)
    state, c = learner.init(shape), learner.scale(shape)
    costs = np.zeros((T, m)) if kind == "opponent" else hard(kind, T, m, seed=3)
    gained, estimates, price, beta = 0.0, np.zeros(m), 0.0, 1.0
    for row in costs:
        shown = show(state, rng.random(learner.draws(shape)))
        after = float(state.numbers[BETA])
        assert beta <= after <= (1 + c.jump) * beta + c.hop
        beta = after
        if kind == "opponent":
            row[shown.ranking[0]] = 1.0
        x, estimate = by_item(state, state.space.x), state.hints.copy()
        for i, P in zip(shown.ranking[:k], shown.token[1:], strict=True):
            if P > 0:
                estimate[i] += (row[i] - state.hints[i]) / P
        gained += float(x @ estimate)
        estimates += estimate
        price += float(state.numbers[PRICE])
        tell(state, shown, row)
    close(state)
    np.testing.assert_allclose(state.costs, estimates, atol=1e-9 * T)
    lost = (state.numbers[BETA] - 1) / state.growth - price
    for ranking in permutations(range(m)):
        u = state.weights[np.argsort(ranking)]
        assert gained - u @ estimates <= lost + c.h * beta + 1e-9
    assert state.clock[SAFE] == 0


@pytest.mark.parametrize(("of", "m", "k"), [(DCG(), 3, 1), (DCG(), 4, 2), (SumLoss(), 3, 1), (Precision(1), 3, 1)])
def test_a_round_at_safe_rates_loses_no_more_than_the_proof_says(of: LinearMeasure, m: int, k: int) -> None:
    """Over all coins and costs: price and expected loss are at most (R / sqrt(beta)) (1 + zeta / 4)."""
    learner, shape = MarginFTRL(of), Shape(m, 0, k)
    c, rng = learner.scale(shape), np.random.default_rng(1)
    for scale in (0.0, 1.0, 3.0):
        state = learner.init(shape)
        state.costs[:] = rng.random(m) * scale * c.start
        state.numbers[BETA] = 1.5 * c.start
        show(state, np.zeros(learner.draws(shape)))
        beta, R = float(state.numbers[BETA]), sqrt(c.E * c.V / 2)
        assert state.clock[SAFE] == 1
        assert beta == 1.5 * c.start
        assert state.chance.min() >= sqrt(c.V / (8 * beta * c.E)) * (1 - 1e-12)
        assert state.asked.sum() <= 0.5
        start, x = state.costs.copy(), by_item(state, state.space.x)

        def potential(y: Floats, costs: Floats, beta: float = beta) -> float:
            return float(y @ costs + beta * y @ np.log(y))

        outcomes = list(every_outcome(learner, state))
        for row in product((0.0, 0.3, 1.0), repeat=m):
            mean = 0.0
            for probability, _, (ranking, token) in outcomes:
                moved = start.copy()
                for i, P in zip(ranking[:k], token[1:], strict=True):
                    moved[i] += (row[i] - 0.5) / P if P > 0 else 0.0
                y = led(-moved, 1 / beta, state.weights)
                mean += probability * (potential(x, moved) - potential(y, moved))
            zeta = sqrt(2 * c.E / (c.V * beta))
            assert mean + state.numbers[PRICE] <= R / sqrt(beta) * (1 + zeta / 4) + 1e-9


# --- the guard


def test_safe_rates_are_taken_for_good_when_beta_has_grown_too_fast() -> None:
    learner, shape, rng = MarginFTRL(DCG()), Shape(5, 0, 1), np.random.default_rng(0)
    state, c = learner.init(shape), learner.scale(shape)
    show(state, rng.random(learner.draws(shape)))
    assert state.clock[SAFE] == 0
    state.numbers[BETA] = (c.start - c.hop) / (1 + c.jump) * (1 - 1e-9)
    close(state)
    assert state.clock[SAFE] == 0  # just not
    state.numbers[BETA] = (c.start - c.hop) / (1 + c.jump) * (1 + 1e-9)
    close(state)
    assert state.clock[SAFE] == 1
    assert state.numbers[BETA] == c.start
    for _ in range(300):
        tell(state, show(state, rng.random(learner.draws(shape))), rng.random(5) < np.linspace(0.1, 0.9, 5))
        assert np.all(state.hints == 0.5)
        assert np.ptp(state.asked) < 0.5
        assert state.clock[SAFE] == 1
        assert state.clock[LENGTH] <= 1


# --- the bound


def test_constants_of_the_bound_by_hand() -> None:
    """SumLoss of three items, k = 1: w = 2, 1, 0, E = 3; v = w + a."""
    c = MarginFTRL(SumLoss()).scale(Shape(3, 0, 1))
    v = np.array([2, 1, 0]) + c.shift
    assert c.E == 3
    assert pytest.approx(3 + 3 * c.shift) == c.V
    assert c.h == pytest.approx(float(v @ np.log(3 * v / c.V)))
    phi = [exp(z) - 1 - z for z in (1 / 16, 1 / 16 + 1 / 2, 1 / 16 + 2)]
    jump = (c.V * phi[0] + v[0] / 4 * max(phi[1] * 4, phi[2] / 4)) / (2 * c.h)
    assert c.jump == pytest.approx(jump)
    assert c.hop == pytest.approx((12 * 2 + 2) / (2 * c.h))
    large = MarginFTRL(SumLoss()).scale(Shape(100, 0, 2))  # plans that explore are for three rounds
    assert large.hop == pytest.approx((99 * 100 * (4 * 3 * 2 + 1) + 3 * 98) / (2 * large.h))
    start = max(c.V * 9 / 6, 150 / c.V, 12 / c.h, 4 * (1 + c.jump + c.hop))
    assert c.start == pytest.approx(start)
    R = sqrt(3 * c.V / 2)
    most = R / (2 * sqrt(start)) + 1.08 * 3 * v[0] / c.V
    pace = 3 * R / (4 * c.h) * (1 + sqrt(6 / (c.V * start)) / 4) * (1 + most / (8 * c.h * start))
    assert c.pace == pytest.approx(pace)
    bound = c.h * (3 * (start**1.5 + 1.5 * pace * 10_031) ** (2 / 3) - 2)
    assert MarginFTRL(SumLoss()).bound(Shape(3, 0, 1), 10_000) == pytest.approx(bound)
    assert MarginFTRL(SumLoss(), max_grade=3).bound(Shape(3, 0, 1), 10_000) == pytest.approx(3 * bound)


def test_the_shift_is_the_best_of_its_range() -> None:
    """h V, on which the bound depends, is not less for another shift."""
    for of, m in ((DCG(), 10), (Precision(3), 10), (SumLoss(), 6)):
        w, c = position_weights(of, m), MarginFTRL(of).scale(Shape(m, 0, 1))

        def product_of(a: float, w: Floats = w) -> float:
            v = w + a
            return float(v @ np.log(v / v.mean())) * float(v.sum())

        low, high = w[w > 0][-1] / 4, max(w.mean(), w[w > 0][-1])
        assert low * 0.999 <= c.shift <= high * 1.001
        assert product_of(c.shift) <= 1.01 * min(product_of(a) for a in np.geomspace(low, high, 500))


@pytest.mark.parametrize("stream", [switching, fair, noisy])
@pytest.mark.parametrize(
    ("of", "k", "top"),
    [
        (SumLoss(), 1, 1),
        (PairwiseLoss(), 3, 1),
        (DCG(), 1, 2),
        (DCG(), 8, 1),
        (DCG(3), 3, 1),
        (Precision(2), 1, 1),
    ],
    ids=str,
)
def test_regret_is_below_the_bound(of: LinearMeasure, k: int, top: int, stream: Any) -> None:
    learner = MarginFTRL(of, max_grade=top)
    lost = mean_regret(learner, [stream(3000, 8, top, seed) for seed in range(8)], k)
    assert lost < learner.bound(Shape(8, 0, k), 3000)


def test_less_regret_than_half_of_blockftrl() -> None:
    from peekrank import BlockFTRL

    rounds = [
        fixed_items((np.random.default_rng(s).random((20_000, 8)) < np.linspace(0.9, 0.1, 8)).astype(int))
        for s in range(3)
    ]
    assert mean_regret(MarginFTRL(DCG()), rounds, 1) < 0.7 * mean_regret(BlockFTRL(DCG()), rounds, 1)


@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 1), (5, 5), (3, 2)])
def test_where_all_rankings_are_equal_there_is_nothing_to_lose(m: int, k: int) -> None:
    learner = MarginFTRL(Precision(5))
    assert learner.bound(Shape(m, 0, k), 10) == 0
    agent = Agent(learner, m=m, k=k)
    for _ in range(40):
        agent.update(decision := agent.rank(), np.zeros(k))
        assert sorted(decision.ranking.tolist()) == list(range(m))


@pytest.mark.parametrize(("name", "max_grade"), [("ndcg", 1), ("ap", 1), ("auc", 1), ("pairwiseloss", 2)])
def test_measures_that_cannot_be_learned(name: str, max_grade: int) -> None:
    unlearnable: Any = measure(name)
    with pytest.raises(ValueError, match=f"{name} cannot be learned"):
        MarginFTRL(unlearnable, max_grade=max_grade)


@pytest.mark.parametrize("k", [1, 5, 6])
@pytest.mark.parametrize("learner", [MarginFTRL(DCG()), MarginFTRL(Precision(2))], ids=str)
def test_passes_every_check_with_fewer_and_more_answers(
    learner: MarginFTRL, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peekrank.checks.learners._K", k)
    for check in LEARNER_CHECKS.values():
        check(learner)


# --- answers late, missing, in part


def test_a_round_without_any_answer_is_as_if_it_had_not_been() -> None:
    learner, shape = MarginFTRL(DCG()), Shape(5, 0, 2)
    states = [played(learner, shape, 50, 0) for _ in range(2)]
    rng = np.random.default_rng(2)
    for _ in range(50):
        uniforms, costs = rng.random(learner.draws(shape)), rng.random(5)
        tell(states[1], show(states[1], rng.random(learner.draws(shape))), np.full(5, np.nan))
        for state in states:
            tell(state, show(state, uniforms), costs)
        for one, two in zip(states[0][:10], states[1][:10], strict=True):
            assert np.array_equal(one, two)


def test_of_k_answers_those_that_came_count() -> None:
    learner, shape = MarginFTRL(DCG()), Shape(5, 0, 3)
    state = played(learner, shape, 80, 0)
    shown = show(state, np.concatenate([[ALWAYS], np.full(8, 0.5)]))
    before, hints, costs = state.costs.copy(), state.hints.copy(), np.full(5, np.nan)
    i, j = shown.ranking[[0, 2]]
    costs[[i, j]] = 1.0, 0.25
    tell(state, shown, costs)
    before[i] += (1 - hints[i]) / shown.token[1]
    before[j] += (0.25 - hints[j]) / shown.token[3]
    np.testing.assert_allclose(state.costs, before, rtol=1e-12)
    assert state.clock[ROUNDS] == 81


def test_answers_in_any_order_come_to_the_same() -> None:
    """Under one plan, what a decision teaches is in its token."""
    learner, shape, rng = MarginFTRL(SumLoss()), Shape(5, 0, 2), np.random.default_rng(0)
    states = [played(learner, shape, 60, 1) for _ in range(2)]
    shown = [show(states[0], rng.random(learner.draws(shape))) for _ in range(8)]
    costs = rng.random((8, 5))
    for state, order in zip(states, (np.arange(8), rng.permutation(8)), strict=True):
        for i in order:
            tell(state, shown[i], costs[i])
    for one, two in zip(states[0][:10], states[1][:10], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_an_item_that_is_never_answered_for_is_not_favoured() -> None:
    """It is taken to cost one half, and ends between the good and the bad ones."""
    learner, shape, rng = MarginFTRL(DCG()), Shape(5, 0, 1), np.random.default_rng(0)
    state, means = learner.init(shape), np.array([0.1, 0.2, 0.0, 0.8, 0.9])
    for _ in range(6000):
        costs = (rng.random(5) < means).astype(np.float64)
        costs[2] = np.nan
        tell(state, show(state, rng.random(learner.draws(shape))), costs)
    assert np.argsort(state.costs + state.clock[ANSWERED] * state.hints).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [-0.5, 1.5, 1e-14])
def test_foreign_tokens_are_refused(wrong: float) -> None:
    agent = Agent(MarginFTRL(SumLoss()), m=4, k=3)
    decision = agent.rank()
    decision.token[2] = wrong
    with pytest.raises(ValueError, match="token"):
        agent.update(decision, [1, 0, 1])


def test_grades_of_any_size() -> None:
    """Gains up to 2^255: costs are parts of the largest gain, and nothing overflows."""
    grades = np.array([0, 1, 3, np.nan])
    np.testing.assert_allclose(MarginFTRL(DCG(), max_grade=3).perceive(grades), [1, 6 / 7, 0, np.nan])
    rng = np.random.default_rng(0)
    rounds = fixed_items(rng.choice([0, 255], size=(2000, 5), p=[0.7, 0.3]).astype(np.uint8))
    learner = MarginFTRL(DCG(), max_grade=255)
    assert 0 < mean_regret(learner, [rounds], 1) < learner.bound(Shape(5, 0, 1), 2000)


@pytest.mark.parametrize("name", ["dcg", "dcg@10", "p@3", "p@3000", "sumloss", "rbp"])
def test_the_shift_for_many_places_is_as_good_as_if_all_were_looked_at(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, m = measure(name), 20_000
    _, V, h = marginftrl._entropy.__wrapped__(judge, m)
    monkeypatch.setattr(marginftrl, "_MANY", m)
    _, best_V, best_h = marginftrl._entropy.__wrapped__(judge, m)
    assert V * h == pytest.approx(best_V * best_h, rel=1e-2)
