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
from peekrank.service.api.codec import JSON, LINES
from peekrank.service.api.endpoints import application
from peekrank.service.api.keys import Key, Keys, new_key
from peekrank.service.api.limits import MAX_BODY, MAX_LINES
from peekrank.service.api.messages import EventReply, RankReply, RankRequest
from peekrank.service.api.openapi import openapi
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
    assert [(item["id"], item["retired"]) for item in rest["items"]] == [("soup", False), ("tea", True)]
    assert rest["next"] is None


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


def test_lines_of_a_batch_may_pin_and_block(call: Caller) -> None:
    lines: list[dict[str, Any]] = [
        {"call": "rank", "slot": "home", "request": {"event_id": "e1", "pins": {"1": "cake"}, "blocked": ["tea"]}},
        {"call": "rank", "slot": "home", "request": {"pins": {"1": "pie"}}},
        {"call": "rank", "slot": "home", "request": {"pins": {"0": "tea"}}},
        {"call": "rank", "slot": "home", "request": {"items": ["tea", {"id": "pie", "group": "sweet"}]}},
    ]
    body = "\n".join(map(json.dumps, lines))
    reply = call("POST", "/v1/batch", content=body, headers={"content-type": LINES})
    read = [json.loads(line) for line in reply.text.splitlines()]
    assert (read[0]["reply"]["ranking"], read[0]["reply"]["blocked"]) == (["cake", "soup"], ["tea"])
    assert [(line["status"], line["problem"]["field"]) for line in read[1:]] == [
        (422, "$.pins"),
        (422, None),
        (422, "$.items"),
    ]


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


def test_the_replies_to_a_batch_have_a_limit(
    call: Caller, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines beyond it are not run, so that a few bytes each cannot ask for gigabytes."""
    monkeypatch.setattr("peekrank.service.api.batch.MAX_BATCH_REPLY", 2000)
    call("PUT", "/v1/slots/home/items", json={"items": [f"{n}{'x' * 100}" for n in range(7)]})
    lines = [{"call": "rank", "slot": "home", "request": {"event_id": f"e{n}"}} for n in range(5)]
    body = "\n".join(map(json.dumps, [*lines, {"call": "activate", "event_id": "e0"}]))
    reply = call("POST", "/v1/batch", content=body, headers={"content-type": LINES})
    read = [json.loads(line) for line in reply.text.splitlines()]
    assert [line["status"] for line in read] == [200, 200, 200, 413, 413, 413]
    assert "This line was not run" in read[3]["problem"]["detail"]
    assert len(reply.content) < 2000 + 1500 + 3 * 500
    assert service.slot("home").ranked == 3
    assert call("GET", "/v1/events/e3").status_code == 404


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


def test_messages_quote_no_long_values(call: Caller) -> None:
    for path, kind, field in (("/v1/rerank", JSON, "return_text"), ("/v1/batch", LINES, "call")):
        body = json.dumps({"query": "q", field: "x" * 5000})
        reply = call("POST", path, content=body, headers={"content-type": kind})
        assert "xxx..." in reply.text
        assert len(reply.content) < 1500


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
    for limit in ("9" * 5000, "0" * 4999 + "1", "000000001" + "0" * 5000, "0000000019999", "1001", "-1", "٣"):
        problem(call("GET", f"/v1/slots/home/items?limit={limit}"), 422, "invalid")
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
    assert call("GET", "/readyz").json() == {"ok": True, "reason": ""}
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
    assert 'peekrank_relaxed_rankings_total{slot="home"} 0.0' in page
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


FOREIGN = ["https://evil.example", "null", "http://localhost:8001", "http://localhost.evil.example", "file://", ""]


def test_a_foreign_origin_changes_nothing(call: Caller) -> None:
    call("POST", "/v1/slots/home/rank", json={"event_id": "e1", "defer": True})
    for endpoint in (one for one in ENDPOINTS if one.method != "GET"):
        path = endpoint.path.replace("{slot}", "home").replace("{event_id}", "e1")
        for origin in FOREIGN:
            problem(call(endpoint.method, path, headers={"origin": origin}), 421, "wrong-host")
    assert call("GET", "/v1/events/e1").json()["state"] == "open"
    for origin, host in (("http://localhost", "localhost"), ("https://Rank.example", "rank.example:443")):
        reply = call("POST", "/v1/events/e1/activate", headers={"origin": origin, "host": host})
        assert reply.json()["state"] == "shown"
    assert call("GET", "/v1/slots", headers={"origin": "https://evil.example"}).status_code == 200


def test_feedback_without_grades_says_what_is_missing(call: Caller) -> None:
    call("POST", "/v1/slots/home/rank", json={"event_id": "e1"})
    assert problem(call("PUT", "/v1/events/e1/feedback", json={}), 422, "invalid").startswith("grades is missing")


def test_replies_have_every_field_of_their_description(call: Caller) -> None:
    call("POST", "/v1/slots/home/rank", json={"event_id": "e1"})
    schemas = openapi()["components"]["schemas"]
    for method, path, schema, body in (
        ("POST", "/v1/slots/home/rank", "RankReply", {}),
        ("PUT", "/v1/events/e1/feedback", "EventReply", {"grades": [1]}),
        ("GET", "/v1/events/e1", "EventReply", None),
        ("GET", "/v1/slots/search", "SlotReply", None),
        ("GET", "/v1/slots/home/items", "ItemsReply", None),
        ("PUT", "/v1/slots/home/items", "ChangedReply", {"items": ["tea"]}),
        ("GET", "/v1/stats", "StatsReply", None),
        ("GET", "/livez", "HealthReply", None),
        ("GET", "/v1/slots/hone", "ProblemReply", None),
    ):
        fields = set(call(method, path, **({} if body is None else {"json": body})).json())
        assert fields == set(schemas[schema]["properties"]) == set(schemas[schema]["required"]), schema


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


def test_ids_of_events_of_other_slots_can_be_used(with_keys: dict[str, Caller]) -> None:
    """If they could not, a key for some slots would learn which events there are in the others."""
    narrow, web = with_keys["narrow"], with_keys["web"]
    web("POST", "/v1/slots/home/rank", json={"event_id": "visit"})
    assert narrow("POST", "/v1/slots/search/rank", json={"event_id": "visit"}).status_code == 200
    assert narrow("GET", "/v1/events/visit").json()["slot"] == "search"
    assert narrow("PUT", "/v1/events/visit/feedback", json={"grades": [1]}).json()["state"] == "answered"
    lines = '{"call": "rank", "slot": "search", "request": {"event_id": "visit"}}\n'
    assert narrow("POST", "/v1/batch", content=lines, headers={"content-type": LINES}).json()["status"] == 200
    assert "several slots" in problem(web("GET", "/v1/events/visit"), 409, "other-request")


def test_a_reader_of_one_slot_sees_nothing_of_the_others(service: Service) -> None:
    (key, kept), (wide, other) = new_key("narrow"), new_key("wide")
    keys = Keys([Key("narrow", "reader", kept, frozenset({"search"})), Key("wide", "reader", other)])
    app = application(service, keys)
    narrow, wide_reader = Caller(app, authorization=f"Bearer {key}"), Caller(app, authorization=f"Bearer {wide}")
    before = [narrow("GET", path).text for path in ("/metrics", "/v1/stats", "/v1/slots")]
    assert 'slot="search"' in before[0]
    for _ in range(5):
        service.rank("home", RankRequest())
    assert [narrow("GET", path).text for path in ("/metrics", "/v1/stats", "/v1/slots")] == before
    assert "home" not in "".join(before) + narrow("GET", "/").text
    assert narrow("GET", "/v1/stats").json()["sequence"] == service.slot("search").sequence
    assert wide_reader("GET", "/v1/stats").json()["sequence"] == service.stats().sequence
    assert 'slot="home"' in wide_reader("GET", "/metrics").text


def test_no_key_is_in_the_log(
    with_keys: dict[str, Caller], service: Service, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(service, monkeypatch, "a fault")
    caller = with_keys["web"]
    caller("POST", "/v1/slots/home/rank", json={})
    caller("GET", "/v1/slots")
    assert "internal error" in log.getvalue()
    assert caller.headers["authorization"].removeprefix("Bearer ") not in log.getvalue()
