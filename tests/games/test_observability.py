"""What feedback can estimate: certificates that it cannot, and estimates where it can."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers import naive
from peekrank.games import cells as geometry
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import Border
from peekrank.games.game import Game
from peekrank.games.observability import observers, signals, unobservable_change
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.types import Floats, Ints

MEASURES = [
    "sumloss",
    "pairwiseloss",
    "dcg",
    "p@1+sum",
    "p@2+sum",
    "dcg@1",
    "dcg@2",
    "ap",
    "aucloss",
    "ndcg",
    "ndcg@2",
]
RANKING = [(name, 2, 2) for name in MEASURES] + [(name, 3, 2) for name in MEASURES]
RANKING += [
    ("ndcg+linear", 3, 2),
    ("ndcg@1+linear", 2, 3),
    ("p@2+sum", 4, 2),
    ("pairwiseloss", 2, 3),
    ("ndcg", 2, 3),
]


@pytest.fixture(autouse=True)
def _without_rays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 0)


def random_games(seed: int, count: int) -> list[Game]:
    rng = np.random.default_rng(seed)
    return [Game.of(*naive.random_game(rng)) for _ in range(count)]


def shown(game: Game, action: int, symbol: int) -> Ints:
    """Where an action shows a symbol: a row of its signal matrix."""
    row: Ints = np.equal(game.signals[action], symbol).astype(np.int64)
    return row


def check_unseen(game: Game, border: Border, direction: Any, actions: tuple[int, ...]) -> None:
    """No signal of these actions changes in the direction, the loss difference does."""
    whole = [int(x) for x in direction]
    assert whole == list(direction)
    for action in actions:
        for symbol in np.unique(game.signals[action]):
            assert sum(x for x, here in zip(whole, shown(game, action, symbol), strict=True) if here) == 0
    if game.rational:
        difference = game.numerators[0, border.i] - game.numerators[0, border.j]
        assert sum(int(d) * x for d, x in zip(difference, whole, strict=True)) != 0
    else:
        assert abs((game.loss[border.i] - game.loss[border.j]) @ np.array(whole, dtype=np.float64)) > 1e-6


def check_observers(game: Game, analysis: Analysis) -> int:
    """The estimates add up to the loss difference at every outcome; how many there are."""
    assert analysis.cells is not None
    loss = game.loss
    for border in analysis.cells.borders:
        (found,) = observers(game, [(border.i, border.j)], signals(game, border.neighborhood))
        assert (found.i, found.j) == (border.i, border.j)
        assert set(found.action.tolist()) <= set(border.neighborhood)
        total: Floats = np.zeros(len(game.outcomes))
        for action, symbol, value in zip(found.action, found.symbol, found.value, strict=True):
            assert symbol in game.signals[action]
            total += value * shown(game, action, symbol)
        np.testing.assert_allclose(total, loss[border.i] - loss[border.j], atol=1e-9 * np.abs(loss).max())
    return len(analysis.cells.borders)


def check(game: Game, analysis: Analysis) -> None:
    if analysis.rate == Rate.SQRT:
        assert (analysis.unobservable_pair, analysis.unobservable_direction) == (None, None)
        assert check_observers(game, analysis) > 0
    elif analysis.rate == Rate.ZERO:
        assert (analysis.unobservable_pair, analysis.unobservable_direction) == (None, None)
    else:
        assert analysis.unobservable_pair is not None
        everyone = tuple(range(len(game.actions)))
        actions = everyone if analysis.rate == Rate.LINEAR else analysis.unobservable_pair.neighborhood
        check_unseen(game, analysis.unobservable_pair, analysis.unobservable_direction, actions)


@pytest.mark.parametrize("seed", range(4))
def test_random_games(seed: int) -> None:
    rates = set()
    for game in random_games(seed, 40):
        analysis = analyse(game)
        assert analysis.rate is not None
        check(game, analysis)
        rates.add(analysis.rate)
    assert rates == set(Rate)


@pytest.mark.parametrize(("name", "m", "grades"), RANKING)
def test_ranking_games(name: str, m: int, grades: int) -> None:
    known = None
    for k in range(1, m + 1):
        game = ranking_game(name, m, k, grades)
        analysis = analyse(game, known=known)
        known = analysis.cells
        check(game, analysis)


def test_every_neighbouring_pair_of_a_globally_observable_game_has_an_estimate_from_all_signals() -> None:
    for game in random_games(10, 60):
        analysis = analyse(game)
        if analysis.rate == Rate.TWO_THIRDS:
            assert analysis.cells is not None
            everyone = tuple(range(len(game.actions)))
            wide = tuple(dataclasses.replace(border, neighborhood=everyone) for border in analysis.cells.borders)
            cells = dataclasses.replace(analysis.cells, borders=wide)
            check_observers(game, dataclasses.replace(analysis, cells=cells))


def test_unobservable_change_is_the_opposite_of_being_in_the_span() -> None:
    """For all pairs of actions, not neighbours only, and all sets of actions."""
    for game in random_games(20, 25):
        loss = [[Fraction(int(x)) for x in row] for row in game.numerators[0]]
        feedback = game.signals.tolist()
        n = len(loss)
        for subset in product([False, True], repeat=n):
            actions = [a for a in range(n) if subset[a]]
            if not actions:
                continue
            seen, rows = signals(game, actions), naive.signal_rows(feedback, actions)
            for i, j in product(range(n), repeat=2):
                difference = [a - b for a, b in zip(loss[i], loss[j], strict=True)]
                change = unobservable_change(game, game.difference(i, j), seen)
                assert (change is None) == naive.in_span(difference, rows)


def test_signals_repeat_nothing_and_name_their_owner() -> None:
    for game in [*random_games(30, 30), ranking_game("ap", 4, 2)]:
        everyone = range(len(game.actions))
        seen = signals(game, everyone)
        assert len({row.tobytes() for row in seen.rows}) == len(seen.rows)
        for row, owner, symbol in zip(seen.rows, seen.owner, seen.symbol, strict=True):
            np.testing.assert_array_equal(row, shown(game, owner, symbol))
        wanted = {row.astype(np.int64).tobytes() for a in everyone for row in game.signal_matrix(a)}
        assert wanted == {row.tobytes() for row in seen.rows}
        assert not (seen.rows @ seen.unobservable_directions.T).any()
        assert len(seen.unobservable_directions) == len(game.outcomes) - np.linalg.matrix_rank(seen.rows)


def identity_game(feedback: list[list[int]], last: int) -> Game:
    """Outcome 1 costs (1 + u) / (1 + u) = 1 under action 0, with u = 1 / log2(3), but is not written as 1."""
    one, other = (Fraction(1), Fraction(0)), (Fraction(1), Fraction(1))
    plain = [[1, 1, -1, -1, last], [0] * 5]
    bent = [[0, 1, 0, -1, 0], [0] * 5]
    return dataclasses.replace(
        Game.of(plain, feedback),
        numerators=np.array([plain, bent]),
        bases=(2, 3),
        scales=(one, other),
        column=np.array([0, 1, 0, 1, 0]),
    )


def test_an_identity_that_units_do_not_see_is_undecided() -> None:
    game = identity_game([[0, 0, 1, 1, 1]] * 2, last=-1)
    np.testing.assert_allclose(game.loss[0], [1, 1, -1, -1, -1])
    analysis = analyse(game)
    assert (analysis.rate, analysis.unobservable_pair, analysis.unobservable_direction) == (None, None, None)
    assert (analysis.globally_observable, analysis.locally_observable) == (None, None)
    assert analysis.cells is not None
    assert "logarithms" in analysis.undecided


def test_an_undecided_direction_does_not_hide_one_that_decides() -> None:
    """Outcomes 2 and 4 look the same and cost 1 and 2 less: that is enough, whatever 0 and 1 do."""
    game = identity_game([[0, 0, 1, 1, 1]] * 2, last=-2)
    analysis = analyse(game)
    assert analysis.rate == Rate.LINEAR, analysis.undecided
    check(game, analysis)
