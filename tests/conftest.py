"""Fixtures of many folders."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from peekrank import registry


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts this process and those it starts, also where the tests were begun with SIGINT ignored.

    Shells begin `nohup make test &` that way, and what is ignored stays so in all that is started from there.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it; nothing was registered before."""
    for kind in registry.KINDS:
        monkeypatch.setattr(kind, "_known", {name: kind[name] for name in kind.built_in})
        monkeypatch.setattr(kind, "_asked", False)
    monkeypatch.setattr(registry, "_FILES", {})
    registry._digest.cache_clear()
    yield
    registry._digest.cache_clear()
