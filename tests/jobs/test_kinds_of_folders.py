"""What experiments, sweeps, studies, trainings and reproductions in folders have in common."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from helpers.folders import KINDS, Kind, contents, made
from peekrank.jobs import results_dir as folders
from peekrank.jobs.executor import InterruptedRunError
from peekrank.jobs.results_dir import count_finished

pytestmark = pytest.mark.parametrize("kind", KINDS, ids=str)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """All files of each kind, made at once."""
    root = tmp_path_factory.mktemp("straight")
    return {kind.name: made(kind, root / kind.name) for kind in KINDS}


def manifest(kind: Kind, folder: Path) -> Path:
    """The manifest that is read before parts are."""
    return folder / kind.within / "manifest.json"


def after(calls: int, error: BaseException) -> Callable[[int], None]:
    """A tick that raises an error, the first time after so many calls."""
    left = [calls]

    def tick(_: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error

    return tick


def test_equal_work_is_equal_bytes_and_nothing_is_done_twice(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    assert made(kind, tmp_path) == straight[kind.name]
    parts = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("runs/*")}
    timings = [path.read_bytes() for path in tmp_path.rglob("timings.csv")]
    assert made(kind, tmp_path) == straight[kind.name]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("runs/*")} == parts
    assert [path.read_bytes() for path in tmp_path.rglob("timings.csv")] == timings


def test_stopped_in_the_middle_it_goes_on_to_the_same_bytes(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    with pytest.raises(InterruptedRunError):
        kind.make(tmp_path, after(3, KeyboardInterrupt()))
    kept = {name: data for name, data in contents(tmp_path).items() if "runs/" in name}
    assert kept
    if kind.name != "sweep":  # whose files hold several runs, and grow
        assert kept.items() < straight[kind.name].items()
    assert made(kind, tmp_path) == straight[kind.name]


def test_a_part_that_is_missing_is_done_again(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    made(kind, tmp_path)
    for path in sorted(tmp_path.rglob("runs/*"))[:2]:
        path.unlink()
    assert made(kind, tmp_path) == straight[kind.name]


def test_something_else_is_refused_once_a_part_is_finished(kind: Kind, tmp_path: Path) -> None:
    before = made(kind, tmp_path)
    with pytest.raises(
        ValueError, match=f"holds results of another {kind}, with different {kind.differs}; choose"
    ):
        kind.other(tmp_path)
    assert contents(tmp_path) == before


def test_a_folder_where_nothing_is_finished_may_be_taken_over(kind: Kind, tmp_path: Path) -> None:
    made(kind, tmp_path)
    for path in tmp_path.rglob("runs/*"):
        path.unlink()
    kind.other(tmp_path)
    assert count_finished(tmp_path)


def test_results_of_other_code_are_not_gone_on_with(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made(kind, tmp_path)
    monkeypatch.setattr(folders, "code_digest", lambda *_: "other")
    if kind.name == "sweep":  # where these are other runs
        assert made(kind, tmp_path).items() >= {(n, data) for n, data in before.items() if "runs/" in n}
        assert len(list(tmp_path.glob("runs/*"))) == 2 * sum("runs/" in name for name in before)
    else:
        with pytest.raises(ValueError, match="with different code of peekrank; choose another folder"):
            made(kind, tmp_path)
        assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("{", r"manifest\.json cannot be read"),
        ("[]", r"manifest\.json is not a manifest of format"),
        ('{"format": 2}', r"manifest\.json has format 2 of an earlier peekrank"),
        (None, r"manifest\.json does not describe any"),
    ],
    ids=["half", "no manifest", "old format", "another kind"],
)
def test_damaged_manifests_are_named_and_left_alone(
    kind: Kind, damage: str | None, message: str, tmp_path: Path
) -> None:
    made(kind, tmp_path)
    text = damage or json.dumps({"format": folders.FORMAT, "meal": {}})
    manifest(kind, tmp_path).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=message):
        made(kind, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("cut", [False, True], ids=["foreign", "cut"])
def test_damaged_parts_are_named_before_anything_is_done(
    kind: Kind, cut: bool, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    made(kind, tmp_path)
    path, other = sorted(tmp_path.rglob("runs/*"))[:2]
    path.write_bytes(path.read_bytes()[:50] if cut else b"a letter")
    other.unlink()
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=f"{path.name} cannot be read: .*; remove the file to compute it again"):
        made(kind, tmp_path)
    assert contents(tmp_path) == before
    path.unlink()
    assert made(kind, tmp_path) == straight[kind.name]


def test_folders_of_others_are_left_alone(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(ValueError, match=r"is not empty and has no manifest\.json"):
        made(kind, tmp_path)
    with pytest.raises(ValueError, match="is a file, but results need a folder"):
        made(kind, tmp_path / "thesis.txt")
    assert contents(tmp_path) == {"thesis.txt": b"chapter 1"}


# --- whatever happens to the folder


def test_two_at_once_come_to_the_same_bytes(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    """One begins when the other is in the middle, and both end well."""
    errors: list[BaseException] = []
    begun = threading.Event()

    def second() -> None:
        begun.wait()
        try:
            kind.make(tmp_path, lambda _: None)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=second)
    thread.start()
    calls = iter(range(10**6))

    def tick(_: int) -> None:
        if next(calls) == 3:
            begun.set()
            thread.join()

    try:
        kind.make(tmp_path, tick)
    finally:
        begun.set()
        thread.join()
    assert not errors
    assert contents(tmp_path) == straight[kind.name]


def test_a_folder_that_is_removed_in_the_middle_is_reported_and_begun_anew(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    position, calls = tmp_path / "results", iter(range(10**6))

    def tick(_: int) -> None:
        if next(calls) == 2:
            shutil.rmtree(position)

    with pytest.raises(ValueError, match=r"or its manifest\.json was removed during the computation"):
        kind.make(position, tick)
    assert not list(position.rglob("*.parquet"))
    assert made(kind, position) == straight[kind.name]


def as_root(command: str, *arguments: str) -> None:
    """Mount or unmount something, where that is allowed."""
    program = shutil.which(command)
    if sys.platform != "linux" or program is None or os.geteuid() != 0:
        pytest.skip("needs to mount a file system")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed: {done.stderr.strip()}")


@contextmanager
def small_disk(position: Path, size: str) -> Iterator[None]:
    """A file system of its own."""
    position.mkdir()
    as_root("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(position))
    try:
        yield
    finally:
        as_root("umount", str(position))


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(1024))


def test_a_full_disk_is_reported_and_the_same_command_goes_on(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small", "256k"):
        position, ballast = tmp_path / "small" / "results", tmp_path / "small" / "ballast"
        calls = iter(range(10**6))

        def tick(_: int) -> None:
            if next(calls) == 2:
                fill(ballast)

        with pytest.raises(OSError, match=r"No space left on device") as caught:
            kind.make(position, tick)
        assert "run the same command again to resume" in caught.value.__notes__[-1]
        kept = [path for path in position.rglob("runs/*") if path.suffix == ".parquet"]
        assert all(path.read_bytes() for path in kept)
        ballast.unlink()
        assert made(kind, position) == straight[kind.name]


def test_a_folder_that_cannot_be_written_to_is_reported(
    kind: Kind, straight: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    position = tmp_path / "disk"
    with small_disk(position, "4m"):
        with pytest.raises(InterruptedRunError):
            kind.make(position / "results", after(3, KeyboardInterrupt()))
        before = contents(position)
        as_root("mount", "-o", "remount,ro", str(position))
        with pytest.raises(OSError, match="cannot be written: Read-only file system"):
            kind.make(position / "results", lambda _: None)
        with pytest.raises(OSError, match=r"new/manifest\.json cannot be written: Read-only file system"):
            kind.make(position / "new", lambda _: None)
        assert contents(position) == before
        as_root("mount", "-o", "remount,rw", str(position))
        assert made(kind, position / "results") == straight[kind.name]
