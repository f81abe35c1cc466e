"""Reproductions: claims with verdicts, tables, figures, and the folder that stores them."""

from __future__ import annotations

import json
import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
from matplotlib.figure import Figure

from peekrank._util.atomic import write_whole
from peekrank._util.progress import Progress, no_progress, subprogress
from peekrank.experiments.comparison import half_interval
from peekrank.jobs.executor import Threads
from peekrank.jobs.results_dir import OURS, Code, ResultsDir, read_manifest_of_kind, write_table
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.registry import built_in_modules
from peekrank.reports import plots
from peekrank.reports.markup import Table
from peekrank.types import Floats

TOO_FEW = "too few runs to judge"
_RUNS, _ENOUGH = re.compile(r"\((\d+) runs"), 10  # of claims that need them
_ROUNDING = 1e-12
_CLAIMS = "claims"  # the part that is written last
_COLUMNS = {"what": pl.String, "expected": pl.String, "here": pl.String, "verdict": pl.String}


class Claim(NamedTuple):
    """A claim, the expected result, and the result here.

    >>> claim = Claim("exponent of `uniform`", "1 ± 0.1", "0.72 (3 runs)", holds=False)
    >>> claim.verdict, claim.after_few_runs().verdict
    ('differs', 'too few runs to judge')
    """

    what: str
    expected: str
    here: str
    holds: bool

    @property
    def verdict(self) -> str:
        """Either "holds" or "differs"; of an `Unclear` one, "too few runs to judge"."""
        return "holds" if self.holds else "differs"

    def after_few_runs(self) -> Claim:
        """Return the claim of a quick reproduction: it is unclear if only few runs contradict it."""
        runs = _RUNS.search(self.here)
        return self if self.holds or runs is None or int(runs[1]) >= _ENOUGH else Unclear(*self)


class Unclear(Claim):
    """A claim that does not hold, but with too few runs to judge."""

    __slots__ = ()

    @property
    def verdict(self) -> str:
        """The verdict "too few runs to judge"."""
        return TOO_FEW


class Results(NamedTuple):
    """Results of a reproduction: claims, and by name tables, figures, and data for other programs."""

    claims: Sequence[Claim]
    tables: dict[str, Table] = {}  # noqa: RUF012 - never changed
    pictures: dict[str, Figure] = {}  # noqa: RUF012
    data: dict[str, pl.DataFrame] = {}  # noqa: RUF012


Heartbeat = Callable[[], None]


class Options(NamedTuple):
    """Options of a reproduction.

    Parameters
    ----------
    folder
        Folder for the results of single runs, so that they need not be repeated. Its name is the reproduction's.
    quick
        Few and short runs instead of the full record.
    workers
        Number of threads.
    progress
        Callback that receives the amount done and the total, possibly from other threads.
    code
        The code that produces the results, or None to accept any.
    """

    folder: Path
    quick: bool = False
    workers: int = 1
    progress: Progress = no_progress
    code: Code | None = None

    def results_dir(self) -> ResultsDir:
        """Create or open the folder. Raises ValueError if it has results of another mode or of other code."""
        about = {"reproduction": {"name": self.folder.name, "mode": _mode(quick=self.quick)}}
        return ResultsDir.create(self.folder, "reproduction", about, code=self.code)

    def part(self, part: int, parts: int) -> Options:
        """Return the options of one of several parts, whose progress is a part of the whole."""
        return self._replace(progress=subprogress(self.progress, part, parts))

    def frames(self, jobs: Mapping[str, Callable[[Heartbeat], pl.DataFrame]]) -> dict[str, pl.DataFrame]:
        """Run jobs in threads. The folder stores each result at once, and finished jobs are not repeated.

        Parameters
        ----------
        jobs
            Jobs by file name. Each receives a function to call now and then, which stops the job after Ctrl-C.
        """
        folder = self.results_dir()
        frames = folder.read_finished(jobs, lambda *_: True)
        missing = [name for name in jobs if name not in frames]
        tick = self.counter(len(jobs))
        tick(len(frames))

        def compute(name: str, alive: Callable[[int], None]) -> Iterator[tuple[pl.DataFrame, float]]:
            start = time.perf_counter()
            frame = jobs[name](lambda: alive(0))
            yield frame, time.perf_counter() - start
            alive(1)

        def save(name: str, result: tuple[pl.DataFrame, float]) -> None:
            folder.save(name, *result)
            frames[name] = result[0]

        Threads(self.workers).run(missing, compute, save, tick, str)
        return {name: frames[name] for name in jobs}

    def counter(self, total: int) -> Callable[[int], None]:
        """Return a thread-safe function that adds an amount to the progress."""
        lock, done = threading.Lock(), 0

        def tick(rounds: int) -> None:
            nonlocal done
            with lock:
                done += rounds
                self.progress(done, total)

        return tick


class Reproduction(NamedTuple):
    """A figure, a table or a claim: its source, its statement, its duration, and the function that reproduces it.

    ``seconds`` are approximate CPU times of a quick and a full reproduction, measured in a run of everything, in
    which the first user of a learner compiles it.
    """

    name: str
    source: str
    statement: str
    seconds: tuple[int, int]
    reproduce: Callable[[Options], Results]


class StoredResults(NamedTuple):
    """Stored results of a finished reproduction."""

    claims: list[Claim]
    seconds: float  # NaN if unknown
    files: list[str]

    @property
    def differ(self) -> int:
        """Number of claims that differ."""
        return sum(claim.verdict == "differs" for claim in self.claims)

    @property
    def unclear(self) -> int:
        """Number of claims with too few runs to judge."""
        return sum(claim.verdict == TOO_FEW for claim in self.claims)


class Record:
    """The folder of a record: a folder for each reproduction, and ``claims.json`` with all finished ones.

    Parameters
    ----------
    path
        Folder of the record. Raises ValueError if it has results of the other mode, or if other code produced a
        reproduction in it.
    quick
        Whether runs are few and short.
    """

    def __init__(self, path: Path, *, quick: bool) -> None:
        self.path, self.quick = path, quick
        self._folder = ResultsDir.create(path, "record", {"record": {"mode": _mode(quick=quick)}}, code=None)

    def reproduce(self, item: Reproduction, *, workers: int, progress: Progress) -> StoredResults:
        """Compute and write a reproduction, or read it if it is finished."""
        self._folder.check()
        code = Code.of(item.reproduce.__module__, *built_in_modules())
        options = Options(self.path / item.name, self.quick, workers, progress, code)
        folder, start = options.results_dir(), time.perf_counter()
        if not folder.read_finished([_CLAIMS], _belongs):
            with folder.resumable():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ShortHorizonWarning)  # some horizons are short on purpose
                    results = item.reproduce(options)
                if self.quick:
                    results = results._replace(claims=[claim.after_few_runs() for claim in results.claims])
                _write(results, folder.path)
                rows = pl.DataFrame([_row(c) for c in results.claims], _COLUMNS, orient="row")
                folder.save(_CLAIMS, rows, time.perf_counter() - start)
        self._write_claims()
        progress(1, 1)
        return _stored(folder)

    def _write_claims(self) -> None:
        items = {
            name: {
                "files": stored.files,
                "claims": [dict(zip(_COLUMNS, _row(c), strict=True)) for c in stored.claims],
            }
            for name, stored in read_record(self.path)[1].items()
        }
        text = json.dumps({"mode": _mode(quick=self.quick), "items": items}, indent=1, ensure_ascii=False) + "\n"
        file = self.path / "claims.json"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            write_whole(file, lambda path: path.write_text(text, encoding="utf-8"))


def read_record(path: Path) -> tuple[str, dict[str, StoredResults]]:
    """Read the mode of a record, quick or full, and its finished reproductions by name."""
    mode = str(read_manifest_of_kind(path, "record")["record"].get("mode"))
    folders = (ResultsDir.open(file.parent, "reproduction") for file in sorted(path.glob("*/manifest.json")))
    return mode, {folder.path.name: _stored(folder) for folder in folders if folder.file(_CLAIMS).exists()}


def _mode(*, quick: bool) -> str:
    return "quick" if quick else "full"


def _row(claim: Claim) -> tuple[str, str, str, str]:
    return claim.what, claim.expected, claim.here, claim.verdict


def _belongs(_: str, frame: pl.DataFrame) -> bool:
    return dict(frame.schema) == _COLUMNS


def _stored(folder: ResultsDir) -> StoredResults:
    rows = folder.read(_CLAIMS, _belongs).iter_rows()
    claims = [
        (Unclear if verdict == TOO_FEW else Claim)(what, expected, here, verdict == "holds")
        for what, expected, here, verdict in rows
    ]
    files = [path for path in sorted(folder.path.iterdir()) if path.is_file() and path.name not in OURS]
    names = [f"{folder.path.name}/{path.name}" for path in files]
    return StoredResults(claims, folder.seconds().get(_CLAIMS, math.nan), names)


def _write(results: Results, folder: Path) -> None:
    """Write tables as Markdown and LaTeX, data as CSV, figures as PNG and SVG."""
    for name, table in {"claims": claims_table(results.claims), **results.tables}.items():
        for ending, text in ((".md", "\n".join(table.markdown())), (".tex", table.latex())):
            path = folder / (name + ending)
            write_whole(path, partial(Path.write_text, data=text + "\n", encoding="utf-8"))
    for name, frame in results.data.items():
        write_table(folder / f"{name}.csv", frame)
    for name, figure in results.pictures.items():
        plots.save(figure, folder, name)


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return a table of all claims with their verdicts."""
    return Table(("claim", "expected", "here", "verdict"), [_row(claim) for claim in claims])


def count(right: int, total: int) -> str:
    """Format "n of total".

    >>> count(48, 48), count(1_047, 1_048)
    ('48 of 48', '1,047 of 1,048')
    """
    return f"{right:,} of {total:,}"


def mean_reaches(values: Floats, threshold: float) -> bool:
    """Return whether the upper end of the 95 % interval of the mean reaches the threshold.

    >>> import numpy as np
    >>> mean_reaches(np.array([0.9, 1.0, 1.05]), 1.0), mean_reaches(np.array([0.9, 0.91, 0.9]), 1.0)
    (True, False)
    """
    return bool(values.mean() + half_interval(values) >= threshold - _ROUNDING)


def mean_exceeds(values: Floats, threshold: float) -> bool:
    """Return whether the lower end of the 95 % interval of the mean exceeds the threshold.

    >>> import numpy as np
    >>> mean_exceeds(np.array([1.1, 1.0, 1.05]), 1.0), mean_exceeds(np.array([1.1, 1.09, 1.1]), 1.0)
    (False, True)
    """
    return bool(values.mean() - half_interval(values) > threshold + _ROUNDING)
