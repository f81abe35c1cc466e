"""Classic games: what the analysis says of them against the literature and calculations by hand."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import Cells, cells
from peekrank.games.classic import (
    CLASSIC,
    bandit,
    classic,
    dynamic_pricing,
    experts,
    label_efficient,
    posted_price,
)
from peekrank.games.game import Game
from peekrank.games.observability import signals as signals_of
from peekrank.games.observability import unobservable_change
from peekrank.games.rates import Rate


def watchers(found: Cells) -> dict[tuple[int, int], tuple[int, ...]]:
    """N+ of each pair of neighbours."""
    return {(border.i, border.j): border.neighborhood for border in found.borders}


def cells_of(found: Analysis) -> Cells:
    assert found.cells is not None, found.undecided
    return found.cells


@cache
def analysis(name: str) -> Analysis:
    return analyse(classic(name))


@pytest.mark.parametrize("name", CLASSIC)
def test_rates(name: str) -> None:
    assert analysis(name).rate == CLASSIC[name].rate
    assert CLASSIC[name].about


def test_all_rates_are_there() -> None:
    assert {example.rate for example in CLASSIC.values()} == set(Rate)


def test_names() -> None:
    assert all(classic(name) is CLASSIC[name].game for name in CLASSIC)
    with pytest.raises(ValueError, match="unknown game 'label-eficient': did you mean 'label-efficient'"):
        classic("label-eficient")


# --- kinds and dimensions of cells

P, G, D = "pareto", "degenerate", "dominated"
SHAPES: dict[str, tuple[list[str], list[int], list[int]]] = {  # kinds, dimensions, duplicates
    "experts": ([P, P, P], [7, 7, 7], [0, 1, 2]),
    "bandit": ([P, P, P], [7, 7, 7], [0, 1, 2]),
    "apple-tasting": ([P, P], [1, 1], [0, 1]),
    "label-efficient": ([P, P, D], [1, 1, -1], [0, 1, 2]),
    "cheap-labels": ([P, P, P], [1, 1, 1], [0, 1, 2]),
    "dynamic-pricing": ([P] * 5, [4] * 5, [0, 1, 2, 3, 4]),
    "posted-price": ([P] * 4, [3] * 4, [0, 1, 2, 3]),
    "matching-pennies": ([P, P], [1, 1], [0, 1]),
    "blind-pennies": ([P, P], [1, 1], [0, 1]),
    "trivial": ([P, G], [1, 0], [0, 1]),
    "all-alike": ([P, P, P], [1, 1, 1], [0, 0, 0]),
    "dominated": ([P, P, D], [1, 1, -1], [0, 1, 2]),
    "telling-duplicate": ([P, P, P], [1, 1, 1], [0, 1, 0]),
    "telling-degenerate": ([P, P, G], [1, 1, 0], [0, 1, 2]),
    "telling-corner": ([P, P, G], [1, 1, 0], [0, 1, 2]),
}


@pytest.mark.parametrize("name", CLASSIC)
def test_cells_by_hand(name: str) -> None:
    found = cells_of(analysis(name))
    assert (list(found.kind), found.dimension.tolist(), found.duplicate_of.tolist()) == SHAPES[name]


SILENT3 = [["-"] * 3] * 3
MIDDLE = Game.of([[0, 1, 0], [1, 0, 0], ["1/2", "1/2", 0]], SILENT3)
CORNER = Game.of([[0, 1, 0], [1, 0, 0], [0, 1, 1]], SILENT3)
POINT = Game.of([[0, 1, 1], [1, 0, 1], [1, 1, 0], ["2/3", "2/3", "2/3"]], [["-"] * 3] * 4)
VERTEX = Game.of([[0, 1, 1], [1, 0, 1], [0, 2, 2]], SILENT3)
MIXTURE = Game.of([[0, 3], [3, 0], [1, 2], [2, 1]], [["-"] * 2] * 4)
LINE = Game.of([[0, 4, 2], [4, 0, 2], [1, 3, 2], [3, 1, 2], [2, 2, 3]], [["-"] * 3] * 5)


@pytest.mark.parametrize(
    ("game", "kind", "dimension"),
    [
        (MIDDLE, [P, P, G], [2, 2, 1]),  # optimal iff p0 = p1
        (CORNER, [P, P, G], [2, 2, 1]),  # optimal iff p2 = 0 and p1 <= p0: an edge, but not on the border
        (POINT, [P, P, P, G], [2, 2, 2, 0]),  # optimal in the middle alone
        (VERTEX, [P, P, G], [2, 2, 0]),  # optimal iff the outcome is 0
        (MIXTURE, [P, P, G, G], [1, 1, 0, 0]),
        (LINE, [P, P, G, G, G], [2, 2, 1, 1, 0]),  # the last one iff p2 = 0 and p0 = p1
        (Game.of([[0], [1], [0]], [[0], [0], [0]]), [P, D, P], [0, -1, 0]),
        (Game.of([[5]], [["-"]]), [P], [0]),
    ],
)
def test_degenerate_cells_by_hand(game: Game, kind: list[str], dimension: list[int]) -> None:
    found = cells(game)
    assert (list(found.kind), found.dimension.tolist()) == (kind, dimension)


# --- neighbours and who watches their border


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (classic("telling-duplicate"), {(0, 1): (0, 1, 2)}),
        (classic("telling-degenerate"), {(0, 1): (0, 1, 2)}),
        (classic("telling-corner"), {(0, 1): (0, 1)}),
        (classic("label-efficient"), {(0, 1): (0, 1)}),
        (classic("cheap-labels"), {(0, 2): (0, 2), (1, 2): (1, 2)}),
        (classic("trivial"), {}),
        (classic("all-alike"), {}),
        (MIDDLE, {(0, 1): (0, 1, 2)}),
        (CORNER, {(0, 1): (0, 1)}),
        (POINT, {(0, 1): (0, 1), (0, 2): (0, 2), (1, 2): (1, 2)}),
        (VERTEX, {(0, 1): (0, 1)}),
        (MIXTURE, {(0, 1): (0, 1, 2, 3)}),
        (LINE, {(0, 1): (0, 1, 2, 3)}),
        (bandit(3), {(0, 1): (0, 1), (0, 2): (0, 2), (1, 2): (1, 2)}),
        (dynamic_pricing([1, 2, 3]), {(0, 1): (0, 1), (0, 2): (0, 2), (1, 2): (1, 2)}),
    ],
)
def test_who_watches_a_border(game: Game, expected: dict[tuple[int, int], tuple[int, ...]]) -> None:
    both = expected | {(j, i): neighborhood for (i, j), neighborhood in expected.items()}
    assert watchers(cells(game)) == both


def test_duplicates_of_degenerate_actions_watch_too() -> None:
    game = Game.of([[0, 1], [1, 0], ["1/2", "1/2"], [1, 0], ["1/2", "1/2"]], [["-"] * 2] * 4 + [["a", "b"]])
    found = analyse(game)
    assert watchers(cells_of(found)) == {(0, 1): (0, 1, 2, 3, 4), (1, 0): (0, 1, 2, 3, 4)}
    assert found.rate == Rate.SQRT


@pytest.mark.parametrize("name", CLASSIC)
def test_points_on_borders(name: str) -> None:
    """At the point of a border its watchers lose the same, and all others lose more."""
    game = classic(name)
    loss = [[Fraction(int(n)) for n in row] for row in game.numerators[0]]
    for border in cells_of(analysis(name)).borders:
        assert all(p > 0 for p in border.point)
        expected = [sum(p * x for p, x in zip(border.point, row, strict=True)) for row in loss]
        assert {i for i, value in enumerate(expected) if value == min(expected)} == set(border.neighborhood)


@pytest.mark.parametrize(
    "removed", ["telling-duplicate", "telling-degenerate", "telling-corner", "label-efficient"]
)
def test_without_the_action_that_tells_nothing_is_learned(removed: str) -> None:
    game = classic(removed)
    guesses = Game.of(game.loss[:2].tolist(), game.signals[:2].tolist())
    assert analyse(guesses).rate == Rate.LINEAR


def test_a_duplicate_among_other_ways_to_learn() -> None:
    """With a costly question alone T^(2/3), with a copy of a guess that tells as well sqrt(T)."""
    loss, feedback = [[0, 1], [1, 0], [1, 1], [1, 0]], [["-"] * 2] * 2 + [["a", "b"]] * 2
    assert analyse(Game.of(loss[:3], feedback[:3])).rate == Rate.TWO_THIRDS
    assert analyse(Game.of(loss, feedback)).rate == Rate.SQRT


# --- sizes and parameters


@pytest.mark.parametrize("n", [2, 4])
def test_sizes(n: int) -> None:
    for game in (bandit(n), experts(n)):
        found = analyse(game)
        assert found.rate == Rate.SQRT
        assert len(game.outcomes) == 2**n
        assert set(watchers(cells_of(found))) == {(i, j) for i in range(n) for j in range(n) if i != j}


@pytest.mark.parametrize(
    ("cost", "rate"),
    [
        (0, Rate.ZERO),
        ("1/1000000", Rate.SQRT),
        ("0.4999999", Rate.SQRT),
        (0.5, Rate.SQRT),
        ("0.500000001", Rate.TWO_THIRDS),
        (7, Rate.TWO_THIRDS),
    ],
)
def test_the_price_of_labels(cost: Any, rate: Rate) -> None:
    assert analyse(label_efficient(cost)).rate == rate


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ([1, 2, 3], "1/1000"),
        ([1, 2, 10], "1/2"),
        ([1, 2, 10], 100),
        (["1/3", 0.5, 0.7, 4], 1),
        (range(1, 8), "1/100"),
    ],
)
def test_prices(prices: Any, cost: Any) -> None:
    assert analyse(dynamic_pricing(prices, cost)).rate == Rate.TWO_THIRDS


@pytest.mark.parametrize("prices", [[1, 2], [1, 2, 10], ["1/3", 0.5, 0.7, 4]])
def test_posted_prices(prices: Any) -> None:
    assert analyse(posted_price(prices)).rate == Rate.SQRT


def test_losses_of_prices() -> None:
    assert dynamic_pricing([1, 2, 4], 7).loss.tolist() == [[0, 1, 3], [7, 0, 2], [7, 7, 0]]
    assert posted_price([1, 2, 4]).loss.tolist() == [[-1, -1, -1], [0, -2, -2], [0, 0, -4]]
    for game in (dynamic_pricing([1, 2, 4]), posted_price([1, 2, 4])):
        seen = [[game.symbols[s] for s in row] for row in game.signals]
        assert seen == [["sold"] * 3, ["refused", "sold", "sold"], ["refused", "refused", "sold"]]


def test_the_blind_pair_of_prices() -> None:
    """The proof in the docstring of dynamic_pricing."""
    game = dynamic_pricing([1, 2, 3])
    for i, j, blind in ((0, 1, False), (1, 2, False), (0, 2, True)):
        unseen = unobservable_change(game, game.difference(i, j), signals_of(game, [i, j]))
        assert (unseen is not None) == blind
        if unseen is not None:
            assert np.array_equal(unseen, [1, -1, 0]) or np.array_equal(unseen, [-1, 1, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bandit(1), "arms = 1: must be a whole number, at least 2"),
        (lambda: experts(0), "n = 0"),
        (lambda: label_efficient(-1), "cost = -1: must not be negative"),
        (lambda: dynamic_pricing([1, 2]), r"prices = \[1, 2\]: must be at least 3 ascending numbers"),
        (lambda: dynamic_pricing([1, 3, 2]), "must be at least 3 ascending"),
        (lambda: dynamic_pricing([1, 1, 2]), "must be at least 3 ascending"),
        (lambda: dynamic_pricing([1, 2, 3], 0), "cost = 0: must be positive"),
        (lambda: posted_price([0, 1]), "price 0: must be positive"),
        (lambda: posted_price([1]), "at least 2"),
    ],
)
def test_impossible_games(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- proofs that come with an analysis


@pytest.mark.parametrize("name", CLASSIC)
def test_what_cannot_be_estimated(name: str) -> None:
    """The direction of a blind pair changes its difference and no signal of those who watch."""
    game, rate, found = classic(name), CLASSIC[name].rate, analysis(name)
    hard = rate in (Rate.TWO_THIRDS, Rate.LINEAR)
    assert (found.unobservable_pair is not None, found.unobservable_direction is not None) == (hard, hard)
    if found.unobservable_pair is None or found.unobservable_direction is None:
        return
    neighborhood = found.unobservable_pair.neighborhood if rate == Rate.TWO_THIRDS else range(len(game.actions))
    for action in neighborhood:
        assert not (game.signal_matrix(action).astype(np.int64) @ found.unobservable_direction).any()
    assert (
        game.difference(found.unobservable_pair.i, found.unobservable_pair.j)[0] @ found.unobservable_direction
        != 0
    )
