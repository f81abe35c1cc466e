"""Monitoring of a log while it is written: JSON lines of decisions, and of feedback that arrives later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from peekrank._util.text import excerpt
from peekrank._util.validate import check_int
from peekrank.evaluation.jsonl import check_record, parse_record
from peekrank.evaluation.log import COLUMNS, Log, Source, check_header, frame_from_fields, log_from_frame
from peekrank.evaluation.sources import LogSource, open_source
from peekrank.monitoring.alarms import Monitor

_BATCH = 4096  # decisions observed together
_PAUSE = 0.5  # seconds between two reads of a growing file
Step = Callable[[Monitor], None]


def monitor_log(
    log: str | Path | LogSource,
    make: Callable[[float, float], Monitor],
    step: Step,
    *,
    follow: bool = False,
    window: int = 1000,
) -> Monitor:
    """Observe all decisions of a log, in order.

    Feedback on unknown decisions, or on candidates that were not seen, counts as orphan feedback.

    Parameters
    ----------
    log
        A Parquet file, a folder or a pattern of such files, a file of JSON lines, or a source that is open.
    make
        Creates the monitor from the smallest and the largest possible feedback.
    step
        Called from time to time with the monitor, which may have new alarms.
    follow
        Whether to wait at the end of the file for new lines, without end.
    window
        Feedback on a decision is final after so many later decisions.

    >>> import tempfile
    >>> from peekrank.evaluation.log import log_from_records, write_log
    >>> record = {"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "feedback": [None, 1]}
    >>> log = log_from_records([record])
    >>> path = Path(tempfile.mkdtemp(), "log.jsonl")
    >>> write_log(path, log)
    >>> monitor_log(path, lambda low, high: Monitor(grades=(low, high)), lambda monitor: None).rounds
    1
    """
    check_int("window", window, 1)
    path = Path(log) if isinstance(log, str | Path) else None
    if path is None or path.suffix == ".parquet" or not path.is_file():
        if follow:
            raise ValueError(f"{path or log}: a Parquet file does not grow; only JSON lines can be followed")
        source = open_source(path) if path else cast("LogSource", log)
        monitor = make(source.scope.min_feedback, source.scope.max_feedback)
        monitor.name_of = source.scope.names.__getitem__
        for part in source.parts():
            _observe(monitor, part, part.item)
            step(monitor)
        return monitor
    lines = _lines(path, follow=follow)
    header = next(lines, (1, {}))
    reader = _Reader(path.name, make(*check_header(header[1] or {}, path.name)), window)
    for number, record in lines:
        if record is None or len(reader.closed) >= _BATCH:
            reader.flush()
            step(reader.monitor)
        if record is not None:
            reader.read(number, record)
    reader.close_all()
    reader.flush()
    step(reader.monitor)
    return reader.monitor


def _observe(monitor: Monitor, log: Log, items: Any) -> None:
    monitor.observe_many(log.offsets, items, log.propensity, log.position, log.feedback, log.k)


class _Reader:
    """Open decisions, closed decisions, and numbers of the candidates' names."""

    def __init__(self, file: str, monitor: Monitor, window: int) -> None:
        self.file, self.monitor, self.window = file, monitor, window
        self.open: dict[str, tuple[int, dict[str, Any]]] = {}
        self.closed: list[tuple[int, dict[str, Any]]] = []
        self.orphans = 0
        self.names: list[str] = []
        self.codes: dict[str, int] = {}
        monitor.name_of = self.names.__getitem__

    def read(self, number: int, record: dict[str, Any]) -> None:
        """Read a line: a decision, or feedback on one."""
        event = record.get("event")
        if not isinstance(event, str):
            raise ValueError(f"{self.file}, line {number}, field 'event': must be a string")
        if "candidates" not in record and "feedback" in record:
            self._add_feedback(event, record["feedback"])
            return
        check_record(record, f"{self.file}, line {number}")
        if event in self.open:
            raise ValueError(f"{self.file}, line {number}, field 'event': '{excerpt(event)}' occurs twice")
        self.open[event] = (number, record)
        if len(self.open) > self.window:
            self.closed.append(self.open.pop(next(iter(self.open))))

    def _add_feedback(self, event: str, answers: Any) -> None:
        _, decision = self.open.get(event, (0, {}))
        candidates = decision.get("candidates")
        if not isinstance(answers, dict) or not isinstance(candidates, list):
            self.orphans += 1
            return
        feedback = decision.get("feedback") or [None] * len(candidates)
        if len(feedback) != len(candidates):
            line, _ = self.open[event]
            what = f"has {len(feedback)} numbers for {len(candidates)} candidates"
            raise ValueError(f"{self.file}, line {line}, field 'feedback': {what}")
        decision["feedback"] = feedback
        for name, answer in answers.items():
            if name in candidates and (answer is None or type(answer) in (int, float)):
                feedback[candidates.index(name)] = answer
            else:
                self.orphans += 1

    def close_all(self) -> None:
        """Close all decisions: their feedback is final."""
        self.closed += self.open.values()
        self.open.clear()

    def flush(self) -> None:
        """Pass closed decisions and orphan feedback to the monitor."""
        if self.closed:
            columns = {name: [record.get(name) for _, record in self.closed] for name in COLUMNS}
            frame = frame_from_fields(columns)
            numbers = np.array([number for number, _ in self.closed])
            log = log_from_frame(frame, Source(self.file, "line", numbers), 0.0, 1.0)
            if log.k.min() < 1:
                raise ValueError(f"{self.file}, line {numbers[log.k.argmin()]}, field 'k': must be at least 1")
            self.orphans += int((~np.isnan(log.feedback) & ~log.seen).sum())
            _observe(self.monitor, log, np.array([self._code(name) for name in log.names])[log.item])
            self.closed = []
        self.monitor.stray(self.orphans)
        self.orphans = 0

    def _code(self, name: str) -> int:
        if name not in self.codes:
            self.codes[name] = len(self.names)
            self.names.append(name)
        return self.codes[name]


def _lines(path: Path, *, follow: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield line numbers and objects of a file; None at each pause."""
    number, rest = 0, b""
    with path.open("rb") as file:
        while True:
            for line in file:
                rest += line
                if not rest.endswith(b"\n"):
                    break  # not yet complete
                number += 1
                if rest.strip():
                    yield number, parse_record(rest, f"{path.name}, line {number}")
                rest = b""
            if not follow:
                break
            if path.stat().st_size < file.tell():
                raise ValueError(f"{path} has become shorter, but logs only grow; start again from the beginning")
            if number > 1:
                yield number, None
            time.sleep(_PAUSE)
    if rest.strip():
        yield number + 1, parse_record(rest, f"{path.name}, line {number + 1}")
