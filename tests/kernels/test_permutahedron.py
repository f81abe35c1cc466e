"""The entropic leader against its closed form and an optimiser, and the draw by enumeration of all its coins."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from helpers.permutahedron import ALWAYS, Outcomes, closed_form
from peekrank import DCG, Precision, SumLoss
from peekrank.kernels.permutahedron import Space, draw, leader, space
from peekrank.learners._shared import position_weights
from peekrank.types import Floats, Ints, LinearMeasure


def led(scores: Floats, rate: float, weights: Floats) -> tuple[Floats, Space, int]:
    """The leader's point by item, and the memory it worked in."""
    s = space(len(scores))
    blocks = leader(scores, rate, weights, s)
    x = np.empty(len(scores))
    x[s.order] = s.x
    return x, s, blocks


WEIGHTS = {
    "sumloss": position_weights(SumLoss(), 5),
    "dcg": position_weights(DCG(), 5),
    "dcg@2": position_weights(DCG(2), 5),
    "p@3+sum": position_weights(Precision(3, mean=False), 5),
    "p@1+sum": position_weights(Precision(1, mean=False), 5),
    "plateaus": np.array([4.0, 4.0, 1.5, 1.5, 0.0]),
    "zero": np.zeros(5),
}
MEASURES: dict[str, LinearMeasure] = {
    "sumloss": SumLoss(),
    "dcg": DCG(),
    "dcg@5": DCG(5),
    "p@6+sum": Precision(6, mean=False),
}
every_weights = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())


def some_scores(m: int, seed: int) -> list[Floats]:
    """Random ones of all sizes, ties, one ahead or behind by little and by far, huge ones close together."""
    rng = np.random.default_rng(seed)
    one = np.zeros(m)
    one[m // 2] = 1
    return [
        *(rng.normal(size=m) * scale for scale in (1e-9, 1e-3, 0.3, 1, 3, 30, 1e3, 1e12)),
        np.zeros(m),
        np.full(m, -1e12),
        *(one * ahead for ahead in (1e-12, 1, 40, 1e3, 1e12, -1, -40, -1e3, -1e12)),
        rng.integers(0, 3, m).astype(np.float64),
        -1e12 + rng.normal(size=m),
        -1e12 + 50 * rng.integers(0, 2, m).astype(np.float64),
        -100 * np.arange(m, dtype=np.float64),
    ]


@every_weights
def test_leader_is_the_closed_form(weights: Floats) -> None:
    for scores in some_scores(5, seed=1):
        for rate in (1.0, 0.37, 0.0):
            x, _, _ = led(scores, rate, weights)
            np.testing.assert_allclose(x, closed_form(scores, rate, weights), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("m", [1, 2, 3, 12])
@pytest.mark.parametrize("seed", range(4))
def test_leader_is_the_closed_form_for_random_weights(m: int, seed: int) -> None:
    rng = np.random.default_rng([m, seed])
    weights = -np.sort(-rng.integers(0, 5, m) * rng.choice([1.0, 0.3]))
    for scores in some_scores(m, seed):
        x, _, _ = led(scores, 1.0, weights)
        np.testing.assert_allclose(x, closed_form(scores, 1.0, weights), rtol=1e-12, atol=1e-300)


def _regularised_cost(scores: Floats, x: Floats) -> float:
    return float(x @ np.log(x) - x @ scores)


def _its_gradient(scores: Floats, x: Floats) -> Floats:
    return np.asarray(np.log(x) + 1 - scores)


@pytest.mark.parametrize("name", ["sumloss", "dcg", "dcg@2", "p@3+sum", "plateaus"])
def test_leader_is_what_an_optimiser_finds(name: str) -> None:
    """SLSQP on the definition, with all the constraints on subsets of items."""
    weights, rng = WEIGHTS[name], np.random.default_rng(2)
    most = np.cumsum(weights)
    subsets = np.array([s for s in product((0.0, 1.0), repeat=5) if 0 < sum(s) < 5])
    limits = most[subsets.sum(axis=1).astype(int) - 1]
    constraints: Any = [
        {"type": "ineq", "fun": lambda x: limits - subsets @ x, "jac": lambda _: -subsets},
        {"type": "eq", "fun": lambda x: x.sum() - most[-1], "jac": lambda _: np.ones(5)},
    ]
    start, bounds = np.full(5, most[-1] / 5), [(1e-12, None)] * 5
    for scale in (0.1, 1.0, 2.0):
        scores = rng.normal(size=5) * scale
        value, slope = partial(_regularised_cost, scores), partial(_its_gradient, scores)
        options: Any = {"ftol": 1e-14, "maxiter": 500}
        found: Any = minimize(
            value, start, jac=slope, bounds=bounds, constraints=constraints, method="SLSQP", options=options
        )
        assert found.success
        x, _, _ = led(scores, 1.0, weights)
        np.testing.assert_allclose(x, found.x, atol=2e-6)


@pytest.mark.parametrize("m", [2, 7, 33, 400])
@pytest.mark.parametrize("kind", MEASURES)
def test_leader_satisfies_the_conditions_of_optimality(m: int, kind: str) -> None:
    """Majorised by the weights; ln x - rate score never falls, and rises only where a constraint is tight."""
    weights = position_weights(MEASURES[kind], m)
    slack = 1e-12 * weights.sum()
    for scores in some_scores(m, seed=m):
        _, s, blocks = led(scores, 0.7, weights)
        assert np.array_equal(s.order, np.argsort(-scores, kind="stable"))
        assert np.all(np.diff(s.x) <= slack)
        room = np.cumsum(weights) - np.cumsum(s.x)
        assert np.all(room >= -slack)
        assert abs(room[-1]) <= slack
        starts = s.first[:blocks]
        assert np.all(abs(room[starts[1:] - 1]) <= slack)
        in_blocks = np.repeat(scores[s.order][starts], np.diff(s.first[: blocks + 1]))
        positive = s.x > 1e-290
        level = np.log(s.x[positive]) - 0.7 * (scores[s.order] - in_blocks)[positive]
        block = np.repeat(np.arange(blocks), np.diff(s.first[: blocks + 1]))[positive]
        same = np.diff(block) == 0
        np.testing.assert_allclose(np.diff(level)[same], 0, atol=1e-12)
        rise = np.diff(level) + 0.7 * -np.diff(in_blocks[positive])
        assert np.all(rise >= -1e-12)


def test_a_common_shift_of_the_scores_changes_nothing() -> None:
    scores = np.array([3.0, 1.0, 2.5, -4.0, 0.0])
    x, _, _ = led(scores, 0.25, WEIGHTS["dcg"])
    y, _, _ = led(scores - 2.0**40, 0.25, WEIGHTS["dcg"])
    assert np.array_equal(x, y)


# --- the draw


def assert_draw_is_exact(scores: Floats, weights: Floats, k: int) -> None:
    m = len(scores)
    x, s, blocks = led(scores, 1.0, weights)

    def rank(uniforms: Floats) -> Ints:
        ranking = np.full(m, -1, dtype=np.int64)
        draw(weights, k, blocks, uniforms, ranking, s)
        return ranking

    outcomes = Outcomes(m, rank)
    assert np.count_nonzero(outcomes.probabilities) <= m - 1
    assert np.all(outcomes.probabilities <= 0.5)
    expected, seen = np.zeros(m), np.zeros(m)
    for ranking, probability in zip(outcomes.rankings, outcomes.probabilities, strict=True):
        assert np.array_equal(np.sort(ranking), np.arange(m))
        expected[ranking] += probability * weights
        seen[ranking[:k]] += probability
    np.testing.assert_allclose(expected, x, atol=1e-12 * max(1, weights[0]))
    np.testing.assert_allclose(s.seen, seen[s.order], atol=1e-12)
    assert abs(seen.sum() - k) < 1e-12


@every_weights
def test_draw_has_the_expected_weights_and_the_probabilities_of_being_seen(weights: Floats) -> None:
    for scores in some_scores(5, seed=3):
        for k in {max(1, int(np.count_nonzero(weights))), 4, 5}:
            assert_draw_is_exact(scores, weights, k)


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_draw_is_exact_for_random_weights(m: int) -> None:
    rng = np.random.default_rng(m)
    for seed in range(2):
        weights = -np.sort(-rng.random(m) * (rng.random(m) < 0.8))
        weights[-1] = 0
        for scores in some_scores(m, seed)[2:6]:
            assert_draw_is_exact(scores, weights, max(1, m - 1))


@pytest.mark.parametrize("m", [10, 33, 1000])
@pytest.mark.parametrize("kind", MEASURES)
def test_draw_of_many_items_is_a_permutation_with_sound_probabilities(m: int, kind: str) -> None:
    weights = position_weights(MEASURES[kind], m)
    k, rng = int(np.count_nonzero(weights)), np.random.default_rng(m)
    for scores in some_scores(m, seed=m):
        _, s, blocks = led(scores, 1.0, weights)
        ranking = np.empty(m, dtype=np.int64)
        draw(weights, k, blocks, rng.random(m), ranking, s)
        assert np.array_equal(np.sort(ranking), np.arange(m))
        assert s.seen.min() >= 0
        assert s.seen.max() <= 1
        assert abs(s.seen.sum() - k) < 1e-9
        assert np.all(s.x <= weights[0] * s.seen + 1e-12 * weights.sum())  # what the theorem rests on
        assert np.all(s.seen[s.position < k] > 0)


def test_mean_weights_of_many_draws() -> None:
    weights = position_weights(DCG(), 20)
    x, s, blocks = led(np.random.default_rng(0).normal(size=20), 0.8, weights)
    rng, runs = np.random.default_rng(1), 20_000
    sums, squares, ranking = np.zeros(20), np.zeros(20), np.empty(20, dtype=np.int64)
    for _ in range(runs):
        draw(weights, 19, blocks, rng.random(20), ranking, s)
        sums[ranking] += weights
        squares[ranking] += weights**2
    error = np.sqrt((squares / runs - (sums / runs) ** 2) / runs)
    assert np.all(abs(sums / runs - x) < 4.5 * error + 1e-12)


@pytest.mark.parametrize("uniform", [0.0, ALWAYS])
def test_what_is_too_unlikely_is_never_drawn(uniform: float) -> None:
    """An item far behind has a probability below 2^-53; no value of a uniform may bring it to the front."""
    weights = np.array([1.0, 0.0, 0.0])
    _, s, blocks = led(np.array([0.0, -60.0, -700.0]), 1.0, weights)
    ranking = np.empty(3, dtype=np.int64)
    draw(weights, 1, blocks, np.full(3, uniform), ranking, s)
    assert ranking.tolist() == [0, 1, 2]
