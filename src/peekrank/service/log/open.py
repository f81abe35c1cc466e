"""The store that a configuration names."""

from __future__ import annotations

from peekrank.service.config import StoreConfig
from peekrank.service.log.sqlite import SQLiteStore
from peekrank.service.log.store import Store


def open_store(config: StoreConfig) -> Store:
    """A store that nobody owns yet."""
    if config.url:
        raise ValueError("store.url: this version keeps logs in SQLite files only")
    return SQLiteStore(config.path, config.synchronous)
