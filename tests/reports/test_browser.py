"""Reports in a real browser: they render, load nothing, fit a phone and a desk, and do what they offer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page
from typer.testing import CliRunner

from helpers.scripts import load_benchmark
from helpers.visits import Visit
from peekrank.cli.app import app
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import SETTING, SweepResult
from peekrank.reports.numbers import number
from peekrank.reports.sweep_page import write_sweep_report

pytestmark = pytest.mark.browser

WIDTHS = [390, 1280]
LEARNERS = ("rtop1f", "rtop1f:order=fixed", "ftpl", "uniform", *(f"ftpl:epsilon=0.{i}" for i in range(1, 7)))
MANY = Sweep("many", LEARNERS, ("ct15", "ct15:m=5"), ("dcg", "p@3+sum"), (1, 2), (1000, 10**6), runs=4)


@pytest.fixture(scope="module")
def finished() -> SweepResult:
    made: SweepResult = load_benchmark("reports").synthetic(MANY)
    return made


@pytest.fixture(scope="module")
def sweep_report(finished: SweepResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep_report(finished, tmp_path_factory.mktemp("sweep") / "report.html")


@pytest.fixture(scope="module")
def demo_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(app, ["demo", "--out", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0
    return folder / "report.html"


@pytest.fixture(params=WIDTHS)
def visit(request: pytest.FixtureRequest, browser: Browser, sweep_report: Path) -> Iterator[Visit]:
    visit = Visit(browser, sweep_report.as_uri(), request.param)
    yield visit
    visit.check()
    visit.close()


class Box(NamedTuple):
    text: str
    left: float
    right: float
    top: float
    bottom: float


def boxes(texts: Locator) -> list[Box]:
    """Where texts are, asked for all at once."""
    script = """all => all.map(e => [e.textContent, e.getBoundingClientRect()])
                          .map(([text, r]) => [text, r.left, r.right, r.top, r.bottom])"""
    return [Box(*found) for found in texts.evaluate_all(script)]


def overlapping(texts: Locator) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap by more than a pixel."""
    return [
        (a.text, b.text)
        for a, b in combinations(boxes(texts), 2)
        if min(a.right, b.right) - max(a.left, b.left) > 1 and min(a.bottom, b.bottom) - max(a.top, b.top) > 1
    ]


def select(page: Page, name: str) -> Locator:
    return page.locator(f"#controls select[data-axis='{SETTING.index(name)}']")


def column(page: Page, table: str, head: str) -> list[str]:
    heads = page.locator(f"#{table} thead th").all_inner_texts()
    position = [text.split("\n")[0].strip() for text in heads].index(head) + 1
    return page.locator(f"#{table} tbody tr:visible td:nth-child({position})").all_inner_texts()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_curve_is_on_the_first_screen(
    browser: Browser, demo_report: Path, sweep_report: Path, width: int
) -> None:
    for report, picture in ((demo_report, ".card svg"), (sweep_report, "#chart svg")):
        visit = Visit(browser, report.as_uri(), width)
        (first, *_) = boxes(visit.page.locator(picture))
        assert first.top < 844 - 150 - 50  # a phone's height; what is to be seen; what is above the axes
        visit.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_demo_report_renders(browser: Browser, demo_report: Path, width: int) -> None:
    visit = Visit(browser, demo_report.as_uri(), width)
    pictures = visit.page.locator("figure svg")
    assert pictures.count() == 3
    for picture in pictures.all():
        box = picture.bounding_box()
        assert box is not None
        assert 250 < box["width"] <= width
        assert box["height"] > 150
    visit.check()
    visit.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_without_scripts_tables_are_there_and_the_rest_is_explained(
    browser: Browser, sweep_report: Path, width: int
) -> None:
    visit = Visit(browser, sweep_report.as_uri(), width, scripts=False)
    assert "scripts are switched off" in visit.page.locator("p.missing").inner_text()
    assert visit.page.locator("#summary tbody tr").count() == 160
    assert not visit.page.locator("#controls").is_visible()
    assert not visit.page.locator("#chart").is_visible()
    assert visit.requests == [visit.home]
    visit.close()


@pytest.mark.parametrize("quantity", ["regret", "regret per round", "value per round"])
def test_texts_of_the_picture_do_not_overlap(visit: Visit, quantity: str) -> None:
    page = visit.page
    page.get_by_label(quantity, exact=True).check()
    for horizon in ("1,000", "1,000,000"):
        select(page, "horizon").select_option(label=horizon)
        for across in (True, False):
            for up in (True, False):
                page.get_by_label("rounds logarithmic").set_checked(across)
                page.get_by_label("values logarithmic").set_checked(up)
                texts = page.locator("#chart text")
                assert page.locator("#chart text.tick").count() >= 4
                assert overlapping(texts) == []
                (chart,) = boxes(page.locator("#chart"))
                for box in boxes(texts):
                    assert chart.left - 1 <= box.left
                    assert box.right <= chart.right + 1


def test_the_selector_shows_another_setting(visit: Visit, finished: SweepResult) -> None:
    page = visit.page
    assert "Setting 1 of 16: stream ct15, measure dcg, k 1" in (page.locator("#caption").text_content() or "")
    select(page, "stream").select_option(index=1)
    select(page, "measure").select_option(index=1)
    select(page, "k").focus()
    page.keyboard.press("ArrowDown")
    select(page, "horizon").select_option(index=1)
    said = page.locator("#caption").text_content() or ""
    last = finished.results[-1].experiment
    assert f"Setting 16 of 16: stream {last.stream}, measure p@3+sum, k 2, horizon 1,000,000" in said
    assert "recorded points are drawn" in said
    assert "--horizon 1000000" in (page.locator("#command").text_content() or "")
    shown = page.locator("#readout tbody td:nth-child(2)").all_inner_texts()
    means = [finished.results[-1].regrets(name)[:, -1].mean() for name in LEARNERS]
    assert [text.split(" ±")[0] for text in shown] == [number(mean) for mean in means]


def test_learners_are_switched_off_and_on(visit: Visit) -> None:
    page, curves = visit.page, visit.page.locator("#chart path.curve")
    assert curves.count() == len(LEARNERS)
    looks = [
        (box.locator("path").nth(0).get_attribute("stroke"), box.locator("path").nth(1).get_attribute("d"))
        for box in page.locator("#readout label svg").all()
    ]
    assert len(set(looks)) == len(LEARNERS)
    page.locator("#readout").get_by_label("uniform", exact=True).uncheck()
    assert curves.count() == len(LEARNERS) - 1
    page.locator("#readout").get_by_label("rtop1f", exact=True).focus()
    page.keyboard.press("Space")
    assert curves.count() == len(LEARNERS) - 2
    page.keyboard.press("Space")
    assert curves.count() == len(LEARNERS) - 1
    for box in page.locator("#readout input").all():
        box.uncheck()
    assert curves.count() == 0


def test_bounds_can_be_hidden(visit: Visit) -> None:
    bounds = visit.page.locator("#chart path.bound")
    assert bounds.count() >= 1
    visit.page.get_by_label("bounds", exact=True).uncheck()
    assert bounds.count() == 0


def test_values_are_read_by_pointer_and_keys(visit: Visit, finished: SweepResult) -> None:
    page, chart = visit.page, visit.page.locator("#chart")
    result = finished.results[0]
    checkpoints = result.checkpoints

    def reads(position: int) -> None:
        assert (page.locator("#round").text_content() or "") == f"{checkpoints[position]:,}"
        value = page.locator("#readout tbody td:nth-child(2)").first.inner_text()
        regrets = result.regrets("rtop1f")[:, position]
        assert value == f"{number(regrets.mean())} ± {number(regrets.std(ddof=1))}"
        assert chart.get_attribute("aria-valuenow") == str(checkpoints[position])

    reads(len(checkpoints) - 1)
    box = chart.bounding_box()
    assert box is not None
    if box["width"] < 500:
        chart.tap(position={"x": box["width"] - 30, "y": 150})
    else:
        chart.hover(position={"x": box["width"] / 2, "y": 150})
    seen = int((page.locator("#round").text_content() or "").replace(",", ""))
    assert 1 < seen < checkpoints[-1]
    reads(list(checkpoints).index(seen))
    chart.focus()
    page.keyboard.press("Home")
    reads(0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    reads(2)
    page.keyboard.press("ArrowLeft")
    reads(1)
    page.keyboard.press("End")
    reads(len(checkpoints) - 1)


def test_tables_sort_by_mouse_and_keyboard(visit: Visit) -> None:
    page = visit.page

    def values() -> list[float]:
        return [float(text.replace(",", "")) for text in column(page, "summary", "regret")]

    unsorted = values()
    head = page.locator("#summary").get_by_role("button", name="regret", exact=True)
    head.click()
    assert values() == sorted(unsorted)
    assert page.locator("#summary th[aria-sort='ascending']").count() == 1
    head.focus()
    page.keyboard.press("Enter")
    assert values() == sorted(unsorted, reverse=True)
    page.locator("#summary").get_by_role("button", name="bound", exact=True).click()
    texts = column(page, "summary", "bound")
    bounds = [float(text.replace(",", "")) for text in texts if text != "–"]
    assert 0 < len(bounds) < len(texts)
    assert texts[len(bounds) :] == ["–"] * (len(texts) - len(bounds))
    assert bounds == sorted(bounds)
    page.locator("#comparisons").get_by_role("button", name="verdict", exact=True).click()
    verdicts = column(page, "comparisons", "verdict")
    assert verdicts[0] != verdicts[-1]
    assert len([1 for a, b in pairwise(verdicts) if a != b]) + 1 == len(set(verdicts))


def test_tables_can_show_the_chosen_setting_only(visit: Visit) -> None:
    page, rows = visit.page, visit.page.locator("#summary tbody tr:visible")
    assert rows.count() == 160
    page.locator(".only").first.check()
    assert rows.count() == len(LEARNERS)
    assert page.locator("#comparisons tbody tr:visible").count() == 45
    select(page, "k").select_option(index=1)
    assert set(column(page, "summary", "k")) == {"2"}
    page.locator(".only").last.uncheck()
    assert rows.count() == 160


def test_the_picture_follows_the_window(browser: Browser, sweep_report: Path) -> None:
    visit = Visit(browser, sweep_report.as_uri(), 1280)
    before = visit.page.locator("#chart svg").get_attribute("viewBox")
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.page.wait_for_function(
        "was => document.querySelector('#chart svg').getAttribute('viewBox') !== was", arg=before
    )
    assert overlapping(visit.page.locator("#chart text")) == []
    visit.check()
    visit.close()
