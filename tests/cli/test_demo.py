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


@pytest.mark.slow
def test_demo_reranks_docstrings(tmp_path: Path) -> None:
    done = peekrank("demo", "--rerank", "--out", tmp_path / "new" / "shown")
    assert done.exit_code == 0
    value = {line.split("  ")[0].strip(): line.split()[-4:] for line in done.output.splitlines()}
    alone, mixed, best = (
        [float(cell.removesuffix("%")) for cell in value[name]]
        for name in ("BM25 alone", "mixed behind BM25", "best order of the same passages")
    )
    assert alone[0] - 0.01 < mixed[0]
    assert alone[2] + 0.04 < mixed[2] < best[2]
    assert alone[3] + 8 < mixed[3] < best[3]
    page = (tmp_path / "new" / "shown" / "report.html").read_text()
    assert "<svg" in page
    _, before, after = page.split("<ol>")
    assert after.find("what they look for") < before.find("what they look for")


def test_two_demos_at_once_are_refused() -> None:
    done = peekrank("demo", "--rerank", "--score")
    assert done.exit_code == 2
    assert "--score and --rerank are two demos" in done.output
