"""Kills a service at random moments under load, starts it again, and looks for what was acknowledged and is lost.

    python scripts/faults.py                          # 1,000 times kill -9
    python scripts/faults.py --kills 20 --synchronous normal

A process of its own runs a service with several slots, and writes down what was acknowledged, and nothing else,
until SIGKILL ends it. Then the log is folded anew: every decision and every answer that was acknowledged must be
there, as it was, and `audit` must find rankings and snapshots equal. Fifty kills share a log, so that each meets
what the ones before have left; every tenth comes while the log is still being read.
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

from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.service import Service
from peekrank.service.core.slot_manager import closed_event
from peekrank.service.core.slots import names_of
from peekrank.service.core.snapshots import replay
from peekrank.service.event_log.open import open_log

CALLERS = 8
ITEMS = tuple(f"item-{n}" for n in range(10))
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
    SlotConfig("search", learner="ridge", features=4, features_from="registry", k=2, feedback_window=1.0),
)


class Found(NamedTuple):
    """What a kill left: records that were acknowledged, those that are not there, and slots that are not equal."""

    acknowledged: int
    lost: list[str]
    different: list[str]


def configured(folder: Path, synchronous: Any) -> Config:
    """The service that is killed; snapshots are frequent, so that kills meet them."""
    return Config(SLOTS, store=StoreConfig(str(folder / "log.db"), synchronous=synchronous, snapshot_every=500))


def serve(folder: Path, synchronous: str, run: int) -> None:
    """Call a service from several threads, and write down what was acknowledged, until the end."""
    service = Service(configured(folder, synchronous))
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
    luck = random.Random(1000 * run + caller)  # noqa: S311 - nothing is secret
    with (folder / f"acknowledged-{run}-{caller}").open("ab", buffering=0) as file:
        number = 0
        while True:
            number += 1
            slot, event = luck.choice(SLOTS).name, f"{run}-{caller}-{number}"
            shown = service.rank(slot, RankRequest(event_id=event))
            file.write(json.dumps([event, slot, shown.ranking]).encode() + b"\n")
            if luck.random() < 0.7:
                said: dict[str, float | None] = {name: float(luck.randint(0, 1)) for name in shown.top_k}
                with suppress(Problem):  # on a slow machine an answer may come too late
                    service.feedback(event, FeedbackRequest(said))
                    file.write(json.dumps([event, said]).encode() + b"\n")


def killed(folder: Path, synchronous: str, run: int, after: float) -> None:
    """Start a service, and kill it after some seconds under load; 0: while it still reads its log."""
    command = [sys.executable, __file__, "--serve", str(folder), "--run", str(run), "--synchronous", synchronous]
    with subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}) as process:  # noqa: S603
        while after and not (folder / f"started-{run}").exists():
            if process.poll() is not None:
                raise RuntimeError(f"the service ended with code {process.returncode}")
            time.sleep(0.005)
        time.sleep(after or 0.4)
        process.kill()


def acknowledged(folder: Path, run: int) -> Iterator[list[Any]]:
    """What callers had been told before the end; half a line was not told."""
    for file in folder.glob(f"acknowledged-{run}-*"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def looked_for(folder: Path, run: int) -> Found:
    """Look for all that was acknowledged, and audit the log."""
    store = open_log(str(folder / "log.db"))
    states = {slot: replay(store, slot)[0] for slot in store.slots()}
    lost, count = [], 0
    for event, *told in acknowledged(folder, run):
        count += 1
        records = store.of_event(event)
        kept = closed_event(records) if records else None
        if kept is None:
            lost.append(event)
        elif len(told) == 2:
            if names_of(states[told[0]], kept) != told[1]:
                lost.append(event)
        elif not kept.answers and not kept.late:
            lost.append(f"answer to {event}")
    different = [str(audit) for audit in audit_slots(store) if not audit.passed]
    store.close()
    return Found(count, lost, different)


def try_kills(folder: Path, kills: int, synchronous: str, luck: random.Random) -> int:
    """Kill a service so many times, and print what was found: how much is lost or different."""
    total, wrong = 0, 0
    for run in range(kills):
        killed(folder, synchronous, run, 0.0 if run % 10 == 9 else luck.uniform(0.01, 0.8))
        found = looked_for(folder, run)
        total += found.acknowledged
        wrong += len(found.lost) + len(found.different)
        for what in [*found.lost, *found.different]:
            sys.stderr.write(f"kill {run}: {what}\n")
        if run % 50 == 49:
            sys.stderr.write(f"{run + 1} kills, {total:,} acknowledged, {wrong} lost or different\n")
            for file in folder.glob("log.db*"):  # audits fold all of it: begin a new log now and then
                file.unlink()
    sys.stdout.write(
        f"{kills:,} kills (synchronous = {synchronous}): {total:,} acknowledged, {wrong} lost or different\n"
    )
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, look, and say."""
    parser = argparse.ArgumentParser(description="Kill a service at random moments, and look for what is lost.")
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
        luck = random.Random(options.seed)  # noqa: S311 - nothing is secret
        return int(try_kills(Path(folder), options.kills, options.synchronous, luck) > 0)


if __name__ == "__main__":
    sys.exit(main())
