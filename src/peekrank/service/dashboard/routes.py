"""Routes of the pages. Those of the dashboard need the role `reader`, explanations no key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from peekrank._jit.progress import seconds_compiling
from peekrank.service.api import problems
from peekrank.service.api.auth import authenticated
from peekrank.service.api.keys import Key, Keys
from peekrank.service.api.messages import SlotReply
from peekrank.service.api.metrics import stats_and_slots, visible_stats
from peekrank.service.api.problems import PROBLEM_TYPES
from peekrank.service.core.details import Details
from peekrank.service.core.protocol import ServiceProtocol, check_readable
from peekrank.service.dashboard import pages

KeyInLog = Callable[[str, str], Awaitable[str]]  # of a slot and a key as people write it


def dashboard_routes(
    service: ServiceProtocol, keys: Keys, clock: Callable[[], float], banner: str, key_in_log: KeyInLog
) -> list[Route]:
    """Build the routes. `clock` is the service's time, and `banner` a text at the top of every page."""

    def view(request: Request) -> pages.View:
        return pages.View(clock(), request.query_params.get("live") != "no", banner, _key(request))

    async def overview(request: Request, key: Key) -> Response:
        if (seconds := seconds_compiling()) is not None:  # the service is locked meanwhile
            return _html(pages.compiling_page(seconds, view(request)))
        stats, slots = await asyncio.to_thread(stats_and_slots, service)
        shown = visible_stats(stats, slots, key) if slots else None
        visible = [slot for slot in slots if key.sees(slot.name)]
        return _html(pages.overview(visible, shown, service.unready_reason(), view(request)))

    async def slot(request: Request, key: Key) -> Response:
        name = request.path_params["slot"]
        key.check_slot(name)
        if (seconds := seconds_compiling()) is not None:
            return _html(pages.compiling_page(seconds, view(request)))
        shown = view(request)
        sought = None if shown.key is None else await key_in_log(name, shown.key)
        reply, details = await asyncio.to_thread(_read_slot, service, name, sought)
        return _html(pages.slot_page(reply, details, shown))

    async def problem(request: Request, _: Key) -> Response:
        kind = request.path_params["kind"]
        if kind not in PROBLEM_TYPES:
            raise problems.no_such_page(request.url.path)
        return _html(pages.problem_page(kind))

    async def api(_: Request, __: Key) -> Response:
        return _html(pages.api_page())

    return [
        Route("/", authenticated("dashboard", keys, "reader", overview)),
        Route("/dashboard/{slot}", authenticated("dashboard", keys, "reader", slot)),
        Route("/docs", authenticated("docs", keys, None, api)),
        Route("/problems/{kind}", authenticated("problem", keys, None, problem)),
    ]


def _key(request: Request) -> str | None:
    """Return the key of the ranking that a page shows. An empty field of a form is none."""
    return request.query_params.get("key") or None


def _read_slot(service: ServiceProtocol, name: str, key: str | None) -> tuple[SlotReply, Details]:
    check_readable(service)
    return service.slot(name), service.details(name, key)


def _html(page: str) -> Response:
    return HTMLResponse(page, headers={"content-security-policy": pages.policy()})
