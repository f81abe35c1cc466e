"""experiments/baselines.py: its algorithms against their definitions, and tiny tables."""

from __future__ import annotations

import sys
from itertools import product
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
import records

from helpers.scripts import load_experiment

sys.modules["ridge"] = load_experiment("ridge")  # scripts in one folder import each other
baselines = load_experiment("baselines")


def naive_blocks(above: set[tuple[int, int]], m: int) -> list[set[int]]:
    """The partition of TopRank in the words of its paper: the items with no better one among those left."""
    left, blocks = set(range(m)), []
    while left:
        best = {i for i in left if not any((j, i) in above for j in left)}
        blocks.append(best)
        left -= best
    return blocks


def test_toprank_by_its_definition() -> None:
    random, m, rounds = np.random.default_rng(1), 4, 3_000
    bandit, above = baselines.TopRank(2, m, rounds), set[tuple[int, int]]()
    S, N = np.zeros((m, m)), np.zeros((m, m))
    for _ in range(rounds):
        blocks = naive_blocks(above, m)
        rankings = bandit.rank(random)
        ranking = rankings[1]
        ends = np.cumsum([len(block) for block in blocks])
        assert [set(part.tolist()) for part in np.split(ranking, ends[:-1])] == blocks
        clicks = (random.random(3) < np.array([0.9, 0.6, 0.4, 0.1])[ranking[:3]]).astype(float)
        clicked = dict(zip(ranking[:3].tolist(), clicks.tolist(), strict=True))
        for block in blocks:
            for i, j in product(block, block):
                S[i, j] += clicked.get(i, 0) - clicked.get(j, 0)
                N[i, j] += abs(clicked.get(i, 0) - clicked.get(j, 0))
        bandit.update(rankings, np.array([[0.0, 0.0, 0.0], clicks]))
        for i, j in product(range(m), range(m)):
            if N[i, j] and S[i, j] >= sqrt(2 * N[i, j] * log(3.34368 * sqrt(N[i, j]) * rounds)):
                above.add((i, j))
    assert bandit.constant == pytest.approx(3.34368, abs=1e-5)
    assert len(naive_blocks(above, m)) > 2
    assert not bandit.block[0].any()  # nobody clicked in the other run


def test_cascade_counts_down_to_the_first_click() -> None:
    bandit = baselines.CascadeUCB1(1, 4, 10)
    bandit.update(np.array([[2, 0, 1, 3]]), np.array([[0.0, 1.0, 1.0]]))
    bandit.update(np.array([[3, 1, 0, 2]]), np.array([[0.0, 0.0, 0.0]]))
    assert bandit.counts.tolist() == [[2, 1, 1, 1]]
    assert bandit.sums.tolist() == [[1, 0, 0, 0]]
    single = sqrt(1.5 * log(2))
    bounds = [0.5 + single / sqrt(2), single, single, single]
    assert bandit.rank(np.random.default_rng(0))[0, 0] == bounds.index(max(bounds))
    bandit.counts[0, 2] = 0
    assert bandit.rank(np.random.default_rng(0))[0, 0] == 2  # never examined


@pytest.mark.parametrize("sampling", [False, True])
def test_linear_bandits_solve_the_normal_equations(sampling: bool) -> None:
    random = np.random.default_rng(2)
    X, answers = random.normal(size=(30, 4)), random.random(30)
    bandit = baselines.LinearBandit(3, 0.5, sampling=sampling)
    for x, answer in zip(X, answers, strict=True):
        bandit.update(x, float(answer))
    A = np.eye(4) + X.T @ X
    estimate = np.linalg.solve(A, X.T @ answers)
    assert bandit.estimate == pytest.approx(estimate)
    if sampling:
        draws = np.array([bandit.scores(X[:2], random) for _ in range(20_000)])
        assert draws.mean(axis=0) == pytest.approx(X[:2] @ estimate, abs=0.01)
        assert np.cov(draws.T) == pytest.approx(0.25 * X[:2] @ np.linalg.inv(A) @ X[:2].T, abs=0.003)
    else:
        spread = np.sqrt(np.diag(X @ np.linalg.inv(A) @ X.T))
        assert bandit.scores(X, random) == pytest.approx(X @ estimate + 0.5 * spread)


def test_tiny_tables(tmp_path: Path) -> None:
    target = tmp_path / "baselines.json"
    baselines.main(["--tables", "clicks", "--runs", "2", "--shorter", "200", "--record", str(target)])
    (table,) = records.read(target).tables
    assert len(table.rows) == 6
    again = baselines.clicks_table(2, baselines.ROUNDS // 200)
    assert again.rows == table.rows


def test_an_epsilon_that_falls_goes_on_with_the_weights() -> None:
    split = baselines.generated("linear", 1)
    one = baselines.play_smooth(split, [0.1], 0, 100)
    same = baselines.play_smooth(split, [0.1, 0.1], 0, 100)
    fresh = baselines.play_smooth(split, [0.1], 0, 50)
    assert same.held_out != fresh.held_out
    assert abs(same.held_out - one.held_out) < 0.3
