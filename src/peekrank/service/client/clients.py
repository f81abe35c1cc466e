"""Clients of a service: the same calls, blocking (`Client`) or awaited (`AsyncClient`).

Both retry if the network or the service fails for a moment. Retries are safe: the client chooses the id of an
event, and the service returns the same ranking for the same event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from peekrank._util.extras import extra
from peekrank.service.client._requests import ApiRequest, Requests, Retries
from peekrank.service.client.replies import ItemReply

with extra("client"):
    import httpx

Reply = TypeVar("Reply")
P = ParamSpec("P")


def _blocking(
    call: Callable[Concatenate[Any, P], ApiRequest[Reply]],
) -> Callable[Concatenate[Client, P], Reply]:
    @wraps(call)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> Reply:
        return self._call(call(self, *args, **options))

    return method


def _awaited(
    call: Callable[Concatenate[Any, P], ApiRequest[Reply]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Reply]]:
    @wraps(call)
    async def method(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> Reply:
        return await self._call(call(self, *args, **options))

    return method


class _BaseClient:
    """The constructor of both clients."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 5.0,
        retries: int = 5,
        transport: Any = None,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._retries = retries
        self._connect(base_url=url, headers=headers, timeout=timeout, transport=transport)

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError


class Client(_BaseClient):
    """A blocking client, which threads may share. `Requests` documents the calls.

    Parameters
    ----------
    url
        Address of the service, for example ``http://127.0.0.1:8000``.
    key
        A key of the service, if it has keys.
    timeout
        Seconds per attempt.
    retries
        Maximum number of retries of a call.
    transport
        Transport of httpx, for tests and special networks.
    """

    def _connect(self, **options: Any) -> None:
        self._http = httpx.Client(**options)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, call: ApiRequest[Reply]) -> Reply:
        request, retries = call.build(self._http), Retries(self._retries)
        while True:
            try:
                outcome: httpx.Response | httpx.TransportError = self._http.send(request)
            except httpx.TransportError as error:
                outcome = error
            step = retries.next_step(outcome)
            if isinstance(step, httpx.Response):
                return call.read(step)
            time.sleep(step)

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
        """Iterate over all items of a slot, page by page."""
        after: str | None = ""
        while after is not None:
            page = self.items_after(slot, after)
            yield from page.items
            after = page.next


class AsyncClient(_BaseClient):
    """A client for asyncio. `Requests` documents the calls. The parameters are those of `Client`."""

    def _connect(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(**options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _call(self, call: ApiRequest[Reply]) -> Reply:
        request, retries = call.build(self._http), Retries(self._retries)
        while True:
            try:
                outcome: httpx.Response | httpx.TransportError = await self._http.send(request)
            except httpx.TransportError as error:
                outcome = error
            step = retries.next_step(outcome)
            if isinstance(step, httpx.Response):
                return call.read(step)
            await asyncio.sleep(step)

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
        """Iterate over all items of a slot, page by page."""
        after: str | None = ""
        while after is not None:
            page = await self.items_after(slot, after)
            for one in page.items:
                yield one
            after = page.next
