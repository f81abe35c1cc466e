"""The computations behind records/errata.json: what the papers print, and what is right."""

from __future__ import annotations

import re
from itertools import permutations, product

import numpy as np
import pytest

from helpers.scripts import ROOT
from peekrank.games.analysis import analyse
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.surrogates import NDCGSquared

PAIR = np.array(list(product((0, 1), repeat=2)))  # relevance of two items: 00, 01, 10, 11


def test_the_record_names_every_test_and_no_other() -> None:
    page = (ROOT / "records" / "errata.json").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_(?:zt|ct16)_\w+)`", page))
    assert named == {name for name in globals() if re.match(r"test_(zt|ct16)_", name)}


def test_zt_theorem_12() -> None:
    """All rankings are duplicates for n = m, so the rate is 0."""
    rate = analyse(ranking_game("p@3+sum", m=3, k=1)).rate
    assert rate is not None
    assert rate.value == "0"


def test_zt_theorem_2() -> None:
    """The second action is degenerate, hence nondominated, and the rate is still 0."""
    analysis = analyse(Game.of([[0, 0], [0, 1]], [["-", "-"], ["-", "-"]]))
    assert analysis.cells is not None
    assert analysis.cells.kind == ("pareto", "degenerate")
    assert analysis.rate is not None
    assert analysis.rate.value == "0"


def test_zt_lemma_13() -> None:
    """The difference is R(b) - R(a), and each is seen on top in one class: the estimates are bounded by 1."""
    a, b = PAIR.T
    assert (b - a).tolist() == [0, 1, -1, 0]
    assert max(a.max(), b.max()) == 1
    assert np.abs(np.subtract([a, b], 0.5)).max() == 0.5


def test_zt_lemma_15_centroid() -> None:
    """For m = 2 and n = 1 the cell of "item 1 on top" is a simplex, and its centroid the mean of the corners."""
    corners = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0.5, 0.5, 0]])
    assert (corners.mean(axis=0) @ PAIR).tolist() == [0.625, 0.375]


@pytest.mark.parametrize(("m", "n"), [(2, 1), (5, 2), (6, 3), (7, 5)])
def test_zt_lemma_15_bound(m: int, n: int) -> None:
    """The regret of a set is at most min(n, m - n) times the gain of its best exchange."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        mean, shown = rng.random(m) ** 4, rng.permutation(m)
        total = np.sort(mean)[m - n :].sum() - mean[shown[:n]].sum()
        exchange = max(mean[shown[n:]].max() - mean[shown[:n]].min(), 0)
        assert total <= min(n, m - n) * exchange + 1e-12


def test_ct16_probabilities() -> None:
    """Items and ordered pairs on top, for m = 4, gamma = 0.3 and the greedy order 0 1 2 3."""
    gamma = 0.3
    law = {order: (1 - gamma) * (order == (0, 1, 2, 3)) + gamma / 24 for order in permutations(range(4))}

    def on_top(*items: int) -> float:
        return sum(p for order, p in law.items() if order[: len(items)] == items)

    assert [on_top(i) for i in range(4)] == pytest.approx([0.775, 0.075, 0.075, 0.075])
    assert [on_top(0, 1), on_top(1, 0), on_top(2, 3)] == pytest.approx([0.725, 0.025, 0.025])
    assert on_top(0, 1) + on_top(1, 0) == pytest.approx(1 - gamma + 2 * gamma / 12)  # what is printed


@pytest.mark.parametrize(("grades", "largest"), [(2, [0.0, 0.0, 0.0, 0.0]), (3, [0.0813, 0.0583, 0.0366, 0.0223])])
def test_ct16_lemma_3(grades: int, largest: list[float]) -> None:
    """The largest term of exp(R_1) / sum_j exp(R_j) on all m items, over grades above 0, for m = 2 to 5.

    For binary relevance it is the alternating sum of C(m, u) / m over the number u of ones, since the lists with
    R_1 = 1 and those with R_1 = 0 together give the denominator. This sum is 0.
    """

    def largest_term(m: int) -> float:
        terms = []
        for top in product(range(1, grades), repeat=m):
            relevance = np.array(list(product(*((0, grade) for grade in top))))
            sign = (-1.0) ** (relevance == 0).sum(axis=1)
            terms.append(abs(sign @ (np.exp(relevance[:, 0]) / np.exp(relevance).sum(axis=1))))
        return float(max(terms))

    assert [largest_term(m) for m in (2, 3, 4, 5)] == pytest.approx(largest, abs=5e-5)


def test_ct16_lemma_5() -> None:
    """The squared loss of two equal items with x = 1, w = -1, relevance 2, gamma = 1/2: m R_D U = R_max = 2."""
    gamma = 0.5
    moment = sum(p * (2 * (-1 - 1) - 2 * 2 / p) ** 2 for p in (0.75, 0.25))
    printed = 2**4 * 2**2 / gamma
    assert moment == pytest.approx(165.3, abs=0.05)
    assert printed < moment < 4 * printed
    assert 0.5 + 1 / 0.9 > 0.5 * 1 / 0.9  # a + b/p <= a b/p fails for m R_D U = 1/2, R_max = 1, p = 0.9


def targets() -> np.ndarray:
    return np.array([NDCGSquared().target(relevance) for relevance in PAIR])


def test_ct16_calibrated_for_two_items() -> None:
    """E R - E y is the same for both items, so the squared loss is calibrated for NDCG."""
    law = np.random.default_rng(0).dirichlet(np.ones(4))
    difference = law @ PAIR - law @ targets()
    assert np.allclose(difference, law[3] * (1 - 1 / (1 + 1 / np.log2(3))))


def test_ct16_no_single_map() -> None:
    """Two distributions have the same E y and different E R."""
    both = 1 / (2 * targets()[3, 0])  # P(11); the rest is P(00)
    one, other = np.array([1 - both, 0, 0, both]), np.array([0, 0.5, 0.5, 0])
    assert np.allclose([one @ targets(), other @ targets()], 0.5)
    assert np.allclose(one @ PAIR, 0.8155, atol=5e-5)
    assert np.allclose(other @ PAIR, 0.5)


def test_ct16_theorem_5_2_as_a_game() -> None:
    """What each ranking loses on p, on p~, on both, and on their average."""
    game = ranking_game("ndcg", m=3, k=1)
    p = np.array([0, 0.2, 0.3, 0.05, 0.2, 0.15, 0.1, 0])  # outcomes 000, 001, 010, 011, 100, 101, 110, 111
    q = np.array([0, 0.4, 0.15, 0, 0.15, 0, 0.3, 0])
    on_p, on_q, on_average = (game.loss @ law - (game.loss @ law).min() for law in (p, q, (p + q) / 2))
    losses = np.array([on_p, on_q, on_p + on_q, on_average]).T
    expected = {
        "0 1 2": [0.0143, 0.0330, 0.0473, 0.0095],
        "0 2 1": [0.0234, 0.0244, 0.0477, 0.0097],
        "1 0 2": [0.0000, 0.0330, 0.0330, 0.0023],
        "1 2 0": [0.0040, 0.0244, 0.0284, 0.0000],
        "2 0 1": [0.0347, 0.0000, 0.0347, 0.0031],
        "2 1 0": [0.0296, 0.0000, 0.0296, 0.0006],
    }
    assert tuple(expected) == tuple(game.actions)
    np.testing.assert_allclose(losses, list(expected.values()), atol=5.01e-5)
