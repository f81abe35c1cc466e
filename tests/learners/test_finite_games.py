"""Finite games through the kernels of ranking learners: rankings, symbols, refusals."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from peekrank import DCG, NDCG, NW2, Agent, BlockFTRL, FeedExp3, Precision
from peekrank.games.classic import classic
from peekrank.games.game import Game
from peekrank.learners._finite_games import MAX_ACTIONS, MAX_OUTCOMES, NO_SYMBOL, finite, max_grade_of, symbol_of
from peekrank.types import Measure, Shape


@pytest.mark.parametrize(
    ("measure", "m", "k", "top"),
    [(DCG(), 3, 1, 1), (NDCG(), 3, 2, 2), (Precision(2, mean=False), 4, 4, 1), (DCG(), 2, 2, 4)],
)
def test_answers_give_the_symbol_of_the_game(measure: Measure, m: int, k: int, top: int) -> None:
    game, rankings = finite(measure, Shape(m, 0, k), top)
    assert [tuple(r) for r in rankings] == list(permutations(range(m)))
    for r, relevance in enumerate(product(range(top + 1), repeat=m)):
        assert game.outcomes[r] == " ".join(map(str, relevance))
        for a, ranking in enumerate(rankings):
            assert game.actions[a] == " ".join(map(str, ranking))
            answers = np.array([relevance[i] for i in ranking[:k]], dtype=np.float64)
            symbol = symbol_of(answers, top + 1)
            assert symbol == game.signals[a, r]
            assert game.symbols[symbol] == tuple(answers)


def test_a_missing_answer_is_no_symbol() -> None:
    assert symbol_of(np.array([1.0, np.nan]), 2) == NO_SYMBOL
    assert symbol_of(np.array([1.0, 1.0]), 2) == 3


def test_a_game_is_a_ranking_of_its_actions() -> None:
    game = classic("label-efficient")
    assert finite(game, Shape(3, 0, 1), 2).game is game
    assert finite(game, Shape(3, 0, 1), 2).rankings.tolist() == [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    assert symbol_of(np.array([2.0]), 3) == 2


@pytest.mark.parametrize("shape", [Shape(2, 0, 1), Shape(4, 0, 1), Shape(3, 0, 2)])
def test_a_game_of_another_shape_is_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match="3 actions needs m = 3 and k = 1"):
        finite(classic("label-efficient"), shape, 2)


@pytest.mark.parametrize(("m", "top"), [(7, 1), (6, 3), (1_000_000, 1), (2, 255)])
def test_games_too_large_to_be_written_down_are_refused(m: int, top: int) -> None:
    with pytest.raises(ValueError, match=f"m = {m}: .* up to {MAX_ACTIONS} rankings and {MAX_OUTCOMES} rel"):
        finite(DCG(), Shape(m, 0, 1), top)


def test_the_largest_grade_is_that_of_the_measure_or_the_number_of_symbols() -> None:
    assert max_grade_of(DCG(), 4) == 4
    assert max_grade_of(classic("label-efficient"), 1) == 2
    many = Game.of([list(range(257))], [list(range(257))])
    with pytest.raises(ValueError, match="number of feedback symbols = 257"):
        max_grade_of(many, 1)
    for wrong in (0, 256):
        with pytest.raises(ValueError, match=f"max_grade = {wrong}"):
            max_grade_of(DCG(), wrong)


def test_an_agent_of_a_game_is_loaded_with_its_learner_only() -> None:
    loss = np.arange(1200).reshape(40, 30) % 7
    one, two = (Game.of(table, np.tile(np.arange(30), (40, 1))) for table in (loss, loss[::-1]))
    saved = Agent(FeedExp3(one), m=40, k=1).dump()
    with pytest.raises(ValueError, match=r"this agent plays a custom game: pass its learner as well"):
        Agent.load(saved)
    with pytest.raises(ValueError, match=r"was saved with learner 'feedexp3:measure=game-40x30-\w+"):
        Agent.load(saved, FeedExp3(two))
    assert Agent.load(saved, FeedExp3(Game.of(loss, np.tile(np.arange(30), (40, 1))))).shape.m == 40


@pytest.mark.parametrize("cls", [FeedExp3, NW2, BlockFTRL])
@pytest.mark.parametrize("wrong", ["dcg", None, 3])
def test_a_measure_must_be_one(cls: Any, wrong: object) -> None:
    with pytest.raises(ValueError, match=r"measure = .*: must be a measure, as in measure\('dcg'\)"):
        cls(wrong)
