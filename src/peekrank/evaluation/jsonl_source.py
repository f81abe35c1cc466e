"""JSON lines that are read in parts: a first pass finds each decision's later feedback, a second one reads."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from peekrank._util.text import excerpt
from peekrank._util.untrusted_files import MAX_LINE, line_too_long
from peekrank.evaluation.jsonl import check_record, log_from_parsed, parse_record
from peekrank.evaluation.log import Log, Scope, Source, check_header, not_a_log
from peekrank.types import Ints

CANDIDATES = 1 << 16  # of a part: each takes some kilobytes while lines are parsed
_WORD = (1 << 63) - 1


class LinesSource:
    """A file of JSON lines. Of each line with a decision or with feedback, 16 bytes stay in memory.

    Lines that are appended after the first pass are not read.

    Parameters
    ----------
    path
        The file.
    name
        Its name in errors; empty: that of the file.
    keep_events
        Keep another 16 bytes of each decision in `decisions`, to compare with other files.
    """

    def __init__(self, path: Path, name: str = "", *, keep_events: bool = False) -> None:
        self.name, self._path, self._keep_events = name or path.name, path, keep_events
        self.decisions: tuple[Ints, Ints] = np.empty(0, np.int64), np.empty(0, np.int64)
        try:
            with path.open("rb") as file:
                self._size = file.seek(0, 2)
                file.seek(0)
                self.scope = self._survey(file)
        except FileNotFoundError:
            raise ValueError(f"{path} does not exist") from None

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and content of the lines that are not empty."""
        offset = number = 0
        while offset < self._size and (line := file.readline(min(MAX_LINE + 1, self._size - offset))):
            number += 1
            if len(line) > MAX_LINE:
                raise line_too_long(self.name, number)
            if line.strip():
                yield number, offset, line
            offset += len(line)
        if offset < self._size:
            raise ValueError(f"{self.name}, line {number + 1}: the file has become shorter while it was read")

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        return parse_record(line, f"{self.name}, line {number}")

    def _survey(self, file: BinaryIO) -> Scope:
        lines = self._lines(file)
        try:
            number, _, line = next(lines, (1, 0, b"{}"))
            header = self._record(number, line)
        except ValueError:
            raise not_a_log(self.name, "does not hold lines of JSON") from None
        self._range = check_header(header, self.name)
        names: dict[str, None] = {}
        lengths: set[int] = set()
        k, shortest = 1, (1, 1)
        events, numbers, late, offsets = array("q"), array("q"), array("q"), array("q")
        late_numbers = array("q")
        holdout = False
        for number, offset, line in lines:
            record = self._record(number, line)
            event = record.get("event")
            if "candidates" not in record and "feedback" in record:
                if not isinstance(event, str):
                    raise self._unknown(number)
                late.append(hash(event) & _WORD)
                offsets.append(offset)
                late_numbers.append(number)
                continue
            check_record(record, f"{self.name}, line {number}")
            candidates, seen = record["candidates"], record["k"]
            names.update(dict.fromkeys(candidates or ()))
            size = len(candidates or ())
            holdout |= record.get("arm") is not None
            lengths.add(size)
            events.append(hash(event) & _WORD)
            numbers.append(offset)
            k = max(k, seen or 1)
            if size - (seen or 1) > shortest[0] - shortest[1]:
                shortest = size, seen
        if not events:
            raise ValueError(f"{self.name} contains no decision")
        self._late = self._find(file, np.array(events), np.array(numbers), late, offsets, late_numbers)
        if self._keep_events:
            self.decisions = np.array(events), np.array(numbers)  # hashes of their events, and their offsets
        ordered = np.array(sorted(lengths - {0}) or [1])
        return Scope(len(events), tuple(names), ordered, k, shortest, *self._range, holdout)

    def _unknown(self, number: int) -> ValueError:
        return ValueError(f"{self.name}, line {number}, field 'event': no decision has this name")

    def _find(
        self, file: BinaryIO, events: Ints, at: Ints, late: array[int], offsets: array[int], numbers: array[int]
    ) -> tuple[Ints, Ints, Ints]:
        """Return the decision, the offset and the line of each late feedback, sorted by decision."""
        order = np.argsort(events, kind="stable")
        ascending = events[order]
        for i in np.flatnonzero(ascending[1:] == ascending[:-1]):
            one, other = (self._at(file, int(at[order[j]]))["event"] for j in (i, i + 1))
            if one == other:
                number = self._number(file, int(at[order[i + 1]]))
                raise ValueError(f"{self.name}, line {number}, field 'event': '{excerpt(one)}' occurs twice")
        wanted, lines = np.array(late, np.int64), np.array(numbers, np.int64)
        found = np.searchsorted(ascending, wanted).clip(max=len(ascending) - 1)
        if (missing := ascending[found] != wanted).any():
            raise self._unknown(int(lines[missing.argmax()]))
        decision = order[found]
        by_decision = np.argsort(decision, kind="stable")
        return decision[by_decision], np.array(offsets, np.int64)[by_decision], lines[by_decision]

    def event_at(self, offset: int) -> tuple[str, int]:
        """Return the event of the line at an offset, and the number of the line."""
        with self._path.open("rb") as file:
            return str(self._at(file, offset)["event"]), self._number(file, offset)

    def line_of(self, event: str) -> int:
        """Return the number of the first line of an event."""
        with self._path.open("rb") as file:
            return next(n for n, _, line in self._lines(file) if self._record(n, line).get("event") == event)

    def _at(self, file: BinaryIO, offset: int) -> dict[str, Any]:
        """Parse the line at an offset."""
        file.seek(offset)
        return self._record(0, file.readline(MAX_LINE + 1))

    def _number(self, file: BinaryIO, offset: int) -> int:
        """Return the number of the line at an offset."""
        file.seek(0)
        return next(number for number, begin, _ in self._lines(file) if begin == offset)

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the decisions from number `first` on, in order."""
        rows = max(1, CANDIDATES // int(self.scope.lengths[-1]))
        with self._path.open("rb") as file, self._path.open("rb") as again:
            records: list[tuple[int, dict[str, Any]]] = []
            decision = start = -1
            for number, _, line in self._lines(file):
                if decision < 0:  # the header
                    decision = start = 0
                    continue
                record = self._record(number, line)
                if "candidates" not in record and "feedback" in record:
                    continue
                if decision >= first:
                    records.append((number, record))
                else:
                    start = decision + 1
                decision += 1
                if len(records) == rows:
                    yield self._log(records, start, again)
                    records, start = [], decision
            if records:
                yield self._log(records, start, again)
            if decision != self.scope.decisions:
                raise ValueError(f"{self.name}, line {number}: the file has changed while it was read")

    def _log(self, records: list[tuple[int, dict[str, Any]]], start: int, file: BinaryIO) -> Log:
        """Return a part with the feedback that arrived later."""
        decisions, offsets, numbers = self._late
        these = slice(*np.searchsorted(decisions, [start, start + len(records)]))
        late = [
            (int(number), self._at(file, int(offset)))
            for number, offset in zip(numbers[these], offsets[these], strict=True)
        ]
        return log_from_parsed(records, late, Source(self.name, "line"), *self._range, self.scope.names)

    def digest(self) -> str:
        """Return a digest of the content."""
        total = hashlib.blake2b(digest_size=32)
        with self._path.open("rb") as file:
            left = self._size
            while left and (block := file.read(min(left, 1 << 20))):
                total.update(block)
                left -= len(block)
        return total.hexdigest()
