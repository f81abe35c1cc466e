"""Pages in a real browser."""

from __future__ import annotations

from typing import Literal

from playwright.sync_api import Browser, Page


class Visit:
    """A page, and all that it complained about or asked for."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        width: int,
        *,
        scripts: bool = True,
        scheme: Literal["light", "dark"] = "light",
    ) -> None:
        context = browser.new_context(
            viewport={"width": width, "height": 844},
            java_script_enabled=scripts,
            has_touch=width < 500,
            color_scheme=scheme,
        )
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)
        self.home = url

    def check(self) -> None:
        assert self.complaints == []
        assert self.requests == [self.home]
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def close(self) -> None:
        self.page.context.close()
