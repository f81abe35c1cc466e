"""``peekrank serve``: files to begin with and to check, keys, and a playground without a file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest

from helpers.command_line import peekrank, refused
from peekrank.service.api.keys import hash_key, keys_from_config
from peekrank.service.config import read_config


def test_a_file_to_begin_with_is_right(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    assert "Wrote" in peekrank("serve", "--init", file).stdout
    said = peekrank("serve", "--check", file).stdout
    assert "127.0.0.1, port 8000" in said
    assert "home: doubtsort, dcg, k = 1, 5 items" in said
    assert "already exists" in refused("serve", "--init", file)


def test_a_wrong_file_is_reported_by_line_and_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[slots.home]\nlearner = "doubtsor"\n')
    assert "line 2" in refused("serve", file, "--check")
    assert "did you mean" in refused("serve", file)
    file.write_text('[server]\nhost = "0.0.0.0"\n[slots.home]\nitems = ["tea", "cake"]\n')
    assert "needs keys" in refused("serve", file, "--check")
    assert "No such file" in refused("serve", tmp_path / "none.toml")


def test_what_to_do_is_reported_where_nothing_is_named() -> None:
    assert "--init writes one, --playground needs none" in refused("serve")
    assert "must be one of debug, info" in refused("serve", "--playground", "--log-level", "loud")


def test_a_new_key_fits_the_file(tmp_path: Path) -> None:
    said = peekrank("serve", "--new-key", "web", "--role", "reader").stdout
    key = next(word for word in said.split() if word.startswith("peek_web_"))
    table = said[said.index("[[keys]]") :]
    assert tomllib.loads(table)["keys"] == [{"name": "web", "role": "reader", "hash": hash_key(key)}]
    file = tmp_path / "service.toml"
    file.write_text(f'{table}[slots.home]\nitems = ["tea", "cake"]\n')
    assert keys_from_config(read_config(file)).authenticate(f"Bearer {key}").role == "reader"
    assert "lower-case letters" in refused("serve", "--new-key", "A B")
    assert "must be 'reader' or 'app' or 'admin'" in refused("serve", "--new-key", "web", "--role", "boss")


@pytest.mark.slow
@pytest.mark.service
def test_the_playground_learns_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "peekrank", "serve", "--playground", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Dashboard: "))
        dashboard = line.split()[1]
        slot = dashboard.replace("/dashboard/", "/v1/slots/")
        for _ in range(600):
            seen = httpx.get(slot).json()
            if seen.get("answered", 0) >= 100:
                break
            time.sleep(0.1)
        page = httpx.get(dashboard).text
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert seen["answered"] >= 100
    assert "Playground: visitors are simulated" in page
    assert "music" in page
    assert process.returncode == 0, said
    assert said == ""
