"""Rates from the definitions against rates by theorem, with and without symmetries."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from peekrank.games import cells as geometry
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.cells import cells
from peekrank.games.game import Game
from peekrank.games.ranking import ranking_game
from peekrank.games.rates import Rate
from peekrank.games.theorems import theorem_of
from peekrank.measures import measure

PLAIN = ["sumloss", "pairwiseloss", "dcg", "ndcg", "ap", "aucloss"]
LINEAR = ["dcg+linear", "ndcg+linear", "dcg@2+linear", "ndcg@1+linear", "ndcg@2+linear"]


def names(m: int) -> list[str]:
    return PLAIN + [f"{base}@{n}" for base in ("p", "dcg", "ndcg") for n in range(1, m + 1)]


CASES = [(name, m, 2) for m in (2, 3, 4, 5) for name in names(m)]
CASES += [(name, m, 3) for m in (2, 3) for name in [*names(m), *LINEAR]]
CASES += [(name, 2, 5) for name in [*PLAIN, *LINEAR]]
CASES += [(name, 4, 3) for name in ("ap", "ndcg+linear", "pairwiseloss")]
CASES += [(name, 3, 2) for name in ("p@2", "ap+skip", "aucloss+skip", "ndcg+norel0", "ndcg@2+skip", "ap+norel0")]


def analyses(name: str, m: int, grades: int) -> list[Analysis]:
    """For k = 1, ..., m; the cells are worked out once."""
    found: list[Analysis] = []
    for k in range(1, m + 1):
        found.append(analyse(ranking_game(name, m, k, grades), known=found[0].cells if found else None))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m", "grades"), CASES)
def test_definitions_and_theorems_agree(name: str, m: int, grades: int) -> None:
    found = analyses(name, m, grades)
    assert [analysis.undecided for analysis in found] == [""] * m
    assert [analysis.rate for analysis in found] == [
        theorem_of(measure(name), m, k, grades).rate for k in range(1, m + 1)
    ]
    known = found[0].cells
    assert known is not None
    assert set(known.kind) == {"pareto"}
    assert (known.dimension == grades**m - 1).all()


@pytest.mark.parametrize("name", ["p@1+sum", "p@2+sum", "ap", "ndcg"])
def test_games_of_one_item_are_trivial(name: str) -> None:
    for grades in (2, 3):
        assert analyse(ranking_game(name, 1, 1, grades)).rate == Rate.ZERO


WITHOUT = [(name, 3) for name in [*names(3), "ndcg@2+linear"]]
WITHOUT += [(name, 4) for name in ("p@2+sum", "dcg@1", "aucloss", "ndcg@2")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "m"), WITHOUT)
def test_symmetries_do_not_change_the_rate(name: str, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "_BATCHES", 1)
    known = cells(dataclasses.replace(ranking_game(name, m, 1), symmetries=()))
    for k, analysis in enumerate(analyses(name, m, 2), start=1):
        plain = analyse(dataclasses.replace(ranking_game(name, m, k), symmetries=()), known=known)
        assert plain.rate == analysis.rate
        assert analysis.cells is not None
        from_0 = {border.j: border.neighborhood for border in known.borders if border.i == 0}
        assert {border.j: border.neighborhood for border in analysis.cells.borders} == from_0
        assert {border.i for border in analysis.cells.borders} <= {0}


# --- what an analysis says


def game(loss: Any, feedback: Any) -> Game:
    return Game.of(loss, feedback)


PENNIES = [[0, 1], [1, 0]]


def test_four_rates() -> None:
    full, nothing = [0, 1], [0, 0]
    for loss, feedback, rate, globally, locally in [
        ([[0, 0], [1, 1]], [full, full], Rate.ZERO, True, True),
        ([[0, 1]], [full], Rate.ZERO, True, True),
        (PENNIES, [full, nothing], Rate.SQRT, True, True),
        ([*PENNIES, [1, 1]], [nothing, nothing, full], Rate.TWO_THIRDS, True, False),
        (PENNIES, [nothing, nothing], Rate.LINEAR, False, False),
    ]:
        analysis = analyse(game(loss, feedback))
        assert analysis.rate == rate
        assert (analysis.globally_observable, analysis.locally_observable) == (globally, locally)
        assert analysis.undecided == ""
        assert (
            (analysis.unobservable_pair is None)
            == (analysis.unobservable_direction is None)
            == (rate in (Rate.ZERO, Rate.SQRT))
        )


def test_feedback_of_duplicates_and_of_actions_in_between_counts_as_local() -> None:
    nothing, full = [0, 0], [0, 1]
    assert analyse(game([*PENNIES, PENNIES[0]], [nothing, nothing, full])).rate == Rate.SQRT
    assert analyse(game([*PENNIES, ["1/2", "1/2"]], [nothing, nothing, full])).rate == Rate.SQRT
    assert analyse(game([*PENNIES, ["1/2", "2/3"]], [nothing, nothing, full])).rate == Rate.TWO_THIRDS


def test_losses_of_actions_that_are_never_best_need_not_be_observable() -> None:
    """Action 2 is dominated and its loss depends on what nobody sees: outcomes 1 and 2 look the same."""
    loss, feedback = [[0, 1, 1], [1, 0, 0], [7, 8, 9]], [[0, 1, 1]] * 3
    assert analyse(game(loss, feedback)).rate == Rate.SQRT


def test_one_symbol_under_different_actions_is_not_confused() -> None:
    """Both actions use the symbols 0 and 1, for different outcomes."""
    loss = [[0, 1, 2], [2, 1, 0]]
    assert analyse(game(loss, [[0, 1, 0], [1, 1, 0]])).rate == Rate.SQRT
    assert analyse(game(loss, [[0, 1, 0], [1, 0, 1]])).rate == Rate.LINEAR


def test_names_of_symbols_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        loss, feedback = rng.integers(0, 3, size=(3, 3)), rng.integers(0, 3, size=(3, 3))
        renamed = [[("abc"[s], i) for s in row] for i, row in enumerate(feedback)]
        assert analyse(game(loss, feedback)).rate == analyse(game(loss, renamed)).rate


def test_known_cells_are_used() -> None:
    first = analyse(ranking_game("ap", 3, 1))
    assert analyse(ranking_game("ap", 3, 2), known=first.cells).cells is first.cells


def test_progress_is_reported() -> None:
    calls: list[tuple[float, int]] = []
    analyse(ranking_game("ap", 3, 1), progress=lambda done, of: calls.append((done, of)))
    assert calls[-1][0] == calls[-1][1]
    assert calls == sorted(calls)
