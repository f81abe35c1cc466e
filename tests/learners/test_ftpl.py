"""Follow the perturbed leader: what it plays, Kalai and Vempala's constants by brute force, and their bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import naive
from helpers.hard_streams import cyclic, swapping
from peekrank import DCG, FTPL, Agent, PairwiseLoss, Precision, Shape, SumLoss, fixed_items, measure, simulate
from peekrank.learners._shared import constants
from peekrank.learners.ftpl import FTPLState
from peekrank.types import Features, Floats, Ints, LinearMeasure

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)


def show(state: FTPLState, noise: Floats) -> Ints:
    ranking, token = np.full(len(noise), -1, dtype=np.int64), np.ones(1)
    FTPL.kernels.rank(state, NO_FEATURES, noise, ranking, token)
    assert token[0] == 0  # it never explores
    return ranking


def tell(state: FTPLState, ranking: Ints, row: Any) -> None:
    FTPL.kernels.update(state, NO_FEATURES, ranking, np.zeros(1), np.asarray(row, dtype=np.float64)[ranking])


# --- what it plays


@pytest.mark.parametrize("m", [1, 2, 5, 32, 33, 100])
def test_plays_the_perturbed_leader_of_all_gains(m: int) -> None:
    rng = np.random.default_rng(m)
    state = FTPL(SumLoss(), horizon=50, epsilon=0.2).init(Shape(m, 0, m))
    total = np.zeros(m)
    for _ in range(50):
        noise = rng.random(m)
        ranking = show(state, noise)
        assert ranking.tolist() == naive.stable_descending(total + 5 * noise)
        row = rng.integers(0, 2, m)
        tell(state, ranking, row)
        total += row
        assert state.scores.tolist() == total.tolist()


def test_missing_answers_count_as_the_mean_of_those_that_came() -> None:
    state = FTPL(SumLoss(), horizon=50).init(Shape(3, 0, 3))
    ranking = show(state, np.array([0.1, 0.9, 0.5]))
    for missing in product((False, True), repeat=3):
        tell(state, ranking, np.where(missing, np.nan, [1, 2, 3]))
    assert state.scores.tolist() == [7, 14, 21]  # of eight rounds one has no answer at all


def test_an_item_without_answers_is_taken_for_an_average_one() -> None:
    state = FTPL(SumLoss(), horizon=50).init(Shape(3, 0, 3))
    ranking = show(state, np.array([0.1, 0.9, 0.5]))
    tell(state, ranking, np.array([1, np.nan, 0]))
    tell(state, ranking, np.array([1, np.nan, 1]))
    assert state.scores.tolist() == [2, 0.5 + 0.75, 1]


def test_late_answers_count_whenever_they_come() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (6, 4))
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        agent = Agent(FTPL(SumLoss(), horizon=10), m=4, k=4, seed=1)
        decisions = [agent.rank() for _ in rows]
        for t in order:
            agent.update(decisions[t], rows[t][decisions[t].ranking])
        assert agent._state.scores.tolist() == rows.sum(axis=0).tolist()


def test_grades_become_gains() -> None:
    agent = Agent(FTPL(DCG(), horizon=10, max_grade=4), m=3, k=3)
    decision = agent.rank()
    agent.update(decision, np.array([4, 0, 2])[decision.ranking])
    assert agent._state.scores.tolist() == [15, 0, 3]


def test_sees_all_positions_whatever_k_is() -> None:
    agent = Agent(FTPL(SumLoss(), horizon=10), m=5, k=1)
    assert agent.shape.k == 5
    with pytest.raises(ValueError, match=r"feedback of shape \(1,\).*5"):
        agent.update(agent.rank(), [1])


# --- parameters


@pytest.mark.parametrize(
    ("loss", "max_grade", "largest"),
    [
        (SumLoss(), 1, 1),
        (SumLoss(), 4, 4),
        (PairwiseLoss(), 1, 1),
        (Precision(2, mean=False), 4, 1),
        (DCG(), 1, 1),
        (DCG(), 3, 7),
        (measure("dcg+linear"), 3, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize(("m", "horizon"), [(2, 10), (10, 10_000)])
def test_width_of_the_noise(loss: Any, max_grade: int, largest: float, m: int, horizon: int) -> None:
    """1/epsilon = g sqrt(m T) with g the gain of the largest grade."""
    state = FTPL(loss, horizon=horizon, max_grade=max_grade).init(Shape(m, 0, m))
    assert state.width == pytest.approx(largest * sqrt(m * horizon), rel=1e-14)


@pytest.mark.parametrize(
    "bad",
    [
        {"horizon": 0},
        {"horizon": 2.5},
        {"horizon": float("nan")},
        {"horizon": float("inf")},
        {"max_grade": 0},
        {"max_grade": 2000},  # its gain is infinite
        {"epsilon": 0.0},
        {"epsilon": -2.0},
        {"epsilon": float("nan")},
    ],
    ids=str,
)
def test_bad_parameters_are_named(bad: dict[str, Any]) -> None:
    given = {"measure": DCG(), "horizon": 100, **bad}
    with pytest.raises(ValueError, match=next(iter(bad))):
        FTPL(**given)


@pytest.mark.parametrize("name", ["ndcg", "ap", "aucloss"])
def test_measures_that_cannot_be_learned(name: str) -> None:
    unlearnable: Any = measure(name)
    with pytest.raises(ValueError, match=f"{name} cannot be learned"):
        FTPL(unlearnable, horizon=100)


# --- the bound

LOSSES: list[Any] = [
    SumLoss(),
    PairwiseLoss(),
    DCG(),
    DCG(2),
    Precision(1, mean=False),
    Precision(2, mean=False),
    measure("p@3"),
    measure("dcg@3+linear"),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def discounts_of_items(loss: LinearMeasure, m: int) -> Floats:
    """Kalai and Vempala's decisions: for each ranking the discount that each item gets."""
    f = loss.discount(m)
    return np.array([[f[ranking.index(item)] for item in range(m)] for ranking in permutations(range(m))])


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("loss", "max_grade"), [(loss, n) for loss in LOSSES for n in (1, 3) if loss.linear(n)])
def test_constants_by_brute_force(loss: Any, m: int, max_grade: int) -> None:
    """Over all pairs of rankings and all vertices of the cube of gain vectors."""
    decisions = discounts_of_items(loss, m)
    largest = float(loss.gain(np.array([max_grade]))[0])
    states = largest * np.array(list(product((0, 1), repeat=m)))
    values = decisions @ states.T
    R = (values.max(axis=0) - values.min(axis=0)).max()
    D = R / largest  # the same over the unit cube
    A = states.sum(axis=1).max()
    assert constants(loss, m, max_grade) == pytest.approx((D, R, A), rel=1e-12, abs=1e-12)


@every_loss
@pytest.mark.parametrize("epsilon", [None, 0.01, 0.3])
def test_bound_is_epsilon_RAT_plus_D_over_epsilon(loss: Any, epsilon: float | None) -> None:  # noqa: N802
    m, T = 6, 500
    D, R, A = constants(loss, m, 1)
    used = epsilon or 1 / sqrt(m * T)
    bound = FTPL(loss, horizon=T, epsilon=epsilon).bound(Shape(m, 0, m), T)
    assert bound == pytest.approx(used * R * A * T + D / used, rel=1e-12)


@every_loss
def test_bound_at_the_best_epsilon(loss: Any) -> None:
    """2 sqrt(D R A T), which no other epsilon undercuts."""
    m, T, shape = 6, 500, Shape(6, 0, 6)
    D, R, A = constants(loss, m, 1)
    best = sqrt(D / (R * A * T))
    bounds = [FTPL(loss, horizon=T, epsilon=best * factor).bound(shape, T) for factor in (0.9, 1, 1.1)]
    assert bounds[1] == pytest.approx(2 * sqrt(D * R * A * T), rel=1e-12)
    assert bounds[1] < min(bounds[0], bounds[2])


# --- Kalai and Vempala's theorem


def propensity_of_second_item_first(state: FTPLState, ahead: int, cells: int = 24) -> float:
    """How often item 1 is shown above item 0, which leads by `ahead`: the two noises run over a grid."""
    state.scores[:] = ahead, 0
    grid = (np.arange(cells) + 0.5) / cells
    return float(np.mean([show(state, np.array(noise))[0] for noise in product(grid, grid)]))


def worst_regret_of_two_items(epsilon: float, horizon: int) -> float:
    """The largest expected regret over all 4^T binary relevance sequences, by dynamic programming.

    With two items a round costs, against showing item 0 first, P(item 1 first) x (R(0) - R(1)) in SumLoss; and P
    depends only on how far item 0 is ahead. Showing item 1 first throughout is better by what item 1 is ahead.
    """
    state = FTPL(SumLoss(), horizon=horizon, epsilon=epsilon).init(Shape(2, 0, 2))
    ahead = np.arange(-horizon, horizon + 1)
    near = np.abs(ahead) < state.width
    propensity = np.where(ahead < 0, 1.0, 0.0)
    propensity[near] = [propensity_of_second_item_first(state, d) for d in ahead[near]]
    regret = np.maximum(0.0, -ahead)
    for _ in range(horizon):
        up, down = regret[2:] + propensity[1:-1], regret[:-2] - propensity[1:-1]
        regret[1:-1] = np.maximum(regret[1:-1], np.maximum(up, down))
    return float(regret[horizon])


@pytest.mark.parametrize("epsilon", [0.02, 0.05, 0.1, 0.5])
def test_worst_case_of_two_items_is_within_the_bound(epsilon: float) -> None:
    """E[regret] <= epsilon R A T + D / epsilon against every sequence; and it is not loose beyond reason."""
    horizon = 400
    worst = worst_regret_of_two_items(epsilon, horizon)
    bound = FTPL(SumLoss(), horizon=horizon, epsilon=epsilon).bound(Shape(2, 0, 2), horizon)
    assert bound / 10 < worst <= bound


def test_noise_is_what_the_bound_lives_on() -> None:
    """With next to no noise every second round is a toss-up: a quarter of the rounds is lost, beyond the bound."""
    learner = FTPL(SumLoss(), horizon=400, epsilon=0.05)
    assert worst_regret_of_two_items(1e6, 400) >= 400 / 4 > learner.bound(Shape(2, 0, 2), 400)


def alternating(T: int, m: int) -> NDArray[Any]:
    return (np.arange(T)[:, None] + np.arange(m)) % 2


def punishing(T: int, m: int) -> NDArray[Any]:
    """Relevant is what follow-the-leader, without noise, would show last."""
    rows, total = np.zeros((T, m), dtype=int), np.zeros(m)
    for row in rows:
        row[naive.stable_descending(total)[m // 2 :]] = 1
        total += row
    return rows


@pytest.mark.parametrize("stream", [cyclic, alternating, punishing, swapping])
@pytest.mark.parametrize("loss", [SumLoss(), DCG()], ids=str)
def test_regret_on_hard_streams_is_within_the_bound(stream: Callable[[int, int], Any], loss: Any) -> None:
    T, m = 2000, 5
    rows = stream(T, m)
    learner = FTPL(loss, horizon=T)
    values = [
        float(simulate(learner, fixed_items(rows), k=m, measure=loss, seed=seed).value[-1]) for seed in range(6)
    ]
    totals = rows.sum(axis=0).tolist()  # with binary relevance both measures are linear in it
    value = naive.sum_loss if loss == SumLoss() else partial(naive.dcg, gains="linear")
    best = naive.best_value(value, [totals], higher_is_better=loss.higher_is_better)
    sign = 1 if loss.higher_is_better else -1
    regret = sign * (best - np.mean(values))
    assert regret < learner.bound(Shape(m, 0, m), T) < 2 * T
