"""Result files that hold several short runs each, written atomically."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

import numpy as np

from peekrank._util.extras import extra
from peekrank.jobs.results_dir import ResultsDir, damaged_file, read_table
from peekrank.types import Ints

with extra("cli"):
    import polars as pl

# To make a file takes about as long as a short run. So runs share one, which is written when it is full, or with
# the first run that is finished so many seconds after one that it still lacks.
_RUNS = 64
_SECONDS = 3.0


class RunFiles:
    """The finished runs of a results folder, in memory and in files: the curve of each digest and run.

    Which runs share a file, and their order in it, depends only on their numbers. The same runs therefore give the
    same bytes, in whichever order they finished. The class is thread-safe. Runs that another process wrote in the
    meantime are preserved. If two processes write a file at the same instant, one of them wins, and the runs of
    the other must be computed again.

    Parameters
    ----------
    folder
        The results folder.
    columns
        Names and types of the columns of a curve. The first one, ``checkpoints``, is the round.
    """

    def __init__(self, folder: ResultsDir, columns: Mapping[str, Any]) -> None:
        self._folder = folder
        self._columns = {"digest": pl.String, "run": pl.Int64, **columns}
        self.curves: dict[str, dict[int, pl.DataFrame]] = defaultdict(dict)
        self._files: dict[str, list[str]] = defaultdict(list)
        for path in sorted((folder.path / "runs").glob("*-*.parquet")):
            self._files[path.stem.partition("-")[0]].append(path.stem)
        self._unwritten: dict[tuple[str, int], float] = {}  # oldest unwritten run, by digest and first run
        self._seconds: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)  # by digest and first run
        self._lock = threading.Lock()

    def read(self, digest: str, checkpoints: Ints) -> None:
        """Load the runs in the files of a digest. Their curves must be recorded at these rounds."""
        for name in self._files[digest]:
            self.curves[digest].update(self._read(name, checkpoints))

    def add(self, digest: str, run: int, curve: pl.DataFrame, *, seconds: float, runs: int) -> None:
        """Add a finished run. `runs` is the total number of runs."""
        first = run - run % _RUNS
        with self._lock:
            curves = self.curves[digest]
            curves[run] = curve
            self._seconds[digest, first][timing_name(digest, run)] = seconds
            self._unwritten.setdefault((digest, first), monotonic())
            if all(other in curves for other in range(first, min(first + _RUNS, runs))):
                self._write(digest, first)
            self._write_pending(monotonic() - _SECONDS)

    def write_rest(self) -> None:
        """Write all runs that are not in a file yet."""
        with self._lock:
            self._write_pending(math.inf)

    def _write_pending(self, latest: float) -> None:
        """Write the files with runs that wait since `latest` or longer. Tries all, then raises the first error."""
        errors = []
        for key in [key for key, since in self._unwritten.items() if since <= latest]:
            try:
                self._write(*key)
            except (OSError, ValueError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _write(self, digest: str, first: int) -> None:
        name, all_curves = f"{digest}-{first:06d}", self.curves[digest]
        curves = {run: all_curves[run] for run in range(first, first + _RUNS) if run in all_curves}
        if (self._folder.path / "runs" / f"{name}.parquet").exists():
            curves = {**self._read(name, next(iter(curves.values()))["checkpoints"].to_numpy()), **curves}
        rows = concat_runs(curves, sorted(curves))
        self._folder.write(name, rows.select(pl.lit(digest).alias("digest"), pl.all()))
        self._folder.add_timings(self._seconds[digest, first])
        del self._unwritten[digest, first], self._seconds[digest, first]

    def _read(self, name: str, checkpoints: Ints) -> dict[int, pl.DataFrame]:
        path, each = self._folder.path / "runs" / f"{name}.parquet", len(checkpoints)
        rows = read_table(path, "it was removed during the computation")
        if dict(rows.schema) != self._columns or rows["digest"].unique().to_list() != [name.partition("-")[0]]:
            raise damaged_file(path, "does not hold these runs")
        numbers = rows["run"].to_list()[::each]
        expected = np.repeat(numbers, each), np.tile(checkpoints, len(numbers))
        if not all(map(np.array_equal, (rows["run"], rows["checkpoints"]), expected)):
            raise damaged_file(path, "does not hold complete runs")
        if not np.isfinite(rows.select(pl.col(pl.Float64)).to_numpy()).all():
            raise damaged_file(path, "holds values that are not finite")
        curves = rows.drop("digest", "run")
        return {run: curves[i * each : (i + 1) * each] for i, run in enumerate(numbers)}


def timing_name(digest: str, run: int) -> str:
    """Return the name of a run in the timings."""
    return f"{digest}-{run:06d}"


def concat_runs(curves: Mapping[int, pl.DataFrame], runs: Iterable[int]) -> pl.DataFrame:
    """Concatenate the curves of runs, with the number of the run as first column."""
    numbers = list(runs)
    rows = pl.concat([curves[run] for run in numbers])
    return rows.select(pl.Series("run", np.repeat(numbers, len(rows) // len(numbers)), pl.Int64), pl.all())
