"""Fixtures of many folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

# Before NumPy is loaded: pytest has a process for each processor, and threads of OpenBLAS that wait would take
# processor time from the other processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from peekrank import registry

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The same examples in every run, however busy the machine is
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests come first, so that no worker has a long one left when the others are done."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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
        monkeypatch.setattr(kind, "_has_entry_points", False)
    monkeypatch.setattr(registry, "_FILES", {})
    registry._digest.cache_clear()
    yield
    registry._digest.cache_clear()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; tests that need it are skipped where there is none, unless PEEKRANK_BROWSER is "required"."""
    from playwright.sync_api import sync_playwright

    from helpers.scripts import load_benchmark

    path = load_benchmark("reports").chromium()
    if path is None:
        if os.environ.get("PEEKRANK_BROWSER") == "required":
            pytest.fail("PEEKRANK_BROWSER is 'required', but no chromium or google-chrome is installed")
        pytest.skip("no chromium or google-chrome is installed: pages are not looked at in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])  # root has no sandbox
        yield browser
        browser.close()
