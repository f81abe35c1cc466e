"""Logs for evaluation: decisions with the list shown, the propensities of candidates, and the feedback.

A file has one record per decision, as Parquet or JSON lines. docs/evaluation/log.md describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from peekrank._util.atomic import write_whole
from peekrank._util.extras import LazyModule
from peekrank._util.fork import check_polars
from peekrank._util.text import excerpt, shown
from peekrank.types import Features, Floats, Ints

if TYPE_CHECKING:
    import polars as pl
else:
    pl = LazyModule("polars", "cli")

T = TypeVar("T")
NAME, VERSION = "peekrank-log", 1

COLUMNS = {
    "event": "String", "time": "Float64", "learner": "String", "reason": "String", "k": "Int64",
    "candidates": "List String", "position": "List Int64", "propensity": "List Float64",
    "feedback": "List Float64", "feedback_time": "List Float64",
    "features": "List List Float32", "pairs": "List Float64",
    "score": "List Float64", "prediction": "List Float64",
    "cluster": "String", "arm": "String", "share": "Float64", "own": "List Int64", "expected": "List Float64",
}  # fmt: skip
ARMS = ("learner", "own", "unmixed", "mixed")  # the last two if the share of the lists mixes both orders
REQUIRED = ("event", "k", "candidates", "position")
HEADER = {"format": "String", "version": "Int64", "min_feedback": "Float64", "max_feedback": "Float64"}


def column_type(text: str) -> Any:
    """Return the type of polars that a text of `COLUMNS` or `HEADER` names.

    >>> column_type("List Float64")
    List(Float64)
    """
    outer, _, inner = text.partition(" ")
    return pl.List(column_type(inner)) if inner else getattr(pl, outer)


def frame_from_fields(fields: dict[str, list[Any]]) -> pl.DataFrame:
    """Return a table with one row per decision, whose columns are the fields of `COLUMNS`."""
    check_polars()
    return pl.DataFrame([
        pl.Series(name, fields[name], column_type(kind), strict=False) for name, kind in COLUMNS.items()
    ])  # fmt: skip


class Log(NamedTuple):
    """Decisions and feedback in columns: decision t has the rows ``offsets[t]:offsets[t + 1]``, one per candidate.

    The first fields are per decision, the next ones per row. NaN means unknown.
    """

    events: pl.Series  # unique name of each decision
    time: Floats  # time of each decision, in seconds
    k: Ints  # number of candidates seen, from the top
    learner: Ints  # index of the learner in `learners`
    offsets: Ints
    item: Ints  # index of the candidate in `names`
    position: Ints  # where it was shown, from 0
    propensity: Floats  # probability to be among the first k, given the past
    feedback: Floats  # NaN: not seen, or no feedback
    feedback_time: Floats  # in seconds
    names: tuple[str, ...]
    learners: tuple[str, ...]  # "specification @ version"
    reasons: tuple[str, ...]  # why a learner has no propensities; "" if it has
    min_feedback: float = 0.0  # declared range of feedback, which need not occur
    max_feedback: float = 1.0
    features: Features | None = None  # of each row
    pairs: Floats | None = None  # probability that candidates i < j are both seen: (0, 1), (0, 2) ...
    scores: Floats | None = None  # the app's score of each row; NaN: missing
    clusters: pl.Series | None = None  # for repeated lists, the event of the visitor's first list; else null
    arms: Ints | None = None  # with a holdout, index in `ARMS`; -1: the decision has none
    share: Floats | None = None  # of its lists in the app's own order, or a mixture
    own: Ints | None = None  # rank of each row in the app's own order; -1: unknown
    expected: Floats | None = None  # expected weight of each row in the learner's list
    predictions: Floats | None = None  # outside prediction of each row's feedback, on any scale; NaN: missing

    @property
    def lengths(self) -> Ints:
        """Number of candidates of each decision."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> Ints:
        """Decision that each row belongs to."""
        return np.repeat(np.arange(len(self.k)), self.lengths)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Whether the candidate of each row was among the first k."""
        return np.asarray(self.position < np.repeat(self.k, self.lengths))

    @property
    def repeats(self) -> NDArray[np.bool_]:
        """Whether each decision repeats an earlier list for the same visitor."""
        if self.clusters is None:
            return np.zeros(len(self.k), np.bool_)
        return np.asarray(self.clusters.is_not_null().to_numpy())

    def select(self, events: NDArray[np.bool_]) -> Log:
        """Return the log of some of the decisions, in the same order.

        >>> fields = {"k": 1, "candidates": ["a", "b"], "position": [1, 0]}
        >>> log = log_from_records([{"event": "x", **fields}, {"event": "y", **fields}])
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
            **{
                name: getattr(self, name)[rows]
                for name in ("item", "position", "propensity", "feedback", "feedback_time")
            },
            offsets=np.append(0, np.cumsum(lengths[events])),
            features=None if self.features is None else self.features[rows],
            pairs=pairs,
            scores=None if self.scores is None else self.scores[rows],
            clusters=None if self.clusters is None else self.clusters.filter(pl.Series(events)),
            arms=None if self.arms is None else self.arms[events],
            share=None if self.share is None else self.share[events],
            own=None if self.own is None else self.own[rows],
            expected=None if self.expected is None else self.expected[rows],
            predictions=None if self.predictions is None else self.predictions[rows],
        )


class Scope(NamedTuple):
    """Facts about a whole log, needed before its first decision is evaluated."""

    decisions: int
    names: tuple[str, ...]  # of all candidates
    lengths: Ints  # numbers of candidates that occur, ascending
    k: int  # largest number of candidates seen
    shortest: tuple[int, int]  # number of candidates, and of those seen, where most are not seen
    min_feedback: float
    max_feedback: float
    holdout: bool  # whether there are lists in the app's own order, chosen at random


def scope_of_log(log: Log) -> Scope:
    """Return the scope of a log in memory."""
    short, lengths = int(np.argmax(log.lengths - log.k)), log.lengths
    return Scope(
        len(log.k), log.names, np.unique(lengths), int(log.k.max()), (int(lengths[short]), int(log.k[short])),
        log.min_feedback, log.max_feedback, log.arms is not None,
    )  # fmt: skip


class Source(NamedTuple):
    """Origin of decisions, for error messages."""

    file: str
    unit: str = "decision"
    numbers: Ints | None = None  # line of each decision; None: rows counted from 1
    first: int = 0  # rows before these decisions

    def fault(self, event: int, field: str, what: str) -> ValueError:
        """Return an error that names the file, row and field."""
        number = event + 1 + self.first if self.numbers is None else self.numbers[event]
        return ValueError(f"{self.file}, {self.unit} {number}, field '{field}': {what}")


def read_log(path: str | PathLike[str]) -> Log:
    """Read a log. Raises ValueError naming the file, row and field.

    Parameters
    ----------
    path
        A Parquet file if the name ends with ``.parquet``, JSON lines otherwise.

    >>> import tempfile
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "feedback": [None, 1]}
    >>> log = log_from_records([record])
    >>> path = Path(tempfile.mkdtemp(), "log.jsonl")
    >>> write_log(path, log)
    >>> read_log(path).feedback
    array([nan,  1.])
    """
    path = Path(path)
    if path.suffix == ".parquet":
        from peekrank.evaluation.log_parquet import read_table

        return read_table(path)
    from peekrank.evaluation.jsonl import read_lines

    return read_lines(path)


def write_log(path: str | PathLike[str], log: Log, *, durable: bool = False) -> None:
    """Write a log atomically: Parquet if the name ends with ``.parquet``, JSON lines otherwise.

    Parameters
    ----------
    path
        File to write.
    log
        The log.
    durable
        Wait until the file is on the disk, so that it survives a power cut.
    """
    path, content = Path(path), BytesIO()
    if path.suffix == ".parquet":
        header = [
            pl.lit(value, column_type(HEADER[name])).alias(name) for name, value in header_from_log(log).items()
        ]
        frame_from_log(log).select(*header, pl.all()).write_parquet(content)
        write_whole(path, lambda part: part.write_bytes(content.getbuffer()), durable=durable)
    else:
        from peekrank.evaluation.jsonl import write_lines

        write_whole(path, lambda part: write_lines(part, log), durable=durable)


def log_from_records(
    records: Iterable[dict[str, Any]], *, min_feedback: float = 0.0, max_feedback: float = 1.0
) -> Log:
    """Build a log from decisions in the form of JSON lines.

    Parameters
    ----------
    records
        A dictionary of fields for each decision.
    min_feedback, max_feedback
        Range of feedback.

    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "propensity": [0.25, 0.75]}
    >>> log_from_records([record]).propensity
    array([0.25, 0.75])
    """
    from peekrank.evaluation.jsonl import log_from_numbered_records

    return log_from_numbered_records(enumerate(records, 1), Source("log"), min_feedback, max_feedback)


def single_learner(log: Log, file: str = "log") -> str:
    """Return the learner that made all decisions of a log. Raises ValueError if there are several.

    Parameters
    ----------
    log
        The log.
    file
        Name of the log in an error.
    """
    if (log.learner != log.learner[0]).any():
        event = int(np.argmax(log.learner != log.learner[0]))
        first, second = log.learners[log.learner[0]], log.learners[log.learner[event]]
        what = f"is '{excerpt(second)}' after '{excerpt(first)}'; the log must have one learner"
        raise Source(file, "row").fault(event, "learner", what)
    return log.learners[int(log.learner[0])]


def header_from_log(log: Log) -> dict[str, Any]:
    """Return the header of a log."""
    return {"format": NAME, "version": VERSION, "min_feedback": log.min_feedback, "max_feedback": log.max_feedback}


def not_a_log(file: str, why: str) -> ValueError:
    """Return the error for a file that is no log: what it needs, and the page that describes it.

    >>> not_a_log("sales.csv", "has no header")
    ValueError('sales.csv is not a log: it has no header. A log has the columns event, k, candidates, position, and
    for an evaluation propensity and feedback; docs/evaluation/log.md describes it')
    """
    needed = f"the columns {', '.join(REQUIRED)}, and for an evaluation propensity and feedback"
    return ValueError(f"{file} is not a log: it {why}. A log has {needed}; docs/evaluation/log.md describes it")


def check_header(header: dict[str, Any], file: str) -> tuple[float, float]:
    """Check a header, and return the range of feedback. Raises ValueError if it is invalid."""
    if header.get("format") != NAME:
        raise not_a_log(file, f"has no header with the format '{NAME}'")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{file} is a log of version {shown(header.get('version'))}; this release reads {VERSION}"
        )
    min_feedback, max_feedback = header.get("min_feedback", 0), header.get("max_feedback", 1)
    valid = all(type(value) in (int, float) and abs(value) < 1e300 for value in (min_feedback, max_feedback))
    if not valid or min_feedback >= max_feedback:
        limits = f"{shown(min_feedback)} to {shown(max_feedback)}"
        raise ValueError(f"{file}: feedback from {limits}: min_feedback must be below max_feedback")
    return float(min_feedback), float(max_feedback)


def log_from_frame(
    frame: pl.DataFrame,
    source: Source,
    min_feedback: float,
    max_feedback: float,
    names: tuple[str, ...] | None = None,
) -> Log:
    """Build a log, not yet checked, from a table with one row per decision.

    Parameters
    ----------
    frame
        Columns as in `COLUMNS`.
    source
        Origin that errors name.
    min_feedback, max_feedback
        Range of feedback.
    names
        Candidates of the whole log, if this is a part of one.
    """
    if frame.is_empty():
        raise ValueError(f"{source.file} contains no decision")
    for name in REQUIRED:
        if frame[name].null_count():
            raise source.fault(int(frame[name].is_null().arg_max() or 0), name, "is missing")
    lengths = frame["candidates"].list.len().cast(pl.Int64).to_numpy()
    if not lengths.all():
        raise source.fault(int(np.argmin(lengths)), "candidates", "must have at least one name")
    columns = {
        name: _per_row(frame[name], lengths, source) for name in ("propensity", "feedback", "feedback_time")
    }
    position = _per_row(frame["position"], lengths, source)
    scores, predictions = (
        None if frame[name].null_count() == len(frame) else _per_row(frame[name], lengths, source)
        for name in ("score", "prediction")
    )
    candidates = frame["candidates"].explode()
    if candidates.null_count():
        owner = np.repeat(np.arange(len(lengths)), lengths)
        raise source.fault(int(owner[candidates.is_null().arg_max() or 0]), "candidates", "a name is missing")
    item, names = _coded(candidates, names)
    for name in ("learner", "reason"):
        if (wrong := frame[name].str.contains("\0", literal=True).fill_null(value=False)).any():
            raise source.fault(int(wrong.arg_max() or 0), name, "must not contain the character NUL")
    people = frame.select(pl.col("learner").fill_null(""), pl.col("reason").fill_null(""))
    learner, pairs = _coded(people.select(pl.concat_str("learner", pl.lit("\0"), "reason"))["learner"])
    learners, reasons = zip(*(pair.split("\0") for pair in pairs), strict=True)
    return Log(
        frame["event"], frame["time"].fill_null(np.nan).to_numpy(), frame["k"].to_numpy().copy(), learner,
        np.append(0, np.cumsum(lengths)), item, position, columns["propensity"], columns["feedback"],
        columns["feedback_time"], names, learners, reasons, min_feedback, max_feedback,
        _features(frame["features"], lengths, source), _pairs(frame["pairs"], lengths, source), scores,
        None if frame["cluster"].null_count() == len(frame) else frame["cluster"],
        *_holdout(frame, lengths, source), predictions,
    )  # fmt: skip


def _holdout(
    frame: pl.DataFrame, lengths: Ints, source: Source
) -> tuple[Ints | None, Floats | None, Ints | None, Floats | None]:
    """Return the columns of a holdout, or None if no decision has one."""
    arm = frame["arm"]
    if arm.null_count() == len(frame):
        return None, None, None, None
    if (wrong := ~arm.is_in(ARMS).fill_null(value=True)).any():
        raise source.fault(int(wrong.arg_max() or 0), "arm", "must be 'learner' or 'own', or 'unmixed' or 'mixed'")
    known = arm.is_not_null().to_numpy()
    for name in ("share", "own", "expected", "propensity"):
        if (missing := known & frame[name].is_null().to_numpy()).any():
            raise source.fault(int(np.argmax(missing)), name, "is missing, though the decision has an arm")
    own = _per_row(frame["own"], lengths, source)
    codes = {name: n for n, name in enumerate(ARMS)}
    arms: Ints = np.array([codes.get(name, -1) for name in arm.to_list()], np.int64)
    share, expected = frame["share"].fill_null(np.nan).to_numpy(), _per_row(frame["expected"], lengths, source)
    return arms, share, np.where(np.isnan(own), -1, own).astype(np.int64), expected


def _coded(values: pl.Series, known: tuple[str, ...] | None = None) -> tuple[Ints, tuple[str, ...]]:
    """Return codes of strings, and the strings in the order of first appearance, or those known before."""
    texts = values.unique(maintain_order=True) if known is None else pl.Series(known, dtype=pl.String)
    codes: Ints = values.cast(pl.Enum(texts)).to_physical().to_numpy().astype(np.int64)
    return codes, tuple(texts.to_list()) if known is None else known


def _per_row(column: pl.Series, lengths: Ints, source: Source) -> NDArray[Any]:
    """Flatten a column of lists with one number per candidate; NaN or -1 if one is missing."""
    sizes = column.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if (wrong := (sizes != lengths) & (sizes >= 0)).any():
        event = int(np.argmax(wrong))
        raise source.fault(event, column.name, f"has {sizes[event]} numbers for {lengths[event]} candidates")
    values = column.drop_nulls().explode()
    if values.dtype.is_integer():
        values = values.fill_null(-1)
    numbers = values.to_numpy(writable=True)
    if not column.null_count():
        return numbers
    out = np.full(int(lengths.sum()), np.nan)
    out[np.repeat(sizes >= 0, lengths)] = numbers
    return out


def _features(column: pl.Series, lengths: Ints, source: Source) -> Features | None:
    if column.null_count() == len(column):
        return None
    sizes = column.list.len().cast(pl.Int64).fill_null(0).to_numpy()
    if (sizes != lengths).any():
        event = int(np.argmax(sizes != lengths))
        raise source.fault(event, "features", f"has {sizes[event]} lists for {lengths[event]} candidates")
    inner = column.explode()
    widths = inner.list.len().cast(pl.Int64).fill_null(0).to_numpy()
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if (widths != widths[0]).any() or widths[0] == 0:
        row = int(np.argmax(widths != widths[0]))
        what = f"a candidate has {widths[row]} features, but the first one has {widths[0]}"
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
    counts = column.list.len().cast(pl.Int64).fill_null(-1).to_numpy()
    if (counts != sizes).any():
        event = int(np.argmax(counts != sizes))
        raise source.fault(event, "pairs", f"must have a number for each of {sizes[event]} pairs of candidates")
    pairs: Floats = column.filter(pl.Series(sizes > 0)).explode().fill_null(np.nan).to_numpy().copy()
    if not ((pairs >= 0) & (pairs <= 1)).all():
        row = int(np.argmin((pairs >= 0) & (pairs <= 1)))
        event = int(np.repeat(np.arange(len(sizes)), sizes)[row])
        raise source.fault(event, "pairs", f"{pairs[row]} is not a probability")
    return pairs


def frame_from_log(log: Log) -> pl.DataFrame:
    """Convert a log to a table with one row per decision.

    Parameters
    ----------
    log
        The log.
    """
    check_polars()
    numbers = ("propensity", "feedback", "feedback_time")
    rows = pl.DataFrame({
        "owner": log.owner,
        "candidates": pl.Series(log.names, dtype=pl.String).gather(log.item),
        "position": log.position,
        **{name: pl.Series(getattr(log, name), nan_to_null=True) for name in numbers},
    })  # fmt: skip
    for name, column in (("score", log.scores), ("prediction", log.predictions)):
        if column is not None:
            rows = rows.with_columns(pl.Series(name, column, nan_to_null=True))
    if log.features is not None:
        rows = rows.with_columns(features=pl.Series(log.features).cast(pl.List(pl.Float32)))
    lists = rows.group_by("owner", maintain_order=True).agg(pl.all()).drop("owner")
    missing = [name for name in ("propensity", "feedback_time") if np.isnan(getattr(log, name)).all()]
    empty = [pl.lit(None, column_type(COLUMNS[name])).alias(name) for name in missing]
    head = pl.DataFrame({
        "event": log.events,
        "time": pl.Series(log.time, nan_to_null=True),
        "learner": pl.Series(log.learners, dtype=pl.String).gather(log.learner),
        "reason": pl.Series([text or None for text in log.reasons], dtype=pl.String).gather(log.learner),
        "k": log.k,
    })  # fmt: skip
    parts = {**head.to_dict(), **lists.with_columns(empty).to_dict()}
    if log.clusters is not None:
        parts["cluster"] = log.clusters
    if log.arms is not None:
        parts |= _holdout_parts(log)
    if log.pairs is not None:
        ends = np.cumsum(log.lengths * (log.lengths - 1) // 2)
        parts["pairs"] = pl.Series([log.pairs[a:b].tolist() for a, b in zip([0, *ends[:-1]], ends, strict=True)])
    present = [name for name in COLUMNS if name in parts]
    return pl.DataFrame({name: parts[name] for name in present}).cast(
        {name: column_type(COLUMNS[name]) for name in present}
    )


def _holdout_parts(log: Log) -> dict[str, pl.Series]:
    """Return the columns of a holdout, null for decisions without one."""
    arms: Ints = np.zeros(0, np.int64) if log.arms is None else log.arms
    share, own, expected = (np.asarray(part) for part in (log.share, log.own, log.expected))
    rows = [
        slice(a, b) if arm >= 0 else None
        for a, b, arm in zip(log.offsets[:-1].tolist(), log.offsets[1:].tolist(), arms.tolist(), strict=True)
    ]
    return {
        "arm": pl.Series([None if arm < 0 else ARMS[arm] for arm in arms.tolist()], dtype=pl.String),
        "share": pl.Series(np.where(arms < 0, np.nan, share), nan_to_null=True),
        "own": pl.Series([None if r is None else own[r].tolist() for r in rows], dtype=pl.List(pl.Int64)),
        "expected": pl.Series(
            [None if r is None else expected[r].tolist() for r in rows], dtype=pl.List(pl.Float64)
        ),
    }


def order_shown(shown: Sequence[T], ranked: Sequence[T], k: int) -> list[T]:
    """Return the items that an app showed, from the top, then the others as ranked.

    >>> order_shown(["tea", "rice"], ["milk", "rice", "tea", "soup"], k=2)
    ['tea', 'rice', 'milk', 'soup']
    """
    first, minimum = set(shown), min(k, len(ranked))
    if len(first) < len(shown) or not first <= set(ranked) or len(shown) < minimum:
        text = excerpt(str(list(shown)))
        raise ValueError(f"shown = {text}: must be at least {minimum} items of the decision, each once")
    return [*shown, *(item for item in ranked if item not in first)]
