"""A killed service loses no acknowledged call, and the script would find a loss."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from helpers.scripts import load_script

faults = load_script("faults")


@pytest.mark.slow
@pytest.mark.service
def test_kills_lose_nothing_and_losses_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults.try_kills(tmp_path, 3, "normal", faults.random.Random(1)) == 0
    assert "3 kills (synchronous = normal)" in capsys.readouterr().out
    before = faults.check(tmp_path, 2)
    assert before.acknowledged > 10
    assert (before.lost, before.different) == ([], [])
    with (tmp_path / "acknowledged-2-0").open("a") as told:
        told.write('["never-written", "home", ["item-1"]]\n["half a line')
    assert faults.check(tmp_path, 2).lost == ["never-written"]
    with sqlite3.connect(tmp_path / "log.db") as log:
        log.execute("UPDATE log SET event = 'another' WHERE kind = 3")
    log.close()
    with pytest.raises(ValueError, match=r"record \d+ of slot '\w+' is damaged"):
        faults.check(tmp_path, 2)
