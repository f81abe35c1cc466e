"""``peekrank advise`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import peekrank, rows
from peekrank.advice import advise, advise_surrogate


def read(path: str) -> Any:
    return json.loads(Path(path).read_text())


pytestmark = pytest.mark.usefixtures("empty_folder")


def test_advice_is_printed_and_written() -> None:
    done = peekrank("advise", "ndcg@10", "--m", "100", "--k", "5", "--horizon", "10000000", "--json", "a.json")
    said = rows(done)
    assert said["rate"].startswith("T (theorem): ")
    assert said["learner"] == "none"
    assert "learn dcg@10 with marginftrl" in said["change"]
    wanted = advise("ndcg@10", m=100, k=5, horizon=10_000_000)
    assert read("a.json") == json.loads(json.dumps(wanted.as_dict()))
    for line, (label, text) in zip(done.stdout.splitlines(), wanted.rows, strict=True):
        assert line.split() == [label, *text.split()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ndgc", "--m", "3", "--k", "1"], "unknown measure or surrogate 'ndgc': did you mean 'ndcg'?"),
        (["squard", "--m", "3", "--k", "1"], "unknown measure or surrogate 'squard': did you mean 'squared'?"),
        (["kl/2", "--m", "3", "--k", "1"], "unknown surrogate 'kl/2': did you mean 'kl'?"),
        (["dcg", "--m", "3", "--k", "4"], "k = 4: must be a whole number, from 1 to 3"),
        (["dcg", "--m", "3", "--k", "1", "--json", "."], ". is not a regular file"),
    ],
)
def test_bad_questions_for_advice(arguments: list[str], message: str) -> None:
    done = peekrank("advise", *arguments, "--horizon", "10")
    assert done.exit_code == 2
    assert message in done.output


def test_a_horizon_makes_numbers_of_bounds_and_a_surrogate_needs_none() -> None:
    unknown = peekrank("advise", "dcg", "--m", "3", "--k", "1")
    assert rows(unknown)["guarantee"].startswith("in every case, regret grows at most as T^(2/3) (marginftrl)")
    known = peekrank("advise", "dcg", "--m", "3", "--k", "1", "--horizon", "10000")
    assert rows(known)["guarantee"].startswith("in every case, regret at most ")
    without = peekrank("advise", "kl", "--m", "3", "--k", "1")
    assert rows(without)["rate"].startswith("T^(2/3): its gradient has an unbiased estimate from one answer")
    assert "adversary" not in without.stdout
    assert peekrank("advise", "kl", "--m", "3", "--k", "1", "--horizon", "10").stdout == without.stdout


def test_advice_on_a_hopeless_surrogate_shows_the_witness() -> None:
    done = peekrank("advise", "ndcgsquared", "--m", "10", "--k", "1", "--json", "a.json")
    assert rows(done)["rate"].startswith("T: hopeless: one answer per round cannot identify the best scores")
    wanted = advise_surrogate("ndcgsquared", m=10, k=1)
    assert wanted.witness is not None
    assert f"regret is at least {wanted.witness.gap / 2:.3g} per round" in done.stdout
    assert "relevance of items 1 to 2" in done.stdout
    assert "All other items are irrelevant" in done.stdout
    shown = [line.split() for line in done.stdout.splitlines() if line.startswith((" 0", " 1"))]
    assert [[float(cell) for cell in line] for line in shown] == [
        [*row[:2], p, q] for row, p, q in zip(*wanted.witness[:3], strict=True)
    ]
    assert read("a.json") == json.loads(json.dumps(wanted.as_dict()))
    assert read("a.json")["witness"]["p"] == [0.5, 0, 0, 0.5]


def test_a_long_witness_goes_into_the_file() -> None:
    done = peekrank("advise", "ndcgsquared", "--m", "10", "--k", "5", "--json", "a.json")
    assert rows(done)["The"] == "adversaries have 64 lists: a.json has them."
    unwritten = peekrank("advise", "ndcgsquared", "--m", "10", "--k", "5")
    assert rows(unwritten)["The"] == "adversaries have 64 lists: --json FILE writes them."
    assert len(read("a.json")["witness"]["relevance"]) == 64
    whole = peekrank("advise", "listnet", "--m", "3", "--k", "2", "--grades", "3")
    assert "relevance of items 1 to 3" in whole.stdout
    assert "All other items" not in whole.stdout


def test_a_witness_that_is_too_long_is_said_to_be_left_out() -> None:
    done = peekrank("advise", "ndcgsquared", "--m", "100", "--k", "13", "--json", "a.json")
    assert rows(done)["note"].startswith("the advice omits the adversaries that prove it")
    assert read("a.json")["witness"] is None
    assert read("a.json")["notes"][0].startswith("the advice omits the adversaries that prove it")


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_specification_is_never_broken(columns: int) -> None:
    done = peekrank("advise", "dcg", "--m", 10, "--k", 1, "--horizon", 10_000, columns=columns)
    words = done.stdout.split()
    assert "champion:measure=dcg,members=[doubtsort:measure=dcg;marginftrl:measure=dcg]" in words
    assert "marginftrl:measure=dcg" in words
    wide = [line for line in done.stdout.splitlines() if len(line) > columns]
    assert all(len(line.split()) <= 2 for line in wide)  # a word that is wider than the terminal
