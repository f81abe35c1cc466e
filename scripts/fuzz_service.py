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
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
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
from peekrank.service.config import Config, LimitsConfig, ServerConfig, SlotConfig, StoreConfig
from peekrank.service.core.service import Service

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SLOTS = (
    SlotConfig("home", learner="doubtsort", items=("tea", "cake", "soup"), k=2, seed=1),
    SlotConfig("fixed", learner="marginftrl", items=("tea", "cake", "soup"), seed=2),
    SlotConfig("lists", learner="ridge", features=2, context=1, max_list_length=5, k=2, seed=3),
    SlotConfig("registry", learner="ridge", features=1, features_from="registry", max_list_length=5, seed=4),
    SlotConfig("clicks", learner="doubtsort", k=3, missing_feedback=0, update="on_close", aggregate="max", seed=5),
)
_ROUND = 2600  # calls
EVENTS = tuple(f"e{i}" for i in range(8))


@schemathesis.serializer(LINES)
def _lines(_: Any, value: Any) -> bytes:
    """Encode a batch of two equal lines."""
    return value if isinstance(value, bytes) else b"\n".join(2 * [json.dumps(value).encode()])


@schemathesis.deserializer(LINES)
def _read_lines(_: Any, response: Any) -> Any:
    """Decode the last line. An empty batch has an empty reply."""
    lines = response.content.splitlines()
    return json.loads(lines[-1]) if lines else {"status": 200}


def fuzzed_config(folder: Path) -> Config:
    """Configure a service with a slot of each kind."""
    store = StoreConfig(path=str(folder / "fuzz.db"), synchronous="normal")
    return Config(SLOTS, ServerConfig(port=0), store, LimitsConfig(max_open_events=200, max_items=500))


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
    """Direct every other call to a slot and an event that exist."""
    if number % 2:
        return
    slot, event = SLOTS[number // 2 % len(SLOTS)].name, EVENTS[number // 16 % len(EVENTS)]
    for name, value in (("slot", slot), ("event_id", event)):
        if isinstance(case.path_parameters, dict) and name in case.path_parameters:
            case.path_parameters[name] = value
    if isinstance(case.body, dict) and case.operation.label.endswith("/rank"):
        case.body["event_id"] = event


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
        server = HttpServer(Service(config), config)
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
