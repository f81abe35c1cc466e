"""Kill the owner of a log in PostgreSQL again and again while it works, and see that a follower takes over.

    PYTHONPATH=tests python scripts/failover.py --kills 100

Each time an owner ranks and is answered as fast as it can, tells what was acknowledged, and is ended with SIGKILL
at a random moment, while this process follows. Then this process must become the owner, know every event that was
acknowledged, and have the state that the log folds to, bit for bit. A PostgreSQL server of its own is started.
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
from peekrank.service.config import Config, SlotConfig, StoreConfig
from peekrank.service.core.service import Service
from peekrank.service.core.snapshots import replay, take_snapshot

ITEMS = tuple("abcdefghij")


class Outcome(NamedTuple):
    """What a number of kills came to."""

    kills: int
    acknowledged: int
    lost: int
    differing: int  # takeovers after which memory was not what the log folds to
    takeovers: list[float]  # seconds from the kill until calls were take_snapshot


def service(url: str) -> Service:
    """A service on the log."""
    slot = SlotConfig("home", learner="doubtsort", items=ITEMS, k=2, feedback_window=3600.0, seed=7)
    return Service(Config((slot,), store=StoreConfig(url=url, snapshot_every=500)))


def work(url: str, name: str) -> None:
    """Own the log, and tell each event that was acknowledged to be answered."""
    with service(url) as owner:
        for n in range(1_000_000):
            event = f"{name}-{n}"
            shown = owner.rank("home", RankRequest(event_id=event))
            owner.feedback(event, FeedbackRequest({shown.top_k[0]: n % 2}))
            print(event, flush=True)  # noqa: T201


def failover(kills: int, seed: int = 0) -> Outcome:
    """Kill so many owners."""
    rng, server = random.Random(seed), Server()  # noqa: S311
    acknowledged, lost, differing, takeovers = 0, 0, 0, []
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
            differing += take_snapshot(state).digest != take_snapshot(follower._manager.slots["home"].state).digest
            follower.close()
    finally:
        server.remove()
    return Outcome(kills, acknowledged, lost, differing, takeovers)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", nargs=2, metavar=("URL", "NAME"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(*given.work)
        return
    found = failover(given.kills, given.seed)
    longest, middle = max(found.takeovers), sorted(found.takeovers)[len(found.takeovers) // 2]
    print(  # noqa: T201
        f"{found.kills} owners killed: {found.acknowledged:,} events acknowledged, {found.lost} lost, "
        f"{found.differing} states that differ from the log; takeover after {middle:.2f} s in the median, "
        f"{longest:.2f} s at the most"
    )
    sys.exit(bool(found.lost or found.differing))


if __name__ == "__main__":
    main()
