"""Around every call: whose host is meant, which trace it belongs to, how long it took, headers for browsers."""

from __future__ import annotations

import re
import secrets
from logging import DEBUG, INFO, WARNING
from time import perf_counter
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peekrank.service.api import problems
from peekrank.service.api.codec import encoded_problem
from peekrank.service.api.metrics import Metrics

POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")  # pages have their own
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
SLOW = 1.0  # seconds after which a call is worth a line in the log
_TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class ServiceMiddleware:
    """An ASGI application around another one.

    Parameters
    ----------
    app
        What answers.
    metrics
        Where calls are counted.
    hosts
        Names under which the service answers; any if empty. On a service without keys this keeps a web page from
        reaching it through a name of its own that it points at this machine.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: frozenset[str] = frozenset()) -> None:
        self._app, self._metrics, self._hosts = app, metrics, hosts
        self._log = structlog.get_logger().bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, headers, status = perf_counter(), Headers(scope=scope), 500
        trace = _TRACE.fullmatch(headers.get("traceparent", ""))

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = any(name == POLICY[0] for name, _ in message["headers"])
                message["headers"] += [*([] if own else [POLICY]), *HEADERS, *_carried(trace)]
            await send(message)

        refused = self._refused(scope, headers)
        await (encoded_problem(refused) if refused else self._app)(scope, receive, sending)
        seconds, call = perf_counter() - started, scope.get("peekrank.call", "other")
        self._metrics.observe(call, status, seconds)
        self._tell(call, status, seconds, trace)

    def _tell(self, call: str, status: int, seconds: float, trace: re.Match[str] | None) -> None:
        """Log faults of ours and slow calls; all others when debugging. What refuses them logs why."""
        level = WARNING if status == 500 else INFO if seconds >= SLOW else DEBUG
        if not self._log.is_enabled_for(level):
            return
        said: dict[str, Any] = {"call": call, "status": status, "duration_ms": round(1000 * seconds, 2)}
        if trace is not None:
            said |= {"trace_id": trace[1], "parent_id": trace[2]}
        self._log.log(level, "request", **said)

    def _refused(self, scope: Scope, headers: Headers) -> problems.Problem | None:
        """Why a call is not even looked at: it comes from a web page of somebody else's."""
        if self._hosts and _name_of(headers.get("host", "")) not in self._hosts:
            return problems.wrong_host(headers.get("host", ""))
        if scope["method"] != "GET" and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return problems.wrong_origin()
        return None


def _name_of(host: str) -> str:
    """A host without its port."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0].lower()


def _carried(trace: re.Match[str] | None) -> list[tuple[bytes, bytes]]:
    """The trace that a call belongs to, with a span of its own."""
    return [] if trace is None else [(b"traceparent", f"00-{trace[1]}-{secrets.token_hex(8)}-{trace[3]}".encode())]
