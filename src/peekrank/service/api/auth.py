"""Around every function that answers a request: the key is checked, and every failure becomes a problem."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response

from peekrank.service.api import problems
from peekrank.service.api.codec import encoded_problem
from peekrank.service.api.keys import ANYBODY, Key, Keys
from peekrank.service.api.problems import Problem
from peekrank.service.api.routes import Role

Handler = Callable[[Request, Key], Awaitable[Response]]
StarletteHandler = Callable[[Request], Awaitable[Response]]
_log = structlog.get_logger()


def authenticated(name: str, keys: Keys, role: Role | None, function: Handler) -> StarletteHandler:
    """A function for Starlette: whoever calls needs the role, and learns what is wrong, not how it failed here."""

    async def endpoint(request: Request) -> Response:
        request.scope["peekrank.call"] = name
        try:
            key = ANYBODY if role is None else keys.authenticate(request.headers.get("authorization", ""))
            if role is not None and not key.may(role):
                raise problems.not_allowed(key.name, key.role, role)
            return await function(request, key)
        except Problem as problem:
            return encoded_problem(problem)
        except Exception:
            return encoded_problem(internal_error(name))

    return endpoint


def internal_error(name: str) -> Problem:
    """The exception at hand as a problem: its details are for the log, not for whoever calls."""
    _log.exception("internal error", call=name)
    return Problem("internal", "something went wrong here; the log of the service has the details")
