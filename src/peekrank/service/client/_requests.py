"""The calls of a client: address, body and reply of each. `Client` and `AsyncClient` send them."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike

from peekrank._util.extras import extra
from peekrank.service.api.problems import PROBLEM_TYPES, Problem
from peekrank.service.client.replies import (
    BatchReply,
    ChangedReply,
    EventReply,
    ItemsReply,
    ProblemReply,
    RankReply,
    SlotReply,
    SlotsReply,
    StatsReply,
    as_reply,
)

with extra("client"):
    import httpx

Reply = TypeVar("Reply")
Item = Mapping[str, Any]  # what `item` returns
Items = Iterable[str | Item] | Mapping[str, ArrayLike]
Scores = Mapping[str, float | None]
Grades = Mapping[str, float | None] | Sequence[float | None]
Signals = Mapping[str, Mapping[str, float]]

JSON = "application/json"
LINES = "application/x-ndjson"
PROBLEM = "application/problem+json"
_RETRY = {408, 429, 502, 503, 504}  # statuses after which a retry may succeed
_PAGE = 1000  # items per page


class ApiRequest(NamedTuple, Generic[Reply]):
    """A request to send, and the function that reads its response."""

    method: str
    path: str
    read: Callable[[httpx.Response], Reply]
    content: bytes | None = None
    content_type: str = JSON

    def build(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Build the request for httpx."""
        headers = {} if self.content is None else {"content-type": self.content_type}
        return http.build_request(self.method, self.path, content=self.content, headers=headers)


class Retries:
    """Decides when to retry: after random pauses that double, until all retries are used.

    Parameters
    ----------
    retries
        Maximum number of retries.
    """

    def __init__(self, retries: int) -> None:
        self._left, self._pause = retries, 0.05

    def next_step(self, outcome: httpx.Response | httpx.TransportError) -> httpx.Response | float:
        """Return the response if it is final, or the seconds to wait. Raises the error if no retries are left."""
        if isinstance(outcome, httpx.Response) and outcome.status_code not in _RETRY:
            return outcome
        if self._left > 0:
            self._left -= 1
            self._pause = min(2 * self._pause, 2.0)
            return self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        if isinstance(outcome, httpx.TransportError):
            raise outcome
        return outcome


class Requests:
    """All calls to a service. `Client` and `AsyncClient` have the same methods, and return the replies."""

    def rank(
        self,
        slot: str,
        items: Items | None = None,
        *,
        scores: Scores | None = None,
        key: str | None = None,
        score_version: int | None = None,
        context: ArrayLike | None = None,
        event_id: str | None = None,
        baseline: Sequence[str] | None = None,
        defer: bool = False,
        pins: Mapping[int, str] | None = None,
        blocked: Iterable[str] | None = None,
        orders: tuple[Sequence[str], Sequence[str]] | None = None,
        visitor: str | None = None,
    ) -> ApiRequest[RankReply]:
        """Rank a list: names of items, or a mapping from names to features. By default, all items of the slot.

        `scores` are the app's own, by item; without `items`, their items are ranked. Raise `score_version` when
        another ranker computes them. `key` is whom or what the list is for. `pins` maps positions to items,
        `blocked` names items to leave out. In a slot with `sticky`, the same `visitor` gets the same order.
        `orders` are those of both rankers, for a slot that compares.
        """
        body = {
            "event_id": event_id or uuid.uuid4().hex,
            "items": _scored_items(items, scores),
            "key": key,
            "score_version": score_version,
            "context": None if context is None else _pack(context),
            "defer": defer,
            "baseline": None if baseline is None else list(baseline),
            "pins": None if pins is None else {str(position): name for position, name in pins.items()},
            "blocked": None if blocked is None else list(blocked),
            "orders": None if orders is None else [list(order) for order in orders],
            "visitor": visitor,
        }
        return _request("POST", f"{_slot(slot)}/rank", RankReply, body)

    def feedback(
        self, event_id: str, grades: Grades, *, shown: Sequence[str] | None = None
    ) -> ApiRequest[EventReply]:
        """Submit grades by item, or in the order of `top_k`. None means no feedback on this item.

        `shown` is the list as the app showed it, from the top, if it may differ from the ranking.
        """
        body = {"grades": dict(grades) if isinstance(grades, Mapping) else list(grades)}
        return _feedback(event_id, body, shown)

    def report(
        self,
        event_id: str,
        signals: Signals,
        seen: Sequence[str] | None = None,
        *,
        shown: Sequence[str] | None = None,
    ) -> ApiRequest[EventReply]:
        """Submit what people did, by item, to a slot with feedback rules. `seen` are the items they looked at."""
        body = {
            "signals": {name: dict(counts) for name, counts in signals.items()},
            "seen": None if seen is None else list(seen),
        }
        return _feedback(event_id, body, shown)

    def activate(self, event_id: str) -> ApiRequest[EventReply]:
        """Report that a deferred list is now shown."""
        return _request("POST", f"{_event(event_id)}/activate", EventReply)

    def event(self, event_id: str) -> ApiRequest[EventReply]:
        """Get an event."""
        return _request("GET", _event(event_id), EventReply)

    def batch(self, lines: Iterable[Mapping[str, Any]]) -> ApiRequest[list[BatchReply]]:
        """Make many calls at once. Each line is a JSON object, and each reply has its own status."""
        content = b"".join(_encode(line) + b"\n" for line in lines)
        return ApiRequest("POST", "/v1/batch", _read_lines, content, LINES)

    def put_items(self, slot: str, items: Items) -> ApiRequest[ChangedReply]:
        """Register items, or replace the features, scores or groups of known ones."""
        return _request("PUT", f"{_slot(slot)}/items", ChangedReply, {"items": _items(items)})

    def retire_items(self, slot: str, names: Iterable[str]) -> ApiRequest[ChangedReply]:
        """Retire items: the service no longer ranks them."""
        query = urlencode([("id", name) for name in names])
        return _request("DELETE", f"{_slot(slot)}/items?{query}", ChangedReply)

    def items_after(self, slot: str, after: str = "") -> ApiRequest[ItemsReply]:
        """List one page of items, from the first id after `after`."""
        query = urlencode({"limit": _PAGE, **({"after": after} if after else {})})
        return _request("GET", f"{_slot(slot)}/items?{query}", ItemsReply)

    def slots(self) -> ApiRequest[list[SlotReply]]:
        """List the slots."""
        return ApiRequest("GET", "/v1/slots", lambda response: _read(SlotsReply, response).slots)

    def slot(self, name: str) -> ApiRequest[SlotReply]:
        """Get a slot."""
        return _request("GET", _slot(name), SlotReply)

    def stats(self) -> ApiRequest[StatsReply]:
        """Get the state of the service."""
        return _request("GET", "/v1/stats", StatsReply)


def item(
    name: str, features: ArrayLike | None = None, score: float | None = None, group: str | None = None
) -> dict[str, Any]:
    """Describe an item, with its features as base64 of little-endian float32. A score of None or NaN is missing.

    >>> item("tea", [1.0])
    {'id': 'tea', 'features': 'AACAPw=='}
    >>> item("milk", score=0.5), item("rice", score=float("nan"))
    ({'id': 'milk', 'score': 0.5}, {'id': 'rice'})
    """
    described: dict[str, Any] = {"id": name}
    if features is not None:
        described["features"] = _pack(features)
    if score is not None and not np.isnan(score):
        described["score"] = float(score)
    if group is not None:
        described["group"] = group
    return described


def _pack(features: ArrayLike) -> str:
    return base64.b64encode(np.asarray(features, dtype="<f4").tobytes()).decode()


def _items(items: Items) -> list[str | Item]:
    if isinstance(items, Mapping):
        return [item(name, features) for name, features in items.items()]
    return list(items)


def _scored_items(items: Items | None, scores: Scores | None) -> list[str | Item] | None:
    """Add scores to items, which are those of the scores by default."""
    if scores is None:
        return None if items is None else _items(items)
    if items is None:
        return [item(name, score=score) for name, score in scores.items()]
    listed = [{"id": one} if isinstance(one, str) else one for one in _items(items)]
    if unknown := set(scores) - {one["id"] for one in listed}:
        raise ValueError(f"scores: {min(unknown)!r} is not among the items")
    return [{**one, **item(one["id"], score=scores.get(one["id"]))} for one in listed]


def _slot(name: str) -> str:
    return f"/v1/slots/{quote(name, safe='')}"


def _event(event_id: str) -> str:
    return f"/v1/events/{quote(event_id, safe='')}"


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()


def _request(
    method: str, path: str, reply: type[Reply], body: Mapping[str, Any] | None = None
) -> ApiRequest[Reply]:
    content = None if body is None else _encode({name: value for name, value in body.items() if value is not None})
    return ApiRequest(method, path, partial(_read, reply), content)


def _feedback(event_id: str, body: dict[str, Any], shown: Sequence[str] | None) -> ApiRequest[EventReply]:
    body["shown"] = None if shown is None else list(shown)
    return _request("PUT", f"{_event(event_id)}/feedback", EventReply, body)


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0]


def _read(reply: type[Reply], response: httpx.Response) -> Reply:
    """Read a response. Raises the `Problem` that it reports."""
    media_type = _media_type(response)
    if response.status_code < 400 and media_type == JSON:
        return as_reply(reply, json.loads(response.content))
    if media_type == PROBLEM:
        problem = as_reply(ProblemReply, json.loads(response.content))
        kind = problem.type.rpartition("/")[2]
        raise Problem(
            kind if kind in PROBLEM_TYPES else "internal",
            problem.detail,
            field=problem.field,
            retry_after=problem.retry_after,
        )
    raise Problem(
        "no-such-page", f"status {response.status_code}: this is not a peekrank service. Check the address"
    )


def _read_lines(response: httpx.Response) -> list[BatchReply]:
    if _media_type(response) == LINES:
        return [as_reply(BatchReply, json.loads(line)) for line in response.content.splitlines()]
    return [_read(BatchReply, response)]
