"""What a reproduction is made of: claims with verdicts, tables, pictures, and the folder that keeps them."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.figure import Figure

from peekrank._jit import sources
from peekrank._util.atomic import write_whole
from peekrank.experiments.comparison import half_interval
from peekrank.games.cells import Progress, part_of
from peekrank.jobs.executor import Threads
from peekrank.jobs.folder import holds_manifest, versions
from peekrank.learners._shared import ShortHorizonWarning
from peekrank.reports import plots
from peekrank.reports.markup import Table
from peekrank.types import Floats

FORMAT = 1
RECORD = "claims.json"
_ROUNDING = 1e-12
_ORIGINS = {
    "format": "another format",
    "versions": "other versions of packages",
    "sources": "another state of peekrank's code",
}


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
        """In a word."""
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
        For results of single runs, so that they need not be done again.
    quick
        A look, with few and short runs, instead of the record.
    workers
        Number of threads.
    progress
        Called with what is done, and of how much; also from threads.
    """

    folder: Path
    quick: bool = False
    workers: int = 1
    progress: Progress = lambda *_: None

    def part(self, before: int, parts: int) -> How:
        """The same for one of several parts."""
        return self._replace(progress=part_of(self.progress, before, parts))

    def frames(self, jobs: Mapping[str, Callable[[Beat], pl.DataFrame]]) -> dict[str, pl.DataFrame]:
        """Do jobs, in threads; what each gives is kept in the folder at once, and not done again.

        Parameters
        ----------
        jobs
            By the name of the file. Each is given something to call now and then, which ends it after Ctrl-C.
        """
        paths = {name: self.folder / f"{name}.parquet" for name in jobs}
        missing = [name for name, path in paths.items() if not path.exists()]
        tick = self.counter(len(jobs))
        tick(len(jobs) - len(missing))

        def compute(name: str, alive: Callable[[int], None]) -> Iterator[pl.DataFrame]:
            yield jobs[name](lambda: alive(0))
            alive(1)

        def keep(name: str, frame: pl.DataFrame) -> None:
            write_whole(paths[name], frame.write_parquet)

        Threads(self.workers).do_all(missing, compute, keep, tick, str)
        return {name: _read(path) for name, path in paths.items()}

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
    seconds: float
    files: list[str]

    @property
    def differ(self) -> int:
        """How many claims differ."""
        return sum(not claim.holds for claim in self.claims)


class Folder:
    """The folder of a record: ``claims.json`` with all that is finished, and a folder for each reproduction.

    Parameters
    ----------
    path
        Where it is, or will be. One with results of the other mode, or of another version, is refused.
    quick
        Whether this is a look only.
    """

    def __init__(self, path: Path, *, quick: bool) -> None:
        self.path, self.quick = path, quick
        self._origin = {
            "format": FORMAT,
            "mode": "quick" if quick else "full",
            "versions": versions(),
            "sources": sources(),
        }
        if holds_manifest(path, RECORD):
            old, _ = read_record(path)
            if old.get("mode") != self._origin["mode"]:
                other = "the full mode" if quick else "a look, --quick"
                raise ValueError(f"{path} holds the results of {other}; choose another folder")
            if differ := [_ORIGINS[name] for name, value in self._origin.items() if old.get(name) != value]:
                raise ValueError(f"{path} holds results of {', '.join(differ)}; choose another folder")
        else:
            self._write({})

    def make(self, item: Reproduction, *, workers: int, progress: Progress) -> Kept:
        """Make a reproduction and write it, or read it if it is finished."""
        if found := self.finished().get(item.name):
            progress(1, 1)
            return found
        folder, began = self.path / item.name, time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortHorizonWarning)  # horizons are as short as that on purpose
            made = item.make(How(folder / "runs", self.quick, workers, progress))
        files = [str(path.relative_to(self.path)) for path in _write(made, folder)]
        kept = Kept(list(made.claims), round(time.perf_counter() - began, 1), files)
        self._write({**self.finished(), item.name: kept})  # others may have finished something meanwhile
        progress(1, 1)
        return kept

    def finished(self) -> dict[str, Kept]:
        """What is finished, by name."""
        return read_record(self.path)[1]

    def _write(self, kept: dict[str, Kept]) -> None:
        items = {
            name: {
                "seconds": k.seconds,
                "files": k.files,
                "claims": [
                    {"what": c.what, "expected": c.expected, "here": c.here, "verdict": c.verdict}
                    for c in k.claims
                ],
            }
            for name, k in kept.items()
        }
        text = json.dumps({**self._origin, "items": items}, indent=1, ensure_ascii=False) + "\n"
        write_whole(self.path / RECORD, lambda path: path.write_text(text, encoding="utf-8"))


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); remove it to have that part done again") from None


def read_record(folder: Path) -> tuple[dict[str, Any], dict[str, Kept]]:
    """What ``claims.json`` says of its origin, and of everything that is finished."""
    path = folder / RECORD
    try:
        text: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        items = {
            name: Kept(
                [Claim(c["what"], c["expected"], c["here"], c["verdict"] == "holds") for c in item["claims"]],
                item["seconds"],
                item["files"],
            )
            for name, item in text.pop("items").items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read as the record of reproductions: {error!r}") from None
    return text, items


def _write(made: Made, folder: Path) -> Iterator[Path]:
    """Write tables as Markdown and LaTeX, data as CSV, pictures as PNG and SVG, and tell which files these are."""
    for name, table in {"claims": claims_table(made.claims), **made.tables}.items():
        for ending, text in ((".md", "\n".join(table.markdown())), (".tex", table.latex())):
            path = folder / (name + ending)
            write_whole(path, partial(Path.write_text, data=text + "\n", encoding="utf-8"))
            yield path
    for name, frame in made.data.items():
        write_whole(folder / f"{name}.csv", frame.write_csv)
        yield folder / f"{name}.csv"
    for name, figure in made.pictures.items():
        yield from plots.save(figure, folder, name)


def claims_table(claims: Sequence[Claim]) -> Table:
    """All claims with their verdicts."""
    return Table(
        ("claim", "expected", "here", "verdict"), [(c.what, c.expected, c.here, c.verdict) for c in claims]
    )


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
