"""The report: one file that needs nothing else, says what was computed, and fits every result."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from helpers.strict_html import Page
from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.runs import run
from peekrank.reports import plots
from peekrank.reports.experiment_page import regret_reductions, repeats_paper, roles, write_report
from peekrank.reports.numbers import decimals, number, percent
from peekrank.reports.pages import command

LEARNERS = ("rtop1f", "rtop1f:order=fixed", "ftpl", "uniform")
PAPER = Experiment(LEARNERS, "ct15:m=10,noise=0.25", "dcg", k=1, horizon=2000, runs=3, same_rounds=True)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(PAPER, tmp_path_factory.mktemp("paper"))


def report(result: Result, folder: Path, title: str = "A title") -> Page:
    path = write_report(result, folder / "report.html", title=title)
    return Page(path.read_text(encoding="utf-8"))


def test_one_file_that_loads_nothing(paper: Result, tmp_path: Path) -> None:
    page = report(paper, tmp_path)
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert not page.loads
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert "http://" not in source
    assert "https://" not in source
    assert "@import" not in source
    assert not re.findall(r"url\((?!#)", source)
    assert len(page.ids) == len(set(page.ids)) > 50


def test_structure(paper: Result, tmp_path: Path) -> None:
    page = report(paper, tmp_path)
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.tags["h1"] == page.tags["main"] == 1
    assert page.tags["figure"] == page.tags["figcaption"] == page.tags["svg"] == 3
    assert source.count('<div class="wide"') == page.tags["table"]
    assert '<html lang="en">' in source
    assert 'name="viewport"' in source
    assert "prefers-color-scheme: dark" in source


def test_every_summary_is_reported(paper: Result, tmp_path: Path) -> None:
    text = report(paper, tmp_path).text
    for s in paper.summaries():
        row = f"{s.learner} {s.regret:,.0f}" if s.regret >= 100 else f"{s.learner} {s.regret:.1f}"
        assert row in text
        assert f"± {number(s.spread)} {s.regret / 2000:.3f}" in text
        assert f"{s.exponent.value:.2f} [{s.exponent.low:.2f}, {s.exponent.high:.2f}]" in text
        assert (f"{s.bound:,.0f} {s.explored:.1%}".replace("%", " %") if s.bound else "– 0.0 %") in text
        assert f"{s.rounds_per_second:,.0f}" in text


def test_numbers_of_the_figures_are_computed(paper: Result, tmp_path: Path) -> None:
    text = report(paper, tmp_path).text
    for learner in LEARNERS[:3]:
        mean = paper.regrets(learner).mean(axis=0) / paper.checkpoints
        levels = [float(mean[list(paper.checkpoints).index(t)]) for t in (20, 200, 2000)]
        cells = " ".join([learner, *(f"{level:.3f}" for level in levels), f"÷ {levels[1] / levels[2]:.1f}"])
        assert cells.replace(" ", "") in text.replace(" ", "")
    final = {s.learner: s.regret for s in paper.summaries()}
    assert f"rtop1f has {number(final['rtop1f'] / final['ftpl'])} times the regret of ftpl" in text
    assert f"Random orders lost {final['uniform'] / 2000:.3f} per round" in text
    assert f"÷ {10 ** (1 / 3):.1f} from 200 to 2,000 rounds" in text
    last = paper.curves["ftpl"].filter(pl.col("checkpoints") == 2000)
    best = (last["value"] + last["regret"]).to_numpy().mean() / 2000
    assert f"that order earns {best:.2f} DCG per round" in text


def test_regret_of_the_last_tenth(paper: Result) -> None:
    rounds, (found,) = regret_reductions(paper, ["rtop1f"])
    assert rounds == [20, 200, 2000]
    mean = dict(zip(paper.checkpoints.tolist(), paper.regrets("rtop1f").mean(axis=0), strict=True))
    assert found.last == pytest.approx((mean[2000] - mean[1800]) / 200)
    assert found.factor == pytest.approx(found.levels[1] / found.levels[2])


def test_when_half_of_the_random_regret_is_reached(paper: Result, tmp_path: Path) -> None:
    level = paper.regrets("uniform")[:, -1].mean() / 2000 / 2
    average = paper.regrets("rtop1f:order=fixed").mean(axis=0) / paper.checkpoints
    first = next(t for i, t in enumerate(paper.checkpoints) if (average[i:] < level).all())
    text = report(paper, tmp_path).text
    assert f"rtop1f:order=fixed from round {first:,} on." in text
    alone = run(replace(PAPER, learners=("uniform",), horizon=100), tmp_path / "runs")
    assert "uniform not yet." in report(alone, tmp_path).text


def test_the_paper_is_quoted_where_it_applies(paper: Result, tmp_path: Path) -> None:
    text = report(paper, tmp_path).text
    assert "CT15 Figure 1: top-1 feedback" in text
    assert "CT15 Figure 2: top-1 feedback against full information" in text
    assert "standard deviation 0.25 and the cut is at 1/2, so 2.3 % of the answers are flipped" in text
    assert "a bootstrap interval over runs" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"stream": "ct15:m=4", "horizon": 50}, True),
        ({"stream": "switching"}, False),
        ({"k": 2}, False),
        ({"measure": "sumloss"}, False),
    ],
)
def test_what_counts_as_the_paper(change: dict[str, object], expected: bool) -> None:
    assert repeats_paper(replace(PAPER, **change)) is expected  # type: ignore[arg-type]


def test_other_results_get_no_quotes(tmp_path: Path) -> None:
    experiment = Experiment(("rtop1f", "uniform"), "switching:m=6", "sumloss", k=2, horizon=200, runs=2)
    page = report(run(experiment, tmp_path / "runs"), tmp_path)
    assert "Figure 1" not in page.text
    assert "the paper" not in page.text
    assert "full information" not in page.text
    assert page.tags["svg"] == 2
    assert "sees this only for the first 2 items" in page.text
    assert "how much more the learner paid" in page.text
    assert "the people and in the random draws of the learners" in page.text


def test_a_single_run(tmp_path: Path) -> None:
    result = run(replace(PAPER, horizon=200, runs=1), tmp_path / "runs")
    assert all(math.isnan(s.spread) for s in result.summaries())
    text = report(result, tmp_path).text
    assert "nan" not in text.lower()
    assert "±" not in text
    assert "With a single run there is no spread" in text


def test_regret_below_zero_and_of_no_exponent(paper: Result, tmp_path: Path) -> None:
    curves = {name: frame.with_columns(regret=-pl.col("regret")) for name, frame in paper.curves.items()}
    text = report(paper._replace(curves=curves), tmp_path).text
    assert "Regret below 0 (rtop1f, rtop1f:order=fixed, ftpl, uniform) is possible" in text
    assert "is ahead by" in text
    assert "No learner has positive regret to fit" in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("learners", [("uniform",), ("ftpl",), ("ftpl", "uniform")])
def test_no_learner_with_partial_feedback(learners: tuple[str, ...], tmp_path: Path) -> None:
    page = report(run(replace(PAPER, learners=learners, horizon=100), tmp_path / "runs"), tmp_path)
    assert page.tags["svg"] == 2
    assert ("These learners have no proved bound" in page.text) == (learners == ("uniform",))


@pytest.mark.parametrize("horizon", [1, 2, 15])
def test_few_rounds(horizon: int, tmp_path: Path) -> None:
    text = report(run(replace(PAPER, horizon=horizon), tmp_path / "runs"), tmp_path).text
    assert not re.search(r"\bnan\b", text.lower())
    assert not re.search(r"\binf\b", text.lower())


def test_all_answers_seen(tmp_path: Path) -> None:
    experiment = Experiment(("rtop1f",), "binomial:m=3", "p@2+sum", k=3, horizon=100, runs=2)
    page = report(run(experiment, tmp_path / "runs"), tmp_path)
    assert "and the system sees which" in page.text
    assert "hidden" not in page.text
    assert "Precision@2" in page.text
    assert "max grade" in page.text


def test_more_items_than_fit(tmp_path: Path) -> None:
    experiment = Experiment(("uniform",), "ct15:m=1200", "dcg", k=1, horizon=20, runs=2)
    text = report(run(experiment, tmp_path / "runs"), tmp_path).text
    assert "the first 10 of 1,200 positions" in text
    assert text.count("hidden") == 9


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    evil = '<img src=x onerror="alert(1)">&amp;'
    ratings = tmp_path / f"{evil}.csv"
    ratings.write_text("one,two,three\n1,2,3\n3,1,2\n")
    experiment = Experiment(("rtop1f", "uniform"), str(ratings), "dcg", k=1, horizon=50, runs=2)
    page = report(run(experiment, tmp_path / "runs"), tmp_path, title=f"<script>{evil}</script>")
    assert not {"script", "img"} & set(page.tags)
    assert f"{evil}.csv" in page.text
    assert f"<script>{evil}</script>" in page.text


def test_hostile_learner_is_escaped(paper: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "rtop1f:<b onclick=x>"
    monkeypatch.setattr(Experiment, "__post_init__", lambda self: None)
    hostile = replace(PAPER, learners=(evil, *LEARNERS[1:]))
    hostile.__dict__["parts"] = PAPER.parts
    curves = {name: paper.curves[old] for name, old in zip(hostile.learners, LEARNERS, strict=True)}
    seconds = dict.fromkeys(hostile.learners, 1.0)
    page = report(Result(hostile, paper.checkpoints, curves, seconds), tmp_path)
    assert "b" not in page.tags
    assert page.text.count(evil) > 5


def test_the_command_repeats_the_experiment(tmp_path: Path) -> None:
    ratings = tmp_path / "my file.csv"
    ratings.write_text("one,two\n1,2\n")
    experiment = replace(PAPER, stream=str(ratings), seed=7, same_rounds=False)
    words = shlex.split(command(experiment, "a folder"))
    assert words[:6] == ["peekrank", "simulate", *LEARNERS]
    options = dict(zip(words[6::2], words[7::2], strict=True))
    assert options == {
        "--measure": "dcg", "--stream": str(ratings), "--k": "1", "--horizon": "2000", "--runs": "3",
        "--seed": "7", "--out": "a folder",
    }  # fmt: skip
    assert "--same-rounds" in command(PAPER, "x")


def test_the_page_shows_the_command_and_versions(paper: Result, tmp_path: Path) -> None:
    text = report(paper, tmp_path).text
    assert command(PAPER, "results/again") in text
    assert re.search(r"Python 3\.\d+\.\d+, peekrank \d", text)


def test_the_pictures_are_those_of_the_plots(paper: Result, tmp_path: Path) -> None:
    report(paper, tmp_path)
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    for figure in (
        plots.average_regret(paper, learners=LEARNERS[:2]),
        plots.average_regret(paper, start=200, learners=LEARNERS[:3]),
        plots.cumulative_regret(paper),
    ):
        assert plots.inline_svg(figure) in source


def test_roles() -> None:
    assert roles(PAPER) == (["rtop1f", "rtop1f:order=fixed"], ["ftpl"], ["uniform"])


def test_number_formats() -> None:
    assert [number(x) for x in (None, math.nan, -1234.6, -0.5, 99.96)] == ["–", "–", "-1,235", "-0.500", "100.0"]
    assert [decimals(math.nan), decimals(1 / 3, 1)] == ["–", "0.3"]
    assert [percent(math.nan), percent(0.0225)] == ["–", "2.2 %"]
