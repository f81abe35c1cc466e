"""Measure the time to make and to open the report of a sweep with a million curve points, and its size.

    python benchmarks/reports.py

Seconds of the wall clock, with those of the processor in brackets where they are known. To open is to load the
file in Chromium and to draw the first setting; to choose is to draw another one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import SweepResult
from peekrank.regret import default_checkpoints
from peekrank.reports.sweep_page import write_sweep_report

SECONDS, BYTES = 3, 5e6  # limits
FIVE = ("rtop1f", "rtop1f:order=fixed", "ftpl", "ftpl:epsilon=0.1", "uniform")


def chromium() -> str | None:
    """Return the path of a browser, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def synthetic(sweep: Sweep) -> SweepResult:
    """Make up the curves of a sweep."""
    rng = np.random.default_rng(0)
    return SweepResult(sweep, [_made_up(setting, rng) for setting in sweep.settings])


def _made_up(setting: Experiment, rng: np.random.Generator) -> Result:
    checkpoints = default_checkpoints(setting.horizon)
    curves = {}
    for position, name in enumerate(setting.learners):
        slopes = 0.4 + 0.5 * position / len(setting.learners) + rng.normal(0, 0.01, (setting.runs, 1))
        regret = checkpoints**slopes + rng.normal(0, 0.1, (setting.runs, len(checkpoints)))
        curves[name] = pl.DataFrame(
            {
                "run": np.repeat(np.arange(setting.runs), len(checkpoints)),
                "checkpoints": np.tile(checkpoints, setting.runs),
                "value": (3 * checkpoints - regret).ravel(),
                "regret": regret.ravel(),
                "explored": np.tile(checkpoints // 10, setting.runs),
            }
        )
    return Result(setting, checkpoints, curves, dict.fromkeys(setting.learners, 1.0))


def large(settings: int, runs: int, learners: tuple[str, ...] = FIVE) -> Sweep:
    streams = tuple(f"ct15:noise={noise / 1000}" for noise in range(1, settings + 1))
    return Sweep("large", learners, streams, ("dcg",), (1,), (10**6,), runs)


def opened(path: Path, browser: str) -> tuple[float, float]:
    """Measure the seconds to draw the first setting, and another one after selecting it."""
    with sync_playwright() as playwright:
        window = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = window.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        page.goto(path.as_uri())
        page.locator("path.curve").first.wait_for(state="attached")
        first = time.perf_counter() - start
        start = time.perf_counter()
        page.locator("select").first.select_option(index=1)
        page.get_by_text("Cell 2 of").wait_for()
        second = time.perf_counter() - start
        window.close()
    return first, second


def main() -> None:
    browser = chromium()
    table = Table("sweep", "curve points", "make, s", "size, MB", "open, s", "choose, s")
    for sweep in (large(54, 10), large(11, 50), large(270, 2), large(540, 1)):
        finished = synthetic(sweep)
        points = sum(len(frame) for result in finished.results for frame in result.curves.values())
        with tempfile.TemporaryDirectory() as folder:
            wall, processor = time.perf_counter(), time.process_time()
            path = write_sweep_report(finished, Path(folder) / "report.html")
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            size = path.stat().st_size
            first, second = opened(path, browser) if browser else (float("nan"), float("nan"))
        table.add_row(
            f"{len(finished.results)} settings, {len(sweep.learners)} learners, {sweep.runs} runs",
            f"{points:,}",
            f"{wall:.2f} ({processor:.2f})",
            f"{size / 1e6:.2f}",
            f"{first:.2f}",
            f"{second:.2f}",
            style="red" if max(wall, first) > SECONDS or size > BYTES else "",
        )
    console = Console()
    console.print(table)
    console.print(f"Limits: {SECONDS} s to make, {SECONDS} s to open, {BYTES / 1e6:g} MB.")
    if browser is None:
        console.print("No Chromium is installed, so nothing was opened.")


if __name__ == "__main__":
    main()
