"""Watching a log as it is written: JSON lines of decisions, and of answers that come later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from peekrank._util.text import excerpt
from peekrank._util.validate import check_int
from peekrank.evaluation.jsonl import check_record, parse_record
from peekrank.evaluation.log import COLUMNS, Log, Source, check_header, frame_from_fields, log_from_frame, read_log
from peekrank.monitoring.alarms import Monitor

_MANY = 4096  # decisions that are looked at together
_PAUSE = 0.5  # seconds between two looks at a file that grows
Step = Callable[[Monitor], None]


def monitor_log(
    path: str | Path,
    make: Callable[[float, float], Monitor],
    step: Step,
    *,
    follow: bool = False,
    wait: int = 1000,
) -> Monitor:
    """Let a watch observe all decisions of a log, in order.

    What a log must not contain, such as answers to unknown decisions or about candidates that were not seen, is
    counted as stray answers.

    Parameters
    ----------
    path
        A Parquet file, or JSON lines by any other ending.
    make
        Makes the watch, given the least and the largest answer.
    step
        Called every now and then: there may be new alarms.
    follow
        Whether to wait for more at the end of the file, for ever.
    wait
        After so many later decisions, answers to a decision are taken for final.

    >>> import tempfile
    >>> from peekrank.evaluation.log import log_from_records, write_log
    >>> log = log_from_records([{"event": "1", "k": 1, "candidates": ["a", "b"], "position": [1, 0], "feedback": [None, 1]}])
    >>> path = Path(tempfile.mkdtemp(), "log.jsonl")
    >>> write_log(path, log)
    >>> monitor_log(path, lambda low, high: Monitor(grades=(low, high)), lambda watch: None).rounds
    1
    """
    check_int("wait", wait, 1)
    path = Path(path)
    if path.suffix == ".parquet":
        if follow:
            raise ValueError(
                f"{path}: a Parquet file is written at once and does not grow; JSON lines can be followed"
            )
        log = read_log(path)
        watch = make(log.min_feedback, log.max_feedback)
        watch.name_of = log.names.__getitem__
        _observe(watch, log, log.item)
        step(watch)
        return watch
    lines = _lines(path, follow=follow)
    header = next(lines, (1, {}))
    reader = _Reader(path.name, make(*check_header(header[1] or {}, path.name)), wait)
    for number, record in lines:
        if record is None or len(reader.closed) >= _MANY:
            reader.look()
            step(reader.watch)
        if record is not None:
            reader.read(number, record)
    reader.close_all()
    reader.look()
    step(reader.watch)
    return reader.watch


def _observe(watch: Monitor, log: Log, items: Any) -> None:
    watch.observe_many(log.offsets, items, log.propensity, log.position, log.feedback, log.k)


class _Reader:
    """Decisions that wait for their answers, those that are closed, and numbers of the candidates' names."""

    def __init__(self, file: str, watch: Monitor, wait: int) -> None:
        self.file, self.watch, self.wait = file, watch, wait
        self.open: dict[str, tuple[int, dict[str, Any]]] = {}
        self.closed: list[tuple[int, dict[str, Any]]] = []
        self.strays = 0
        self.names: list[str] = []
        self.codes: dict[str, int] = {}
        watch.name_of = self.names.__getitem__

    def read(self, number: int, record: dict[str, Any]) -> None:
        """Take in a line: a decision, or answers to one."""
        event = record.get("event")
        if not isinstance(event, str):
            raise ValueError(f"{self.file}, line {number}, field 'event': must be a text")
        if "candidates" not in record and "feedback" in record:
            self._answer(event, record["feedback"])
            return
        check_record(record, f"{self.file}, line {number}")
        if event in self.open:
            raise ValueError(f"{self.file}, line {number}, field 'event': '{excerpt(event)}' occurs twice")
        self.open[event] = (number, record)
        if len(self.open) > self.wait:
            self.closed.append(self.open.pop(next(iter(self.open))))

    def _answer(self, event: str, answers: Any) -> None:
        _, decision = self.open.get(event, (0, {}))
        candidates = decision.get("candidates")
        if not isinstance(answers, dict) or not isinstance(candidates, list):
            self.strays += 1
            return
        told = decision.get("feedback") or [None] * len(candidates)
        if len(told) != len(candidates):
            line, _ = self.open[event]
            what = f"has {len(told)} numbers for {len(candidates)} candidates"
            raise ValueError(f"{self.file}, line {line}, field 'feedback': {what}")
        decision["feedback"] = told
        for name, answer in answers.items():
            if name in candidates and (answer is None or type(answer) in (int, float)):
                told[candidates.index(name)] = answer
            else:
                self.strays += 1

    def close_all(self) -> None:
        """Take all answers for final."""
        self.closed += self.open.values()
        self.open.clear()

    def look(self) -> None:
        """Let the watch observe what is closed."""
        if self.closed:
            columns = {name: [record.get(name) for _, record in self.closed] for name in COLUMNS}
            frame = frame_from_fields(columns)
            numbers = np.array([number for number, _ in self.closed])
            log = log_from_frame(frame, Source(self.file, "line", numbers), 0.0, 1.0)
            if log.k.min() < 1:
                raise ValueError(f"{self.file}, line {numbers[log.k.argmin()]}, field 'k': must be 1 at least")
            self.strays += int((~np.isnan(log.feedback) & ~log.seen).sum())
            _observe(self.watch, log, np.array([self._code(name) for name in log.names])[log.item])
            self.closed = []
        self.watch.stray(self.strays)
        self.strays = 0

    def _code(self, name: str) -> int:
        if name not in self.codes:
            self.codes[name] = len(self.names)
            self.names.append(name)
        return self.codes[name]


def _lines(path: Path, *, follow: bool) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of the lines of a file, with their numbers; None where there is a pause."""
    number, rest = 0, b""
    with path.open("rb") as file:
        while True:
            for line in file:
                rest += line
                if not rest.endswith(b"\n"):
                    break  # written halfway
                number += 1
                if rest.strip():
                    yield number, parse_record(rest, f"{path.name}, line {number}")
                rest = b""
            if not follow:
                break
            if path.stat().st_size < file.tell():
                raise ValueError(f"{path}: has become shorter, and logs only grow; watch it from the start")
            if number > 1:
                yield number, None
            time.sleep(_PAUSE)
    if rest.strip():
        yield number + 1, parse_record(rest, f"{path.name}, line {number + 1}")
