"""Pictures: what is drawn is what was computed, files are whole and reproducible, SVGs can share a page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from peekrank.experiments.experiment import Experiment, Result
from peekrank.experiments.runs import run
from peekrank.reports import plots
from peekrank.types import Floats

LEARNERS = ("rtop1f", "rtop1f:order=fixed", "ftpl", "uniform")
SMALL = Experiment(LEARNERS, "ct15:m=6,noise=0.25", "dcg", k=1, horizon=200, runs=3, same_rounds=True)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(SMALL, tmp_path_factory.mktemp("result"))


def table(result: Result, learner: str) -> Floats:
    """Regrets by run and checkpoint, from the frame itself."""
    frame = result.curves[learner]
    return np.array([frame.filter(pl.col("run") == i)["regret"].to_list() for i in range(result.experiment.runs)])


def shifted(result: Result, by: float) -> Result:
    """The same result with all regrets moved."""
    return result._replace(
        curves={name: frame.with_columns(regret=pl.col("regret") + by) for name, frame in result.curves.items()}
    )


def single(result: Result) -> Result:
    """The first run of a result alone."""
    return Result(
        replace(result.experiment, runs=1),
        result.checkpoints,
        {name: frame.filter(pl.col("run") == 0) for name, frame in result.curves.items()},
        result.seconds,
    )


def lines(figure: Figure, start: str) -> list[Line2D]:
    return [line for line in figure.axes[0].get_lines() if str(line.get_label()).startswith(start)]


def drawn(line: Line2D) -> tuple[Floats, Floats]:
    points = np.asarray(line.get_xydata())
    return points[:, 0], points[:, 1]


def bands(axes: Axes) -> list[tuple[Floats, Floats]]:
    """Lower and upper edge of every band."""
    found = []
    for band in axes.collections:
        assert isinstance(band, PolyCollection)
        corners = np.asarray(band.get_paths()[0].vertices)
        n = len(corners) // 2
        found.append((corners[1:n, 1], corners[n + 1 : -1, 1][::-1]))
    return found


def test_average_regret_draws_means_and_standard_deviations(result: Result) -> None:
    axes = plots.average_regret(result).axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "linear"
    assert axes.get_xlabel() == "rounds"
    assert axes.get_ylabel() == "regret per round (DCG)"
    for learner, (low, high) in zip(LEARNERS, bands(axes), strict=True):
        average = table(result, learner) / result.checkpoints
        (line,) = [line for line in axes.get_lines() if line.get_label() == learner]
        x, y = drawn(line)
        np.testing.assert_array_equal(x, result.checkpoints)
        np.testing.assert_allclose(y, average.sum(axis=0) / 3)
        deviation = np.sqrt(((average - y) ** 2).sum(axis=0) / 2)
        np.testing.assert_allclose(low, y - deviation, atol=1e-12)
        np.testing.assert_allclose(high, y + deviation, atol=1e-12)


def test_average_regret_starts_where_told(result: Result) -> None:
    figure = plots.average_regret(result, start=50, learners=["ftpl"])
    x, y = drawn(*lines(figure, "ftpl"))
    np.testing.assert_array_equal(x, [t for t in result.checkpoints if t >= 50])
    assert y[0] == pytest.approx(table(result, "ftpl")[:, result.checkpoints == x[0]].mean() / x[0])
    assert not lines(figure, "rtop1f")


def test_the_title_says_who_sees_what(result: Result) -> None:
    """CT15's Figure 2 shows one learner that sees the top and one that sees everything."""
    titles = [
        plots.average_regret(result, learners=shown, names={"ftpl": "FTPL"}).axes[0].get_title(loc="left")
        for shown in (["rtop1f"], ["rtop1f", "ftpl"], ["ftpl"])
    ]
    revealed = [title.partition("\n")[0].partition(", ")[2] for title in titles]
    assert [text.removeprefix("noise=0.25, ") for text in revealed] == [
        "top 1 of 6 revealed",
        "top 1 of 6 revealed, to FTPL all",
        "all 6 revealed",
    ]


def test_legends_have_the_names_that_are_given(result: Result) -> None:
    names = {"rtop1f": "of the paper", "ftpl": "with everything"}
    for figure in (plots.average_regret(result, names=names), plots.cumulative_regret(result, names=names)):
        (legend,) = figure.legends
        first = [text.get_text().partition(" (")[0] for text in legend.get_texts()[:4]]
        assert first == ["of the paper", "rtop1f:order=fixed", "with everything", "uniform"]


def test_pdf_has_no_type_3_fonts(result: Result, tmp_path: Path) -> None:
    plots.save_as(plots.average_regret(result), tmp_path / "a.pdf")
    plots.average_regret(result).savefig(tmp_path / "b.pdf")
    for name in ("a.pdf", "b.pdf"):
        content = (tmp_path / name).read_bytes()
        assert b"/Subtype /Type3" not in content
        assert b"/CIDFontType2" in content


@pytest.mark.parametrize("start", [0, 201])
def test_start_outside_the_rounds_is_refused(result: Result, start: int) -> None:
    with pytest.raises(ValueError, match=f"start = {start}"):
        plots.average_regret(result, start=start)


@pytest.mark.parametrize("learners", [[], ["ftpl", "nobody"]])
def test_unknown_learners_are_refused(result: Result, learners: list[str]) -> None:
    with pytest.raises(ValueError, match="learners"):
        plots.average_regret(result, learners=learners)


def test_cumulative_regret_draws_means_bounds_and_exponents(result: Result) -> None:
    figure = plots.cumulative_regret(result)
    axes = figure.axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    for summary in result.summaries():
        (line,) = lines(figure, f"{summary.learner} (exponent {summary.exponent.value:.2f})")
        mean = table(result, summary.learner).mean(axis=0)
        np.testing.assert_allclose(drawn(line)[1], np.where(mean > 0, mean, np.nan))
        found = [
            bound
            for bound in lines(figure, "bound for ")
            if summary.learner in str(bound.get_label())[10:].split()
        ]
        assert len(found) == (summary.bound is not None)
        for bound in found:
            x, y = drawn(bound)
            assert (x[0], x[-1]) == (result.checkpoints[0], result.checkpoints[-1])
            assert set(x) <= set(result.checkpoints)
            assert min(len(result.checkpoints), 20) <= len(x) <= 40
            assert y[-1] == pytest.approx(summary.bound)
            made = SMALL.learner(summary.learner)
            shape = SMALL.shape._replace(k=6) if made.full_information else SMALL.shape
            assert list(y) == [made.bound(shape, int(t)) for t in x]
            assert bound.get_color() == line.get_color()
            assert bound.get_linestyle() == "--"
            assert line.get_linestyle() == "-"


def test_bounds_are_explained_in_the_legend(result: Result) -> None:
    (legend,) = plots.cumulative_regret(result).legends
    assert "bound at t, for the learner tuned to t rounds" in legend.get_title().get_text()
    assert [text.get_text() for text in legend.get_texts()][4:] == ["its bound", "its bound", "its bound", ""]


def test_a_learner_looks_the_same_in_every_figure_and_unlike_the_others(result: Result) -> None:
    everywhere = [
        plots.average_regret(result),
        plots.average_regret(result, start=100, learners=LEARNERS[::-1]),
        plots.cumulative_regret(result),
    ]
    looks = {
        learner: {
            (to_hex(line.get_color()), line.get_marker())
            for figure in everywhere
            for line in figure.axes[0].get_lines()
            if str(line.get_label()).split(" ")[0] == learner
        }
        for learner in LEARNERS
    }
    assert all(len(look) == 1 for look in looks.values())
    colours, markers = zip(*(look for (look,) in looks.values()), strict=True)
    assert len(set(colours)) == len(set(markers)) == 4


def test_regret_that_is_not_positive_is_left_out_of_the_log_figure(result: Result) -> None:
    below = shifted(result, -30.0)
    figure = plots.cumulative_regret(below)
    mean = table(below, "rtop1f").mean(axis=0)
    assert (mean < 0).any()
    assert (mean > 0).any()
    np.testing.assert_array_equal(np.isnan(drawn(lines(figure, "rtop1f (")[0])[1]), mean <= 0)
    low, high = figure.axes[0].get_ylim()
    assert 0 < low < high
    assert all(edge.min() >= low for edges in bands(figure.axes[0]) for edge in edges)


def test_no_positive_regret_at_all(result: Result) -> None:
    figure = plots.cumulative_regret(shifted(result, -1e6))
    assert lines(figure, "uniform (no exponent)")
    assert plots.inline_svg(figure)


def test_rounding_errors_do_not_stretch_the_log_figure(result: Result) -> None:
    noise = pl.when(pl.col("checkpoints") == 1).then(1e-13).otherwise(pl.col("regret"))
    curves = {name: frame.with_columns(regret=noise) for name, frame in result.curves.items()}
    figure = plots.cumulative_regret(result._replace(curves=curves))
    assert figure.axes[0].get_ylim()[0] > 0.01
    assert np.isnan(drawn(lines(figure, "rtop1f (")[0])[1][0])


def test_a_single_run_has_no_band(result: Result) -> None:
    for figure in (plots.average_regret(single(result)), plots.cumulative_regret(single(result))):
        assert not figure.axes[0].collections
        assert "single run" in figure.axes[0].get_title(loc="left")


def test_no_bound_at_all(tmp_path: Path) -> None:
    figure = plots.cumulative_regret(run(replace(SMALL, learners=("uniform",)), tmp_path))
    assert not lines(figure, "bound")
    assert len(figure.legends[0].get_texts()) == 1


def test_one_round(tmp_path: Path) -> None:
    result = run(replace(SMALL, horizon=1), tmp_path)
    assert plots.inline_svg(plots.average_regret(result))
    assert plots.inline_svg(plots.cumulative_regret(result))


def test_axes_have_labels_also_over_a_short_range(result: Result) -> None:
    for figure in (plots.cumulative_regret(result), plots.cumulative_regret(shifted(single(result), 500))):
        for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
            low, high = axis.get_view_interval()
            assert sum(low <= tick <= high for tick in axis.get_ticklocs()) >= 2


def test_numbers_have_thousands_separators(tmp_path: Path) -> None:
    result = run(replace(SMALL, learners=("uniform",), horizon=20_000, runs=2), tmp_path)
    for figure in (plots.average_regret(result), plots.cumulative_regret(result)):
        assert "10,000" in [label.get_text() for label in figure.axes[0].get_xticklabels()]


def test_nothing_sticks_out_of_the_picture(tmp_path: Path) -> None:
    learners = ("rtop1f:order=fixed,blocks=7,epsilon=0.0123", *LEARNERS)
    result = run(replace(SMALL, learners=learners), tmp_path)
    for figure in (plots.average_regret(result), plots.cumulative_regret(result)):
        figure.draw_without_rendering()
        page, boxes = figure.bbox, [figure.legends[0].get_tightbbox(), figure.axes[0].get_tightbbox()]
        legend, axes = [box for box in boxes if box is not None]
        assert not legend.overlaps(axes)
        for box in (legend, axes):
            assert page.x0 <= box.x0 <= box.x1 <= page.x1
            assert page.y0 <= box.y0 <= box.y1 <= page.y1


def test_save_writes_whole_files_and_the_same_bytes_again(result: Result, tmp_path: Path) -> None:
    figure = plots.cumulative_regret(result)
    paths = plots.save(figure, tmp_path / "new" / "folder", "regret")
    assert [path.name for path in paths] == ["regret.png", "regret.svg"]
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["regret.png", "regret.svg"]
    with Image.open(paths[0]) as image:
        image.verify()
        assert image.format == "PNG"
        assert round(image.info["dpi"][0]) == 150
    assert ElementTree.parse(paths[1]).getroot().tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314
    first = [path.read_bytes() for path in paths]
    for again in (figure, plots.cumulative_regret(result)):
        assert [path.read_bytes() for path in plots.save(again, tmp_path, "again")] == first


def test_nothing_is_left_of_a_failed_write(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = plots.average_regret(result)
    (old, _) = plots.save(figure, tmp_path, "regret")
    before = old.read_bytes()
    monkeypatch.setattr(Figure, "savefig", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plots.save(figure, tmp_path, "regret")
    assert old.read_bytes() == before


def test_settings_of_the_user_neither_matter_nor_change(result: Result) -> None:
    expected = plots.inline_svg(plots.average_regret(result))
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "axes.grid": False}):
        before = dict(matplotlib.rcParams)
        assert plots.inline_svg(plots.average_regret(result)) == expected
        assert dict(matplotlib.rcParams) == before


def test_inline_svgs_can_share_a_page(result: Result) -> None:
    svgs = [plots.inline_svg(plots.average_regret(result)), plots.inline_svg(plots.cumulative_regret(result))]
    page = "".join(svgs)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 20
    for svg in svgs:
        own = set(re.findall(r'\bid="([^"]+)"', svg))
        assert set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg)) <= own
    assert "http" not in page
    assert "<?xml" not in page
    assert "<style" not in page
    assert "<!DOCTYPE" not in page


def test_inline_svg_is_described_and_as_wide_as_its_box(result: Result) -> None:
    root = ElementTree.fromstring(plots.inline_svg(plots.average_regret(result)))  # noqa: S314
    assert root.get("width") == "100%"
    assert root.get("height") is None
    assert root.get("role") == "img"
    title, description = root[0], root[1]
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == "regret per round (DCG) against rounds"
    last = table(result, "ftpl")[:, -1].mean() / 200
    assert f"ftpl: {last:.4g} at 200" in str(description.text)


def test_labels_are_not_read_as_formulas(tmp_path: Path) -> None:
    ratings = tmp_path / "a$b_c$<d>.csv"
    ratings.write_text("one,two,three\n1,2,3\n3,1,2\n")
    result = run(replace(SMALL, stream=str(ratings), learners=("uniform",), k=1), tmp_path / "out")
    figure = plots.average_regret(result)
    assert "a$b_c$<d>.csv" in figure.axes[0].get_title(loc="left")
    assert plots.inline_svg(figure)


def test_who_was_shown_when_is_what_was_given(tmp_path: Path) -> None:
    """A cell for each item and part of the rounds, the first item on top, nothing where it was not available."""
    positions = np.array([[1.0, 1.5, np.nan], [np.nan, 2.0, 1.0]])
    figure = plots.shown_when(positions, 300, "two items")
    axes, bar = figure.axes
    (image,) = axes.get_images()
    drawn: Any = image.get_array()
    assert np.array_equal(drawn.filled(np.nan), positions, equal_nan=True)
    assert list(image.get_extent()) == [0, 300, 2, 0]
    assert axes.get_title(loc="left") == "two items"
    assert bar.get_ylim()[0] > bar.get_ylim()[1]  # the first position is on top
    plots.save_as(figure, tmp_path / "a.svg")
    plots.save_as(plots.shown_when(positions, 300, "two items"), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
