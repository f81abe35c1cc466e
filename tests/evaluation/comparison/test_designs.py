"""Designs: propensities and unbiasedness by enumeration of all draws, and optimality against other designs."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from helpers.enumeration import outcomes
from peekrank import DCG
from peekrank.evaluation.comparison.designs import (
    Design,
    draw_list,
    fill_design,
    fill_difference,
    fill_exposure,
    make_space,
)
from peekrank.evaluation.comparison.evidence import SUM, Evidence, make_evidence, make_work, observe_list
from peekrank.evaluation.comparison.forecast import forecast
from peekrank.evaluation.comparison.settings import Settings
from peekrank.kernels.confidence import Bound
from peekrank.types import Floats, Ints

Lists = dict[tuple[int, ...], float]
EXAMINATION = (1.0, 0.6, 0.3)


class Drawn:
    """Everything that a design can show for a pair of orders, with exact probabilities."""

    def __init__(self, design: Design, ranks: Ints, theta: Floats, weights: Floats, spread: Floats) -> None:
        n = len(ranks)
        self.difference, self.exposure, self.included = np.empty(n), np.empty(n), np.empty(n)
        space = make_space(n)
        fill_difference(weights, ranks, self.difference)
        fill_design(design, self.difference, ranks, theta, spread.copy(), space, self.exposure)
        planned = self.exposure.copy()

        def drawn(u: Floats) -> tuple[int, ...]:
            ranking, self.exposure[:] = np.empty(n, np.int64), planned
            arm = draw_list(design, self.difference, ranks, theta, u, space, self.exposure, ranking, self.included)
            return (arm, *ranking.tolist())

        draws = n + 1 if design.clicks and design.union else 2
        found = outcomes(lambda u: drawn(np.append(u, np.full(n, 0.5))), min(draws, 4), 12)
        self.lists: Lists = {}
        self.arms: dict[int, float] = {}
        for shown, chance in found.items():
            assert isinstance(shown, tuple)
            arm, ranking = shown[0], shown[1:]
            self.lists[tuple(ranking)] = self.lists.get(tuple(ranking), 0.0) + chance
            self.arms[arm] = self.arms.get(arm, 0.0) + chance
        assert planned == pytest.approx(self.exposure, abs=1e-11)

    def exposures(self, theta: Floats) -> Floats:
        """Mean examination of each row."""
        total = np.zeros(len(theta))
        for ranking, chance in self.lists.items():
            total[list(ranking)] += chance * theta
        return total


def cases(n: int, seed: int) -> list[tuple[Ints, Floats]]:
    rng = np.random.default_rng(seed)
    ranks = [np.arange(n)[::-1].copy(), np.arange(n), *(rng.permutation(n) for _ in range(4))]
    return [(order, rng.uniform(0.3, 1.0, n)) for order in ranks]


@pytest.mark.parametrize(("n", "k", "outside"), [(4, 2, 0.0), (5, 2, 0.1), (6, 3, 0.25), (5, 1, 0.0), (3, 3, 0.0)])
def test_propensities_of_mixtures_are_exact(n: int, k: int, outside: float) -> None:
    theta = (np.arange(n) < k).astype(np.float64)
    weights = (DCG() if outside else DCG(k)).discount(n)
    for ranks, spread in cases(n, n + k):
        drawn = Drawn(Design(k, True, False, outside), ranks, theta, weights, spread)
        found = drawn.exposures(theta)
        assert found == pytest.approx(drawn.included, abs=1e-10)
        assert found == pytest.approx(drawn.exposure, abs=1e-10)
        assert drawn.arms == pytest.approx({0: 0.5, 1: 0.5}, abs=1e-12)
        beyond = (np.arange(n) >= k) & (ranks >= k)
        assert found[beyond].sum() <= outside + 1e-9
        inside = ~beyond & (drawn.difference != 0)
        assert (found[inside] > 0).all()
        for ranking in drawn.lists:  # the set shown keeps a's order or b's, and so do the others
            for part in (ranking[:k], ranking[k:]):
                assert list(part) in (sorted(part), sorted(part, key=lambda row: ranks[row]))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_propensities_of_coins_are_exact(k: int) -> None:
    theta = (np.arange(4) < k).astype(np.float64)
    for ranks, spread in cases(4, k):
        drawn = Drawn(Design(k, False, False, 0.0), ranks, theta, DCG(k).discount(4), spread)
        orders = {tuple(range(4)), tuple(np.argsort(ranks).tolist())}
        assert set(drawn.lists) == orders
        assert drawn.exposures(theta) == pytest.approx(drawn.included, abs=1e-12)


@pytest.mark.parametrize("n", [3, 4])
def test_exposures_of_clicks_are_exact(n: int) -> None:
    theta = np.r_[EXAMINATION, np.zeros(9)][:n]
    for ranks, spread in cases(n, 7):
        drawn = Drawn(Design(3, True, True, 0.0), ranks, theta, DCG(3).discount(n), spread)
        assert drawn.exposures(theta) == pytest.approx(drawn.exposure, abs=1e-9)
        assert drawn.exposures((np.arange(n) < 3).astype(np.float64)) == pytest.approx(drawn.included, abs=1e-9)


@pytest.mark.parametrize("theta", [(1.0, 1.0, 0.0, 0.0), (1.0, 0.5, 0.33, 0.0), (0.9, 0.9, 0.2, 0.1)])
def test_no_other_design_has_less_variance(theta: tuple[float, ...]) -> None:
    rng, orders = np.random.default_rng(4), np.array(list(permutations(theta)))
    for _ in range(30):
        wanted, out = rng.uniform(0, 1, 4) ** 2, np.empty(4)
        fill_exposure(wanted, np.arange(4), np.array(theta), make_space(4), out)
        best = (wanted**2 / out).sum()
        assert out.sum() == pytest.approx(sum(theta))
        sorted_sums = np.cumsum(np.sort(out)[::-1])
        assert (sorted_sums <= np.cumsum(theta) + 1e-12).all()  # theta majorises it, so random rankings have it
        for _ in range(200):
            other = rng.dirichlet(np.full(len(orders), 0.2)) @ orders
            with np.errstate(divide="ignore"):
                assert (wanted**2 / other).sum() >= best * (1 - 1e-12)


def warm(n: int, seed: int) -> Evidence:
    """Evidence with predictions and spreads of its own for each item."""
    rng, evidence = np.random.default_rng(seed), make_evidence(n, 1.0)
    evidence.counts[:] = rng.integers(0, 9, n)
    evidence.sums[:] = evidence.counts * rng.random(n)
    evidence.squares[:] = evidence.counts * rng.random(n) / 4
    return evidence


@pytest.mark.parametrize(
    ("design", "measure"),
    [
        (Design(2, True, False, 0.0), DCG(2)),
        (Design(2, True, False, 0.2), DCG()),
        (Design(2, False, False, 0.0), DCG(2)),
        (Design(3, True, True, 0.0), DCG(3)),
        (Design(3, False, True, 0.0), DCG(3)),
    ],
)
def test_estimates_are_unbiased_whatever_is_predicted(design: Design, measure: DCG) -> None:
    n, k = 4, design.k
    theta = np.r_[EXAMINATION, 0.0] if design.clicks else (np.arange(n) < k).astype(np.float64)
    weights = measure.discount(n)
    for case, (ranks, spread) in enumerate(cases(n, 11)):
        means = np.random.default_rng(case).random(n)
        drawn, expected = Drawn(design, ranks, theta, weights, spread), 0.0
        for ranking, chance in drawn.lists.items():
            evidence, rows, position = warm(n, case), np.array(ranking), np.empty(n, np.int64)
            position[rows] = np.arange(n)
            gain, looked = np.full(n, np.nan), theta[position] if design.clicks else np.empty(0)
            gain[rows[:k]] = means[rows[:k]] * (theta[:k] if design.clicks else 1.0)  # the estimate is linear
            observe_list(
                evidence, np.arange(n), drawn.difference, drawn.exposure, gain, looked, k, k, 1.0,
                float(weights.sum()), make_work(n),
            )  # fmt: skip
            expected += chance * evidence.totals[SUM]
        assert expected == pytest.approx(drawn.difference @ means, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("union", [True, False])
def test_evidence_is_a_supermartingale(k: int, union: bool) -> None:
    """Enumerate two visits with all sets, orders and answers: the mean evidence against the truth is at most 1."""
    n, weights = 3, DCG(k).discount(3)
    theta, design = (np.arange(n) < k).astype(np.float64), Design(k, union, False, 0.0)
    for ranks, means in (
        (np.array([2, 1, 0]), np.array([0.05, 0.9, 0.02])),
        (np.array([1, 2, 0]), np.full(3, 0.95)),
    ):
        truth = float((weights - weights[ranks]) @ means)
        drawn = Drawn(design, ranks, theta, weights, np.ones(n))
        visits = []
        for ranking, chance in drawn.lists.items():
            rows = np.array(ranking[:k])
            for answers in product((0.0, 1.0), repeat=k):
                likely = np.prod([means[r] if a else 1 - means[r] for r, a in zip(rows, answers, strict=True)])
                gain = np.full(n, np.nan)
                gain[rows] = answers
                visits.append((chance * float(likely), gain))
        assert sum(chance for chance, _ in visits) == pytest.approx(1)
        above = below = 0.0
        for first, second in product(visits, repeat=2):
            evidence = make_evidence(n, 1.0)
            for _, gain in (first, second):
                observe_list(
                    evidence, np.arange(n), drawn.difference, drawn.exposure, gain, np.empty(0), k, k, 1.0,
                    float(weights.sum()), make_work(n),
                )  # fmt: skip
            scale = evidence.totals[3]
            chance = first[0] * second[0]
            below += chance * np.exp(_log_evidence(evidence.difference.below, truth / scale))
            above += chance * np.exp(_log_evidence(evidence.difference.above, -truth / scale))
        assert below <= 1 + 1e-12
        assert above <= 1 + 1e-12


def _log_evidence(bound: Bound, mean: float) -> float:
    parts = bound.weights + bound.rates * (bound.sums - bound.observed[0] * mean) - bound.costs * bound.squares
    return float(np.log(np.exp(parts).sum()))


def reported(design: Design, ranks: Ints, effects: Floats, means: Floats) -> float:
    """Expected estimate of a design if answers depend on the position and nobody knows."""
    n, theta = len(ranks), (np.arange(len(ranks)) < design.k).astype(np.float64)
    drawn = Drawn(design, ranks, theta, DCG(design.k).discount(n), np.ones(n))
    seen = drawn.exposures(effects)
    counts = drawn.difference != 0
    return float((drawn.difference[counts] * seen[counts] * means[counts] / drawn.exposure[counts]).sum())


def test_positions_do_not_favour_a_side_of_the_mixture() -> None:
    """Equal items with an unknown effect of the position: the mixture reports at most .02, the coin up to .15."""
    n, effects = 6, np.array([1.0, 0.8, 0.6, 0.0, 0.0, 0.0])
    rng = np.random.default_rng(0)
    orders = [np.array(order) for order in rng.permutation(list(permutations(range(n))))[:10]]
    orders += [np.array(order) for order in ((1, 0, 2, 3, 4, 5), (2, 1, 0, 3, 4, 5), (3, 1, 2, 0, 4, 5))]
    found = {
        union: [reported(Design(3, union, False, 0.0), ranks, effects, np.full(n, 0.5)) for ranks in orders]
        for union in (True, False)
    }
    assert max(map(abs, found[True])) <= 0.02
    assert max(map(abs, found[False])) > 0.05


def test_the_forecast_is_the_ratio_of_variances() -> None:
    disjoint = [np.r_[3:6, 0:3]], [np.r_[10:20, 0:10]]
    for k, ranks, ratio in ((3, disjoint[0], 0.92), (10, disjoint[1], 0.83)):
        found = forecast(Settings(DCG(k), k), ranks)
        assert found.ratio == pytest.approx(ratio, abs=0.005)
        assert found.coin == pytest.approx(1.0)
    weights = DCG(3).discount(3)
    swapped = forecast(Settings(DCG(3), 3), [np.array([2, 1, 0])])
    expected = 2 * (weights[0] - weights[2]) ** 2 / (4 * (weights**2).sum())
    assert swapped.ratio == pytest.approx(expected)
    assert swapped.coin == pytest.approx(expected)
    same = forecast(Settings(DCG(3), 3), [np.arange(5)])
    assert (same.ratio, same.differ) == (0, 0)
    assert "never differ" in str(same)
