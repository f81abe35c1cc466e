"""Export of a slot to a folder that grows: each final decision once, in Parquet files by day.

The name of a file says which records of the log it covers, and each file appears whole. So the folder alone says
where the next export continues, even if this one is killed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from peekrank._util.atomic import check_no_link, remove_leftovers
from peekrank.evaluation.log import log_from_records, write_log
from peekrank.evaluation.log_parquet import last_event
from peekrank.service.core.clock import SECOND
from peekrank.service.core.export import Export, Row
from peekrank.service.event_log.store import Store

_CANDIDATES = 1 << 18  # of a file, each of which takes some hundred bytes of memory
_PART = re.compile(r"part-(\d+)-records-(\d+)-(\d+)\.parquet")


class Exported(NamedTuple):
    """Result of an export."""

    decisions: int
    files: int
    waiting: int  # decisions without final feedback, or after one without
    missing: tuple[int, int] | None  # records that were deleted before they were exported


class _Place(NamedTuple):
    """Where the files of a folder end."""

    day: date | None
    part: int  # number of the last file of that day; -1 before the first
    record: int  # last record that the files cover
    path: Path | None


def export_to_folder(store: Store, slot: str, folder: Path, *, candidates: int = _CANDIDATES) -> Exported:
    """Add the decisions of a slot whose feedback is final, and that the folder does not have.

    Decisions wait for those before them, so that files are in the order of time. The service may write to the log
    meanwhile, but only one process at a time can write to the folder. Raises ValueError if the folder has files
    of another log.

    Parameters
    ----------
    store
        The log.
    slot
        Name of the slot.
    folder
        Folder for ``day=.../slot=.../part-N-records-A-B.parquet``; days are those of UTC.
    candidates
        Largest number of candidates in a file, about.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for day in folder.glob("day=*"):
            for old in (day, day / f"slot={slot}"):
                check_no_link(old)
            remove_leftovers(day / f"slot={slot}")
        place = _end(folder, slot)
        _check_same_log(store, slot, place)
        export = Export(store, slot, place.record)
        missing = (place.record + 1, export.first) if export.first > place.record else None
        decisions = files = size = 0
        rows: list[Row] = []
        for row in export.final():
            if rows and (size >= candidates or _day(row) != _day(rows[0]) or row.grades != rows[0].grades):
                place, files = _write(folder, slot, rows, place), files + 1
                rows, size = [], 0
            rows.append(row)
            size += len(row.record["candidates"])
            decisions += 1
        if rows:
            _write(folder, slot, rows, place)
        return Exported(decisions, files + bool(rows), export.n_waiting, missing)


def _end(folder: Path, slot: str) -> _Place:
    """Return where the files of a slot end. Raises ValueError if one is not of an export."""
    last = _Place(None, -1, 0, None)
    for path in folder.glob(f"day=*/slot={slot}/*.parquet"):
        match = _PART.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path} was not written by an export; choose another folder")
        part, _, record = map(int, match.groups())
        if record > last.record:
            last = _Place(date.fromisoformat(path.parent.parent.name.removeprefix("day=")), part, record, path)
    return last


def _check_same_log(store: Store, slot: str, place: _Place) -> None:
    """Raise ValueError unless the last decision of the folder is the one that the log has."""
    head = store.heads()[slot]
    if place.path is None or place.record <= head.deleted:
        return
    event = last_event(place.path)
    if not any((one.slot, one.number) == (slot, place.record) for one in store.event_records(event)):
        raise ValueError(f"{place.path} is of another log, which has no event '{event}' in record {place.record}")


def _write(folder: Path, slot: str, rows: list[Row], place: _Place) -> _Place:
    """Write decisions of a day to a new file, and return where the files end."""
    day, first = _day(rows[0]), place.record + 1
    between = place.day + timedelta(days=1) if place.day else day
    while between < day:  # an empty folder says that a day had no decisions
        (folder / f"day={between}" / f"slot={slot}").mkdir(parents=True, exist_ok=True)
        between += timedelta(days=1)
    part = place.part + 1 if day == place.day else 0
    path = folder / f"day={day}" / f"slot={slot}" / f"part-{part}-records-{first}-{rows[-1].number}.parquet"
    low, high = rows[0].grades
    log = log_from_records((row.record for row in rows), min_feedback=low, max_feedback=high)
    write_log(path, log, durable=True)
    return _Place(day, part, rows[-1].number, path)


def _day(row: Row) -> date:
    return datetime.fromtimestamp(row.time / SECOND, UTC).date()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other exports out. The lock ends with the process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another export writes to {folder}; wait for it to end") from None
        yield
    finally:
        os.close(handle)
