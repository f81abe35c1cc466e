"""The table of rates: the same from theorems and definitions, for any m, and as a picture."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from matplotlib.colors import to_rgb

from peekrank import measure
from peekrank.games import rate_table as module
from peekrank.games.analysis import Analysis, analyse
from peekrank.games.game import Game
from peekrank.games.rate_table import Cell, Source, Table, sensible_source, tabulate, usual_measures
from peekrank.games.rates import Rate, Verdict
from peekrank.games.theorems import theorem_of
from peekrank.registry import MEASURES
from peekrank.reports import plots


def rates(table: Table) -> dict[str, list[str]]:
    return {name: [str(c.rate) for c in row] for name, row in zip(table.measures, table.cells, strict=True)}


@pytest.mark.parametrize("grades", [2, 9])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 20, 1000])
def test_usual_measures_are_all_with_cut_offs_in_range(m: int, grades: int) -> None:
    made = [measure(name) for name in usual_measures(m, grades)]
    assert None not in {cell.rate for row in tabulate(m=m, grades=grades).cells for cell in row}
    assert {type(judge) for judge in made} == {MEASURES[name] for name in MEASURES.built_in}
    assert all(1 <= n <= m for judge in made if (n := getattr(judge, "n", None)))


def test_theorems_and_definitions_give_one_table() -> None:
    table = tabulate(m=3, source="both")
    assert rates(table) == {
        "p@2": ["sqrt(T)"] * 3,
        "dcg@2": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "dcg": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "rbp": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "sumloss": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "pairwiseloss": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "aucloss": ["T^(2/3)", "sqrt(T)", "sqrt(T)"],
        "hit@2": ["T", "sqrt(T)", "sqrt(T)"],
        "rr": ["T", "sqrt(T)", "sqrt(T)"],
        "err": ["T", "sqrt(T)", "sqrt(T)"],
        "recall@2": ["T", "sqrt(T)", "sqrt(T)"],
        "ap": ["T", "T^(2/3)", "sqrt(T)"],
        "ndcg@2": ["T", "T^(2/3)", "sqrt(T)"],
        "ndcg": ["T", "T^(2/3)", "sqrt(T)"],
    }
    assert {cell[1:] for row in table.cells for cell in row} == {("theorem", "both")}


@pytest.mark.parametrize(("source", "basis"), [("theorem", "theorem"), ("definitions", "certified")])
def test_each_source_alone(source: Source, basis: str) -> None:
    table = tabulate(["ndcg", "pairwiseloss"], m=2, grades=3, source=source)
    assert rates(table) == {"ndcg": ["T", "sqrt(T)"], "pairwiseloss": ["T", "sqrt(T)"]}
    assert {cell[1:] for row in table.cells for cell in row} == {(basis, source)}


@pytest.mark.parametrize("grades", [2, 3])
@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 40, 41])
def test_spans_cover_every_k_with_its_rate(m: int, grades: int) -> None:
    table = tabulate(m=m, grades=grades)
    assert [k for span in table.spans for k in span] == list(range(1, m + 1))
    assert len(table.spans) <= 7
    for name, row in zip(table.measures, table.cells, strict=True):
        for span, cell in zip(table.spans, row, strict=True):
            assert all(theorem_of(measure(name), m, k, grades).rate == cell.rate for k in span)


def test_millions_of_items_take_no_time() -> None:
    assert tabulate(m=10**7).spans[-1] == range(10**7, 10**7 + 1)


def test_rows_are_flat() -> None:
    rows = tabulate(["p@3+sum", "ndcg"], m=20).rows()
    assert {(row["measure"], row["k"], row["k_last"], row["rate"]) for row in rows} >= {("ndcg", 1, 18, "T")}
    assert all({type(value) for value in row.values()} == {str, int} for row in rows)


def test_a_disagreement_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "feedback_theorem", lambda *_: Verdict(Rate.LINEAR, "theorem", "a slip"))
    with pytest.raises(
        ArithmeticError, match=r"dcg, m = 2, k = 1, .* theorem gives T, the definitions give sqrt\(T\)"
    ):
        tabulate(["dcg"], m=2, source="both")


@pytest.mark.parametrize(
    ("source", "cell"),
    [("both", Cell(Rate.SQRT, "theorem", "theorem")), ("definitions", Cell(None, "undecided", "definitions"))],
)
def test_undecided_games(source: Source, cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "analyse", lambda game, *_: Analysis(game, None, None, undecided="a sign"))
    table = tabulate(["dcg"], m=2, source=source)
    assert set(table.cells[0]) == {cell}
    assert table.rows()[0]["rate"] == (cell.rate and str(cell.rate))
    assert plots.rates(table).axes[0].texts[0].get_text() == (cell.rate or "?")


def test_cells_are_found_once_for_all_k(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[bool] = []

    def watched(game: Game, cells: Any, progress: Any) -> Analysis:
        known.append(cells is not None)
        return analyse(game, cells, progress)

    monkeypatch.setattr(module, "analyse", watched)
    tabulate(["ap"], m=3, source="definitions")
    assert known == [False, True, True]


def test_progress_goes_up_to_the_end() -> None:
    seen: list[float] = []
    tabulate(["dcg", "ap"], m=3, source="definitions", progress=lambda done, of: seen.append(done / of))
    assert seen == sorted(seen)
    assert {0.5, 1} < set(seen)
    assert max(seen) == 1


@pytest.mark.parametrize(
    ("m", "grades", "expected"),
    [(1, 2, "both"), (5, 2, "both"), (6, 2, "theorem"), (4, 3, "both"), (2, 30, "theorem"), (10**6, 2, "theorem")],
)
def test_sensible_source(m: int, grades: int, expected: str) -> None:
    assert sensible_source(m, grades, max_entries=4000) == expected


def test_bad_parameters() -> None:
    with pytest.raises(ValueError, match="m = 0"):
        tabulate(m=0)
    with pytest.raises(ValueError, match="source = 'guess'"):
        tabulate(m=2, source="guess")  # type: ignore[arg-type]


def test_the_picture_says_what_the_table_says() -> None:
    table = tabulate(["p@50+sum", "dcg@10", "dcg", "ndcg"], m=50)
    axes = plots.rates(table).axes[0]
    assert [text.get_text() for text in axes.texts] == [str(c.rate) for row in table.cells for c in row]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1 to 9", "10 to 48", "49", "50"]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(table.measures)
    legend = axes.figure.legends[0]
    assert [text.get_text().partition(",")[0] for text in legend.get_texts()] == list(Rate)


def test_colours_differ_in_grey_and_letters_stand_out() -> None:
    table = tabulate(["p@50+sum", "dcg", "ndcg"], m=50)
    axes = plots.rates(table).axes[0]
    grey = {}
    for text, patch in zip(axes.texts, axes.patches, strict=True):
        back = sum(w * c for w, c in zip((0.3, 0.59, 0.11), to_rgb(patch.get_facecolor()), strict=True))
        grey[text.get_text()] = back
        assert abs(back - sum(to_rgb(text.get_color())) / 3) > 0.5
    shades = [grey[rate] for rate in Rate]
    assert all(light - dark > 0.1 for light, dark in pairwise(shades))
