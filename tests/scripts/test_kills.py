"""The script that kills commands finds what a kill leaves behind, and counts its kills."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from helpers.scripts import load_script

script = load_script("kills")

# Writes two parts, one after the other; its second argument says what is wrong with it. Where a file "hang" lies
# beside its folder, it removes that, and waits in the middle of the second part to be killed.
PARTS = """
import os, sys, time
from pathlib import Path

folder, how = Path(sys.argv[1]), sys.argv[2]
(folder / "runs").mkdir(parents=True, exist_ok=True)
(folder / "manifest.json").touch()
for number in range(2):
    part = folder / "runs" / f"0-{number}.parquet"
    if how != "appends" and part.exists():
        continue
    draft = part.with_name(f".{number}-{os.getpid() if how == 'litters' else 0}")
    with (part if how in ("appends", "halves") else draft).open("a" if how == "appends" else "w") as file:
        file.write("half of it, ")
        file.flush()
        if number == 1 and Path("hang").exists():
            Path("hang").unlink()
            time.sleep(600)
        file.write("all of it")
    if how in ("is right", "litters"):
        draft.replace(part)
(folder / "timings.csv").write_text(str(time.time()))
"""


def killed_in_the_middle(command: list[str], where: Path, _: float) -> bool:
    (where / "hang").touch()
    with subprocess.Popen(command, cwd=where) as process:
        while (where / "hang").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    return True


@pytest.mark.parametrize(
    ("how", "differ"),
    [
        ("is right", []),
        ("halves", ["runs/0-1.parquet"]),
        ("appends", ["runs/0-0.parquet", "runs/0-1.parquet"]),
        ("litters", ["runs/.1-*"]),
    ],
)
def test_faults_are_found(how: str, differ: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(folder: str) -> list[str]:
        return [sys.executable, "-c", PARTS, folder, how]

    whole, folder = tmp_path / "whole", tmp_path / "folder"
    moments = script.run(command("whole"), whole)
    monkeypatch.setattr(script, "killed", killed_in_the_middle)
    found = script.try_folder(command("folder"), folder, whole, moments, 1, random.Random(0))  # noqa: S311
    assert found.kills == {"between parts" if how in ("is right", "litters") else "when all was written once": 1}
    assert len(found.differ) == len(differ)
    assert all(map(fnmatch, found.differ, differ))


def test_a_kill_is_told_from_an_end(tmp_path: Path) -> None:
    assert script.killed([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, 0.1)
    assert not script.killed([sys.executable, "-c", ""], tmp_path, 600)


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with code 3: why"):
        script.run([sys.executable, "-c", "print('why'); exit(3)"], tmp_path / "x")


def test_stages(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "folder"
    for position in (whole, folder):
        (position / "runs").mkdir(parents=True)
    for file in ("runs/0-0.parquet", "runs/0-1.parquet", "summary.csv"):
        (whole / file).touch()
    assert script.stage(folder, whole) == "before the first part"
    for file, stage in (
        ("runs/0-0.parquet", "between parts"),
        ("runs/0-1.parquet", "at the tables"),
        ("summary.csv", "when all was written once"),
    ):
        (folder / file).touch()
        assert script.stage(folder, whole) == stage
