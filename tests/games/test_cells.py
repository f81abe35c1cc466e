"""Cells, neighbours and N+ against the definitions, worked out from the corners of cells in fractions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from fractions import Fraction
from itertools import product
from math import log2
from typing import Any

import numpy as np
import pytest

from helpers import naive
from peekrank.games import cells as geometry
from peekrank.games.analysis import analyse
from peekrank.games.cells import Border, Cells, cells, orbits
from peekrank.games.exact.numbers import UndecidedError
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.types import Ints

MEASURES = ["sumloss", "pairwiseloss", "dcg", "p@1+sum", "p@2+sum", "dcg@1", "dcg@2", "ap", "aucloss"]
NORMALISED = ["ndcg", "ndcg@2", "ndcg+linear", "ndcg@2+linear"]  # each outcome has its own divisor


def shown_borders(found: Cells) -> dict[tuple[int, int], list[int]]:
    borders = {(border.i, border.j): list(border.neighborhood) for border in found.borders}
    assert len(borders) == len(found.borders)
    return borders


def firsts(found: Cells, pairs: dict[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[int]]:
    """The pairs in which both are first among their duplicates."""
    first = found.duplicate_of
    return {(i, j): seen for (i, j), seen in pairs.items() if first[i] == i and first[j] == j}


def check_cells(loss: Any, feedback: Any, game: Game) -> str:
    """Compare everything with the twin; the rate."""
    twin, analysis = naive.game_twin(loss, feedback), analyse(game)
    found = analysis.cells
    assert found is not None, analysis.undecided
    rows = [tuple(row) for row in loss]
    assert found.duplicate_of.tolist() == [rows.index(row) for row in rows]
    assert list(found.kind) == twin.kind
    assert found.dimension.tolist() == twin.dimension
    assert shown_borders(found) == firsts(found, twin.neighborhood)
    assert analysis.rate is not None
    assert analysis.rate.value == twin.rate
    if twin.neighborhood:
        assert analysis.globally_observable == twin.globally
    assert analysis.locally_observable == twin.locally
    return twin.rate


def check_point(loss: Any, border: Border) -> None:
    """Exactly those of N+ are optimal at a point with all probabilities positive."""
    point = [Fraction(x) for x in border.point]
    assert min(point) > 0
    assert sum(point) == 1
    assert naive.best_actions([[Fraction(x) for x in row] for row in loss], point) == set(border.neighborhood)


# --- the twin itself


def test_twin_on_a_game_known_by_heart() -> None:
    """Matching pennies, a coin that is never best, one in between, one on a corner, and a duplicate."""
    loss = [[0, 2], [2, 0], [3, 3], [1, 1], [0, 3], [0, 2]]
    twin = naive.game_twin(loss, [[0, 1]] * 6)
    assert twin.kind == ["pareto", "pareto", "dominated", "degenerate", "degenerate", "pareto"]
    assert twin.dimension == [1, 1, -1, 0, 0, 1]
    everyone = [0, 1, 3, 5]
    assert twin.neighborhood == dict.fromkeys([(0, 1), (1, 0), (1, 5), (5, 1)], everyone)
    assert twin.rate == "sqrt(T)"
    assert naive.game_twin(loss, [[0, 0]] * 6).rate == "T"
    assert naive.game_twin(loss, [[0, 0]] * 2 + [[0, 1]] + [[0, 0]] * 3).rate == "T^(2/3)"
    assert naive.game_twin(loss[:1], [[0, 1]]).rate == "0"


# --- random games


@pytest.mark.parametrize("seed", range(8))
def test_small_games(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without random rays, so that linear programs find every neighbour."""
    monkeypatch.setattr(geometry, "_BATCHES", 0)
    rng, rates = np.random.default_rng(seed), Counter[str]()
    for _ in range(50):
        loss, feedback = naive.random_game(rng)
        rates[check_cells(loss, feedback, Game.of(loss, feedback))] += 1
    assert len(rates) == 4, "all four rates are met"


@pytest.mark.slow
@pytest.mark.parametrize("volleys", [0, 1])
def test_games_with_more_actions_and_outcomes(volleys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", volleys)
    rng = np.random.default_rng(100)
    for _ in range(15):
        loss, feedback = naive.random_game(rng, most=5, largest=20)
        check_cells(loss, feedback, Game.of(loss, feedback))


def test_random_rays_change_nothing() -> None:
    rng = np.random.default_rng(200)
    for _ in range(12):
        loss, feedback = naive.random_game(rng)
        check_cells(loss, feedback, Game.of(loss, feedback))


@pytest.mark.parametrize("factor", ["1/3", "1/7000001", "123456789123456789", "1e-30"])
def test_the_scale_of_losses_does_not_matter(factor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 0)
    rng = np.random.default_rng(300)
    for _ in range(10):
        loss, feedback = naive.random_game(rng)
        scaled = [[Fraction(factor) * x - 5 for x in row] for row in loss]
        check_cells(scaled, feedback, Game.of(scaled, feedback))


@pytest.mark.parametrize("gap", [Fraction(1, 10**e) for e in range(1, 16)])
def test_narrow_cells_of_rational_games_are_decided(gap: Fraction) -> None:
    """Action 2 is best in a thin slice between 0 and 1: rational games have exact answers at any width."""
    third = Fraction(1, 3)
    loss = [[0, 1, third], [1, 0, third], [Fraction(1, 2) - gap, Fraction(1, 2) - gap, third - gap / 7]]
    check_cells(loss, [[0, 1, 2]] * 3, Game.of(loss, [[0, 1, 2]] * 3))


@pytest.mark.parametrize("large", [10**e for e in (3, 6, 9, 12, 30)])
def test_losses_of_very_different_size_are_decided(large: int) -> None:
    loss = [[large, 0, 1], [0, 1, 0], [5, 5, 5]]
    check_cells(loss, [[0, 1, 2]] * 3, Game.of(loss, [[0, 1, 2]] * 3))


@pytest.mark.parametrize("size", [10**e for e in (8, 12, 14, 15, 16, 17, 18, 20)])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0)])
def test_borders_that_floating_point_cannot_tell_apart(size: int, order: tuple[int, ...]) -> None:
    """Beyond 0 comes 1 and at once 2, which is nearly twice 1: 0 and 2 are no neighbours."""
    rows = [[0] * 4, [size * x for x in (-7, 3, 5, 11)], [2 * size * x + 1 for x in (-7, 3, 5, 11)]]
    loss = [rows[i] for i in order]
    check_cells(loss, [[0, 1, 2, 3]] * 3, Game.of(loss, [[0, 1, 2, 3]] * 3))


def test_lopsided_rational_games_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 0)
    rng, undecided = np.random.default_rng(400), []
    for _ in range(60):
        loss, feedback = naive.random_game(rng)
        sizes = rng.integers(0, 9, size=(len(loss), len(loss[0]))).tolist()
        loss = [[x * 10**e for x, e in zip(row, line, strict=True)] for row, line in zip(loss, sizes, strict=True)]
        analysis = analyse(Game.of(loss, feedback))
        if analysis.rate is None:
            undecided.append(loss)
        else:
            assert analysis.rate.value == naive.game_twin(loss, feedback).rate
    assert undecided == []


# --- border points


@pytest.mark.parametrize("volleys", [0, 1])
def test_border_points_of_random_games(volleys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", volleys)
    rng, seen = np.random.default_rng(500), 0
    for _ in range(40):
        loss, feedback = naive.random_game(rng, largest=9)
        for border in cells(Game.of(loss, feedback)).borders:
            check_point(loss, border)
            seen += 1
    assert seen > 40


@pytest.mark.parametrize(("m", "grades"), [(2, 2), (3, 2), (4, 2), (2, 3)])
@pytest.mark.parametrize("name", [*MEASURES, *NORMALISED])
def test_border_points_of_ranking_games(name: str, m: int, grades: int) -> None:
    game = ranking_game(name, m, 1, grades)
    loss = game.loss
    for border in cells(game).borders:
        point = np.array(border.point, dtype=np.float64)
        assert point.min() > 0
        assert point.sum() == pytest.approx(1)
        above = loss @ point - (loss @ point).min()
        assert above[list(border.neighborhood)] == pytest.approx(0, abs=1e-9)
        assert np.delete(above, border.neighborhood).min(initial=1) > 1e-8
        if game.rational:
            check_point([[Fraction(int(x)) for x in row] for row in game.numerators[0]], border)


# --- symmetries


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "name"), [*((3, name) for name in [*MEASURES, *NORMALISED]), (4, "ap"), (4, "dcg@2")]
)
def test_symmetries_save_work_only(m: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 1)
    game = ranking_game(name, m, 1)
    plain = dataclasses.replace(game, symmetries=())
    quick, slow = cells(game), cells(plain)
    assert quick.kind == slow.kind
    np.testing.assert_array_equal(quick.dimension, slow.dimension)
    np.testing.assert_array_equal(quick.duplicate_of, slow.duplicate_of)
    everything = shown_borders(slow)
    assert shown_borders(quick) == {pair: seen for pair, seen in everything.items() if pair[0] == 0}
    assert {(j, i): seen for (i, j), seen in everything.items()} == everything
    np.testing.assert_array_equal(orbits(plain), np.arange(len(game.actions)))
    np.testing.assert_array_equal(orbits(game), np.zeros(len(game.actions)))


def turned(n: int, by: int) -> Ints:
    return (np.arange(n) + by) % n


def test_orbits_of_a_game_with_two() -> None:
    """Three actions that a turn of the outcomes permutes, and one that it leaves alone."""
    loss = [[0, 3, 3], [3, 0, 3], [3, 3, 0], [1, 1, 1]]
    feedback = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]]
    plain = Game.of(loss, feedback)
    game = dataclasses.replace(plain, symmetries=((np.r_[turned(3, 1), 3], turned(3, 1)),))
    assert orbits(game).tolist() == [0, 0, 0, 3]
    everything, found = shown_borders(cells(plain)), shown_borders(cells(game))
    assert found == {pair: seen for pair, seen in everything.items() if pair[0] in (0, 3)}
    assert analyse(game).rate == analyse(plain).rate


def test_a_symmetry_that_is_none_is_refused() -> None:
    game = Game.of([[0, 1], [1, 0]], [[0, 0], [0, 1]])
    with pytest.raises(ValueError, match="symmetry"):  # losses allow it, feedback does not
        dataclasses.replace(game, symmetries=((turned(2, 1), turned(2, 1)),))


def test_duplicates_need_not_be_in_one_orbit() -> None:
    """Actions 1 and 3 are duplicates; the symmetry moves only one of them."""
    loss, feedback = [[0, 1], [1, 0], [0, 1], [1, 0]], [[0, 1], [0, 1], [0, 0], [0, 0]]
    game = Game.of(loss, feedback)
    swap = dataclasses.replace(game, symmetries=((np.array([1, 0, 3, 2]), np.array([1, 0])),))
    assert orbits(swap).tolist() == [0, 0, 2, 2]
    assert shown_borders(cells(swap)) == {(0, 1): [0, 1, 2, 3]}
    assert analyse(swap).rate == analyse(game).rate


# --- games with logarithms


def logarithmic(rng: np.random.Generator) -> tuple[Game, list[list[Fraction]], list[list[int]]]:
    """A game with units 1 and 1 / log2(3), and the same with a fraction close to the latter."""
    loss, feedback = naive.random_game(rng)
    bend = rng.integers(-1, 2, size=(len(loss), len(loss[0]))) * (rng.random((len(loss), len(loss[0]))) < 0.5)
    scales, near = ((Fraction(1), Fraction(0)), (Fraction(1), Fraction(1))), Fraction(1 / log2(3))
    column = rng.integers(0, 2, size=len(loss[0]))
    plain = Game.of(loss, feedback)
    game = dataclasses.replace(
        plain, numerators=np.array([loss, bend]), bases=(2, 3), scales=scales, column=column
    )
    divisors = [scale[0] + scale[1] * near for scale in scales]
    losses = [
        [(x + int(b) * near) / divisors[c] for x, b, c in zip(row, line, column, strict=True)]
        for row, line in zip(loss, bend, strict=True)
    ]
    return game, losses, feedback


def test_games_with_logarithms_are_right_or_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 0)
    rng, decided = np.random.default_rng(600), 0
    for _ in range(100):
        game, loss, feedback = logarithmic(rng)
        np.testing.assert_allclose(game.loss, np.array(loss, dtype=np.float64), atol=1e-12)
        if analyse(game).rate is not None:
            check_cells(loss, feedback, game)
            decided += 1
    assert decided > 20


def test_a_cell_of_lower_dimension_of_a_game_with_logarithms_is_undecided() -> None:
    plain = Game.of([[0, 2], [2, 0], [1, 1]], [[0, 1]] * 3)
    game = dataclasses.replace(
        plain,
        numerators=np.concatenate([plain.numerators, plain.numerators]),
        bases=(2, 3),
        scales=((Fraction(1), Fraction(0)),),
    )
    with pytest.raises(UndecidedError, match="action 2"):
        cells(game)
    analysis = analyse(game)
    assert (analysis.rate, analysis.cells) == (None, None)
    assert "action 2" in analysis.undecided


def test_rational_numerators_are_enough_for_geometry() -> None:
    """Scales move no border: a game with one unit and several scales has exact cells, losers included."""
    plain = Game.of([[0, 2, 3], [2, 0, 3], [1, 1, 3], [4, 4, 4]], [[0, 1, 2]] * 4)
    game = dataclasses.replace(plain, scales=((Fraction(1),), (Fraction(3),)), column=np.array([0, 1, 1]))
    assert cells(game).kind == ("pareto", "pareto", "degenerate", "dominated")


# --- progress


def test_progress_ends_at_its_total() -> None:
    for name, m in product(["sumloss", "p@2+sum"], [2, 3, 4]):
        steps: list[tuple[float, int]] = []
        cells(ranking_game(name, m, 1), lambda done, of: steps.append((done, of)))  # noqa: B023
        assert all(done <= of for done, of in steps)
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
        if steps:
            assert steps[-1][0] == steps[-1][1]
