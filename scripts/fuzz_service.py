"""Fuzz a service with valid and invalid requests that schemathesis generates from its OpenAPI description.

    python scripts/fuzz_service.py                # up to 100,000 calls; fewer where no invalid request exists
    python scripts/fuzz_service.py --calls 2000 --seed 7
    python scripts/fuzz_service.py --seconds 600  # as many as fit

It works in rounds of about 2,600 calls to one service, each with the next seed. Every reply must match
`/openapi.json` in status, type and body. Status 500 is a failure. Half of the calls go to slots and events that
exist, because unknown names fail early.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from peekrank.service.api.codec import LINES
from peekrank.service.api.server import HttpServer
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.config import Config, ServerConfig, StoreConfig
from peekrank.service.config.file import Document
from peekrank.service.config.model import parse_config
from peekrank.service.core.service import Service

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SLOTS = """
[slots.home]
items = ["tea", "cake", "soup"]
k = 2
holdout = { share = 0.3, order = ["tea", "cake"] }
sticky = "1 h"
max_visitors = 50
seed = 1

[slots.fixed]
learner = "marginftrl"
items = ["tea", "cake", "soup"]
seed = 2

[slots.lists]
learner = "ridge"
features = 2
context = 1
max_list_length = 5
k = 2
seed = 3

[slots.registry]
learner = "ridge"
features = 1
features_from = "registry"
max_list_length = 5
seed = 4

[slots.clicks]
k = 3
missing_feedback = 0
update = "on_close"
aggregate = "max"
seed = 5

[slots.docs]
learner = "mixed:cells=50"
k = 2
holdout = 0.2
sticky = "1 h"
seed = 6

[slots.docs.rules]
explore = 0.5
blocked = ["salt"]
pins = { 2 = "tea" }
group = { n = 1, within = 2 }
leash = 0.4

[slots.docs.rerank]
keys = "given"
default = true

[slots.away]
learner = "mixed:cells=50"
seed = 7

[slots.away.rerank]
upstream = "http://127.0.0.1:9/rerank"
keys = "query"
max_documents = 200

[slots.union]
k = 2
measure = "dcg@2"
seed = 8

[slots.union.compare]

[slots.coin]
k = 2
measure = "dcg@2"
seed = 9

[slots.coin.compare]
mode = "coin"

[limits]
max_open_events = 200
max_items = 500
"""
NAMES = tuple(re.findall(r"^\[slots\.(\w+)\]", SLOTS, re.MULTILINE))
ITEMS = ("tea", "cake", "soup", "salt")
_ROUND = 2600  # calls
EVENTS = tuple(f"e{i}" for i in range(8))
TRACE = "0123456789abcdef" * 2


@schemathesis.serializer(LINES)
def _lines(_: Any, value: Any) -> bytes:
    """Encode a batch of two equal lines."""
    return value if isinstance(value, bytes) else b"\n".join(2 * [json.dumps(value).encode()])


@schemathesis.deserializer(LINES)
def _read_lines(_: Any, response: Any) -> Any:
    """Decode the last line. An empty batch has an empty reply."""
    lines = response.content.splitlines()
    return json.loads(lines[-1]) if lines else {"status": 200}


def fuzzed_config(folder: Path, feedback_window: float = 1800.0) -> Config:
    """Configure a service with a slot of each kind."""
    config = parse_config(Document(SLOTS, "fuzz.toml"))
    slots = [replace(slot, feedback_window=feedback_window) for slot in config.slots]
    store = StoreConfig(path=str(folder / "fuzz.db"), synchronous="normal", snapshot_every=500)
    return replace(config, slots=tuple(slots), server=ServerConfig(port=0), store=store)


def reloads(folder: Path) -> Callable[[], Config]:
    """Make a function that returns another configuration each time."""
    windows = cycle((3.0, 1800.0))
    return lambda: fuzzed_config(folder, next(windows))


def fuzz(url: str, calls: int, random_seed: int) -> Counter[tuple[str, int]]:
    """Make calls to all endpoints, and count the statuses. Raises the first failure."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations: list[Any] = [one.ok() for one in schema.get_all_operations()]  # type: ignore[union-attr]
    statuses: Counter[tuple[str, int]] = Counter()
    share = max(1, calls // (2 * len(operations)))
    for operation in operations:
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            with suppress(Unsatisfiable):  # a call without parameters has no invalid request
                _try(operation.as_strategy(generation_mode=mode), share, random_seed, _check(statuses))
    return statuses


def rounds(url: str, calls: int, seconds: float, random_seed: int) -> Counter[tuple[str, int]]:
    """Fuzz in rounds, until there were so many calls or seconds. Count the statuses."""
    statuses: Counter[tuple[str, int]] = Counter()
    end = time.monotonic() + seconds
    while statuses.total() < calls and time.monotonic() < end:
        statuses += fuzz(url, min(_ROUND, calls - statuses.total()), random_seed)
        random_seed += 1
    return statuses


def _try(strategy: Any, examples: int, random_seed: int, check: Callable[[Any, int], None]) -> None:
    @seed(random_seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy, st.integers(0, 2**16))
    def run(case: Any, number: int) -> None:
        check(case, number)

    run()


def _check(statuses: Counter[tuple[str, int]]) -> Callable[[Any, int], None]:
    def check(case: Any, number: int) -> None:
        _steer(case, number)
        response = case.call()
        statuses[case.operation.label, response.status_code] += 1
        if b"Traceback" in response.content:
            raise AssertionError(f"{case.operation.label}: the reply has a traceback")
        case.validate_response(response, checks=CHECKS)

    return check


def _steer(case: Any, number: int) -> None:
    """Direct every other call to a slot and an event that exist, with items and orders that fit."""
    if number % 2:
        return
    slot, event = NAMES[number // 2 % len(NAMES)], EVENTS[number // 32 % len(EVENTS)]
    for name, value in (("slot", slot), ("event_id", event), ("trace_id", TRACE)):
        if isinstance(case.path_parameters, dict) and name in case.path_parameters:
            case.path_parameters[name] = value
    if not isinstance(case.body, dict):
        return
    if case.operation.label.endswith("/rank"):
        case.body["event_id"] = event
        if number % 4 == 0 and slot in ("union", "coin"):
            first = list(ITEMS[: 1 + number // 4 % 4])
            case.body = {"event_id": event, "orders": [first, first[::-1]]}
        elif number % 4 == 0:
            case.body["items"] = list(ITEMS)
    if case.operation.label.endswith("/rerank"):
        case.headers = {**(case.headers or {}), "traceparent": f"00-{TRACE}-{TRACE[:16]}-01"}
        case.body |= {"model": slot} if number % 4 == 0 else {}
        if number % 8 == 0:
            case.body.pop("texts", None)
            case.body["documents"] = [{"id": name, "score": n / 4} for n, name in enumerate(ITEMS)]


def main() -> None:
    """Start a service, and fuzz it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as folder:
        config = fuzzed_config(Path(folder))
        server = HttpServer(Service(config), config, reload=reloads(Path(folder)))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with Client(server.url, retries=20) as client:
                client.slots()
            statuses = rounds(server.url, options.calls, options.seconds, options.seed)
        finally:
            server.stop()
            thread.join()
    for (label, status), count in sorted(statuses.items()):
        sys.stdout.write(f"{label:40} {status} {count:9,}\n")
    sys.stdout.write(f"{sum(statuses.values()):,} calls, no failure\n")


if __name__ == "__main__":
    main()
