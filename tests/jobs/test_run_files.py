"""Files of many runs: when they are written, and that nothing of them is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from peekrank.jobs import run_files
from peekrank.jobs.results_dir import ResultsDir
from peekrank.jobs.run_files import RunFiles

AT = np.array([1, 2, 4])


COLUMNS = {"checkpoints": pl.Int64, "regret": pl.Float64}


def curve(run: int) -> pl.DataFrame:
    return pl.DataFrame({"checkpoints": AT, "regret": 10.0 - run - np.arange(3)}, COLUMNS)


def files_of(path: Path) -> RunFiles:
    return RunFiles(ResultsDir.create(path, "test", {"test": {}}, code=None), COLUMNS)


def add(files: RunFiles, digest: str, run: int, runs: int) -> None:
    files.add(digest, run, curve(run), seconds=run / 8, runs=runs)


def runs_in(folder: Path) -> dict[int, float]:
    files = files_of(folder)
    files.read("d", AT)
    return {run: frame["regret"][-1] for run, frame in files.curves["d"].items()}


def test_a_file_is_written_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "_RUNS", 3)
    files = files_of(tmp_path)
    for run, written in [(1, []), (4, []), (0, []), (2, [0, 1, 2]), (3, [0, 1, 2, 3, 4])]:
        add(files, "d", run, runs=5)
        assert list(runs_in(tmp_path)) == written
    assert runs_in(tmp_path) == {run: 8 - run for run in range(5)}
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["d-000000.parquet", "d-000003.parquet"]


def test_a_file_does_not_wait_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, now = files_of(tmp_path), [0.0]
    monkeypatch.setattr(run_files, "monotonic", lambda: now[0])
    for run, written in [(0, []), (1, []), (2, [0, 1, 2]), (3, [0, 1, 2]), (4, [0, 1, 2])]:
        add(files, "d", run, runs=10)
        assert list(runs_in(tmp_path)) == written
        now[0] += 2
    add(files, "other", 0, runs=10)  # whichever run it is that comes next
    assert list(runs_in(tmp_path)) == [0, 1, 2, 3, 4]
    add(files, "d", 9, runs=10)
    files.write_rest()
    assert list(runs_in(tmp_path)) == [0, 1, 2, 3, 4, 9]


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    for digest in ("c", "d", "e"):
        add(files, digest, 0, runs=10)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "c-000000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"c-000000\.parquet cannot be read"):
        files.write_rest()
    assert sorted(path.name[0] for path in (tmp_path / "runs").iterdir()) == ["c", "d", "e"]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    one, other = files_of(tmp_path), files_of(tmp_path)
    add(one, "d", 1, runs=9)
    add(other, "d", 0, runs=2)
    one.write_rest()
    other.write_rest()
    assert runs_in(tmp_path) == {0: 8.0, 1: 7.0}


def stored(digest: str = "d") -> pl.DataFrame:
    rows = run_files.concat_runs({0: curve(0)}, [0])
    return rows.select(pl.lit(digest).alias("digest"), pl.all())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (pl.DataFrame({"run": [0, 0, 0]}), "does not hold these runs"),
        (stored("of another learner"), "does not hold these runs"),
        (stored().head(0), "does not hold these runs"),
        (stored().head(2), "does not hold complete runs"),
        (stored().with_columns(checkpoints=pl.Series([1, 2, 3])), "does not hold complete runs"),
        (stored().with_columns(run=pl.Series([0, 0, 1])), "does not hold complete runs"),
        (stored().with_columns(regret=pl.Series([0.0, 0.0, np.nan])), "holds values that are not finite"),
    ],
    ids=["other columns", "another learner", "empty", "cut", "other rounds", "mixed runs", "not finite"],
)
def test_files_that_hold_something_else(broken: pl.DataFrame, why: str, tmp_path: Path) -> None:
    files_of(tmp_path)
    (tmp_path / "runs").mkdir()
    stored().write_parquet(tmp_path / "runs" / "d-000000.parquet")
    assert runs_in(tmp_path) == {0: 8.0}
    broken.write_parquet(tmp_path / "runs" / "d-000000.parquet")
    with pytest.raises(ValueError, match=rf"d-000000\.parquet {why}; remove the file to compute it again"):
        runs_in(tmp_path)
