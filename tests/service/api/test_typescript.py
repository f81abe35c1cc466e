"""A TypeScript program, compiled strictly against `/openapi.json` and run against a service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.running import config, running
from peekrank.service.api.openapi import openapi
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.core.service import Service

PROGRAM = Path(__file__).parent / "typescript"


def missing(reason: str) -> None:
    """Skip the test, unless that is forbidden."""
    if os.environ.get("PEEKRANK_NODE") == "required":
        pytest.fail(f"{reason}, and PEEKRANK_NODE=required")
    pytest.skip(reason)


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Node in a folder."""
    path = shutil.which(program)
    assert path is not None
    return subprocess.run([path, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def compiled(folder: Path, document: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Make types from a description, and compile the program with them."""
    (folder / "openapi.json").write_text(json.dumps(document))
    types = run(folder, "npx", "--no-install", "openapi-typescript", "openapi.json", "--output", "schema.d.ts")
    assert types.returncode == 0, types.stderr
    return run(folder, "npx", "--no-install", "tsc", "--project", ".")


@pytest.mark.slow
@pytest.mark.service
def test_minimal_calls_compile_and_replies_have_every_field(tmp_path: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("node and npm are not installed")
    folder = tmp_path / "typescript"
    shutil.copytree(PROGRAM, folder, ignore=shutil.ignore_patterns("node_modules", "out"))
    installed = run(folder, "npm", "ci", "--no-audit", "--no-fund")
    if installed.returncode:
        missing(f"npm cannot install the packages: {installed.stderr[-500:]}")
    done = compiled(folder, openapi())
    assert done.returncode == 0, done.stdout
    configure_logging("critical")
    made = config(tmp_path)
    with running(Service(made), made) as one:
        with Client(one.url, retries=20) as client:
            client.slots()
        done = run(folder, "node", "out/program.js", one.url)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["first"] in made.slots[0].items

    document = json.loads(json.dumps(openapi()))
    schemas = document["components"]["schemas"]
    schemas["RankRequest"]["properties"]["event_id"]["default"] = None  # as it was described before
    schemas["SlotReply"]["required"].remove("ranked")
    done = compiled(folder, document)
    assert "Property 'event_id' is missing" in done.stdout
    assert "'slot.ranked' is possibly 'undefined'" in done.stdout
