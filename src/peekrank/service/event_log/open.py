"""Open the store that a configuration or a command names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peekrank._util.extras import extra
from peekrank.service.config import StoreConfig
from peekrank.service.event_log.sqlite import SQLiteStore
from peekrank.service.event_log.store import Store, StoreError
from peekrank.spec import suggest


def open_store(config: StoreConfig, slots: Sequence[str] = ()) -> Store:
    """Open a store without acquiring it. `slots` are the slots to acquire later."""
    if not config.url:
        return SQLiteStore(config.path, config.synchronous)
    with extra("postgresql"):
        from peekrank.service.event_log.postgresql import PostgreSQLStore
    return PostgreSQLStore(config.url, slots)


def open_log(where: str, slots: Iterable[str] | None = None) -> Store:
    """Open a log for reading: a file or ``postgresql://...``. Raises ValueError if it or a slot is missing."""
    store = open_store(StoreConfig(url=where) if "://" in where else StoreConfig(path=where))
    try:
        known = store.heads()
    except StoreError as error:
        raise ValueError(str(error)) from None
    for slot in slots or ():
        if slot not in known:
            raise ValueError(f"{where} has no slot '{slot}': {suggest(slot, known)}")
    return store
