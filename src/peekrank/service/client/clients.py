"""Clients of a service: the same calls, blocking (`Client`) or awaited (`AsyncClient`).

Both retry when the network or the service fails for a moment. That is safe because calls can be repeated: the
client chooses the id of an event, and a service gives the same event the same decision.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from peekrank.service.api.messages import ItemReply
from peekrank.service.client._requests import ApiRequest, Requests, Retries, item

__all__ = ["AsyncClient", "Client", "item"]

Reply = TypeVar("Reply")
P = ParamSpec("P")


def _blocking(call: Callable[Concatenate[Any, P], ApiRequest[Reply]]) -> Callable[Concatenate[Client, P], Reply]:
    @wraps(call)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> Reply:
        return self._ask(call(self, *args, **options))

    return method


def _awaited(
    call: Callable[Concatenate[Any, P], ApiRequest[Reply]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Reply]]:
    @wraps(call)
    async def method(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> Reply:
        return await self._ask(call(self, *args, **options))

    return method


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


class Client:
    """A client that blocks; threads may share one. What it can be asked is described in `Requests`.

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

    def _ask(self, ask: ApiRequest[Reply]) -> Reply:
        request, retries = ask.request(self._http), Retries(self._retries)
        while True:
            try:
                response = self._http.send(request)
            except httpx.TransportError:
                if (pause := retries.pause(None)) is None:
                    raise
            else:
                if (pause := retries.pause(response)) is None:
                    return ask.read(response)
            time.sleep(pause)

    rank = _blocking(Requests.rank)
    feedback = _blocking(Requests.feedback)
    report = _blocking(Requests.report)
    activate = _blocking(Requests.activate)
    event = _blocking(Requests.event)
    batch = _blocking(Requests.batch)
    put_items = _blocking(Requests.put_items)
    retire_items = _blocking(Requests.retire_items)
    items_after = _blocking(Requests.items_after)
    slots = _blocking(Requests.slots)
    slot = _blocking(Requests.slot)
    stats = _blocking(Requests.stats)

    def items(self, slot: str) -> Iterator[ItemReply]:
        """All items of a slot, asked for in pages."""
        after: str | None = ""
        while after is not None:
            page = self.items_after(slot, after)
            yield from page.items
            after = page.next


class AsyncClient:
    """A client to await. What it can be asked is described in `Requests`.

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

    async def _ask(self, ask: ApiRequest[Reply]) -> Reply:
        request, retries = ask.request(self._http), Retries(self._retries)
        while True:
            try:
                response = await self._http.send(request)
            except httpx.TransportError:
                if (pause := retries.pause(None)) is None:
                    raise
            else:
                if (pause := retries.pause(response)) is None:
                    return ask.read(response)
            await asyncio.sleep(pause)

    rank = _awaited(Requests.rank)
    feedback = _awaited(Requests.feedback)
    report = _awaited(Requests.report)
    activate = _awaited(Requests.activate)
    event = _awaited(Requests.event)
    batch = _awaited(Requests.batch)
    put_items = _awaited(Requests.put_items)
    retire_items = _awaited(Requests.retire_items)
    items_after = _awaited(Requests.items_after)
    slots = _awaited(Requests.slots)
    slot = _awaited(Requests.slot)
    stats = _awaited(Requests.stats)

    async def items(self, slot: str) -> AsyncIterator[ItemReply]:
        """All items of a slot, asked for in pages."""
        after: str | None = ""
        while after is not None:
            page = await self.items_after(slot, after)
            for one in page.items:
                yield one
            after = page.next
