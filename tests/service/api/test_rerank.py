"""Rerank calls over HTTP, as the clients of reranking services send them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.asgi import Caller
from helpers.reranking import FAQ, PLAIN, QUERY, RECORDED, TEXTS, Recorded, running
from helpers.services import SetClock
from peekrank.service.api.keys import Key, Keys, new_key
from peekrank.service.api.messages import Item, RankRequest
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.core import slot_state
from peekrank.service.core.audit import audit_slots
from peekrank.service.core.export import export_log
from peekrank.service.core.rerank import Rerank
from peekrank.service.event_log.open import open_log

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def scored(*scores: float | None, ids: bool = False) -> list[dict[str, Any]]:
    """Documents with scores."""
    return [
        {"text": f"text {n}", **({} if score is None else {"score": score}), **({"id": f"doc-{n}"} if ids else {})}
        for n, score in enumerate(scores)
    ]


def post(call: Caller, documents: list[Any], **body: Any) -> Any:
    return call("POST", "/v1/rerank", json={"model": "faq", "query": "q", "documents": documents, **body})


def problem(reply: Any, status: int, kind: str) -> str:
    said = reply.json()
    assert (reply.status_code, said["type"]) == (status, f"/problems/{kind}")
    assert said["message"] == said["detail"]
    return str(said["detail"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with running(tmp_path_factory.mktemp("shared")) as (_, call):
        yield call


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one.client)
def test_every_client_gets_what_it_needs(shared: Caller, recorded: Recorded, path: str) -> None:
    reply = shared("POST", path, json=recorded.body, headers=recorded.headers)
    assert reply.status_code == 200
    said = reply.json()
    assert reply.headers["x-peekrank-event"]
    results = said if recorded.bare else said["results"]
    score = "score" if recorded.bare else "relevance_score"
    assert len(results) == recorded.results
    assert len({one["index"] for one in results}) == recorded.results
    values = [one[score] for one in results]
    assert sorted(set(values), reverse=True) == values
    assert all(0 <= value <= 1 for value in values)
    for one in results:
        text = one.get("text") if recorded.bare else one.get("document", {}).get("text")
        sent = (recorded.body.get("documents") or recorded.body["texts"])[one["index"]]
        assert text == ((sent if isinstance(sent, str) else sent["text"]) if recorded.texts else None)
    if not recorded.bare:
        assert said["id"] == reply.headers["x-peekrank-event"]
        assert said["model"] == "faq"
        assert said["usage"] == {"total_tokens": 0, "prompt_tokens": 0}
        assert said["meta"]["warnings"] == []


def test_a_slot_that_knows_nothing_keeps_the_order_and_the_scale_of_scores(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN.replace("cells=100", "cells=100,floor=0,earned=0")) as (_, call):
        reply = post(call, scored(0.2, 0.9, 0.5)).json()
        assert [(one["index"], one["relevance_score"]) for one in reply["results"]] == [
            (1, 0.9),
            (2, 0.5),
            (0, 0.2),
        ]
        assert (reply["top_k"], reply["explored"]) == ([1, 2, 0], False)
        given = post(call, ["a", "b", "c"]).json()["results"]
        assert [one["index"] for one in given] == [0, 1, 2]
        assert [round(one["relevance_score"], 6) for one in given] == [1, 0.5, 0.333333]


def test_scores_of_another_scale_are_squashed_or_rejected(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "logit").mkdir()
    with running(tmp_path / "unit") as (_, call):
        assert 'scale = "logit"' in problem(post(call, scored(3.0, 0.1)), 422, "invalid")
        assert "1 of 2 have a score" in problem(post(call, scored(0.3, None)), 422, "invalid")
    with running(tmp_path / "logit", PLAIN + 'scale = "logit"\n') as (_, call):
        values = [
            one["relevance_score"] for one in post(call, scored(0.0, 800.0, -800.0, 800.0)).json()["results"]
        ]
        assert values == [1.0, 0.999999, 0.5, 0.0]


def test_the_text_may_come_twice(tmp_path: Path) -> None:
    with running(tmp_path) as (service, call):
        reply = post(call, ["b", " a", "b", "a ", "c"]).json()
        assert sorted(one["index"] for one in reply["results"]) == [0, 1, 2, 3, 4]
        places = [one["index"] for one in reply["results"]]
        assert places.index(2) == places.index(0) + 1
        assert places.index(3) == places.index(1) + 1
        assert service.slot("faq").items == 3
        told = call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grade": 1, "cited": [3]}).json()
        assert [grade for grade in told["grades"].values() if grade is not None] == [1]
        name = next(name for name, grade in told["grades"].items() if grade == 1)
        cited = {"grade": 1, "cited": [{"text": "a"}]}
        again = call("PUT", f"/v1/events/{reply['id']}/feedback", json=cited).json()
        assert again["grades"][name] == 1


def test_texts_that_differ_in_form_only_are_one(tmp_path: Path) -> None:
    with running(tmp_path) as (service, call):
        post(call, ["Caf\u00e9", "Cafe\u0301\n"])
        assert service.slot("faq").items == 1


def test_grades_of_cited_documents(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN.replace("cells=100", "cells=100,floor=0,earned=0")) as (service, call):
        reply = post(call, scored(0.9, 0.8, 0.7, 0.6, ids=True), event_id="turn-1").json()
        assert reply["id"] == "turn-1"

        def put(body: dict[str, Any]) -> Any:
            return call("PUT", "/v1/events/turn-1/feedback", json=body)

        assert "the first 3 items that the grade is about" in problem(put({"grade": 1}), 422, "invalid")
        assert "from 0 to 1" in problem(put({"grade": 2, "cited": [0]}), 422, "invalid")
        assert "either grades, or one grade" in problem(put({"grades": [1], "cited": [0]}), 422, "invalid")
        assert "grades is missing" in problem(put({"cited": [0]}), 422, "invalid")
        none = put({"grade": 1, "cited": []}).json()
        assert (none["state"], none["ignored"]) == ("shown", 0)
        below = put({"grade": 1, "cited": [3, "doc-3", "unknown", 17, {"text": "unknown"}]}).json()
        assert (below["state"], below["ignored"]) == ("shown", 5)
        told = put({"grade": 0.75, "cited": [2, "doc-0", "doc-3"]}).json()
        assert told["grades"] == {"doc-0": 0.75, "doc-1": None, "doc-2": 0.75}
        assert (told["state"], told["learned"], told["ignored"]) == ("answered", True, 1)
        assert put({"grade": 0.75, "cited": ["doc-2", 0]}).json()["state"] == "answered"
        problem(put({"grade": 0.5, "cited": [0]}), 409, "other-answer")
        assert service.slot("faq").answered == 1


def test_one_grade_without_citations_needs_k_1(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN.replace("k = 3", "k = 1")) as (_, call):
        reply = post(call, ["a", "b"]).json()
        told = call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grade": 0.25}).json()
        assert list(told["grades"].values()) == [0.25]


def test_places_are_of_rerank_calls_only(tmp_path: Path) -> None:
    with running(tmp_path) as (_, call):
        call("POST", "/v1/slots/faq/rank", json={"event_id": "e", "items": ["a", "b"]})
        said = problem(call("PUT", "/v1/events/e/feedback", json={"grade": 1, "cited": [0]}), 422, "invalid")
        assert "which only lists of rerank calls have" in said
        assert call("PUT", "/v1/events/e/feedback", json={"grade": 1, "cited": ["a"]}).json()["grades"]["a"] == 1
        line = {"call": "feedback", "event_id": "e", "request": {"grade": 1, "cited": [{"text": "a"}]}}
        headers = {"content-type": "application/x-ndjson"}
        reply = call("POST", "/v1/batch", content=json.dumps(line), headers=headers).json()
        assert "not in a batch" in reply["problem"]["detail"]


def test_feedback_by_trace(tmp_path: Path) -> None:
    path = f"/v1/events/trace:{TRACE}/feedback"
    clock = SetClock()
    with running(tmp_path, clock=clock) as (_, call):
        problem(call("PUT", path, json={"grade": 1, "cited": ["doc-0"]}), 404, "unknown-event")
        first = call(
            "POST", "/rerank", json={"query": "q", "documents": scored(0.9, 0.8, 0.7, ids=True)}, headers=PARENT
        )
        one = call("PUT", path, json={"grade": 0.5, "cited": [1, "other"]}).json()
        assert (len(one["events"]), one["ignored"]) == (1, 1)
        assert one["events"][0]["event_id"] == first.json()["id"]
        assert one["events"][0]["grades"]["doc-1"] == 0.5
        second = call("POST", "/v2/rerank", json={"query": "r", "documents": ["x", "y"]}, headers=PARENT).json()
        assert "cite ids or texts, not positions" in problem(
            call("PUT", path, json={"grade": 1, "cited": [0]}), 422, "invalid"
        )
        two = call("PUT", path, json={"grade": 1, "cited": [{"text": "y"}, "none"]}).json()
        assert [event["event_id"] for event in two["events"]] == [second["id"]]
        assert two["ignored"] == 1
        assert call("PUT", path, json={"grade": 1, "cited": ["none"]}).json() == {"events": [], "ignored": 1}
        problem(call("PUT", path, json={"grade": 0.25, "cited": ["doc-1"]}), 409, "other-answer")
        third = call("POST", "/v1/rerank", json={"query": "s", "documents": ["z"]}, headers=PARENT).json()
    with running(tmp_path, clock=clock) as (_, call):  # open events of a trace survive a restart
        after = call("PUT", path, json={"grade": 1, "cited": [{"text": "z"}]}).json()
        assert [event["event_id"] for event in after["events"]] == [third["id"]]
        assert call("PUT", f"/v1/events/trace:{TRACE.upper()}/feedback", json={"grade": 1}).status_code == 404


def test_a_trace_is_forgotten_with_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_state, "_RECENT", 30)
    clock = SetClock()
    request = RankRequest(items=[Item("a", score=1.0)])
    with running(tmp_path, clock=clock) as (service, _):
        for n in range(200):
            service.submit(Rerank("faq", request, ["a"], b"", n.to_bytes(16))).result()
            clock.now += 4000  # closes the event
        assert 30 <= len(service._manager.traces._events) < 70


def test_repeated_calls_return_the_stored_order(tmp_path: Path) -> None:
    body = {"model": "faq", "query": "q", "documents": TEXTS}
    with running(tmp_path) as (service, call):
        first = call("POST", "/v1/rerank", json=body | {"event_id": "e1"})
        assert call("POST", "/v2/rerank", json=body | {"event_id": "e1"}).content == first.content
        assert call("POST", "/v1/rerank", json=body, headers={"Idempotency-Key": "e1"}).content == first.content
        fewer = call("POST", "/v1/rerank", json=body | {"event_id": "e1", "top_n": 1, "unknown": 1}).json()
        assert fewer["results"] == first.json()["results"][:1]
        for other in ({"query": "r"}, {"documents": TEXTS[::-1]}, {"documents": TEXTS[:2]}):
            problem(call("POST", "/v1/rerank", json=body | {"event_id": "e1"} | other), 409, "other-request")
        problem(call("POST", "/v1/slots/faq/rank", json={"event_id": "e1"}), 409, "other-request")
        problem(call("POST", "/v1/rerank", json=body, headers={"Idempotency-Key": "a b"}), 422, "invalid")
        assert service.slot("faq").ranked == 1
        call("POST", "/v1/rerank", json=body)
        call("POST", "/v1/rerank", json=body)
        assert service.slot("faq").ranked == 3
    with running(tmp_path) as (_, call):
        assert call("POST", "/v1/rerank", json=body | {"event_id": "e1"}).content == first.content


def test_which_slot_answers(tmp_path: Path) -> None:
    two = PLAIN + FAQ[FAQ.index("[slots.faq]") :].replace("faq", "docs") + "[slots.docs.rerank]\n"
    (tmp_path / "default").mkdir()
    (tmp_path / "only").mkdir()
    one, digest = new_key("one")
    keys = Keys([Key("one", "app", digest, frozenset({"docs"}))])
    with running(tmp_path, two) as (_, call):
        body = {"query": "q", "documents": ["a"]}
        assert "'faq', 'docs'" in problem(call("POST", "/v1/rerank", json=body), 422, "invalid")
        assert "Known: 'docs', 'faq'" in problem(
            call("POST", "/rerank", json=body | {"model": "fa"}), 404, "unknown-slot"
        )
    with running(tmp_path / "default", two + "default = true\n") as (_, call):
        assert call("POST", "/v1/rerank", json=body | {"model": None}).json()["model"] == "docs"
    with running(tmp_path / "only", two, keys) as (_, call):
        assert problem(call("POST", "/v1/rerank", json=body), 401, "no-key")
        for header in (f"Bearer {one}", one):  # TEI's clients send the key alone
            auth = {"authorization": header}
            assert call("POST", "/v1/rerank", json=body, headers=auth).json()["model"] == "docs"
            problem(call("POST", "/rerank", json=body | {"model": "faq"}, headers=auth), 404, "unknown-slot")


def test_a_slot_without_the_table_does_not_answer(tmp_path: Path) -> None:
    with running(tmp_path, FAQ) as (_, call):
        assert "This service has no slots" in problem(call("POST", "/v1/rerank", json=QUERY), 404, "unknown-slot")


def test_keys_are_given_or_the_wording_of_the_query(tmp_path: Path) -> None:
    for name, table in {"none": "", "query": 'keys = "query"\n', "given": 'keys = "given"\n'}.items():
        (tmp_path / name).mkdir()
        with running(tmp_path / name, PLAIN + table) as (service, call):
            asked = [call("POST", "/v1/rerank", json=QUERY | {"query": q}) for q in ("a", " a ", "b")]
            assert [reply.status_code for reply in asked] == [200, 200, 200]
            assert service.slot("faq").keys == {"none": 0, "query": 2, "given": 0}[name]
            given = [
                call("POST", "/v1/rerank", json=QUERY | body)
                for body in ({"model": "faq:acme"}, {"key": "acme"}, {"key": "acme", "model": "faq:acme"})
            ]
            if name == "given":
                assert service.slot("faq").keys == 1
                other = call("POST", "/v1/rerank", json=QUERY | {"key": "acme", "model": "faq:other"})
                assert "differs from the key in model" in problem(other, 422, "invalid")
            else:
                assert all('keys = "given"' in problem(reply, 422, "invalid") for reply in given)


@pytest.mark.parametrize(("keys", "body"), [("query", {"query": "hot drink"}), ("given", {"key": "hot drink"})])
def test_the_board_finds_the_ranking_of_a_wording(tmp_path: Path, keys: str, body: dict[str, Any]) -> None:
    with running(tmp_path, f'{PLAIN}keys = "{keys}"\n') as (service, call):
        call("POST", "/v1/rerank", json=QUERY | body)
        (hashed,) = service.details("faq").keys
        for key in ("hot drink", " hot drink\n", hashed):
            page = call("GET", "/dashboard/faq", params={"live": "no", "key": key}).text
            assert "No list had" not in page
            assert f"Current ranking for “{key}”" in page
            assert f"<strong>{hashed}</strong>" in page
        assert "No list had the key “tea”" in call("GET", "/dashboard/faq?live=no&key=tea").text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"query": "q", "documents": ["a"]', "cannot be parsed"),
        (b"[]", "Expected `object`"),
        (b'{"documents": ["a"]}', "missing required field `query`"),
        (b'{"query": null, "documents": ["a"]}', "Expected `str`"),
        (b'{"query": "q"}', "as `documents` or as `texts`"),
        (b'{"query": "q", "documents": ["a"], "texts": ["a"]}', "as `documents` or as `texts`"),
        (b'{"query": "q", "documents": []}', "length >= 1"),
        (b'{"query": "q", "documents": [1]}', "Expected `str | object`"),
        (b'{"query": "q", "documents": [{}]}', "needs a text or an id"),
        (b'{"query": "q", "documents": ["a"], "top_n": 0}', ">= 1"),
        (b'{"query": "q", "documents": ["a"], "top_n": 1.5}', "Expected `int | null`"),
        (b'{"query": "q", "documents": [{"id": "a\\nb"}]}', "control characters"),
        (b'{"query": "q", "documents": [{"text": "a", "score": 1e999}]}', ""),
        (b'{"query": "q", "documents": ["a"], "event_id": "a b"}', "Expected a name"),
        (b'{"query": "q", "documents": [{"id": 9223372036854775808}], "event_id": "e1"}', "documents[0].id"),
        (b'{"query": "q", "documents": [{"id": 1' + b"0" * 4000 + b"}]}", "documents[0].id"),
        (json.dumps({"query": "q", "documents": ["a"] * 1001}).encode(), "length <= 1000"),
    ],
)
def test_broken_bodies_change_nothing(tmp_path: Path, body: bytes, reason: str) -> None:
    with running(tmp_path) as (service, call):
        reply = call("POST", "/v1/rerank", content=body, headers={"content-type": "application/json"})
        assert reply.status_code in (400, 422)
        assert reason in reply.json()["message"]
        assert service.slot("faq").ranked == 0
        assert not (tmp_path / "log.db-secret").exists() or reply.status_code == 422


def test_bodies_may_be_four_times_as_large_as_others(tmp_path: Path) -> None:
    limit = "[limits]\nmax_body_bytes = 1000\n"
    with running(tmp_path, PLAIN + limit) as (_, call):
        assert call("POST", "/v1/rerank", json=QUERY | {"query": "x" * 3500}).status_code == 200
        problem(call("POST", "/v1/rerank", json=QUERY | {"query": "x" * 4500}), 413, "too-large")
        problem(
            call("PUT", "/v1/events/e/feedback", json={"grade": 1, "shown": ["x" * 100] * 12}), 413, "too-large"
        )


@pytest.mark.parametrize(
    ("table", "limits", "reason"),
    [("max_documents = 3\n", "", "items of a slot"), ("", "[limits]\nmax_open_events = 1\n", "open event")],
)
def test_a_full_slot_keeps_the_order_and_says_so(tmp_path: Path, table: str, limits: str, reason: str) -> None:
    with running(tmp_path, PLAIN + table + limits) as (service, call):
        call("POST", "/v1/rerank", json=QUERY)
        reply = post(call, scored(0.1, 0.9, 0.5)).json()
        assert [one["index"] for one in reply["results"]] == [1, 2, 0]
        assert reply["top_k"] == []
        (warning,) = reply["meta"]["warnings"]
        assert reason in warning
        problem(
            call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grade": 1, "cited": [1]}),
            404,
            "unknown-event",
        )
        assert service.slot("faq").ranked == 1
        assert 'peekrank_unlearned_lists_total{slot="faq"} 1.0' in call("GET", "/metrics").text
    with running(tmp_path, PLAIN + table + 'on_failure = "reject"\n' + limits) as (_, call):
        assert post(call, scored(0.1, 0.9, 0.5)).status_code in (413, 429)


def test_retired_documents_come_last(tmp_path: Path) -> None:
    with running(tmp_path) as (_, call):
        post(call, scored(0.9, 0.8, 0.7, ids=True))
        call("DELETE", "/v1/slots/faq/items?id=doc-0")
        reply = post(call, scored(0.9, 0.8, 0.7, ids=True)).json()
        assert reply["results"][-1]["index"] == 0
        assert sorted(reply["top_k"]) == [1, 2]
        told = call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grade": 1, "cited": [0, 2]}).json()
        assert told["grades"] == {name: (1.0 if name == "doc-2" else None) for name in told["grades"]}
        assert told["ignored"] == 1


def test_rules_of_the_slot_hold(tmp_path: Path) -> None:
    rules = '[slots.faq.rules]\nblocked = ["doc-1"]\npins = { "1" = "doc-3" }\n'
    with running(tmp_path, PLAIN + rules) as (_, call):
        for _n in range(20):
            reply = post(call, scored(0.9, 0.8, 0.7, 0.6, ids=True)).json()
            places = [one["index"] for one in reply["results"]]
            assert (places[0], sorted(places)) == (3, [0, 2, 3])
            told = call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grade": 1, "cited": [1, 2]}).json()
            assert told["ignored"] == 1
            assert {name for name, grade in told["grades"].items() if grade} <= {"doc-2"}


def test_shadow_mode_returns_the_order_by_score(tmp_path: Path) -> None:
    with running(tmp_path, PLAIN.replace("k = 3", 'k = 3\nmode = "shadow"')) as (_, call):
        for _n in range(200):
            reply = post(call, scored(0.2, 0.9, 0.9, 0.5)).json()
            assert [one["index"] for one in reply["results"]] == [1, 2, 3, 0]
            call("PUT", f"/v1/events/{reply['id']}/feedback", json={"grades": [0, 0, 1]})


def test_nothing_is_stored_or_logged_of_texts_and_queries(tmp_path: Path) -> None:
    word = "Sesame, the pass word of Ali Baba"
    log = io.StringIO()
    configure_logging("debug", log)
    body = {
        "model": "faq:tenant-cassim", "query": word, "documents": [word, f"{word}!"], "user": word,
        "event_id": "e1",
    }  # fmt: skip
    with running(tmp_path, PLAIN + 'keys = "given"\n') as (_, call):
        call("POST", "/v1/rerank", json=body, headers={"X-OpenWebUI-User-Name": word})
        call("POST", "/v1/rerank", json=body | {"top_n": word})
        call("PUT", "/v1/events/e1/feedback", json={"grade": 1, "cited": [{"text": word}]})
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.name != "service.toml")
        for part in ("Sesame", "cassim"):
            assert part.encode() not in stored
            assert part not in log.getvalue()
        assert b"e1" in stored
    key = (tmp_path / "log.db-secret").read_bytes()[:32]
    assert (tmp_path / "log.db-secret").stat().st_mode & 0o077 == 0
    assert key not in (tmp_path / "log.db").read_bytes()


def test_ids_survive_restarts_and_belong_to_one_service(tmp_path: Path) -> None:
    names = []
    for folder in ("a", "a", "b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        with running(tmp_path / folder) as (service, call):
            call("POST", "/v1/rerank", json=QUERY)
            names.append([item.id for item in service.items("faq").items])
    assert names[0] == names[1]
    assert len(names[0]) == 3
    assert not set(names[0]) & set(names[2])


def test_a_damaged_secret_is_noticed(tmp_path: Path) -> None:
    with running(tmp_path) as (_, call):
        call("POST", "/v1/rerank", json=QUERY)
    content = bytearray((tmp_path / "log.db-secret").read_bytes())
    content[5] ^= 1
    (tmp_path / "log.db-secret").write_bytes(bytes(content))
    with running(tmp_path) as (service, call):
        problem(call("POST", "/v1/rerank", json=QUERY), 503, "store")
        assert service.slot("faq").ranked == 1


@pytest.mark.parametrize("snapshot_every", [100, 100_000])
def test_restart_replay_and_audit_agree(tmp_path: Path, snapshot_every: int) -> None:
    clock = SetClock()
    text = PLAIN.replace("[slots.faq]", f"snapshot_every = {snapshot_every}\n[slots.faq]") + 'keys = "query"\n'
    replies = []
    for start in range(0, 120, 40):
        with running(tmp_path, text, clock=clock) as (service, call):
            for n in range(start, start + 40):
                documents: list[Any] = [f"text {(n * 7 + j * j) % 23}" for j in range(8)]
                if n % 3 == 0:
                    documents = scored(*[(n * j % 11) / 11 for j in range(6)], ids=n % 2 == 0)
                body = {"query": f"q{n % 4}", "documents": documents, "event_id": f"e{n}"}
                replies.append(call("POST", "/v1/rerank", json=body, headers=PARENT if n % 5 == 0 else {}).json())
                clock.now += 60
                if n % 4:
                    grade = {"grade": n % 3 / 2, "cited": [n % 8, 0, {"text": "text 3"}]}
                    assert call("PUT", f"/v1/events/e{n}/feedback", json=grade).status_code == 200
            before = service.slot("faq")
            items = service.items("faq")
    with running(tmp_path, text, clock=clock) as (service, call):
        after = service.slot("faq")
        assert (after.ranked, after.answered, after.expired) == (before.ranked, before.answered, before.expired)
        assert service.items("faq") == items
    store = open_log(str(tmp_path / "log.db"))
    audits = list(audit_slots(store))
    assert all(audit.passed and audit.rankings == 0 for audit in audits)
    if snapshot_every > 100:
        log = export_log(store, "faq")
        assert len(log.events) == 120
    store.close()
