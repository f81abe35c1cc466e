"""A service for the recipes: `peekrank serve`, as users start it, with a key for the app."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no call to a network at its import
KEY = "peek_app_of-the-recipes"
PASSAGES = [
    "Juice is pressed from fruit.",
    "Tea is made with hot water.",
    "Milk comes from cows.",
    "Water boils at 100 degrees.",
]
CONFIG = f"""
[store]
path = "peekrank.db"
[[keys]]
name = "app"
role = "app"
hash = "sha256:{sha256(KEY.encode()).hexdigest()}"
[slots.faq]
learner = "mixed:cells=10000"
measure = "dcg:gains=linear"
k = 3
feedback_window = "1 day"
[slots.faq.rerank]
keys = "query"
default = true
[slots.models]
learner = "mixed:high=1,floor=0.1"
measure = "dcg:gains=linear"
"""


class Served(NamedTuple):
    """A running service."""

    url: str
    key: str

    def run(self, recipe: str, **names: Any) -> dict[str, Any]:
        """Run a recipe as it is on its page, against this service instead of one on port 8000."""
        path = Path(__file__).with_name(recipe)
        text = path.read_text(encoding="utf-8")
        for written, meant in (("http://127.0.0.1:8000", self.url), ("peek_app_...", self.key)):
            assert written in text
            text = text.replace(written, meant)
        exec(compile(text, path, "exec"), names)
        return names


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "service.toml").write_text(CONFIG)
    command = [os.environ.get("PEEKRANK", "peekrank"), "serve", "service.toml", "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, **pipes) as process:
        assert process.stdout is not None
        url = ""
        for line in process.stdout:
            said = json.loads(line) if line.startswith("{") else {}
            url = said.get("url", url)
            if said.get("event") == "ready":
                break
        else:
            pytest.fail("the service did not start")
        try:
            yield Served(url, KEY)
        finally:
            process.terminate()


@pytest.fixture
def passages() -> list[str]:
    return list(PASSAGES)
