"""Which learner when: the table of the page is what the package advises, by figures that are what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.scripts import load_experiment
from peekrank.advice import evidence
from peekrank.learners import learner
from peekrank.measures import measure


@pytest.fixture(scope="module")
def choosing() -> Any:
    return load_experiment("choosing")


def test_the_table_is_what_the_package_advises(choosing: Any) -> None:
    lines = choosing.which_learner_when()
    assert len(lines) == 13
    assert "\n".join([choosing.BEGIN, "", *lines, "", "<!-- end -->"]) in choosing.PAGE.read_text(encoding="utf-8")


def test_capabilities_are_those_of_the_learners(choosing: Any) -> None:
    for line in choosing.which_learner_when()[2:-1]:
        name, comes_and_goes = line.split("|")[2].strip(" []").partition("]")[0], line.split("|")[5].strip()
        if name != "none":
            made = learner(name, measure=measure("p@3"), horizon=1000)
            assert comes_and_goes == ("no" if made.kernels.enter is None else "yes")


def test_all_is_measured_that_fits(choosing: Any) -> None:
    wanted = [
        (name, player.horizon is not None, game, k, label, length)
        for game, k in choosing.GAMES
        for label in choosing.STREAMS
        if not (label == "graded" and game == "p@3")
        for name in choosing.NAMES
        for player, lengths in choosing.players(name, measure(game), 4 if label == "graded" else 1, k)
        for length in lengths
    ]
    assert [row[:6] for row in evidence.streams()] == wanted
    assert all(row.mean > 0 and row.sd > 0 for row in evidence.streams())
    assert all(row.mean > 0 and row.sd > 0 for row in evidence.visitors())


@pytest.mark.slow
def test_figures_are_what_a_run_gives(choosing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one game, within four standard deviations of the mean of ten."""
    monkeypatch.setattr(choosing, "GAMES", (("dcg", 1),))
    monkeypatch.setattr(choosing, "NAMES", ("doubtsort", "marginftrl"))
    monkeypatch.setattr(choosing, "LENGTHS", (10_000,))
    kept = {row[:6]: row for row in evidence.streams()}
    for row in choosing.streams(2):
        assert row.mean == pytest.approx(kept[row[:6]].mean, abs=4 * kept[row[:6]].sd)
