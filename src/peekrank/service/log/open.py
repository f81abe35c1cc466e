"""The store that a configuration names."""

from __future__ import annotations

from collections.abc import Sequence

from peekrank.service.config import StoreConfig
from peekrank.service.log.sqlite import SQLiteStore
from peekrank.service.log.store import Store


def open_store(config: StoreConfig, slots: Sequence[str] = ()) -> Store:
    """A store that nobody owns yet; `slots` are those that whoever acquires it will own."""
    if not config.url:
        return SQLiteStore(config.path, config.synchronous)
    try:
        from peekrank.service.log.postgresql import PostgreSQLStore
    except ImportError:
        raise ValueError("store.url needs the PostgreSQL driver: pip install 'peekrank[postgresql]'") from None
    return PostgreSQLStore(config.url, slots)
