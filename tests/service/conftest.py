"""A PostgreSQL server for the tests of a file, without tables before each."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from helpers.postgresql import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def url(server: Server) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for name in ("log", "snapshots", "slots", "about"):
            connection.execute(f"DROP TABLE IF EXISTS peekrank_{name}")
    return server.url
