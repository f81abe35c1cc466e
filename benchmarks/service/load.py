"""Measure throughput and latency of durable calls, with the load generator on the same machine.

    python benchmarks/service/load.py            # all figures, about three minutes
    python benchmarks/service/load.py --seconds 1 --turns 3

The service acknowledges every call after its commit. The client is a separate process with 16 plain HTTP
connections; half of the calls rank a list, and half give feedback on it. "without storage" is the same application
in front of a service that stores and learns nothing, which is the limit that HTTP sets. CPU time per call is that
of the service's process. Unlike the rates, it hardly depends on other load on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import uvloop

from peekrank.service.api.messages import ChangedReply, EventReply, ItemsReply, RankReply, SlotReply, StatsReply
from peekrank.service.core.commands import Command, PutItems, Rank
from peekrank.service.core.details import Details

CONNECTIONS = 16
LISTS, ITEMS, FEATURES = 20, 200, 16  # the case with features: list length, registered items, features per item
NAMES = [f"item-{i}" for i in range(10)]
KNOWN = [f"item-{i:03}" for i in range(ITEMS)]

PLAIN = """
[store]
path = "load.db"
synchronous = "{synchronous}"
[slots.home]
learner = "doubtsort"
measure = "dcg"
items = {items}
"""
FEATURED = """
[store]
path = "load.db"
synchronous = "{synchronous}"
[slots.home]
learner = "ridge"
measure = "dcg"
features = {features}
features_from = "registry"
max_list_length = {max_list_length}
"""


class Nothing:
    """A service that stores nothing: the limit that HTTP sets."""

    def unready_reason(self) -> str:
        return ""

    def live(self) -> bool:
        return True

    def submit(self, command: Command[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(command, Rank):
            items = command.request.items
            names = NAMES if items is None else [str(item) for item in items]
            future.set_result(RankReply(command.request.event_id or "e", names, names[:1], False, 1))
        elif isinstance(command, PutItems):
            future.set_result(ChangedReply())
        else:
            future.set_result(EventReply("e", "home", "answered", NAMES, NAMES[:1], {NAMES[0]: 1.0}, True))
        return future

    def event(self, event_id: str, visible: Collection[str] = ()) -> EventReply:
        raise NotImplementedError

    def secret(self) -> bytes:
        return bytes(32)

    def slots(self) -> list[SlotReply]:
        return []

    def slot(self, name: str) -> SlotReply:
        raise NotImplementedError

    def details(self, slot: str, key: str | None = None) -> Details:
        raise NotImplementedError

    def items(self, slot: str, *, after: str = "", limit: int = 100) -> ItemsReply:
        raise NotImplementedError

    def stats(self) -> StatsReply:
        return StatsReply("owner")


def serve_nothing(port: int) -> None:
    """Run the application in front of a service that stores nothing."""
    import uvicorn

    from peekrank.service.api.connection import Connection
    from peekrank.service.api.endpoints import application
    from peekrank.service.api.structured_logging import configure_logging

    configure_logging("error")
    uvicorn.run(
        application(Nothing()),
        port=port,
        loop="uvloop",
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
    )


class Case(NamedTuple):
    """A case to measure."""

    name: str
    config: str | None  # None: without storage
    featured: bool = False


CASES = (
    Case("without storage", None),
    Case("m = 10, NORMAL", PLAIN.format(synchronous="normal", items=json.dumps(NAMES))),
    Case("m = 10, FULL", PLAIN.format(synchronous="full", items=json.dumps(NAMES))),
    Case(
        f"m = {LISTS}, d = {FEATURES} from the registry, NORMAL",
        FEATURED.format(synchronous="normal", features=FEATURES, max_list_length=LISTS),
        featured=True,
    ),
    Case(
        f"m = {LISTS}, d = {FEATURES} from the registry, FULL",
        FEATURED.format(synchronous="full", features=FEATURES, max_list_length=LISTS),
        featured=True,
    ),
)


def message(method: str, path: str, body: Any) -> bytes:
    """Encode an HTTP request."""
    content = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


class Caller(asyncio.Protocol):
    """A connection that alternates rankings and feedback, as fast as possible or at a fixed rate."""

    def __init__(self, number: int, run: str, featured: bool, pace: float) -> None:
        self.number, self.run, self.featured, self.pace = number, run, featured, pace
        self.count, self.failures, self.until, self.due = 0, 0, 0.0, 0.0
        self.durations: list[float] = []
        self.buffer = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def begin(self, until: float) -> None:
        self.until = until
        self.due = time.perf_counter() + self.pace * self.number / CONNECTIONS
        self._next()

    def _next(self) -> None:
        now = time.perf_counter()
        if now >= self.until:
            if not self.done.done():
                self.done.set_result(None)
            return
        if self.pace and now < self.due:
            asyncio.get_running_loop().call_at(asyncio.get_running_loop().time() + self.due - now, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if not self.pace:
            self.due = time.perf_counter()
        event = f"{self.run}-{self.number}-{self.count // 2}"
        if self.count % 2:
            self.transport.write(message("PUT", f"/v1/events/{event}/feedback", {"grades": [self.count % 3 % 2]}))
        else:
            start = self.count * 7 % (ITEMS - LISTS)
            items = {"items": KNOWN[start : start + LISTS]} if self.featured else {}
            self.transport.write(message("POST", "/v1/slots/home/rank", {"event_id": event, **items}))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        start = head.index(b"content-length:") + 15
        length = int(head[start:].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.failures += not self.buffer.startswith(b"HTTP/1.1 200")
        self.buffer = b""
        self.durations.append(time.perf_counter() - self.due)
        self.count += 1
        self.due += self.pace
        self._next()


class Measured(NamedTuple):
    """Result of a load run."""

    calls: int
    rate: float
    p50: float  # milliseconds
    p99: float
    failures: int


def as_is(caller: Caller) -> Caller:
    return caller


async def load(port: int, run: str, featured: bool, connections: int, seconds: float, rate: float = 0) -> Measured:
    """Generate load for some seconds, as fast as possible or at a fixed rate."""
    loop, callers = asyncio.get_running_loop(), []
    pace = connections / rate if rate else 0.0
    for number in range(connections):
        caller = Caller(number, run, featured, pace)
        await loop.create_connection(partial(as_is, caller), "127.0.0.1", port)
        callers.append(caller)
    begin = time.perf_counter()
    for caller in callers:
        caller.begin(begin + seconds)
    await asyncio.gather(*(caller.done for caller in callers))
    elapsed = time.perf_counter() - begin
    durations = sorted(t for caller in callers for t in caller.durations)
    cut = quantiles(durations, n=100)
    for caller in callers:
        caller.transport.close()
    return Measured(
        len(durations),
        len(durations) / elapsed,
        1000 * cut[49],
        1000 * cut[98],
        sum(caller.failures for caller in callers),
    )


def register(port: int) -> None:
    """Register items with features."""
    import numpy as np

    from peekrank.service.client import Client

    rng = np.random.default_rng(0)
    with Client(f"http://127.0.0.1:{port}") as client:
        client.put_items("home", {name: rng.normal(size=FEATURES) / 4 for name in KNOWN})


def wait_ready(port: int) -> None:
    """Wait until the service is ready."""
    import httpx

    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the service is not ready after a minute")


class Figures(NamedTuple):
    """Figures of a case."""

    top: float  # calls per second
    cpu: float  # CPU time of the service per call in microseconds, at that rate
    p50: float  # milliseconds, of one client
    p99: float  # milliseconds, at half the top rate
    failures: int


def cpu_time(pid: int) -> float:
    """Return the CPU time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(case: Case, port: int, seconds: float, turns: int) -> Figures:
    """Measure a case in its own folder."""
    with tempfile.TemporaryDirectory() as folder:
        if case.config is None:
            started = [sys.executable, __file__, "--nothing", str(port)]
        else:
            file = Path(folder, "service.toml")
            file.write_text(case.config)
            started = [
                sys.executable,
                "-m",
                "peekrank",
                "serve",
                str(file),
                "--port",
                str(port),
                "--log-level",
                "error",
            ]
        process = subprocess.Popen(started, stdout=subprocess.DEVNULL)  # noqa: S603
        try:
            wait_ready(port)
            if case.featured and case.config is not None:
                register(port)
            uvloop.run(load(port, "warm", case.featured, CONNECTIONS, 1.0))
            used = cpu_time(process.pid)
            tops = [uvloop.run(load(port, f"top{i}", case.featured, CONNECTIONS, seconds)) for i in range(turns)]
            used = cpu_time(process.pid) - used
            top = max(one.rate for one in tops)
            alone = [uvloop.run(load(port, f"alone{i}", case.featured, 1, seconds)) for i in range(turns)]
            half = [
                uvloop.run(load(port, f"half{i}", case.featured, CONNECTIONS, seconds, top / 2))
                for i in range(turns)
            ]
        finally:
            process.terminate()
            process.wait()
    failures = sum(one.failures for one in (*tops, *alone, *half))
    cpu = 1e6 * used / sum(one.calls for one in tops)
    return Figures(top, cpu, min(one.p50 for one in alone), min(one.p99 for one in half), failures)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--port", type=int, default=8399)
    parser.add_argument("--nothing", type=int, metavar="PORT", help="serve the application without storage")
    options = parser.parse_args()
    if options.nothing:
        serve_nothing(options.nothing)
        return
    print(
        f"{CONNECTIONS} connections, {os.cpu_count()} cores, client on this machine, best of {options.turns} turns"
    )
    print(f"{'':44} {'calls/s':>8} {'CPU time':>11} {'p50, 1 client':>14} {'p99, half rate':>15} {'failed':>7}")
    for case in CASES:
        f = measure(case, options.port, options.seconds, options.turns)
        print(
            f"{case.name:44} {f.top:8,.0f} {f.cpu:8.0f} us {f.p50:11.2f} ms {f.p99:12.1f} ms {f.failures:7}",
            flush=True,
        )


if __name__ == "__main__":
    main()
