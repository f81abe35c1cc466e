"""A flipped bit of a log is noticed or harmless, and the script would find one that is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.scripts import load_script
from peekrank.service.core import open_events
from peekrank.service.event_log import sqlite, sqlite_checks

flips = load_script("flips")


@pytest.mark.slow
@pytest.mark.service
def test_flips_are_noticed_or_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_events, "AWAKE", flips.AWAKE)
    counts, wrong = flips.try_flips(tmp_path, 40, flips.random.Random(5))
    assert wrong == []
    assert counts["equal"] + counts["refused"] + counts["reported"] == 40
    assert min(counts["equal"], counts["refused"], counts["reported"]) > 0


@pytest.mark.slow
@pytest.mark.service
def test_damage_that_is_served_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite, sqlite_checks):
        monkeypatch.setattr(module, "check_file", lambda *_: None)
    monkeypatch.setattr(sqlite, "check_record", lambda *_: None)
    _, wrong = flips.try_flips(tmp_path, 15, flips.random.Random(5))
    assert wrong
