"""Fixtures of many folders."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts this process and those it starts, also where the tests were begun with SIGINT ignored.

    Shells begin `nohup make test &` that way, and what is ignored stays so in all that is started from there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
