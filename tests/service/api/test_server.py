"""The server: ready after the log is read, stopped without a loss, and not to be starved."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from helpers.running import config, running
from peekrank.service.api import codec, connection, server
from peekrank.service.api.problems import Problem
from peekrank.service.api.server import HttpServer
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.config import ServerConfig
from peekrank.service.core.service import Service


@pytest.fixture(autouse=True)
def _quiet() -> None:
    configure_logging("critical")


def until_ready(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("not ready after 30 s")


def test_calls_are_answered_and_survive_a_restart(tmp_path: Path) -> None:
    made = config(tmp_path)
    with running(Service(made), made) as one, Client(one.url) as client:
        until_ready(one.url)
        shown = client.rank("home", event_id="e1")
        assert client.feedback("e1", {shown.top_k[0]: 1}).state == "answered"
    with running(Service(made), made) as two, Client(two.url) as client:
        assert client.rank("home", event_id="e1") == shown
        assert client.event("e1").grades == {shown.top_k[0]: 1.0}
        assert client.slot("home").answered == 1


def test_alive_at_once_and_ready_only_after_the_log_is_read(tmp_path: Path) -> None:
    read = threading.Event()

    class Slow(Service):
        def start(self) -> None:
            self._reason = "the log is being read"
            read.wait()
            super().start()

    made = config(tmp_path)
    with running(Slow(made), made) as one:
        with Client(one.url, retries=0) as client:
            assert httpx.get(f"{one.url}/livez").status_code == 200
            assert httpx.get(f"{one.url}/readyz").json()["detail"] == "the log is being read"
            for call in (lambda: client.rank("home"), client.slots, client.stats, lambda: client.slot("home")):
                with pytest.raises(Problem, match="the log is being read"):
                    call()
            assert "the log is being read" in httpx.get(f"{one.url}/").text
        read.set()
        until_ready(one.url)
        with Client(one.url) as client:
            assert len(client.rank("home").ranking) == 3


def test_a_service_that_cannot_start_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    class Broken(Service):
        def start(self) -> None:
            raise ValueError("the log is of a newer version")

    made = config(tmp_path)
    with pytest.raises(ValueError, match="newer version"):
        HttpServer(Broken(made), made).run()


def test_a_follower_does_not_log_that_it_is_ready(tmp_path: Path) -> None:
    class Follower(Service):
        def start(self) -> None:
            self._reason = "another process owns the log; this one is on standby"

    made = config(tmp_path)
    configure_logging("info", log := io.StringIO())
    with running(Follower(made), made) as one:
        while "not ready" not in log.getvalue():
            time.sleep(0.01)
        assert httpx.get(f"{one.url}/readyz").status_code == 503
    assert '"event":"ready"' not in log.getvalue()
    assert "on standby" in log.getvalue()


def test_a_port_that_is_taken_is_an_error_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        made = config(tmp_path)
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1, port {port}"):
            HttpServer(Service(made), type(made)(made.slots, ServerConfig(port=port), made.store))


def test_no_bind_beyond_this_machine_without_keys(tmp_path: Path) -> None:
    made = config(tmp_path)
    with pytest.raises(ValueError, match="needs keys"):
        HttpServer(Service(made), type(made)(made.slots, ServerConfig(host="0.0.0.0"), made.store))  # noqa: S104


def test_several_workers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[slots.home]\nitems = ["tea", "cake"]\n')
    monkeypatch.delenv("PEEKRANK_SERVICE", raising=False)
    with pytest.raises(ValueError, match="set the environment variable PEEKRANK_SERVICE"):
        server.app()
    monkeypatch.setenv("PEEKRANK_SERVICE", str(file))
    assert server.app() is not None
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "uvicorn --workers 2")
    with pytest.raises(ValueError, match="a service runs in one process"):
        server.app()


def half(url: str, said: bytes) -> socket.socket:
    """A connection on which something was said, and no more."""
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
    connection.sendall(said)
    return connection


HEAD = b"POST /v1/slots/home/rank HTTP/1.1\r\nhost: localhost\r\n"
BODY = HEAD + b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"


def closed(connection: socket.socket) -> bytes:
    """What comes on a connection until the other side closes it."""
    connection.settimeout(30)
    said = b""
    with connection:
        while part := connection.recv(65536):
            said += part
            if said.endswith(b"}"):
                break
    return said


def test_slow_and_half_open_clients_do_not_starve_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEADER_SECONDS", 3.0)
    monkeypatch.setattr(codec, "SECONDS", 3.0)
    made = config(tmp_path)
    with running(Service(made), made) as one, Client(one.url, retries=0) as client:
        until_ready(one.url)
        hanging = [half(one.url, said) for said in (b"", HEAD, BODY) for _ in range(50)]
        for _ in range(20):
            assert len(client.rank("home").ranking) == 3
        assert all(closed(connection) == b"" for connection in hanging[:100])
        assert all(b"/problems/too-slow" in closed(connection) for connection in hanging[100:])
        assert len(client.rank("home").ranking) == 3


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_after_the_last_call(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "service.toml"
    file.write_text('[server]\nport = 0\n[slots.home]\nitems = ["tea", "cake"]\n')
    command = [sys.executable, "-m", "peekrank", "serve", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].rstrip("/")
        until_ready(url)
        acknowledged: list[str] = []
        thread = threading.Thread(target=_rank_until_refused, args=(url, acknowledged))
        thread.start()
        while len(acknowledged) < 20:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        thread.join()
    assert process.returncode == 0, said
    assert '"event":"stopped"' in said
    made = config(tmp_path)
    with Service(type(made)(made.slots[:1], store=made.store)) as service:
        for event_id in acknowledged:
            assert service.event(event_id).event_id == event_id


def _rank_until_refused(url: str, acknowledged: list[str]) -> None:
    with Client(url, retries=0) as client:
        while True:
            try:
                acknowledged.append(client.rank("home").event_id)
            except (Problem, httpx.TransportError):
                return


def test_environment_of_signals_is_left_as_it_was(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    made = config(tmp_path)
    running_one = HttpServer(Service(made), made)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    running_one.run()
    assert signal.getsignal(signal.SIGTERM) is before
