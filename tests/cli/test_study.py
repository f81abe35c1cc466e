"""`peekrank study` as a user meets it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from typer.testing import Result

from helpers.command_line import numbers, peekrank
from peekrank.experiments import study
from peekrank.experiments.families import family
from peekrank.experiments.study_result import Worst
from peekrank.jobs.executor import InterruptedRunError, Threads
from peekrank.reports.numbers import bound_text, number

QUICK = ("p@1+sum", "--m", "3", "--k", "1", "--horizons", "40,80,160", "--runs", "2")
TWO = (*QUICK, "setftrl", "uniform")


def rates(*arguments: str, columns: int = 200) -> Result:
    return peekrank("study", *arguments, columns=columns)


pytestmark = pytest.mark.usefixtures("empty_folder")


def test_a_table_is_printed_and_everything_written() -> None:
    done = rates(*TWO, "--out", "found")
    assert done.exit_code == 0, done.output
    summary = pl.read_csv("found/summary.csv").filter(pl.col("horizon") == 160)
    assert "p@1+sum, m = 3, k = 1: rate of the game sqrt(T)" in done.stdout
    for row in summary.iter_rows(named=True):
        (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith(row["learner"])]
        assert row["stream"] in line
        assert f" {number(row['regret'])} ± " in line
        assert f"{row['exponent']:.2f}, {row['exponent_low']:.2f}..{row['exponent_high']:.2f}" in line
    assert "mean ± standard deviation of 2 runs" in done.stdout
    assert "Wrote tables, plot and manifest to found/" in done.stdout
    assert sorted(path.name for path in Path("found").iterdir()) == [
        "manifest.json", "rates.png", "rates.svg", "regrets.parquet", "runs", "summary.csv", "timings.csv",
    ]  # fmt: skip
    assert json.loads(Path("found/manifest.json").read_text())["study"]["horizons"] == [40, 80, 160]


def test_the_same_command_goes_on_and_says_the_same() -> None:
    first = rates(*TWO)
    removed, kept = (next(Path("study/runs").glob(f"*-{setting}.parquet")) for setting in ("03-80", "04-80"))
    removed.unlink()
    stamp = kept.stat().st_mtime_ns
    assert rates(*TWO).stdout == first.stdout
    assert kept.stat().st_mtime_ns == stamp


def test_without_names_all_learners_that_fit_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "fitting", lambda *_, **__: (("rtop1f",), {"other": "because " * 40}))
    done = rates(*QUICK)
    assert done.exit_code == 0, done.output
    assert "rtop1f" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("without other: because")]
    assert line.count("because") == 40  # whole: what to use instead comes last


def test_hopeless_games_need_names() -> None:
    done = rates("ndcg", "--m", "3", "--k", "1")
    assert done.exit_code == 2
    assert "no learner fits ndcg at m = 3, k = 1" in done.output.replace("\n", " ")
    done = rates("ndcg", "uniform", "--m", "3", "--k", "1", "--horizons", "400,1600", "--runs", "2")
    assert done.exit_code == 0, done.output
    assert "rate of the game T" in done.stdout


def test_grades_are_those_of_the_game() -> None:
    done = rates("dcg", "rtop1f", "--m", "3", "--k", "1", "--grades", "3", "--horizons", "100", "--runs", "2")
    assert done.exit_code == 0, done.output
    assert "grades 0 to 2" in done.stdout
    assert "graded" in {s["stream"] for s in json.loads(Path("study/manifest.json").read_text())["settings"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizons", "80,40"], "horizons = 80,40: must be one or more ascending numbers of rounds"),
        (["--horizons", "80,x"], "horizons = '80,x': must be whole numbers separated by commas"),
        (["--runs", "0"], "runs = 0: must be a whole number, at least 1"),
        (["--k", "4"], "k = 4: must be a whole number, from 1 to 3"),
        (["--m", "1"], "m = 1: must be a whole number, at least 2"),
        (["--seed", "-1"], "seed = -1"),
        (["--workers", "0"], "workers = 0"),
        (["--grades", "1"], "grades = 1"),
        (["rtop1g"], "unknown learner 'rtop1g': did you mean 'rtop1f'?"),
        (["setftrl"], "a learner occurs twice"),
        (["--out", "taken"], "taken is not empty and has no manifest.json"),
    ],
)
def test_bad_input_is_a_line_and_code_2(arguments: list[str], message: str) -> None:
    Path("taken").mkdir()
    Path("taken/file").write_text("mine")
    done = rates(*TWO, *arguments)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ")
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dgc", "--m", "3", "--k", "1"], "unknown measure 'dgc'"),
        (["dcg", "--m", "3", "--k", "4"], "k = 4: must be a whole number, from 1 to 3"),
        (["dcg", "permftrl", "--m", "3", "--k", "1"], "k = 1: permftrl needs to see every position with a weight"),
        (["dcg", "setftrl", "--m", "3", "--k", "1"], "measure = dcg: setftrl learns which n items"),
    ],
)
def test_games_and_learners_that_do_not_fit(arguments: list[str], message: str) -> None:
    done = rates(*arguments)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ")
    assert not Path("study").exists()


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rates(*TWO).exit_code == 0
    next(Path("study/runs").iterdir()).unlink()

    def stopped(*_: object, **__: object) -> None:
        raise InterruptedRunError

    monkeypatch.setattr(Threads, "run", stopped)
    done = rates(*TWO)
    assert done.exit_code == 130
    settings = 3 * len(family("p@1+sum", 3, 1, 40))
    said = done.output.replace("\n", " ")
    assert f"stopped; {settings - 1} of {settings} settings are finished and kept in study/" in said
    assert "run the same command again to resume" in said


def test_no_number_is_broken_in_a_narrow_terminal() -> None:
    wide = numbers(rates(*TWO).stdout)
    assert sum(".." in word for word in wide) == 2
    for columns in (40, 60, 80, 120):
        assert wide <= numbers(rates(*TWO, columns=columns).stdout)


def test_a_bound_that_is_exceeded_is_called_so() -> None:
    assert bound_text(Worst(100, "ct15", 50.0, 1.0, 0.25, 49.0)) == "49.0 exceeded"
    assert bound_text(Worst(100, "ct15", 50.0, 1.0, 0.75, 49.0)) == "49.0"
    assert bound_text(Worst(100, "ct15", 50.0, math.nan, math.nan, 49.0)) == "49.0"
    assert bound_text(Worst(100, "ct15", 49.0, 1.0, 0.25, None)) == "–"
