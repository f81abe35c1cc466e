"""Ridge against dense algebra, a naive twin, and what it promises: any scale, any order of answers."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import e, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.naive_exploration import doubts, price
from peekrank import NDCG, Agent, Decision, Ridge, Rounds, RTopKF, Shape, Uniform, simulate
from peekrank.engine.serialization import arrays_of
from peekrank.learners.ridge.learner import MAX_COLUMNS
from peekrank.learners.ridge.state import RESERVE, RidgeState
from peekrank.types import Features, Floats, linear_in_features

M, D = 8, 5
FIRST_NORMALS = [-1.883908, 0.864507, 0.227608]
SCALES = np.array([1e-6, 1.0, 1e6, 30.0, 1e-3])


def lists(count: int, seed: int = 0, m: int = M, d: int = D) -> Features:
    return np.random.default_rng(seed).normal(size=(count, m, d)).astype(np.float32)


def grades(X: Features, seed: int = 1) -> Floats:
    """Grades 0 to 3 that are nearly linear in the features."""
    hidden = X @ np.linspace(1, -1, X.shape[-1]) + np.random.default_rng(seed).normal(scale=0.5, size=X.shape[:-1])
    return np.digitize(hidden, [-1, 0, 1.5]).astype(np.float64)


class Seen(NamedTuple):
    """Decisions, and what was answered to each."""

    decisions: list[Decision]
    answers: list[Floats]


def play(agent: Agent, X: Features, relevance: Floats, missing: float = 0.0) -> Seen:
    rng, seen = np.random.default_rng(2), Seen([], [])
    for features, row in zip(X, relevance, strict=True):
        decision = agent.rank(features)
        answers = row[decision.ranking[: agent.shape.k]]
        answers[rng.random(len(answers)) < missing] = np.nan
        agent.update(decision, answers)
        seen.decisions.append(decision)
        seen.answers.append(answers)
    return seen


def told(decision: Decision) -> Floats:
    """The propensities of a decision; none if there are none."""
    return np.empty(0) if decision.propensities is None else decision.propensities


class FeedbackTotals(NamedTuple):
    """Features, grade and weight of every answer."""

    rows: Floats
    grades: Floats
    weights: Floats


def dense(seen: Seen) -> FeedbackTotals:
    parts = [
        (d.features[d.ranking[: len(a)]][there], a[there], d.token[1 : 1 + len(a)][there])
        for d, a in zip(*seen, strict=True)
        for there in (~np.isnan(a),)
    ]
    rows, grades, weights = (np.concatenate(part, dtype=np.float64) for part in zip(*parts, strict=True))
    return FeedbackTotals(rows, grades, weights)


def centred(answers: FeedbackTotals) -> Floats:
    """Rows times the roots of their weights, but for what a constant explains."""
    rows, _, weights = answers
    found: Floats = (rows - np.average(rows, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    return found


def solution(answers: FeedbackTotals, prior: Floats) -> tuple[Floats, float]:
    """Weights of the ridge regression with a free constant, and what it leaves of the answers."""
    rows, (_, grades, weights) = centred(answers), answers
    told = (grades - np.average(grades, weights=weights)) * np.sqrt(weights)
    w = np.linalg.lstsq(np.vstack([rows, np.diag(np.sqrt(prior))]), np.r_[told, 0 * prior], rcond=None)[0]
    return w, float(((told - rows @ w) ** 2).sum() + (prior * w**2).sum())


@pytest.mark.parametrize(("rounds", "missing"), [(7, 0.0), (300, 0.0), (300, 0.4), (3000, 0.0)])
def test_weights_are_those_of_a_dense_solution(rounds: int, missing: float) -> None:
    agent, X = Agent(Ridge(), m=M, k=2, d=D), lists(rounds)
    seen = play(agent, X, grades(X), missing)
    state = agent.state
    answers = dense(seen)
    w, left = solution(answers, state.prior[:D])
    assert np.allclose(state.w[:D], w, rtol=1e-9, atol=1e-12)
    assert not state.w[D:].any()
    assert state.sums[1] == len(answers.grades)
    assert np.isclose(state.sums[3], left, rtol=1e-9)


@pytest.mark.slow
def test_weights_are_those_of_a_dense_solution_after_many_answers_and_on_all_scales() -> None:
    agent, X = Agent(Ridge(), m=M, k=5, d=D), lists(20_000) * SCALES.astype(np.float32)
    seen = play(agent, X, grades(X / SCALES))
    answers = dense(seen)
    assert len(answers.grades) == 100_000
    w, left = solution(answers._replace(rows=answers.rows / SCALES), agent.state.prior[:D] / SCALES**2)
    assert np.allclose(agent.state.w[:D] * SCALES, w, rtol=1e-10, atol=1e-12)
    assert np.isclose(agent.state.sums[3], left, rtol=1e-10)


def test_the_prior_is_the_variance_of_the_columns_of_the_last_refresh() -> None:
    agent, X = Agent(Ridge(), m=M, k=1, d=D), lists(100) + np.float32(3)
    play(agent, X, grades(X))
    assert np.allclose(agent.state.prior[:D], X[:64].reshape(-1, D).var(0), rtol=1e-5)


def test_columns_that_are_seldom_hot_have_the_prior_of_those_that_are_often() -> None:
    agent, rng = Agent(Ridge(), m=10, k=1, d=10), np.random.default_rng(0)
    X = np.tile(np.eye(10, dtype=np.float32), (64, 1, 1))
    play(agent, X, rng.integers(0, 2, (64, 10)).astype(float))
    assert np.allclose(agent.state.prior[:10], 0.9)


def test_powers_of_two_change_no_bit() -> None:
    X, powers = lists(400), np.float32(2.0) ** np.array([-30, 20, 3, 0, 45])
    relevance = grades(X)
    for learner in (Ridge(), Ridge("sampling"), Ridge(expand=15), Ridge(decay=0.99)):
        one, two = (Agent(learner, m=M, k=2, d=D, seed=3) for _ in range(2))
        for a, b in zip(
            play(one, X, relevance).decisions, play(two, X * powers, relevance).decisions, strict=True
        ):
            assert np.array_equal(a.ranking, b.ranking)
            assert np.array_equal(told(a), told(b))


def test_scale_and_shift_of_columns_do_not_matter() -> None:
    X = lists(400)
    relevance, shift = grades(X), np.array([0, 5, 0, -3, 20], np.float32)
    agents = [Agent(Ridge(), m=M, k=1, d=D, seed=4) for _ in range(3)]
    changed = (X, X * SCALES.astype(np.float32), X + shift)
    shown = [[d.ranking for d in play(a, Y, relevance).decisions] for a, Y in zip(agents, changed, strict=True)]
    assert np.mean(np.all(np.array(shown[0]) == shown[1], axis=1)) > 0.98
    assert np.mean(np.all(np.array(shown[0]) == shown[2], axis=1)) > 0.98
    assert np.allclose(agents[1].state.w[:D] * SCALES, agents[0].state.w[:D], rtol=0.05, atol=0.01)
    assert np.allclose(agents[2].state.w[:D], agents[0].state.w[:D], rtol=0.05, atol=0.01)


def test_the_unit_of_grades_does_not_matter() -> None:
    X = lists(300)
    relevance = grades(X)
    one, two = (Agent(Ridge(), m=M, k=1, d=D, seed=5) for _ in range(2))
    for a, b in zip(play(one, X, relevance).decisions, play(two, X, 64 * relevance).decisions, strict=True):
        assert np.array_equal(a.ranking, b.ranking)
        assert np.array_equal(told(a), told(b))


@pytest.mark.parametrize("learner", [Ridge(), Ridge("sampling"), Ridge(expand=20)], ids=str)
def test_the_order_of_answers_does_not_matter(learner: Ridge) -> None:
    """With a feature map, which fits its prior after 1, 2, 4, ... answered rounds, that between two such times."""
    X = lists(150)
    relevance, rng = grades(X), np.random.default_rng(7)
    agents = [Agent(learner, m=M, k=3, d=D, seed=6) for _ in range(3)]
    for agent in agents:
        decisions = [agent.rank(features) for features in X]
        blocks = np.split(np.arange(len(X)), 2 ** np.arange(8) if learner.expand else [])
        order = blocks if agent is agents[0] else [rng.permutation(block) for block in blocks]
        for t in np.concatenate(order):
            answers = relevance[t][decisions[t].ranking[:3]]
            answers[t % 4 : t % 4 + 1] = np.nan  # none, or one that is not answered
            agent.update(decisions[t], answers)
    for name in learner.persistent:
        one, *others = (dict(arrays_of(agent.state))[name] for agent in agents)
        for other in others:
            assert np.allclose(one, other, rtol=1e-9, atol=1e-9), name


def test_a_round_without_answers_changes_what_is_known_of_columns_only() -> None:
    agent, X = Agent(Ridge(), m=M, k=2, d=D), lists(40)
    play(agent, X[:30], grades(X[:30]))
    before = deepcopy(agent.state)
    play(agent, X[30:], grades(X[30:]), missing=1.0)
    for name in ("R", "ends", "sides", "w", "prior"):
        assert np.array_equal(getattr(agent.state, name), getattr(before, name)), name


def scaled(propensities: list[float]) -> list[float]:
    """Scaled to a half if they add up to more."""
    total = sum(propensities)
    return [c * min(1, 0.5 / total) if total else c for c in propensities]


class Twin:
    """Ridge by doubt from its definition, with dense matrices."""

    def __init__(self, k: int, width: float, share: float, d: int = D) -> None:
        self.k, self.width, self.share = k, width, share
        self.rows: list[Floats] = []
        self.grades: list[float] = []
        self.weights: list[float] = []
        self.looked: list[Floats] = []
        self.prior = np.zeros(d)
        self.rounds = 0

    def question(self, X: Floats) -> tuple[list[int], list[float], list[float]]:
        """The order by score, the probability of each position to be seen, and the weight of an answer there."""
        n = len(X)
        self.looked += list(X)
        if not self.rounds:
            self.prior = np.var(self.looked, axis=0)
        w, sigma = np.zeros(X.shape[1]), 1.0
        spread: Any = np.diag(1 / self.prior)
        if self.rows:
            told = FeedbackTotals(np.array(self.rows), np.array(self.grades), np.array(self.weights))
            w, left = solution(told, self.prior)
            worth = told.weights.sum() ** 2 / np.square(told.weights).sum()
            sigma = sqrt(left / worth) if left > 1e-20 else 1.0
            spread = np.linalg.inv(centred(told).T @ centred(told) + np.diag(self.prior))
        scores, away = X @ w, X - X.mean(0)
        errors = [sigma * sqrt(x @ spread @ x) for x in away]
        widths = [self.width * sqrt(log(e + self.rounds)) * error for error in errors]
        order = sorted(range(n), key=lambda i: (-scores[i], i))
        means, us = [float(scores[i]) for i in order], [widths[i] for i in order]
        weights = [1 / np.log2(p + 2) for p in range(n)]
        found, propensities = doubts(means, us, weights), [0.0] * n
        for p in range(self.k, n):
            worth, paid = self.share * found[p] * us[p], price(means, weights, self.k, p)
            propensities[p] = 0.0 if worth == 0 else 1.0 if worth >= paid else worth / paid
        noise = sum(error**2 for error in errors)
        noise /= noise + float(((scores - scores.mean()) ** 2).sum())
        known = len(self.rows) / X.shape[1]
        least = max(1.2 * noise, 0.1 * (1 + known) ** (-1 / 3)) / n
        propensities = scaled([max(c, least) if p >= self.k else 0.0 for p, c in enumerate(scaled(propensities))])
        seen = [1.0] * (self.k - 1) + [1 - sum(propensities)] + propensities[self.k :]
        return order, seen, [min(max(1.0, known) ** 0.6, 1 / p) for p in seen]

    def learn(self, rows: Floats, grades: Floats, weights: list[float]) -> None:
        self.rows += list(rows)
        self.grades += list(grades)
        self.weights += weights
        self.rounds += 1
        if self.rounds & (self.rounds - 1) == 0:
            self.prior = np.var(self.looked, axis=0)


@pytest.mark.parametrize("k", [1, 3])
def test_it_is_its_naive_twin(k: int) -> None:
    learner, X = Ridge(confidence=1.5, explore_rate=0.05), lists(120)
    agent, twin, relevance = Agent(learner, m=M, k=k, d=D, seed=8), Twin(k, 1.5, 0.05), grades(X)
    for features, row in zip(X, relevance, strict=True):
        decision = agent.rank(features)
        order, propensities, weights = twin.question(features.astype(np.float64))
        expected = np.empty(M)
        expected[order] = propensities
        assert decision.propensities is not None
        assert np.allclose(decision.propensities, expected, rtol=1e-6, atol=1e-9)
        possible = [order] + [[*order[: k - 1], order[p], *order[k - 1 : p], *order[p + 1 :]] for p in range(k, M)]
        assert decision.ranking.tolist() in possible
        assert decision.explored == (decision.ranking.tolist() != order)
        shown = decision.ranking[:k]
        expected_weights = [weights[order.index(i)] for i in shown]
        assert np.allclose(decision.token[1:], expected_weights, rtol=1e-6)
        agent.update(decision, row[shown])
        twin.learn(features[shown].astype(np.float64), row[shown], expected_weights)


def test_sampling_draws_from_the_posterior() -> None:
    """The share of draws that put an item on top, against weights that NumPy draws."""
    agent, X, rng = (
        Agent(Ridge("sampling", confidence=1.0), m=M, k=1, d=D, seed=9),
        lists(31),
        np.random.default_rng(0),
    )
    answers = dense(play(agent, X[:-1], grades(X[:-1])))
    w, left = solution(answers, agent.state.prior[:D])
    spread = np.linalg.inv(centred(answers).T @ centred(answers) + np.diag(agent.state.prior[:D]))
    drawn = rng.multivariate_normal(w, left / len(answers.grades) * spread, 20_000)
    best = np.bincount((drawn @ X[-1].T).argmax(1), minlength=M) / 20_000
    gamma = min(0.5, 0.3 * 31 ** (-1 / 3))
    shown = np.bincount([agent.rank(X[-1]).ranking[0] for _ in range(20_000)], minlength=M) / 20_000
    assert np.allclose(shown, (1 - gamma) * best + gamma / M, atol=0.02)
    assert agent.rank(X[-1]).propensities is None


WILD: dict[str, Callable[[Features], NDArray[Any]]] = {
    "constant": lambda X: np.concatenate([X[..., :2], np.full_like(X[..., :3], 7.0)], axis=-1),
    "duplicates": lambda X: X[..., [0, 0, 1, 1, 1]],
    "huge": lambda X: X * np.array([1e8, 1, 1e14, 1, 1e-20]),
    "a huge item": lambda X: X + 1e8 * (np.arange(len(X))[:, None, None] == 10),
    "all zeros": lambda X: 0 * X,
    "one at last": lambda X: X * (np.arange(len(X)) > 50)[:, None, None],
    "far away": lambda X: X + np.array([1e5, 0, -1e4, 0, 0]),
}


@pytest.mark.parametrize("learner", [Ridge(), Ridge("sampling"), Ridge(expand=10), Ridge(decay=0.9)], ids=str)
@pytest.mark.parametrize("kind", WILD)
def test_wild_features(kind: str, learner: Ridge) -> None:
    X = lists(100)
    agent = Agent(learner, m=M, k=1, d=D, seed=1)
    for decision in play(agent, WILD[kind](X).astype(np.float32), grades(X)).decisions:
        assert np.array_equal(np.sort(decision.ranking), np.arange(M))
    for name, array in arrays_of(agent.state):
        assert np.isfinite(array).all(), name
    learner.validate_state(agent.state)
    assert not agent.failure()


@pytest.mark.parametrize("kind", ["constant", "duplicates", "huge", "far away"])
def test_wild_features_are_learned_from(kind: str) -> None:
    X = lists(1500)
    Y = np.ascontiguousarray(WILD[kind](X), np.float32)
    relevance = (X[..., 0] + np.random.default_rng(0).normal(scale=0.3, size=X.shape[:-1]) > 0.5).astype(np.uint8)
    rounds = Rounds(Y.reshape(-1, D), relevance.ravel(), np.arange(0, len(X) * M + 1, M))
    half = np.array([750, 1500])
    late = [
        np.diff(simulate(one, rounds, k=1, measure=NDCG(), checkpoints=half).value)[0] / 750
        for one in (Ridge(), Uniform())
    ]
    assert 1 - late[0] < 0.3 * (1 - late[1])


def test_one_feature() -> None:
    agent, X = Agent(Ridge(), m=M, k=1, d=1), lists(200, d=1)
    play(agent, X, grades(X))
    assert agent.state.w[0] > 0
    assert not agent.state.w[1:].any()


def test_users_of_one_hot_blocks_cost_what_their_blocks_cost() -> None:
    """Twenty items, the user's sixteen features in columns of each item's own."""
    agent, rng = Agent(Ridge(), m=20, k=5, d=20 * 16), np.random.default_rng(0)
    for _ in range(60):
        X = np.zeros((20, 20, 16), np.float32)
        X[range(20), range(20)] = rng.normal(size=16)
        decision = agent.rank(X.reshape(20, -1))
        agent.update(decision, rng.integers(0, 2, 5))
    assert np.all(agent.state.ends <= np.repeat(np.arange(16, 321, 16), 16))


def test_items_are_remembered_beside_their_features() -> None:
    """One-hot columns first: the effect of an item itself is found, and that of a feature, too."""
    rng, m = np.random.default_rng(0), 6
    own = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 1.0])
    feature = rng.normal(size=(800, m, 1))
    X = np.concatenate([np.tile(np.eye(m), (800, 1, 1)), feature], axis=2).astype(np.float32)
    relevance = np.clip(np.round(own + 1 + feature[..., 0]), 0, 4)
    agent = Agent(Ridge(), m=m, k=2, d=m + 1)
    play(agent, X, relevance)
    w = agent.state.w[: m + 1]
    assert np.corrcoef(w[:m], own)[0, 1] > 0.97
    assert w[m] > 0.5


def test_decay_fades_answers_and_keeps_the_prior() -> None:
    learner, X = Ridge(decay=0.95), lists(90)
    agent = Agent(learner, m=M, k=2, d=D)
    rows, _, weights = dense(play(agent, X, grades(X)))
    ages = 0.95 ** np.arange(len(rows))[::-1]
    state: RidgeState = agent.state
    centre = state.R[:D, :D].T @ state.R[:D, :D] - (rows * (weights * ages)[:, None]).T @ rows
    assert np.allclose(centre, np.diag(state.prior[:D]), atol=1e-8)
    assert np.isclose(state.sums[1], ages.sum())
    today = X[:64].reshape(-1, D).var(0)
    assert np.all(state.prior[:D] > 0.5 * today)
    assert np.all(state.prior[:D] < 1.5 * today)


def test_decay_follows_change() -> None:
    X, end = lists(3000), np.array([1500, 2000, 3000])
    relevance = grades(X)
    relevance[1500:] = 3 - relevance[1500:]
    rounds = Rounds(X.reshape(-1, D), relevance.astype(np.uint8).ravel(), np.arange(0, len(X) * M + 1, M))
    lost = [
        1000 - np.diff(simulate(one, rounds, k=2, measure=NDCG(), checkpoints=end).value)[-1]
        for one in (Ridge(decay=0.99), Ridge())
    ]
    assert lost[0] < lost[1] / 3


def test_its_kernels_learn_from_the_decisions_of_others() -> None:
    other, learner, X = Agent(RTopKF(), m=M, k=2, d=D, seed=1), Ridge(), lists(200)
    state = learner.init(Shape(M, D, 2))
    relevance, seen = grades(X), Seen([], [])
    for features, row in zip(X, relevance, strict=True):
        decision = other.rank(features)
        answers = row[decision.ranking[:2]]
        other.update(decision, answers)
        learner.kernels.update(state, features, decision.ranking.copy(), np.zeros(3), answers)
        seen.decisions.append(decision)
        seen.answers.append(answers)
    rows, told, _ = dense(seen)
    w, left = solution(FeedbackTotals(rows, told, np.ones(len(rows))), state.prior[:D])
    assert np.allclose(state.w[:D], w, rtol=1e-9)
    assert np.isclose(state.sums[3], left)
    assert state.w[0] > 0 > state.w[D - 1]


def expanded(rows: Floats) -> Floats:
    """Features, their squares, and their products."""
    first, second = np.triu_indices(rows.shape[1], 1)
    return np.hstack([rows, rows**2, rows[:, first] * rows[:, second]])


def log_likelihood(answers: FeedbackTotals, prior: Floats) -> float:
    """Of the answers, weights and the constant integrated out, with the variance that makes them most likely."""
    rows, count = np.c_[answers.rows, np.ones(len(answers.grades))], len(answers.grades)
    precision = (rows * answers.weights[:, None]).T @ rows + np.diag(np.r_[prior, 0])
    volume = np.linalg.slogdet(precision)[1] - np.log(prior).sum()
    return float(-volume / 2 - count / 2 * np.log(solution(answers, prior)[1]))


def fitted(product: float) -> tuple[float, set[float]]:
    """The prior of a feature map after 1,024 rounds, and by which factors it changed: those of dense algebra."""
    agent, X = Agent(Ridge(expand=15), m=M, k=2, d=D), lists(1024)
    relevance = np.digitize(X[..., 0] + product * X[..., 1] * X[..., 2] + X[..., 3] / 2, [-1, 0, 1.5])
    seen, found = Seen([], []), set[float]()
    for t, (features, row) in enumerate(zip(X, relevance.astype(np.float64), strict=True), 1):
        before = agent.state.sums[RESERVE]
        new = play(agent, features[None], row[None])
        seen = Seen(seen.decisions + new.decisions, seen.answers + new.answers)
        change, expected = float(agent.state.sums[RESERVE] / before), 1.0
        if 2 * t > 24 and t & (t - 1) == 0:  # more answers than columns, at a refresh
            answers, columns = dense(seen), np.arange(D + 15)
            answers = answers._replace(rows=expanded(answers.rows))
            likely = {
                factor: log_likelihood(
                    answers, agent.state.prior[: D + 15] * np.where(columns < D, 1, factor / change)
                )
                for factor in (4.0, 0.25, 1.0)
            }
            expected = next(factor for factor in likely if factor == 1 or likely[factor] > likely[1.0])
            found.add(expected)
        assert change == expected
    return float(agent.state.sums[RESERVE]), found


def test_the_prior_of_a_feature_map_is_moved_to_where_answers_are_more_likely() -> None:
    (linear, some), (product, others) = fitted(0.0), fitted(1.0)
    assert product < linear
    assert some | others == {4.0, 0.25, 1.0}


def test_a_feature_map_learns_products() -> None:
    X = lists(2000)
    relevance = (X[..., 0] * X[..., 1] - X[..., 2] ** 2 > 0).astype(np.uint8)
    rounds = Rounds(X.reshape(-1, D), relevance.ravel(), np.arange(0, len(X) * M + 1, M))
    half = np.array([1000, 2000])
    linear, expanded = (
        np.diff(simulate(one, rounds, k=1, measure=NDCG(), checkpoints=half).value)[0] / 1000
        for one in (Ridge(), Ridge(expand=15))
    )
    assert expanded > linear + 0.1


@pytest.mark.parametrize(
    ("expand", "squares", "products", "waves"),
    [(0, 0, 0, 0), (3, 0, 0, 3), (5, 5, 0, 0), (8, 5, 0, 3), (14, 5, 0, 9), (15, 5, 10, 0), (100, 5, 10, 0)],
)
def test_columns_of_a_feature_map_are_squares_and_products_and_waves_where_these_do_not_fit(
    expand: int, squares: int, products: int, waves: int
) -> None:
    learner = Ridge(expand=expand)
    state = learner.init(Shape(M, D, 1))
    factors = state.feature_map.factors
    assert np.sum(factors[0] == factors[1]) == squares
    assert len({tuple(pair) for pair in factors.T}) == factors.shape[1] == squares + products
    assert state.feature_map.directions.shape == (waves, D)
    assert len(learner.weights(state)) == D + squares + products + waves


def test_waves_are_cosines_of_features_in_the_units_of_their_first_list() -> None:
    learner, X = Ridge(expand=9), lists(30) * SCALES.astype(np.float32) + np.float32(3)
    agent = Agent(learner, m=M, k=1, d=D)
    play(agent, X, grades(X / SCALES))
    state, first = agent.state, X[0].astype(np.float64)
    z = (X[-1].astype(np.float64) - first.mean(0)) / first.std(0)
    waves = np.cos(z @ state.feature_map.directions.T + state.feature_map.phases)
    columns = np.hstack([X[-1].astype(np.float64), X[-1].astype(np.float64) ** 2, waves])
    assert np.allclose(learner.scores(state, X[-1]), columns @ state.w[: columns.shape[1]])


def test_directions_of_waves_are_normal_and_the_same_for_ever() -> None:
    directions, phases = Ridge(expand=600).init(Shape(2, 50, 1)).feature_map[1:3]
    assert directions.shape == (550, 50)
    assert abs(directions.mean()) < 0.005
    assert np.allclose(np.square(directions).sum(1).mean(), 1, atol=0.03)
    assert np.allclose(np.corrcoef(directions.T), np.eye(50), atol=0.2)
    assert np.allclose(np.histogram(phases, 4, (0, 2 * np.pi))[0] / 550, 0.25, atol=0.06)
    assert np.allclose(directions[0, :3] * np.sqrt(50), FIRST_NORMALS, atol=1e-6)


def test_waves_learn_products_for_which_there_is_no_room() -> None:
    X = lists(3000, d=8)
    relevance = (X[..., 0] * X[..., 1] > 0.7).astype(np.uint8)
    rounds = Rounds(X.reshape(-1, 8), relevance.ravel(), np.arange(0, len(X) * M + 1, M))
    half = np.array([1500, 3000])
    linear, expanded = (
        np.diff(simulate(one, rounds, k=4, measure=NDCG(), checkpoints=half).value)[0] / 1500
        for one in (Ridge(expand=8), Ridge(expand=35))
    )
    assert expanded > linear + 0.03


def test_scores_are_what_lists_are_sorted_by() -> None:
    for learner in (Ridge(), Ridge(expand=7)):
        agent, X = Agent(learner, m=M, k=M, d=D), lists(50)
        for decision in play(agent, X[:-1], grades(X[:-1])).decisions:
            assert not decision.explored
        assert np.array_equal(agent.best_ranking(X[-1]), agent.rank(X[-1]).ranking)
    assert Ridge().weights(Agent(Ridge(), m=M, k=1, d=D).state).shape == (D,)
    assert Ridge(expand=7).weights(agent.state).shape == (D + 7,)
    assert linear_in_features(Ridge())
    assert linear_in_features(RTopKF())
    assert not linear_in_features(Ridge(expand=7))
    assert not linear_in_features(Uniform())


def test_too_many_columns_are_refused_with_a_name() -> None:
    with pytest.raises(ValueError, match=r"d = 2,001: .* the limit is 2,000\. Use rtopkf"):
        Agent(Ridge(), m=3, k=1, d=MAX_COLUMNS + 1)
    with pytest.raises(ValueError, match=r"d = 1,500 and expand = 600: .*rtopkf"):
        Agent(Ridge(expand=600), m=3, k=1, d=1500)
    with pytest.raises(ValueError, match=r"decay = 0\.4: must be a number from 0\.5 to 1"):
        Ridge(decay=0.4)
    with pytest.raises(ValueError, match=r"explore = 'thompson': must be 'doubt' or 'sampling'"):
        Ridge("thompson")  # type: ignore[arg-type]


def test_forged_memories_are_refused() -> None:
    agent, X = Agent(Ridge(), m=M, k=1, d=D), lists(20)
    play(agent, X, grades(X))
    for name, index, value in (
        ("ends", 0, 9), ("ends", 7, 7), ("R", (1, 1), -1.0), ("R", (1, 0), 1.0), ("w", 0, np.inf),
        ("sums", 6, 1e9), ("prior", 0, -1.0), ("moments", (0, 0), -1.0), ("sides", (-1, 0), -1.0),
    ):  # fmt: skip
        state = deepcopy(agent.state)
        array = getattr(state, name)
        array.flags.writeable = True
        array[index] = value
        with pytest.raises(ValueError, match=r"^its "):
            agent.learner.validate_state(state)
