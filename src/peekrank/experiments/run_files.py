"""Files of many short runs: several runs in each, none of them ever half written."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from time import monotonic

import numpy as np
import polars as pl

from peekrank._util.atomic import write_whole
from peekrank.experiments.runs import CURVE_COLUMNS, Curve
from peekrank.types import Ints

# To make a file takes about as long as a short run. So runs share one, which is written when it is full, or with
# the first run that is finished so many seconds after one that it still lacks.
_RUNS = 64
_SECONDS = 3.0
_COLUMNS = {"digest": pl.String, "run": pl.Int64, **CURVE_COLUMNS}


class RunFiles:
    """The finished runs of a folder: of each digest the curves by the number of the run, in memory and in files.

    Which runs share a file depends on their numbers alone, and so does the order in which they stand there: the
    same runs are the same bytes, whatever came first. May be used from several threads. What another process wrote
    meanwhile is kept; of two that write a file in the same instant one wins, and the other's runs are to do again.

    Parameters
    ----------
    folder
        Where the files are, or will be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.curves: dict[str, dict[int, pl.DataFrame]] = defaultdict(dict)
        self._files: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(folder.glob("*-*.parquet")):
            self._files[path.name.partition("-")[0]].append(path)
        self._unwritten: dict[tuple[str, int], float] = {}  # since when, by first run of a file
        self._lock = threading.Lock()

    def read(self, digest: str, at: Ints) -> None:
        """Take what the files of a digest hold: runs whose curves are recorded at these rounds."""
        for path in self._files[digest]:
            self.curves[digest].update(_read(path, at))

    def add(self, digest: str, run: int, curve: Curve, runs: int) -> None:
        """Take a finished run, one of so many."""
        first = run - run % _RUNS
        with self._lock:
            mine = self.curves[digest]
            mine[run] = curve.frame()
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
        path, mine, content = self._folder / f"{digest}-{first:06d}.parquet", self.curves[digest], BytesIO()
        curves = {run: mine[run] for run in range(first, first + _RUNS) if run in mine}
        if path.exists():
            curves = {**_read(path, next(iter(curves.values()))["at"].to_numpy()), **curves}
        # From memory, so that a full disk is an OSError.
        rows = table(curves, sorted(curves)).select(pl.lit(digest).alias("digest"), pl.all())
        rows.write_parquet(content, compression="lz4", statistics=False)
        write_whole(path, lambda part: part.write_bytes(content.getbuffer()))
        del self._unwritten[digest, first]


def table(curves: Mapping[int, pl.DataFrame], runs: Iterable[int]) -> pl.DataFrame:
    """Curves of runs, one after the other, with a first column that tells the run."""
    numbers = list(runs)
    rows = pl.concat([curves[run] for run in numbers])
    return rows.select(pl.Series("run", np.repeat(numbers, len(rows) // len(numbers)), pl.Int64), pl.all())


def _read(path: Path, at: Ints) -> dict[int, pl.DataFrame]:
    again = "remove it to have its runs done again"
    try:
        rows = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {again}") from None
    each = len(at)
    if dict(rows.schema) != _COLUMNS or rows["digest"].unique().to_list() != [path.name.partition("-")[0]]:
        raise ValueError(f"{path} does not hold those runs; {again}")
    numbers = rows["run"].to_list()[::each]
    expected = np.repeat(numbers, each), np.tile(at, len(numbers))
    if not all(map(np.array_equal, (rows["run"], rows["at"]), expected)):
        raise ValueError(f"{path} does not hold whole runs; {again}")
    if not np.isfinite(rows.select("value", "regret").to_numpy()).all():
        raise ValueError(f"{path} holds values that are not finite; {again}")
    curves = rows.drop("digest", "run")
    return {run: curves[i * each : (i + 1) * each] for i, run in enumerate(numbers)}
