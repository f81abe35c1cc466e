"""Files of many runs: when they are written, and that nothing of them is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from peekrank.experiments import run_files
from peekrank.experiments.run_files import RunFiles
from peekrank.experiments.runs import Curve
from peekrank.types import Trace

AT = np.array([1, 2, 4])


def curve(run: int) -> Curve:
    value = np.arange(3.0) + run
    return Curve(0, Trace(AT, value, np.arange(3)), 10 - value, 0.0)


def runs_in(folder: Path) -> dict[int, float]:
    files = RunFiles(folder)
    files.read("d", AT)
    return {run: frame["regret"][-1] for run, frame in files.curves["d"].items()}


def test_a_file_is_written_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "_RUNS", 3)
    files = RunFiles(tmp_path)
    for run, written in [(1, []), (4, []), (0, []), (2, [0, 1, 2]), (3, [0, 1, 2, 3, 4])]:
        files.add("d", run, curve(run), runs=5)
        assert list(runs_in(tmp_path)) == written
    assert runs_in(tmp_path) == {run: 8 - run for run in range(5)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d-000000.parquet", "d-000003.parquet"]


def test_a_file_does_not_wait_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, now = RunFiles(tmp_path), [0.0]
    monkeypatch.setattr(run_files, "monotonic", lambda: now[0])
    for run, written in [(0, []), (1, []), (2, [0, 1, 2]), (3, [0, 1, 2]), (4, [0, 1, 2])]:
        files.add("d", run, curve(run), runs=10)
        assert list(runs_in(tmp_path)) == written
        now[0] += 2
    files.add("other", 0, curve(0), runs=10)  # whichever run it is that comes next
    assert list(runs_in(tmp_path)) == [0, 1, 2, 3, 4]
    files.add("d", 9, curve(9), runs=10)
    files.write_rest()
    assert list(runs_in(tmp_path)) == [0, 1, 2, 3, 4, 9]


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    for digest in ("c", "d", "e"):
        files.add(digest, 0, curve(0), runs=10)
    (tmp_path / "c-000000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"c-000000\.parquet cannot be read"):
        files.write_rest()
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["c", "d", "e"]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    one, other = RunFiles(tmp_path), RunFiles(tmp_path)
    one.add("d", 1, curve(1), runs=9)
    other.add("d", 0, curve(0), runs=2)
    one.write_rest()
    other.write_rest()
    assert runs_in(tmp_path) == {0: 8.0, 1: 7.0}


def stored(digest: str = "d") -> pl.DataFrame:
    rows = run_files.table({0: curve(0).frame()}, [0])
    return rows.select(pl.lit(digest).alias("digest"), pl.all())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (pl.DataFrame({"run": [0, 0, 0]}), "does not hold those runs"),
        (stored("of another learner"), "does not hold those runs"),
        (stored().head(0), "does not hold those runs"),
        (stored().head(2), "does not hold whole runs"),
        (stored().with_columns(at=pl.Series([1, 2, 3])), "does not hold whole runs"),
        (stored().with_columns(run=pl.Series([0, 0, 1])), "does not hold whole runs"),
        (stored().with_columns(regret=pl.Series([0.0, 0.0, np.nan])), "holds values that are not finite"),
    ],
    ids=["other columns", "another learner", "empty", "cut", "other rounds", "mixed runs", "not finite"],
)
def test_files_that_hold_something_else(broken: pl.DataFrame, why: str, tmp_path: Path) -> None:
    stored().write_parquet(tmp_path / "d-000000.parquet")
    assert runs_in(tmp_path) == {0: 8.0}
    broken.write_parquet(tmp_path / "d-000000.parquet")
    with pytest.raises(ValueError, match=rf"d-000000\.parquet {why}; remove it to have its runs done again"):
        runs_in(tmp_path)
