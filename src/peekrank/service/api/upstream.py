"""A reranker behind a slot, which scores the documents of calls that bring no scores."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from peekrank.service.config import RerankConfig

_MAX_REPLY = 16 * 2**20  # bytes
_CONNECTIONS = 64


class UpstreamError(Exception):
    """The upstream did not score the documents. The message is safe to show to callers."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind  # timeout, connection, status or reply


class _Score(Struct):
    """A score in a reply, under the name of either kind of service."""

    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Scores(Struct):
    results: list[_Score]


_decoder = msgspec.json.Decoder(list[_Score] | _Scores)


class Upstream:
    """A reranking service that a slot names.

    Parameters
    ----------
    config
        The configuration. Raises ValueError if it names an environment variable that is not set.
    """

    def __init__(self, config: RerankConfig) -> None:
        self._config = config
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if config.upstream_key:
            variable = config.upstream_key.removeprefix("env:")
            if not (key := os.environ.get(variable)):
                raise ValueError(f"the environment variable {variable}, which upstream_key names, is not set")
            self._headers["authorization"] = f"Bearer {key}"
        self._client: httpx.AsyncClient | None = None

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the score of each text. Raises UpstreamError unless all of them arrive in time."""
        if self._client is None:
            limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
            self._client = httpx.AsyncClient(timeout=self._config.timeout, limits=limits)
        try:
            async with asyncio.timeout(self._config.timeout):
                content = await self._post(self._client, query, texts)
        except (TimeoutError, httpx.TimeoutException):
            raise UpstreamError("timeout", f"it did not answer within {self._config.timeout:g} s") from None
        except httpx.ConnectError as error:
            raise UpstreamError("connection", f"it cannot be reached ({type(error).__name__})") from None
        except httpx.HTTPError as error:
            raise UpstreamError("connection", f"its reply is broken ({type(error).__name__})") from None
        return _parse(content, len(texts), is_unit=self._config.scale == "unit")

    async def _post(self, client: httpx.AsyncClient, query: str, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {"query": query, self._config.upstream_field: texts}
        if self._config.upstream_field == "documents":
            body |= {"top_n": len(texts), "return_documents": False}
        if self._config.upstream_model:
            body["model"] = self._config.upstream_model
        reply = bytearray()
        content = msgspec.json.encode(body)
        async with client.stream(
            "POST", self._config.upstream, content=content, headers=self._headers
        ) as response:
            if response.status_code != 200:
                raise UpstreamError("status", f"it answered with status {response.status_code}")
            async for part in response.aiter_raw():  # a compressed one might not fit into memory
                reply += part
                if len(reply) > _MAX_REPLY:
                    raise UpstreamError("reply", "its reply is too large")
        return bytes(reply)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
        self._client = None


def _parse(content: bytes, n: int, *, is_unit: bool) -> list[float]:
    """Read a reply with one score for each of n texts."""
    try:
        reply = _decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UpstreamError("reply", "its reply is not a list of results") from None
    results = reply.results if isinstance(reply, _Scores) else reply
    scores: dict[int, float] = {}
    for one in results:
        value = one.score if one.relevance_score is None else one.relevance_score
        if value is not None and math.isfinite(value):
            scores[one.index] = value
    if len(results) != n or set(scores) != set(range(n)):
        found = len(scores.keys() & set(range(n)))
        raise UpstreamError("reply", f"{found} of {n} documents have exactly one score")
    if is_unit and not all(0 <= score <= 1 for score in scores.values()):
        raise UpstreamError("reply", 'its scores are not from 0 to 1; set scale = "logit"')
    return [scores[place] for place in range(n)]
