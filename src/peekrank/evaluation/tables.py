"""Logs of other systems: tables with one row per event and item, whose columns are named by the user."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peekrank._util.extras import extra
from peekrank._util.text import excerpt, pluralize
from peekrank._util.untrusted_files import check_memory, read_text
from peekrank.evaluation.jsonl import numbered_records
from peekrank.evaluation.log import Log, Source
from peekrank.evaluation.log_checks import checked
from peekrank.evaluation.softmax import add_softmax_propensities
from peekrank.jobs.parquet import UnreadableError, read_parquet
from peekrank.spec import suggest
from peekrank.types import Floats, Ints

with extra("cli"):
    import polars as pl

ROLES = {
    "event": "name of the list shown, such as a session or a request",
    "item": "name of the candidate",
    "position": "where it was shown; empty if it was not shown",
    "reward": "the answer about it: a click, a purchase, a grade",
    "propensity": "probability that the item is among those seen",
    "score": "the logger's own score of the item",
    "prediction": "what a model or an LLM judge predicts for the item",
    "k": "number of items seen, from the top",
    "time": "time of the event, in seconds or as a date",
    "features": "numbers about the item, joined by +",
}
_NEEDED = ("event", "item", "reward")
_ROW = 200  # bytes of a row in memory
_TRUE, _FALSE = ("true", "yes"), ("false", "no")


class TableLog(NamedTuple):
    """A log from a table, and what the table lacks."""

    log: Log
    notes: list[str]  # each missing column, with what follows from it

    @property
    def has_propensities(self) -> bool:
        """Whether values can be estimated, and not only bounded."""
        return not np.isnan(self.log.propensity).all()


def parse_columns(text: str) -> dict[str, str]:
    """Parse ``event=session,item=sku``, or a TOML file with such names under ``[columns]``.

    >>> parse_columns("event=session, item=sku, reward=clicked")
    {'event': 'session', 'item': 'sku', 'reward': 'clicked'}
    """
    if text.endswith(".toml"):
        try:
            columns = tomllib.loads(read_text(Path(text))).get("columns")
        except FileNotFoundError:
            raise ValueError(f"{text} does not exist") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{text} is not TOML: {excerpt(str(error), 160)}") from None
        if not isinstance(columns, dict):
            raise ValueError(f"{text} has no table [columns]")
    else:
        columns = {}
        for part in text.split(","):
            role, equals, name = (piece.strip() for piece in part.partition("="))
            if not equals or not name:
                raise ValueError(f"columns: '{excerpt(part)}': must be ROLE=COLUMN, such as event=session")
            if role in columns:
                raise ValueError(f"columns: '{excerpt(role)}' is given twice")
            columns[role] = name
    return check_roles(columns)


def check_roles(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a table by role. Raises ValueError if a role is unknown, or a needed one missing."""
    for role, name in columns.items():
        if role not in ROLES:
            raise ValueError(f"columns: unknown role '{excerpt(role)}': {suggest(role, ROLES)}")
        if not isinstance(name, str):
            raise ValueError(f"columns: {role}: must be the name of a column")
    for role in _NEEDED:
        if role not in columns:
            raise ValueError(f"columns: {role} is missing ({ROLES[role]}); nothing can be concluded without it")
    return dict(columns)


def read_table_log(
    path: str | PathLike[str],
    columns: Mapping[str, str],
    *,
    k: int | None = None,
    temperature: float | None = None,
    min_feedback: float = 0.0,
    max_feedback: float = 1.0,
) -> TableLog:
    r"""Read a log from a table with one row per event and item.

    Rows without a position are candidates that were not shown. If k is not given, items with a reward were seen.
    Raises ValueError naming the file, row and column.

    Parameters
    ----------
    path
        A file ``.csv``, ``.parquet``, or JSON lines.
    columns
        The name of the column of each role, of `ROLES`.
    k
        Number of items seen in each event, from the top; None: by the rewards, or the column k.
    temperature
        Temperature of a logger that drew its rankings from a softmax (Plackett-Luce) of the scores, if it did.
    min_feedback, max_feedback
        Range of rewards.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "shown.csv")
    >>> _ = path.write_text("visit,sku,rank,clicked,p\n1,tea,1,1,0.7\n1,milk,2,,0.3\n")
    >>> roles = {"event": "visit", "item": "sku", "position": "rank", "reward": "clicked", "propensity": "p"}
    >>> table = read_table_log(path, roles)
    >>> table.log.propensity, table.log.feedback
    (array([0.7, 0.3]), array([ 1., nan]))
    """
    path = Path(path)
    roles = check_roles(columns)
    frame = _frame(path, roles)
    if frame.is_empty():
        raise ValueError(f"{path.name}: has no rows")
    if k is not None and k < 1:
        raise ValueError(f"k = {k}: must be at least 1")
    if temperature is not None and ("score" not in roles or "propensity" in roles):
        raise ValueError(
            "temperature: needs the column of scores that the logger drew by, score=..., and no propensities"
        )
    return _Builder(path.name, frame, roles).log(k, temperature, min_feedback, max_feedback)


def _wanted(roles: Mapping[str, str]) -> list[str]:
    """Return the names of the columns that are read."""
    return [part for role, name in roles.items() for part in (name.split("+") if role == "features" else [name])]


def _frame(path: Path, roles: Mapping[str, str]) -> pl.DataFrame:
    """Read the columns of a table."""
    wanted = list(dict.fromkeys(_wanted(roles)))
    try:
        if path.suffix == ".parquet":
            frame = read_parquet(path)
        elif path.suffix == ".csv":
            if why := check_memory(_ROW * _lines(path), path.stat().st_size):
                raise UnreadableError(why)
            frame = pl.read_csv(path, infer_schema=False, glob=False)
        else:
            with path.open("rb") as file:
                records = [record for _, record in numbered_records(file, path.name)]
            present = {name for record in records for name in record}
            frame = pl.DataFrame([
                pl.Series(name, [r.get(name) for r in records], strict=False)
                for name in wanted if name in present
            ])  # fmt: skip
            _check_names(wanted, sorted(present), path.name)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except UnreadableError as error:
        raise ValueError(f"{path.name}: {error}") from None
    except (pl.exceptions.PolarsError, TypeError, OverflowError, OSError) as error:
        why = excerpt(" ".join(str(error).partition("\n")[0].split()), 160)
        raise ValueError(f"{path.name}: cannot be read as a table ({why})") from None
    _check_names(wanted, frame.columns, path.name)
    return frame.select(wanted)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _check_names(wanted: list[str], present: list[str], file: str) -> None:
    for name in wanted:
        if name not in present:
            raise ValueError(f"{file}: has no column '{excerpt(name)}': {suggest(name, present)}")


class _Builder:
    """A table on its way to a log."""

    def __init__(self, file: str, frame: pl.DataFrame, roles: Mapping[str, str]) -> None:
        self._file, self._frame, self._roles = file, frame, roles
        event = self._texts("event")
        codes = event.cast(pl.Enum(event.unique(maintain_order=True))).to_physical().to_numpy().astype(np.int64)
        self.notes: list[str] = []
        order = np.argsort(codes, kind="stable")
        times = self._times(codes)
        if times is not None:
            late = np.argsort(times, kind="stable")  # events in the order of time
            places = np.empty_like(late)
            places[late] = np.arange(len(late))
            order = np.argsort(places[codes], kind="stable")
            times = times[late]
        self._order = order  # rows by event
        codes = codes[order]
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        self.offsets = np.append(starts, len(codes))
        self.lengths = np.diff(self.offsets)
        self.owner = np.repeat(np.arange(len(starts)), self.lengths)
        self.events = event.gather(order[starts])
        self.times = np.full(len(starts), np.nan) if times is None else times
        self.source = Source(file, "the event from row", order[starts] + 1)

    def log(self, k: int | None, temperature: float | None, min_feedback: float, max_feedback: float) -> TableLog:
        """Build and check the log."""
        items, reward = self._texts("item").gather(self._order), self._numbers("reward")
        position, shown = self._positions()
        seen_k = self._seen(k, position, shown, reward)
        names = items.unique(maintain_order=True)
        propensity = self._numbers("propensity")
        if temperature is None and "propensity" not in self._roles:
            propensity = self._implied(seen_k)
        elif temperature is None:
            self._check_candidates(propensity, seen_k)
        elif (seen_k == self.lengths).all():
            raise ValueError(
                f"{self._file}: all rows of every event were seen, so the candidates that the logger left out are "
                "missing. Add a row without a position for each, with its score. If there were none, leave "
                "--temperature out"
            )
        features = self._features()
        unseen = position >= np.repeat(seen_k, self.lengths)
        log = Log(
            events=self.events,
            time=self.times,
            k=seen_k,
            learner=np.zeros(len(seen_k), np.int64),
            offsets=self.offsets,
            item=items.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64),
            position=position,
            propensity=propensity,
            feedback=np.where(unseen & (reward == 0), np.nan, reward),
            feedback_time=np.full(len(reward), np.nan),
            names=tuple(names),
            learners=(self._file,),
            reasons=("" if "propensity" in self._roles else "the table has no column of propensities",),
            min_feedback=min_feedback,
            max_feedback=max_feedback,
            features=features,
            scores=self._numbers("score") if "score" in self._roles else None,
            predictions=self._numbers("prediction") if "prediction" in self._roles else None,
        )
        if temperature is not None:
            log = add_softmax_propensities(log, temperature, self._file)
        return TableLog(checked(log, self.source), self.notes)

    def _positions(self) -> tuple[Ints, Any]:
        """Return the position of each row from 0, and whether it was shown: rows without a position come last."""
        rows = len(self._order)
        given = self._numbers("position")
        shown = ~np.isnan(given)
        if "position" not in self._roles:
            self.notes.append(
                "position is missing: each event was shown in the order of its rows. If not, name the column"
            )
            return np.arange(rows) - np.repeat(self.offsets[:-1], self.lengths), np.ones(rows, np.bool_)
        by = np.lexsort((np.arange(rows), np.where(shown, given, np.inf), self.owner))
        twice = np.flatnonzero((given[by][1:] == given[by][:-1]) & (self.owner[by][1:] == self.owner[by][:-1]))
        if len(twice):
            row = int(by[twice[0] + 1])
            what = f"position {given[row]:g} occurs twice in an event; is '{self._roles['event']}' one list?"
            raise self.source.fault(int(self.owner[row]), self._roles["position"], what)
        position = np.empty(rows, np.int64)
        position[by] = np.arange(rows) - np.repeat(self.offsets[:-1], self.lengths)
        return position, shown

    def _seen(self, k: int | None, position: Ints, shown: Any, reward: Floats) -> Ints:
        """Return how many items of each event were seen."""
        counts = np.add.reduceat(shown, self.offsets[:-1], dtype=np.int64)
        if k is not None:
            return np.asarray(np.minimum(k, np.maximum(counts, 1)))
        if "k" in self._roles:
            values = self._numbers("k")[self.offsets[:-1]]
            wrong = ~((values >= 1) & (values == np.round(values)))
            if wrong.any():
                what = "must be a whole number from 1 on"
                raise self.source.fault(int(np.argmax(wrong)), self._roles["k"], what)
            return np.asarray(values.astype(np.int64))
        answered = ~np.isnan(reward) & shown
        last = np.maximum.reduceat(np.where(answered, position + 1, 0), self.offsets[:-1])
        self.notes.append(
            "k is missing: of each event, the items down to the last one with a reward count as seen. If people "
            "saw more or fewer, give --k or a column k"
        )
        return np.asarray(np.maximum(last, 1))

    def _implied(self, k: Ints) -> Floats:
        """Return the propensities of a table that has none: 1 if all candidates were seen, else unknown."""
        if (k == self.lengths).all():
            self.notes.append(
                "propensity is missing, but all candidates of the table were seen. So only orders of what was "
                "shown can be compared, and only if answers do not depend on the position. To judge other items, "
                "add a row for each candidate that was not shown, without a position"
            )
            return np.ones(len(self._order))
        self.notes.append(
            "propensity is missing: no value can be estimated, only bounded. The bounds hold for every logger. "
            "If it draws rankings from a softmax of scores, give score and --temperature; else let it randomise "
            "and log the probability that each item is among those seen"
        )
        return np.full(len(self._order), np.nan)

    def _check_candidates(self, propensity: Floats, k: Ints) -> None:
        """Raise ValueError if the table holds only what was seen, and the propensities do not allow for that."""
        sums = np.add.reduceat(propensity, self.offsets[:-1])
        short = (k == self.lengths) & (sums < k - 1e-6 * self.lengths)
        if short.any():
            event = int(np.argmax(short))
            raise self.source.fault(
                event,
                self._roles["propensity"],
                f"all {pluralize(int(self.lengths[event]), 'row')} of event '{excerpt(self.events[event])}' were "
                f"seen, but their propensities add up to {sums[event]:.6g} only, so other candidates are missing. "
                "Add a row without a position for each, with its propensity. Or leave the propensity out",
            )

    def _features(self) -> Any:
        if "features" not in self._roles:
            return None
        columns = [self._column(name, "features") for name in self._roles["features"].split("+")]
        table = np.stack(columns, axis=1).astype(np.float32)
        if not np.isfinite(table).all():
            row = int(np.argmin(np.isfinite(table).all(axis=1)))
            raise self.source.fault(int(self.owner[row]), "features", "must be finite numbers")
        return table

    def _texts(self, role: str) -> pl.Series:
        """Return a column of names, in the order of the table."""
        column = self._frame[self._roles[role]]
        if column.dtype.is_nested() or column.null_count() == len(column):
            raise ValueError(f"{self._file}, column '{column.name}': must hold names")
        if column.null_count():
            row = int(column.is_null().arg_max() or 0) + 1
            raise ValueError(f"{self._file}, row {row:,}, column '{column.name}': is missing")
        return column.cast(pl.String)

    def _numbers(self, role: str) -> Floats:
        """Return a column of numbers, by event; NaN where it is missing."""
        if role not in self._roles:
            return np.full(len(self._order), np.nan)
        return self._column(self._roles[role], role)

    def _column(self, name: str, role: str) -> Floats:
        return _as_numbers(self._frame[name], f"{self._file}, %s, column '{excerpt(name)}' ({role})")[self._order]

    def _times(self, codes: Ints) -> Floats | None:
        """Return the time of each event: that of its first row."""
        if "time" not in self._roles:
            self.notes.append("time is missing: events count in the order of the table")
            return None
        column = self._frame[self._roles["time"]]
        if column.dtype == pl.String:
            dates = column.str.to_datetime(strict=False, time_zone="UTC")
            column = column if dates.null_count() > column.null_count() else dates
        if column.dtype.is_temporal():
            column = column.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
        times = _as_numbers(column, f"{self._file}, %s, column '{column.name}' (time)")
        first = np.full(int(codes.max()) + 1, np.nan)
        first[codes[::-1]] = times[::-1]
        return first


def _as_numbers(column: pl.Series, where: str) -> Floats:
    """Return a column as finite numbers, NaN where it is missing; texts such as `true` count as 1."""
    if column.dtype == pl.String:
        texts = column.str.strip_chars().str.to_lowercase()
        numbers = texts.replace_strict(
            dict.fromkeys(_TRUE, 1.0) | dict.fromkeys(_FALSE, 0.0), default=texts.cast(pl.Float64, strict=False),
            return_dtype=pl.Float64,
        )  # fmt: skip
        wrong = numbers.is_null() & (texts != "")
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers, wrong = column.cast(pl.Float64), pl.Series([False]).new_from_index(0, len(column))
    else:
        raise ValueError(f"{where % 'all rows'}: is {column.dtype}, but must be numbers")
    wrong = (wrong | ~(numbers.fill_null(0.0).abs() < 1e300)).fill_null(value=False)
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise ValueError(f"{where % f'row {row + 1:,}'}: '{excerpt(str(column[row]))}' is not a number")
    return numbers.fill_null(np.nan).to_numpy(writable=True)
