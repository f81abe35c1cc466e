"""Tables on a terminal: titles, groups, rows and widths."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from helpers.command_line import numbers
from peekrank.cli._tables import TextTable, compared, render
from peekrank.experiments.comparison import Group, compare

HEADS = ["stream", "horizon", "learner", "minus", "difference, 95% CI", "adj. p", "verdict"]
LONG = "rtop1f:order=fixed"


def printed(title: str, sheet: TextTable, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    for part in render(title, sheet, "all are elsewhere"):
        console.print(part, highlight=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(*pairs: tuple[str, str]) -> list[list[str]]:
    """Of two streams, one horizon."""
    return [
        [stream, "4,000", a, b, "-2,466, -2,889..-2,042", "< 0.001", "better"]
        for stream in ("ct15", "ct15:noise=0.5")
        for a, b in pairs
    ]


def test_groups_of_several_rows_have_a_line_of_their_own_and_all_fits_80_columns() -> None:
    lines = printed("Regret", TextTable(HEADS, rows((LONG, "ftpl"), ("ftpl", LONG)), 2)).splitlines()
    told = [line.split() for line in lines if line.strip()]
    assert told[0] == ["Regret,", "horizon", "4,000,", "by", "stream"]
    row = ["-2,466,", "-2,889..-2,042", "<", "0.001", "better"]
    assert told[3:] == [
        ["ct15"], [LONG, "ftpl", *row], ["ftpl", LONG, *row],
        ["ct15:noise=0.5"], [LONG, "ftpl", *row], ["ftpl", LONG, *row],
    ]  # fmt: skip


def test_learners_that_are_the_same_in_all_rows_are_in_the_title() -> None:
    lines = printed("Regret", TextTable(HEADS, rows(("a", "b")), 2)).splitlines()
    assert lines[0].strip() == "Regret, horizon 4,000, learner a, minus b"
    assert [line.split()[0] for line in lines[4:6]] == ["ct15", "ct15:noise=0.5"]


def test_a_single_row_names_its_learners() -> None:
    lines = printed("Regret", TextTable(HEADS, rows(("a", "b"))[:1], 2)).splitlines()
    assert lines[0].strip() == "Regret, stream ct15, horizon 4,000"
    assert lines[4].split()[:2] == ["a", "b"]


@pytest.mark.parametrize("width", [40, 60])
def test_on_a_narrow_terminal_names_are_folded_and_numbers_are_whole(width: int) -> None:
    sheet = TextTable(["learner", "regret"], [["x" * 70, "1,234"], ["[red]y", "5"]], 0)
    text = printed("Regret", sheet, width)
    assert text.count("x") == 70
    assert "1,234" in text
    assert "[red]y" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 100])
def test_no_number_is_broken_and_no_line_is_too_long(width: int) -> None:
    sheet = TextTable(HEADS, rows((LONG, "ftpl"), ("ftpl", LONG)), 2)
    text = printed("Regret", sheet, width)
    assert numbers(printed("Regret", sheet, 200)) - {LONG} <= numbers(text)
    assert text.count("-2,889..-2,042") == 4
    assert max(map(len, text.splitlines())) <= width


def test_long_tables_are_cut() -> None:
    sheet = TextTable(["learner", "regret"], [["a", str(i)] for i in range(70)], 0)
    text = printed("Regret", sheet)
    assert "60 of 70 rows; all are elsewhere." in text
    assert " 59 " in text
    assert " 60 " not in text.replace("60 of", "")


def test_verdicts_are_on_the_learner_of_a_row() -> None:
    noise = np.random.default_rng(1).normal(size=8)
    outcomes = {"a": noise, "b": noise + 3 + 0.1 * noise**2, "c": noise[::-1], "d": np.full(8, np.nan)}
    groups: list[Group] = [({"k": 1}, outcomes), ({"k": 2}, {"e": noise[:1], "f": noise[1:2]})]
    sheet = compared(compare(groups), ["k"])
    found = {(row[1], row[2]): row[-1] for row in sheet.rows}
    assert found["a", "b"] == "better"
    assert found["b", "c"] == "worse"
    assert found["a", "c"] == "unclear"
    assert found["a", "d"] == "no outcome"
    assert found["e", "f"] == "one run"
