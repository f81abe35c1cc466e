"""``peekrank demo`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.command_line import peekrank


@pytest.mark.slow
def test_demo_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = peekrank("demo", "--out", "shown")
    assert done.exit_code == 0
    report = Path("shown/report.html")
    assert report.resolve().as_uri() in done.output.replace("\n", "")
    assert "<svg" in report.read_text()
