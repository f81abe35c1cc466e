"""Flip random bits in the log of a service: a start must serve what was confirmed, or say what is wrong.

    python scripts/flips.py                    # 1,000 flips
    python scripts/flips.py --flips 50 --seed 1

The script writes three logs: of a service that was stopped, of one that was killed, with its write-ahead log,
and of one that deletes old records. Most open events rest. Then it flips one bit of a copy, anywhere in the files,
and starts a service. The service may refuse to start, or must have the same state and return the same rankings and
answers for every confirmed event. For an event that it cannot read, it must name the damaged record. When the time
of all events is up, it must still take calls.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from structlog.testing import capture_logs

from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core import open_events
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import take_snapshot

ITEMS = tuple(f"item-{n}" for n in range(8))
SLOTS = (
    SlotConfig("home", learner="doubtsort", items=ITEMS, k=2, feedback_window=40.0, seed=1),
    SlotConfig("shop", learner="ridge", features=3, features_from="registry", k=1, feedback_window=60.0, seed=2),
    SlotConfig("search", learner="rtopkf", features=2, max_list_length=5, k=1, feedback_window=30.0, seed=3),
)
SNAPSHOT_EVERY = 150  # records
AWAKE = 3  # rankings after which an event rests
Served = dict[str, Any]  # what a service returns, by the event, or the state, by the slot


class Log(NamedTuple):
    """The files of a log, the configuration that wrote it, and what the service confirmed."""

    name: str
    files: dict[str, bytes]
    config: Config
    now: float
    requests: dict[str, tuple[str, RankRequest]]
    served: Served


class Outcome(NamedTuple):
    """What came of a flip: "refused", "equal", "reported", or "wrong" with the reason."""

    kind: str
    detail: str


def write_log(folder: Path, name: str, events: int, rng: random.Random) -> Log:
    """Run a service, and keep the files that it leaves."""
    folder.mkdir(parents=True)
    store = StoreConfig(
        str(folder / "log.db"), snapshot_every=SNAPSHOT_EVERY, retention=300.0 if name == "retention" else 0.0
    )
    config = Config(SLOTS, store=store)
    now = 1_700_000_000.0
    requests: dict[str, tuple[str, RankRequest]] = {}
    service = Service(config, clock=lambda: now)
    service.start()
    service.put_items(
        "shop", ItemsRequest([Item(item, [float(n % 2), float(n % 3), 1.0]) for n, item in enumerate(ITEMS)])
    )
    for n in range(events):
        now += 3
        slot, event = rng.choice(SLOTS), f"event-{n}"
        names = rng.sample(ITEMS, 4)
        items: list[str | Item] = [*names]
        if slot.name == "search":
            items = [Item(item, [rng.random(), rng.random()]) for item in names]
        requests[event] = (
            slot.name,
            RankRequest(event, items if rng.random() < 0.7 or slot.name == "search" else None),
        )
        reply = service.rank(*requests[event])
        if rng.random() < 0.7:
            service.feedback(event, FeedbackRequest([float(rng.randint(0, 1)) for _ in reply.top_k]))
    files = read_files(folder)
    served = serve(service, requests)
    service.close()
    if name != "killed":
        files = read_files(folder)
    if name == "retention":  # the stop has deleted more records
        with Service(config, clock=lambda: now) as service:
            served = serve(service, requests)
    return Log(name, files, config, now, requests, served)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the content of the database, the write-ahead log and the head file."""
    names = ("log.db", "log.db-wal", "log.db-head")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def serve(service: Service, requests: dict[str, tuple[str, RankRequest]]) -> Served:
    """Ask a service for everything that it knows. Events in memory are dropped first, so that the log is read."""
    served: Served = {name: take_snapshot(slot.state).body for name, slot in service._manager.slots.items()}
    for slot in service._manager.slots.values():
        slot.state.recent.clear()
    for event, request in requests.items():
        with capture_logs() as messages:
            try:
                served[event] = service.event(event)
                served[f"{event} again"] = service.rank(*request)
            except (Problem, OSError, ValueError) as error:  # the messages, not the reply, name the record
                served[event] = "; ".join([str(error), *(str(message.get("reason")) for message in messages)])
            except Exception as error:
                served[event] = repr(error)
    return served


def flip(log: Log, folder: Path, rng: random.Random) -> str:
    """Write the files with one bit flipped, and return where it is."""
    position = rng.randrange(8 * sum(map(len, log.files.values())))
    where = ""
    for name, content in log.files.items():
        data = bytearray(content)
        if 0 <= position < 8 * len(data):
            data[position // 8] ^= 1 << position % 8
            where = f"bit {position % 8} of byte {position // 8} of {name}"
        position -= 8 * len(data)
        (folder / name).write_bytes(data)
    return where


def try_start(log: Log, folder: Path) -> Outcome:
    """Start a service on the files, and compare what it serves."""
    config = log.config.__class__(SLOTS, store=StoreConfig(str(folder / "log.db"), snapshot_every=10**6))
    now = log.now
    service = Service(config, clock=lambda: now)
    try:
        service.start()
    except (OSError, ValueError) as error:
        return Outcome("refused", str(error))
    try:
        served = serve(service, log.requests)
        now += 1000
        service.close_due_events()
        service.rank("home", RankRequest())
    except Problem as problem:
        return Outcome("wrong", f"the service has stopped: {problem.detail}")
    finally:
        service.close()
    different = [key for key, value in log.served.items() if served.get(key) != value and "again" not in key]
    different += [key for key in log.served if key in served and "again" in key and served[key] != log.served[key]]
    damaged = [key for key in different if "is damaged: its checksum does not match" in str(served[key])]
    if len(damaged) < len(different):
        return Outcome("wrong", ", ".join(f"{key}: {served.get(key)!r:.100}" for key in different)[:500])
    return Outcome("reported", str(served[damaged[0]])) if damaged else Outcome("equal", "")


def try_flips(folder: Path, flips: int, rng: random.Random) -> tuple[Counter[str], list[str]]:
    """Flip bits one after the other, and return the outcomes by kind and what was wrong."""
    logs = [write_log(folder / name, name, 400, rng) for name in ("stopped", "killed", "retention")]
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for n in range(-len(logs), flips):
        log = logs[n % len(logs)]
        with fresh_folder(folder) as copy:
            where = "nowhere" if n < 0 else flip(log, copy, rng)
            if n < 0:  # without a flip everything must be equal
                for name, content in log.files.items():
                    (copy / name).write_bytes(content)
            outcome = try_start(log, copy)
        if n < 0 and outcome.kind != "equal":
            raise RuntimeError(f"the {log.name} log is not equal without a flip: {outcome}")
        counts[outcome.kind] += n >= 0
        counts["refused with slot and record"] += outcome.kind == "refused" and "record" in outcome.detail
        if outcome.kind == "wrong":
            wrong.append(f"{log.name}, {where}: {outcome.detail}")
    return counts, wrong


@contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """Make an empty folder, and delete it afterwards."""
    made = folder / "copy"
    made.mkdir()
    try:
        yield made
    finally:
        shutil.rmtree(made)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Flip bits in a log, and look for damage that nobody notices.")
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    open_events.AWAKE = AWAKE
    rng, begin = random.Random(options.seed), time.perf_counter()  # noqa: S311 - not a secret
    with tempfile.TemporaryDirectory(prefix="flips-") as folder, capture_logs():
        counts, wrong = try_flips(Path(folder), options.flips, rng)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(
        f"{options.flips:,} flips: {counts['equal']} starts served everything, {counts['reported']} named the "
        f"damaged record of an event, {counts['refused']} were refused "
        f"({counts['refused with slot and record']} with a record), {len(wrong)} wrong "
        f"({time.perf_counter() - begin:.0f} s)\n"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
