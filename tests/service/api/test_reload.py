"""The call and the signal that reload the configuration of a running service."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from peekrank.service.api import structured_logging
from peekrank.service.api.keys import new_key
from peekrank.service.api.server import HttpServer
from peekrank.service.config import Config, read_config
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.service import Service
from peekrank.service.event_log.open import open_log

BOSS, WEB, NEW, PART = (new_key(name) for name in ("boss", "web", "new", "part"))
SLOT = '[slots.home]\nitems = ["tea", "cake", "soup"]\nfeedback_window = "30 min"\n'


def key(name: str, role: str, made: tuple[str, str], more: str = "") -> str:
    return f'[[keys]]\nname = "{name}"\nrole = "{role}"\nhash = "{made[1]}"\n{more}\n'


KEYS = key("boss", "admin", BOSS) + key("web", "app", WEB) + key("part", "admin", PART, 'slots = ["home"]')
FILE = f"[server]\nport = 0\n{KEYS}{SLOT}"


def served(file: Path) -> Iterator[HttpServer]:
    def read() -> Config:
        return read_config(file)

    structured_logging.configure_logging("critical")
    made = read()
    server = HttpServer(Service(made), made, reload=read)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        for _ in range(600):
            if httpx.get(f"{server.url}/readyz").status_code == 200:
                break
            time.sleep(0.05)
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "service.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def server(file: Path) -> Iterator[HttpServer]:
    yield from served(file)


def call(server: HttpServer, method: str, path: str, made: tuple[str, str], **options: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {made[0]}"}
    return httpx.request(method, f"{server.url}{path}", headers=headers, **options)  # type: ignore[arg-type]


def reload(server: HttpServer, made: tuple[str, str] = BOSS) -> httpx.Response:
    return call(server, "POST", "/v1/admin/reload", made)


def rank(server: HttpServer, made: tuple[str, str], **body: object) -> httpx.Response:
    return call(server, "POST", "/v1/slots/home/rank", made, json=body)


def test_keys_limits_and_slots_change_at_once(server: HttpServer, file: Path) -> None:
    assert reload(server).json() == {"changed": []}
    assert rank(server, WEB).status_code == 200
    assert rank(server, NEW).status_code == 401
    changed = KEYS.replace(key("web", "app", WEB), key("new", "app", NEW))
    text = f"[server]\nport = 0\n[limits]\nmax_body_bytes = 200\nmax_batch_lines = 1\n{changed}{SLOT}"
    file.write_text(text.replace("30 min", "2 h"))
    assert reload(server).json()["changed"] == [
        "limits.max_body_bytes: 4194304 -> 200",
        "limits.max_batch_lines: 1000 -> 1",
        "keys.web: removed",
        "keys.new: added",
        "slots.home.feedback_window: 1800.0 -> 7200.0",
    ]
    assert rank(server, WEB).status_code == 401
    assert rank(server, NEW, event_id="one").status_code == 200
    assert rank(server, NEW, items=["x" * 200]).json()["detail"] == "the body is larger than 200 bytes"
    lines = '{"call": "rank", "slot": "home"}\n' * 2
    batch = httpx.post(
        f"{server.url}/v1/batch",
        content=lines,
        headers={"authorization": f"Bearer {NEW[0]}", "content-type": "application/x-ndjson"},
    )
    assert batch.status_code == 413
    event = call(server, "GET", "/v1/events/one", NEW).json()
    assert event["deadline"] - time.time() > 3600


def test_only_an_admin_of_the_whole_service_may_reload(server: HttpServer, file: Path) -> None:
    file.write_text(FILE.replace("30 min", "2 h"))
    assert reload(server, WEB).status_code == 403
    refused = reload(server, PART)
    assert (refused.status_code, refused.json()["detail"]) == (
        403, "key 'part' is limited to some slots; this call is about the whole service",
    )  # fmt: skip
    assert reload(server).json()["changed"] == ["slots.home.feedback_window: 1800.0 -> 7200.0"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("30 min", "30 parsecs", "line 20: slots.home.feedback_window = '30 parsecs': must be a time"),
        ("port = 0", "port = 9", "server.port needs a restart: the service opens its address and its log once"),
        ("[slots.home]", "[slots.hone]", "service.toml, line 17: keys[2].slots"),
        (
            "[slots.home]",
            '[slots.home]\nlearner = "greedy"',
            "slots.home.learner needs a restart: the learner would",
        ),
        (KEYS, "", "keys.boss needs a restart: a service without keys checks host names instead"),
        ('name = "web"', 'name = "boss"', "two keys are called 'boss': names must differ"),
        ("port = 0", 'port = 0\nhost = "0.0.0.0"', "server.host needs a restart"),
        (FILE, "\0", "service.toml, line 1: this is not TOML"),
    ],
)
def test_a_file_that_is_not_valid_or_needs_a_restart_changes_nothing(
    server: HttpServer, file: Path, before: str, after: str, said: str
) -> None:
    file.write_text(FILE.replace(before, after))
    changed = reload(server)
    assert (changed.status_code, changed.json()["type"]) == (409, "/problems/needs-restart")
    assert said in changed.json()["detail"]
    assert changed.json()["detail"].endswith("Nothing was changed")
    assert WEB[1] not in changed.text
    assert rank(server, WEB).status_code == 200
    file.unlink()
    assert "cannot be read" in reload(server).json()["detail"]
    file.write_text(FILE)
    assert reload(server).json() == {"changed": []}


@pytest.mark.service
@pytest.mark.slow
def test_a_signal_reloads_while_calls_are_answered(tmp_path: Path) -> None:
    file = tmp_path / "service.toml"
    file.write_text(f"[server]\nport = 0\n{SLOT}")
    command = [sys.executable, "-m", "peekrank", "serve", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().split()[3].rstrip("/")
        messages: list[dict[str, object]] = []

        def listen() -> None:
            assert process.stderr is not None
            messages.extend(json.loads(line) for line in process.stderr if line.startswith("{"))

        def until(event: str, times: int) -> list[dict[str, object]]:
            for _ in range(1200):
                if len(found := [one for one in messages if one["event"] == event]) >= times:
                    return found
                time.sleep(0.05)
            raise AssertionError(messages)

        listener = threading.Thread(target=listen)
        listener.start()
        until("ready", 1)
        statuses: set[int] = set()
        stop = threading.Event()

        def visit() -> None:
            while not stop.is_set():
                statuses.add(httpx.post(f"{url}/v1/slots/home/rank", json={}).status_code)

        visitor = threading.Thread(target=visit)
        visitor.start()
        for n in range(1, 4):
            file.write_text(f"[server]\nport = 0\n{SLOT.replace('30 min', f'{n} h')}")
            process.send_signal(signal.SIGHUP)
            until("reloaded", n)
        file.write_text("[server]\nport = 0\n[slots]\n")
        process.send_signal(signal.SIGHUP)
        (refused,) = until("reload rejected", 1)
        assert "must be a table with at least one slot" in str(refused["reason"])
        stop.set()
        visitor.join()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        listener.join()
    assert process.returncode == 0
    assert statuses == {200}
    assert [one["changed"] for one in messages if one["event"] == "reloaded"][1:] == [
        ["slots.home.feedback_window: 3600.0 -> 7200.0"],
        ["slots.home.feedback_window: 7200.0 -> 10800.0"],
    ]
    assert all(audit.passed for audit in audit_slots(open_log(str(tmp_path / "peekrank.db"))))
