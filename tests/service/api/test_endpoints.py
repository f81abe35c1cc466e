"""Calls over HTTP: bodies, keys, limits and problems."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.asgi import Caller
from helpers.running import config
from peekrank.service.api.codec import LINES
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import Key, Keys, new_key
from peekrank.service.api.limits import MAX_BODY, MAX_LINES
from peekrank.service.api.messages import EventReply, RankReply
from peekrank.service.api.routes import ENDPOINTS
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core.service import Service

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def log() -> io.StringIO:
    file = io.StringIO()
    configure_logging("debug", file)
    return file


@pytest.fixture
def service(log: io.StringIO, tmp_path: Path) -> Iterator[Service]:
    with Service(config(tmp_path)) as made:
        yield made


@pytest.fixture
def call(service: Service) -> Caller:
    return Caller(application(service))


def break_it(service: Service, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Have every command fail as it should not."""

    def submit(_: object) -> Future[Any]:
        failed: Future[Any] = Future()
        failed.set_exception(RuntimeError(reason))
        return failed

    monkeypatch.setattr(service, "submit", submit)


def problem(reply: Any, status: int, kind: str) -> str:
    """Check a problem document, and return its detail."""
    assert reply.headers["content-type"] == "application/problem+json"
    said: dict[str, Any] = reply.json()
    assert (reply.status_code, said["status"], said["type"]) == (status, status, f"/problems/{kind}")
    return str(said["detail"])


def test_rank_then_answer(call: Caller) -> None:
    reply = call("POST", "/v1/slots/home/rank", json={"event_id": "e1", "items": ["tea", "cake"]})
    ranked = msgspec.json.decode(reply.content, type=RankReply)
    assert sorted(ranked.ranking) == ["cake", "tea"]
    again = call("POST", "/v1/slots/home/rank", json={"event_id": "e1", "items": ["tea", "cake"]})
    assert again.content == reply.content
    told = call("PUT", "/v1/events/e1/feedback", json={"grades": [1]})
    assert msgspec.json.decode(told.content, type=EventReply).event_id == "e1"
    assert call("POST", "/v1/events/e1/activate").status_code == 200
    assert call("GET", "/v1/events/e1").json()["slot"] == "home"


def test_items_come_and_go_and_are_listed_in_pages(call: Caller) -> None:
    assert call("PUT", "/v1/slots/home/items", json={"items": ["pie", {"id": "jam"}]}).json()["added"] == 2
    assert call("DELETE", "/v1/slots/home/items?id=tea&id=pie").json()["retired"] == 2
    first = call("GET", "/v1/slots/home/items?limit=3").json()
    assert [item["id"] for item in first["items"]] == ["cake", "jam", "pie"]
    assert first["next"] == "pie"
    rest = call("GET", "/v1/slots/home/items?limit=3&after=pie").json()
    assert [(item["id"], item.get("retired", False)) for item in rest["items"]] == [("soup", False), ("tea", True)]
    assert "next" not in rest


def test_slots_are_listed(call: Caller) -> None:
    assert [slot["name"] for slot in call("GET", "/v1/slots").json()["slots"]] == ["home", "search"]
    assert call("GET", "/v1/slots/home").json()["learner"] == "doubtsort"
    assert call("GET", "/v1/stats").json()["role"] == "owner"


def test_a_batch_has_a_status_per_line(call: Caller) -> None:
    lines = [
        {"call": "rank", "slot": "home", "request": {"event_id": "e1"}},
        {"call": "feedback", "event_id": "e1", "request": {"grades": [1]}},
        {"call": "activate", "event_id": "e1"},
        {"call": "rank", "slot": "hone", "request": {}},
        {"call": "sing"},
    ]
    body = "\n".join(map(json.dumps, lines))
    reply = call("POST", "/v1/batch", content=f"{body}\n\nno json\n", headers={"content-type": LINES})
    read = [json.loads(line) for line in reply.text.splitlines()]
    assert [line["status"] for line in read] == [200, 200, 200, 404, 422, 400]
    assert read[0]["reply"]["event_id"] == read[1]["event"]["event_id"] == "e1"
    assert read[3]["problem"]["type"] == "/problems/unknown-slot"


def test_a_batch_has_limits(call: Caller, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    many = b"{}\n" * (MAX_LINES + 1)
    assert "the limit is 1,000" in problem(
        call("POST", "/v1/batch", content=many, headers={"content-type": LINES}), 413, "too-large"
    )
    problem(call("POST", "/v1/batch", json={}), 415, "wrong-type")
    break_it(service, monkeypatch, "secret of ours")
    line = b'{"call": "activate", "event_id": "e1"}'
    read = call("POST", "/v1/batch", content=line, headers={"content-type": LINES}).json()
    assert read["status"] == 500
    assert "secret" not in str(read)


BAD_BODIES = [
    (b"{", 400, "malformed", "truncated"),
    (b"\xff\xfe", 400, "malformed", "the body cannot be parsed"),
    (b"", 400, "malformed", "truncated"),
    (b'{"items": ' + b"[" * 100_000, 422, "invalid", "got `array`"),
    (b"{} {}", 400, "malformed", "trailing"),
    (b"[]", 422, "invalid", "Expected `object`, got `array`"),
    (b'{"item": ["tea"]}', 422, "invalid", "did you mean `items`?"),
    (b'{"xyz": 1}', 422, "invalid", "known: `event_id`, `items`"),
    (b'{"items": [7]}', 422, "invalid", "$.items[0]"),
    (b'{"items": ["a\\u0000"]}', 422, "invalid", "must not contain control characters"),
    (b'{"event_id": "a/b"}', 422, "invalid", "letters, digits"),
    (b" " * (MAX_BODY + 1), 413, "too-large", "larger than"),
]


def test_bad_bodies_are_problems(call: Caller) -> None:
    for content, status, kind, detail in BAD_BODIES:
        reply = call("POST", "/v1/slots/home/rank", content=content, headers={"content-type": "application/json"})
        assert detail in problem(reply, status, kind)


def test_a_body_without_a_length_is_not_read_beyond_the_limit(call: Caller) -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 2**20
            yield b" " * 2**20

    headers = {"content-type": "application/json"}
    problem(call("POST", "/v1/slots/home/rank", content=endless(), headers=headers), 413, "too-large")
    assert read <= MAX_BODY + 2 * 2**20


def test_other_types_of_bodies_are_rejected(call: Caller) -> None:
    forms = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "json",
        "application/jsonp",
        "application/msgpack",
    ]
    for content_type in forms:
        reply = call("POST", "/v1/slots/home/rank", content=b"{}", headers={"content-type": content_type})
        assert "send application/json" in problem(reply, 415, "wrong-type")


def test_addresses_that_are_not_there(call: Caller) -> None:
    problem(call("GET", "/v2/slots"), 404, "no-such-page")
    refused = call("PATCH", "/v1/slots/home/items")
    problem(refused, 405, "wrong-method")
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}
    assert "did you mean 'home'?" in problem(call("GET", "/v1/slots/hone"), 404, "unknown-slot")
    problem(call("GET", "/v1/events/nowhere"), 404, "unknown-event")
    problem(call("GET", f"/v1/events/{'x' * 129}"), 422, "invalid")
    problem(call("GET", "/v1/events/%00"), 422, "invalid")
    problem(call("GET", "/v1/slots/home/items?limit=0"), 422, "invalid")
    problem(call("GET", f"/v1/slots/home/items?limit={'9' * 5000}"), 422, "invalid")
    problem(call("DELETE", "/v1/slots/home/items"), 422, "invalid")


def test_what_fails_here_is_a_problem_and_its_details_stay_here(
    call: Caller, service: Service, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(service, monkeypatch, "details of ours")
    reply = call("POST", "/v1/slots/home/rank", json={"items": ["a private matter"]})
    assert "details of ours" not in reply.text
    problem(reply, 500, "internal")
    assert "details of ours" in log.getvalue()
    assert "a private matter" not in log.getvalue()


def test_live_before_ready(call: Caller, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the log is being read"
    monkeypatch.setattr(service, "unready_reason", lambda: reason)
    assert call("GET", "/livez").status_code == 200
    assert problem(call("GET", "/readyz"), 503, "not-ready") == reason
    assert call("GET", "/readyz").headers["retry-after"] == "1"
    assert "peekrank_ready 0.0" in call("GET", "/metrics").text
    reason = ""
    assert call("GET", "/readyz").json() == {"ok": True}
    monkeypatch.setattr(service, "live", lambda: False)
    assert "has ended" in problem(call("GET", "/livez"), 503, "not-ready")


def test_metrics_count_calls_and_events(call: Caller) -> None:
    call("POST", "/v1/slots/home/rank", json={})
    call("POST", "/v1/slots/hone/rank", json={})
    page = call("GET", "/metrics").text
    assert 'peekrank_http_requests_total{call="rank",status="200"} 1.0' in page
    assert 'peekrank_http_requests_total{call="rank",status="404"} 1.0' in page
    assert 'peekrank_http_request_duration_seconds_count{call="rank"} 2.0' in page
    assert 'peekrank_rankings_total{slot="home"} 1.0' in page
    assert "peekrank_log_sequence 3.0" in page


def test_the_trace_is_carried(call: Caller, log: io.StringIO) -> None:
    reply = call("POST", "/v1/slots/home/rank", json={}, headers={"traceparent": TRACE})
    version, trace, span, flags = reply.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", "a" * 32, "01")
    assert span != "b" * 16
    line = json.loads(log.getvalue().splitlines()[-1])
    assert (line["trace_id"], line["parent_id"], line["call"], line["status"]) == ("a" * 32, "b" * 16, "rank", 200)
    assert "traceparent" not in call("GET", "/livez", headers={"traceparent": "00-zz"}).headers


def test_headers_for_browsers(call: Caller) -> None:
    for path in ("/livez", "/nowhere"):
        headers = call("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"


def test_pages_of_others_cannot_call(service: Service) -> None:
    call = Caller(application(service, hosts=frozenset({"localhost", "127.0.0.1", "[::1]"})))
    assert call("GET", "/livez").status_code == 200
    assert call("GET", "/livez", headers={"host": "LOCALHOST:8080"}).status_code == 200
    assert call("GET", "/livez", headers={"host": "[::1]:8080"}).status_code == 200
    problem(call("GET", "/livez", headers={"host": "rebound.example"}), 421, "wrong-host")
    problem(call("POST", "/v1/events/e1/activate", headers={"sec-fetch-site": "cross-site"}), 421, "wrong-host")
    problem(
        call("POST", "/v1/events/e1/activate", headers={"sec-fetch-site": "same-origin"}), 404, "unknown-event"
    )


# Keys


@pytest.fixture
def with_keys(service: Service) -> dict[str, Caller]:
    made = {name: new_key(name) for name in ("boss", "web", "eye", "narrow")}
    keys = Keys(
        [
            Key("boss", "admin", made["boss"][1]),
            Key("web", "app", made["web"][1]),
            Key("eye", "reader", made["eye"][1]),
            Key("narrow", "app", made["narrow"][1], frozenset({"search"})),
        ]
    )
    app = application(service, keys)
    callers = {name: Caller(app, authorization=f"Bearer {key}") for name, (key, _) in made.items()}
    return {**callers, "nobody": Caller(app)}


BODIES = {"rank": {}, "feedback": {"grades": []}, "put_items": {"items": ["tea"]}}


def test_who_may_make_each_call(with_keys: dict[str, Caller]) -> None:
    with_keys["boss"]("POST", "/v1/slots/home/rank", json={"event_id": "e1"})
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("{slot}", "home").replace("{event_id}", "e1")
        body = {"json": BODIES[endpoint.name]} if endpoint.name in BODIES else {}
        for name, role in {"boss": "admin", "web": "app", "eye": "reader", "nobody": None}.items():
            reply = with_keys[name](endpoint.method, path, **body)
            if endpoint.role is not None and role is None:
                problem(reply, 401, "no-key")
                assert "Bearer" in reply.headers["www-authenticate"]
            elif endpoint.role is not None and role not in ("admin", endpoint.role):
                assert f"this call needs '{endpoint.role}'" in problem(reply, 403, "not-allowed")
            else:
                assert reply.status_code not in (401, 403)


def test_a_key_for_some_slots_knows_no_others(with_keys: dict[str, Caller], service: Service) -> None:
    narrow = with_keys["narrow"]
    assert narrow("POST", "/v1/slots/search/rank", json={"event_id": "mine"}).status_code == 200
    problem(narrow("POST", "/v1/slots/home/rank", json={}), 404, "unknown-slot")
    with_keys["web"]("POST", "/v1/slots/home/rank", json={"event_id": "other"})
    problem(narrow("PUT", "/v1/events/other/feedback", json={"grades": []}), 404, "unknown-event")
    problem(narrow("POST", "/v1/events/other/activate"), 404, "unknown-event")
    problem(narrow("GET", "/v1/events/other"), 404, "unknown-event")
    assert narrow("PUT", "/v1/events/mine/feedback", json={"grades": []}).status_code == 200
    lines = '{"call": "rank", "slot": "home", "request": {}}\n{"call": "activate", "event_id": "other"}\n'
    reply = narrow("POST", "/v1/batch", content=lines, headers={"content-type": LINES})
    assert [json.loads(line)["status"] for line in reply.text.splitlines()] == [404, 404]


def test_no_key_is_in_the_log(
    with_keys: dict[str, Caller], service: Service, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(service, monkeypatch, "a fault")
    caller = with_keys["web"]
    caller("POST", "/v1/slots/home/rank", json={})
    caller("GET", "/v1/slots")
    assert "internal error" in log.getvalue()
    assert caller.headers["authorization"].removeprefix("Bearer ") not in log.getvalue()
