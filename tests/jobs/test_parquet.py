"""Parquet files of strangers: they take no more memory than they may, and break nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peekrank.evaluation.log import read_log
from peekrank.jobs.parquet import UnreadableError, read_parquet
from peekrank.jobs.results_dir import read_table

FRAME = pl.DataFrame({"a": range(1000), "b": [f"x{i % 7}" for i in range(1000)], "c": [[1.0, 2.0]] * 1000})


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_what_polars_writes_is_read(compression: Any, tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet", compression=compression, row_group_size=300)
    assert read_parquet(tmp_path / "a.parquet").equals(FRAME)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_arrow_writes_is_read(version: Any, tmp_path: Path) -> None:
    pq.write_table(FRAME.to_arrow(), tmp_path / "a.parquet", data_page_version=version, use_dictionary=["b"])
    assert read_parquet(tmp_path / "a.parquet").equals(FRAME)


def test_a_small_file_cannot_take_all_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = pa.chunked_array([pa.array([7] * 1_000_000)] * 40)
    pq.write_table(pa.table({"event": rows}), path, compression="zstd")
    assert path.stat().st_size < 1 << 20
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))"
    read = (
        f"from peekrank.jobs.parquet import read_parquet\nread_parquet(__import__('pathlib').Path({str(path)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", f"{limit}\n{read}"], capture_output=True, text=True, check=False)
    assert "UnreadableError: would take more than 268,435,456 bytes of memory" in done.stderr.splitlines()[-1]
    with pytest.raises(ValueError, match=r"log.parquet would take more than 268,435,456 bytes of memory"):
        read_log(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1PAR1PAR1",
        b"PAR1" + b"\xff" * 20 + b"PAR1",
        b"PAR1" + b"\x1c" * 5000 + b"\x88\x13\0\0PAR1",
    ],
    ids=["empty", "short", "no footer", "long footer", "deep footer"],
)
def test_what_is_no_parquet_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(UnreadableError, match="is not a Parquet file, or it is damaged"):
        read_parquet(tmp_path / "a.parquet")


def test_names_are_no_patterns(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "b.parquet")
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "*.parquet")


def test_a_panic_of_polars_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("assertion failed: offset + length <= self.length")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(UnreadableError, match="is damaged: polars cannot read it"):
        read_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read: it is damaged: polars.*; remove the file"):
        read_table(tmp_path / "a.parquet", "it is not finished")
