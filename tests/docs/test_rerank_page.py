"""docs/service/rerank.md: a newcomer's steps, with its configuration, call and program."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from helpers.running import running
from helpers.scripts import ROOT
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.config import ServerConfig, read_config
from peekrank.service.core.service import Service

PAGE = ROOT / "docs" / "service" / "rerank.md"
ADDRESS = "http://127.0.0.1:8000"


@pytest.mark.service
def test_the_page_leads_to_a_learning_reranker(tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}
    for kind, content in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        found.setdefault(kind, []).append(content)
    (toml,), (start, call), (reply, grade), (program,) = (found[kind] for kind in ("toml", "sh", "json", "python"))
    file = tmp_path / "rerank.toml"
    file.write_text(toml)
    assert start.split() == ["peekrank", "serve", file.name]
    config = replace(read_config(file), server=ServerConfig(port=0))
    configure_logging("critical")
    with running(Service(config), config) as one, httpx.Client(base_url=one.url) as http:
        with Client(one.url, retries=20) as client:
            client.slots()  # waits
        words = shlex.split(call)
        assert words[:2] == ["curl", f"{ADDRESS}/v1/rerank"]
        said = http.post("/v1/rerank", json=json.loads(words[-1])).json()
        assert {**said, "id": ""} == {**json.loads(reply), "id": ""}
        done = http.put(f"/v1/events/{said['id']}/feedback", json=json.loads(grade))
        grades = done.json()["grades"]
        assert grades["doc-17"] == 0.75
        assert sorted(map(str, grades.values())) == ["0.75", "0.75", "None"]  # the other one is cited by its text
        output = io.StringIO()
        with redirect_stdout(output):
            exec(program.replace(ADDRESS, one.url), {})  # noqa: S102 - the page's own program
        assert json.loads(output.getvalue())[0] == 1
