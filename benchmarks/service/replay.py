"""How long a start takes: the whole log folded anew, and with a snapshot; and whether memory grows with the log.

    python benchmarks/service/replay.py                      # 10^6 records: doubtsort, 10 items
    python benchmarks/service/replay.py --records 10000000   # 10^7, for memory; takes an hour

Half of the records are rankings, half are answers; a twentieth of the lists is never answered, and expires. Time
is simulated: a day goes by while the log is written, however long that takes.
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
WAVE = 200  # calls that are waiting at a time
DAY = 86_400.0


class SimulatedDay:
    """A clock that a day takes as long on as the log is."""

    def __init__(self, events: int) -> None:
        self.now, self._tick = 1_700_000_000.0, DAY / events

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += self._tick


def megabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(config: Config, records: int) -> None:
    """Have a service write so many records, and tell how its memory grows."""
    events = records // 2
    clock = SimulatedDay(events)
    began = time.perf_counter()
    with Service(config, clock=clock) as service:
        for first in range(0, events, WAVE):
            ranked: list[Future[Any]] = []
            for n in range(first, min(first + WAVE, events)):
                clock.tick()
                ranked.append(service.submit(Rank("home", RankRequest(event_id=f"event-{n}"))))
            answered = []
            for n, future in enumerate(ranked, first):
                shown = future.result()
                if n % 20:
                    answers = FeedbackRequest([float(shown.top_k[0] in ITEMS[:3])])
                    answered.append(service.submit(SubmitFeedback(shown.event_id, answers)))
            for future in answered:
                future.result()
            if first % (events // 10 // WAVE * WAVE or WAVE) == 0:
                _say(f"{2 * first:>12,} records, {service.slot('home').open:,} open, {megabytes():.0f} MB")
        took = time.perf_counter() - began
        _say(f"written in {took:.0f} s, {records / took:,.0f} records/s (in process, synchronous = normal)")


def start(path: str) -> None:
    """SlotState all of it, and start from the last snapshot."""
    store = SQLiteStore(path)
    began, worked = time.perf_counter(), time.process_time()
    state = catch_up(store, initial_state(store, "home"))
    took, worked = time.perf_counter() - began, time.process_time() - worked
    _say(f"folded anew: {state.number:,} records in {took:.1f} s, of which the processor worked {worked:.1f} s")
    began = time.perf_counter()
    quick, _ = replay(store, "home")
    _say(f"from a snapshot: {time.perf_counter() - began:.2f} s")
    _say(f"equal, bit for bit: {take_snapshot(state).body == take_snapshot(quick).body}; {megabytes():.0f} MB")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How long a service takes to start.")
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    home = SlotConfig("home", learner="doubtsort", items=ITEMS, feedback_window=600.0)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        path = str(Path(folder) / "log.db")
        write(Config((home,), store=StoreConfig(path, synchronous="normal")), options.records)
        start(path)


if __name__ == "__main__":
    main()
