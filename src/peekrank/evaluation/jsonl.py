"""Logs as JSON lines: a header, a line per decision, and lines of feedback that arrived later.

    {"format": "peekrank-log", "version": 1, "min_feedback": 0.0, "max_feedback": 1.0}
    {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "propensity": [0.25, 0.75]}
    {"event": "1", "feedback": {"b": 1}, "time": 1700000000.5}

Such a file only grows, so a process can append decisions and feedback as they happen (`LogWriter`).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import bounded_lines
from peekrank._util.untrusted_json import read_json
from peekrank.evaluation.log import (
    COLUMNS,
    NAME,
    REQUIRED,
    VERSION,
    Log,
    Source,
    check_header,
    frame_from_fields,
    frame_from_log,
    header_from_log,
    log_from_frame,
    not_a_log,
    order_shown,
)
from peekrank.evaluation.log_checks import checked
from peekrank.spec import suggest
from peekrank.types import Decision, Learner

_SURROGATE = re.compile("[\ud800-\udfff]")
_CHUNK = 4096  # decisions converted at a time


def write_lines(path: Path, log: Log) -> None:
    """Write a log as JSON lines, with feedback in the lines of the decisions."""
    frame = frame_from_log(log)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header_from_log(log)) + "\n")
        for first in range(0, len(frame), _CHUNK):
            for row in frame[first : first + _CHUNK].iter_rows(named=True):
                record = {name: value for name, value in row.items() if value is not None}
                file.write(json.dumps(record, allow_nan=False) + "\n")


def read_lines(path: Path) -> Log:
    """Read a log from JSON lines. Raises ValueError naming the file, line and field."""
    try:
        with path.open("rb") as file:
            lines = numbered_records(file, path.name)
            try:
                _, header = next(lines, (1, {}))
            except ValueError:
                raise not_a_log(path.name, "does not hold lines of JSON") from None
            return log_from_numbered_records(lines, Source(path.name, "line"), *check_header(header, path.name))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None


def log_from_numbered_records(
    records: Iterable[tuple[int, dict[str, Any]]], source: Source, min_feedback: float, max_feedback: float
) -> Log:
    """Build a log from records of decisions and of feedback.

    Parameters
    ----------
    records
        Number and fields of each record.
    source
        File and unit that errors name.
    min_feedback, max_feedback
        Range of feedback.
    """
    decisions: list[tuple[int, dict[str, Any]]] = []
    late: list[tuple[int, dict[str, Any]]] = []
    for number, record in records:
        if "candidates" not in record and "feedback" in record:
            late.append((number, record))
        else:
            decisions.append((number, record))
    return log_from_parsed(decisions, late, source, min_feedback, max_feedback)


def log_from_parsed(
    decisions: Sequence[tuple[int, dict[str, Any]]],
    late: Sequence[tuple[int, dict[str, Any]]],
    source: Source,
    min_feedback: float,
    max_feedback: float,
    names: tuple[str, ...] | None = None,
) -> Log:
    """Build a log from decisions and from feedback that arrived later.

    Parameters
    ----------
    decisions, late
        Number and fields of each record.
    source, min_feedback, max_feedback
        As for `log_from_numbered_records`.
    names
        Candidates of the whole log, if this is a part of one.
    """
    columns: dict[str, list[Any]] = {field: [] for field in COLUMNS}
    for number, record in decisions:
        check_record(record, f"{source.file}, {source.unit} {number}")
        for field, values in columns.items():
            values.append(record.get(field))
    source = source._replace(numbers=np.array([number for number, _ in decisions], np.int64))
    log = log_from_frame(frame_from_fields(columns), source, min_feedback, max_feedback, names)
    _add_feedback(log, late, source)
    return checked(log, source)


def numbered_records(file: IO[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line numbers and objects of the lines that are not empty."""
    for number, line in enumerate(bounded_lines(file, name), 1):
        if line.strip():
            yield number, parse_record(line, f"{name}, line {number}")


def parse_record(line: bytes, where: str) -> dict[str, Any]:
    """Parse a line. Raises ValueError if it is not a JSON object."""
    try:
        record = read_json(line)
    except (ValueError, UnicodeDecodeError) as error:
        cut = "" if line.endswith(b"\n") else " and cut off"
        raise ValueError(f"{where} is not JSON{cut} ({excerpt(str(error))})") from None
    if not isinstance(record, dict):
        raise ValueError(f'{where}: must be an object, as in {{"event": ...}}')
    return record


_TEXTS = ("event", "learner", "reason", "cluster", "arm")
_NUMBERS = ("time", "k", "share")


def check_record(record: dict[str, Any], where: str) -> None:
    """Check the fields of a decision. Raises ValueError if one is unknown, missing or of the wrong type."""
    for field, value in record.items():
        if field not in COLUMNS:
            raise ValueError(f"{where}: unknown field '{excerpt(field)}': {suggest(field, COLUMNS)}")
        if value is not None and (what := _type_error(field, value)):
            raise ValueError(f"{where}, field '{field}': {what}")
    for field in REQUIRED:
        if field not in record:
            raise ValueError(f"{where}, field '{field}': is missing")


def _is_text(value: Any) -> bool:
    """Return whether a value is a string without lone surrogates, which cannot be written as UTF-8."""
    return isinstance(value, str) and not _SURROGATE.search(value)


def _type_error(field: str, value: Any) -> str:
    if field in _TEXTS:
        return "" if _is_text(value) else "must be a string"
    if field in _NUMBERS:
        right = is_number(value) and (field != "k" or type(value) is int)
        return "" if right else "must be a whole number" if field == "k" else "must be a number"
    if not isinstance(value, list):
        return "must be a list"
    if field == "candidates":
        return "" if all(map(_is_text, value)) else "must be a list of strings"
    if field == "features":
        right = all(isinstance(row, list) and all(map(is_number, row)) for row in value)
        return "" if right else "must be a list of lists of numbers"
    if field in ("position", "own"):
        return "" if all(type(part) is int and abs(part) < 2**53 for part in value) else "must be whole numbers"
    return "" if all(part is None or is_number(part) for part in value) else "must be numbers, or null"


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a finite number, not too large for a sum."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < 1e300  # excludes infinity and NaN


def _add_feedback(log: Log, late: Sequence[tuple[int, dict[str, Any]]], source: Source) -> None:
    """Add feedback that arrived later to the rows of its decision."""
    events = {name: t for t, name in enumerate(log.events)} if late else {}
    for line, record in late:
        where = f"{source.file}, {source.unit} {line}"
        if not isinstance(record.get("event"), str) or record["event"] not in events:
            raise ValueError(f"{where}, field 'event': no decision has this name")
        time = record.get("time")
        if time is not None and not is_number(time):
            raise ValueError(f"{where}, field 'time': must be a number")
        event = events[record["event"]]
        rows = range(log.offsets[event], log.offsets[event + 1])
        for row, answer in _parse_feedback(
            log, record["feedback"], {log.names[log.item[row]]: row for row in rows}, where
        ):
            log.feedback[row] = answer
            log.feedback_time[row] = math.nan if time is None else time


def _parse_feedback(log: Log, answers: Any, rows: dict[str, int], where: str) -> Iterator[tuple[int, float]]:
    """Yield rows and feedback of a line, without null."""
    where = f"{where}, field 'feedback'"
    if not isinstance(answers, dict) or not all(v is None or is_number(v) for v in answers.values()):
        raise ValueError(f"{where}: must be an object of candidates and numbers")
    for candidate, answer in answers.items():
        if candidate not in rows:
            raise ValueError(f"{where}: '{excerpt(candidate)}' is not a candidate of that decision")
        if not math.isnan(log.feedback[rows[candidate]]):
            raise ValueError(f"{where}: '{excerpt(candidate)}' already has feedback")
        if answer is not None:
            yield rows[candidate], float(answer)


class LogWriter:
    """Writer that appends decisions and feedback to a file of JSON lines as they happen.

    An existing file is continued, after an incomplete last line, which a crash may leave, is removed.

    Parameters
    ----------
    path
        The file, which may exist.
    learner
        The learner that decides, or its specification.
    version
        Version of the app or of the model, which the specification does not contain.
    min_feedback, max_feedback
        Range of feedback.

    >>> import tempfile
    >>> from peekrank import Agent, DCG, DoubtSort
    >>> from peekrank.evaluation.log import read_log
    >>> agent, path = Agent(DoubtSort(DCG()), m=3, k=1), Path(tempfile.mkdtemp(), "log.jsonl")
    >>> with LogWriter(path, agent.learner) as log:
    ...     decision = agent.rank()
    ...     event = log.log_decision(decision, k=1, names=["tea", "milk", "rice"])
    ...     log.log_feedback(event, [1])
    >>> float(np.nanmax(read_log(path).feedback))
    1.0
    """

    def __init__(
        self,
        path: str | PathLike[str],
        learner: Learner | str = "",
        *,
        version: str = "",
        min_feedback: float = 0.0,
        max_feedback: float = 1.0,
    ) -> None:
        from peekrank.spec import format_spec

        self._path = Path(path)
        text = learner if isinstance(learner, str) else format_spec(learner)
        self._learner = f"{text} @ {version}" if version else text
        self._reason = "" if isinstance(learner, str) else why_no_propensities(learner)
        self._open: dict[str, list[str]] = {}  # candidates seen, for decisions without feedback
        self._count = self._continue() if self._path.exists() else 0
        check_header(
            {"format": NAME, "version": VERSION, "min_feedback": min_feedback, "max_feedback": max_feedback},
            self._path.name,
        )
        self._file = self._path.open("a", encoding="utf-8")
        if self._count == 0 and self._path.stat().st_size == 0:
            self._write(
                {"format": NAME, "version": VERSION, "min_feedback": min_feedback, "max_feedback": max_feedback}
            )

    def _continue(self) -> int:
        """Remove an incomplete last line, and return the number of decisions in the file."""
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self._path, len(whole))
        count = 0
        for number, record in numbered_records(BytesIO(whole), self._path.name):
            if number == 1:
                check_header(record, self._path.name)
            elif "candidates" not in record and "feedback" in record:
                self._open.pop(str(record.get("event")), None)
            else:
                check_record(record, f"{self._path.name}, line {number}")
                count += 1
                ranked = sorted(zip(record["position"], record["candidates"], strict=False))
                self._open[record["event"]] = [name for _, name in ranked[: record["k"]]]
        return count

    def log_decision(
        self,
        decision: Decision,
        *,
        k: int,
        names: Sequence[str] | Mapping[int, str] | None = None,
        shown: Sequence[int] | None = None,
        event: str | None = None,
        time: float | None = None,
    ) -> str:
        """Append a decision, and return the name of its event for `log_feedback`.

        Parameters
        ----------
        decision
            The result of `Agent.rank`.
        k
            Number of items seen, from the top.
        names
            Name of each item, by its number; None: the numbers.
        shown
            Numbers of the items that the app showed, from the top, at least k; the others follow as ranked.
            None: all as ranked. If the two differ too often, `peekrank monitor` raises an alarm.
        event
            Name of the event; None: its number in the file, from 1.
        time
            Time of the decision in seconds; None: unknown.
        """
        items = np.arange(len(decision.ranking)) if decision.items is None else decision.items
        listed = np.arange(len(items)) if decision.listed is None else decision.listed  # rows as the app gave them
        candidates = [str(int(i)) if names is None else str(names[int(i)]) for i in items[listed]]
        position = np.empty(len(items), np.int64)
        ranked = decision.ranking.tolist()
        order = ranked if shown is None else order_shown([int(item) for item in shown], ranked, k)
        position[np.searchsorted(items, order)] = np.arange(len(items))
        self._count += 1
        propensities, scores, position = decision.propensities, decision.scores, position[listed]
        record = {
            "event": str(self._count) if event is None else event,
            "time": time,
            "learner": self._learner,
            "reason": self._reason if propensities is None else None,
            "k": min(k, len(items)),
            "candidates": candidates,
            "position": position.tolist(),
            "propensity": None if propensities is None else propensities[listed].tolist(),
            "features": decision.features[listed].tolist() if decision.features.shape[1] else None,
            "score": None if scores is None else [None if math.isnan(s) else s for s in scores.tolist()],
        }
        self._write({name: value for name, value in record.items() if value is not None})
        self._open[str(record["event"])] = [candidates[row] for row in np.argsort(position)[: record["k"]]]
        return str(record["event"])

    def log_feedback(self, event: str, feedback: ArrayLike, *, time: float | None = None) -> None:
        """Append the feedback on a decision, once, in the form that `Agent.update` takes; NaN means none.

        Parameters
        ----------
        event
            The result of `log_decision`.
        feedback
            Feedback on the first k items, in the order in which they were shown.
        time
            Time of the feedback in seconds; None: unknown.
        """
        if event not in self._open:
            raise ValueError(f"event '{excerpt(event)}': no open decision has this name")
        seen, observed = self._open[event], np.asarray(feedback, np.float64)
        if observed.shape != (len(seen),):
            raise ValueError(f"feedback of shape {observed.shape}: must be {len(seen)} numbers, one per item seen")
        answers = {name: float(a) for name, a in zip(seen, observed, strict=True) if not math.isnan(a)}
        del self._open[event]
        self._write({"event": event, "feedback": answers} | ({} if time is None else {"time": time}))

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Flush the file to disk and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def why_no_propensities(learner: Learner) -> str:
    """Return why a learner has no propensities, or an empty string if it has.

    >>> from peekrank import Uniform
    >>> why_no_propensities(Uniform())
    ''
    """
    if learner.kernels.propensities is not None:
        return ""
    return f"{learner.name} cannot compute propensities"
