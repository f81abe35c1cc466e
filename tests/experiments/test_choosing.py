"""Which learner when: the table is what the package advises, and the record has the measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import records

from helpers.scripts import ROOT, load_experiment
from peekrank.advice import benchmarks
from peekrank.learners import learner
from peekrank.measures import measure


@pytest.fixture(scope="module")
def choosing() -> Any:
    return load_experiment("choosing")


def test_the_table_is_what_the_package_advises(choosing: Any) -> None:
    lines = choosing.which_learner_when()
    assert len(lines) == 13
    assert "\n".join(lines) in (ROOT / "docs" / "learners" / "index.md").read_text(encoding="utf-8")


def test_the_record_has_the_figures_of_the_package(choosing: Any) -> None:
    kept = {table.title: table for table in records.read(records.FOLDER / "choosing.json").tables}
    for table in choosing.recorded():
        assert (kept[table.title].columns, kept[table.title].rows) == (table.columns, table.rows)


def test_the_record_is_written_from_the_file_of_the_package(choosing: Any, tmp_path: Path) -> None:
    choosing.main(["--record", str(tmp_path / "choosing.json")])
    assert records.read(tmp_path / "choosing.json").tables == choosing.recorded()


def test_capabilities_are_those_of_the_learners(choosing: Any) -> None:
    for line in choosing.which_learner_when()[2:-1]:
        name, comes_and_goes = line.split("|")[2].strip(" []").partition("]")[0], line.split("|")[5].strip()
        if name != "none":
            made = learner(name, measure=measure("p@3+sum"), horizon=1000)
            assert comes_and_goes == ("no" if made.kernels.set_items is None else "yes")


def test_all_is_measured_that_fits(choosing: Any) -> None:
    wanted = [
        (name, player.horizon is not None, game, k, label, length)
        for game, k in choosing.GAMES
        for label in choosing.STREAMS
        if not (label == "graded" and game == "p@3+sum")
        for name in choosing.NAMES
        for player, lengths in choosing.players(name, measure(game), 4 if label == "graded" else 1, k)
        for length in lengths
    ]
    assert [row[:6] for row in benchmarks.streams()] == wanted
    assert all(row.mean > 0 and row.sd > 0 for row in benchmarks.streams())
    assert all(row.mean > 0 and row.sd > 0 for row in benchmarks.visitors())


@pytest.mark.slow
def test_figures_are_what_a_run_gives(choosing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one game, within four standard deviations of the mean of ten."""
    monkeypatch.setattr(choosing, "GAMES", (("dcg", 1),))
    monkeypatch.setattr(choosing, "NAMES", ("doubtsort", "marginftrl"))
    monkeypatch.setattr(choosing, "LENGTHS", (10_000,))
    kept = {row[:6]: row for row in benchmarks.streams()}
    for row in choosing.streams(2):
        assert row.mean == pytest.approx(kept[row[:6]].mean, abs=4 * kept[row[:6]].sd)
