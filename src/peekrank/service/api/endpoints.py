"""The HTTP application in front of a `Service`: one coroutine per endpoint, which waits for the commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from peekrank.service.api import problems
from peekrank.service.api.auth import Handler, StarletteHandler, authenticated
from peekrank.service.api.batch import run_batch
from peekrank.service.api.codec import (
    JSON,
    LINES,
    content_type,
    decode_body,
    encode_problem,
    encode_reply,
    read_body,
)
from peekrank.service.api.keys import Key, Keys
from peekrank.service.api.limits import MAX_ITEMS, RERANK_BODIES
from peekrank.service.api.messages import (
    ChangedReply,
    EventReply,
    HealthReply,
    ItemsReply,
    RankReply,
    ReloadReply,
    SlotReply,
    SlotsReply,
    StatsReply,
)
from peekrank.service.api.metrics import TYPE, Metrics, stats_and_slots, visible_stats
from peekrank.service.api.middleware import ServiceMiddleware
from peekrank.service.api.openapi import openapi
from peekrank.service.api.reload import Reloader
from peekrank.service.api.rerank import NO_RERANKS, Reranking, Reranks
from peekrank.service.api.rerank_messages import TraceReply
from peekrank.service.api.routes import ENDPOINTS, PAGE, PARAMETERS, Endpoint
from peekrank.service.config import LimitsConfig
from peekrank.service.core.commands import Activate, Command, PutItems, Rank, RetireItems, SubmitFeedback
from peekrank.service.core.protocol import ServiceProtocol, check_readable
from peekrank.service.core.rerank import TraceFeedback
from peekrank.service.dashboard.routes import dashboard_routes

Result = TypeVar("Result")


class RequestContext(NamedTuple):
    """A request: its key, its path parameters and its decoded body."""

    key: Key
    request: Request
    path: dict[str, str]
    body: Any

    @property
    def slot(self) -> str:
        """The slot in the path. Raises a `Problem` if the key is not valid for it."""
        self.key.check_slot(self.path["slot"])
        return self.path["slot"]


class Endpoints:
    """The handlers of all endpoints. Each method has the name of its row in the table.

    Parameters
    ----------
    service
        The service.
    limits
        Returns the limits of calls, which may change.
    reranks
        Slots that answer rerank calls.
    metrics
        Counts what rerank calls do.
    reloader
        Reloads the configuration. None if there is no file.
    """

    def __init__(
        self,
        service: ServiceProtocol,
        limits: Callable[[], LimitsConfig],
        reranks: Reranks,
        metrics: Metrics,
        reloader: Reloader | None,
    ) -> None:
        self._service, self._limits, self._reloader = service, limits, reloader
        self.reranking = Reranking(service, reranks, metrics, self._submit)

    async def _submit(self, command: Command[Result]) -> Result:
        """Run a command. Returns once it is in the log."""
        return await asyncio.wrap_future(self._service.submit(command))

    async def _read(self, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        """Read from the service in a thread, because it may have to wait for a commit."""

        def read() -> Result:
            check_readable(self._service)
            return function(*args, **options)

        return await asyncio.to_thread(read)

    async def rank(self, context: RequestContext) -> RankReply:
        """Rank a list."""
        return await self._submit(Rank(context.slot, context.body, context.key.slots))

    async def feedback(self, context: RequestContext) -> EventReply:
        """Submit feedback on an event."""
        body = await self.reranking.with_ids(context.body)
        return await self._submit(SubmitFeedback(context.path["event_id"], body, context.key.slots))

    async def trace_feedback(self, context: RequestContext) -> TraceReply:
        """Submit feedback on the events of a trace."""
        body = await self.reranking.with_ids(context.body)
        return await self._submit(TraceFeedback(bytes.fromhex(context.path["trace_id"]), body, context.key.slots))

    async def rerank(self, context: RequestContext) -> Response:
        """Rank documents for a query."""
        return await self.reranking.rerank(context.request, context.key, context.body)

    async def activate(self, context: RequestContext) -> EventReply:
        """Activate a deferred event."""
        return await self._submit(Activate(context.path["event_id"], context.key.slots))

    async def event(self, context: RequestContext) -> EventReply:
        """Get an event."""
        return await self._read(self._service.event, context.path["event_id"], context.key.slots)

    async def batch(self, context: RequestContext) -> Response:
        """Make many calls, which share commits."""
        if content_type(context.request) not in (LINES, "application/jsonl"):
            raise problems.wrong_type(context.request.headers.get("content-type", ""), LINES)
        lines = (await read_body(context.request, self._limits().max_body_bytes)).splitlines()
        if len(lines) > (limit := self._limits().max_batch_lines):
            raise problems.too_large(f"{len(lines):,} lines", limit)
        return Response(await run_batch(lines, context.key, self._submit), media_type=LINES)

    async def slots(self, context: RequestContext) -> SlotsReply:
        """List the slots that the key is valid for."""
        slots = await self._read(self._service.slots)
        return SlotsReply([slot for slot in slots if context.key.sees(slot.name)])

    async def slot(self, context: RequestContext) -> SlotReply:
        """Get a slot."""
        return await self._read(self._service.slot, context.slot)

    async def items(self, context: RequestContext) -> ItemsReply:
        """List items of a slot."""
        query = context.request.query_params
        limit = query.get("limit", str(PAGE))
        if not (limit.isascii() and limit.isdigit() and len(limit) < 9 and 1 <= int(limit) <= MAX_ITEMS):
            raise problems.invalid(f"limit = {limit[:20]!r}: must be a whole number from 1 to {MAX_ITEMS}")
        after = query.get("after", "")
        return await self._read(self._service.items, context.slot, after=after, limit=int(limit))

    async def put_items(self, context: RequestContext) -> ChangedReply:
        """Register items."""
        return await self._submit(PutItems(context.slot, context.body))

    async def retire_items(self, context: RequestContext) -> ChangedReply:
        """Retire items."""
        ids = context.request.query_params.getlist("id")
        if not 1 <= len(ids) <= MAX_ITEMS:
            raise problems.invalid(f"id: must be 1 to {MAX_ITEMS} items, for example ?id=tea&id=cake")
        return await self._submit(RetireItems(context.slot, tuple(ids)))

    async def stats(self, context: RequestContext) -> StatsReply:
        """Get the state of the service."""
        return visible_stats(*await self._read(stats_and_slots, self._service), context.key)

    async def reload(self, context: RequestContext) -> ReloadReply:
        """Reload the configuration."""
        if context.key.slots:
            raise problems.not_for_all_slots(context.key.name)
        if self._reloader is None:
            raise problems.bad_configuration("this service was not started from a configuration file")
        return ReloadReply(await asyncio.to_thread(self._reloader.reload))

    async def live(self, context: RequestContext) -> HealthReply:  # noqa: ARG002 - all handlers have one signature
        """Report whether the process works."""
        if not self._service.live():
            raise problems.not_ready("the thread that writes the log has ended; restart the service")
        return HealthReply(ok=True)

    async def ready(self, context: RequestContext) -> HealthReply:  # noqa: ARG002
        """Report whether the service takes calls."""
        if reason := self._service.unready_reason():
            raise problems.not_ready(reason)
        return HealthReply(ok=True)


def application(
    service: ServiceProtocol,
    keys: Keys | None = None,
    *,
    hosts: frozenset[str] = frozenset(),
    limits: LimitsConfig | None = None,
    reloader: Reloader | None = None,
    reranks: Reranks = NO_RERANKS,
    lifespan: Lifespan[Starlette] | None = None,
    clock: Callable[[], float] = time.time,
    banner: str = "",
) -> ServiceMiddleware:
    """Build the ASGI application.

    Parameters
    ----------
    service
        The service. The caller starts and closes it.
    keys
        Keys of the callers. Without any, every caller may do everything.
    hosts
        Host names of the service; empty allows any.
    limits
        Limits of calls. The default limits if None.
    reloader
        Reloads the configuration. It has keys and limits, instead of those above.
    reranks
        Slots that answer rerank calls.
    lifespan
        Runs around the life of the server.
    clock
        The service's time, for the dashboard.
    banner
        Text at the top of every page of the dashboard.
    """
    keys = reloader.keys if reloader else keys or Keys()
    fixed = limits or LimitsConfig()

    def limits_now() -> LimitsConfig:
        return reloader.limits if reloader else fixed

    metrics = Metrics(service)
    endpoints = Endpoints(service, limits_now, reranks, metrics, reloader)
    by_path: dict[str, dict[str, StarletteHandler]] = {}
    for endpoint in ENDPOINTS:
        handler = _handler(endpoint, getattr(endpoints, endpoint.name), limits_now)
        for path in (endpoint.path, *endpoint.aliases):
            by_path.setdefault(path, {})[endpoint.method] = authenticated(
                endpoint.name, keys, endpoint.role, handler
            )
    routes = [
        Route(_typed(path), _by_method(handlers), methods=list(handlers)) for path, handlers in by_path.items()
    ]
    routes.append(Route("/metrics", authenticated("metrics", keys, "reader", _metrics_page(metrics))))
    routes.append(Route("/openapi.json", authenticated("openapi", keys, None, _description)))
    routes += dashboard_routes(service, keys, clock, banner, endpoints.reranking.key_in_log)
    around = _closing(endpoints.reranking, lifespan)
    app = Starlette(routes=routes, exception_handlers={HTTPException: _routing_problem}, lifespan=around)
    return ServiceMiddleware(app, metrics, hosts)


class _TraceConvertor(Convertor[str]):
    """A trace id in a path. Other events may have ids that look almost like one."""

    regex = "[0-9a-f]{32}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("trace", _TraceConvertor())


def _typed(path: str) -> str:
    return path.replace("{trace_id}", "{trace_id:trace}")


def _closing(reranking: Reranking, lifespan: Lifespan[Starlette] | None) -> Lifespan[Starlette]:
    """Close the connections to upstreams when the server stops."""

    @asynccontextmanager
    async def around(app: Starlette) -> AsyncIterator[Any]:
        async with lifespan(app) if lifespan else nullcontext() as state:
            try:
                yield state
            finally:
                await reranking.close()

    return around


def _by_method(handlers: dict[str, StarletteHandler]) -> StarletteHandler:
    """Dispatch the methods of one address."""
    if len(handlers) == 1:
        return next(iter(handlers.values()))

    async def dispatch(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return dispatch


def _handler(
    endpoint: Endpoint, function: Callable[[RequestContext], Awaitable[Any]], limits: Callable[[], LimitsConfig]
) -> Handler:
    """Decode the request, call the function, and encode its reply."""
    body_type = None if endpoint.name == "batch" else endpoint.request
    factor = RERANK_BODIES if endpoint.name == "rerank" else 1

    async def handle(request: Request, key: Key) -> Response:
        path = _check_path(request.path_params)
        body = (
            None if body_type is None else await decode_body(request, body_type, factor * limits().max_body_bytes)
        )
        reply = await function(RequestContext(key, request, path, body))
        return reply if isinstance(reply, Response) else encode_reply(reply)

    return handle


def _check_path(parameters: dict[str, str]) -> dict[str, str]:
    """Validate the path parameters."""
    for name, value in parameters.items():
        try:
            msgspec.convert(value, PARAMETERS[name])
        except msgspec.ValidationError:
            raise problems.bad_name(name, value) from None
    return parameters


def _metrics_page(metrics: Metrics) -> Handler:
    async def page(_: Request, key: Key) -> Response:
        return Response(await asyncio.to_thread(metrics.page, key), media_type=TYPE)

    return page


async def _description(_: Request, __: Key) -> Response:
    return Response(msgspec.json.encode(openapi()), media_type=JSON)


async def _routing_problem(request: Request, error: Exception) -> Response:
    """Turn an error of Starlette's router into a problem."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        reply = encode_problem(problems.wrong_method(request.method))
        reply.headers.update(error.headers or {})
        return reply
    return encode_problem(problems.no_such_page(request.url.path))
