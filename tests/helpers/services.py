"""Services for tests: small ones, with a clock that is set by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from peekrank.service.config import Config, LimitsConfig, SlotConfig, StoreConfig
from peekrank.service.core.service import Service
from peekrank.service.event_log.store import Store

HOME = SlotConfig("home", learner="doubtsort", items=("a", "b", "c", "d"), k=2, feedback_window=100.0, seed=7)


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
    limits = {name: changes.pop(name) for name in ("max_open_events", "max_queue_length") if name in changes}
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
