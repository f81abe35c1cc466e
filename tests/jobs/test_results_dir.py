"""The resumable folder by itself: it is claimed for one thing, given to no other, and loses nothing."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from peekrank._util.atomic import write_whole
from peekrank.experiments import runs
from peekrank.experiments.experiment import Experiment
from peekrank.jobs import results_dir as folders
from peekrank.jobs.results_dir import FORMAT, Code, ResultsDir, count_finished, median_seconds

ABOUT = {"study": {"runs": (1, 2), "seed": 3}, "data": {"content": "ab"}}
CODE = Code({"numpy": "2.0"}, "0123", {})
FRAME = pl.DataFrame({"regret": [1.5, 2.5]})


def claimed(path: Path, code: Code = CODE, **change: Any) -> ResultsDir:
    return ResultsDir.create(path, "study", {**ABOUT, **change}, code=code, data=("data",))


def begun(path: Path) -> ResultsDir:
    folder = claimed(path)
    folder.save("0", FRAME, 0.25)
    return folder


def anything(*_: object) -> bool:
    return True


def test_the_manifest_says_of_what_and_by_which_code(tmp_path: Path) -> None:
    begun(tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    manifest = json.loads(before)
    assert (manifest["format"], manifest["study"]) == (FORMAT, {"runs": [1, 2], "seed": 3})
    assert (manifest["versions"], manifest["sources"], manifest["own"]) == CODE
    again = claimed(tmp_path)
    assert again.read_finished(["0", "1"], anything)["0"].equals(FRAME)
    assert again.seconds() == {"0": 0.25}
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert ResultsDir.open(tmp_path, "study").read("0", anything).equals(FRAME)


@pytest.mark.parametrize(
    ("change", "different"),
    [
        ({"study": {"runs": (1, 2), "seed": 4}}, "different seed;"),
        ({"study": {"runs": (1,), "seed": 4}}, "different runs, seed;"),
        ({"data": {"content": "cd"}}, "different content of the data;"),
        ({"data": None}, "different content of the data;"),
        ({"code": CODE._replace(versions={"numpy": "3.0"})}, "different versions of packages;"),
        ({"code": CODE._replace(sources="4567")}, "different code of peekrank;"),
        ({"code": CODE._replace(own={"Mine of mine.py": "89"})}, "different code of Mine of mine.py;"),
    ],
)
def test_another_thing_is_refused_once_something_is_finished(
    change: dict[str, Any], different: str, tmp_path: Path
) -> None:
    claimed(tmp_path / "new")
    taken = claimed(tmp_path / "new", **change)
    taken.save("0", FRAME, 0.0)
    begun(tmp_path / "begun")
    before = (tmp_path / "begun" / "manifest.json").read_bytes()
    message = f"holds results of another study, with {different} choose another folder"
    with pytest.raises(ValueError, match=message):
        claimed(tmp_path / "begun", **change)
    assert (tmp_path / "begun" / "manifest.json").read_bytes() == before


def test_a_folder_that_was_taken_over_is_noticed(tmp_path: Path) -> None:
    mine = claimed(tmp_path)
    mine.check()
    claimed(tmp_path, study={"runs": (1, 2), "seed": 9})
    with pytest.raises(ValueError, match="different seed"):
        mine.save("0", FRAME, 0.0)
    assert not count_finished(tmp_path)


def test_what_one_wrote_in_the_instant_of_being_taken_over_is_nothing_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = claimed(tmp_path)
    other = claimed(tmp_path, study={"runs": (1, 2), "seed": 9})
    with monkeypatch.context() as patch:
        patch.setattr(mine, "check", lambda: None)  # it was, just before
        mine.save("0", FRAME, 0.0)
    assert other.read_finished(["0"], anything) == {}


def test_fields_that_only_grow(tmp_path: Path) -> None:
    def grown(**runs: int) -> ResultsDir:
        about = {"sweep": {"name": "s", "seed": len(runs)}}
        return ResultsDir.create(tmp_path, "sweep", about, code=None, by=("name",), more={"runs": runs})

    grown(b=1).save("0", FRAME, 0.0)
    assert list(grown(a=2, c=3).manifest["runs"].items()) == [("a", 2), ("b", 1), ("c", 3)]
    assert grown(a=2).manifest["sweep"] == {"name": "s", "seed": 1}
    stamp = (tmp_path / "manifest.json").stat().st_mtime_ns
    assert list(grown(a=2).manifest["runs"]) == ["a", "b", "c"]
    assert (tmp_path / "manifest.json").stat().st_mtime_ns == stamp


def test_what_a_killed_writer_left_is_no_content(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.999999999-1.part").write_text("{")
    begun(tmp_path)
    left = tmp_path / "runs" / ".0.parquet.999999999-1.part"
    left.write_text("PAR1")
    claimed(tmp_path)
    assert not left.exists()
    assert count_finished(tmp_path) == 1


def test_half_a_line_of_timings_is_passed_over(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    with (tmp_path / "timings.csv").open("a") as file:
        file.write("1,0.")  # killed
    folder.add_timings({"2": 3.0})
    folder.add_timings({"3": 4.0, "0": 0.5})
    assert folder.seconds() == {"0": 0.5, "3": 4.0}
    (tmp_path / "timings.csv").write_bytes(b"\xff\xfe\x00")
    assert folder.seconds() == {}
    assert str(median_seconds({}, ["0"])) == "nan"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"manifest\.json cannot be read"),
        ("[" * 100_000, r"manifest\.json cannot be read"),
        ("[]", r"manifest\.json is not a manifest of format 3"),
        ('{"format": true}', r"manifest\.json is not a manifest of format 3"),
        ('{"format": 4, "study": {}}', r"manifest\.json is not a manifest of format 3"),
        (
            '{"format": 2, "study": {}}',
            "has format 2 of an earlier peekrank, .* compute the results again",
        ),
        ('{"format": 3, "study": 7}', "does not describe any study"),
        ('{"format": 3, "experiment": {}}', "does not describe any study"),
        ('{"format": 3, "study": {}}', "different runs, seed, content of the data"),
    ],
)
def test_manifests_that_are_none(text: str, message: str, tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        claimed(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == text


def test_a_manifest_without_a_digest_cannot_be_opened(tmp_path: Path) -> None:
    for digest in ("", ', "digest": "../../etc/0123456789abcdef01234567"', ', "digest": 5'):
        (tmp_path / "manifest.json").write_text(f'{{"format": 3, "study": {{}}{digest}}}')
        with pytest.raises(ValueError, match=r"manifest\.json has no valid digest"):
            ResultsDir.open(tmp_path, "study")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 3, "study": ' + "[" * 500 + "]" * 500 + "}",
        '{"format": ' + "1" * 5000 + "}",
        '{"format": 3, "study": {}, "versions": []}',
        '{"format": 3, "study": {}, "own": "x"}',
        "\0",
        "[3]",
    ],
    ids=["cut", "deep", "long", "versions", "own", "nul", "list"],
)
def test_a_manifest_of_another_form_is_refused_in_one_short_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"manifest\.json (cannot be read|is not a manifest)") as raised:
        claimed(tmp_path)
    assert len(str(raised.value)) < 300 + len(str(tmp_path))
    assert str(raised.value).isprintable()


def test_somebody_elses_folder_leads_to_no_other_files(tmp_path: Path) -> None:
    begun(tmp_path / "theirs")
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    (tmp_path / "theirs" / "summary.csv").symlink_to(mine)
    with pytest.raises(ValueError, match=r"summary\.csv is a symbolic link"):
        claimed(tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"summary\.csv is a symbolic link"):
        write_whole(tmp_path / "theirs" / "summary.csv", lambda path: path.write_text("theirs"))
    assert mine.read_text() == "mine"


def test_the_errors_of_disks_name_the_file(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"summary\.csv cannot be written: No space left on device"):
        write_whole(tmp_path / "summary.csv", full)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"x\.csv cannot be written: (Not a directory|File exists)"):
        write_whole(tmp_path / "file" / "x.csv", lambda path: path.write_text("x"))


def test_a_table_is_csv_or_parquet_by_its_name(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet"):
        folders.write_table(tmp_path / name, FRAME)
    assert (tmp_path / "a.csv").read_text() == "regret\n1.5\n2.5\n"
    assert pl.read_parquet(tmp_path / "a.parquet").equals(FRAME)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runs", 10**12),
        ("runs", 10**400),
        ("learners", [[]]),
        ("learners", "x"),
        ("k", None),
        ("measure", "\0" * 5000),
    ],
)
def test_a_manifest_that_cannot_be_is_named_in_one_short_line(field: str, value: Any, tmp_path: Path) -> None:
    runs.run(Experiment(("uniform",), "ct15:m=4", "dcg", k=1, horizon=20, runs=1), tmp_path)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["experiment"][field] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"manifest\.json does not describe any experiment: ") as raised:
        runs.read(tmp_path)
    assert len(str(raised.value)) < 300 + len(str(tmp_path))
    assert str(raised.value).isprintable()
