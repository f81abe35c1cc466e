"""Measures with parameters, cut-offs and forms of all kinds, named to every command that takes one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from helpers.command_line import peekrank, refused, rows
from helpers.documents import letor_text
from peekrank.experiments.sweep import Sweep, read_sweep

NAMES = ["rbp:p=0.95", "rbp@3:p=0.5", "rr", "err@3:max_grade=5", "recall@2", "hit@2"]

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(n, marks=pytest.mark.slow) for n in NAMES[1:])])
def test_simulate_advise_and_game(name: str) -> None:
    learner = "blockftrl:measure=rbp:p=0.95"
    done = peekrank("simulate", "uniform", learner, "--measure", name, "--k", 2, "--horizon", 200, "--runs", 1,
                    "--stream", "ct15:m=5", "--out", "out", "--workers", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    manifest = Path("out/manifest.json").read_text()
    assert json.dumps(name) in manifest
    assert "blockftrl:measure=rbp:p=0.95" in manifest
    advice = rows(peekrank("advise", name, "--m", 4, "--k", 2, "--horizon", 1000))
    assert advice["problem"].startswith(f"{name}, m = 4 items")
    game = rows(peekrank("game", name, "--m", 4, "--k", 2))
    assert advice["rate"].split()[0] == game["rate"].split(",")[0]
    assert game["basis"] == "theorem and definitions, which agree"


@pytest.mark.slow
def test_sweep() -> None:
    learners = ("blockftrl:measure=rbp:p=0.95", "uniform")
    made = Sweep("names", learners, ("ct15:m=5",), tuple(NAMES), k=(1,), horizons=(100,), runs=2)
    Path("names.toml").write_text(made.toml())
    assert read_sweep(Path("names.toml")) == made
    done = peekrank("sweep", "names.toml", "--out", "out", "--workers", 1)
    assert done.exit_code == 0, done.output
    assert set(pl.read_csv("out/summary.csv")["measure"]) == set(NAMES)


@pytest.mark.slow
def test_train_and_rank() -> None:
    Path("train.txt").write_text(letor_text(20, 1))
    Path("test.txt").write_text(letor_text(10, 2))
    for name in NAMES:
        small = ["--rounds", 100, "--runs", 1, "--workers", 1, "--measure", name, "--out", f"out-{name}"]
        done = peekrank("train", "train.txt", "rtopkf", "--test", "test.txt", *small)
        assert done.exit_code == 0, done.output
        model = f"out-{name}/models/rtopkf-0.json"
        ranked = peekrank("rank", model, "test.txt", "--measure", name, "--out", "r.tsv")
        assert re.search(rf"{re.escape(name)} [01]\.\d+ over 10 queries", ranked.output)


def test_a_grade_that_err_does_not_know_is_named() -> None:
    Path("train.txt").write_text("5 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    told = refused("train", "train.txt", "--rounds", 100, "--runs", 1, "--measure", "err")
    assert "grade 5, above the max_grade = 4 of err: err:max_grade=5 takes it" in " ".join(told.split())
