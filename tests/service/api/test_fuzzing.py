"""A service called with what schemathesis makes up: no failure, and no reply that is not described."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.running import running
from helpers.scripts import load_script
from peekrank.service.api.routes import ENDPOINTS
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.core.service import Service


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.filterwarnings("default")  # of the tools
def test_nothing_that_is_sent_makes_it_fail(tmp_path: Path) -> None:
    configure_logging("critical")
    script = load_script("fuzz_service")
    config = script.fuzzed_config(tmp_path)
    service = Service(config)
    with running(service, config, reload=script.reloads(tmp_path)) as one:
        with Client(one.url, retries=20) as client:
            client.slots()
        seen = script.fuzz(one.url, 500, 0)
        assert not service.unready_reason()
    assert {label for label, _ in seen} == {f"{call.method} {call.path}" for call in ENDPOINTS}
    assert {200, 400, 404, 422} <= {status for _, status in seen} <= {200, 400, 404, 409, 410, 413, 415, 422, 429}
