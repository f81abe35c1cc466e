"""Clients: typed replies, problems as exceptions, and retries that do nothing twice."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from helpers.asgi import Caller
from helpers.running import config
from peekrank.engine.rules import AtMost
from peekrank.service.api import messages
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import Key, Keys, new_key
from peekrank.service.api.messages import Item, RankRequest
from peekrank.service.api.problems import Problem
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.client import AsyncClient, Client, replies
from peekrank.service.client._requests import Requests, item
from peekrank.service.config import SlotConfig
from peekrank.service.config.rules import RulesConfig
from peekrank.service.core.service import Service

BATCH_RANK = {"call": "rank", "slot": "home", "request": {"event_id": "e1"}}
UNKNOWN = {"call": "activate", "event_id": "no"}


class Flaky(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Reaches an application, but each call fails a few times first: before it arrives, or after it was done."""

    def __init__(self, app: Any, failures: int = 0, *, after: bool = False, status: int | None = None) -> None:
        self.app, self.failures, self.after, self.status, self.attempts = app, failures, after, status, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run(self.handle_async_request(request))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.attempts += 1
        fails = self.attempts <= self.failures
        if fails and self.status is not None:
            return httpx.Response(self.status)
        if fails and not self.after:
            raise httpx.ConnectError("no way", request=request)
        reply = await httpx.ASGITransport(self.app).handle_async_request(request)
        content = await reply.aread()
        if fails:
            raise httpx.ReadError("the reply was lost", request=request)
        return httpx.Response(reply.status_code, headers=reply.headers, content=content)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    configure_logging("critical")
    with Service(config(tmp_path)) as made:
        yield made


def ranked_events(service: Service) -> int:
    return service.slot("home").ranked


def client(transport: Flaky, **options: Any) -> Client:
    return Client("http://localhost", transport=transport, **options)


def test_a_round_trip(service: Service) -> None:
    with client(Flaky(application(service))) as calls:
        ranked = calls.rank("home")
        assert calls.feedback(ranked.event_id, [None]).state == "shown"
        assert calls.feedback(ranked.event_id, {ranked.top_k[0]: 1}, shown=ranked.ranking[:2]).slot == "home"
        assert calls.activate(ranked.event_id) == calls.event(ranked.event_id)
        assert calls.put_items("home", ["pie"]).added == 1
        assert calls.retire_items("home", ["tea"]).retired == 1
        assert [one.id for one in calls.items("home")] == ["cake", "pie", "soup", "tea"]
        assert [slot.name for slot in calls.slots()] == ["home", "search"]
        assert calls.slot("home").k == 1
        assert calls.stats().role == "owner"


def test_scores_and_keys_are_sent(tmp_path: Path) -> None:
    slot = SlotConfig("home", learner="mixed:cells=10,high=30", measure="dcg:gains=linear", k=1, seed=1)
    with Service(replace(config(tmp_path), slots=(slot,))) as made:
        client = Client("http://peekrank", transport=Flaky(application(made)))
        client.put_items("home", [item("tea", score=0.5), "milk"])
        assert {one.id: one.score for one in client.items("home")} == {"tea": 0.5, "milk": None}
        shown = client.rank("home", scores={"a": 1.0, "b": float("nan"), "c": 3.0}, key="Zürich")
        assert set(shown.ranking) == {"a", "b", "c"}
        client.rank("home", ["a", "tea"], scores={"a": 1}, score_version=3)
        assert {one.body.version for one in made._manager.slots["home"].state.open.values()} == {-1, 3}
        assert client.feedback(shown.event_id, [12.5]).grades == {shown.top_k[0]: 12.5}
        assert client.slot("home").keys == 1
        scores = [
            np.frombuffer(one.body.scores).tolist() for one in made._manager.slots["home"].state.open.values()
        ]
        assert scores == [[1.0, 0.5]]
        with pytest.raises(ValueError, match="scores: 'rice' is not among the items"):
            client.rank("home", ["tea"], scores={"rice": 1.0})


def test_groups_pins_and_blocked_items_are_sent(tmp_path: Path) -> None:
    slot = SlotConfig("home", k=1, seed=1, rules=RulesConfig(group=AtMost(1, 2)))
    with Service(replace(config(tmp_path), slots=(slot,))) as made:
        client = Client("http://peekrank", transport=Flaky(application(made)))
        client.put_items("home", [item("tea", group="drinks"), item("milk", group="drinks"), "rice"])
        assert {one.id: one.group for one in client.items("home")} == {
            "tea": "drinks",
            "milk": "drinks",
            "rice": None,
        }
        shown = client.rank("home", pins={1: "milk"}, blocked=["pie"])
        assert shown.ranking == ["milk", "rice", "tea"]
        shown = client.rank("home", ["tea", item("rice", group="drinks"), "pie"], pins={1: "tea"}, blocked=["pie"])
        assert (shown.ranking, shown.blocked) == (["tea", "rice"], ["pie"])
        assert client.slot("home").rules == "at most 1 of a group in the first 2"
        assert client.slot("home").relaxed == 1


def test_features_travel_as_float32(tmp_path: Path) -> None:
    slot = SlotConfig("lists", learner="ridge", features=2, context=1, max_list_length=5)
    with (
        Service(replace(config(tmp_path), slots=(slot,))) as service,
        client(Flaky(application(service))) as calls,
    ):
        calls.rank("lists", {"tea": np.array([0.1, 2]), "cake": [1, 2]}, context=[3], event_id="e1")
        with_numbers = RankRequest("e2", [Item("tea", [0.1, 2.0]), Item("cake", [1.0, 2.0])], context=[3.0])
        assert sorted(service.rank("lists", with_numbers).ranking) == sorted(calls.event("e1").ranking)
        with pytest.raises(Problem, match="got 3 numbers, expected 2"):
            calls.rank("lists", {"tea": [1, 2, 3]}, context=[3])
        with pytest.raises(Problem, match="finite"):
            calls.rank("lists", {"tea": [1, np.nan]}, context=[3])


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("failures", [1, 3])
def test_retries_make_one_event(service: Service, failures: int, *, after: bool) -> None:
    transport = Flaky(application(service), failures, after=after)
    with client(transport) as calls:
        ranked = calls.rank("home")
    assert transport.attempts == failures + 1
    assert ranked_events(service) == 1
    assert service.event(ranked.event_id).ranking == ranked.ranking


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again(service: Service, status: int) -> None:
    transport = Flaky(application(service), 2, status=status)
    with client(transport) as calls:
        assert calls.slot("home").name == "home"
    assert transport.attempts == 3


def test_retries_end(service: Service) -> None:
    transport = Flaky(application(service), 9)
    with client(transport, retries=1) as calls, pytest.raises(httpx.ConnectError):
        calls.rank("home")
    assert transport.attempts == 2


def test_problems_are_raised_and_not_retried(service: Service) -> None:
    transport = Flaky(application(service))
    with client(transport) as calls:
        with pytest.raises(Problem, match="did you mean 'home'") as caught:
            calls.rank("hone")
        assert (caught.value.kind, caught.value.status) == ("unknown-slot", 404)
    assert transport.attempts == 1


def test_something_else_at_the_address_is_reported() -> None:
    with client(Flaky(None, 1, status=200)) as calls, pytest.raises(Problem, match="Check the address"):
        calls.rank("home")


def test_a_batch(service: Service) -> None:
    with client(Flaky(application(service))) as calls:
        replies = calls.batch([BATCH_RANK, {"call": "activate", "event_id": "e1"}, UNKNOWN])
    assert [reply.status for reply in replies] == [200, 200, 404]
    assert replies[0].reply is not None
    assert replies[0].reply.event_id == "e1"
    assert replies[1].event is not None
    assert replies[2].problem is not None
    assert replies[2].problem.type == "/problems/unknown-event"


def test_keys_are_sent(service: Service) -> None:
    key, kept = new_key("web")
    app = application(service, Keys([Key("web", "app", kept)]))
    with client(Flaky(app), key=key) as calls:
        assert calls.rank("home").ranking
    with client(Flaky(app)) as calls, pytest.raises(Problem, match="send a key"):
        calls.rank("home")
    assert Caller(app)("GET", "/livez").status_code == 200


def test_the_awaited_client_does_the_same(service: Service) -> None:
    transport = Flaky(application(service), 2, after=True)

    async def visit() -> None:
        async with AsyncClient("http://localhost", transport=transport) as calls:
            ranked = await calls.rank("home", ["tea", "cake"])
            assert ranked_events(service) == 1
            assert (await calls.feedback(ranked.event_id, [1])).event_id == ranked.event_id
            assert await calls.activate(ranked.event_id) == await calls.event(ranked.event_id)
            assert (await calls.put_items("home", ["pie"])).added == 1
            assert (await calls.retire_items("home", ["pie"])).retired == 1
            assert [slot.name for slot in await calls.slots()] == ["home", "search"]
            assert (await calls.slot("search")).name == "search"
            assert [one.id async for one in calls.items("home")] == ["cake", "pie", "soup", "tea"]
            assert (await calls.stats()).role == "owner"
            assert (await calls.batch([UNKNOWN]))[0].status == 404
            with pytest.raises(Problem):
                await calls.event("nowhere")

    asyncio.run(visit())


def test_items_come_in_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peekrank.service.client._requests._PAGE", 2)
    transport = Flaky(application(service))

    async def names() -> list[str]:
        async with AsyncClient("http://localhost", transport=transport) as calls:
            return [one.id async for one in calls.items("home")]

    with client(transport) as calls:
        assert [one.id for one in calls.items("home")] == asyncio.run(names()) == ["cake", "soup", "tea"]
    assert transport.attempts == 4


def test_both_clients_have_every_call() -> None:
    """As `Requests` describes them: the same arguments, and the same words."""
    for name, call in vars(Requests).items():
        if not name.startswith("_"):
            for made in (Client, AsyncClient):
                method = getattr(made, name)
                assert inspect.signature(method) == inspect.signature(call)
                assert method.__doc__ == call.__doc__


def test_replies_have_the_fields_and_defaults_of_the_messages() -> None:
    classes = [one for one in vars(replies).values() if is_dataclass(one) and isinstance(one, type)]
    assert len(classes) == 17
    for cls in classes:
        message: Any = getattr(messages, cls.__name__)
        assert [one.name for one in fields(cls)] == list(message.__struct_fields__)
        defaults = [
            one.default_factory() if one.default_factory is not MISSING else one.default
            for one in fields(cls)
            if one.default is not MISSING or one.default_factory is not MISSING
        ]
        assert defaults == _defaults(message)


def _defaults(message: Any) -> list[Any]:
    return [
        one.default_factory() if one.default_factory is not msgspec.NODEFAULT else one.default
        for one in msgspec.structs.fields(message)
        if not one.required
    ]


def test_a_client_needs_httpx_and_no_other_package_of_the_service() -> None:
    code = """
import sys
for name in ("msgspec", "starlette", "structlog", "prometheus_client", "uvicorn", "jinja2", "polars"):
    sys.modules[name] = None
import httpx
from peekrank.service.client import AsyncClient, Client, Problem, item

reply = {"event_id": "e", "ranking": ["tea"], "top_k": ["tea"], "explored": False, "sequence": 1}
transport = httpx.MockTransport(lambda request: httpx.Response(200, json=reply))
print(Client("http://localhost", transport=transport).rank("home", {"tea": [1.0]}).top_k)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['tea']\n", "")
