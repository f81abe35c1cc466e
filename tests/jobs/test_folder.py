"""Manifests: folders are claimed for one thing, and given to no other."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from peekrank._util.atomic import write_whole
from peekrank.jobs import folder as manifests
from peekrank.jobs.folder import check_same, claim, holds_manifest

ABOUT = {"study": {"runs": (1, 2), "seed": 3}, "data": {"content": "ab"}}


def again(folder: Path, **change: Any) -> dict[str, Any]:
    return claim(folder, "study", {**ABOUT, **change}, begun=True, parts=("data",))


def test_the_same_thing_goes_on_with_the_manifest_that_is_there(tmp_path: Path) -> None:
    first = claim(tmp_path, "study", ABOUT, begun=False)
    assert first["study"] == {"runs": [1, 2], "seed": 3}
    manifests.write_manifest(tmp_path, {**first, "finished": True})
    assert again(tmp_path) == {**first, "finished": True}


@pytest.mark.parametrize(
    ("change", "different"),
    [
        ({"study": {"runs": (1, 2), "seed": 4}}, "different seed;"),
        ({"study": {"runs": (1,), "seed": 4}}, "different runs, seed;"),
        ({"data": {"content": "cd"}}, "different content of the data;"),
        ({"data": None}, "different content of the data;"),
    ],
)
def test_another_thing_is_refused_once_something_is_finished(
    change: dict[str, Any], different: str, tmp_path: Path
) -> None:
    claim(tmp_path, "study", ABOUT, begun=False)
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(
        ValueError, match=f"holds results of another study, with {different} choose another folder"
    ):
        again(tmp_path, **change)
    assert (tmp_path / "manifest.json").read_bytes() == before
    taken = claim(tmp_path, "study", {**ABOUT, **change}, begun=False)
    assert json.loads((tmp_path / "manifest.json").read_text()) == taken


@pytest.mark.parametrize(("name", "said"), [("versions", "versions of packages"), ("sources", "code of peekrank")])
def test_other_code_is_refused(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(tmp_path, "study", ABOUT, begun=False)
    monkeypatch.setattr(manifests, name, lambda: "others")
    with pytest.raises(ValueError, match=f"with different {said}"):
        again(tmp_path)


def test_a_folder_that_was_taken_over_is_noticed(tmp_path: Path) -> None:
    mine = claim(tmp_path, "study", ABOUT, begun=False)
    check_same(tmp_path, "study", mine, ("data",))
    claim(tmp_path, "study", {**ABOUT, "study": {"runs": (1, 2), "seed": 9}}, begun=False)
    with pytest.raises(ValueError, match="different seed"):
        check_same(tmp_path, "study", mine, ("data",))


def test_what_a_killed_writer_left_is_no_content(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.999999999-1.part").write_text("{")
    assert not holds_manifest(tmp_path)
    claim(tmp_path, "study", ABOUT, begun=False)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".0.parquet.999999999-1.part").write_text("PAR1")
    assert holds_manifest(tmp_path)
    assert not list((tmp_path / "runs").iterdir())


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"summary\.csv: cannot be written: No space left on device; is"):
        write_whole(tmp_path / "summary.csv", full)
    assert not list(tmp_path.iterdir())
