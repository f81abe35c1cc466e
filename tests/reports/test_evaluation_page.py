"""The report of an evaluation: its tables, and in a browser that it renders, loads nothing and fits screens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import Browser

from helpers.visits import Visit
from peekrank import DCG, Agent, DoubtSort, fixed_items
from peekrank.evaluation.evaluation import evaluate_log
from peekrank.evaluation.policies import Policy, fixed_order
from peekrank.evaluation.simulated_log import simulate_log
from peekrank.reports.evaluation_page import write_evaluation
from peekrank.reports.numbers import number


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    relevance = (np.random.default_rng(1).random((800, 6)) < np.linspace(0.9, 0.1, 6)).astype(np.uint8)
    log = simulate_log(Agent(DoubtSort(DCG(2)), m=6, k=2, seed=1), fixed_items(relevance))
    long = "an order with a name that is much longer than any table has room for"
    policies = [
        Policy("logged", None), fixed_order(log, list("012345"), "best"), fixed_order(log, list("543210"), long),
    ]  # fmt: skip
    found = evaluate_log(log, policies, DCG(2))
    folder = tmp_path_factory.mktemp("report")
    return write_evaluation(found, folder, source="log.parquet", notes=["a note"])


def test_the_report_and_the_csv_file_have_every_estimate(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    table = pl.read_csv(report.with_name("evaluation.csv"))
    assert table.columns[:9] == [
        "name", "baseline", "decisions", "dr", "std_error", "ips", "snips", "ess", "max_weight"
    ]  # fmt: skip
    assert table["name"].to_list()[:2] == ["logged", "best"]
    assert len(table) == 6
    assert page.count('<tr><th scope="row">') == 6
    assert "a note" in page
    for value in table["dr"]:
        assert f">{number(value)}<" in page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_fits_and_loads_nothing(browser: Browser, report: Path, width: int, scheme: str) -> None:
    visit = Visit(browser, report.as_uri(), width, scheme=scheme)  # type: ignore[arg-type]
    visit.check()
    page = visit.page
    assert page.locator("h1").inner_text() == "Offline evaluation"
    assert page.locator("table").count() == 2
    assert page.locator("figure svg").is_visible()
    assert page.locator("text=a note").is_visible()
    assert page.locator("tbody tr").count() == 6
    visit.close()
