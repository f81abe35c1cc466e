"""Measure how long the pages of the dashboard take, with few and with many events in the log.

    python benchmarks/service/dashboard.py                    # a million events: a few minutes
    python benchmarks/service/dashboard.py --events 100000

The requests go through the whole application, without a network. The script prints the median and the maximum of
50.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from peekrank.service.api.endpoints import application
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import Config, LimitsConfig, SlotConfig, StoreConfig
from peekrank.service.core.commands import Rank, SubmitFeedback
from peekrank.service.core.service import Service

ITEMS = tuple(f"item-{i:03}" for i in range(200))
BATCH = 200
REQUESTS = 50


def fill(service: Service, events: int) -> None:
    """Rank lists and give feedback, many at a time."""
    rng = np.random.default_rng(0)
    for start in range(0, events, BATCH):
        ids = [f"e{number}" for number in range(start, min(start + BATCH, events))]
        ranked = [service.submit(Rank("home", RankRequest(event_id=event))) for event in ids]
        feedback = [
            service.submit(SubmitFeedback(event, FeedbackRequest([float(rng.random() < 0.4)])))
            for event, future in zip(ids, ranked, strict=True)
            if future.result().ranking
        ]
        for future in feedback:
            future.result()


async def times(service: Service, path: str) -> list[float]:
    """Return how long a page takes, in milliseconds."""
    durations = []
    transport = httpx.ASGITransport(application(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for _ in range(REQUESTS + 1):
            start = time.perf_counter()
            (await client.get(path)).raise_for_status()
            durations.append(1000 * (time.perf_counter() - start))
    return durations[1:]  # the first request loads the templates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    configure_logging("error")
    for events in (1_000, options.events):
        with tempfile.TemporaryDirectory() as folder:
            slot = SlotConfig("home", learner="doubtsort", items=ITEMS, seed=1)
            store = StoreConfig(str(Path(folder, "log.db")), synchronous="normal")
            with Service(Config((slot,), store=store, limits=LimitsConfig())) as service:
                fill(service, events)
                for path in ("/", "/dashboard/home", "/metrics"):
                    durations = asyncio.run(times(service, path))
                    median, maximum = statistics.median(durations), max(durations)
                    print(
                        f"{events:9,} events, {path:12} median {median:5.1f} ms, maximum {maximum:6.1f} ms",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
