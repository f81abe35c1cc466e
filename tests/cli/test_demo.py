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


def test_demo_starts_from_a_score() -> None:
    done = peekrank("demo", "--score")
    assert done.exit_code == 0
    lost = {line.split("  ")[0].strip(): line.split()[-3:] for line in done.output.splitlines()}
    alone, mixed, without = (
        [float(cell) for cell in lost[name]]
        for name in ("the score alone", "mixed, from the score", "doubtsort, without it")
    )
    assert mixed[0] < alone[0] + 0.01 < without[0]
    assert mixed[-1] < 0.7 * alone[-1]
