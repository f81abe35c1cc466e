"""Set FTRL: its estimate by integration, its bound, and what it does with late and missing answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from helpers.hard_streams import bernoulli, cyclic, mean_regret, swapping
from helpers.learner_checks import further_cases
from peekrank import Agent, Precision, RTop1F, Shape, fixed_items, measure, play, simulate
from peekrank._jit import specialise, unspecialised
from peekrank.learners.setftrl import SetFTRL, SetFTRLState
from peekrank.types import Features, Floats, Ints, Learner

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)


def show(state: SetFTRLState, k: int, uniforms: Floats) -> tuple[Ints, Floats]:
    ranking, token = np.full(len(state.x), -1, dtype=np.int64), np.ones(1 + k)
    SetFTRL.kernels.rank(state, NO_FEATURES, uniforms, ranking, token)
    assert token[0] == 0  # it never explores
    return ranking, token


def tell(state: SetFTRLState, ranking: Ints, token: Floats, row: Any) -> None:
    feedback = np.asarray(row, dtype=np.float64)[ranking[: len(token) - 1]]
    SetFTRL.kernels.update(state, NO_FEATURES, ranking, token, feedback)


def in_the_midst(learner: SetFTRL, shape: Shape, seed: int) -> SetFTRLState:
    """A state as it may be after some rounds."""
    state, rng = learner.init(shape), np.random.default_rng(seed)
    for _ in range(12):
        ranking, token = show(state, shape.k, rng.random(shape.m))
        tell(state, ranking, token, rng.integers(0, 2, shape.m))
    return state


# --- one round, by integration over all its randomness


def ways(state: SetFTRLState, k: int) -> Iterator[tuple[float, Ints, Floats]]:
    """All the ways a round can go, with their probabilities.

    The set is constant between the starts at which the sum of some x meets a whole number; each swap of a shuffle
    takes one of finitely many items.
    """
    m, n = len(state.x), state.n
    show(state, k, np.zeros(m))  # fills x
    corners = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(state.x) % 1]))
    choices = [(n if p < n else m) - p for p in range(m - 1)]
    for low, high in pairwise(corners):
        for swaps in product(*map(range, choices)):
            chosen = [(swap + 0.5) / count for swap, count in zip(swaps, choices, strict=True)]
            ranking, token = show(state, k, np.array([(low + high) / 2, *chosen]))
            yield (high - low) / prod(choices), ranking, token


SHAPES = [(m, n, k) for m in (1, 2, 3, 4) for n in range(1, m + 1) for k in range(1, m + 1)]


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("horizon", [3, None])
def test_one_round_by_integration(m: int, n: int, k: int, horizon: int | None) -> None:
    """A set holds item i with probability x_i, tokens tell P(seen), and the estimate is unbiased."""
    state = in_the_midst(SetFTRL(Precision(n, mean=False), horizon), Shape(m, 0, k), seed=m + n)
    before, answers, x = state.losses.copy(), int(state.rounds[0]), np.zeros(m)
    seen, first, weights = np.zeros(m), np.zeros(m), 0.0
    told: dict[int, float] = {}
    rows = np.array(list(product((0, 1), repeat=m)))
    moved = np.zeros((len(rows), m))
    for weight, ranking, token in ways(state, k):
        x[:] = state.x
        weights += weight
        first[ranking[:n]] += weight
        seen[ranking[:k]] += weight
        for item, propensity in zip(ranking[:k], token[1:], strict=True):
            assert told.setdefault(int(item), propensity) == pytest.approx(propensity, rel=1e-13)
        for row, change in zip(rows, moved, strict=True):
            tell(state, ranking, token, row)
            change += weight * (state.losses - before)
            state.losses[:] = before
            state.rounds[0] = answers
    assert weights == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(first, x, atol=1e-12)
    np.testing.assert_allclose(seen, [told[i] for i in range(m)], rtol=1e-11)
    np.testing.assert_allclose(moved, 1 - rows, atol=1e-11)
    in_set = x * k / n if k <= n else x + (1 - x) * (k - n) / (m - n)
    np.testing.assert_allclose(seen, in_set, rtol=1e-11)


@pytest.mark.parametrize(("m", "n", "k"), [(3, 2, 1), (4, 2, 2), (4, 2, 3), (4, 3, 2)])
def test_shown_sets_are_shuffled(m: int, n: int, k: int) -> None:
    """Given the set, each of its items is equally often on each of its positions, and likewise the others."""
    state = in_the_midst(SetFTRL(Precision(n, mean=False), 100), Shape(m, 0, k), seed=1)
    checkpoints = np.zeros((m, m))
    for weight, ranking, _ in ways(state, k):
        checkpoints[ranking, np.arange(m)] += weight
    np.testing.assert_allclose(checkpoints[:, :n], np.repeat(state.x[:, None] / n, n, axis=1), atol=1e-12)
    np.testing.assert_allclose(
        checkpoints[:, n:], np.repeat((1 - state.x[:, None]) / (m - n), m - n, axis=1), atol=1e-12
    )


def test_plays_the_minimiser_for_its_rate() -> None:
    """With two items x_0 minimises x L_0 + (1 - x) L_1 - 2 (sqrt(x) + sqrt(1 - x)) / eta, in one variable."""
    for horizon, answers in ((50, 7), (None, 0), (None, 7)):
        state = SetFTRL(Precision(1, mean=False), horizon).init(Shape(2, 0, 1))
        state.losses[:], state.rounds[0] = (4.0, 1.0), answers
        eta = sqrt(2 / 50) if horizon else sqrt(1 / (answers + 1))
        show(state, 1, np.zeros(2))

        def objective(x: float, eta: float = eta) -> float:
            return 4 * x + 1 - x - 2 / eta * (sqrt(x) + sqrt(1 - x))

        best = minimize_scalar(objective, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
        assert state.x == pytest.approx([best.x, 1 - best.x], abs=1e-7)


# --- parameters


@pytest.mark.parametrize(("m", "n", "k"), [(5, 2, 1), (5, 2, 2), (6, 4, 3), (10, 1, 1)])
def test_rates_of_the_theorem(m: int, n: int, k: int) -> None:
    shape = Shape(m, 0, k)
    assert SetFTRL(Precision(n, mean=False), 700).rate(shape, 700) == pytest.approx(
        sqrt(2 * k / (n * 700)), rel=1e-14
    )
    assert SetFTRL(Precision(n, mean=False)).rate(shape, 700) == pytest.approx(sqrt(k / (n * 700)), rel=1e-14)


@pytest.mark.parametrize("bad", [0, -3, 2.5, float("nan"), True, 10**13])
def test_bad_horizon(bad: Any) -> None:
    with pytest.raises(ValueError, match="horizon"):
        SetFTRL(Precision(2, mean=False), bad)


@pytest.mark.parametrize("name", ["dcg", "sumloss", "ap", "ndcg", "dcg@3"])
def test_other_measures_are_refused_with_advice(name: str) -> None:
    other: Any = measure(name)
    with pytest.raises(ValueError, match=f"measure = {name}: .*blockftrl learns other measures"):
        SetFTRL(other, 100)


def test_grades_above_zero_are_relevant() -> None:
    agent = Agent(SetFTRL(Precision(2, mean=False), 100), m=3, k=3)
    decision = agent.rank()
    agent.update(decision, np.array([4, 0, 2])[decision.ranking])
    assert agent._state.losses.tolist() == [0, 1, 0]  # with k = m all are seen for certain


@pytest.mark.parametrize("n", [3, 4, 9])
def test_nothing_to_learn(n: int) -> None:
    """With n >= m all rankings are worth the same: any order will do."""
    learner, rng = SetFTRL(Precision(n, mean=False), 200), np.random.default_rng(0)
    assert learner.bound(Shape(3, 0, 1), 200) == 0
    rounds = fixed_items(rng.integers(0, 2, (200, 3)))
    trace = simulate(learner, rounds, k=1, measure=Precision(n, mean=False))
    assert trace.value[-1] == rounds.relevance.sum()


# --- what every learner must do

INSTANCES = [
    SetFTRL(Precision(1, mean=False), 4000),  # k = 2 in the checks
    SetFTRL(Precision(2, mean=False), 4000),
    SetFTRL(Precision(4, mean=False), 4000),
    SetFTRL(measure("p@3"), 4000),  # type: ignore[arg-type]
    SetFTRL(Precision(6, mean=False), 4000),
    SetFTRL(Precision(2, mean=False)),
]


@pytest.mark.parametrize(("learner", "check"), further_cases(INSTANCES))
def test_passes_every_check(learner: Learner, check: Callable[[Learner], None]) -> None:
    check(learner)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 1, 2), (5, 2, 1), (5, 2, 4), (40, 5, 3), (40, 5, 20)])
@pytest.mark.parametrize("horizon", [400, None])
def test_play_equals_simulate(m: int, n: int, k: int, horizon: int | None) -> None:
    rounds = fixed_items(np.random.default_rng(m).integers(0, 2, (400, m)))
    one, two = (
        run(SetFTRL(Precision(n, mean=False), horizon), rounds, k=k, measure=Precision(n, mean=False))
        for run in (play, simulate)
    )
    assert np.array_equal(one.value, two.value)


# --- late and missing answers


def test_missing_answers_count_as_the_mean_of_those_that_came() -> None:
    state = SetFTRL(Precision(2, mean=False)).init(Shape(4, 0, 3))
    ranking, token = show(state, 3, np.array([0.1, 0.9, 0.5, 0.3]))
    for missing in product((False, True), repeat=3):
        row = np.zeros(4)
        row[ranking[:3]] = np.where(missing, np.nan, [0, 0, 1])
        tell(state, ranking, token, row)
    expected = np.zeros(4)
    expected[ranking[:3]] = 7 * np.array([1, 1, 0]) / token[1:]  # of eight rounds one has no answer at all
    np.testing.assert_allclose(state.losses, expected, rtol=1e-14)
    assert state.rounds[0] == 7


def test_late_answers_count_with_the_propensities_of_their_round() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (6, 4))
    found = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        agent = Agent(SetFTRL(Precision(2, mean=False)), m=4, k=1, seed=1)
        agent.update(agent.rank(), [0])
        decisions = [agent.rank() for _ in rows]
        expected = agent._state.losses.copy()
        for t in order:
            item = decisions[t].ranking[0]
            agent.update(decisions[t], [rows[t][item]])
            expected[item] += (1 - rows[t][item]) / decisions[t].token[1]
        np.testing.assert_allclose(agent._state.losses, expected, rtol=1e-13)
        found.append(agent._state.losses.copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13)


@pytest.mark.parametrize("propensity", [0.0, -0.5, 1.5, np.nan])
def test_foreign_tokens_are_refused(propensity: float) -> None:
    agent = Agent(SetFTRL(Precision(2, mean=False), 10), m=4, k=2)
    decision = agent.rank()
    decision.token[2] = propensity
    with pytest.raises(ValueError, match="token"):
        agent.update(decision, [0, 0])
    assert not agent._state.losses.any()


def test_learns_from_half_of_the_rounds() -> None:
    """Every second answer is missing at random: the regret is that of half as many rounds, twice."""
    T, m, n, lost = 4000, 5, 2, 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.random((T, m)) < [0.2, 0.8, 0.3, 0.7, 0.4]
        agent = Agent(SetFTRL(Precision(n, mean=False)), m=m, k=1, seed=seed)
        for row in rows:
            decision = agent.rank()
            agent.update(decision, [row[decision.ranking[0]] if rng.random() < 0.5 else np.nan])
            lost += (0.8 + 0.7 - row[decision.ranking[:n]].sum()) / 4
    assert lost < 2 * SetFTRL(Precision(n, mean=False)).bound(Shape(m, 0, 1), T // 2)
    assert lost < 0.15 * 0.54 * T  # random rankings lose 0.54 a round


def test_learns_from_late_answers() -> None:
    T, m, n, lost = 4000, 5, 2, 0.0
    rng = np.random.default_rng(3)
    agent = Agent(SetFTRL(Precision(n, mean=False)), m=m, k=1, seed=3)
    for _ in range(T // 20):
        decisions = [agent.rank() for _ in range(20)]
        rows = rng.random((20, m)) < [0.2, 0.8, 0.3, 0.7, 0.4]
        for i in rng.permutation(20):
            agent.update(decisions[i], [rows[i][decisions[i].ranking[0]]])
            lost += 0.8 + 0.7 - rows[i][decisions[i].ranking[:n]].sum()
    assert np.isfinite(agent._state.losses).all()
    assert lost < 0.2 * 0.54 * T


# --- the bound


@pytest.mark.parametrize(("m", "n"), [(3, 1), (3, 2), (5, 2), (6, 3), (10, 1), (10, 9), (40, 4)])
def test_spread_bounds_the_variance(m: int, n: int) -> None:
    """V >= sum_i x_i^(3/2) / P(i is seen), for all k, from the centre of the hypersimplex to its corners."""
    rng = np.random.default_rng(m * n)
    corner = np.repeat([1.0, 0.0], [n, m - n])
    for k in range(1, m + 1):
        largest = 0.0
        for mix, power in product(np.linspace(0.001, 1, 40), (0.2, 1, 5)):
            noise = rng.random(m) ** power
            noise *= n / noise.sum()
            for x in (mix * n / m + (1 - mix) * corner, mix * np.minimum(noise, 1) + (1 - mix) * corner):
                seen = x * k / n if k <= n else x + (1 - x) * (k - n) / (m - n)
                if x.sum() <= n + 1e-9:
                    largest = max(largest, float(np.sum(x**1.5 / seen)))
        V = SetFTRL(Precision(n, mean=False)).spread(Shape(m, 0, k))
        assert largest <= V * (1 + 1e-12)
        assert largest >= 0.5 * V  # and it is not loose beyond reason


@pytest.mark.parametrize(("m", "n"), [(3, 1), (5, 2), (10, 3), (10, 9)])
@pytest.mark.parametrize("T", [10, 5000])
def test_bound(m: int, n: int, T: int) -> None:
    """2 (sqrt(m n) - n) / eta_T + V (eta_1 + ... + eta_T), at most the short forms, and falling in k."""
    last = np.inf
    for k in range(1, m + 1):
        shape = Shape(m, 0, k)
        known, anytime = SetFTRL(Precision(n, mean=False), T), SetFTRL(Precision(n, mean=False))
        V, reach = known.spread(shape), 2 * (sqrt(m * n) - n)
        eta = known.rate(shape, T)
        assert known.bound(shape, T) == pytest.approx(reach / eta + V * eta * T, rel=1e-12)
        etas = [anytime.rate(shape, t) for t in range(1, T + 1)]
        assert reach / etas[-1] + V * sum(etas) <= anytime.bound(shape, T)
        assert anytime.bound(shape, T) == pytest.approx(sqrt(2) * known.bound(shape, T), rel=1e-12)
        assert known.bound(shape, T) <= 2 * sqrt(2) * n * sqrt(m * T / min(k, n))
        assert known.bound(shape, T) <= last * (1 + 1e-12)
        last = known.bound(shape, T)
        mean = SetFTRL(Precision(n), T)
        assert mean.bound(shape, T) == pytest.approx(known.bound(shape, T) / n, rel=1e-12)


def close(T: int, m: int, seed: int) -> NDArray[Any]:
    """Differences of the size that is hardest to learn in T rounds."""
    rng = np.random.default_rng([8, seed])
    means = 0.5 + np.where(np.arange(m) < 2, sqrt(m / T), 0)
    return (rng.random((T, m)) < rng.permutation(means)).astype(int)


@pytest.mark.parametrize("stream", [bernoulli, close, cyclic, swapping])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 1, 1), (5, 2, 1), (5, 2, 2), (5, 2, 4), (5, 4, 1), (10, 3, 10)])
@pytest.mark.parametrize("known", [True, False])
def test_regret_is_within_the_bound(stream: Callable[..., Any], m: int, n: int, k: int, known: bool) -> None:
    T = 3000
    rounds = [fixed_items(stream(T, m, seed)) for seed in range(6)]
    learner = SetFTRL(Precision(n, mean=False), T if known else None)
    bound = learner.bound(Shape(m, 0, k), T)
    assert mean_regret(learner, rounds, k) < bound
    mean = SetFTRL(Precision(n), T if known else None)
    assert mean_regret(mean, rounds[:2], k) == pytest.approx(mean_regret(learner, rounds[:2], k) / n, abs=1e-8)


def clear(T: int, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(100 + seed)
    return (rng.random((T, 5)) < rng.permutation([0.7, 0.6, 0.4, 0.3, 0.2])).astype(int)


def test_regret_grows_slower_than_that_of_blocks() -> None:
    """P@2 of five items from one answer a round: T^(1/2) against T^(2/3), a third of the regret at T = 20,000."""
    grown = {}
    for T in (2000, 20_000):
        rounds = [fixed_items(clear(T, seed)) for seed in range(5)]
        for learner in (
            SetFTRL(Precision(2, mean=False), T),
            SetFTRL(Precision(2, mean=False)),
            RTop1F(Precision(2, mean=False), horizon=T),
        ):
            anytime = learner.horizon is None
            grown[learner.name, anytime, T] = mean_regret(learner, rounds, 1)
    blocks = grown["rtop1f", False, 20_000]
    for anytime in (False, True):
        mine = grown["setftrl", anytime, 20_000]
        assert 3 * mine < blocks
        mine_growth = np.log10(mine / grown["setftrl", anytime, 2000])
        assert mine_growth < np.log10(blocks / grown["rtop1f", False, 2000]) < 0.7


def test_without_a_horizon_it_is_not_far_behind() -> None:
    rounds = [fixed_items(close(5000, 5, seed)) for seed in range(8)]
    known, anytime = (mean_regret(SetFTRL(Precision(2, mean=False), T), rounds, 1) for T in (5000, None))
    assert anytime < 1.5 * known


rank = update = unspecialised


def farthest_from_n(
    state: SetFTRLState, rng: np.random.Generator, X: Features, relevant: Floats,
    uniforms: Floats, ranking: Ints, token: Floats, feedback: Floats, count: int,
) -> float:  # fmt: skip
    """Play on; how far the sum of x ever was from n, NaN if it ever was NaN."""
    farthest = 0.0
    for _ in range(count):
        for i in range(len(uniforms)):
            uniforms[i] = rng.random()
        rank(state, X, uniforms, ranking, token)
        feedback[0] = relevant[ranking[0]]
        update(state, X, ranking, token, feedback)
        total = 0.0
        for i in range(len(state.x)):
            total += state.x[i]
        if not abs(total - state.n) <= farthest:
            farthest = abs(total - state.n)
    return farthest


@pytest.mark.parametrize("horizon", [10**6, None])
def test_a_million_rounds_do_not_drift(horizon: int | None) -> None:
    """All is finite, x adds up to n in every round, and the estimates are still right."""
    T, m, n = 10**6, 5, 2
    state = SetFTRL(Precision(n, mean=False), horizon).init(Shape(m, 0, 1))
    rank, update = SetFTRL.kernels[:2]
    farthest = specialise(farthest_from_n, "setftrl", rank=rank, update=update)(
        state, np.random.default_rng(0), NO_FEATURES, np.array([1.0, 1, 0, 0, 0]),
        np.empty(m), np.empty(m, dtype=np.int64), np.zeros(2), np.zeros(1), T,
    )  # fmt: skip
    assert farthest < 1e-13
    assert state.rounds[0] == T
    assert state.losses[:2].tolist() == [0, 0]
    assert np.all(np.isfinite(state.losses))
    assert np.all(state.losses[2:] > T / 50)
    assert np.all(state.losses[2:] < 50 * T)
    assert state.x[:2].min() > 0.99
