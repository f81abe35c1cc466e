"""Doubtsort against its definition, its propensities by enumeration, late and missing answers, and its theorem."""

from __future__ import annotations

from itertools import product
from math import log, pi, sqrt
from typing import Any

import numpy as np
import pytest

from helpers.naive_exploration import Naive
from peekrank import DCG, Agent, DoubtSort, Greedy, Precision, Shape, SumLoss, fixed_items, play, simulate
from peekrank.learners.doubtsort import DoubtSortState
from peekrank.types import Features, Floats, Ints

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)
MEASURES: list[Any] = [
    DCG(),
    DCG(2),
    SumLoss(),
    Precision(1, mean=False),
    Precision(2, mean=False),
    Precision(3, mean=False),
]


def naive(learner: DoubtSort, m: int, k: int) -> Naive:
    discount = learner.measure.discount(m)
    weights = np.abs(discount - discount[-1]).tolist()
    g = float(learner.measure.gain(np.array([float(learner.max_grade)]))[0])
    return Naive(weights, k, g, learner.variant, learner.decay)


def show(state: DoubtSortState, n: int, uniform: float) -> tuple[Ints, Floats]:
    ranking, token = np.arange(n), np.zeros(1)
    DoubtSort.kernels.rank(state, NO_FEATURES, np.array([uniform]), ranking, token)
    return ranking, token


def in_the_midst(learner: DoubtSort, m: int, k: int, seed: int, rounds: int) -> tuple[DoubtSortState, Naive]:
    """The same state twice, as it may be after some rounds; gains are such that no two means are equal."""
    state, twin, rng = learner.init(Shape(m, 0, k)), naive(learner, m, k), np.random.default_rng(seed)
    for _ in range(rounds):
        uniform = rng.random()
        ranking, token = show(state, m, uniform)
        assert ranking.tolist() == twin.rank(list(range(m)), uniform)
        gains = twin.g * rng.random(k)
        gains[rng.random(k) < 0.2] = np.nan
        DoubtSort.kernels.update(state, NO_FEATURES, ranking, token, gains)
        for item, gain in zip(ranking[:k], gains, strict=True):
            if not np.isnan(gain):
                twin.learn(int(item), float(gain))
    return state, twin


@pytest.mark.parametrize("form", ["usual", "cautious", "safe"])
@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_shows_what_its_definition_says(measure: Any, form: Any) -> None:
    for m, k, grade in ((1, 1, 1), (2, 1, 1), (4, 1, 2), (5, 2, 1), (5, 5, 1), (7, 3, 1)):
        learner = DoubtSort(measure, max_grade=grade, variant=form)
        state, twin = in_the_midst(learner, m, k, seed=m * k, rounds=60)
        for item in range(m):
            n, s, _ = twin.sums(item)
            assert (state.items.answers[item], state.items.sums[item]) == pytest.approx((n, s), rel=1e-12)


def test_decays_as_its_definition_says() -> None:
    in_the_midst(DoubtSort(DCG(), decay=0.9), 5, 2, seed=0, rounds=100)


@pytest.mark.parametrize(("m", "k"), [(m, k) for m in range(1, 6) for k in range(1, m + 1)])
@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_propensities_by_enumeration(measure: Any, m: int, k: int) -> None:
    """Every exploration has the probability of the definition, and every item the propensity that follows."""
    fill_propensities = DoubtSort.kernels.propensities
    assert fill_propensities is not None
    for safe, rounds in product((False, True), (0, 3, 25)):
        learner = DoubtSort(measure, variant="safe" if safe else "usual")
        state, twin = in_the_midst(learner, m, k, seed=rounds, rounds=rounds)
        everyone = list(range(m))
        twin.arrive(everyone)
        propensities = twin.question(everyone).probabilities
        ends = np.cumsum([*propensities, 1 - sum(propensities)])
        seen, found = np.zeros(m), np.full(m, np.nan)
        for position, (low, high) in enumerate(zip([0.0, *ends[:-1]], ends, strict=True)):
            if high - low > 1e-12:
                ranking, token = show(state, m, (low + high) / 2)
                state.items.rounds[:] -= 1  # it is the same round in all cases
                asked = position if position < m else None
                assert ranking.tolist() == twin.shown(everyone, asked)
                assert token[0] == (asked is not None)
                seen[ranking[:k]] += high - low
                fill_propensities(state, NO_FEATURES, ranking, token, found)
        np.testing.assert_allclose(found, seen, atol=1e-12)
        assert seen.sum() == pytest.approx(k)


def test_positions_that_tie_with_position_k_show_the_least_known_first() -> None:
    """P@3 with k = 1: the three best take turns on top, for nothing, as often as their variances ask for."""
    agent, rng = Agent(DoubtSort(Precision(3, mean=False)), m=6, k=1, seed=0), np.random.default_rng(0)
    means, shown = np.array([0.9, 0.8, 0.7, 0.2, 0.1, 0.1]), np.zeros(6)
    for _ in range(3000):
        decision = agent.rank()
        shown[decision.ranking[0]] += 1
        agent.update(decision, [rng.random() < means[decision.ranking[0]]])
    np.testing.assert_allclose(shown[:3] / shown[:3].sum(), [0.09 / 0.46, 0.16 / 0.46, 0.21 / 0.46], atol=0.03)


@pytest.mark.parametrize("k", [1, 3])
def test_late_shuffled_and_missing_answers_give_the_same_state(k: int) -> None:
    rng = np.random.default_rng(k)
    rows = rng.integers(0, 5, (50, 6))
    states = []
    for order in (range(50), rng.permutation(50)):
        agent = Agent(DoubtSort(DCG(), max_grade=4), m=6, k=k, seed=1)
        decisions = [agent.rank() for _ in rows]
        for t in order:
            answers = rows[t][decisions[t].ranking[:k]].astype(float)
            answers[(t + np.arange(k)) % 3 == 0] = np.nan
            agent.update(decisions[t], answers)
        states.append(agent.state.items)
    one, two = states
    assert one.answers.sum() < 50 * k
    for name in ("sums", "squares", "answers", "rounds"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.pool == pytest.approx(two.pool, rel=1e-13)


def test_learns_from_a_log_of_answers_alone() -> None:
    """The token is not needed: whatever was shown, by whomever, its answers teach."""
    agent, rng = Agent(DoubtSort(DCG()), m=5, k=1, seed=0), np.random.default_rng(0)
    means = np.array([0.1, 0.3, 0.9, 0.5, 0.7])
    for _ in range(3000):
        decision = agent.rank()._replace(ranking=rng.permutation(5))  # a log of random rankings
        agent.update(decision, [rng.random() < means[decision.ranking[0]]])
    agent._state.items.rounds[:] = 1
    orders = {tuple(agent.rank().ranking) for _ in range(20)}
    assert (2, 4, 3, 1, 0) in orders
    assert len(orders) < 4


def lost(learner: Any, means: Floats, T: int, k: int, seed: int, measure: Any) -> float:
    """What a run lost to the order of the true means, on the same rounds."""
    rows = np.random.default_rng([4, seed]).random((T, len(means))) < means
    trace = simulate(learner, fixed_items(rows), k=k, measure=measure, seed=seed, checkpoints=np.array([T]))
    best = measure.values(np.tile(np.argsort(-means), (T, 1)), rows).sum()
    return float(best - trace.value[-1]) * (1 if measure.higher_is_better else -1)


@pytest.mark.compiled
def test_loses_less_than_epsilon_greedy() -> None:
    means = np.array([0.6, 0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1])
    mine, theirs = (
        np.mean([lost(learner, means, 50_000, 1, seed, DCG()) for seed in range(6)])
        for learner in (DoubtSort(DCG()), Greedy(DCG()))
    )
    assert mine < 0.85 * theirs


@pytest.mark.parametrize(
    ("measure", "k"), [(DCG(), 1), (DCG(), 3), (SumLoss(), 1), (Precision(2, mean=False), 1), (DCG(2), 4)]
)
def test_orders_the_list(measure: Any, k: int) -> None:
    """In the second half it loses a tenth of what a random order loses, or less."""
    means, T = np.linspace(0.9, 0.1, 6), 6000
    late = [
        lost(learner, means, T, k, 0, measure) - lost(learner, means, T // 2, k, 0, measure)
        for learner in (DoubtSort(measure), DoubtSort(measure, variant="cautious"))
    ]
    discount = measure.discount(6)
    random = abs(np.sort(discount)[::-1] @ means - discount.mean() * means.sum()) * T / 2
    assert max(late) < 0.1 * random


@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 2), (5, 1), (40, 3)])
def test_play_equals_simulate(m: int, k: int) -> None:
    rounds = fixed_items(np.random.default_rng(m).integers(0, 2, (300, m)))
    one, two = (run(DoubtSort(DCG()), rounds, k=k, measure=DCG()) for run in (play, simulate))
    assert np.array_equal(one.value, two.value)
    assert np.array_equal(one.explored, two.explored)


@pytest.mark.parametrize(
    ("name", "bad"), [("variant", "bold"), ("decay", 0.0), ("decay", 1.5), ("max_grade", 0), ("measure", "ndcg")]
)
def test_bad_parameters(name: str, bad: Any) -> None:
    from peekrank import measure

    given: dict[str, Any] = {"measure": DCG(), name: measure(bad) if name == "measure" else bad}
    with pytest.raises(ValueError, match=bad if name == "measure" else name):
        DoubtSort(**given)


# --- the theorem


@pytest.mark.parametrize(
    ("measure", "k"), [(DCG(), 1), (DCG(), 3), (SumLoss(), 2), (Precision(2, mean=False), 1), (DCG(2), 4)]
)
def test_the_theorem_term_by_term(measure: Any, k: int) -> None:
    """The bound against its parts, the split at M answers found by trying all M."""
    m, T = 6, 5000
    g, L = 3.0 if measure == DCG() else 1.0, log(2 * T**3)
    grade = 2 if g == 3 else 1
    weights = sorted(np.abs(measure.discount(m) - measure.discount(m)[-1]), reverse=True)
    w1, wk, W = weights[0], weights[k - 1], sum(weights)
    tied = [p for p in range(m) if weights[p] == wk]
    tau = len(tied) / len([p for p in tied if p < k])
    split = np.geomspace(1e-3, T, 100_001)
    below = float(np.min(3 * g * (wk * (split + 1) + w1 * np.sqrt(L / (2 * split)) * T))) if wk else 0.0
    seen = 2 * w1 * 2 * g * (1 + 2 * sqrt(L / 2) * sqrt(T)) * tau
    crowded = 4 * g * W * (L / 2 * (4 * m * w1 / wk) ** 2 + 1) if wk else 0.0
    expected = m * (below + seen + crowded + g * W * pi**2 / 6)
    safe = DoubtSort(measure, max_grade=grade, variant="safe")
    assert safe.stochastic_bound(Shape(m, 0, k), T) == pytest.approx(expected, rel=1e-6)
    assert DoubtSort(measure).stochastic_bound(Shape(m, 0, k), T) is None
    assert DoubtSort(measure, variant="safe", decay=0.99).stochastic_bound(Shape(m, 0, k), T) is None


@pytest.mark.parametrize("k", [1, 2])
def test_the_safe_form_keeps_its_widths(k: int) -> None:
    """In 5,000 rounds no mean is further off than its width, though all answers are looked at all the time."""
    learner, means = DoubtSort(DCG(), variant="safe"), np.array([0.8, 0.5, 0.2])
    agent, rng, broken = Agent(learner, m=3, k=k, seed=0), np.random.default_rng(0), 0
    for _ in range(5000):
        decision = agent.rank()
        state = agent.state
        broken += int((np.abs(state.means - means[state.rows]) > state.widths).any())
        agent.update(decision, (rng.random(k) < means[decision.ranking[:k]]).astype(int))
    assert broken == 0
    assert agent.state.items.answers.min() > 50


def test_a_charge_of_a_tied_item_ends_with_its_own_gap() -> None:
    """P@3 with k = 1: what sorting may lose by unseen items of the first three is charged to the seen one.

    Item 0 is seen, because it is known least, and far from all others. Item 2 is close to item 3, which is known
    better. So item 2 is still charged to item 0 when that is known well enough for its own gap.
    """
    means, answers = np.array([1.0, 0.5, 0.1, 0.08, 0.0]), (900, 1000, 1000, 1100, 500)
    agent, rng = (
        Agent(DoubtSort(Precision(3, mean=False), variant="safe"), m=5, k=1, seed=0),
        np.random.default_rng(0),
    )
    for item in rng.permutation(np.repeat(np.arange(5), answers)):
        order = [item, *(i for i in range(5) if i != item)]
        agent.update(agent.override(agent.rank(), order), [int(rng.random() < means[item])])
    agent.rank()
    s, log_term = agent.state, np.log(2.0 * sum(answers) ** 3)
    assert s.rows[:4].tolist() == [0, 1, 2, 3]
    assert np.all(np.abs(s.means - means[s.rows]) <= s.widths)
    assert s.widths[0] == s.widths[:3].max()
    assert s.doubts[2] > 0
    ended_by_own_gap, ended_by_that_of_2 = 8 * log_term / 0.5**2, 8 * log_term / 0.02**2
    assert ended_by_own_gap < s.items.answers[0] <= ended_by_that_of_2


def test_regret_of_the_safe_form_grows_slowly() -> None:
    """From 10,000 to 40,000 rounds it grows by less than 4^(2/3), and is far below the theorem."""
    means, safe = np.linspace(0.9, 0.1, 5), DoubtSort(DCG(), variant="safe")
    short, long = (np.mean([lost(safe, means, T, 1, s, DCG()) for s in range(4)]) for T in (10_000, 40_000))
    assert long < 4 ** (2 / 3) * short
    bound = safe.stochastic_bound(Shape(5, 0, 1), 40_000)
    assert bound is not None
    assert long < bound


@pytest.mark.parametrize("variant", ["usual", "cautious", "safe"])
def test_an_explanation_has_the_means_and_widths_of_the_last_list(variant: Any) -> None:
    learner, rng = DoubtSort(DCG(2), max_grade=2, variant=variant), np.random.default_rng(1)
    agent = Agent(learner, m=5, k=2, seed=1)
    for _ in range(40):
        agent.update(agent.rank(available=[0, 1, 3, 4]), rng.integers(0, 3, 2))
    agent.rank()
    found = learner.explain(agent.state, np.full(5, np.nan), None)
    assert found.answers.sum() == 80
    assert found.answers[2] == 0
    order = agent.state.rows[:5]
    assert agent.state.means[:5].tolist() == found.means[order].tolist()
    assert agent.state.widths[:5].tolist() == found.parts["width"][order].tolist()
