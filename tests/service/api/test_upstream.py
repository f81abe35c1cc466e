"""Rerankers behind a slot: those that score, and those that hang, return garbage or half of the scores."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import socketserver
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from helpers.reranking import FAQ, app_of, reranking
from helpers.served import served
from helpers.services import SetClock
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core.service import Service

DOCUMENTS = ["Tea is hot.", "Milk is white.", "Juice is sweet."]
SCORES = [0.25, 0.75, 0.5]


def replies(content: Any, status: int = 200) -> Callable[[Request], Awaitable[Response]]:
    """An upstream that always says the same."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def reply(request: Request) -> Response:
        headers = {"content-encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
        return Response(body, status, headers, "application/json")

    return reply


def results(scores: list[Any], name: str = "relevance_score") -> list[dict[str, Any]]:
    return [{"index": n, name: score} for n, score in enumerate(scores)]


@contextmanager
def behind(
    folder: Path, handler: Callable[[Request], Awaitable[Response]], table: str = ""
) -> Iterator[tuple[Service, httpx.Client]]:
    """A service whose slot has an upstream, and a client of the service."""
    with served(Starlette(routes=[Route("/rerank", handler, methods=["POST"])])) as upstream:
        text = FAQ.replace("cells=100", "cells=100,floor=0,earned=0")
        config = reranking(folder, f'{text}[slots.faq.rerank]\nupstream = "{upstream}/rerank"\n{table}')
        with (
            Service(config, clock=SetClock()) as service,
            served(app_of(service)) as url,
            httpx.Client(base_url=url, timeout=30) as client,
        ):
            yield service, client


def ask(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("/v1/rerank", json={"query": "what is hot?", "documents": DOCUMENTS} | body)


def order(reply: httpx.Response) -> list[int]:
    return [one["index"] for one in reply.json()["results"]]


@pytest.mark.parametrize("form", [{"results": results(SCORES)}, results(SCORES, "score"), results(SCORES)[::-1]])
def test_upstreams_of_either_kind_score_the_documents(tmp_path: Path, form: Any) -> None:
    with behind(tmp_path, replies(form)) as (_, client):
        reply = ask(client)
        assert order(reply) == [1, 2, 0]
        assert [one["relevance_score"] for one in reply.json()["results"]] == [0.75, 0.5, 0.25]
        assert reply.json()["meta"]["warnings"] == []
        assert 'peekrank_upstream_calls_total{result="ok",slot="faq"} 1.0' in client.get("/metrics").text


def test_what_an_upstream_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[dict[str, Any], str]] = []

    async def record(request: Request) -> Response:
        seen.append((await request.json(), request.headers.get("authorization", "")))
        return await replies(results(SCORES))(request)

    monkeypatch.setenv("TEI_KEY", "hush")
    for name in ("documents", "texts"):
        (tmp_path / name).mkdir()
        table = f'upstream_field = "{name}"\nupstream_model = "bge"\nupstream_key = "env:TEI_KEY"\n'
        with behind(tmp_path / name, record, table) as (_, client):
            ask(client, user="ada", top_n=1)
    more = {"top_n": 3, "return_documents": False}
    common = {"query": "what is hot?", "model": "bge"}
    assert seen == [
        (common | more | {"documents": DOCUMENTS}, "Bearer hush"),
        (common | {"texts": DOCUMENTS}, "Bearer hush"),
    ]


def test_scores_of_the_call_come_first(tmp_path: Path) -> None:
    with behind(tmp_path, replies(b"never asked", 500)) as (_, client):
        documents = [
            {"text": text, "score": score} for text, score in zip(DOCUMENTS, (0.1, 0.2, 0.3), strict=True)
        ]
        assert order(ask(client, documents=documents)) == [2, 1, 0]
        said = ask(client, documents=[{"id": "a"}, "b"])
        assert (said.status_code, said.json()["message"]) == (
            422,
            "documents: a document without a text has no score",
        )


BROKEN = {
    "garbage": (replies(b"\x00\xff<html>"), "not a list of results"),
    "another shape": (replies({"data": [1, 2, 3]}), "not a list of results"),
    "nested": (replies(b"[" * 100_000), "not a list of results"),
    "half": (replies(results(SCORES)[:2]), "2 of 3 documents"),
    "too many": (replies(results([*SCORES, 0.1])), "3 of 3 documents"),
    "twice": (replies([*results(SCORES)[:2], {"index": 0, "score": 0.5}]), "2 of 3 documents"),
    "nowhere": (replies([*results(SCORES)[:2], {"index": -1, "score": 0.5}]), "2 of 3 documents"),
    "nothing": (replies([]), "0 of 3 documents"),
    "null": (replies(results([0.1, None, 0.2])), "2 of 3 documents"),
    "text": (replies(results([0.1, "0.5", 0.2])), "not a list of results"),
    "huge": (replies(b'[{"index": 0, "score": 1e999}]'), ""),
    "logits": (replies(results([-3.0, 5.0, 0.1])), 'scale = "logit"'),
    "error": (replies({"error": "Sesame"}, 500), "status 500"),
    "redirect": (replies({}, 307), "status 307"),
    "large": (replies(b" " * (17 * 2**20)), "too large"),
    "compressed": (replies(gzip.compress(json.dumps(results(SCORES)).encode())), "not a list of results"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_upstream_leaves_the_order_given_and_says_so(tmp_path: Path, case: str) -> None:
    handler, reason = BROKEN[case]
    with behind(tmp_path, handler) as (service, client):
        reply = ask(client, event_id="e1")
        assert order(reply) == [0, 1, 2]
        (warning,) = reply.json()["meta"]["warnings"]
        assert reason in warning
        assert "Sesame" not in warning
        assert reply.json()["explored"] is False
        assert "peekrank_upstream_calls_total{" in client.get("/metrics").text
        event = service._manager.slots["faq"].state.open["e1"]
        assert event.body.scores == b""  # the slope of the score is not fitted to it
        assert client.put("/v1/events/e1/feedback", json={"grade": 1, "cited": [0]}).json()["learned"] is True


def test_an_upstream_may_be_refused_or_away(tmp_path: Path) -> None:
    with behind(tmp_path, replies({}, 503), 'on_failure = "reject"\n') as (service, client):
        said = ask(client)
        assert (said.status_code, said.json()["type"]) == (503, "/problems/upstream")
        assert said.headers["retry-after"] == "1"
        assert service.slot("faq").ranked == 0
    (tmp_path / "away").mkdir()
    config = reranking(tmp_path / "away", FAQ + '[slots.faq.rerank]\nupstream = "http://127.0.0.1:9/rerank"\n')
    with Service(config) as service, served(app_of(service)) as url:
        (warning,) = httpx.post(f"{url}/rerank", json={"query": "q", "documents": ["a"]}).json()["meta"][
            "warnings"
        ]
        assert "cannot be reached" in warning


BROKEN_HTTP = {
    "nothing": b"",
    "no HTTP": b"\x00\x01\r\n\r\n",
    "too short": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[]",
    "no chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000,
}


@pytest.mark.parametrize("case", BROKEN_HTTP)
def test_an_upstream_that_breaks_off_is_said(tmp_path: Path, case: str) -> None:
    class Broken(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(2**16)
            with suppress(OSError):  # the service has gone away
                self.request.sendall(BROKEN_HTTP[case])

    with socketserver.TCPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        upstream = f"http://127.0.0.1:{server.server_address[1]}/rerank"
        config = reranking(tmp_path, f'{FAQ}[slots.faq.rerank]\nupstream = "{upstream}"\ntimeout = "30 s"\n')
        with Service(config) as service, served(app_of(service)) as url, httpx.Client(base_url=url) as client:
            reply = ask(client)
        server.shutdown()
    assert order(reply) == [0, 1, 2]
    assert "its reply is broken" in reply.json()["meta"]["warnings"][0]


def test_an_upstream_that_hangs_blocks_nobody_else(tmp_path: Path) -> None:
    go = threading.Event()

    async def hang(request: Request) -> Response:
        while not go.is_set():
            await asyncio.sleep(0.01)
        return await replies(results(SCORES))(request)

    with behind(tmp_path, hang, 'timeout = "20 s"\n') as (service, client):
        waiting: list[httpx.Response] = []
        threads = [threading.Thread(target=lambda: waiting.append(ask(client))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for _ in range(20):  # other calls, which the writer serves, while five wait
            ranked = client.post("/v1/slots/faq/rank", json={"items": ["a", "b"]})
            assert ranked.status_code == 200
        assert waiting == []
        assert service.slot("faq").ranked == 20
        go.set()
        for thread in threads:
            thread.join()
        assert [order(reply) for reply in waiting] == [[1, 2, 0]] * 5


def test_an_upstream_that_hangs_or_trickles_is_left_in_time(tmp_path: Path) -> None:
    go = threading.Event()

    async def trickle(request: Request) -> Response:
        async def parts() -> Any:
            while not go.is_set():
                yield b" "
                await asyncio.sleep(0.01)

        return StreamingResponse(parts())

    with behind(tmp_path, trickle, 'timeout = "0.2 s"\n') as (_, client):
        start = time.monotonic()
        reply = ask(client)
        go.set()
        assert order(reply) == [0, 1, 2]
        assert reply.json()["meta"]["warnings"][0].startswith(
            "the upstream failed, it did not answer within 0.2 s"
        )
        assert time.monotonic() - start < 20  # and not forever


def test_a_failure_is_logged_once_until_the_upstream_answers(tmp_path: Path) -> None:
    log = io.StringIO()
    configure_logging("info", log)
    broken = True

    async def sometimes(request: Request) -> Response:
        return await replies({} if broken else results(SCORES), 500 if broken else 200)(request)

    with behind(tmp_path, sometimes) as (_, client):
        for broken in (True, True, True, False, False, True):  # noqa: B007 - read by the upstream
            ask(client)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [(line["event"], line.get("failures")) for line in lines if "upstream" in line["event"]]
    assert told == [("upstream failed", None), ("upstream answers again", 3), ("upstream failed", None)]


def test_the_variable_of_the_key_must_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEI_KEY", raising=False)
    table = '[slots.faq.rerank]\nupstream = "http://tei/rerank"\nupstream_key = "env:TEI_KEY"\n'
    with Service(reranking(tmp_path, FAQ + table)) as service, pytest.raises(ValueError, match="TEI_KEY, which"):
        app_of(service)
