"""What a reproduction is made of: claims with verdicts, tables, pictures, and the folder that keeps them."""

from __future__ import annotations

import json
import math
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
from peekrank.experiments.comparison import half_interval
from peekrank.games.cells import Progress, part_of
from peekrank.jobs.executor import Threads
from peekrank.jobs.results_dir import OURS, Code, ResultsDir, read_manifest_of_kind, write_table
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.registry import built_in_modules
from peekrank.reports import plots
from peekrank.reports.markup import Table
from peekrank.types import Floats

_ROUNDING = 1e-12
_CLAIMS = "claims"  # the part that is finished last
_COLUMNS = {"what": pl.String, "expected": pl.String, "here": pl.String, "verdict": pl.String}


class Claim(NamedTuple):
    """What is claimed, what was expected by it, and what came out.

    >>> Claim("exponent of `uniform`", "1 ± 0.1", "0.72 (10 runs)", holds=False).verdict
    'differs'
    """

    what: str
    expected: str
    here: str
    holds: bool

    @property
    def verdict(self) -> str:
        """Either "holds" or "differs"."""
        return "holds" if self.holds else "differs"


class Made(NamedTuple):
    """What came out: claims; by name tables for reading, pictures, and numbers for other programs."""

    claims: Sequence[Claim]
    tables: dict[str, Table] = {}  # noqa: RUF012 - never changed
    pictures: dict[str, Figure] = {}  # noqa: RUF012
    data: dict[str, pl.DataFrame] = {}  # noqa: RUF012


Beat = Callable[[], None]


class How(NamedTuple):
    """How to make a reproduction.

    Parameters
    ----------
    folder
        Where results of single runs are kept, so that they need not be done again; its name is the reproduction's.
    quick
        A look, with few and short runs, instead of the record.
    workers
        Number of threads.
    progress
        Called with what is done, and of how much; also from threads.
    code
        The code that makes the results; None if it does not matter.
    """

    folder: Path
    quick: bool = False
    workers: int = 1
    progress: Progress = lambda *_: None
    code: Code | None = None

    def claim(self) -> ResultsDir:
        """The folder; one with results of another mode, or of other code, is refused."""
        about = {"reproduction": {"name": self.folder.name, "mode": _mode(quick=self.quick)}}
        return ResultsDir.create(self.folder, "reproduction", about, code=self.code)

    def part(self, before: int, parts: int) -> How:
        """How to make one of several parts: its progress is a part of the whole."""
        return self._replace(progress=part_of(self.progress, before, parts))

    def frames(self, jobs: Mapping[str, Callable[[Beat], pl.DataFrame]]) -> dict[str, pl.DataFrame]:
        """Do jobs, in threads; what each gives is kept in the folder at once, and not done again.

        Parameters
        ----------
        jobs
            By the name of the file. Each is given something to call now and then, which ends it after Ctrl-C.
        """
        folder = self.claim()
        there = folder.read_finished(jobs, lambda *_: True)
        missing = [name for name in jobs if name not in there]
        tick = self.counter(len(jobs))
        tick(len(there))

        def compute(name: str, alive: Callable[[int], None]) -> Iterator[tuple[pl.DataFrame, float]]:
            began = time.perf_counter()
            frame = jobs[name](lambda: alive(0))
            yield frame, time.perf_counter() - began
            alive(1)

        def keep(name: str, made: tuple[pl.DataFrame, float]) -> None:
            folder.save(name, *made)
            there[name] = made[0]

        Threads(self.workers).run(missing, compute, keep, tick, str)
        return {name: there[name] for name in jobs}

    def counter(self, total: int) -> Callable[[int], None]:
        """Something to call with what was done since, of so much in total; also from threads."""
        lock, done = threading.Lock(), 0

        def tick(rounds: int) -> None:
            nonlocal done
            with lock:
                done += rounds
                self.progress(done, total)

        return tick


class Reproduction(NamedTuple):
    """A figure, a table or a claim: where it is from, what it says, how long it takes, and what makes it.

    ``seconds`` are those of processor time, roughly: for a look, and for the record. They are measured as a part
    of everything, where the first to use a learner compiles it.
    """

    name: str
    source: str
    statement: str
    seconds: tuple[int, int]
    make: Callable[[How], Made]


class Kept(NamedTuple):
    """What a folder keeps of a reproduction that is finished."""

    claims: list[Claim]
    seconds: float  # NaN if it is not known
    files: list[str]

    @property
    def differ(self) -> int:
        """How many claims differ."""
        return sum(not claim.holds for claim in self.claims)


class Record:
    """The folder of a record: a folder for each reproduction, and ``claims.json`` with all that is finished.

    Parameters
    ----------
    path
        Where it is, or will be. One with results of the other mode is refused, and so is a reproduction in it that
        was made by other code.
    quick
        Whether this is a look only.
    """

    def __init__(self, path: Path, *, quick: bool) -> None:
        self.path, self.quick = path, quick
        self._folder = ResultsDir.create(path, "record", {"record": {"mode": _mode(quick=quick)}}, code=None)

    def make(self, item: Reproduction, *, workers: int, progress: Progress) -> Kept:
        """Make a reproduction and write it, or read it if it is finished."""
        self._folder.check()
        code = Code.of(item.make.__module__, *built_in_modules())
        how = How(self.path / item.name, self.quick, workers, progress, code)
        folder, began = how.claim(), time.perf_counter()
        if not folder.read_finished([_CLAIMS], _belongs):
            with folder.resumable():
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore", ShortHorizonWarning
                    )  # horizons are as short as that on purpose
                    made = item.make(how)
                _write(made, folder.path)
                rows = pl.DataFrame([_row(c) for c in made.claims], _COLUMNS, orient="row")
                folder.save(_CLAIMS, rows, time.perf_counter() - began)
        self._write_claims()
        progress(1, 1)
        return _kept(folder)

    def _write_claims(self) -> None:
        items = {
            name: {"files": kept.files, "claims": [dict(zip(_COLUMNS, _row(c), strict=True)) for c in kept.claims]}
            for name, kept in read_record(self.path)[1].items()
        }
        text = json.dumps({"mode": _mode(quick=self.quick), "items": items}, indent=1, ensure_ascii=False) + "\n"
        file = self.path / "claims.json"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            write_whole(file, lambda path: path.write_text(text, encoding="utf-8"))


def read_record(path: Path) -> tuple[str, dict[str, Kept]]:
    """The mode of a record, quick or full, and everything that is finished in it, by name."""
    mode = str(read_manifest_of_kind(path, "record")["record"].get("mode"))
    there = (ResultsDir.open(file.parent, "reproduction") for file in sorted(path.glob("*/manifest.json")))
    return mode, {folder.path.name: _kept(folder) for folder in there if folder.file(_CLAIMS).exists()}


def _mode(*, quick: bool) -> str:
    return "quick" if quick else "full"


def _row(claim: Claim) -> tuple[str, str, str, str]:
    return claim.what, claim.expected, claim.here, claim.verdict


def _belongs(_: str, frame: pl.DataFrame) -> bool:
    return dict(frame.schema) == _COLUMNS


def _kept(folder: ResultsDir) -> Kept:
    rows = folder.read(_CLAIMS, _belongs).iter_rows()
    claims = [Claim(what, expected, here, verdict == "holds") for what, expected, here, verdict in rows]
    files = [path for path in sorted(folder.path.iterdir()) if path.is_file() and path.name not in OURS]
    names = [f"{folder.path.name}/{path.name}" for path in files]
    return Kept(claims, folder.seconds().get(_CLAIMS, math.nan), names)


def _write(made: Made, folder: Path) -> None:
    """Write tables as Markdown and LaTeX, data as CSV, pictures as PNG and SVG."""
    for name, table in {"claims": claims_table(made.claims), **made.tables}.items():
        for ending, text in ((".md", "\n".join(table.markdown())), (".tex", table.latex())):
            path = folder / (name + ending)
            write_whole(path, partial(Path.write_text, data=text + "\n", encoding="utf-8"))
    for name, frame in made.data.items():
        write_table(folder / f"{name}.csv", frame)
    for name, figure in made.pictures.items():
        plots.save(figure, folder, name)


def claims_table(claims: Sequence[Claim]) -> Table:
    """All claims with their verdicts."""
    return Table(("claim", "expected", "here", "verdict"), [_row(claim) for claim in claims])


def count(right: int, of: int) -> str:
    """How many of how many.

    >>> count(48, 48), count(1_047, 1_048)
    ('48 of 48', '1,047 of 1,048')
    """
    return f"{right:,} of {of:,}"


def mean_reaches(values: Floats, least: float) -> bool:
    """Whether the mean of runs may be that large, as far as its 95 % interval tells.

    >>> import numpy as np
    >>> mean_reaches(np.array([0.9, 1.0, 1.05]), 1.0), mean_reaches(np.array([0.9, 0.91, 0.9]), 1.0)
    (True, False)
    """
    return bool(values.mean() + half_interval(values) >= least - _ROUNDING)


def mean_exceeds(values: Floats, least: float) -> bool:
    """Whether the mean of runs is larger than that, with all of its 95 % interval.

    >>> import numpy as np
    >>> mean_exceeds(np.array([1.1, 1.0, 1.05]), 1.0), mean_exceeds(np.array([1.1, 1.09, 1.1]), 1.0)
    (False, True)
    """
    return bool(values.mean() - half_interval(values) > least + _ROUNDING)
