"""Connections: limits on headers and bodies that hold for every request, before any key is checked."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from helpers.running import config, running
from peekrank.service.api import codec, connection
from peekrank.service.api.keys import new_key
from peekrank.service.api.limits import MAX_HEAD
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import Client
from peekrank.service.config import KeyConfig, LimitsConfig
from peekrank.service.core.service import Service

LIVE = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n"
GET = LIVE + b"\r\n"
POST = b"POST /v1/slots/home/rank HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A service whose time limits are a second."""
    configure_logging("critical")
    made = config(tmp_path_factory.mktemp("service"), limits=LimitsConfig(max_body_bytes=1000, max_batch_lines=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "HEADER_SECONDS", 1.0)
        patch.setattr(connection, "REPLY_SECONDS", 1.0)
        patch.setattr(codec, "SECONDS", 1.0)
        with running(Service(made), made) as one:
            with Client(one.url, retries=20) as client:
                client.slots()
            yield one.port


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(20)
    return made


def reply(caller: socket.socket) -> bytes:
    """Read one reply, which may be the last."""
    said = b""
    while b"\r\n\r\n" not in said:
        part = caller.recv(65536)
        if not part:
            return said
        said += part
    head, _, body = said.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += caller.recv(65536)
    return head + b"\r\n\r\n" + body


def is_closed(caller: socket.socket) -> bool:
    """Wait until the other side closes the connection."""
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


def send_endlessly(caller: socket.socket, part: bytes, limit: int) -> int:
    """Send a part over and over until the other side closes. Returns how many bytes were sent, up to a limit."""
    sent = 0
    with suppress(OSError):
        while sent < limit:
            caller.sendall(part)
            sent += len(part)
            time.sleep(0.001)
    return sent


def test_headers_have_a_limit(port: int) -> None:
    with connect(port) as caller:
        caller.sendall(LIVE + b"x: " + b"a" * (MAX_HEAD - 200) + b"\r\n\r\n")
        assert reply(caller).startswith(b"HTTP/1.1 200")
        caller.sendall(LIVE + b"x: " + b"a" * MAX_HEAD + b"\r\n\r\n")
        said = reply(caller)
        assert said.startswith(b"HTTP/1.1 431")
        assert b"/problems/head-too-large" in said
        assert is_closed(caller)
    with connect(port) as caller:
        caller.sendall(b"GET /" + b"a" * MAX_HEAD + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert reply(caller).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "begin",
    [
        LIVE + b"x: ",
        GET + LIVE + b"x: ",
        POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: ",
        POST + b"transfer-encoding: chunked\r\n\r\n2;",
    ],
    ids=["headers", "headers after a request", "trailers", "extension of a chunk"],
)
def test_what_never_ends_is_cut_off(port: int, begin: bytes) -> None:
    with connect(port) as caller:
        caller.sendall(begin)
        assert send_endlessly(caller, b"a" * 4096, 50 * 2**20) < 10 * 2**20
        with suppress(ConnectionResetError):
            while caller.recv(65536):
                pass


@pytest.mark.parametrize(
    ("before", "begin"), [(0, b""), (0, LIVE), (0, b"\r\n"), (1, LIVE), (1, b"\r\n"), (2, LIVE)]
)
def test_slow_headers_end_every_request(port: int, before: int, begin: bytes) -> None:
    with connect(port) as caller:
        for _ in range(before):
            caller.sendall(GET)
            assert reply(caller).startswith(b"HTTP/1.1 200")
        caller.sendall(begin)
        assert is_closed(caller)


def test_half_a_head_behind_a_request_is_slow_as_well(port: int) -> None:
    with connect(port) as caller:
        caller.sendall(GET + LIVE)
        assert reply(caller).startswith(b"HTTP/1.1 200")
        assert is_closed(caller)


def test_a_slow_body_ends_every_request(port: int) -> None:
    with connect(port) as caller:
        caller.sendall(GET)
        reply(caller)
        caller.sendall(POST + b"content-length: 100\r\n\r\n{")
        said = reply(caller)
        assert b"/problems/too-slow" in said
        assert b"connection: close" in said
        assert is_closed(caller)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (POST.replace(b"home", b"hone") + b"content-length: 100\r\n\r\n{", b"408"),
        (POST.replace(b"application/json", b"text/plain") + b"content-length: 100\r\n\r\n{", b"415"),
        (POST.replace(b"/v1/slots/home/rank", b"/v2") + b"content-length: 100\r\n\r\n{", b"404"),
        (POST + b"content-length: 10000\r\n\r\n{", b"413"),
        (POST + b"transfer-encoding: chunked\r\n\r\n400\r\n" + b" " * 1024, b"413"),
        (GET.replace(b"\r\n\r\n", b"\r\ncontent-length: 100\r\n\r\n"), b"200"),
    ],
)
def test_the_connection_is_closed_after_an_early_reply(port: int, head: bytes, status: bytes) -> None:
    with connect(port) as caller:
        caller.sendall(head)
        said = reply(caller)
        assert said.split(b" ")[1] == status
        assert b"connection: close" in said
        assert is_closed(caller)


def test_other_connections_are_kept(port: int) -> None:
    with connect(port) as caller:
        for request in (GET, POST + b"content-length: 2\r\n\r\n{}", POST + b"content-length: 1\r\n\r\n{", GET):
            caller.sendall(request)
            assert b"connection: close" not in reply(caller)
        caller.sendall(GET + GET + POST + b"content-length: 2\r\n\r\n{}")
        said = b""
        while said.count(b"HTTP/1.1 200") < 3 or not said.endswith(b"}"):
            said += caller.recv(65536)


def test_a_caller_that_reads_nothing_is_cut_off(port: int) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connect(port) as caller:
        caller.sendall(request)
        size = len(reply(caller))
    count = 30_000_000 // size  # more than the buffers of a connection hold
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.settimeout(20)
        caller.connect(("127.0.0.1", port))
        caller.sendall(request * count)
        time.sleep(3)
        received = 0
        with suppress(ConnectionResetError):
            while part := caller.recv(65536):
                received += len(part)
        assert received < 0.9 * size * count
    with connect(port) as caller:
        caller.sendall(request)
        assert len(reply(caller)) == size


def test_limits_of_the_configuration_hold(port: int) -> None:
    with connect(port) as caller:
        lines = b"{}\n" * 4
        head = b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
        caller.sendall(head + b"content-length: %d\r\n\r\n" % len(lines) + lines)
        assert b"4 lines: the limit is 3" in reply(caller)
        caller.sendall(POST + b"content-length: 1001\r\n\r\n" + b" " * 1001)
        assert b"larger than 1,000 bytes" in reply(caller)


def test_no_key_is_needed_to_be_cut_off(tmp_path: Path) -> None:
    key = KeyConfig("web", "app", new_key("web")[1])
    made = config(tmp_path, keys=(key,))
    with running(Service(made), made) as one, connect(one.port) as caller:
        caller.sendall(POST + b"content-length: 4000000\r\n\r\n{")
        said = reply(caller)
        assert said.startswith(b"HTTP/1.1 401")
        assert is_closed(caller)
