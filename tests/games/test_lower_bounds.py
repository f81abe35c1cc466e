"""Lower bounds: their constants on the hard instances of the proofs; below every learner's bound and regret."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from peekrank import Agent, Experiment, advise, lower_bound
from peekrank.cli.app import app
from peekrank.experiments import runs
from peekrank.learners import learner
from peekrank.measures import measure
from peekrank.reports.experiment_page import write_report
from peekrank.reports.numbers import number
from peekrank.types import Shape

M, K, T = 8, 1, 400
PN = "p@2+sum"


def gap_of_sets() -> float:
    return sqrt(M / (K * T)) / 8


def gap_of_orders(name: str, m: int, k: int, rounds: int) -> float:
    """D of the second proof, from its bound."""
    h, w = (m - k) // 2, np.abs(np.diff(measure(name).discount(m)))  # type: ignore[attr-defined]
    bound = lower_bound(name, m, k, rounds)
    assert bound is not None
    return 1 / (2 * sqrt(4.62 * bound / (w[k - 1] * h)))


def test_a_random_set_loses_three_halves_of_the_bound() -> None:
    """Who never looks loses D n T (1 - n/m) in every world. So a constant twice as large would be wrong."""
    bound = lower_bound(PN, M, K, T)
    assert bound is not None
    assert gap_of_sets() * 2 * T * (1 - 2 / M) == pytest.approx(1.5 * bound)


@pytest.mark.parametrize("m", [6, 7])
def test_a_random_order_loses_twice_the_bound(m: int) -> None:
    """In the second proof, with sumloss, whose weights fall by one: enumerate all orders of the open items."""
    h, rounds = (m - K) // 2, 10_000
    D, bound = gap_of_orders("sumloss", m, K, rounds), lower_bound("sumloss", m, K, rounds)
    assert bound is not None
    orders = permutations(range(2 * h))  # the first h are the better ones
    pairs = [sum(above >= h > below for above, below in combinations(order, 2)) for order in orders]
    assert np.mean(pairs) == h**2 / 2
    assert D * np.mean(pairs) * rounds == pytest.approx(2 * bound, rel=2e-3)


def mean_regret(name: str, worlds: int) -> float:
    """Mean regret over random worlds of the first proof, against the best set, with the means known."""
    random, D, total = np.random.default_rng(5), gap_of_sets(), 0.0
    for seed in range(worlds):
        good = random.permutation(M) < 2
        agent = Agent(learner(name, measure=measure(PN), horizon=T, max_grade=1), m=M, k=K, seed=seed)
        for answers in random.random((T, M)) < 0.5 + D * good:
            decision = agent.rank()
            ranking = decision.ranking
            agent.update(decision, answers[ranking[:K]])
            total += D * (2 - good[ranking[:2]].sum())
    return total / worlds


@pytest.mark.parametrize("name", ["setftrl", "marginftrl", "doubtsort"])
def test_no_learner_does_better_on_random_sets(name: str) -> None:
    """They lose at most as much as chance here, three halves of the bound: the constant is nearly right."""
    bound = lower_bound(PN, M, K, T)
    assert bound is not None
    assert bound < mean_regret(name, 60) < 1.6 * bound


PAIRS = [("setftrl", "p@2+sum"), ("setftrl", "p@5"), ("marginftrl", "dcg"), ("marginftrl", "sumloss"),
         ("blockftrl", "rbp"), ("rtop1f", "dcg")]  # fmt: skip


@pytest.mark.parametrize(("name", "measure_name"), PAIRS)
def test_bounds_of_learners_are_above(name: str, measure_name: str) -> None:
    for m in (20, 50):
        for rounds in (10**3, 10**6, 10**9):
            for grades in (2, 4):
                low = lower_bound(measure_name, m, 1, rounds, grades)
                subject = learner(name, measure=measure(measure_name), horizon=rounds, max_grade=grades - 1)
                high = subject.bound(Shape(m, 0, 1), rounds)
                assert high is not None
                assert low is None or low < high
    assert lower_bound(measure_name, 20, 1, 10**9) is not None


def factor_of_setftrl(m: int, n: int, k: int) -> float:
    """Its bound over the lower bound, 0 where there is none."""
    name = f"p@{n}+sum"
    high = learner("setftrl", measure=measure(name), horizon=10**9).bound(Shape(m, 0, k), 10**9)
    low = lower_bound(name, m, k, 10**9)
    return high / low if high and low else 0.0


def test_the_factors_of_the_page() -> None:
    factors = [factor_of_setftrl(m, n, k) for m in (20, 200) for n in (1, 5) for k in (1, n)]
    assert 43 < max(factors) < 45.26
    further = [factor_of_setftrl(20, n, k) for n in (1, 2, 5) for k in range(1, 20)]
    assert max(further) == pytest.approx(82.9, abs=0.1)
    assert factor_of_setftrl(200, 1, 199) == pytest.approx(163.8, abs=0.1)
    for name, m, expected in (("dcg", 10, 99), ("dcg", 100, 107), ("sumloss", 10, 48), ("sumloss", 100, 74)):
        high = learner("marginftrl", measure=measure(name), horizon=10**9).bound(Shape(m, 0, 1), 10**9)
        low = lower_bound(name, m, 1, 10**9)
        assert high is not None
        assert low is not None
        assert high / low == pytest.approx(expected, abs=1)


def test_where_no_theorem_applies() -> None:
    assert lower_bound("ndcg", 10, 1, 1000) is None
    assert lower_bound("p@3", 10, 1, 1000) is None  # n > m/4
    assert lower_bound("dcg", 10, 9, 10**6) is None
    assert lower_bound("dcg@3", 10, 1, 10**6) is None
    assert lower_bound("dcg", 100, 1, 20) is None  # too few rounds
    assert lower_bound("p@1", 8, 1, 1) is None
    assert lower_bound("p@1", 1, 1, 10) is None


def test_grades_scale_the_bound() -> None:
    two, four = (lower_bound("dcg", 10, 1, 10_000, grades) for grades in (2, 4))
    assert two is not None
    assert four == pytest.approx(7 * two)


def test_experiments_and_reports_have_it(tmp_path: Path) -> None:
    experiment = Experiment(("marginftrl",), "ct15:m=10", "dcg", k=1, horizon=10_000)
    assert experiment.lower_bound == lower_bound("dcg", 10, 1, 10_000)
    assert replace(experiment, regret="none").lower_bound is None
    done = CliRunner().invoke(app, ["study", "dcg", "uniform", "--m", "4", "--k", "1", "--horizons", "500,1000",
                                    "--runs", "1", "--out", str(tmp_path / "study")])  # fmt: skip
    expected = lower_bound("dcg", 4, 1, 1000)
    assert f"Each learner loses at least {number(expected)} in 1,000 rounds on some i.i.d. stream." in done.output
    arguments = ["uniform", "--stream", "ct15:m=10", "--horizon", "1000", "--runs", "1", "--out"]
    done = CliRunner().invoke(app, ["simulate", *arguments, str(tmp_path / "results")])
    assert f"Each learner loses at least {number(lower_bound('dcg', 10, 1, 1000))} in 1,000 rounds" in done.output
    page = write_report(runs.read(tmp_path / "results"), tmp_path / "report.html", title="t").read_text()
    assert "a regret that each learner with 1 of 10 answers exceeds on some stream" in page


def test_advice_has_it_beside_the_bound() -> None:
    advice = advise("p@2+sum", m=10, k=1, horizon=10_000)
    assert advice.lower_bound == pytest.approx(39.53, abs=0.01)
    assert advice.bound is not None
    assert advice.lower_bound is not None
    assert 40 < advice.bound / advice.lower_bound < 70
    assert "limit: no learner can guarantee less than 39.5" in str(advice)
    assert advise("p@2", m=10, k=1).lower_bound is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 10, 2), "m = 0"),
        ((4, 5, 10, 2), "k = 5"),
        ((4, 0, 10, 2), "k = 0"),
        ((4, 1, 0, 2), "horizon = 0"),
        ((4, 1, 10, 1), "grades = 1"),
    ],
)
def test_impossible_problems_are_refused(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lower_bound("dcg", *arguments)
