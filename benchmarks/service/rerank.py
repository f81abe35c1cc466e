"""Measure `POST /v1/rerank` with 50 documents of 1 kB, and what open events cost in memory.

    python benchmarks/service/rerank.py                        # two minutes
    python benchmarks/service/rerank.py --seconds 2 --turns 2  # shorter
    python benchmarks/service/rerank.py --open 1000000         # memory and restart with a million open events
    python benchmarks/service/rerank.py --resting 1000000      # memory of the events and their traces alone

The service acknowledges every call after its commit, and each call has an event id of its own, so that a retry is
safe. Documents are plain texts, which the service hashes; there are 5,000 of them, and 500 queries. The load
generator is a process on the same machine, with 16 plain HTTP connections. "with feedback" alternates rerank calls
with grades that cite a document. CPU time per call is that of the service's process, which hardly depends on other
load on the machine.
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
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import httpx
import numpy as np
import uvloop
from load import CONNECTIONS, Measured, cpu_time, wait_ready

from peekrank.service.api.messages import Item, RankRequest
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config import read_config
from peekrank.service.core.open_events import Event, OpenEvents
from peekrank.service.core.rerank import Rerank, Texts, Traces
from peekrank.service.core.service import Service
from peekrank.service.event_log.records import Ranked

DOCUMENTS, TEXTS, QUERIES, LENGTH = 50, 5000, 500, 1000
CONFIG = """
[store]
path = "rerank.db"
synchronous = "{synchronous}"
[limits]
max_open_events = 1000000
[slots.faq]
learner = "mixed:cells=10000"
measure = "dcg:gains=linear"
k = 3
feedback_window = "1 day"
[slots.faq.rerank]
keys = "query"
"""


def bodies() -> list[bytes]:
    """Return the bodies of calls: 50 of 5,000 texts of 1 kB for each of 500 queries."""
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz      ", np.uint8)
    texts = [letters[rng.integers(len(letters), size=LENGTH)].tobytes().decode() for _ in range(TEXTS)]
    return [
        json.dumps(
            {
                "model": "faq",
                "query": f"query {number}",
                "documents": [texts[i] for i in rng.choice(TEXTS, DOCUMENTS, replace=False)],
            }
        ).encode()
        for number in range(QUERIES)
    ]


class Caller(asyncio.Protocol):
    """A connection that sends one call after the other."""

    def __init__(self, number: int, run: str, calls: list[bytes], *, feedback: bool) -> None:
        self.number, self.run, self.calls, self.feedback = number, run, calls, feedback
        self.failures, self.sent, self.until, self.begun = 0, 0, 0.0, 0.0
        self.durations: list[float] = []
        self.buffer, self.event, self.first = b"", "", 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def next(self) -> None:
        self.begun = time.perf_counter()
        if self.begun >= self.until:
            if not self.done.done():
                self.done.set_result(None)
        elif self.feedback and self.event:
            content = json.dumps({"grade": self.sent % 5 / 4, "cited": [self.first]}).encode()
            self._send("PUT", f"/v1/events/{self.event}/feedback", content)
            self.event = ""
        else:
            self.event = f"{self.run}-{self.number}-{self.sent}"
            content = self.calls[(self.number * 37 + self.sent) % len(self.calls)]
            self._send("POST", "/v1/rerank", content, f"idempotency-key: {self.event}\r\n")
            self.sent += 1

    def _send(self, method: str, path: str, content: bytes, more: str = "") -> None:
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{more}"
        self.transport.writelines([f"{head}content-length: {len(content)}\r\n\r\n".encode(), content])

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        start = self.buffer[:end].lower().index(b"content-length:") + 15
        length = int(self.buffer[start:].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        self.failures += not self.buffer.startswith(b"HTTP/1.1 200")
        at = self.buffer.find(b'"index":', end)
        if at > 0:
            self.first = int(self.buffer[at + 8 :].split(b",", 1)[0])
        self.buffer = b""
        self.durations.append(time.perf_counter() - self.begun)
        self.next()


def same(caller: Caller) -> Caller:
    return caller


async def load(port: int, run: str, calls: list[bytes], seconds: float, *, feedback: bool, n: int) -> Measured:
    """Make calls as fast as possible over n connections."""
    loop, callers = asyncio.get_running_loop(), []
    for number in range(n):
        caller = Caller(number, run, calls, feedback=feedback)
        await loop.create_connection(partial(same, caller), "127.0.0.1", port)
        callers.append(caller)
    begin = time.perf_counter()
    for caller in callers:
        caller.until = begin + seconds
        caller.next()
    await asyncio.gather(*(caller.done for caller in callers))
    elapsed = time.perf_counter() - begin
    durations = [duration for caller in callers for duration in caller.durations]
    cut = quantiles(durations, n=100)
    for caller in callers:
        caller.transport.close()
    failures = sum(caller.failures for caller in callers)
    return Measured(len(durations), len(durations) / elapsed, 1000 * cut[49], 1000 * cut[98], failures)


class Served(NamedTuple):
    """A service in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int


def write_config(folder: str, synchronous: str) -> Path:
    """Write the configuration, and return its path."""
    file = Path(folder, "service.toml")
    file.write_text(CONFIG.format(synchronous=synchronous))
    return file


def start(folder: str, port: int, synchronous: str) -> Served:
    """Start a service, and wait until it is ready."""
    file = write_config(folder, synchronous)
    words = [sys.executable, "-m", "peekrank", "serve", str(file), "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)  # noqa: S603
    wait_ready(port)
    return Served(process, port)


def throughput(served: Served, calls: list[bytes], seconds: float, turns: int, *, feedback: bool) -> str:
    """Return a row of figures."""
    name = "graded" if feedback else "plain"
    uvloop.run(load(served.port, f"warm-{name}", calls, 1.0, feedback=feedback, n=CONNECTIONS))
    used = cpu_time(served.process.pid)
    tops = [
        uvloop.run(load(served.port, f"{name}-{turn}", calls, seconds, feedback=feedback, n=CONNECTIONS))
        for turn in range(turns)
    ]
    cpu = 1e6 * (cpu_time(served.process.pid) - used) / sum(one.calls for one in tops)
    alone = uvloop.run(load(served.port, f"alone-{name}", calls, seconds, feedback=feedback, n=1))
    best = max(tops, key=lambda one: one.rate)
    failed = sum(one.failures for one in (*tops, alone))
    return f"{best.rate:8,.0f} {cpu:8.0f} us {best.p50:8.1f} ms {best.p99:8.1f} ms {alone.p50:9.2f} ms {failed:7}"


def memory(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answer(port: int, events: list[str]) -> str:
    """Grade old events one after the other, and return how long it takes."""
    durations = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for event in events:
            begin = time.perf_counter()
            client.put(f"/v1/events/{event}/feedback", json={"grade": 1, "cited": [0]}).raise_for_status()
            durations.append(1000 * (time.perf_counter() - begin))
    cut = quantiles(durations, n=100)
    return f"{len(events):,} answers to the oldest events: p50 {cut[49]:.2f} ms, p99 {cut[98]:.2f} ms"


def fill(folder: str, events: int) -> None:
    """Rank lists in this process until so many events are open, and print what they cost."""
    rng, texts = np.random.default_rng(0), Texts(bytes(32))
    names = [texts.item(str(number)) for number in range(TEXTS)]
    choices = [[names[i] for i in rng.choice(TEXTS, DOCUMENTS, replace=False)] for _ in range(QUERIES)]
    keys = [texts.key("query", str(number)) for number in range(QUERIES)]
    scores = [1 / (1 + place) for place in range(DOCUMENTS)]

    def rerank(n: int) -> Rerank:
        chosen = choices[n % QUERIES]
        items: list[str | Item] = [Item(name, score=score) for name, score in zip(chosen, scores, strict=True)]
        request = RankRequest(event_id=f"{n:032x}", items=items, key=keys[n % QUERIES])
        return Rerank("faq", request, chosen, n.to_bytes(12, "big"), n.to_bytes(16, "big"))

    with Service(read_config(Path(folder, "service.toml"))) as service:
        service.submit(rerank(0)).result()
        before, begin = memory(os.getpid()), time.perf_counter()
        for start in range(1, events, 256):
            calls = [service.submit(rerank(n)) for n in range(start, min(start + 256, events))]
            for call in calls:
                call.result()
            if start % 2**16 < 256 or start + 256 >= events:
                used, n = memory(os.getpid()) - before, start + len(calls)
                size = sum(file.stat().st_size for file in Path(folder).iterdir())
                print(
                    f"{n:9,} open events: {used / 1e6:6,.0f} MB, {used / n:6,.0f} bytes each; "
                    f"files {size / n:6,.0f} bytes each; {n / (time.perf_counter() - begin):6,.0f} lists/s",
                    flush=True,
                )


def measure_resting(events: int) -> None:
    """Print the memory of so many open events and their traces, without the learner, the log and the rest."""
    opened, traces, before = OpenEvents("faq"), Traces(), memory(os.getpid())
    for n in range(events):
        event, trace = f"{n:032x}", n.to_bytes(16, "big")
        body = Ranked(bytes(12), deferred=False, k=3, ranking=bytes(4 * DOCUMENTS), trace=trace)
        opened.begin(Event(event, n, n, "shown", body, n))
        traces.add(trace, "faq", event)
    used = memory(os.getpid()) - before
    print(f"{events:,} events with traces: {used / 1e6:,.0f} MB, {used / events:,.0f} bytes each")


def measure_open(port: int, events: int) -> None:
    """Print the memory of a service with so many open events, the time of a restart, and that of late answers."""
    with tempfile.TemporaryDirectory() as folder:
        write_config(folder, "normal")
        fill(folder, events)
        begin = time.perf_counter()
        served = start(folder, port, "normal")
        print(
            f"restart: {time.perf_counter() - begin:.1f} s, {memory(served.process.pid) / 1e6:,.0f} MB", flush=True
        )
        print(answer(port, [f"{number:032x}" for number in range(min(2000, events))]))
        served.process.terminate()
        served.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--port", type=int, default=8397)
    parser.add_argument("--open", type=int, metavar="N", help="instead, measure the memory of N open events")
    parser.add_argument("--resting", type=int, metavar="N", help="instead, measure N events and traces alone")
    options = parser.parse_args()
    if options.resting:
        measure_resting(options.resting)
        return
    if options.open:
        configure_logging("error")
        measure_open(options.port, options.open)
        return
    calls = bodies()
    print(f"{CONNECTIONS} connections, {os.cpu_count()} cores, body of {len(calls[0]):,} bytes, best of turns")
    print(f"{'':24} {'calls/s':>8} {'CPU time':>11} {'p50':>11} {'p99':>11} {'p50, alone':>12} {'failed':>7}")
    for synchronous in ("normal", "full"):
        with tempfile.TemporaryDirectory() as folder:
            served = start(folder, options.port, synchronous)
            try:
                for feedback in (False, True):
                    row = throughput(served, calls, options.seconds, options.turns, feedback=feedback)
                    name = f"{'with feedback' if feedback else 'rerank'}, {synchronous.upper()}"
                    print(f"{name:24} {row}", flush=True)
            finally:
                served.process.terminate()
                served.process.wait()


if __name__ == "__main__":
    main()
