"""Services to test what is above them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peekrank.service.api.server import HttpServer
from peekrank.service.config import Config, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.core.service import Service

ITEMS = ("tea", "cake", "soup")


def config(folder: Path, **fields: Any) -> Config:
    """Two slots on any port of this machine; `home` has three items, `search` two."""
    slots = (
        SlotConfig("home", learner="doubtsort", items=ITEMS, seed=1),
        SlotConfig("search", learner="doubtsort", items=("salt", "pepper"), seed=2),
    )
    store = StoreConfig(path=str(folder / "peekrank.db"), synchronous="normal")
    return Config(slots, ServerConfig(port=0), store, **fields)


@contextmanager
def running(
    service: Service, config: Config, *, reload: Callable[[], Config] | None = None
) -> Iterator[HttpServer]:
    """A service behind its server, in a thread, while the context lasts."""
    made = HttpServer(service, config, reload=reload)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()
