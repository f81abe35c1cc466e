"""``peekrank reproduce`` as a user meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import peekrank
from helpers.reproductions import invented
from peekrank import papers as reproduction
from peekrank.jobs.executor import InterruptedRunError
from peekrank.papers import ALL
from peekrank.papers.record import Claim, Options, Results, read_record


def reproduce(*arguments: str) -> Any:
    return peekrank("reproduce", *arguments, columns=80)


def test_without_names_everything_is_listed() -> None:
    listed = reproduce().stdout
    for name, item in ALL.items():
        (line,) = [line for line in listed.splitlines() if line.startswith(f" {name} ")]
        assert item.source.split()[0] in line
    assert "--all" in listed


def test_an_unknown_name_gets_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = reproduce("ct15-tabel-1")
    assert done.exit_code == 2
    assert "unknown reproduction 'ct15-tabel-1': did you mean 'ct15-table-1'?" in done.stderr
    done = reproduce("rates", "--all")
    assert done.exit_code == 2
    assert "--all and names exclude each other" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_difference_is_a_finding_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = {"good": invented("good"), "bad": invented("bad", holds=False)}
    monkeypatch.setattr(reproduction, "ALL", items)
    monkeypatch.chdir(tmp_path)
    done = reproduce("bad", "good", "bad")
    assert done.exit_code == 0
    assert "2 claims: 1 hold, 1 differ" in done.stdout
    assert [line.split()[-1] for line in done.stdout.splitlines() if "answer: 42" in line] == ["differs", "holds"]
    assert list(read_record(tmp_path / "reproduction")[1]) == ["bad", "good"]
    assert reproduce("good", "--quick").exit_code == 0
    assert list(read_record(tmp_path / "reproduction-quick")[1]) == ["good"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, InterruptedRunError])
def test_what_is_finished_is_kept_when_the_user_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    calls: list[str] = []

    def first(_: Options) -> Results:
        calls.append("first")
        return Results([Claim("a", "b", "c", holds=True)])

    def second(_: Options) -> Results:
        calls.append("second")
        if calls.count("second") == 1:
            raise stop
        return Results([Claim("d", "e", "f", holds=True)])

    items = {"first": invented("first", make=first), "second": invented("second", make=second)}
    monkeypatch.setattr(reproduction, "ALL", items)
    done = reproduce("--all", "--out", str(tmp_path / "out"))
    assert done.exit_code == 130
    assert "1 of 2 are finished; they and the runs of second are kept in" in " ".join(done.stderr.split())
    assert reproduce("--all", "--out", str(tmp_path / "out")).exit_code == 0
    assert calls == ["first", "second", "second"]
