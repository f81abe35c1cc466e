"""Addresses of the board."""

from __future__ import annotations

from starlette.routing import Route

from peekrank.service.keys import Keys
from peekrank.service.protocol import Served


def board_routes(service: Served, keys: Keys) -> list[Route]:
    """The pages of the board, for whoever may read."""
    del service, keys
    return []
