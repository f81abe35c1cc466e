"""The page about going live, followed with a real server: shadow mode, a holdout with rules, the verdict."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx

from helpers.pages import Scripts, blocks
from helpers.reranking import app_of
from helpers.scripts import ROOT
from helpers.served import served
from peekrank.service.api.structured_logging import configure_logging
from peekrank.service.config.model import read_config
from peekrank.service.core.service import Service

PAGE = ROOT / "docs" / "service" / "going-live.md"
THERE = "http://127.0.0.1:8000"  # on the page
FEWER = {"visit(1_500)": "visit(600)"}


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    scripts, dashboard = Scripts(), ""
    file = tmp_path / "service.toml"
    configure_logging("critical")
    with ExitStack() as running:
        for kind, content in blocks(PAGE):
            if kind == "toml":
                running.close()
                file.write_text(content, encoding="utf-8")
                url = running.enter_context(served(app_of(running.enter_context(Service(read_config(file))))))
            elif kind == "python":
                if "service" in scripts.names:
                    scripts.names["service"].close()
                    scripts.run(f"from peekrank.service.client import Client\nservice = Client('{url}')\n")
                for written, less in FEWER.items():
                    content = content.replace(written, less)
                scripts.run(content.replace(THERE, url))
            elif kind == "text":
                scripts.told(content)
        reply = httpx.get(f"{url}/v1/slots/home").json()
        dashboard = httpx.get(f"{url}/dashboard/home").text
        scripts.names["service"].close()
    held = reply["holdout"]
    assert (held["lists"], held["better"], held["agrees"]) == (600, "learner", True)
    assert held["verdict"] in dashboard
    assert "explore at most 10 % of lists; blocked: cold shower; lose at most 70 %" in dashboard
