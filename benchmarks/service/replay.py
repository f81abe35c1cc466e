"""Measure how long a start takes, with and without a snapshot, and whether memory grows with the log.

    python benchmarks/service/replay.py                      # 10^6 records: doubtsort, 10 items
    python benchmarks/service/replay.py --records 10000000   # 10^7, for memory; takes an hour

Half of the records are rankings, half are feedback. One list in twenty expires without feedback. Time is
simulated: the whole log covers one day.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core.commands import Rank, SubmitFeedback
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import catch_up, initial_state, replay, take_snapshot
from peekrank.service.event_log.sqlite import SQLiteStore

ITEMS = tuple(f"item-{n}" for n in range(10))
WAVE = 200  # concurrent calls
DAY = 86_400.0


class SimulatedDay:
    """A clock on which the whole log takes one day."""

    def __init__(self, events: int) -> None:
        self.now, self._tick = 1_700_000_000.0, DAY / events

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self._tick


def megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(config: Config, records: int) -> None:
    """Write records with a service, and print how its memory grows."""
    events = records // 2
    clock = SimulatedDay(events)
    start = time.perf_counter()
    with Service(config, clock=clock) as service:
        for first in range(0, events, WAVE):
            ranked: list[Future[Any]] = []
            for n in range(first, min(first + WAVE, events)):
                clock.tick()
                ranked.append(service.submit(Rank("home", RankRequest(event_id=f"event-{n}"))))
            feedback = []
            for n, future in enumerate(ranked, first):
                reply = future.result()
                if n % 20:
                    request = FeedbackRequest([float(reply.top_k[0] in ITEMS[:3])])
                    feedback.append(service.submit(SubmitFeedback(reply.event_id, request)))
            for future in feedback:
                future.result()
            if first % (events // 10 // WAVE * WAVE or WAVE) == 0:
                _print(f"{2 * first:>12,} records, {service.slot('home').open:,} open, {megabytes():.0f} MB")
        seconds = time.perf_counter() - start
        _print(f"wrote {records / seconds:,.0f} records/s in {seconds:.0f} s (in process, synchronous = normal)")


def measure_start(path: str) -> None:
    """Replay the whole log, and start from the last snapshot."""
    store = SQLiteStore(path)
    start = time.perf_counter()
    store.check()
    _print(f"check of the file and the heads: {time.perf_counter() - start:.2f} s")
    start, cpu = time.perf_counter(), time.process_time()
    state = catch_up(store, initial_state(store, "home"))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    _print(f"full replay: {state.number:,} records in {seconds:.1f} s ({cpu:.1f} s of CPU time)")
    start = time.perf_counter()
    quick, _ = replay(store, "home")
    _print(f"from a snapshot: {time.perf_counter() - start:.2f} s")
    _print(f"identical: {take_snapshot(state).body == take_snapshot(quick).body}; {megabytes():.0f} MB")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure how long a service takes to start.")
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    home = SlotConfig("home", learner="doubtsort", items=ITEMS, feedback_window=600.0)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        path = str(Path(folder) / "log.db")
        write(Config((home,), store=StoreConfig(path, synchronous="normal")), options.records)
        measure_start(path)


if __name__ == "__main__":
    main()
