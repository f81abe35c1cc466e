"""Addresses of the board, for whoever may read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from peekrank._jit.progress import seconds_compiling
from peekrank.service import problems
from peekrank.service.board import pages
from peekrank.service.guard import guarded
from peekrank.service.keys import Key, Keys
from peekrank.service.messages import MAX_ITEMS, ItemReply, SlotReply
from peekrank.service.problems import KINDS
from peekrank.service.protocol import Served, readable


def board_routes(service: Served, keys: Keys, clock: Callable[[], float], notice: str) -> list[Route]:
    """The pages of the board, at the time that the service has, under a notice if there is one."""

    def view(request: Request) -> pages.View:
        return pages.View(clock(), request.query_params.get("live") != "no", notice)

    async def overview(request: Request, key: Key) -> Response:
        if (seconds := seconds_compiling()) is not None:  # the service is locked meanwhile
            return _html(pages.compiling_page(seconds, view(request)))
        reason, slots = service.not_ready(), await asyncio.to_thread(service.slots)
        stats = await asyncio.to_thread(service.stats) if slots else None
        return _html(pages.overview([slot for slot in slots if key.sees(slot.name)], stats, reason, view(request)))

    async def slot(request: Request, key: Key) -> Response:
        name = request.path_params["slot"]
        if not key.sees(name):
            raise problems.unknown_slot(name, key.slots)
        if (seconds := seconds_compiling()) is not None:
            return _html(pages.compiling_page(seconds, view(request)))
        found, items = await asyncio.to_thread(_slot_and_items, service, name)
        return _html(pages.slot_page(found, items, view(request)))

    async def problem(request: Request, _: Key) -> Response:
        kind = request.path_params["kind"]
        if kind not in KINDS:
            raise problems.no_such_page(request.url.path)
        return _html(pages.problem_page(kind))

    return [
        Route("/", guarded("board", keys, "reader", overview)),
        Route("/board/{slot}", guarded("board", keys, "reader", slot)),
        Route("/problems/{kind}", guarded("problem", keys, None, problem)),
    ]


def _slot_and_items(service: Served, name: str) -> tuple[SlotReply, list[ItemReply]]:
    readable(service)
    found = service.slot(name)
    return found, [] if found.items is None else service.items(name, limit=MAX_ITEMS).items


def _html(page: str) -> Response:
    return HTMLResponse(page, headers={"content-security-policy": pages.policy()})
