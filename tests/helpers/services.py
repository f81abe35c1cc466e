"""Services for tests: small ones, with a clock that is set by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from peekrank.service.config import Config, LimitsConfig, SlotConfig, StoreConfig
from peekrank.service.core.service import Service
from peekrank.service.event_log.chain import Head, link, origin, seal
from peekrank.service.event_log.records import Record
from peekrank.service.event_log.sqlite_checks import SLOT
from peekrank.service.event_log.store import Store

HOME = SlotConfig("home", learner="doubtsort", items=("a", "b", "c", "d"), k=2, feedback_window=100.0, seed=7)


class Chain:
    """Makes records without content, each with the link that follows from those before it."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, int], bytes] = {}

    def __call__(self, number: int, slot: str = "home", event: str | None = None, time: int = 0) -> Record:
        fields = (number, time or number, 4, event, f"{slot}{number}".encode())
        before = origin(slot) if number == 1 else self._links[slot, number - 1]
        self._links[slot, number] = own = link(before, *fields)
        return Record(slot, *fields, own)


def reseal(path: Path) -> None:
    """Give all records and heads of a SQLite log the checksums that follow from their content."""
    Path(f"{path}-head").unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as log:
        for number, slot in log.execute("SELECT id, name FROM slots").fetchall():
            own, first = origin(slot), number * SLOT
            last = first
            for key, *fields in log.execute(
                "SELECT id, time, kind, event, body FROM log WHERE id > ? AND id < ? ORDER BY id",
                (first, first + SLOT),
            ).fetchall():
                last, own = key, link(own, key - first, *fields)
                log.execute("UPDATE log SET link = ? WHERE id = ?", (own, key))
            head = Head(0, origin(slot), last - first, own)
            row = (*head, seal(slot, head), number)
            log.execute("UPDATE slots SET deleted = ?, anchor = ?, last = ?, link = ?, seal = ? WHERE id = ?", row)
        log.commit()


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def config(path: Path, *slots: SlotConfig, **changes: Any) -> Config:
    """A service in a folder, with the slot `home` changed, or with other slots."""
    store: dict[str, Any] = {"synchronous": "normal"}  # nobody cuts the power of a test
    store |= {
        name: changes.pop(name) for name in ("synchronous", "snapshot_every", "retention") if name in changes
    }
    limits = {
        name: changes.pop(name) for name in ("max_open_events", "max_queue_length", "max_keys") if name in changes
    }
    return Config(
        slots or (replace(HOME, **changes),),
        store=StoreConfig(str(path / "log.db"), **store),
        limits=replace(LimitsConfig(max_items=100), **limits),
    )


def service(
    path: Path, *slots: SlotConfig, store: Store | None = None, **changes: Any
) -> tuple[Service, SetClock]:
    """A started service, and its clock."""
    clock = SetClock()
    made = Service(config(path, *slots, **changes), clock=clock, store=store)
    made.start()
    return made, clock
