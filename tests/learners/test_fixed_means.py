"""Fixed means: steps and bounds of the proofs that setftrl and permftrl then lose little (docs/theory/ftrl.md)."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq

from peekrank import DCG, Precision, Shape, SumLoss, fixed_items, simulate
from peekrank.learners._shared import position_weights
from peekrank.learners.permftrl import PermFTRL
from peekrank.learners.setftrl import SetFTRL
from peekrank.types import Floats


def bracket(x: Floats, losses: Floats, eta: float) -> float:
    """The largest <x - y, losses> - D(y, x) / eta over the hypersimplex, from the condition for a maximum."""

    def at(multiplier: float) -> Floats:
        root = np.maximum(1 / np.sqrt(x) + eta * (losses - multiplier), 1.0)
        return np.asarray(1 / root**2)

    n = round(x.sum())
    low, high = losses.min() - (2 + 1 / np.sqrt(x.min())) * len(x) / eta, losses.max() + 1 / eta / np.sqrt(x.min())
    y = at(float(brentq(lambda z: at(z).sum() - n, low, high, xtol=1e-14)))
    return float((x - y) @ losses - np.sum((np.sqrt(y) - np.sqrt(x)) ** 2 / np.sqrt(x)) / eta)


def mean_bracket(x: Floats, eta: float, means: Floats) -> float:
    """The expectation of the bracket at n = k = 1 over the item shown and its loss."""
    total = 0.0
    for i, probability in enumerate(x):
        losses = np.zeros(len(x))
        losses[i] = 1 / probability
        total += probability * means[i] * bracket(x, losses, eta)
    return total


def test_the_bracket_is_at_most_three_times_eta_times_the_roots_of_the_others() -> None:
    random, largest = np.random.default_rng(3), 0.0
    for _ in range(300):
        m, eta = int(random.integers(2, 6)), float(random.choice([0.35, 0.1, 0.01]))
        x = random.dirichlet(np.full(m, 0.3)) * 0.999 + 0.001 / m
        others = np.sqrt(x).sum() - np.sqrt(x.max())  # if the best item is another, the sum is larger
        largest = max(largest, mean_bracket(x, eta, np.ones(m)) / (eta * others))
    assert 0.9 < largest < 3


def test_several_best_items_have_no_such_bound() -> None:
    """The counterexample of the page: the bracket is of order eta, the roots of the others are not."""
    ratios = []
    for eta in (1e-2, 1e-3, 1e-4):
        x = np.array([1 - eta / 2, 1 - eta / 2, eta])
        found = bracket(x, np.array([0.0, 1 / x[1], 0.0]), eta)
        assert 0.37 < found / eta < 1
        ratios.append(found / (eta * sqrt(eta)))
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 30


@pytest.mark.parametrize("k", [1, 3])
def test_setftrl_loses_a_logarithm_on_fixed_means(k: int) -> None:
    """Ten runs: regret is below the bound and grows by much less than sqrt(10) in ten times as many rounds."""
    means, T = np.array([0.7, 0.4, 0.4, 0.3, 0.3]), 100_000
    learner, gaps = SetFTRL(Precision(1)), means.max() - means
    lost = np.zeros((10, 2))
    for seed in range(10):
        relevance = np.random.default_rng(seed).random((T, 5)) < means
        rounds, times = fixed_items(relevance.astype(int)), np.array([T // 10, T])
        value = simulate(learner, rounds, k=k, measure=Precision(1), seed=seed, checkpoints=times).value
        lost[seed] = relevance[:, 0].cumsum()[times - 1] - value
    a2 = sqrt(5) / learner.spread(Shape(5, 0, k))
    bound = 12 * a2 + 25 * a2 * (1 + log(T)) * sum(1 / gap for gap in gaps if gap)
    early, late = lost.mean(axis=0)
    assert late < bound
    assert 0 < early < late < 2 * early  # log: 1.25 times, sqrt: 3.2 times
    assert late < learner.bound(Shape(5, 0, k), T) / 3


def constant_bound(learner: PermFTRL, means: Floats) -> float:
    """The bound of permftrl at k = m, for relevance in descending order of its means."""
    m, costs = len(means), 1 - means
    w = position_weights(learner.measure, m)
    n = int(np.count_nonzero(w))
    r, V = float(np.sum(w[:n] * np.log(m * w[:n] / w.sum()))), w.sum() / 4
    inner, outer = np.diff(costs[:n]), costs[n:] - costs[n - 1]
    s0 = 8 * V / r * max(((log(m * w[p] / w[p + 1]) / inner[p]) ** 2 for p in range(n - 1)), default=0.0)
    first = s0 + 1 + sum(1 + 8 / d**2 for d in (*inner, *outer))
    return float(w.sum() * first + w[n - 1] * sum(d + 16 * V / (r * d) for d in outer))


@pytest.mark.parametrize("measure", [DCG(), SumLoss(), DCG(2)], ids=str)
def test_permftrl_stops_losing_if_all_answers_are_seen(measure: DCG | SumLoss) -> None:
    means, T = np.array([0.9, 0.65, 0.4, 0.15]), 40_000
    learner, times = PermFTRL(measure), np.array([T // 2, T])
    lost = np.zeros((10, 2))
    for seed in range(10):
        relevance = np.random.default_rng(seed).random((T, 4)) < means
        rounds = fixed_items(relevance.astype(int))
        value = simulate(learner, rounds, k=4, measure=measure, seed=seed, checkpoints=times).value
        best = measure.values(np.tile(np.arange(4), (T, 1)), relevance.astype(int)).cumsum()[times - 1]
        regret = best - value if measure.higher_is_better else value - best
        lost[seed] = regret[0], regret[1] - regret[0]
    first, second = lost.mean(axis=0)
    assert 1 < first < constant_bound(learner, means)
    assert second < 1e-3 * first


def test_far_estimates_make_the_leader_a_vertex() -> None:
    """The step of the second proof: with these gaps, only the last positive weight is spread."""
    learner, m = PermFTRL(DCG()), 4
    shape, w = Shape(m, 0, m), position_weights(DCG(), m)
    state = learner.init(shape)
    rate = sqrt(float(np.sum(w[:3] * np.log(m * w[:3] / w.sum()))) / (w.sum() / 4))
    gaps = [log(m * w[p] / w[p + 1]) / rate * 1.001 for p in range(m - 2)]
    for last in (0.5, 2.0):
        state.scores[:] = -np.cumsum([0.0, *gaps, last / rate])
        positions = np.zeros((m, m))
        random = np.random.default_rng(0)
        for _ in range(4_000):
            ranking, token = np.full(m, -1, dtype=np.int64), np.full(1 + m, np.nan)
            PermFTRL.kernels.rank(state, np.empty((0, 0), dtype=np.float32), random.random(m), ranking, token)
            positions[ranking, np.arange(m)] += 1 / 4_000
        assert np.diag(positions)[: m - 2].tolist() == pytest.approx([1.0] * (m - 2))
        assert positions[m - 1, m - 2] == pytest.approx(exp(-last) / (1 + exp(-last)), abs=0.03)
