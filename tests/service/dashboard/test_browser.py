"""The board in a real browser: on a phone and a desk, light and dark, with the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser

from helpers.dashboards import BusyService
from helpers.served import served
from helpers.visits import Visit
from peekrank.service.api.endpoints import application
from peekrank.service.api.structured_logging import configure_logging

pytestmark = pytest.mark.browser

WIDTHS = [390, 1280]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    configure_logging("critical")
    with served(application(BusyService())) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        "/?live=no",
        "/dashboard/home?live=no",
        "/dashboard/home?live=no&key=vegan",
        "/dashboard/search?live=no",
        "/problems/closed",
        "/docs",
    ],
)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_and_load_nothing(
    browser: Browser, url: str, width: int, path: str, scheme: Literal["light", "dark"]
) -> None:
    visit = Visit(browser, url + path, width, scheme=scheme, scripts=True)
    colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(251, 251, 249)", "dark": "rgb(22, 24, 28)"}[scheme]
    for picture in visit.page.locator("figure svg").all():
        box = picture.bounding_box()
        assert box is not None
        assert 200 < box["width"] <= width
        assert box["height"] > 80
    visit.check()
    visit.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_of_the_board_do_not_overlap(browser: Browser, url: str, width: int) -> None:
    visit = Visit(browser, f"{url}/?live=no", width)
    script = """all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right, r.top, r.bottom])"""
    for figures in visit.page.locator(".figures").all():
        boxes = figures.locator("dd").evaluate_all(script)
        for i, (left, right, top, bottom) in enumerate(boxes):
            for other in boxes[i + 1 :]:
                assert min(right, other[1]) <= max(left, other[0]) or min(bottom, other[3]) <= max(top, other[2])
    visit.close()


def test_the_board_is_walked_by_keyboard(browser: Browser, url: str) -> None:
    visit = Visit(browser, f"{url}/?live=no", 1280)
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    names = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert names == ["peekrank", "paused · resume", "home", "search"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/home?live=no")
    assert page.locator("h1").inner_text() == "home"
    visit.close()


def test_a_key_is_entered(browser: Browser, url: str) -> None:
    visit = Visit(browser, f"{url}/dashboard/home", 390)
    visit.page.get_by_role("link", name="Pause", exact=True).click()
    visit.page.get_by_label("Key").fill("vegan")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/dashboard/home?live=no&key=vegan*")
    assert visit.page.locator("#ranking").inner_text() == "Current ranking for “vegan”"
    assert visit.complaints == []
    visit.close()


def test_a_live_page_comes_again_and_can_be_paused(browser: Browser, url: str) -> None:
    visit = Visit(browser, url, 390)
    with visit.page.expect_navigation(timeout=30_000):
        pass
    visit.page.get_by_role("link", name="pause").click()
    visit.page.wait_for_url("**/?live=no")
    assert visit.page.locator("meta[http-equiv=refresh]").count() == 0
    assert visit.complaints == []
    visit.close()
