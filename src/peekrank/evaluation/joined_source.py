"""Several files of JSON lines as one log."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from peekrank._util.text import excerpt
from peekrank.evaluation.jsonl_source import LinesSource
from peekrank.evaluation.log import Log, Scope


class JoinedLines:
    """Files of JSON lines in the order of time. Feedback must be in the file of its decision.

    Raises ValueError naming file and line if an event occurs in two files, or if their feedback has different
    ranges.

    Parameters
    ----------
    name
        Name for titles.
    files
        The files in order.
    """

    def __init__(self, name: str, files: Sequence[LinesSource]) -> None:
        self.name, self._files = name, files
        scopes = [one.scope for one in files]
        first = scopes[0]
        for one, scope in zip(files, scopes, strict=True):
            ends, other = (scope.min_feedback, scope.max_feedback), (first.min_feedback, first.max_feedback)
            if ends != other:
                here, there = (f"{low:g} to {high:g}" for low, high in (ends, other))
                raise ValueError(
                    f"{one.name}, line 1, field 'max_feedback': feedback is from {here}, but from {there} in "
                    f"{files[0].name}; such logs must not be mixed"
                )
        self._check_events()
        names = tuple(dict.fromkeys(name for scope in scopes for name in scope.names))
        lengths = np.unique(np.concatenate([scope.lengths for scope in scopes]))
        self.scope = Scope(
            sum(scope.decisions for scope in scopes), names, lengths, max(scope.k for scope in scopes),
            max((scope.shortest for scope in scopes), key=lambda shortest: shortest[0] - shortest[1]),
            first.min_feedback, first.max_feedback, any(scope.holdout for scope in scopes),
        )  # fmt: skip

    def _check_events(self) -> None:
        """Raise ValueError if an event occurs in two files."""
        hashes, places = (
            np.concatenate(parts) for parts in zip(*(one.decisions for one in self._files), strict=True)
        )
        owner = np.repeat(np.arange(len(self._files)), [one.scope.decisions for one in self._files])
        order = np.argsort(hashes, kind="stable")
        ascending = hashes[order]
        for i in np.flatnonzero(ascending[1:] == ascending[:-1]):
            (one, line), (other, again) = (
                self._files[owner[order[j]]].event_at(int(places[order[j]])) for j in (i, i + 1)
            )
            if one == other:  # equal hashes may be of different events
                file, here = (self._files[owner[order[j]]].name for j in (i, i + 1))
                where = f"first in {file}, line {line}"
                raise ValueError(f"{here}, line {again}, field 'event': '{excerpt(one)}' occurs twice, {where}")
        for one in self._files:
            one.decisions = hashes[:0], places[:0]

    def parts(self, first: int = 0) -> Iterator[Log]:
        """Yield the decisions from number `first` on, in order."""
        code, before, latest, ended = {name: i for i, name in enumerate(self.scope.names)}, 0, -np.inf, ""
        for one in self._files:
            codes, start = np.array([code[name] for name in one.scope.names], np.int64), latest
            if first < before + one.scope.decisions:
                for log in one.parts(max(0, first - before)):
                    if (log.time < start).any():
                        event = log.events[int(np.argmax(log.time < start))]
                        raise ValueError(
                            f"{one.name}, line {one.line_of(event)}, field 'time': event '{excerpt(event)}' is "
                            f"before the end of {ended}; files must not overlap in time"
                        )
                    latest = max(latest, float(np.max(log.time[~np.isnan(log.time)], initial=-np.inf)))
                    yield log._replace(item=codes[log.item], names=self.scope.names)
            before, ended = before + one.scope.decisions, one.name

    def digest(self) -> str:
        """Return a digest of the names and the content of all files."""
        total = hashlib.blake2b(digest_size=32)
        for one in self._files:
            total.update(f"{one.name} {one.digest()}\n".encode())
        return total.hexdigest()
