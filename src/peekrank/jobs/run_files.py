"""Files of many short runs: several runs in each, none of them ever half written."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

import numpy as np

from peekrank._util.extras import extra
from peekrank.jobs.results_dir import ResultsDir, damaged, read_table
from peekrank.types import Ints

with extra("cli"):
    import polars as pl

# To make a file takes about as long as a short run. So runs share one, which is written when it is full, or with
# the first run that is finished so many seconds after one that it still lacks.
_RUNS = 64
_SECONDS = 3.0


class RunFiles:
    """The finished runs of a folder: of each digest the curves by the number of the run, in memory and in files.

    Which runs share a file depends on their numbers alone, and so does the order in which they stand there: the
    same runs are the same bytes, whatever came first. May be used from several threads. What another process wrote
    meanwhile is kept; of two that write a file in the same instant one wins, and the other's runs are to do again.

    Parameters
    ----------
    folder
        Where the files are, or will be.
    columns
        Names and types of the columns of a curve, the first of which, ``checkpoints``, tells the round.
    """

    def __init__(self, folder: ResultsDir, columns: Mapping[str, Any]) -> None:
        self._folder = folder
        self._columns = {"digest": pl.String, "run": pl.Int64, **columns}
        self.curves: dict[str, dict[int, pl.DataFrame]] = defaultdict(dict)
        self._files: dict[str, list[str]] = defaultdict(list)
        for path in sorted((folder.path / "runs").glob("*-*.parquet")):
            self._files[path.stem.partition("-")[0]].append(path.stem)
        self._unwritten: dict[tuple[str, int], float] = {}  # since when, by first run of a file
        self._seconds: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)  # likewise
        self._lock = threading.Lock()

    def read(self, digest: str, checkpoints: Ints) -> None:
        """Take what the files of a digest hold: runs whose curves are recorded at these rounds."""
        for name in self._files[digest]:
            self.curves[digest].update(self._read(name, checkpoints))

    def add(self, digest: str, run: int, curve: pl.DataFrame, *, seconds: float, runs: int) -> None:
        """Take a finished run, one of so many."""
        first = run - run % _RUNS
        with self._lock:
            mine = self.curves[digest]
            mine[run] = curve
            self._seconds[digest, first][timed(digest, run)] = seconds
            self._unwritten.setdefault((digest, first), monotonic())
            if all(other in mine for other in range(first, min(first + _RUNS, runs))):
                self._write(digest, first)
            self._write_those_before(monotonic() - _SECONDS)

    def write_rest(self) -> None:
        """Write what is not in a file yet."""
        with self._lock:
            self._write_those_before(math.inf)

    def _write_those_before(self, then: float) -> None:
        """Write files that lack something since before then, as many as can be; the first error is raised."""
        errors = []
        for key in [key for key, since in self._unwritten.items() if since <= then]:
            try:
                self._write(*key)
            except (OSError, ValueError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _write(self, digest: str, first: int) -> None:
        name, mine = f"{digest}-{first:06d}", self.curves[digest]
        curves = {run: mine[run] for run in range(first, first + _RUNS) if run in mine}
        if (self._folder.path / "runs" / f"{name}.parquet").exists():
            curves = {**self._read(name, next(iter(curves.values()))["checkpoints"].to_numpy()), **curves}
        self._folder.write(name, table(curves, sorted(curves)).select(pl.lit(digest).alias("digest"), pl.all()))
        self._folder.time(self._seconds[digest, first])
        del self._unwritten[digest, first], self._seconds[digest, first]

    def _read(self, name: str, checkpoints: Ints) -> dict[int, pl.DataFrame]:
        path, each = self._folder.path / "runs" / f"{name}.parquet", len(checkpoints)
        rows = read_table(path, "somebody removed it")
        if dict(rows.schema) != self._columns or rows["digest"].unique().to_list() != [name.partition("-")[0]]:
            raise damaged(path, "does not hold those runs")
        numbers = rows["run"].to_list()[::each]
        expected = np.repeat(numbers, each), np.tile(checkpoints, len(numbers))
        if not all(map(np.array_equal, (rows["run"], rows["checkpoints"]), expected)):
            raise damaged(path, "does not hold whole runs")
        if not np.isfinite(rows.select(pl.col(pl.Float64)).to_numpy()).all():
            raise damaged(path, "holds values that are not finite")
        curves = rows.drop("digest", "run")
        return {run: curves[i * each : (i + 1) * each] for i, run in enumerate(numbers)}


def timed(digest: str, run: int) -> str:
    """What the timings call a run."""
    return f"{digest}-{run:06d}"


def table(curves: Mapping[int, pl.DataFrame], runs: Iterable[int]) -> pl.DataFrame:
    """Curves of runs, one after the other, with a first column that tells the run."""
    numbers = list(runs)
    rows = pl.concat([curves[run] for run in numbers])
    return rows.select(pl.Series("run", np.repeat(numbers, len(rows) // len(numbers)), pl.Int64), pl.all())
