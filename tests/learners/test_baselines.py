"""Greedy, Thompson and UCB: what they show, and the streams on which their regret is linear."""

from __future__ import annotations

from math import e, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from peekrank import DCG, UCB, Agent, Bernoulli, DoubtSort, Greedy, Shape, Thompson, fixed_items, simulate
from peekrank.kernels.vectors import fill_normals
from peekrank.regret import best_values, regret
from peekrank.types import Features, Floats, Ints, Rounds

NO_FEATURES: Features = np.empty((0, 0), dtype=np.float32)
BASELINES: list[Any] = [Greedy(DCG()), Thompson(DCG()), UCB(DCG())]


def told(learner: Any, m: int, k: int, answers: dict[int, list[float]]) -> Any:
    """A state that has these answers, and ten rounds behind it."""
    state = learner.init(Shape(m, 0, k))
    for item, gains in answers.items():
        for gain in gains:
            ranking, feedback = np.roll(np.arange(m), -item), np.full(k, np.nan)
            feedback[0] = gain
            learner.kernels.update(state, NO_FEATURES, ranking, np.zeros(1), feedback)
    state.items.rounds[:] = 10
    return state


def show(learner: Any, state: Any, m: int, uniforms: Floats) -> tuple[Ints, bool]:
    ranking, token = np.arange(m), np.zeros(1)
    learner.kernels.rank(state, NO_FEATURES, uniforms, ranking, token)
    return ranking, bool(token[0])


ANSWERS = {0: [0.0, 0.25, 0.5], 1: [1.0], 3: [0.75, 1.0, 1.0, 0.5]}  # item 2 has none


def means_of(answers: dict[int, list[float]], m: int) -> Floats:
    prior = (0.5 + sum(np.mean(gains) for gains in answers.values())) / (1 + len(answers))
    return np.array([(sum(answers.get(i, [])) + prior) / (len(answers.get(i, [])) + 1) for i in range(m)])


def spreads_of(answers: dict[int, list[float]], m: int) -> Floats:
    """Variance over the number of answers, both with their pseudo-answers."""
    found = []
    for i in range(m):
        gains = np.array(answers.get(i, []))
        deviations = float(((gains - gains.mean()) ** 2).sum()) if len(gains) else 0.0
        found.append((deviations + 0.5) / (len(gains) + 2) / (len(gains) + 1))
    return np.array(found)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_greedy_by_enumeration(k: int) -> None:
    """Each item is drawn with probability epsilon / m, and moved to position k if it stands below."""
    for epsilon, rounds in ((0.3, 0), (None, 0), (None, 26)):
        learner = Greedy(DCG(), epsilon=epsilon)
        by_mean = np.argsort(-means_of(ANSWERS, 4))
        propensity = epsilon or (rounds + 1) ** (-1 / 3)
        for position in (*range(4), None):
            state = told(learner, 4, k, ANSWERS)
            state.rounds[0] = rounds
            uniform = (1 + propensity) / 2 if position is None else (position + 0.5) / 4 * propensity
            if uniform >= 1:
                continue
            expected = by_mean.tolist()
            moved = position is not None and position >= k
            if moved:
                expected.insert(k - 1, expected.pop(position))
            ranking, explored = show(learner, state, 4, np.array([uniform]))
            assert ranking.tolist() == expected
            assert explored == moved


def test_ucb_sorts_by_mean_plus_width() -> None:
    learner = UCB(DCG())
    ranking, explored = show(learner, told(learner, 4, 1, ANSWERS), 4, np.empty(0))
    bounds = means_of(ANSWERS, 4) + np.sqrt(spreads_of(ANSWERS, 4) * log(e + 11))
    assert ranking.tolist() == np.argsort(-bounds).tolist()
    assert not explored


def test_thompson_sorts_by_a_normal_draw() -> None:
    """The probability of item 1 to stand before item 0 is that of one normal number to exceed another."""
    learner = Thompson(DCG())
    state, rng, before = told(learner, 4, 1, ANSWERS), np.random.default_rng(0), 0
    for _ in range(20_000):
        ranking, _ = show(learner, state, 4, rng.random(4))
        positions = np.argsort(ranking)
        before += int(positions[2] < positions[3])
    means, spreads = means_of(ANSWERS, 4), spreads_of(ANSWERS, 4)
    expected = norm.cdf((means[2] - means[3]) / sqrt(spreads[2] + spreads[3]))
    assert before / 20_000 == pytest.approx(expected, abs=0.015)


def test_normal_numbers_are_normal() -> None:
    out = np.full(200_001, np.nan)
    fill_normals(np.random.default_rng(0).random(200_000), out)
    assert np.isnan(out[-1])
    levels = np.linspace(-3, 3, 25)
    found = (out[:-1, None] < levels).mean(axis=0)
    np.testing.assert_allclose(found, norm.cdf(levels), atol=0.005)
    assert abs(np.corrcoef(out[:-1:2], out[1:-1:2])[0, 1]) < 0.01
    fill_normals(np.array([0.0, 0.5, np.nextafter(1, 0), 0.5]), out)
    assert np.isfinite(out[:4]).all()


@pytest.mark.parametrize("learner", BASELINES, ids=lambda learner: learner.name)
def test_partial_answers_teach(learner: Any) -> None:
    agent = Agent(learner, m=4, k=3, seed=0)
    decision = agent.rank()
    agent.update(decision, [np.nan, 1, np.nan])
    assert agent.state.items.answers[decision.ranking].tolist() == [0, 1, 0, 0]


# --- linear regret


def lost_per_round(learner: Any, rounds: Rounds, seed: int) -> Floats:
    """After a tenth of the rounds, and after all."""
    T = len(rounds.offsets) - 1
    checkpoints = np.array([T // 10, T])
    trace = simulate(learner, rounds, k=1, measure=DCG(), seed=seed, checkpoints=checkpoints)
    return np.asarray(regret(DCG(), trace, best_values(DCG(), rounds, checkpoints)) / checkpoints)


def below(T: int, seed: int) -> Rounds:
    """Which item is best is clear; how the others compare is all there is to learn."""
    return Bernoulli((0.9, 0.4, 0.3, 0.2, 0.1)).rounds(T, np.random.default_rng([3, seed]))


def late(T: int, seed: int) -> Rounds:
    """An item that is irrelevant in the first third of the rounds, then always relevant, and a coin."""
    coin = np.random.default_rng([4, seed]).random(T) < 0.55
    return fixed_items(np.stack([coin, np.arange(T) >= T / 3], axis=1))


@pytest.mark.parametrize("learner", [Thompson(DCG()), UCB(DCG())], ids=lambda learner: learner.name)
def test_regret_is_linear_below_the_top(learner: Any) -> None:
    """Over a decade of rounds the loss per round hardly falls, where doubtsort's falls to a third."""
    early, end = np.mean([lost_per_round(learner, below(100_000, s), s) for s in range(4)], axis=0)
    assert end > 0.7 * early
    early, end = np.mean([lost_per_round(DoubtSort(DCG()), below(100_000, s), s) for s in range(4)], axis=0)
    assert end < 0.5 * early


@pytest.mark.parametrize("learner", [*BASELINES, DoubtSort(DCG())], ids=lambda learner: learner.name)
def test_regret_is_linear_where_relevance_changes(learner: Any) -> None:
    """What was seen at first counts as much as what is not seen any more: the better item stays below."""
    for T in (3000, 30_000):
        assert np.mean([lost_per_round(learner, late(T, s), s)[1] for s in range(3)]) > 0.03


@pytest.mark.parametrize(("name", "bad"), [("max_grade", 0), ("epsilon", 0.0), ("epsilon", 1.5)])
def test_bad_parameters(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} = "):
        Greedy(DCG(), **{name: bad})
    for learner in (Thompson, UCB):
        with pytest.raises(ValueError, match="max_grade = 0"):
            learner(DCG(), max_grade=0)
