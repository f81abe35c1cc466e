"""Clients of reranking services in JavaScript, unmodified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

PACKAGE = Path(__file__).with_name("javascript")


def test_javascript_clients(served: Any, passages: list[str], tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    is_required = os.environ.get("PEEKRANK_NODE") == "required"
    if node is None or npm is None:
        assert not is_required, "node and npm are not installed, and PEEKRANK_NODE=required"
        pytest.skip("node and npm are not installed")
    folder = tmp_path / "javascript"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
    )
    if installed.returncode:
        assert not is_required, installed.stderr
        pytest.skip(f"npm cannot install the packages: {installed.stderr[-500:]}")
    words = [node, "clients.mjs", served.url, served.key, *passages]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"cohere", "cohere1", "ai", "langchain"}
    headers = {"authorization": f"Bearer {served.key}"}
    for name, one in found.items():
        assert len(set(one["indices"])) == 2, name
        if name != "langchain":  # which hides the id
            feedback = {"grade": 1, "cited": one["indices"][:1]}
            path = f"{served.url}/v1/events/{one['id']}/feedback"
            assert httpx.put(path, json=feedback, headers=headers).json()["learned"] is True
