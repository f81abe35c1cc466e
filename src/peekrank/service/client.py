"""Clients of a service: the same calls, blocking (`Client`) or awaited (`AsyncClient`).

Both retry when the network or the service fails for a moment. That is safe because calls can be repeated: the
client chooses the id of an event, and a service gives the same event the same decision.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
import numpy as np
from numpy.typing import ArrayLike

from peekrank.service.bodies import JSON, LINES, MSGPACK, PROBLEM
from peekrank.service.messages import (
    BatchActivate,
    BatchFeedback,
    BatchRank,
    BatchReply,
    ChangedReply,
    EventReply,
    FeedbackRequest,
    Item,
    ItemReply,
    ItemsReply,
    ItemsRequest,
    ProblemReply,
    RankReply,
    RankRequest,
    SlotReply,
    SlotsReply,
    StatsReply,
)
from peekrank.service.problems import Problem, problem_of

Reply = TypeVar("Reply")
Items = Iterable[str | Item] | Mapping[str, ArrayLike]
Answers = Mapping[str, float | None] | Sequence[float | None]
Signals = Mapping[str, Mapping[str, float]]

_AGAIN = {408, 429, 502, 503, 504}  # statuses after which a retry may succeed


class Ask(NamedTuple, Generic[Reply]):
    """A call to make: the clients differ only in how it is sent."""

    method: str
    path: str
    gives: type[Reply]
    body: Any = None


def item(name: str, features: ArrayLike | None = None) -> Item:
    r"""An item, with features as a service takes them: little-endian float32.

    >>> item("tea", [1.0]).features
    b'\x00\x00\x80?'
    """
    return Item(name, None if features is None else _packed(features))


def _packed(features: ArrayLike) -> bytes:
    return np.asarray(features, dtype="<f4").tobytes()


def _items(items: Items | None) -> list[str | Item] | None:
    if items is None:
        return None
    if isinstance(items, Mapping):
        return [item(name, features) for name, features in items.items()]
    return list(items)


def _rank(
    slot: str,
    items: Items | None,
    context: ArrayLike | None,
    event_id: str | None,
    baseline: Sequence[str] | None,
    *,
    defer: bool,
) -> Ask[RankReply]:
    request = RankRequest(
        event_id=event_id or uuid.uuid4().hex,
        items=_items(items),
        context=None if context is None else _packed(context),
        defer=defer,
        baseline=_names(baseline),
    )
    return Ask("POST", f"/v1/slots/{quote(slot, safe='')}/rank", RankReply, request)


def _feedback(event_id: str, answers: Answers, shown: Sequence[str] | None) -> Ask[EventReply]:
    kept: Any = dict(answers) if isinstance(answers, Mapping) else list(answers)
    return _told(event_id, FeedbackRequest(kept, shown=_names(shown)))


def _report(
    event_id: str, signals: Signals, seen: Sequence[str] | None, shown: Sequence[str] | None
) -> Ask[EventReply]:
    done = {item: dict(signs) for item, signs in signals.items()}
    return _told(event_id, FeedbackRequest(signals=done, seen=_names(seen), shown=_names(shown)))


def _told(event_id: str, request: FeedbackRequest) -> Ask[EventReply]:
    return Ask("PUT", f"/v1/events/{quote(event_id, safe='')}/feedback", EventReply, request)


def _names(items: Sequence[str] | None) -> list[str] | None:
    return None if items is None else list(items)


def _activate(event_id: str) -> Ask[EventReply]:
    return Ask("POST", f"/v1/events/{quote(event_id, safe='')}/activate", EventReply)


def _event(event_id: str) -> Ask[EventReply]:
    return Ask("GET", f"/v1/events/{quote(event_id, safe='')}", EventReply)


def _put_items(slot: str, items: Items) -> Ask[ChangedReply]:
    return Ask("PUT", f"/v1/slots/{quote(slot, safe='')}/items", ChangedReply, ItemsRequest(_items(items) or []))


def _retire_items(slot: str, names: Iterable[str]) -> Ask[ChangedReply]:
    query = urlencode([("id", name) for name in names])
    return Ask("DELETE", f"/v1/slots/{quote(slot, safe='')}/items?{query}", ChangedReply)


def _items_after(slot: str, after: str) -> Ask[ItemsReply]:
    query = urlencode({"limit": 1000, **({"after": after} if after else {})})
    return Ask("GET", f"/v1/slots/{quote(slot, safe='')}/items?{query}", ItemsReply)


def _request(client: httpx.Client | httpx.AsyncClient, ask: Ask[Any]) -> httpx.Request:
    content = None if ask.body is None else msgspec.msgpack.encode(ask.body)
    headers = {"accept": MSGPACK, **({} if content is None else {"content-type": MSGPACK})}
    return client.build_request(ask.method, ask.path, content=content, headers=headers)


def _batch(
    client: httpx.Client | httpx.AsyncClient, lines: Iterable[BatchRank | BatchFeedback | BatchActivate]
) -> Any:
    content = msgspec.json.Encoder().encode_lines(list(lines))
    return client.build_request("POST", "/v1/batch", content=content, headers={"content-type": LINES})


def _read(response: httpx.Response, gives: type[Reply]) -> Reply:
    """What a response says, or the `Problem` it tells."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if response.status_code < 400 and kind == MSGPACK:
        return msgspec.msgpack.decode(response.content, type=gives)
    if response.status_code < 400 and kind == JSON:
        return msgspec.json.decode(response.content, type=gives)
    if kind == PROBLEM:
        raise problem_of(msgspec.json.decode(response.content, type=ProblemReply))
    raise Problem(
        "no-such-page", f"status {response.status_code} is no reply of a peekrank service: is the address right?"
    )


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


class _Retries:
    """When to try again: after pauses that double, with some chance in them, until there were enough."""

    def __init__(self, retries: int) -> None:
        self._left, self._pause = retries, 0.05

    def pause(self, response: httpx.Response | None) -> float | None:
        """Seconds to wait before the next attempt; None: there is none."""
        if self._left <= 0 or (response is not None and response.status_code not in _AGAIN):
            return None
        self._left -= 1
        self._pause = min(2 * self._pause, 2.0)
        return self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Client:
    """A client that blocks; threads may share one.

    Parameters
    ----------
    url
        Where the service is, such as ``http://127.0.0.1:8000``.
    key
        A key of the service, if it has keys.
    timeout
        Seconds that an attempt may take.
    retries
        How often a call is tried again.
    transport
        How calls travel, for tests and for networks of one's own.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.Client(base_url=url, headers=_headers(key), timeout=timeout, transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give connections back."""
        self._http.close()

    def _send(self, request: httpx.Request) -> httpx.Response:
        retries = _Retries(self._retries)
        while True:
            response, failure = None, None
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                failure = error
            pause = None if response is not None and response.status_code < 400 else retries.pause(response)
            if pause is not None:
                time.sleep(pause)
            elif response is not None:
                return response
            elif failure is not None:
                raise failure

    def _ask(self, ask: Ask[Reply]) -> Reply:
        return _read(self._send(_request(self._http, ask)), ask.gives)

    def rank(
        self,
        slot: str,
        items: Items | None = None,
        *,
        context: ArrayLike | None = None,
        event_id: str | None = None,
        baseline: Sequence[str] | None = None,
        defer: bool = False,
    ) -> RankReply:
        """Rank a list: names of items, or a mapping from names to features; all items of the slot if left out."""
        return self._ask(_rank(slot, items, context, event_id, baseline, defer=defer))

    def feedback(self, event_id: str, answers: Answers, *, shown: Sequence[str] | None = None) -> EventReply:
        """Tell what people said: grades by item, or in the order they were asked; None: did not answer.

        `shown`: the items as the app showed them, from the top, if that may differ from the ranking.
        """
        return self._ask(_feedback(event_id, answers, shown))

    def report(
        self,
        event_id: str,
        signals: Signals,
        seen: Sequence[str] | None = None,
        *,
        shown: Sequence[str] | None = None,
    ) -> EventReply:
        """Tell what people did, by item, to a slot with rules for it; `seen`: what they looked at."""
        return self._ask(_report(event_id, signals, seen, shown))

    def activate(self, event_id: str) -> EventReply:
        """Say that a deferred list is shown now."""
        return self._ask(_activate(event_id))

    def event(self, event_id: str) -> EventReply:
        """Look at an event."""
        return self._ask(_event(event_id))

    def batch(self, lines: Iterable[BatchRank | BatchFeedback | BatchActivate]) -> list[BatchReply]:
        """Make many calls at once; each reply has a status of its own."""
        return _replies(self._send(_batch(self._http, lines)))

    def put_items(self, slot: str, items: Items) -> ChangedReply:
        """Register items, or describe them anew."""
        return self._ask(_put_items(slot, items))

    def retire_items(self, slot: str, names: Iterable[str]) -> ChangedReply:
        """Leave items out from now on."""
        return self._ask(_retire_items(slot, names))

    def items(self, slot: str) -> Iterator[ItemReply]:
        """All items of a slot, asked for in pages."""
        after: str | None = ""
        while after is not None:
            page = self._ask(_items_after(slot, after))
            yield from page.items
            after = page.next

    def slots(self) -> list[SlotReply]:
        """All slots."""
        return self._ask(Ask("GET", "/v1/slots", SlotsReply)).slots

    def slot(self, name: str) -> SlotReply:
        """A slot."""
        return self._ask(Ask("GET", f"/v1/slots/{quote(name, safe='')}", SlotReply))

    def stats(self) -> StatsReply:
        """Where the log of the service stands."""
        return self._ask(Ask("GET", "/v1/stats", StatsReply))


class AsyncClient:
    """A client to await.

    Parameters
    ----------
    url
        Where the service is, such as ``http://127.0.0.1:8000``.
    key
        A key of the service, if it has keys.
    timeout
        Seconds that an attempt may take.
    retries
        How often a call is tried again.
    transport
        How calls travel, for tests and for networks of one's own.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._retries = retries
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(key), timeout=timeout, transport=transport)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give connections back."""
        await self._http.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        retries = _Retries(self._retries)
        while True:
            response, failure = None, None
            try:
                response = await self._http.send(request)
            except httpx.TransportError as error:
                failure = error
            pause = None if response is not None and response.status_code < 400 else retries.pause(response)
            if pause is not None:
                await asyncio.sleep(pause)
            elif response is not None:
                return response
            elif failure is not None:
                raise failure

    async def _ask(self, ask: Ask[Reply]) -> Reply:
        return _read(await self._send(_request(self._http, ask)), ask.gives)

    async def rank(
        self,
        slot: str,
        items: Items | None = None,
        *,
        context: ArrayLike | None = None,
        event_id: str | None = None,
        baseline: Sequence[str] | None = None,
        defer: bool = False,
    ) -> RankReply:
        """Rank a list: names of items, or a mapping from names to features; all items of the slot if left out."""
        return await self._ask(_rank(slot, items, context, event_id, baseline, defer=defer))

    async def feedback(self, event_id: str, answers: Answers, *, shown: Sequence[str] | None = None) -> EventReply:
        """Tell what people said: grades by item, or in the order they were asked; None: did not answer.

        `shown`: the items as the app showed them, from the top, if that may differ from the ranking.
        """
        return await self._ask(_feedback(event_id, answers, shown))

    async def report(
        self,
        event_id: str,
        signals: Signals,
        seen: Sequence[str] | None = None,
        *,
        shown: Sequence[str] | None = None,
    ) -> EventReply:
        """Tell what people did, by item, to a slot with rules for it; `seen`: what they looked at."""
        return await self._ask(_report(event_id, signals, seen, shown))

    async def activate(self, event_id: str) -> EventReply:
        """Say that a deferred list is shown now."""
        return await self._ask(_activate(event_id))

    async def event(self, event_id: str) -> EventReply:
        """Look at an event."""
        return await self._ask(_event(event_id))

    async def batch(self, lines: Iterable[BatchRank | BatchFeedback | BatchActivate]) -> list[BatchReply]:
        """Make many calls at once; each reply has a status of its own."""
        return _replies(await self._send(_batch(self._http, lines)))

    async def put_items(self, slot: str, items: Items) -> ChangedReply:
        """Register items, or describe them anew."""
        return await self._ask(_put_items(slot, items))

    async def retire_items(self, slot: str, names: Iterable[str]) -> ChangedReply:
        """Leave items out from now on."""
        return await self._ask(_retire_items(slot, names))

    async def slots(self) -> list[SlotReply]:
        """All slots."""
        return (await self._ask(Ask("GET", "/v1/slots", SlotsReply))).slots

    async def slot(self, name: str) -> SlotReply:
        """A slot."""
        return await self._ask(Ask("GET", f"/v1/slots/{quote(name, safe='')}", SlotReply))


def _replies(response: httpx.Response) -> list[BatchReply]:
    if response.headers.get("content-type", "").partition(";")[0] == LINES:
        return msgspec.json.Decoder(BatchReply).decode_lines(response.content)
    return [_read(response, BatchReply)]
