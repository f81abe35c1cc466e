"""`peekrank.compare`: the frame is that of a sweep, and the figure has a panel for each setting."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from peekrank import LearnerComparison, Sweep, compare, run_sweep

LEARNERS = ["greedy", "uniform"]


@pytest.fixture(scope="module")
def done() -> LearnerComparison:
    return compare(LEARNERS, ["ct15:m=4", "drifting:m=4"], horizons=100, runs=2, k=[1, 2])


def test_the_frame_is_that_of_the_sweep(done: LearnerComparison, tmp_path: Path) -> None:
    streams, learners = ("ct15:m=4", "drifting:m=4"), tuple(LEARNERS)
    same = run_sweep(Sweep("another", learners, streams, ("dcg",), (1, 2), (100,), runs=2), tmp_path / "s")
    assert done.frame().equals(same.frame())
    last = done.frame().filter(pl.col("checkpoint") == 100)
    assert len(last) == 2 * 2 * 2 * 2
    means = last.group_by("stream", "k", "learner", maintain_order=True).agg(pl.col("regret").mean())
    assert means["regret"].to_list() == pytest.approx(done.summary()["regret"].to_list())


def test_the_figure_has_a_panel_for_each_setting_and_the_names_given(done: LearnerComparison) -> None:
    figure = done.plot(names={"greedy": "ours"})
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 4
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "uniform"]


def test_too_many_settings_for_a_figure() -> None:
    many = compare("uniform", "ct15:m=4", horizons=list(range(10, 23)), runs=1)
    with pytest.raises(ValueError, match="13 settings"):
        many.plot()
