"""``peekrank position-bias`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import peekrank, refused
from peekrank.evaluation.log import log_from_records, write_log


@pytest.fixture(autouse=True)
def _with_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = [
        {"event": str(t), "k": 2, "candidates": ["a", "b"], "position": [t % 2, 1 - t % 2], "feedback": answer}
        for t, answer in enumerate([[1, 0], [0, 1], [1, 1], [1, 0], [1, 0], [0, 1]] * 20)
    ]
    write_log("log.jsonl", log_from_records(records))


def test_the_curve_is_shown_and_written() -> None:
    done = peekrank("position-bias", "log.jsonl", "--json", "curve.json")
    assert done.exit_code == 0
    assert "As feedback rules: click = 1; curve 1 0.4" in done.stdout
    made = json.loads(Path("curve.json").read_text())
    assert made["examined"][0] == 1
    assert made["low"][1] < made["examined"][1] < made["high"][1]
    assert made["shown"] == [120, 120]


def test_what_is_wrong_is_reported() -> None:
    assert "nothing.jsonl does not exist" in refused("position-bias", "nothing.jsonl")
    assert "periods = 0: must be a whole number" in refused("position-bias", "log.jsonl", "--periods", "0")
