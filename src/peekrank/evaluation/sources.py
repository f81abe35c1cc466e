"""Sources of logs: files that are read in parts, so that no more than a part is in memory."""

from __future__ import annotations

import glob
import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from peekrank._util.extras import extra
from peekrank._util.text import excerpt
from peekrank.evaluation.log import HEADER, Log, Scope, Source, not_a_log, scope_of_log
from peekrank.evaluation.log_parquet import check_columns, feedback_range, log_from_table, select_typed
from peekrank.jobs.parquet import UnreadableError, read_schema, read_slices

with extra("cli"):
    import polars as pl

CANDIDATES = 1 << 18  # of a part: some 100 bytes of memory each
_SURVEYED = 1 << 15  # decisions whose names are read together
_RUN = 1 << 22  # events whose hashes are sorted in memory
_PART = re.compile(r"part-(\d+)(?:-records-(\d+)-(\d+))?\.parquet")
_DAY = re.compile(r"day=(\d{4}-\d\d-\d\d)")
_SHOWN = 5  # names in a message


class LogSource(Protocol):
    """A log that can be read in parts, as often as needed."""

    @property
    def name(self) -> str:
        """Name for titles and errors."""
        ...

    @property
    def scope(self) -> Scope:
        """Properties of the whole log."""
        ...

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the decisions from number `first` on, in order."""
        ...

    def digest(self) -> str:
        """Return a digest of all that the source holds."""
        ...


class MemorySource(NamedTuple):
    """A log in memory, as one part."""

    name: str
    log: Log

    @property
    def scope(self) -> Scope:
        """Properties of the log."""
        return scope_of_log(self.log)

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the log."""
        yield self.log if first == 0 else self.log.select(np.arange(len(self.log.k)) >= first)

    def digest(self) -> str:
        """Return nothing, because an evaluation in one part cannot be resumed."""
        return ""


def open_source(path: str | Path, slot: str | None = None) -> LogSource:
    """Open a log that is read in parts. Raises ValueError naming file and row.

    Parameters
    ----------
    path
        A Parquet file, a file of JSON lines, a folder of such files, or a pattern such as
        ``logs/day=2026-01-*/*.parquet``. Files are taken in the order of their names, in which numbers count as
        numbers.
    slot
        Read only what is below folders ``slot=NAME``.

    >>> from peekrank.evaluation.log import log_from_records, write_log
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "feedback": [None, 1]}
    >>> path = Path(tempfile.mkdtemp(), "log.parquet")
    >>> write_log(path, log_from_records([record]))
    >>> open_source(path).scope.names
    ('a', 'b')
    """
    path, text = Path(path), str(path)
    if path.is_dir():
        suffixes = ("*.parquet", "*.jsonl")
        files = [file for one in suffixes for file in path.rglob(one) if not _hidden(file.relative_to(path))]
        if not files:
            raise ValueError(f"{path} is a folder without files that end with .parquet or .jsonl")
        return _shard_source(path.name, files, path, slot)
    if not path.exists() and glob.has_magic(text):
        files = [Path(file) for file in glob.glob(text, recursive=True)]  # noqa: PTH207
        if not files:
            raise ValueError(f"no file matches {text}")
        return _shard_source(text, files, path.parent, slot)
    if slot is not None:
        raise ValueError(f"{path} is one file, which has no slots; leave out --slot {slot}")
    if path.suffix == ".parquet":
        return ParquetSource(path.name, [path], path.parent)
    from peekrank.evaluation.jsonl_source import LinesSource

    return LinesSource(path)


def _shard_source(name: str, files: list[Path], root: Path, slot: str | None) -> LogSource:
    """Open several files as one log."""
    if slot is not None and not (files := [file for file in files if f"slot={slot}" in file.parts]):
        raise ValueError(f"{name} has no folder slot={slot}")
    ordered = _checked_shards(files)
    kinds = {file.suffix == ".parquet" for file in files}
    if len(kinds) > 1:
        other = next(file for file in ordered if (file.suffix == ".parquet") != (ordered[0].suffix == ".parquet"))
        raise ValueError(f"{name} has Parquet files and others ({ordered[0].name}, {other.name}); use a pattern")
    if kinds == {True}:
        return ParquetSource(name, ordered, root)
    from peekrank.evaluation.joined_source import JoinedLines
    from peekrank.evaluation.jsonl_source import LinesSource

    return JoinedLines(name, [LinesSource(file, _relative(file, root), keep_events=True) for file in ordered])


def _relative(file: Path, root: Path) -> str:
    """Return the name of a file in errors."""
    return str(file.relative_to(root)) if file.is_relative_to(root) else file.name


def whole_log(source: LogSource) -> Log:
    """Read a whole log into memory, without features, pairs, scores and predictions."""
    parts = [log._replace(features=None, pairs=None, scores=None, predictions=None) for log in source.parts()]
    if len(parts) == 1:
        return parts[0]
    learners = np.cumsum([0, *(len(log.learners) for log in parts)])
    lengths = np.concatenate([log.lengths for log in parts])

    def joined(name: str) -> NDArray[Any] | None:
        present = [getattr(log, name) for log in parts]
        if all(part is None for part in present):
            return None
        for i, (log, part) in enumerate(zip(parts, present, strict=True)):
            if part is None:  # without a holdout
                size = len(log.k) if name in ("arms", "share") else len(log.item)
                present[i] = np.full(size, -1 if name in ("arms", "own") else np.nan)
        return np.concatenate(present)

    numbers = ("time", "k", "item", "position", "propensity", "feedback", "feedback_time")
    columns: dict[str, Any] = {name: joined(name) for name in (*numbers, "arms", "share", "own", "expected")}
    clusters = None
    if any(log.clusters is not None for log in parts):
        none = [pl.Series("cluster", [None], pl.String).new_from_index(0, len(log.k)) for log in parts]
        clusters = pl.concat(
            [one if log.clusters is None else log.clusters for log, one in zip(parts, none, strict=True)]
        )
    return parts[0]._replace(
        events=pl.concat([log.events for log in parts]),
        **columns,
        learner=np.concatenate([log.learner + first for log, first in zip(parts, learners, strict=False)]),
        offsets=np.append(0, np.cumsum(lengths)),
        learners=tuple(name for log in parts for name in log.learners),
        reasons=tuple(reason for log in parts for reason in log.reasons),
        clusters=clusters,
    )


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _checked_shards(files: Sequence[Path]) -> list[Path]:
    """Sort files. Raises ValueError if they are of several slots, or if one is missing."""
    ordered = sorted(files, key=lambda file: [_natural(part) for part in file.parts])
    slots = sorted({part for file in ordered for part in file.parts if part.startswith("slot=")})
    if len(slots) > 1:
        named = ", ".join(slot.removeprefix("slot=") for slot in slots[:_SHOWN])
        chosen = slots[0].removeprefix("slot=")
        raise ValueError(
            f"{ordered[0].parent} and others: the files are of {len(slots)} slots ({named}), whose decisions must "
            f"not be mixed; choose one with --slot {chosen}"
        )
    numbers: dict[Path, dict[int, str]] = {}
    records, before = 0, ""
    days: dict[date, Path] = {}
    for file in ordered:
        if match := _PART.fullmatch(file.name):
            numbers.setdefault(file.parent, {})[int(match[1])] = file.name
            if match[2]:
                if records and int(match[2]) != records + 1:
                    raise ValueError(
                        f"{file}: the file begins with record {match[2]} of the log, but {before} before it "
                        f"ends with record {records}; a file is missing, or two exports are mixed"
                    )
                records, before = int(match[3]), file.name
        for folder in file.parents:
            if match := _DAY.fullmatch(folder.name):
                days.setdefault(date.fromisoformat(match[1]), folder)
    for folder, present in numbers.items():
        for number in range(min(present), max(present)):
            if number not in present:
                last = present[max(present)]
                raise ValueError(f"{folder}: the file part-{number}.parquet is missing, but there is {last}")
    for day in days:
        after = day + timedelta(days=1)
        if after < max(days) and after not in days and not days[day].with_name(f"day={after}").is_dir():
            raise ValueError(
                f"{days[day].parent}: the day {after} is missing between {day} and {max(days)}. If it had no "
                f"decisions, make an empty folder day={after}"
            )
    return ordered


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key by which 'part-10' comes after 'part-9'."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), part) if part.isdigit() and part.isascii() else (0, 0, part) for part in parts]


class Identity(NamedTuple):
    """Size and times of a file, by which a change is noticed."""

    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Identity:
        """Look at a file."""
        try:
            about = path.stat()
        except OSError:
            raise ValueError(f"{path} does not exist") from None
        return cls(about.st_size, about.st_mtime_ns, about.st_ino)


class _Shard(NamedTuple):
    """A file with its number of decisions."""

    path: Path
    decisions: int
    identity: Identity

    def check_unchanged(self, row: int) -> None:
        if not self.path.exists() or Identity.of(self.path) != self.identity:
            raise ValueError(
                f"{self.path.name}, row {row}: the file has changed while it was read; evaluate a copy, or wait "
                "until nothing writes to it"
            )


class ParquetSource:
    """Parquet files, in the order of time.

    Parameters
    ----------
    name
        Name for titles.
    files
        The files in order.
    root
        Folder to which names in errors are relative.
    """

    def __init__(self, name: str, files: Sequence[Path], root: Path) -> None:
        self.name, self._root = name, root
        self._range = (0.0, 1.0)
        self._width: int | None = None
        self._shards: list[_Shard] = []
        self.scope = self._survey(files)
        self._rows = max(1, CANDIDATES // int(self.scope.lengths[-1]))  # decisions in a part

    def _survey(self, files: Sequence[Path]) -> Scope:
        """Read names, numbers and times of all decisions, and check what concerns several of them."""
        names: dict[str, None] = {}
        lengths: set[int] = set()
        events, k, shortest, latest, latest_at = _Events(), 1, (1, 1), -np.inf, ""
        first_range: tuple[float, float] | None = None
        first_file = self._source(files[0]).file
        holdout, columns = False, None
        for path in files:
            identity, source, n, start = Identity.of(path), self._source(path), 0, latest
            with _named(path, source.file):
                present = read_schema(path).names()
                check_columns(present, source.file)
                own = [name for name in ("propensity", "feedback") if name in present]
                if columns not in (None, own):
                    here, there = (" and ".join(one) or "neither" for one in (own, columns or []))
                    raise ValueError(
                        f"{source.file}, row 1: of the columns propensity and feedback it has {here}, but "
                        f"{first_file} has {there}; files of a log need the same"
                    )
                columns = own
                wanted = [name for name in ("event", "k", "candidates", "time", "arm", *HEADER) if name in present]
                for frame in read_slices(path, _SURVEYED, columns=wanted):
                    part = source._replace(first=n)
                    ends = feedback_range(frame, part)
                    if first_range is not None and ends != first_range:
                        here, there = (f"{low:g} to {high:g}" for low, high in (ends, first_range))
                        what = f"feedback is from {here}, but from {there} in {first_file}"
                        raise part.fault(0, "max_feedback", f"{what}; such logs must not be mixed")
                    first_range = ends
                    table = select_typed(frame, ("event", "k", "candidates", "time", "arm"), part)
                    size = table["candidates"].list.len().fill_null(0).cast(pl.Int64)
                    shown = table["k"].fill_null(1)
                    lengths.update(size.unique().to_list())
                    k = max(k, int(shown.max() or 1))  # type: ignore[arg-type]
                    short = int((size - shown).arg_max() or 0)
                    if size[short] - shown[short] > shortest[0] - shortest[1]:
                        shortest = int(size[short]), int(shown[short])
                    texts = table["candidates"].explode().drop_nulls().unique(maintain_order=True).to_list()
                    names.update(dict.fromkeys(texts))
                    events.add(table["event"].fill_null("").hash().to_numpy())
                    holdout |= "arm" in table.columns and table["arm"].null_count() < len(table)
                    if "time" in table.columns:
                        times = table["time"].fill_null(np.nan).to_numpy()
                        early = times < start
                        if early.any():
                            what = f"{times[early.argmax()]:.3f} is before the end of {latest_at}; files must not "
                            raise part.fault(int(early.argmax()), "time", what + "overlap in time")
                        latest = max(latest, float(np.max(times[~np.isnan(times)], initial=-np.inf)))
                    n += len(frame)
            latest_at = source.file
            self._shards.append(_Shard(path, n, identity))
        decisions = sum(shard.decisions for shard in self._shards)
        if not decisions:
            raise not_a_log(self.name, "has no rows")
        if repeated := events.repeated():
            self._raise_repeated(repeated)
        low, high = first_range or (0.0, 1.0)
        self._range = low, high
        ordered = np.array(sorted(lengths - {0}) or [1])
        return Scope(decisions, tuple(names), ordered, k, shortest, low, high, holdout)

    def _source(self, path: Path) -> Source:
        return Source(_relative(path, self._root), "row")

    def _raise_repeated(self, repeated: set[int]) -> None:
        """Raise ValueError if an event occurs twice; equal hashes may be of different events."""
        seen: dict[str, str] = {}
        for shard in self._shards:
            source, n = self._source(shard.path), 0
            with _named(shard.path, source.file):
                for frame in read_slices(shard.path, _SURVEYED, columns=["event"]):
                    events = select_typed(frame, ("event",), source)["event"]
                    for row in np.flatnonzero(np.isin(events.hash().to_numpy(), list(repeated))):
                        event = events[int(row)]
                        if event in seen:
                            where = f"'{excerpt(event)}' occurs twice, first in {seen[event]}"
                            raise source._replace(first=n).fault(int(row), "event", where)
                        seen[event] = f"{source.file}, row {n + row + 1}"
                    n += len(frame)

    def starts(self, first: int = 0) -> list[int]:
        """Return the first decision of each part from decision `first` on."""
        found: list[int] = []
        before = 0
        for shard in self._shards:
            found += range(max(before, first), before + shard.decisions, self._rows)
            before += shard.decisions
        return found

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the decisions from number `first` on, in order."""
        rows, before = self._rows, 0
        for shard in self._shards:
            start = max(0, first - before)
            before += shard.decisions
            source = self._source(shard.path)
            if start >= shard.decisions:
                continue
            shard.check_unchanged(start + 1)
            try:
                with _named(shard.path, source.file):
                    for frame in read_slices(shard.path, rows, first=start):
                        part = source._replace(first=start)
                        log = log_from_table(frame, part, *self._range, self.scope.names)
                        self._check_width(log, part)
                        yield log
                        start += len(frame)
            except ValueError:
                shard.check_unchanged(start + 1)  # which would be the reason
                raise
            shard.check_unchanged(start)

    def _check_width(self, log: Log, source: Source) -> None:
        """Check that all parts have equally many features."""
        width = 0 if log.features is None else log.features.shape[1]
        if self._width not in (None, width):
            raise source.fault(0, "features", f"{width} features, but {self._width} before")
        self._width = width

    def digest(self) -> str:
        """Return a digest of the names and the content of all files."""
        total = hashlib.blake2b(digest_size=32)
        for shard in self._shards:
            total.update(f"{shard.path.name} {shard.identity.size}\n".encode())
            with shard.path.open("rb") as file:
                total.update(hashlib.file_digest(file, "blake2b").digest())
            shard.check_unchanged(1)
        return total.hexdigest()


class _named:  # noqa: N801
    """Turn errors of a Parquet reader into ValueErrors that name the file."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise ValueError(f"{self._path} does not exist") from None
        if isinstance(error, UnreadableError):
            raise ValueError(f"{self._name} {error}") from None


class _Events:
    """Hashes of events, in sorted runs: those of a large log are on disk."""

    def __init__(self) -> None:
        self._waiting: list[NDArray[np.uint64]] = []
        self._count = 0
        self._file: IO[bytes] | None = None
        self._sizes: list[int] = []

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add hashes."""
        self._waiting.append(hashes)
        self._count += len(hashes)
        if self._count >= _RUN:
            run = np.sort(np.concatenate(self._waiting))
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115
            self._file.write(run.tobytes())
            self._sizes.append(len(run))
            self._waiting, self._count = [], 0

    def repeated(self) -> set[int]:
        """Return the hashes that occur twice."""
        last = np.sort(np.concatenate([*self._waiting, np.empty(0, np.uint64)]))
        if self._file is None:
            return _repeated(last)
        with self._file as file:
            return self._repeated_in_runs(last, file)

    def _repeated_in_runs(self, last: NDArray[np.uint64], file: IO[bytes]) -> set[int]:
        """Merge the runs, of which only the next values of each are in memory."""
        size = max(1, _RUN // (len(self._sizes) + 1))
        ends = np.cumsum(self._sizes).tolist()
        places = [end - length for end, length in zip(ends, self._sizes, strict=True)]
        waiting = [last, *(np.empty(0, np.uint64) for _ in ends)]
        found, latest = set[int](), np.empty(0, np.uint64)
        while True:
            for i, end in enumerate(ends):
                if not len(waiting[i + 1]) and places[i] < end:
                    file.seek(8 * places[i])
                    content = file.read(8 * min(size, end - places[i]))
                    waiting[i + 1] = np.frombuffer(content, np.uint64)
                    places[i] += len(waiting[i + 1])
            unread = [part[-1] for part, place, end in zip(waiting[1:], places, ends, strict=True) if place < end]
            cuts = [
                len(part) if not unread else int(np.searchsorted(part, min(unread), "right")) for part in waiting
            ]
            merged = np.sort(np.concatenate([run[:cut] for run, cut in zip(waiting, cuts, strict=True)]))
            found |= _repeated(np.append(latest, merged))
            latest = merged[-1:]
            waiting = [run[cut:] for run, cut in zip(waiting, cuts, strict=True)]
            if not unread:
                return found


def _repeated(ascending: NDArray[np.uint64]) -> set[int]:
    return set(ascending[1:][ascending[1:] == ascending[:-1]].tolist())
