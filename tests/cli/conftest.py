"""Folders that commands are run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.documents import letor_text


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def judged_lists(empty_folder: None) -> None:
    Path("train.txt").write_text(letor_text(30, 1))
    Path("test.txt").write_text(letor_text(10, 2))
