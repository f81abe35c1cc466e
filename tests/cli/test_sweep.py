"""``peekrank sweep`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import Result

from helpers.command_line import peekrank
from peekrank.experiments import run
from peekrank.experiments.sweep import Sweep
from peekrank.jobs.executor import InterruptedRunError, Threads
from peekrank.jobs.results_dir import FORMAT

SMALL = Sweep("small", ("rtop1f", "uniform"), ("ct15:m=5",), ("dcg",), k=(1, 2), horizons=(300,), runs=3)


def sweep(*arguments: str) -> Result:
    return peekrank("sweep", *arguments)


@pytest.fixture(autouse=True)
def _a_file_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL.toml())


def test_a_sweep_prints_tables_and_writes_everything() -> None:
    done = sweep("small.toml", "--out", "results", "--latex", "--markdown")
    assert done.exit_code == 0
    assert "small: 3 runs, seed 0, stream ct15:m=5, measure dcg, horizon 300" in done.stdout
    row = pl.read_csv("results/comparisons.csv").row(0, named=True)
    assert f"{row['difference']:.1f}" in done.stdout
    assert row["verdict"] == "rtop1f is better"
    assert "Differences in regret over paired runs, stream ct15:m=5, measure dcg, horizon 300" in done.stdout
    assert done.stdout.count(" better\n") == 2
    written = {path.name for path in Path("results").iterdir()}
    tables = {f"{name}.{kind}" for name in ("summary", "comparisons") for kind in ("csv", "tex", "md")}
    others = {"manifest.json", "runs", "timings.csv", "summary.parquet", "report.html", "pictures"}
    assert written == others | tables
    assert len(list(Path("results/pictures").iterdir())) == 2 * 2 * 2
    assert Path("results/summary.tex").read_text().count(r"\\") == 1 + 4
    assert len(Path("results/comparisons.md").read_text().splitlines()) == 2 + 2 + 2
    for name in ("summary.tex", "summary.md"):  # columns that are constant stand above the table
        first, *rest = Path("results", name).read_text().splitlines()
        assert first.removeprefix("% ") == "stream ct15:m=5, measure dcg, horizon 300"
        assert not any("ct15" in line for line in rest)


@pytest.mark.slow
def test_again_does_nothing_and_says_the_same() -> None:
    first = sweep("small.toml")
    before = {path: path.stat().st_mtime_ns for path in Path("sweep/runs").iterdir()}
    assert len(before) == 4
    assert sweep("small.toml", "--workers", "3").stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in Path("sweep/runs").iterdir()} == before


@pytest.mark.slow
def test_the_example_runs() -> None:
    shown = sweep("--example")
    Path("example.toml").write_text(shown.stdout.replace("[1000, 4000]", "[100, 200]").replace("= 10 ", "= 2 "))
    done = sweep("example.toml")
    assert done.exit_code == 0
    assert "example: 2 runs, seed 0, k 1" in done.stdout


def test_long_tables_are_cut_on_the_terminal_only() -> None:
    many = ",".join(str(horizon) for horizon in range(100, 132))
    Path("many.toml").write_text(SMALL.toml().replace("[300]", f"[{many}]").replace("runs = 3", "runs = 2"))
    done = sweep("many.toml")
    assert done.exit_code == 0
    assert "60 of 128 rows; all are in summary.csv." in done.stdout
    assert "60 of 64 rows; all are in comparisons.csv." in done.stdout
    assert "without plots, because there are 64 settings, more than 8" in done.stdout
    assert not Path("sweep/pictures").exists()
    assert len(pl.read_csv("sweep/summary.csv")) == 128


def test_one_learner_needs_no_comparison() -> None:
    Path("one.toml").write_text(SMALL.toml().replace('["rtop1f", "uniform"]', '"uniform"'))
    done = sweep("one.toml")
    assert done.exit_code == 0
    assert "verdict" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE.toml is missing; `peekrank sweep --example > example.toml`"),
        (["nowhere.toml"], "nowhere.toml"),
        (["wrong.toml"], "wrong.toml, line 2: unknown learner 'uniforn': did you mean 'uniform'?"),
        (["small.toml", "--workers", "0"], "workers = 0"),
        (["small.toml", "--executor", "spark"], "executor = 'spark': must be 'threads' or 'ray'"),
        (["small.toml", "--address", "head:6379"], "--address head:6379 needs --executor ray"),
        (["small.toml", "--executor", "ray", "--address", "head"], "address = 'head': must be host:port"),
        (["small.toml", "--executor", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at address"),
        (
            ["small.toml", "--out", "taken"],
            "taken holds results of another sweep, with different name; choose another folder",
        ),
    ],
)
def test_bad_input_is_a_line_and_code_2(arguments: list[str], message: str) -> None:
    Path("wrong.toml").write_text(SMALL.toml().replace("uniform", "uniforn"))
    Path("taken").mkdir()
    manifest = json.dumps({"format": FORMAT, "sweep": {"name": "other"}})
    Path("taken/manifest.json").write_text(manifest)
    Path("taken/runs").mkdir()
    Path("taken/runs/0-0.parquet").touch()
    done = sweep(*arguments)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ")
    assert "Traceback" not in done.output
    assert Path("taken/manifest.json").read_text() == manifest


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sweep("small.toml").exit_code == 0
    next(Path("sweep/runs").iterdir()).unlink()

    def stopped(*_: object, **__: object) -> None:
        raise InterruptedRunError

    monkeypatch.setattr(Threads, "run", stopped)
    done = sweep("small.toml")
    assert done.exit_code == 130
    said = done.output.replace("\n", " ")
    assert "stopped; 9 of 12 runs are finished and kept in sweep/" in said
    assert "run the same command again to resume" in said


def test_a_failed_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, progress: object = None, **__: object) -> None:
        if progress:
            raise FloatingPointError("no luck")

    monkeypatch.setattr(run, "simulate", broken)
    done = sweep("small.toml", "--workers", "1")
    assert done.exit_code == 2
    assert "error: no luck\nlearner 'rtop1f'\nin run 0 with stream = ct15:m=5, measure = dcg, k = 1" in done.output
