"""The calls of a client, described once: where each goes, what it says, and what it gives.

`Client` and `AsyncClient` differ only in how they are sent.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
import numpy as np
from numpy.typing import ArrayLike

from peekrank.service.api.codec import JSON, LINES, MSGPACK, PROBLEM
from peekrank.service.api.messages import (
    BatchActivate,
    BatchFeedback,
    BatchRank,
    BatchReply,
    ChangedReply,
    EventReply,
    FeedbackRequest,
    Item,
    ItemsReply,
    ItemsRequest,
    ProblemReply,
    RankReply,
    RankRequest,
    SlotReply,
    SlotsReply,
    StatsReply,
)
from peekrank.service.api.problems import Problem, problem_of

Reply = TypeVar("Reply")
Items = Iterable[str | Item] | Mapping[str, ArrayLike]
Answers = Mapping[str, float | None] | Sequence[float | None]
Signals = Mapping[str, Mapping[str, float]]

_AGAIN = {408, 429, 502, 503, 504}  # statuses after which a retry may succeed
_PAGE = 1000  # items


class ApiRequest(NamedTuple, Generic[Reply]):
    """A call to make, and how its response is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], Reply]
    content: bytes | None = None
    kind: str = MSGPACK  # of the content

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """What is sent."""
        headers = {"accept": MSGPACK, **({} if self.content is None else {"content-type": self.kind})}
        return client.build_request(self.method, self.path, content=self.content, headers=headers)


class Retries:
    """When to try again: after pauses that double, with some chance in them, until there were enough.

    Parameters
    ----------
    retries
        How often at the most.
    """

    def __init__(self, retries: int) -> None:
        self._left, self._pause = retries, 0.05

    def pause(self, response: httpx.Response | None) -> float | None:
        """Seconds to wait before the next attempt, after none or this response; None: there is no other one."""
        if self._left <= 0 or (response is not None and response.status_code not in _AGAIN):
            return None
        self._left -= 1
        self._pause = min(2 * self._pause, 2.0)
        return self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Requests:
    """What can be asked of a service; a client has these methods, and gives what is read in the end."""

    def rank(
        self,
        slot: str,
        items: Items | None = None,
        *,
        context: ArrayLike | None = None,
        event_id: str | None = None,
        baseline: Sequence[str] | None = None,
        defer: bool = False,
    ) -> ApiRequest[RankReply]:
        """Rank a list: names of items, or a mapping from names to features; all items of the slot if left out."""
        request = RankRequest(
            event_id=event_id or uuid.uuid4().hex,
            items=None if items is None else _items(items),
            context=None if context is None else _packed(context),
            defer=defer,
            baseline=_names(baseline),
        )
        return _asked("POST", f"{_slot(slot)}/rank", RankReply, request)

    def feedback(
        self, event_id: str, answers: Answers, *, shown: Sequence[str] | None = None
    ) -> ApiRequest[EventReply]:
        """Tell what people said: grades by item, or in the order they were asked; None: did not answer.

        `shown`: the items as the app showed them, from the top, if that may differ from the ranking.
        """
        kept: Any = dict(answers) if isinstance(answers, Mapping) else list(answers)
        return _told(event_id, FeedbackRequest(kept, shown=_names(shown)))

    def report(
        self,
        event_id: str,
        signals: Signals,
        seen: Sequence[str] | None = None,
        *,
        shown: Sequence[str] | None = None,
    ) -> ApiRequest[EventReply]:
        """Tell what people did, by item, to a slot with rules for it; `seen`: what they looked at."""
        done = {item: dict(signs) for item, signs in signals.items()}
        return _told(event_id, FeedbackRequest(signals=done, seen=_names(seen), shown=_names(shown)))

    def activate(self, event_id: str) -> ApiRequest[EventReply]:
        """Say that a deferred list is shown now."""
        return _asked("POST", f"{_event(event_id)}/activate", EventReply)

    def event(self, event_id: str) -> ApiRequest[EventReply]:
        """Look at an event."""
        return _asked("GET", _event(event_id), EventReply)

    def batch(self, lines: Iterable[BatchRank | BatchFeedback | BatchActivate]) -> ApiRequest[list[BatchReply]]:
        """Make many calls at once; each reply has a status of its own."""
        return ApiRequest("POST", "/v1/batch", _replies, msgspec.json.Encoder().encode_lines(list(lines)), LINES)

    def put_items(self, slot: str, items: Items) -> ApiRequest[ChangedReply]:
        """Register items, or replace their descriptions."""
        return _asked("PUT", f"{_slot(slot)}/items", ChangedReply, ItemsRequest(_items(items)))

    def retire_items(self, slot: str, names: Iterable[str]) -> ApiRequest[ChangedReply]:
        """Leave items out from now on."""
        query = urlencode([("id", name) for name in names])
        return _asked("DELETE", f"{_slot(slot)}/items?{query}", ChangedReply)

    def items_after(self, slot: str, after: str = "") -> ApiRequest[ItemsReply]:
        """Look at the first items after an id, in the order of ids."""
        query = urlencode({"limit": _PAGE, **({"after": after} if after else {})})
        return _asked("GET", f"{_slot(slot)}/items?{query}", ItemsReply)

    def slots(self) -> ApiRequest[list[SlotReply]]:
        """Look at all slots."""
        return ApiRequest("GET", "/v1/slots", lambda response: _read(SlotsReply, response).slots)

    def slot(self, name: str) -> ApiRequest[SlotReply]:
        """Look at a slot."""
        return _asked("GET", _slot(name), SlotReply)

    def stats(self) -> ApiRequest[StatsReply]:
        """Look at where the log of the service stands."""
        return _asked("GET", "/v1/stats", StatsReply)


def item(name: str, features: ArrayLike | None = None) -> Item:
    r"""An item, with features as a service takes them: little-endian float32.

    >>> item("tea", [1.0]).features
    b'\x00\x00\x80?'
    """
    return Item(name, None if features is None else _packed(features))


def _packed(features: ArrayLike) -> bytes:
    return np.asarray(features, dtype="<f4").tobytes()


def _items(items: Items) -> list[str | Item]:
    if isinstance(items, Mapping):
        return [item(name, features) for name, features in items.items()]
    return list(items)


def _names(items: Sequence[str] | None) -> list[str] | None:
    return None if items is None else list(items)


def _slot(name: str) -> str:
    return f"/v1/slots/{quote(name, safe='')}"


def _event(event_id: str) -> str:
    return f"/v1/events/{quote(event_id, safe='')}"


def _asked(method: str, path: str, gives: type[Reply], body: Any = None) -> ApiRequest[Reply]:
    content = None if body is None else msgspec.msgpack.encode(body)
    return ApiRequest(method, path, partial(_read, gives), content)


def _told(event_id: str, request: FeedbackRequest) -> ApiRequest[EventReply]:
    return _asked("PUT", f"{_event(event_id)}/feedback", EventReply, request)


def _kind(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0]


def _read(gives: type[Reply], response: httpx.Response) -> Reply:
    """What a response says, or the `Problem` it tells."""
    kind = _kind(response)
    if response.status_code < 400 and kind == MSGPACK:
        return msgspec.msgpack.decode(response.content, type=gives)
    if response.status_code < 400 and kind == JSON:
        return msgspec.json.decode(response.content, type=gives)
    if kind == PROBLEM:
        raise problem_of(msgspec.json.decode(response.content, type=ProblemReply))
    raise Problem(
        "no-such-page", f"status {response.status_code} is no reply of a peekrank service: is the address right?"
    )


def _replies(response: httpx.Response) -> list[BatchReply]:
    if _kind(response) == LINES:
        return msgspec.json.Decoder(BatchReply).decode_lines(response.content)
    return [_read(BatchReply, response)]
