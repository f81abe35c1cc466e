"""Logs as Parquet, with one row per decision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from peekrank._util.extras import extra
from peekrank._util.text import excerpt
from peekrank.evaluation.log import (
    COLUMNS,
    HEADER,
    REQUIRED,
    Log,
    Source,
    check_header,
    column_type,
    log_from_frame,
    not_a_log,
)
from peekrank.evaluation.log_checks import checked
from peekrank.jobs.parquet import UnreadableError, count_rows, read_parquet, read_slices
from peekrank.spec import suggest

with extra("cli"):
    import polars as pl


def read_table(path: Path) -> Log:
    """Read a log from Parquet. Raises ValueError naming the file, row and field."""
    try:
        frame = read_parquet(path)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except UnreadableError as error:
        raise ValueError(f"{path} {error}") from None
    source = Source(path.name, "row")
    check_columns(frame.columns, path.name)
    if frame.is_empty():
        raise not_a_log(path.name, "has no rows")
    return log_from_table(frame, source, *feedback_range(frame, source))


def last_event(path: Path) -> str:
    """Return the event of the last decision in a file."""
    source = Source(path.name, "row")
    try:
        rows = count_rows(path)
        for frame in read_slices(path, 1, first=max(0, rows - 1), columns=["event"]):
            return str(select_typed(frame, ("event",), source)["event"][0])
    except UnreadableError as error:
        raise ValueError(f"{path} {error}") from None
    raise not_a_log(path.name, "has no rows")


def check_columns(names: Sequence[str], file: str) -> None:
    """Raise ValueError if a required column is missing, or if one is unknown."""
    if missing := [name for name in (*HEADER, *REQUIRED) if name not in names]:
        raise not_a_log(file, f"has no column {', '.join(missing)}")
    for name in names:
        if name not in COLUMNS and name not in HEADER:
            raise ValueError(f"{file}: unknown field '{excerpt(name)}': {suggest(name, COLUMNS)}")


def feedback_range(frame: pl.DataFrame, source: Source) -> tuple[float, float]:
    """Check the columns of the header, which are the same in all rows, and return the range of feedback."""
    header = [_typed(frame[name], kind, source) for name, kind in HEADER.items()]
    for column in header:
        if (other := column.ne_missing(column[0])).any():
            raise source.fault(int(other.arg_max() or 0), column.name, "must be the same in all rows")
    return check_header({column.name: column[0] for column in header}, source.file)


def log_from_table(
    frame: pl.DataFrame,
    source: Source,
    min_feedback: float,
    max_feedback: float,
    names: tuple[str, ...] | None = None,
) -> Log:
    """Convert and check decisions; parameters are those of `log_from_frame`."""
    table = pl.DataFrame([
        _typed(frame[name], kind, source)
        if name in frame.columns
        else pl.Series(name, [None], column_type(kind)).new_from_index(0, len(frame))
        for name, kind in COLUMNS.items()
    ])  # fmt: skip
    return checked(log_from_frame(table, source, min_feedback, max_feedback, names), source)


def select_typed(frame: pl.DataFrame, names: Sequence[str], source: Source) -> pl.DataFrame:
    """Return some columns of `COLUMNS` with their types, those that are present."""
    return pl.DataFrame([_typed(frame[name], COLUMNS[name], source) for name in names if name in frame.columns])


def _typed(column: pl.Series, text: str, source: Source) -> pl.Series:
    """Convert a column to a type of a log."""
    kind, why = column_type(text), f"is {column.dtype}"
    try:
        converted = column.cast(kind)
        if converted.dtype == kind:  # polars casts the fields of a struct instead
            return converted
    except pl.exceptions.PolarsError as error:
        why = " ".join(str(error).split())
    raise ValueError(f"{source.file}, field '{column.name}': must be {kind} ({excerpt(why, 160)})")
