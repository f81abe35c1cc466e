"""Kill the owner of a log in PostgreSQL repeatedly, and check that a follower takes over.

    PYTHONPATH=tests python scripts/failover.py --kills 100

Each owner ranks and gets feedback as fast as it can, prints the acknowledged events, and is killed with SIGKILL at
a random moment, while this process follows. This process must then become the owner, know every acknowledged
event, and have the state that replay gives, bit for bit. The script starts its own PostgreSQL server.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from helpers.postgresql import Server
from peekrank.service.api.messages import FeedbackRequest, RankRequest
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot

ITEMS = tuple("abcdefghij")


class Outcome(NamedTuple):
    """Result of all kills."""

    kills: int
    acknowledged: int
    lost: int
    mismatches: int  # takeovers after which the state differs from replay
    takeovers: list[float]  # seconds from the kill until the follower took calls


def service(url: str) -> Service:
    """Create a service on the log."""
    slot = SlotConfig("home", learner="doubtsort", items=ITEMS, k=2, feedback_window=3600.0, seed=7)
    return Service(Config((slot,), store=StoreConfig(url=url, snapshot_every=500)))


def work(url: str, name: str) -> None:
    """Own the log, and print each event whose feedback was acknowledged."""
    configure_logging("error")  # to standard error: the output is read
    with service(url) as owner:
        while not owner.ready():  # the server may still hold the lock of the owner before
            time.sleep(0.01)
        for n in range(1_000_000):
            event = f"{name}-{n}"
            reply = owner.rank("home", RankRequest(event_id=event))
            owner.feedback(event, FeedbackRequest({reply.top_k[0]: n % 2}))
            print(event, flush=True)  # noqa: T201


def failover(kills: int, seed: int = 0) -> Outcome:
    """Kill owners one after the other."""
    rng, server = random.Random(seed), Server()  # noqa: S311
    acknowledged, lost, mismatches, takeovers = 0, 0, 0, []
    try:
        for attempt in range(kills):
            owner = subprocess.Popen(  # noqa: S603
                [sys.executable, __file__, "--work", server.url, f"owner{attempt}"],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            assert owner.stdout is not None  # noqa: S101
            events = [owner.stdout.readline().strip()]
            follower = service(server.url)
            follower.start()
            time.sleep(rng.uniform(0, 0.5))
            owner.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            while not follower.ready():
                time.sleep(0.005)
            takeovers.append(time.monotonic() - killed)
            events += owner.stdout.read().split()
            owner.communicate()
            acknowledged += len(events)
            lost += sum(follower.event(event).state != "answered" for event in events)
            state, _ = replay(follower._store, "home")
            mismatches += (
                take_snapshot(state).digest != take_snapshot(follower._manager.slots["home"].state).digest
            )
            follower.close()
    finally:
        server.remove()
    return Outcome(kills, acknowledged, lost, mismatches, takeovers)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", nargs=2, metavar=("URL", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return
    outcome = failover(options.kills, options.seed)
    longest, median = max(outcome.takeovers), sorted(outcome.takeovers)[len(outcome.takeovers) // 2]
    print(  # noqa: T201
        f"{outcome.kills} owners killed: {outcome.acknowledged:,} events acknowledged, {outcome.lost} lost, "
        f"{outcome.mismatches} states differ from the log; takeover took {median:.2f} s (median), "
        f"{longest:.2f} s (maximum)"
    )
    sys.exit(bool(outcome.lost or outcome.mismatches))


if __name__ == "__main__":
    main()
