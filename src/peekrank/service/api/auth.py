"""Wrapper of every endpoint: check the key, and turn every exception into a problem."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response

from peekrank.service.api import problems
from peekrank.service.api.codec import encode_problem
from peekrank.service.api.keys import ANYBODY, Key, Keys
from peekrank.service.api.problems import Problem
from peekrank.service.api.routes import Role

Handler = Callable[[Request, Key], Awaitable[Response]]
StarletteHandler = Callable[[Request], Awaitable[Response]]
_log = structlog.get_logger()


def authenticated(name: str, keys: Keys, role: Role | None, handler: Handler) -> StarletteHandler:
    """Wrap a handler: require the role, and turn every exception into a problem without internals."""

    async def endpoint(request: Request) -> Response:
        request.scope["peekrank.call"] = name
        try:
            key = ANYBODY if role is None else keys.authenticate(request.headers.get("authorization", ""))
            if role is not None and not key.may(role):
                raise problems.not_allowed(key.name, key.role, role)
            return await handler(request, key)
        except Problem as problem:
            return encode_problem(problem)
        except Exception:
            return encode_problem(internal_error(name))

    return endpoint


def internal_error(name: str) -> Problem:
    """Log the current exception, and return a problem that does not reveal it."""
    _log.exception("internal error", call=name)
    return Problem("internal", "the service failed; its log has the details")
