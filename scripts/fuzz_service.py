"""Call a service with what schemathesis makes up from its description, right and wrong: it must never fail.

    python scripts/fuzz_service.py                # 84,612 calls: up to 100,000, fewer where nothing can be wrong
    python scripts/fuzz_service.py --calls 2000 --seed 7

Every reply must be one that `/openapi.json` describes: its status, its type and its body. Status 500 is a failure.
Half of the calls are steered to slots and events that exist, where more can go wrong than behind an unknown name.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
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

from peekrank.service.api.codec import LINES, MSGPACK
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
EVENTS = tuple(f"e{i}" for i in range(8))


@schemathesis.serializer(MSGPACK)
def _msgpack(_: Any, value: Any) -> bytes:
    try:
        return value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
    except OverflowError:  # a number that msgpack cannot have: the bytes of something else
        return json.dumps(value).encode()


@schemathesis.serializer(LINES)
def _lines(_: Any, value: Any) -> bytes:
    """A batch of one line, and of the same line again."""
    return value if isinstance(value, bytes) else b"\n".join(2 * [json.dumps(value).encode()])


@schemathesis.deserializer(MSGPACK)
def _read_msgpack(_: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


@schemathesis.deserializer(LINES)
def _read_lines(_: Any, response: Any) -> Any:
    """What the last line says; a batch of nothing gets nothing, which is right."""
    lines = response.content.splitlines()
    return json.loads(lines[-1]) if lines else {"status": 200}


def fuzzed_config(folder: Path) -> Config:
    """A service with a slot of each kind."""
    store = StoreConfig(path=str(folder / "fuzz.db"), synchronous="normal")
    return Config(SLOTS, ServerConfig(port=0), store, LimitsConfig(max_open_events=200, max_items=500))


def fuzz(url: str, calls: int, chosen: int) -> Counter[tuple[str, int]]:
    """Call all there is to call so often; the statuses that came, or the first failure as an exception."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    seen: Counter[tuple[str, int]] = Counter()
    share = max(1, calls // (2 * len(operations)))
    for operation in operations:
        for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
            with suppress(Unsatisfiable):  # nothing can be wrong about a call that takes nothing
                _try(operation.as_strategy(generation_mode=mode), share, chosen, _checked(seen))
    return seen


def _try(strategy: Any, examples: int, chosen: int, check: Callable[[Any, int], None]) -> None:
    @seed(chosen)
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


def _checked(seen: Counter[tuple[str, int]]) -> Callable[[Any, int], None]:
    def check(case: Any, number: int) -> None:
        _steer(case, number)
        response = case.call()
        seen[case.operation.label, response.status_code] += 1
        if b"Traceback" in response.content:
            raise AssertionError(f"{case.operation.label}: a traceback was sent")
        case.validate_response(response, checks=CHECKS)

    return check


def _steer(case: Any, number: int) -> None:
    """Lead every other call to what exists."""
    if number % 2:
        return
    slot, event = SLOTS[number // 2 % len(SLOTS)].name, EVENTS[number // 16 % len(EVENTS)]
    for name, value in (("slot", slot), ("event_id", event)):
        if isinstance(case.path_parameters, dict) and name in case.path_parameters:
            case.path_parameters[name] = value
    if isinstance(case.body, dict) and case.operation.label.endswith("/rank"):
        case.body["event_id"] = event


def main() -> None:
    """Start a service and call it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given_ = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as folder:
        config = fuzzed_config(Path(folder))
        running = HttpServer(Service(config), config)
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            with Client(running.url, retries=20) as client:
                client.slots()
            seen = fuzz(running.url, given_.calls, given_.seed)
        finally:
            running.stop()
            thread.join()
    for (label, status), count in sorted(seen.items()):
        sys.stdout.write(f"{label:40} {status} {count:9,}\n")
    sys.stdout.write(f"{sum(seen.values()):,} calls, no failure\n")


if __name__ == "__main__":
    main()
