"""Kill a service at random moments under load, and check that it lost no acknowledged call.

    python scripts/faults.py                          # 1,000 kills
    python scripts/faults.py --kills 20 --synchronous normal

A child process runs a service with several slots, and writes down every acknowledged call until SIGKILL ends it.
The script then replays the log. Every acknowledged ranking and feedback must be there, unchanged, and the audit
must find rankings and snapshots equal. Fifty kills share a log, so that each starts from the remains of the
others. Every tenth kill happens while the service still reads its log.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from peekrank.engine.rules import AtMost
from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.replies import names_of
from peekrank.service.core.service import Service
from peekrank.service.core.slot_manager import closed_event
from peekrank.service.core.snapshots import replay
from peekrank.service.event_log.open import open_log

CALLERS = 8
ITEMS = tuple(f"item-{n}" for n in range(10))
RULES = RulesConfig(
    explore=0.5,
    explore_at=1,
    pins=((2, "item-3"),),
    blocked=("item-1",),
    new=AtMost(1, within=3),
    new_below=3,
    group=AtMost(1, within=4),
    leash=0.2,
)
SLOTS = (
    SlotConfig("home", learner="doubtsort", items=ITEMS, k=1, feedback_window=0.5),
    SlotConfig(
        "clicks",
        learner="marginftrl",
        items=ITEMS,
        k=3,
        feedback_window=0.2,
        update="on_close",
        missing_feedback=0,
    ),
    SlotConfig("scored", learner="mixed:cells=50", k=2, feedback_window=0.5),
    SlotConfig("ruled", learner="doubtsort", items=ITEMS, k=2, feedback_window=0.5, rules=RULES),
    SlotConfig("search", learner="ridge", features=4, features_from="registry", k=2, feedback_window=1.0),
)


class Result(NamedTuple):
    """Result of a kill: the number of acknowledged calls, the lost ones, and the slots that fail the audit."""

    acknowledged: int
    lost: list[str]
    different: list[str]


def make_config(folder: Path, synchronous: Any) -> Config:
    """Configure the service, with frequent snapshots, so that kills hit them."""
    return Config(SLOTS, store=StoreConfig(str(folder / "log.db"), synchronous=synchronous, snapshot_every=500))


def serve(folder: Path, synchronous: str, run: int) -> None:
    """Call a service from several threads, and write down the acknowledged calls, until the process is killed."""
    service = Service(make_config(folder, synchronous))
    service.start()
    items: list[str | Item] = [
        Item(name, [float(n % 3), float(n % 5), 1.0, n / 10]) for n, name in enumerate(ITEMS)
    ]
    service.put_items("search", ItemsRequest(items))
    (folder / f"started-{run}").touch()
    threads = [threading.Thread(target=_call, args=(service, folder, run, n)) for n in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _call(service: Service, folder: Path, run: int, caller: int) -> None:
    rng = random.Random(1000 * run + caller)  # noqa: S311 - not a secret
    with (folder / f"acknowledged-{run}-{caller}").open("ab", buffering=0) as file:
        number = 0
        while True:
            number += 1
            slot, event = rng.choice(SLOTS).name, f"{run}-{caller}-{number}"
            request = RankRequest(event_id=event)
            if slot == "scored":
                scored: list[str | Item] = [Item(name, score=rng.gauss(0, 1)) for name in rng.sample(ITEMS, 5)]
                request = RankRequest(event_id=event, items=scored, key=f"key {rng.randrange(4)}")
            if slot == "ruled":
                names = rng.sample(ITEMS, 7)
                pin = next(name for name in names if name not in ("item-1", "item-3"))
                request = RankRequest(
                    event_id=event,
                    items=[Item(name, group=f"group {int(name[-1]) % 3}") for name in names],
                    pins={1: pin} if rng.random() < 0.3 else None,
                    blocked=["item-7"] if pin != "item-7" and rng.random() < 0.3 else None,
                )
            reply = service.rank(slot, request)
            file.write(json.dumps([event, slot, reply.ranking]).encode() + b"\n")
            if rng.random() < 0.7:
                grades: dict[str, float | None] = {name: float(rng.randint(0, 1)) for name in reply.top_k}
                if slot == "scored":
                    grades = {name: rng.random() for name in grades}
                with suppress(Problem):  # on a slow machine feedback may be late
                    service.feedback(event, FeedbackRequest(grades))
                    file.write(json.dumps([event, grades]).encode() + b"\n")


def kill(folder: Path, synchronous: str, run: int, after: float) -> None:
    """Start a service, and kill it after some seconds under load, or while it reads its log if `after` is 0."""
    command = [sys.executable, __file__, "--serve", str(folder), "--run", str(run), "--synchronous", synchronous]
    with subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}) as process:  # noqa: S603
        while after and not (folder / f"started-{run}").exists():
            if process.poll() is not None:
                raise RuntimeError(f"the service ended with code {process.returncode}")
            time.sleep(0.005)
        time.sleep(after or 0.4)
        process.kill()


def acknowledged(folder: Path, run: int) -> Iterator[list[Any]]:
    """Yield the acknowledged calls. An incomplete last line does not count."""
    for file in folder.glob(f"acknowledged-{run}-*"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def check(folder: Path, run: int) -> Result:
    """Look for every acknowledged call in the log, and audit it."""
    store = open_log(str(folder / "log.db"))
    states = {slot: replay(store, slot)[0] for slot in store.heads()}
    lost, count = [], 0
    for event, *content in acknowledged(folder, run):
        count += 1
        records = store.event_records(event)
        stored = closed_event(records) if records else None
        if stored is None:
            lost.append(event)
        elif len(content) == 2:
            if names_of(states[content[0]], stored) != content[1]:
                lost.append(event)
        elif not stored.feedback and not stored.late_feedback:
            lost.append(f"feedback on {event}")
    different = [str(audit) for audit in audit_slots(store) if not audit.passed]
    store.close()
    return Result(count, lost, different)


def try_kills(folder: Path, kills: int, synchronous: str, rng: random.Random) -> int:
    """Kill a service repeatedly, print the result, and return the number of losses and differences."""
    total, wrong = 0, 0
    for run in range(kills):
        kill(folder, synchronous, run, 0.0 if run % 10 == 9 else rng.uniform(0.01, 0.8))
        result = check(folder, run)
        total += result.acknowledged
        wrong += len(result.lost) + len(result.different)
        for failure in [*result.lost, *result.different]:
            sys.stderr.write(f"kill {run}: {failure}\n")
        if run % 50 == 49:
            sys.stderr.write(f"{run + 1} kills, {total:,} acknowledged, {wrong} lost or different\n")
            for file in folder.glob("log.db*"):  # start a new log, because audits replay all of it
                file.unlink()
    sys.stdout.write(
        f"{kills:,} kills (synchronous = {synchronous}): {total:,} acknowledged, {wrong} lost or different\n"
    )
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Kill a service at random moments, and look for losses.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve, options.synchronous, options.run)
        return 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        rng = random.Random(options.seed)  # noqa: S311 - not a secret
        return int(try_kills(Path(folder), options.kills, options.synchronous, rng) > 0)


if __name__ == "__main__":
    sys.exit(main())
