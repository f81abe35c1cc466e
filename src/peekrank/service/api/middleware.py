"""ASGI middleware: host check, tracing, security headers, metrics and request log."""

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
from peekrank.service.api.codec import encode_problem
from peekrank.service.api.metrics import Metrics

POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")  # pages set their own
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
SLOW = 1.0  # seconds from which on a request is logged at level info
_TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class ServiceMiddleware:
    """The middleware around the application.

    Parameters
    ----------
    app
        The application.
    metrics
        Counts and times the requests.
    hosts
        Names of the service; empty allows any. Without keys, this prevents DNS rebinding: a web page cannot reach
        the service through a name of its own that resolves to this machine.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: frozenset[str] = frozenset()) -> None:
        self._app, self._metrics, self._hosts = app, metrics, hosts
        self._log = structlog.get_logger().bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, headers, status = perf_counter(), Headers(scope=scope), 500
        trace = _TRACE.fullmatch(headers.get("traceparent", ""))
        scope["peekrank.trace"] = trace[1] if trace else ""

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                has_policy = any(name == POLICY[0] for name, _ in message["headers"])
                message["headers"] += [*([] if has_policy else [POLICY]), *HEADERS, *_trace_header(trace)]
            await send(message)

        problem = self._rejection(scope, headers)
        await (encode_problem(problem) if problem else self._app)(scope, receive, send_with_headers)
        seconds, call = perf_counter() - start, scope.get("peekrank.call", "other")
        self._metrics.observe(call, status, seconds)
        self._log_request(call, status, seconds, trace)

    def _log_request(self, call: str, status: int, seconds: float, trace: re.Match[str] | None) -> None:
        """Log internal errors and slow requests, and at level debug all others."""
        level = WARNING if status == 500 else INFO if seconds >= SLOW else DEBUG
        if not self._log.is_enabled_for(level):
            return
        fields: dict[str, Any] = {"call": call, "status": status, "duration_ms": round(1000 * seconds, 2)}
        if trace is not None:
            fields |= {"trace_id": trace[1], "parent_id": trace[2]}
        self._log.log(level, "request", **fields)

    def _rejection(self, scope: Scope, headers: Headers) -> problems.Problem | None:
        """Return the problem for a cross-site or wrong-host request, or None."""
        if self._hosts and _host_name(headers.get("host", "")) not in self._hosts:
            return problems.wrong_host(headers.get("host", ""))
        if scope["method"] not in ("GET", "HEAD") and not _is_same_origin(headers):
            return problems.wrong_origin()
        return None


def _is_same_origin(headers: Headers) -> bool:
    """Check that no page of another site made the call. Only browsers send these headers."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    scheme, _, host = origin.lower().partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme)
    return port is not None and host.removesuffix(port) == headers.get("host", "").lower().removesuffix(port)


def _host_name(host: str) -> str:
    """Strip the port from a Host header."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0].lower()


def _trace_header(trace: re.Match[str] | None) -> list[tuple[bytes, bytes]]:
    """Continue the caller's trace with a new span."""
    return [] if trace is None else [(b"traceparent", f"00-{trace[1]}-{secrets.token_hex(8)}-{trace[3]}".encode())]
