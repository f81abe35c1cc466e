"""The report of a sweep: it tells what was computed, in numbers and curves, and stays one small file."""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers.scripts import load_benchmark
from helpers.strict_html import Page
from peekrank.experiments.sweep import Sweep
from peekrank.experiments.sweep_runs import SETTING, SweepResult, run_sweep
from peekrank.jobs.results_dir import versions
from peekrank.regret import Exponent
from peekrank.reports.numbers import exponent_text, number, p_value_text, percent
from peekrank.reports.pages import command
from peekrank.reports.sweep_page import MOST_PICTURES, thin, write_pictures, write_sweep_report

SMALL = Sweep(
    "small", ("rtop1f", "ftpl", "uniform"), ("ct15:m=5", "ct15:m=6"), ("dcg",), k=(1, 2), horizons=(300,), runs=3
)


class Row(NamedTuple):
    setting: int
    texts: list[str]
    values: list[float | None]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    return run_sweep(SMALL, tmp_path_factory.mktemp("small"))


def written(finished: SweepResult, folder: Path) -> str:
    return write_sweep_report(finished, folder / "report.html").read_text(encoding="utf-8")


def rows(source: str, table: str) -> list[Row]:
    """The rows of a table by its id, as readers and as the script see them."""
    body = source.split(f'id="{table}"')[1].split("<tbody>")[1].split("</tbody>")[0]
    found = []
    for setting, content in re.findall(r'<tr data-c="(\d+)">(.*?)</tr>', body):
        entries = re.findall(r'<td(?: class="n" data-v="([^"]*)")?>(.*?)</td>', content)
        texts = [" ".join(Page(text).text.split()) for _, text in entries]
        found.append(Row(int(setting), texts, [float(value) if value else None for value, _ in entries]))
    return found


def drawn(source: str) -> dict[str, Any]:
    """What the script draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_one_file_that_loads_nothing(finished: SweepResult, tmp_path: Path) -> None:
    source = written(finished, tmp_path)
    page = Page(source)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert not page.loads
    assert len(set(page.ids)) == len(page.ids)
    assert "http:" not in source
    assert "https:" not in source
    assert "default-src 'none'" in source
    assert "scripts are switched off" in source.split("<noscript>")[1].split("</noscript>")[0]


def test_the_script_reads_only_what_the_page_has(finished: SweepResult, tmp_path: Path) -> None:
    source = written(finished, tmp_path)
    data, script = drawn(source), source.rpartition("<script>")[2]
    assert set(re.findall(r"\bdata\.(\w+)", script)) <= data.keys()
    assert set(re.findall(r"\b(?:packed|setting)\.(\w+)", script)) <= data["settings"][0].keys() | {"position"}


def test_the_same_sweep_gives_the_same_bytes(finished: SweepResult, tmp_path: Path) -> None:
    slower = SweepResult(
        finished.sweep,
        [r._replace(seconds=dict.fromkeys(r.seconds, 9.0)) for r in finished.results],
    )
    assert written(finished, tmp_path / "a") == written(slower, tmp_path / "b")


def test_what_was_asked_and_run_is_reported(finished: SweepResult, tmp_path: Path) -> None:
    source = written(finished, tmp_path)
    text = Page(source).text
    assert "4 settings; every learner has 3 runs in each" in text
    assert SMALL.digest in text
    assert "36, 3 of each learner in each setting" in text
    for name, version in versions().items():
        assert f"{name} {version}" in text
    for name in (*SMALL.learners, *SMALL.streams, *SMALL.measures):
        assert f"<dt><code>{name}</code></dt>" in source


def test_the_commands_repeat_it(finished: SweepResult, tmp_path: Path) -> None:
    shell = Page(written(finished, tmp_path).split('id="repeat"')[1].partition(">")[2].partition("</pre>")[0])
    lines = "".join(shell.pieces).splitlines()
    assert lines[0] == "cat > small-again.toml <<'END'"
    assert lines[-2:] == ["END", "peekrank sweep small-again.toml --out small-again"]
    assert Sweep(**tomllib.loads("\n".join(lines[1:-2]))) == SMALL
    commands = [setting["command"] for setting in drawn((tmp_path / "report.html").read_text())["settings"]]
    assert commands == [command(setting, "results/again") for setting in SMALL.settings]


def test_the_summary_is_that_of_the_sweep(finished: SweepResult, tmp_path: Path) -> None:
    shown = rows(written(finished, tmp_path), "summary")
    expected = finished.summary()
    assert len(shown) == len(expected) == 12
    for position, (row, true) in enumerate(zip(shown, expected.iter_rows(named=True), strict=True)):
        assert row.setting == position // 3
        assert row.texts[:3] == [true["stream"], str(true["k"]), true["learner"]]
        names = ("regret", "spread", None, "exponent", "bound", "explored")
        for value, name in zip(row.values[3:], names, strict=True):
            assert value is not None
            wanted = true["regret"] / true["horizon"] if name is None else true[name]
            assert math.isnan(value) if wanted is None else value == wanted or math.isnan(wanted)
        assert row.texts[3] == number(true["regret"])
        assert row.texts[6] == exponent_text(
            Exponent(true["exponent"], true["exponent_low"], true["exponent_high"])
        )
        assert row.texts[8] == percent(true["explored"])
    assert "In all rows: measure dcg, horizon 300." in Page((tmp_path / "report.html").read_text()).text


def test_the_comparisons_are_those_of_the_sweep(finished: SweepResult, tmp_path: Path) -> None:
    shown = rows(written(finished, tmp_path), "comparisons")
    expected = finished.comparisons()
    assert len(shown) == len(expected) == 12
    for row, true in zip(shown, expected.iter_rows(named=True), strict=True):
        assert row.texts[2:5] == [true["learner"], true["other"], true["verdict"]]
        assert row.values[5:] == [true["difference"], true["adjusted"], true["p"]]
        assert row.texts[6] == p_value_text(true["adjusted"])


def test_the_lead_counts_winners(finished: SweepResult, tmp_path: Path) -> None:
    lead = Page(written(finished, tmp_path).split('<p class="lead">')[1].partition("</p>")[0]).text
    by_setting = (
        finished.summary().group_by(*SETTING, maintain_order=True).agg(least=("learner"), regret=("regret"))
    )
    winners = [row["least"][int(np.argmin(row["regret"]))] for row in by_setting.iter_rows(named=True)]
    for name in set(winners):
        assert f"{name} in {winners.count(name)} of 4 settings" in lead
    different = (finished.comparisons()["adjusted"] <= 0.05).sum()
    assert f"Of 12 comparisons of two learners, {different} show" in lead


def test_curves_are_those_of_the_sweep(finished: SweepResult, tmp_path: Path) -> None:
    data = drawn(written(finished, tmp_path))
    assert [learner["name"] for learner in data["learners"]] == list(SMALL.learners)
    assert data["axes"] == [2, 1, 2, 1]
    for setting, result in zip(data["settings"], finished.results, strict=True):
        assert setting["checkpoints"] == result.checkpoints.tolist()
        assert setting["of"] == len(result.checkpoints)
        for packed, name in zip(setting["curves"], SMALL.learners, strict=True):
            numbers = np.frombuffer(base64.b64decode(packed), "<f4").reshape(-1, len(result.checkpoints))
            regrets = result.regrets(name)
            value = result.curves[name]["value"].to_numpy().reshape(regrets.shape)
            bound = result.bound(name, result.checkpoints)
            expected = [regrets.mean(0), regrets.std(0, ddof=1), value.mean(0), value.std(0, ddof=1)]
            expected += [] if bound is None else [bound]
            np.testing.assert_allclose(numbers, expected, rtol=1e-6, atol=1e-6)


def test_a_single_run_and_a_single_learner_have_a_report(tmp_path: Path) -> None:
    one = Sweep("one", ("uniform",), ("ct15:m=4",), ("dcg",), (1,), (1,), runs=1)
    source = written(run_sweep(one, tmp_path / "runs"), tmp_path)
    page = Page(source)
    assert 'id="comparisons"' not in source
    assert "With a single run there is no spread" in page.text
    (row,) = rows(source, "summary")
    assert row.texts[2] == "–"
    assert drawn(source)["settings"][0]["checkpoints"] == [1]


def test_strange_names_stay_text(tmp_path: Path) -> None:
    ratings = tmp_path / "<i>&'|\"$(x).csv"
    ratings.write_text("a,b,c\n1,0,1\n0,0,1\n")
    name = '</script><script>alert(1)</script> & {{ 1 }} "it\'s"'
    strange = Sweep(name, ("uniform", "ftpl"), (str(ratings),), ("dcg",), (1,), (20,), runs=2)
    source = written(run_sweep(strange, tmp_path / "runs"), tmp_path)
    page = Page(source)
    assert page.tags["script"] == 2
    assert page.tags["i"] == 0
    assert "alert(1)</script>" not in source
    assert name in page.text
    data = drawn(source)
    assert str(ratings) in data["settings"][0]["what"]
    assert shlex.split(data["settings"][0]["command"])[7] == f"ratings:path={ratings}"
    assert re.search(r"peekrank sweep [A-Za-z0-9-]+\.toml --out [A-Za-z0-9-]+", page.text)


@pytest.mark.parametrize("most", [2, 3, 30, 100])
@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_thinning_keeps_the_ends(count: int, most: int) -> None:
    checkpoints = np.unique(np.rint(np.geomspace(1, 10**6, count)).astype(np.int64))
    kept = thin(checkpoints, most)
    assert kept[0] == 0
    assert kept[-1] == len(checkpoints) - 1
    assert len(kept) <= max(2, min(most, len(checkpoints)))
    assert (np.diff(kept) > 0).all()
    if len(checkpoints) <= most:
        assert len(kept) == len(checkpoints)


def test_thinning_leaves_no_holes_on_either_axis() -> None:
    checkpoints = np.arange(1, 10**5 + 1)
    kept = checkpoints[thin(checkpoints, 100)]
    assert np.diff(kept).max() <= 1.01 * 10**5 / 49
    assert np.diff(np.log(kept))[kept[1:] > 10].max() <= 1.5 * np.log(10**5) / 49


@pytest.mark.slow
def test_a_large_sweep_is_thinned_cut_and_small(tmp_path: Path) -> None:
    benchmark = load_benchmark("reports")
    large = benchmark.synthetic(benchmark.large(300, 1))
    source = written(large, tmp_path)
    assert sum(len(frame) for result in large.results for frame in result.curves.values()) > 500_000
    assert len(source.encode()) < benchmark.BYTES
    text = Page(source.split("<script")[0] + "</body></html>").text
    assert "The first 1,500 of 3,000 rows; all are in comparisons.csv." in text
    assert len(rows(source, "summary")) == 1500
    data = drawn(source)
    for setting, result in zip(data["settings"], large.results, strict=True):
        assert setting["of"] == len(result.checkpoints) > len(setting["checkpoints"]) >= 30
        assert setting["checkpoints"][0] == 1
        assert setting["checkpoints"][-1] == 10**6
        assert set(setting["checkpoints"]) <= set(result.checkpoints.tolist())


def test_pictures_are_drawn_of_few_settings(finished: SweepResult, tmp_path: Path) -> None:
    two = SweepResult(SMALL, finished.results[:2])
    paths = write_pictures(two, tmp_path / "pictures")
    names = {
        f"{setting}-{what}.{kind}"
        for setting in (1, 2)
        for what in ("regret", "average")
        for kind in ("png", "svg")
    }
    assert {path.name for path in paths} == {path.name for path in (tmp_path / "pictures").iterdir()} == names
    many = SweepResult(SMALL, finished.results[:1] * (MOST_PICTURES + 1))
    assert write_pictures(many, tmp_path / "none") == []
    assert not (tmp_path / "none").exists()
