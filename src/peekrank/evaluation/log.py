"""Logs that can be evaluated: what was shown, how likely each candidate was to be seen, and what was answered.

A file has one record per decision, as Parquet or as JSON lines; docs/evidence/log.md describes its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peekrank._jit import kernel
from peekrank._util.atomic import write_whole
from peekrank._util.text import excerpt
from peekrank.spec import nearest
from peekrank.types import Features, Floats, Ints

NAME, VERSION = "peekrank-log", 1
_SUM = 1e-6  # per candidate: how far chances may be from adding up to the number of candidates that are seen

COLUMNS: dict[str, Any] = {
    "event": pl.String, "time": pl.Float64, "learner": pl.String, "reason": pl.String, "k": pl.Int64,
    "candidates": pl.List(pl.String), "place": pl.List(pl.Int64), "chance": pl.List(pl.Float64),
    "answer": pl.List(pl.Float64), "answered": pl.List(pl.Float64),
    "features": pl.List(pl.List(pl.Float32)), "pairs": pl.List(pl.Float64),
}  # fmt: skip
REQUIRED = ("event", "k", "candidates", "place")
HEADER: dict[str, Any] = {"format": pl.String, "version": pl.Int64, "lowest": pl.Float64, "highest": pl.Float64}


class Log(NamedTuple):
    """Decisions and answers in columns: decision t has the rows ``offsets[t]:offsets[t + 1]``, one per candidate.

    The first fields are of decisions, then those of rows. NaN stands for what is not known.
    """

    events: pl.Series  # name of each decision, all different
    time: Floats  # when it was made, in seconds
    k: Ints  # how many of its candidates were seen, from the top
    learner: Ints  # who made it: a number in `learners`
    offsets: Ints
    item: Ints  # which candidate: a number in `names`
    place: Ints  # where it was shown, from 0
    chance: Floats  # probability to be among the first k, given the past
    answer: Floats  # NaN: not seen, or not answered
    answered: Floats  # when
    names: tuple[str, ...]
    learners: tuple[str, ...]  # "specification @ version"
    reasons: tuple[str, ...]  # why chances of a learner's decisions cannot be known; "" if they are
    lowest: float = 0.0  # what an answer can be, at least and at most: declared, not seen
    highest: float = 1.0
    features: Features | None = None  # of each row
    pairs: Floats | None = (
        None  # probability of candidates i < j of a decision to be both seen: (0, 1), (0, 2) ...
    )

    @property
    def lengths(self) -> Ints:
        """Number of candidates of each decision."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> Ints:
        """The decision that each row belongs to."""
        return np.repeat(np.arange(len(self.k)), self.lengths)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Whether the candidate of each row was among the first k."""
        return np.asarray(self.place < np.repeat(self.k, self.lengths))

    def select(self, events: NDArray[np.bool_]) -> Log:
        """The log of some of the decisions, in the same order.

        >>> log = log_of([{"event": e, "k": 1, "candidates": ["a", "b"], "place": [1, 0]} for e in "xy"])
        >>> log.select(np.array([False, True])).events.to_list()
        ['y']
        """
        rows, lengths = events[self.owner], self.lengths
        pairs = None
        if self.pairs is not None:
            pairs = self.pairs[np.repeat(events, lengths * (lengths - 1) // 2)]
        return self._replace(
            events=self.events.filter(pl.Series(events)),
            **{name: getattr(self, name)[events] for name in ("time", "k", "learner")},
            **{name: getattr(self, name)[rows] for name in ("item", "place", "chance", "answer", "answered")},
            offsets=np.append(0, np.cumsum(lengths[events])),
            features=None if self.features is None else self.features[rows],
            pairs=pairs,
        )


class Source(NamedTuple):
    """Where decisions were read, so that errors can say it."""

    file: str
    unit: str = "decision"
    numbers: Ints | None = None  # the line of each decision; None: they are rows, counted from 1

    def fault(self, event: int, field: str, what: str) -> ValueError:
        """The error that names file, row and field."""
        number = event + 1 if self.numbers is None else self.numbers[event]
        return ValueError(f"{self.file}, {self.unit} {number}, field '{field}': {what}")


def read_log(path: str | PathLike[str]) -> Log:
    """Read a log; a ValueError names file, row and field of what is wrong with it.

    Parameters
    ----------
    path
        A Parquet file, or JSON lines by any other ending than ``.parquet``.

    >>> import tempfile
    >>> log = log_of([{"event": "1", "k": 1, "candidates": ["a", "b"], "place": [1, 0], "answer": [None, 1]}])
    >>> path = Path(tempfile.mkdtemp(), "log.jsonl")
    >>> write_log(path, log)
    >>> read_log(path).answer
    array([nan,  1.])
    """
    path = Path(path)
    if path.suffix == ".parquet":
        return _read_parquet(path)
    from peekrank.evidence.lines import read_lines

    return read_lines(path)


def write_log(path: str | PathLike[str], log: Log) -> None:
    """Write a log whole: Parquet if the name ends with ``.parquet``, JSON lines otherwise.

    Parameters
    ----------
    path
        Where to.
    log
        What to write.
    """
    path, content = Path(path), BytesIO()
    if path.suffix == ".parquet":
        header = [pl.lit(value, HEADER[name]).alias(name) for name, value in header_of(log).items()]
        frame_of(log).select(*header, pl.all()).write_parquet(content)
        write_whole(path, lambda part: part.write_bytes(content.getbuffer()))
    else:
        from peekrank.evidence.lines import write_lines

        write_whole(path, lambda part: write_lines(part, log))


def log_of(records: Iterable[dict[str, Any]], *, lowest: float = 0.0, highest: float = 1.0) -> Log:
    """The log of decisions that are given one by one, as JSON lines have them.

    Parameters
    ----------
    records
        A dictionary of fields for each decision.
    lowest, highest
        What an answer can be.

    >>> log = log_of([{"event": "1", "k": 1, "candidates": ["a", "b"], "place": [1, 0], "chance": [0.25, 0.75]}])
    >>> log.chance
    array([0.25, 0.75])
    """
    from peekrank.evidence.lines import log_of_records

    return log_of_records(enumerate(records, 1), Source("log"), lowest, highest)


def single_learner(log: Log, file: str = "log") -> str:
    """The learner that made all decisions of a log; a ValueError if there are several.

    Parameters
    ----------
    log
        What was logged.
    file
        What an error calls it.
    """
    if (log.learner != log.learner[0]).any():
        event = int(np.argmax(log.learner != log.learner[0]))
        first, second = log.learners[log.learner[0]], log.learners[log.learner[event]]
        what = f"'{second}', and '{first}' before: decisions of several learners are mixed"
        raise Source(file, "row").fault(event, "learner", what)
    return log.learners[int(log.learner[0])]


def header_of(log: Log) -> dict[str, Any]:
    """What is said of a log as a whole."""
    return {"format": NAME, "version": VERSION, "lowest": log.lowest, "highest": log.highest}


def check_header(header: dict[str, Any], file: str) -> tuple[float, float]:
    """The least and the largest answer, if the header is one of this format."""
    if header.get("format") != NAME:
        raise ValueError(f"{file} is no log: it does not begin with the format '{NAME}'")
    if header.get("version") != VERSION:
        raise ValueError(f"{file} is a log of version {header.get('version')!r}; this release reads {VERSION}")
    lowest, highest = header.get("lowest", 0), header.get("highest", 1)
    numbers = all(type(value) in (int, float) and abs(value) < 1e300 for value in (lowest, highest))
    if not numbers or lowest >= highest:
        limits = f"{excerpt(repr(lowest))} to {excerpt(repr(highest))}"
        raise ValueError(f"{file}: answers from {limits} cannot be; lowest must be below highest")
    return float(lowest), float(highest)


def _read_parquet(path: Path) -> Log:
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        why = excerpt(" ".join(str(error).split()), 200)
        raise ValueError(f"{path} is no whole Parquet file: it is cut off or damaged ({why})") from None
    if frame.is_empty() or any(name not in frame.columns for name in HEADER):
        raise ValueError(f"{path} is no log: it has no rows, or not the columns {', '.join(HEADER)}")
    for name in HEADER:
        if frame[name].n_unique() > 1:
            raise Source(path.name, "row").fault(
                int((frame[name] != frame[name][0]).arg_max() or 0), name, "differs"
            )
    lowest, highest = check_header(frame.select(*HEADER).row(0, named=True), path.name)
    source = Source(path.name, "row")
    return checked(log_of_frame(_cast(frame, source), source, lowest, highest), source)


def _cast(frame: pl.DataFrame, source: Source) -> pl.DataFrame:
    """The columns of a log with the types they must have; null where one may be missing."""
    for name in frame.columns:
        if name not in COLUMNS and name not in HEADER:
            raise ValueError(f"{source.file}: no field '{excerpt(name)}': {nearest(name, COLUMNS)}")
    parts = []
    for name, kind in COLUMNS.items():
        if name not in frame.columns:
            if name in REQUIRED:
                raise ValueError(f"{source.file}: there is no column '{name}'")
            parts.append(pl.Series(name, [None], kind).new_from_index(0, len(frame)))
            continue
        try:
            parts.append(frame[name].cast(kind))
        except pl.exceptions.PolarsError as error:
            why = excerpt(" ".join(str(error).split()), 160)
            raise ValueError(f"{source.file}, field '{name}': must be {kind} ({why})") from None
    return pl.DataFrame(parts)


def log_of_frame(frame: pl.DataFrame, source: Source, lowest: float, highest: float) -> Log:
    """The columns of a table with one row per decision, put end to end; what they say is not checked yet.

    Parameters
    ----------
    frame
        Columns as in `COLUMNS`.
    source
        What errors name.
    lowest, highest
        What an answer can be.
    """
    if frame.is_empty():
        raise ValueError(f"{source.file}: there is no decision in it")
    for name in REQUIRED:
        if frame[name].null_count():
            raise source.fault(int(frame[name].is_null().arg_max() or 0), name, "is missing")
    lengths = frame["candidates"].list.len().cast(pl.Int64).to_numpy()
    if not lengths.all():
        raise source.fault(int(np.argmin(lengths)), "candidates", "must name one at least")
    columns = {name: _per_row(frame[name], lengths, source) for name in ("chance", "answer", "answered")}
    place = _per_row(frame["place"], lengths, source)
    candidates = frame["candidates"].explode()
    if candidates.null_count():
        owner = np.repeat(np.arange(len(lengths)), lengths)
        raise source.fault(int(owner[candidates.is_null().arg_max() or 0]), "candidates", "a name is missing")
    item, names = _coded(candidates)
    people = frame.select(pl.col("learner").fill_null(""), pl.col("reason").fill_null(""))
    learner, pairs = _coded(people.select(pl.concat_str("learner", pl.lit("\0"), "reason"))["learner"])
    learners, reasons = zip(*(pair.split("\0") for pair in pairs), strict=True)
    return Log(
        frame["event"], frame["time"].fill_null(np.nan).to_numpy(), frame["k"].to_numpy().copy(), learner,
        np.append(0, np.cumsum(lengths)), item, place, columns["chance"], columns["answer"],
        columns["answered"], names, learners, reasons, lowest, highest,
        _features(frame["features"], lengths, source), _pairs(frame["pairs"], lengths, source),
    )  # fmt: skip


def _coded(values: pl.Series) -> tuple[Ints, tuple[str, ...]]:
    """Numbers that stand for texts, and the texts, in the order of their first appearance."""
    texts = values.unique(maintain_order=True)
    codes: Ints = values.cast(pl.Enum(texts)).to_physical().to_numpy().astype(np.int64)
    return codes, tuple(texts.to_list())


def _per_row(column: pl.Series, lengths: Ints, source: Source) -> NDArray[Any]:
    """A column of lists put end to end, which must have a number per candidate; NaN or -1 where one is missing."""
    found = column.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if (wrong := (found != lengths) & (found >= 0)).any():
        event = int(np.argmax(wrong))
        raise source.fault(event, column.name, f"has {found[event]} numbers for {lengths[event]} candidates")
    values = column.drop_nulls().explode()
    if values.dtype.is_integer():
        values = values.fill_null(-1)
    numbers = values.to_numpy(writable=True)
    if not column.null_count():
        return numbers
    out = np.full(int(lengths.sum()), np.nan)
    out[np.repeat(found >= 0, lengths)] = numbers
    return out


def _features(column: pl.Series, lengths: Ints, source: Source) -> Features | None:
    if column.null_count() == len(column):
        return None
    found = column.list.len().cast(pl.Int64).fill_null(0).to_numpy()
    if (found != lengths).any():
        event = int(np.argmax(found != lengths))
        raise source.fault(event, "features", f"has {found[event]} lists for {lengths[event]} candidates")
    inner = column.explode()
    widths = inner.list.len().cast(pl.Int64).fill_null(0).to_numpy()
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if (widths != widths[0]).any() or widths[0] == 0:
        row = int(np.argmax(widths != widths[0]))
        what = f"{widths[row]} features of a candidate, and {widths[0]} of the first"
        raise source.fault(int(owner[row]), "features", what)
    table: Features = inner.explode().fill_null(np.nan).to_numpy().reshape(-1, widths[0]).copy()
    if not np.isfinite(table).all():
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise source.fault(int(owner[row]), "features", "must be finite numbers")
    return table


def _pairs(column: pl.Series, lengths: Ints, source: Source) -> Floats | None:
    if column.null_count() == len(column):
        return None
    sizes = lengths * (lengths - 1) // 2
    found = column.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if (found != sizes).any():
        event = int(np.argmax(found != sizes))
        raise source.fault(event, "pairs", f"must have a number for each of {sizes[event]} pairs of candidates")
    pairs: Floats = column.filter(pl.Series(sizes > 0)).explode().fill_null(np.nan).to_numpy().copy()
    if not ((pairs >= 0) & (pairs <= 1)).all():
        row = int(np.argmin((pairs >= 0) & (pairs <= 1)))
        event = int(np.repeat(np.arange(len(sizes)), sizes)[row])
        raise source.fault(event, "pairs", f"{pairs[row]} is no probability")
    return pairs


@kernel
def _first_repeated(offsets: Ints, values: Ints, most: int, stamps: Ints) -> int:
    """The first row whose value is no number below `most` (0: number of candidates), or occurs again; -1: none."""
    for t in range(len(offsets) - 1):
        bound = most if most > 0 else offsets[t + 1] - offsets[t]
        for i in range(offsets[t], offsets[t + 1]):
            if not 0 <= values[i] < bound or stamps[values[i]] == t + 1:
                return i
            stamps[values[i]] = t + 1
    return -1


def checked(log: Log, source: Source) -> Log:
    """The log, if it can be true; otherwise a ValueError that names file, row and field.

    Parameters
    ----------
    log
        What was read or made.
    source
        Where.
    """
    lengths, seen = log.lengths, log.seen

    def owner(row: int) -> int:
        return int(np.searchsorted(log.offsets, row, "right")) - 1

    def refuse(bad: NDArray[np.bool_], field: str, what: Callable[[int], str]) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise source.fault(owner(row) if len(bad) == len(log.item) else row, field, what(row))

    def named(row: int) -> str:
        return f"candidate '{excerpt(log.names[log.item[row]])}'"

    if log.events.n_unique() < len(log.events):
        refuse(log.events.is_duplicated().to_numpy(), "event", lambda t: f"'{log.events[t]}' occurs twice")
    refuse(
        (log.k < 1) | (log.k > lengths), "k", lambda t: f"{log.k[t]}: must be from 1 to {lengths[t]} candidates"
    )
    misplaced = _first_repeated(log.offsets, log.place, 0, np.zeros(int(lengths.max()), np.int64))
    if misplaced >= 0:
        what = "must hold each number from 0 to the number of candidates - 1 once"
        raise source.fault(owner(misplaced), "place", what)
    twice = _first_repeated(log.offsets, log.item, len(log.names), np.zeros(len(log.names), np.int64))
    if twice >= 0:
        raise source.fault(owner(twice), "candidates", f"{named(twice)} occurs twice")
    chance, known = log.chance, ~np.isnan(log.chance)
    refuse(known & ~((chance >= 0) & (chance <= 1 + _SUM)), "chance", lambda row: (
        f"{chance[row]} of {named(row)}: must be a probability, from 0 to 1"))  # fmt: skip
    refuse(seen & (chance == 0), "chance", lambda row: f"0 of {named(row)}, which was seen")
    sums, counts = (np.add.reduceat(part, log.offsets[:-1]) for part in (chance, known))
    refuse(
        (counts > 0) & (counts < lengths), "chance", lambda _: "is there for some candidates and not for others"
    )
    refuse((counts > 0) & (np.abs(sums - log.k) > _SUM * lengths), "chance", lambda t: (
        f"the chances add up to {sums[t]:.6g}, and {log.k[t]} of the candidates are seen: a chance is the "
        "probability to be among the first k"))  # fmt: skip
    told = ~np.isnan(log.answer)
    refuse(told & ~seen, "answer", lambda row: (
        f"{log.answer[row]:g} about {named(row)}, which was shown at place {log.place[row] + 1} and not seen "
        f"(k = {log.k[owner(row)]})"))  # fmt: skip
    refuse(told & ~((log.answer >= log.lowest) & (log.answer <= log.highest)), "answer", lambda row: (
        f"{log.answer[row]:g} about {named(row)}: must be from {log.lowest:g} to {log.highest:g}"))  # fmt: skip
    return log


def frame_of(log: Log) -> pl.DataFrame:
    """A log as a table with one row per decision.

    Parameters
    ----------
    log
        What to convert.
    """
    rows = pl.DataFrame({
        "owner": log.owner,
        "candidates": pl.Series(log.names, dtype=pl.String).gather(log.item),
        "place": log.place,
        **{name: pl.Series(getattr(log, name), nan_to_null=True) for name in ("chance", "answer", "answered")},
    })  # fmt: skip
    if log.features is not None:
        rows = rows.with_columns(features=pl.Series(log.features).cast(pl.List(pl.Float32)))
    lists = rows.group_by("owner", maintain_order=True).agg(pl.all()).drop("owner")
    missing = [name for name in ("chance", "answered") if np.isnan(getattr(log, name)).all()]
    empty = [pl.lit(None, COLUMNS[name]).alias(name) for name in missing]
    head = pl.DataFrame({
        "event": log.events,
        "time": pl.Series(log.time, nan_to_null=True),
        "learner": pl.Series(log.learners, dtype=pl.String).gather(log.learner),
        "reason": pl.Series([text or None for text in log.reasons], dtype=pl.String).gather(log.learner),
        "k": log.k,
    })  # fmt: skip
    parts = {**head.to_dict(), **lists.with_columns(empty).to_dict()}
    if log.pairs is not None:
        ends = np.cumsum(log.lengths * (log.lengths - 1) // 2)
        parts["pairs"] = pl.Series([log.pairs[a:b].tolist() for a, b in zip([0, *ends[:-1]], ends, strict=True)])
    kept = [name for name in COLUMNS if name in parts]
    return pl.DataFrame({name: parts[name] for name in kept}).cast({name: COLUMNS[name] for name in kept})
