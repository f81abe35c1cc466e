"""The report of an evaluation in a real browser: it renders, loads nothing, and fits a phone and a desk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from peekrank.evidence.evaluation import evaluate_log
from peekrank.evidence.policies import Policy, fixed_order
from peekrank.evidence.recording import record
from playwright.sync_api import Browser

from helpers.visits import Visit
from peekrank import DCG, Agent, DoubtSort, fixed_items
from peekrank.reports.evaluation_page import write_evaluation

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    relevance = (np.random.default_rng(1).random((800, 6)) < np.linspace(0.9, 0.1, 6)).astype(np.uint8)
    log = record(Agent(DoubtSort(DCG(2)), m=6, k=2, seed=1), fixed_items(relevance))
    long = "an order with a name that is much longer than any table has room for"
    policies = [
        Policy("logged", None), fixed_order(log, list("012345"), "best"), fixed_order(log, list("543210"), long),
    ]  # fmt: skip
    found = evaluate_log(log, policies, DCG(2))
    folder = tmp_path_factory.mktemp("report")
    return write_evaluation(found, folder, source="log.parquet", notes=["a note"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_fits_and_loads_nothing(browser: Browser, report: Path, width: int, scheme: str) -> None:
    visit = Visit(browser, report.as_uri(), width, scheme=scheme)  # type: ignore[arg-type]
    visit.check()
    page = visit.page
    assert page.locator("h1").inner_text() == "What other rankings would have been worth"
    assert page.locator("table").count() == 2
    assert page.locator("figure svg").is_visible()
    assert page.locator("text=a note").is_visible()
    assert page.locator("tbody tr").count() == 6
    visit.close()
