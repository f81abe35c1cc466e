"""Calls to an application without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Caller:
    """Calls an ASGI application, each call in an event loop of its own."""

    def __init__(self, app: Any, **headers: str) -> None:
        self.app, self.headers = app, headers

    def __call__(self, method: str, path: str, **request: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                headers = {**self.headers, **request.pop("headers", {})}
                return await client.request(method, path, headers=headers, **request)

        return asyncio.run(call())
