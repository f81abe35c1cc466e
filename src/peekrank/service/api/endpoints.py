"""HTTP in front of a `Service`: the calls of `routes`, each an asynchronous function that waits for a commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from peekrank.service.api import problems
from peekrank.service.api.auth import Handler, StarletteHandler, authenticated, internal_error
from peekrank.service.api.codec import (
    JSON,
    LINES,
    decode_body,
    decoded,
    encoded,
    encoded_lines,
    encoded_problem,
    read_body,
)
from peekrank.service.api.keys import Key, Keys
from peekrank.service.api.messages import (
    MAX_ITEMS,
    MAX_LINES,
    BatchActivate,
    BatchFeedback,
    BatchLine,
    BatchRank,
    BatchReply,
    EventReply,
    HealthReply,
    ItemsReply,
    RankReply,
    SlotReply,
    SlotsReply,
    StatsReply,
)
from peekrank.service.api.metrics import TYPE, Metrics
from peekrank.service.api.middleware import ServiceMiddleware
from peekrank.service.api.openapi import openapi
from peekrank.service.api.problems import Problem
from peekrank.service.api.routes import ENDPOINTS, PAGE, PARAMETERS, Endpoint
from peekrank.service.core.commands import Activate, Command, PutItems, Rank, RetireItems, SubmitFeedback
from peekrank.service.core.protocol import ServiceProtocol, readable
from peekrank.service.dashboard.routes import dashboard_routes

Read = TypeVar("Read")


class RequestContext(NamedTuple):
    """A call as it came: who makes it, what is in its path, and its body."""

    key: Key
    request: Request
    path: dict[str, str]
    body: Any

    @property
    def slot(self) -> str:
        """The slot that the path names, if the key is for it."""
        name = self.path["slot"]
        if not self.key.sees(name):
            raise problems.unknown_slot(name, self.key.slots)
        return name


class Endpoints:
    """What is done for each call; the names of the methods are those of the table.

    Parameters
    ----------
    service
        What answers.
    """

    def __init__(self, service: ServiceProtocol) -> None:
        self._service = service

    async def _do(self, command: Command) -> Any:
        """Have a command done; returns after it is in the log."""
        return await asyncio.wrap_future(self._service.submit(command))

    async def _look(self, read: Callable[..., Read], *given: Any, **how: Any) -> Read:
        """Read something in a thread, for it may have to wait for a commit."""

        def look() -> Read:
            readable(self._service)
            return read(*given, **how)

        return await asyncio.to_thread(look)

    async def rank(self, asked: RequestContext) -> RankReply:
        """Rank a list."""
        reply: RankReply = await self._do(Rank(asked.slot, asked.body))
        return reply

    async def feedback(self, asked: RequestContext) -> EventReply:
        """Take the answers to an event."""
        reply: EventReply = await self._do(
            SubmitFeedback(await self._event_of(asked.key, asked.path["event_id"]), asked.body)
        )
        return reply

    async def activate(self, asked: RequestContext) -> EventReply:
        """Begin to wait for answers."""
        reply: EventReply = await self._do(Activate(await self._event_of(asked.key, asked.path["event_id"])))
        return reply

    async def event(self, asked: RequestContext) -> EventReply:
        """Look at an event."""
        event_id = await self._event_of(asked.key, asked.path["event_id"])
        return await self._look(self._service.event, event_id)

    async def _event_of(self, key: Key, event_id: str) -> str:
        """The id of an event, if the key is for its slot; else it might as well not exist."""
        if key.slots and not key.sees((await self._look(self._service.event, event_id)).slot):
            raise problems.unknown_event(event_id)
        return event_id

    async def batch(self, asked: RequestContext) -> Response:
        """Make many calls, all of them waiting for the same commits."""
        sent = asked.request.headers.get("content-type", "")
        if sent.partition(";")[0].strip().lower() not in (LINES, "application/jsonl"):
            raise problems.wrong_type(sent, (LINES,))
        lines = (await read_body(asked.request)).splitlines()
        if len(lines) > MAX_LINES:
            raise problems.too_large(f"{len(lines):,} lines", MAX_LINES)
        started = [asyncio.ensure_future(self._line(asked.key, line)) for line in lines if line.strip()]
        return encoded_lines(await asyncio.gather(*started))

    async def _line(self, key: Key, line: bytes) -> BatchReply:
        """One line of a batch: what goes wrong with it stays with it."""
        try:
            done = await self._do(await self._command(key, decoded(line, JSON, BatchLine)))
        except Problem as problem:
            return BatchReply(problem.status, problem=problem.reply)
        except Exception:
            return BatchReply(500, problem=internal_error("batch").reply)
        return BatchReply(200, reply=done) if isinstance(done, RankReply) else BatchReply(200, event=done)

    async def _command(self, key: Key, line: BatchRank | BatchFeedback | BatchActivate) -> Command:
        if isinstance(line, BatchRank):
            if not key.sees(line.slot):
                raise problems.unknown_slot(line.slot, key.slots)
            return Rank(line.slot, line.request)
        event_id = await self._event_of(key, line.event_id)
        return Activate(event_id) if isinstance(line, BatchActivate) else SubmitFeedback(event_id, line.request)

    async def slots(self, asked: RequestContext) -> SlotsReply:
        """List the slots that the key is for."""
        slots = await self._look(self._service.slots)
        return SlotsReply([slot for slot in slots if asked.key.sees(slot.name)])

    async def slot(self, asked: RequestContext) -> SlotReply:
        """Look at a slot."""
        return await self._look(self._service.slot, asked.slot)

    async def items(self, asked: RequestContext) -> ItemsReply:
        """List items of a slot."""
        given = asked.request.query_params
        limit = given.get("limit", str(PAGE))
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_ITEMS):
            raise problems.invalid(f"limit = {limit[:20]!r}: must be a whole number from 1 to {MAX_ITEMS}")
        after = given.get("after", "")
        return await self._look(self._service.items, asked.slot, after=after, limit=int(limit))

    async def put_items(self, asked: RequestContext) -> Any:
        """Register items."""
        return await self._do(PutItems(asked.slot, asked.body))

    async def retire_items(self, asked: RequestContext) -> Any:
        """Retire items."""
        ids = asked.request.query_params.getlist("id")
        if not 1 <= len(ids) <= MAX_ITEMS:
            raise problems.invalid(f"id: 1 to {MAX_ITEMS} items can be retired at once, as in ?id=tea&id=cake")
        return await self._do(RetireItems(asked.slot, tuple(ids)))

    async def stats(self, asked: RequestContext) -> StatsReply:  # noqa: ARG002 - calls are alike
        """Look at the service."""
        return await self._look(self._service.stats)

    async def live(self, asked: RequestContext) -> HealthReply:  # noqa: ARG002
        """Say that the process works."""
        return HealthReply(ok=True)

    async def ready(self, asked: RequestContext) -> HealthReply:  # noqa: ARG002
        """Say whether calls are answered."""
        if reason := self._service.unready_reason():
            raise problems.not_ready(reason)
        return HealthReply(ok=True)


def application(
    service: ServiceProtocol,
    keys: Keys | None = None,
    *,
    hosts: frozenset[str] = frozenset(),
    lifespan: Lifespan[Starlette] | None = None,
    clock: Callable[[], float] = time.time,
    banner: str = "",
) -> ServiceMiddleware:
    """The application that a server runs.

    Parameters
    ----------
    service
        What answers, which whoever calls starts and closes.
    keys
        Who may call; everybody if there are none.
    hosts
        Names under which the service answers; any if empty.
    lifespan
        What is done when the server starts and stops.
    clock
        The service's time, for the board.
    banner
        What stands above every page of the board.
    """
    keys, metrics, calls = keys or Keys(), Metrics(service), Endpoints(service)
    by_path: dict[str, dict[str, StarletteHandler]] = {}
    for call in ENDPOINTS:
        answer = _answer(call, getattr(calls, call.name))
        by_path.setdefault(call.path, {})[call.method] = authenticated(call.name, keys, call.role, answer)
    routes = [Route(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]
    routes.append(Route("/metrics", authenticated("metrics", keys, "reader", _metrics_page(metrics))))
    routes.append(Route("/openapi.json", authenticated("openapi", keys, None, _description)))
    routes += dashboard_routes(service, keys, clock, banner)
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused}, lifespan=lifespan)
    return ServiceMiddleware(app, metrics, hosts)


def _by_method(endpoints: dict[str, StarletteHandler]) -> StarletteHandler:
    """One function for all methods of an address."""
    if len(endpoints) == 1:
        return next(iter(endpoints.values()))

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _answer(call: Endpoint, function: Callable[[RequestContext], Awaitable[Any]]) -> Handler:
    """Decode what is asked, have it answered, encode the reply."""
    takes = None if call.name == "batch" else call.takes

    async def answer(request: Request, key: Key) -> Response:
        path = _checked_path(request.path_params)
        body = None if takes is None else await decode_body(request, takes)
        reply = await function(RequestContext(key, request, path, body))
        return reply if isinstance(reply, Response) else encoded(reply, request)

    return answer


def _checked_path(given: dict[str, str]) -> dict[str, str]:
    """Names in a path, if they can be names at all."""
    for name, value in given.items():
        try:
            msgspec.convert(value, PARAMETERS[name])
        except msgspec.ValidationError:
            raise problems.bad_name(name, value) from None
    return given


def _metrics_page(metrics: Metrics) -> Handler:
    async def page(_: Request, __: Key) -> Response:
        return Response(await asyncio.to_thread(metrics.page), media_type=TYPE)

    return page


async def _description(_: Request, __: Key) -> Response:
    return Response(msgspec.json.encode(openapi()), media_type=JSON)


async def _refused(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        reply = encoded_problem(problems.wrong_method(request.method))
        reply.headers.update(error.headers or {})
        return reply
    return encoded_problem(problems.no_such_page(request.url.path))
