"""Kill a service at random moments under load, and check that it lost no acknowledged call.

    python scripts/faults.py                          # 1,000 kills
    python scripts/faults.py --kills 20 --synchronous normal

The slots have every feature: rules, holdouts, visitors, comparisons, rerank calls with traces, items that come and
go, and reloads of the configuration. A process runs the service, and writes down every acknowledged call until
SIGKILL ends it. The script then replays the log. Every acknowledged ranking and feedback must be there, unchanged,
and the audit must find rankings and snapshots equal. Ten kills share a log, so that each starts from the remains
of the others. Every tenth kill happens while the service still reads its log. Events rest after a few rankings.

Each service is a fork of a process that has compiled all kernels, and has no threads then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from peekrank.service.api.messages import FeedbackRequest, Item, ItemsRequest, RankReply, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.config import Config, StoreConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.core import open_events
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.replies import event_reply, names_of
from peekrank.service.core.rerank import Rerank, Texts, TraceFeedback
from peekrank.service.core.service import Service
from peekrank.service.core.slot_manager import closed_event
from peekrank.service.core.snapshots import replay
from peekrank.service.event_log.open import open_log

CALLERS = 8
SHARED = 10  # kills of a log
AWAKE = 300  # rankings after which an event rests; more than a batch of calls
LIFETIME = 60.0  # seconds after which a service ends by itself, which is a failure
ITEMS = tuple(f"item-{n}" for n in range(10))
SLOTS = """
[slots.home]
items = ITEMS
feedback_window = 0.5
holdout = { share = 0.2, order = ITEMS }
sticky = 0.3
max_visitors = 20

[slots.clicks]
learner = "marginftrl"
items = ITEMS
k = 3
feedback_window = 0.2
update = "on_close"
missing_feedback = 0

[slots.all]
learner = "mixed:cells=50"
k = 3
feedback_window = 0.5
holdout = 0.2
sticky = 0.3
max_visitors = 20

[slots.all.rules]
explore = 0.5
explore_at = 2
pins = { 2 = "item-3" }
blocked = ["item-1"]
new = { n = 1, within = 3 }
new_below = 3
group = { n = 1, within = 4 }
leash = 0.4

[slots.all.rerank]
keys = "given"

[slots.rerank]
learner = "mixed:cells=50"
k = 2
feedback_window = 0.5
holdout = { share = 0.1, mode = "union" }

[slots.rerank.rerank]
keys = "query"

[slots.union]
k = 2
feedback_window = 0.3
measure = "dcg@2"

[slots.union.compare]
names = ["old", "new"]

[slots.coin]
k = 3
feedback_window = 0.3
measure = "dcg@3"

[slots.coin.compare]
mode = "coin"

[slots.search]
learner = "ridge"
features = 4
features_from = "registry"
k = 2
feedback_window = 1.0
"""
Caller = Callable[[Service, random.Random, str], RankReply]
Write = Callable[[list[Any]], object]


class Result(NamedTuple):
    """Result of a kill: the number of acknowledged calls, the lost ones, and the slots that fail the audit."""

    acknowledged: int
    lost: list[str]
    different: list[str]


def make_config(folder: Path, synchronous: Any) -> Config:
    """Configure the service, with frequent snapshots, so that kills hit them."""
    config = parse_config(Document(SLOTS.replace("ITEMS", json.dumps(ITEMS)), "faults.toml"))
    return replace(config, store=StoreConfig(str(folder / "log.db"), synchronous=synchronous, snapshot_every=50))


def serve(folder: Path, synchronous: str, run: int) -> None:
    """Call a service from several threads, and write down the acknowledged calls, until the process is killed."""
    config = make_config(folder, synchronous)
    service = Service(config)
    service.start()
    _register(service)
    (folder / f"started-{run}").touch()
    threads = [threading.Thread(target=_call, args=(service, folder, run, n)) for n in range(CALLERS)]
    threads.append(threading.Thread(target=_administer, args=(service, config, random.Random(run))))  # noqa: S311
    for thread in threads:
        thread.daemon = True
        thread.start()
    time.sleep(LIFETIME)
    os._exit(1)


def _register(service: Service) -> None:
    items: list[str | Item] = [
        Item(name, [float(n % 3), float(n % 5), 1.0, n / 10]) for n, name in enumerate(ITEMS)
    ]
    service.put_items("search", ItemsRequest(items))


def _administer(service: Service, config: Config, rng: random.Random) -> None:
    """Retire and register items, and reload the configuration with other windows and rules."""
    while True:
        time.sleep(0.02)
        service.retire_items("home", [rng.choice(ITEMS[3:])])
        service.put_items("home", ItemsRequest([rng.choice(ITEMS)]))
        slots = [replace(slot, feedback_window=rng.choice([0.2, 0.5, 1.0])) for slot in config.slots]
        rules = [
            replace(slot.rules, explore=rng.choice([0.3, 0.5])) if slot.rules.leash else slot.rules
            for slot in slots
        ]
        slots = [replace(slot, rules=one) for slot, one in zip(slots, rules, strict=True)]
        service.reload(replace(config, slots=tuple(slots)))


def _call(service: Service, folder: Path, run: int, caller: int) -> None:
    rng = random.Random(1000 * run + caller)  # noqa: S311 - not a secret
    with (folder / f"acknowledged-{run}-{caller}").open("ab", buffering=0) as file:

        def write(line: list[Any]) -> None:
            file.write(json.dumps(line).encode() + b"\n")

        number = 0
        while True:
            number += 1
            _call_once(service, rng, f"{run}-{caller}-{number}", write)


def _call_once(service: Service, rng: random.Random, event: str, write: Write) -> None:
    """Rank a list, and write it down, then activate it or submit feedback. On a slow machine these may be late."""
    slot = rng.choice(list(_RANK))
    reply = _RANK[slot](service, rng, event)
    write([event, slot, reply.ranking])
    with suppress(Problem):
        if rng.random() < 0.2:
            service.activate(event)
        if rng.random() < 0.7:
            _answer(service, rng, slot, reply, write)


def _answer(service: Service, rng: random.Random, slot: str, reply: RankReply, write: Write) -> None:
    """Submit feedback, and write down the grades that the service then has."""
    event, real = reply.event_id, slot in ("all", "rerank")
    grades: dict[str, float | None] = {
        name: rng.random() if real else float(rng.randint(0, 1)) for name in reply.top_k
    }
    request, replies = FeedbackRequest(grades), []
    if slot == "rerank":
        request = FeedbackRequest(grade=rng.random(), cited=[reply.top_k[0]])
        replies = service.submit(TraceFeedback(_trace(event), request)).result().events
    else:
        replies = [service.feedback(event, request)]
    for one in replies:
        write([one.event_id, one.grades, one.state])


def _visitor(rng: random.Random) -> str:
    return f"visitor {rng.randrange(40)}"


def _trace(event: str) -> bytes:
    return event.encode().ljust(16, b".")[:16]


def _rank_home(service: Service, rng: random.Random, event: str) -> RankReply:
    visitor = _visitor(rng) if rng.random() < 0.7 else None
    return service.rank("home", RankRequest(event, defer=rng.random() < 0.2, visitor=visitor))


def _rank_plainly(service: Service, rng: random.Random, event: str, slot: str) -> RankReply:
    return service.rank(slot, RankRequest(event, defer=rng.random() < 0.2))


def _rank_by_all(service: Service, rng: random.Random, event: str) -> RankReply:
    """Rank a list with scores, key, version, visitor, groups, pins and blocked items."""
    names = rng.sample(ITEMS, 7)
    pin = next(name for name in names if name not in ("item-1", "item-3"))
    scored: list[str | Item] = [
        Item(name, score=rng.random(), group=f"group {int(name[-1]) % 5}") for name in names
    ]
    request = RankRequest(
        event,
        scored,
        key=f"key {rng.randrange(4)}",
        score_version=rng.randrange(3) if rng.random() < 0.1 else None,
        pins={1: pin} if rng.random() < 0.3 else None,
        blocked=["item-7"] if pin != "item-7" and rng.random() < 0.3 else None,
        baseline=rng.sample(names, 7) if rng.random() < 0.5 else None,
        visitor=_visitor(rng) if rng.random() < 0.7 else None,
    )
    return service.rank("all", request)


def _rerank(service: Service, rng: random.Random, event: str) -> RankReply:
    """Rank documents by their texts, some of which are copies."""
    texts = Texts(service.secret())
    documents = [texts.item(f"Document {rng.randrange(30)}.") for _ in range(6)]
    scored: list[str | Item] = [Item(name, score=rng.random()) for name in dict.fromkeys(documents)]
    request = RankRequest(event, scored, key=texts.key("query", f"query {rng.randrange(5)}"))
    if rng.random() < 0.1:  # as after an upstream that failed
        request = RankRequest(event, [*dict.fromkeys(documents)], baseline=[*dict.fromkeys(documents)])
    return service.submit(
        Rerank("rerank", request, documents, texts.digest(event.encode()), _trace(event))
    ).result()


def _compare(service: Service, rng: random.Random, event: str, slot: str) -> RankReply:
    names = rng.sample(ITEMS, 6)
    return service.rank(slot, RankRequest(event, orders=[names, rng.sample(names, 6)]))


_RANK: dict[str, Caller] = {
    "home": _rank_home,
    "clicks": partial(_rank_plainly, slot="clicks"),
    "search": partial(_rank_plainly, slot="search"),
    "all": _rank_by_all,
    "rerank": _rerank,
    "union": partial(_compare, slot="union"),
    "coin": partial(_compare, slot="coin"),
}


class Nursery:
    """A process that forks services, so that none has to import and compile first.

    Parameters
    ----------
    folder
        Folder of the log.
    synchronous
        How the services write.
    """

    def __init__(self, folder: Path, synchronous: str) -> None:
        command = [sys.executable, __file__, "--nursery", str(folder), "--synchronous", synchronous]
        self._folder = folder
        self._process = subprocess.Popen(  # noqa: S603
            command,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def kill(self, run: int, after: float) -> None:
        """Start a service, and kill it after some seconds of load, or while it reads its log if `after` is 0."""
        pid = int(self._say(str(run)))
        while after and not (self._folder / f"started-{run}").exists():
            if not Path(f"/proc/{pid}").exists():
                raise RuntimeError("the service ended by itself")
            time.sleep(0.005)
        time.sleep(after or 0.03)
        os.kill(pid, signal.SIGKILL)
        if (status := int(self._say(""))) != signal.SIGKILL:
            raise RuntimeError(f"the service ended by itself, with status {status}")

    def _say(self, line: str) -> str:
        to, replies = self._process.stdin, self._process.stdout
        if to is None or replies is None or self._process.poll() is not None:
            raise RuntimeError("the process that forks services ended")
        if line:
            to.write(f"{line}\n")
            to.flush()
        return replies.readline()


def nurse(folder: Path, synchronous: str) -> None:
    """Compile everything, then fork a service for each line of the input, and report its id and how it ended."""
    with tempfile.TemporaryDirectory() as other, Service(make_config(Path(other), synchronous)) as service:
        _register(service)
        rng = random.Random(0)  # noqa: S311 - not a secret
        for n in range(200):
            _call_once(service, rng, f"warm-{n}", lambda _: None)
            time.sleep(0.01)
    if threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a fork would copy threads")
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            serve(folder, synchronous, int(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitpid(pid, 0)[1]}\n")
        sys.stdout.flush()


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
        elif isinstance(content[0], str):
            if names_of(states[content[0]], stored) != content[1]:
                lost.append(event)
        elif not stored.feedback and not stored.late_feedback:
            lost.append(f"feedback on {event}")
        elif stored.feedback and event_reply(states[records[0].slot], stored).grades != content[0]:
            lost.append(f"grades of {event}")
    different = [str(audit) for audit in audit_slots(store) if not audit.passed]
    store.close()
    return Result(count, lost, different)


def try_kills(folder: Path, kills: int, synchronous: str, rng: random.Random) -> int:
    """Kill a service repeatedly, print the result, and return the number of losses and differences."""
    total, wrong = 0, 0
    with Nursery(folder, synchronous) as nursery:
        for run in range(kills):
            nursery.kill(run, 0.0 if run % 10 == 9 else rng.uniform(0.01, 0.8))
            result = check(folder, run)
            total += result.acknowledged
            wrong += len(result.lost) + len(result.different)
            for failure in [*result.lost, *result.different]:
                sys.stderr.write(f"kill {run}: {failure}\n")
            if run % SHARED == SHARED - 1:
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
    parser.add_argument("--nursery", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    open_events.AWAKE = AWAKE
    if options.nursery:
        nurse(options.nursery, options.synchronous)
        return 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        rng = random.Random(options.seed)  # noqa: S311 - not a secret
        return int(try_kills(Path(folder), options.kills, options.synchronous, rng) > 0)


if __name__ == "__main__":
    sys.exit(main())
